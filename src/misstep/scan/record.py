"""One small record of one judged trajectory: what a scan keeps, writes and shows.

A record is a JSON object:

    kind        "trajectory"
    path        where it was read (as the paths were given); n: its place in that file, from 0
    id, format, agent, agent_version, model, parent, title (the first prompt, cut)
    started, ended        seconds since the epoch, or null
    length, steps, calls  steps of the record, steps of the agent, calls
    outcome     null or {passed, reward, task, attempt, fault, exception}
    missteps    {id: [right, wrong, unknown]}: judged opportunities, only where there was one
    scope       {id: shown}: scoped missteps whose task is in scope; whether the right behaviour was shown (or null)
    occurrences [{misstep, step, call, event, why, command, also: [step]}], by event
    firings     [{policy, misstep, action, step, call, event}]: policies that would have acted
    context     {step: view}: the steps around occurrences, bounded
    skipped     {reason: n}: records of the transcript that could not be used
    errors      {misstep: reason}: detectors that could not judge this trajectory
    ids         hashes of its steps, for finding copies

Steps count from 0, as `Trajectory.steps` does; `call` is the place in the step's calls, or null. Texts are
cut and redacted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from misstep.catalogue import Fold, Judgement, Misstep
from misstep.trajectory import Call, Event, Result, Step, Trajectory, events

from .around import around
from .copies import ID_BYTES
from .redact import redact

LISTED = 40
"""Occurrences of one misstep that a record lists; the counts are always complete."""
SHOWN = 8
"""Occurrences of one misstep whose surroundings a record keeps."""

Record = dict[str, Any]


def record_of(trajectory: Trajectory, missteps: Sequence[Misstep], strict: bool = False) -> Record:
    """The record of one trajectory, without its path. `strict` raises what a detector raises, else it is noted in `errors`."""
    stream = list(events(trajectory))
    judgement, errors = _judged(stream, missteps, strict)
    occurrences, verdicts = _occurrences(trajectory, stream, judgement)
    steps = trajectory.steps
    own = [s for s in steps if s.source == "agent" and not s.copied]
    times = [s.time for s in steps if s.time is not None]
    return {
        "kind": "trajectory",
        "id": trajectory.id,
        "format": trajectory.format,
        "agent": trajectory.agent,
        "agent_version": trajectory.agent_version,
        "model": trajectory.model,
        "parent": trajectory.parent,
        "title": cut(next((s.message for s in steps if s.prompt and s.message), ""), 160),
        "started": min(times, default=None),
        "ended": max(times, default=None),
        "length": len(steps),
        "steps": len(own),
        "calls": sum(len(s.calls) for s in own),
        "outcome": _outcome(trajectory),
        "missteps": verdicts,
        "scope": {name: judgement.behaved.get(name) for name in judgement.eligible},
        "occurrences": occurrences,
        "firings": [
            {"policy": f.policy, "misstep": f.misstep, "action": f.action, **_place(steps, stream, f.at)}
            for f in judgement.firings
        ],
        "context": _context(steps, occurrences),
        "skipped": dict(sorted(trajectory.skipped.items())),
        "errors": errors,
        "ids": fingerprints(trajectory),
    }


def _judged(stream: list[Event], missteps: Sequence[Misstep], strict: bool) -> tuple[Judgement, dict[str, str]]:
    """All verdicts; where a detector fails, each is run by itself and the failing ones are named."""
    try:
        return _fold(stream, missteps), {}
    except Exception:
        if strict:
            raise
    whole, errors = Judgement(), {}
    for misstep in missteps:
        try:
            found = _fold(stream, [misstep])
        except Exception as error:
            errors[misstep.id] = f"{type(error).__name__}: {error}"[:200]
            continue
        for name in ("verdicts", "eligible", "behaved"):
            getattr(whole, name).update(getattr(found, name))
        whole.firings += found.firings
    whole.firings.sort(key=lambda f: (f.at, f.policy))
    return whole, errors


def _fold(stream: list[Event], missteps: Sequence[Misstep]) -> Judgement:
    fold = Fold(missteps)
    for event in stream:
        fold.push(event)
    return fold.finish()


def _occurrences(
    trajectory: Trajectory, stream: list[Event], judgement: Judgement
) -> tuple[list[dict[str, Any]], dict[str, list[int]]]:
    counts: dict[str, list[int]] = {}
    found = []
    for name, verdicts in sorted(judgement.verdicts.items()):
        count = counts[name] = [0, 0, 0]
        for verdict in verdicts:
            count[{False: 0, True: 1, None: 2}[verdict.holds]] += 1
            if verdict.holds and count[1] <= LISTED:
                place = _place(trajectory.steps, stream, verdict.at)
                calls = trajectory.steps[place["step"]].calls
                command = calls[place["call"]] if place["call"] is not None else None
                also = sorted({stream[i].step for i in verdict.also} - {place["step"]})
                found.append(
                    {
                        "misstep": name,
                        **place,
                        "why": cut(verdict.why, 300),
                        "command": cut(describe(command, brief=True), 300) if command else "",
                        "also": also,
                    }
                )
    found.sort(key=lambda o: (o["event"], o["misstep"]))
    return found, counts


def _place(steps: list[Step], stream: list[Event], at: int) -> dict[str, Any]:
    """Where an event stands in the record."""
    event = stream[at]
    call = getattr(event, "call", None)
    number = next((i for i, c in enumerate(steps[event.step].calls) if c is call), None)
    return {"step": event.step, "call": number, "event": at}


def _outcome(trajectory: Trajectory) -> dict[str, Any] | None:
    o = trajectory.outcome
    if o is None:
        return None
    return {
        "passed": o.passed,
        "reward": o.reward,
        "task": o.task,
        "attempt": o.attempt,
        "fault": o.fault,
        "exception": cut(o.exception, 200),
    }


def _context(steps: list[Step], occurrences: list[dict[str, Any]]) -> dict[str, Any]:
    """Views of the steps around the first occurrences of each misstep."""
    seen: dict[str, int] = {}
    wanted: set[int] = set()
    for occurrence in occurrences:
        seen[occurrence["misstep"]] = seen.get(occurrence["misstep"], 0) + 1
        if seen[occurrence["misstep"]] <= SHOWN:
            wanted |= around(occurrence, len(steps))
    marked = {o["step"] for o in occurrences}
    return {str(n): view(steps[n], 900 if n in marked else 320) for n in sorted(wanted)}


def view(step: Step, room: int) -> dict[str, Any]:
    """A step for showing: who, text, calls with what came back; each text at most `room` characters."""
    shown: dict[str, Any] = {"who": step.source, "text": cut(said(step), room)}
    if step.time is not None:
        shown["time"] = step.time
    for flag in ("interrupted", "compacted", "copied"):
        if getattr(step, flag):
            shown[flag] = True
    if step.calls:
        shown["calls"] = [_call_view(call, step.results.get(call.id), room) for call in step.calls[:12]]
        if len(step.calls) > 12:
            shown["more"] = len(step.calls) - 12
    return shown


def _call_view(call: Call, result: Result | None, room: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"tool": call.tool, "text": cut(describe(call), room)}
    if call.command is not None:
        shown["shell"] = True
    if call.background:
        shown["background"] = True
    if result is None:
        shown["missing"] = True
        return shown
    shown["output"] = ends(result.output, room)
    for name in ("exit_code", "failed", "fault", "truncated", "running"):
        value = getattr(result, name)
        if value not in (None, False) or (name == "failed" and value is False):
            shown[name] = value
    if result.exit_code == 0:
        shown["exit_code"] = 0
    return shown


def describe(call: Call, brief: bool = False) -> str:
    """What a call does, as one would write it: the command, the file (and unless brief its change), or its arguments."""
    if call.command is not None:
        return call.command
    if call.edits:
        path, old, new = call.edits[0]
        others = {one[0] for one in call.edits[1:]} - {path}
        if brief:
            return path + (f" and {len(others)} more" if others else "")
        left = len(call.edits) - 1
        more = f"\n… and {left} more edit{'s' * (left != 1)}" if left else ""
        lines = [f"- {line}" for line in old[:2000].splitlines()] + [f"+ {line}" for line in new[:2000].splitlines()]
        return "\n".join([path, *lines]) + more
    sought = next((call.arguments[k] for k in _SOUGHT if isinstance(call.arguments.get(k), str)), "")
    if call.paths:
        return f'"{sought}" in ' + " ".join(call.paths) if sought else " ".join(call.paths)
    try:
        return json.dumps(call.arguments, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return ""


_SOUGHT = ("pattern", "regex", "query", "glob")
"""Arguments of tools that search, in which what they look for stands."""

_BLOCK = re.compile(r"```[\w.+-]*[ \t]*\n(.*?)\n?```", re.DOTALL)


def said(step: Step) -> str:
    """A step's text without the blocks in it that are its calls: those are shown as calls."""
    commands = {call.command.strip() for call in step.calls if call.command}
    if not commands or "```" not in step.message:
        return step.message
    return _BLOCK.sub(lambda m: "" if m[1].strip() in commands else m[0], step.message).strip()


def cut(text: str, room: int) -> str:
    """The redacted start of a text, at most `room` characters."""
    text = text.strip()
    if len(text) <= room:
        return redact(text)
    # Some more than is shown, so that a credential that is cut in two is still recognised.
    return redact(text[: room + 300])[: room - 1].rstrip() + "…"


def ends(text: str, room: int) -> str:
    """The redacted start and end of an output: what failed stands mostly at its end."""
    text = text.strip("\r\n")
    if "PRIVATE KEY" in text:  # its end would not be recognised without its start
        text = redact(text)
    if len(text) <= room:
        return redact(text)
    head, tail = text[: room // 3], text[room // 3 - room :]
    # Whole lines where there are some: half a line reads as if the output were damaged.
    if "\n" in head[len(head) // 2 :]:
        head = head[: head.rindex("\n")]
    if "\n" in tail[: len(tail) // 2]:
        tail = tail[tail.index("\n") + 1 :]
    left = len(text) - len(head) - len(tail)
    if left < 2 * len(f"… {left:,} characters …"):  # saying so would take as much room
        return redact(text)
    # Some more than is shown, so that a credential that is cut in two is still recognised.
    start = redact(text[: len(head) + 300])[: len(head)]
    end = redact(text[-(len(tail) + 300) :])[-len(tail) :]
    return f"{start}\n… {left:,} characters …\n{end}"


def fingerprints(trajectory: Trajectory) -> str:
    """The hash of each step that is the trajectory's own, as hex, 12 digits a step, in order.

    Two records of the same step have the same hash, and no others: the record's own id where it is one
    that is unique in the world, else the place and content.
    """
    hashes = []
    attempt = trajectory.outcome.attempt if trajectory.outcome else ""
    for number, step in enumerate(trajectory.steps):
        if step.copied:
            continue
        if len(step.id) >= 16:
            key = step.id
        else:
            calls = [(c.tool, c.command or c.arguments) for c in step.calls]
            outputs = [step.results[c.id].output for c in step.calls if c.id in step.results]
            key = repr((trajectory.id, attempt, number, step.time, step.source, step.message, calls, outputs))
        hashes.append(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).hexdigest())
    return "".join(hashes)
