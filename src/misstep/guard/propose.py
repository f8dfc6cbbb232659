"""A draft of a policy from the places where recorded sessions show a misstep: its chain, its evidence, its examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from misstep.catalogue.base import Misstep
from misstep.catalogue.fold import Fold
from misstep.trajectory import After, Before, Event, Prompt, Stop, Trajectory, events

from .skeleton import Draft

AROUND = 3
"""Calls before an occurrence that go into an example."""
MOST = 4
"""Examples of each kind."""


Judged = tuple[int, "bool | None", str, tuple[int, ...]]
"""(event index, whether it is an occurrence, why, event indices of further evidence)."""


def draft(misstep: Misstep, trajectories: Iterable[Trajectory], id: str) -> Draft | None:
    """A draft from the verdicts of a misstep's detector, None where it does not occur."""
    return draft_from(misstep.name, _judged(misstep, trajectories), id)


def _judged(misstep: Misstep, trajectories: Iterable[Trajectory]) -> Iterator[tuple[Trajectory, list[Judged]]]:
    for trajectory in trajectories:
        fold = Fold([misstep])
        for event in events(trajectory):
            fold.push(event)
        yield trajectory, [(v.at, v.holds, v.why, v.also) for v in fold.finish().verdicts.get(misstep.id, [])]


def draft_from(name: str, judged: Iterable[tuple[Trajectory, Iterable[Judged]]], id: str) -> Draft | None:
    """A draft from what somebody judged, a detector or a model with the labels of a taxonomy; None where nothing is an
    occurrence. `name` completes "The agent ...". Its text says what to write, never what to tell a model."""
    fires: list[dict[str, Any]] = []
    near: list[dict[str, Any]] = []
    places: Counter[str] = Counter()
    programs: Counter[tuple[str, ...]] = Counter()
    kinds: Counter[str] = Counter()
    evidence: list[str] = []
    for trajectory, verdicts in judged:
        stream = list(events(trajectory))
        for at, holds, why, also in verdicts:
            if holds:
                places["stop" if isinstance(stream[at], Stop) else "before"] += 1
                for place in (at, *also):
                    of = stream[place]
                    if isinstance(of, Before):
                        programs.update(_program(of))
                        kinds[of.call.kind] += 1
                if why and why not in evidence:
                    evidence.append(_redacted(why))
            kept = fires if holds else near
            if holds is not None and len(kept) < MOST:
                kept.append(_example(stream, at, len(kept) + 1, bool(holds)))
    if not fires:
        return None
    at_ = "stop" if places["stop"] > places["before"] else "before"
    kind = kinds.most_common(1)[0][0] if kinds else ""
    words = list(programs.most_common(1)[0][0]) if programs and kind in ("", "shell") else []
    text = f"Write here what the agent is to do instead, as a procedure. It {name}."
    made = Draft(id, name, at_, "instruct", text, words, kind, seen=evidence[:3])
    # The recorded streams are kept as they are for a person to turn into examples: what the draft judges is not yet
    # what the misstep is.
    made.fires, made.silent = _marked(fires, made), _silent(near, fires)
    return made


def _program(event: Event) -> list[tuple[str, ...]]:
    if not isinstance(event, Before) or event.call.script is None or event.call.script.damage:
        return []
    found = []
    for command in event.call.script.commands:
        words = [w for w in command.argv[:2] if not w.startswith("-")]
        found.append(tuple(words[:2] if len(words) > 1 and words[1].isalpha() else words[:1]))
    return [w for w in found if w]


def _example(stream: list[Event], at: int, number: int, fires: bool) -> dict[str, Any]:
    """The prompt, the last calls before an event, and the event, as an example's YAML."""
    first = next((e for e in stream if isinstance(e, Prompt)), None)
    calls = [n for n in range(at) if isinstance(stream[n], Before)][-AROUND:]
    items: list[dict[str, Any]] = [{"prompt": _short(first.text, 400)}] if first is not None else []
    results = {e.call.id: e.result for e in stream[: at + 2] if isinstance(e, After)}
    for place in [*calls, at]:
        event = stream[place]
        if isinstance(event, Before):
            items.append(_call(event, results.get(event.call.id)))
        elif isinstance(event, Stop):
            items.append({"stop": _short(event.message, 200)})
    return {"name": f"{'occurrence' if fires else 'right step'} {number}", "events": items}


def _call(event: Before, result: Any) -> dict[str, Any]:
    call = event.call
    if call.command is not None:
        item: dict[str, Any] = {"run": _redacted(call.command)}
    elif call.kind in ("read", "write", "edit") and call.paths:
        item = {call.kind: call.paths[0]}
        if call.edits:
            item["text" if call.kind == "write" else "new"] = _short(call.edits[0][2], 300)
    else:
        item = {"tool": call.tool}
    if result is None:
        item["result"] = False
        return item
    if result.exit_code is not None:
        item["exit"] = result.exit_code
    elif result.failed is not None:
        item["failed"] = result.failed
    if result.output:
        item["output"] = _short(result.output, 300)
    return item


def _marked(fires: list[dict[str, Any]], draft: Draft) -> list[dict[str, Any]]:
    for example in fires:
        example["events"][-1].update(misstep=True, policy=draft.id)
    return fires


def _silent(near: list[dict[str, Any]], fires: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for example in near:
        example["near"], example["differs"] = fires[0]["name"], "say by which one fact"
    return near


def _short(text: str, most: int) -> str:
    """The text, credentials left out, cut at a length."""
    text = _redacted(text)
    return text if len(text) <= most else text[: most - 3] + "..."


def _redacted(text: str) -> str:
    import re

    return re.sub(
        r"(?i)\b((?:api[_-]?key|token|secret|password)\s*[=:]\s*)\S+|\b(?:gh[pousr]_|sk-|AKIA)\w{10,}", r"\1***", text
    )
