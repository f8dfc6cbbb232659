"""From a recorded trajectory to the turns before a step, as one bash tool would have had them; or why that cannot be."""

from __future__ import annotations

from misstep.profile.dialog import AGENT
from misstep.train.episode import submits
from misstep.train.prefixes import Turn
from misstep.trajectory.model import Call, Result, Step, Trajectory


class Unfit(Exception):
    """The steps before cannot be a prefix; the reason, and after a colon the detail."""


def turns_before(trajectory: Trajectory, step: int, call: int = 0) -> tuple[Turn, ...]:
    """The agent's turns before call `call` of step `step` (positions from 0).

    Raises:
        Unfit: with the reason.
    """
    if trajectory.late:
        raise Unfit("the record begins in the middle of the session")
    turns: list[Turn] = []
    asked = False
    for number, one in enumerate(trajectory.steps[: step + 1]):
        last = number == step
        if one.copied or one.compacted:
            raise Unfit("the conversation was summarised before it")
        if one.source == "user" and not last:
            if one.prompt and asked:
                raise Unfit("a person spoke during it")
            asked = asked or one.prompt
            if not one.prompt and turns and turns[-1].command is None and not turns[-1].note:
                turns[-1] = Turn(None, said=turns[-1].said, note=one.message)
            elif not one.prompt and turns:
                raise Unfit("the harness spoke during it")
        elif one.source == "agent":
            turns += _turns(trajectory, one, one.calls[:call] if last else one.calls, last)
    return tuple(turns)


def _turns(trajectory: Trajectory, step: Step, calls: list[Call], last: bool) -> list[Turn]:
    if not step.calls and not last:
        return [Turn(None, said=step.message)]
    made = []
    for place, call in enumerate(calls):
        result = step.results.get(call.id)
        if call.kind != "shell" or call.command is None:
            what = "keystrokes to a terminal" if call.kind == "keys" else "a tool that is no shell"
            raise Unfit(f"{what}: {call.tool}")
        if call.background:
            raise Unfit(f"background processes: {_short(call.command)}")
        if result is None or result.fault or result.shared or result.running:
            raise Unfit(f"a call without a result of its own: {_short(call.command)}")
        if result.truncated and trajectory.agent != AGENT:  # ours are cut as a replay cuts them
            raise Unfit(f"an output that the record has cut: {_short(call.command)}")
        if submits(call.command) or "\0" in call.command:
            raise Unfit(f"a command that is none: {_short(call.command)}")
        made.append(_turn(step, call, result, step.message if place == 0 else ""))
    return made


def _turn(step: Step, call: Call, result: Result, said: str) -> Turn:
    return Turn(
        call.command,
        result.output,
        result.exit_code,
        said,
        result.timed_out,
        call.timeout,
        call.cwd,
        "",
        step.time,
        result.seconds,
        trimmed=True,
    )


def _short(text: str) -> str:
    return " ⏎ ".join(text.strip().splitlines())[:100]
