"""A recorded attempt up to a decision point: its steps, what of them changed the machine, and the conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from misstep.experiment.branch import forms
from misstep.models.request import Message
from misstep.sandbox.record import Recording, from_trajectory
from misstep.trajectory import Trajectory
from misstep.trajectory.model import Call, Step
from misstep.trajectory.readers.mini_swe_agent import SUBMIT

_NOTES = (
    "update_plan todowrite todoread todo_write todo_read write_todos think exitplanmode enterplanmode report_intent"
)
HARMLESS = frozenset(_NOTES.split())
"""Tools that change nothing but the agent's own notes."""
_NO_EFFECT = ("refused:", "malformed:", "never-ran:")
"""Of the reasons for which a recording leaves calls out: those in which nothing can have happened."""
_UNKNOWN = "a tool that is not known"


def first_prompt(trajectory: Trajectory) -> str:
    """The task as the agent got it, '' where no prompt is on record."""
    return next((step.message for step in trajectory.steps if step.prompt), "")


def submits(call: Call) -> bool:
    """Whether a call is the agent's way to stop: to a policy that is the stop itself."""
    return call.kind == "finish" or any(marker in (call.command or "") for marker in SUBMIT)


def before(trajectory: Trajectory, step: int, call: str) -> Trajectory:
    """The steps up to an event: of its own step the calls before that one; at a stop (no call) all but what submits."""
    made = _like(trajectory, trajectory.steps[:step])
    last = trajectory.steps[step]
    if call:
        number = next(n for n, one in enumerate(last.calls) if one.id == call)
        calls = last.calls[:number]
    else:
        calls = [one for one in last.calls if not submits(one)]
    made.steps.append(_step_like(last, calls))
    return made


def call_of(trajectory: Trajectory, step: int, call: str) -> Call | None:
    """The call that is proposed at a point, None at a stop."""
    return next((one for one in trajectory.steps[step].calls if one.id == call), None) if call else None


def _like(trajectory: Trajectory, steps: list[Step]) -> Trajectory:
    made = Trajectory(trajectory.id, trajectory.format, trajectory.agent, list(steps), trajectory.path)
    made.agent_version, made.model, made.cwd = trajectory.agent_version, trajectory.model, trajectory.cwd
    made.late = trajectory.late
    return made


def _step_like(step: Step, calls: list[Call]) -> Step:
    made = Step(step.source, step.message, step.reasoning, list(calls))
    made.results = {one.id: step.results[one.id] for one in calls if one.id in step.results}
    made.time, made.id, made.model, made.metrics = step.time, step.id, step.model, step.metrics
    made.copied, made.compacted, made.extra = step.copied, step.compacted, step.extra
    made.stop = False if calls else None
    return made


def recording_of(cut: Trajectory) -> Recording:
    """What was done to the machine up to the point.

    Outputs of our own loop are cut in the one way in which a replay cuts them, so they can be compared although cut.
    """
    recording = from_trajectory(cut)
    if cut.agent != forms.AGENT:
        return recording
    shown = [step.results.get(call.id) for step in cut.steps for call in step.calls]
    kept = [one.output if one is not None else None for one in shown]
    if len(kept) != len(recording.commands):
        return recording
    return replace(
        recording,
        commands=tuple(replace(one, output=text) for one, text in zip(recording.commands, kept, strict=True)),
    )


def obstacle(cut: Trajectory, recording: Recording) -> str:
    """Why the record alone says that a point cannot be rebuilt; '' where only a replay can tell."""
    if cut.late:
        return "the record begins in the middle of the session"
    if any(step.compacted or step.copied for step in cut.steps):
        return "the conversation was summarised before it"
    skipped = dict(recording.skipped)
    unknown = sorted(
        {
            call.tool
            for step in cut.steps
            for call in step.calls
            if call.kind == "other" and call.tool.rpartition(".")[2].lower() not in HARMLESS
        }
    )
    if unknown:
        return f"it used a tool that cannot be replayed: {unknown[0]}"
    skipped.pop(_UNKNOWN, None)
    for reason in skipped:
        if not reason.startswith(_NO_EFFECT):
            return f"it cannot be replayed: {reason.removesuffix(': it had no effect')}"
    for one in recording.commands:
        if one.output is None and not one.edits:
            return f"the record does not tell what a command showed: {one.shown[:100]}"
    return ""


# -- the conversation ----------------------------------------------------------------------------------------------------


def conversation(cut: Trajectory, proposed: Call | None) -> tuple[list[Message], bool]:
    """The messages up to and with the agent's own at the point, and whether they are those that it really had.

    They are for our own loop and for mini-swe-agent in text mode; of other agents the conversation is told in our own form.
    """
    if cut.agent == "mini-swe-agent" and cut.format == "mini-swe-agent":
        exact = _mini(Path(cut.path), sum(step.source == "agent" for step in cut.steps))
        if exact:
            return exact, True
    return list(_told(cut, proposed)), cut.agent == forms.AGENT


def _mini(path: Path, answers: int) -> list[Message]:
    """The messages of a mini-swe-agent's file up to its answer of that number; [] where they are not plain texts."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    given = document if isinstance(document, list) else document.get("messages", [])
    made: list[Message] = []
    for message in given:
        if not isinstance(message, dict):
            return []
        role, content = message.get("role"), message.get("content")
        if role not in ("system", "user", "assistant") or not isinstance(content, str) or message.get("tool_calls"):
            return []
        made.append(Message(role, content))
        answers -= role == "assistant" or "model_response" in (message.get("extra") or {})
        if not answers:
            return made
    return []


def _told(cut: Trajectory, proposed: Call | None) -> Iterator[Message]:
    ours = cut.agent == forms.AGENT
    if not ours:
        yield Message("system", forms.SYSTEM)
    for number, step in enumerate(cut.steps):
        last = number == len(cut.steps) - 1
        if step.source == "system":
            if ours:
                yield Message("system", step.message)
        elif step.source == "user":
            if step.message:
                yield Message("user", step.message)
        elif ours:
            yield Message("assistant", step.message)
            yield from (Message("user", forms.observed(step.results[c.id])) for c in step.calls if c.id in step.results)
        else:
            said = step.message
            for call in step.calls:
                yield Message("assistant", forms.proposed(said, _command(call)))
                result = step.results.get(call.id)
                yield Message("user", forms.observed(result) if result is not None else forms.NOT_RUN)
                said = ""
            if last and proposed is not None:
                yield Message("assistant", forms.proposed(said, _command(proposed)))
            elif not step.calls or (last and said):
                yield Message("assistant", said or "I am done.")


def _command(call: Call) -> str:
    if call.command is not None:
        return call.command
    arguments: dict[str, Any] = call.arguments
    return f": {call.tool} {json.dumps(arguments, ensure_ascii=False)}"
