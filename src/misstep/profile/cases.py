"""Labelled cases, by which a judge is measured: one JSON object a line, after a header.

{"schema":"misstep.cases","version":1,"judge":"behaviour","types":{ID:{"name","definition","examples":[{"of","text"}]}}}
behaviour      {"id","type","label", "events" | "path" (and "n"), "first", "steps"}
equivalence    {"id","label","task","before","reference","candidate"}, and "type" to count by
rubric         {"id", "events" | "path" (and "n"), "items":[{"text","importance","met"}]}

label         true or false: the misbehaviour occurs; the candidate may stand for the reference
events        a trajectory in short, as in the catalogue's examples: {prompt}, {say}, {run, exit, output}, {stop} ...
path, n       or a recorded one, of any agent: its file, relative to this one, and its place in it
first, steps  the judged steps: from this position in the trajectory's steps (of `events`: in them), so many turns of the agent
of            the case that an example was taken from: it is not shown where that case is judged
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misstep.catalogue import Misstep, missteps
from misstep.catalogue.examples import Example, parse
from misstep.catalogue.examples import load as examples_of
from misstep.profile.judges import Behaviour, of_catalogue, told, window
from misstep.profile.lines import LinesError, Record, dump, read
from misstep.trajectory import After, Before, Compact, Interrupt, Prompt, Say, Step, Stop, Trajectory
from misstep.trajectory.readers import Unreadable
from misstep.trajectory.readers import read as trajectories

SCHEMA, VERSION = "misstep.cases", 1
JUDGES = ("behaviour", "equivalence", "rubric")
SHOWN = 2
"""Examples of a type, from the catalogue."""


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled case."""

    id: str
    label: bool
    type: str = ""
    trajectory: Trajectory | None = None
    first: int = 0
    """Of the judged steps."""
    end: int = 0
    sought: Behaviour | None = None
    task: str = ""
    before: str = ""
    reference: str = ""
    candidate: str = ""
    text: str = ""
    """Of a rubric's item; `type` is its importance."""
    group: str = ""
    """Of a rubric: the case whose items are graded in one question."""


class Cases:
    """A file of cases. Raises LinesError: the file, the line and what was expected."""

    def __init__(self, path: Path, judge: str) -> None:
        found, cut = read(path)
        head = found[0]
        if cut:
            raise LinesError(f"{path}:{len(found) + 1}: the last line has no end")
        if head.get("schema") != SCHEMA or head.get("version") != VERSION:
            raise LinesError(f"{path}:1: schema {SCHEMA} of version {VERSION} was expected, not {head.get('schema')!r}")
        if head.get("judge") != judge:
            raise LinesError(f"{path}:1: cases for the judge {judge} were expected, not for {head.get('judge')!r}")
        self.path, self.types = path, head.get("types", {})
        self.all: list[Case] = []
        seen: set[str] = set()
        make = {"behaviour": self._behaviour, "equivalence": self._equivalence, "rubric": self._rubric}[judge]
        for number, record in enumerate(found[1:], 2):
            try:
                made = list(make(record))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                what = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
                raise LinesError(f"{path}:{number}: no case for the judge {judge}: {what[:200]}") from None
            for case in made:
                if case.id in seen:
                    raise LinesError(f"{path}:{number}: a second case with the id {case.id!r}")
                seen.add(case.id)
            self.all += made

    def _behaviour(self, record: Record) -> Iterator[Case]:
        trajectory = self._trajectory(record)
        first = _whole(record.get("first", 1), "first")
        steps = record.get("steps")
        if not 0 <= first <= len(trajectory.steps):
            raise ValueError(f"first is a position in {len(trajectory.steps)} steps, not {first}")
        first, end = window(trajectory, first, None if steps is None else _whole(steps, "steps"))
        sought = self._sought(_text(record, "type"), _text(record, "id"))
        yield Case(_text(record, "id"), _label(record["label"]), sought.id, trajectory, first, end, sought)

    def _sought(self, name: str, case: str) -> Behaviour:
        given = self.types.get(name)
        if given is None:
            raise ValueError(f"the header has no type {name!r}")
        examples = tuple(_text(one, "text") for one in given.get("examples", ()) if one.get("of") != case)
        return Behaviour(name, _text(given, "name"), _text(given, "definition"), examples)

    def _equivalence(self, record: Record) -> Iterator[Case]:
        yield Case(
            _text(record, "id"), _label(record["label"]), str(record.get("type", "")), task=_text(record, "task"),
            before=str(record.get("before", "")), reference=_text(record, "reference"), candidate=_text(record, "candidate"),
        )  # fmt: skip

    def _rubric(self, record: Record) -> Iterator[Case]:
        from misstep.profile.rubric import WEIGHTS

        trajectory, group = self._trajectory(record), _text(record, "id")
        if not record["items"]:
            raise ValueError("items is empty")
        for number, item in enumerate(record["items"]):
            if item["importance"] not in WEIGHTS:
                raise ValueError(f"importance is one of {', '.join(WEIGHTS)}, not {item['importance']!r}")
            yield Case(
                f"{group}/{number}", _label(item["met"], "met"), item["importance"], trajectory, text=_text(item, "text"),
                group=group,
            )  # fmt: skip

    def _trajectory(self, record: Record) -> Trajectory:
        if "events" in record:
            return from_items(record["events"], str(record.get("id", "")))
        path, wanted = self.path.parent / _text(record, "path"), _whole(record.get("n", 0), "n")
        try:
            for n, trajectory in enumerate(trajectories(path)):
                if n == wanted:
                    return trajectory
        except (Unreadable, OSError) as error:
            raise ValueError(str(error)) from None
        raise ValueError(f"{path} holds no trajectory number {wanted}")


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is a text, not {value!r}")
    return value


def _label(value: object, name: str = "label") -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return value


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is a whole number from 0, not {value!r}")
    return value


def from_items(items: Sequence[Mapping[str, Any]], id: str = "case") -> Trajectory:
    """A trajectory of the catalogue's short form of events: a step each, in order. Raises KeyError, ValueError."""
    example = parse({"name": id, "events": [dict(one) for one in items]})
    return of_example(example, id)


def of_example(example: Example, id: str) -> Trajectory:
    """An example as a trajectory that has its very events."""
    made = Trajectory(id, "example", "example")
    for event in example.events:
        if isinstance(event, Prompt):
            made.steps.append(Step("user", event.text, prompt=True))
        elif isinstance(event, Say):
            made.steps.append(Step("agent", event.text, stop=False))
        elif isinstance(event, Stop):
            made.steps.append(Step("agent", event.message, stop=True))
        elif isinstance(event, Compact):
            made.steps.append(Step("system", compacted=True))
        elif isinstance(event, Interrupt):
            made.steps.append(Step("system", interrupted=True))
        elif isinstance(event, Before):
            made.steps.append(Step("agent", calls=[event.call], stop=False))
        elif isinstance(event, After):
            made.steps[-1].results[event.call.id] = event.result
    return made


def of_catalogue_examples(chosen: Sequence[Misstep] | None = None) -> Iterator[Record]:
    """A file of behaviour cases from the catalogue's own examples: those that fire, and those near them that must not.

    Where the catalogue itself cannot tell (verdict unknown) there is no label, and no case. A type's examples are the first two
    that fire, each left out where it is judged itself.
    """
    types: dict[str, Any] = {}
    cases: list[Record] = []
    for misstep in missteps() if chosen is None else chosen:
        if misstep.status == "retired":
            continue
        fires, silent = examples_of(misstep)
        shown = []
        for example in fires[:SHOWN]:
            trajectory = of_example(example, "example")
            asked = next((step.message for step in trajectory.steps if step.prompt), "")
            text = f"Task: {asked}\n{told(trajectory, 1, len(trajectory.steps))}"
            shown.append({"of": _id(misstep, example), "text": text})
        page = of_catalogue(misstep)
        types[misstep.id] = {"name": page.name, "definition": page.definition, "examples": shown}
        for label, some in ((True, fires), (False, [one for one in silent if one.verdict == "right"])):
            cases += [
                {
                    "id": _id(misstep, one), "type": misstep.id, "label": label, "first": _first(one), "steps": None,
                    "events": one.items,
                }
                for one in some
            ]  # fmt: skip
    yield {"schema": SCHEMA, "version": VERSION, "judge": "behaviour", "types": types}
    yield from cases


def _id(misstep: Misstep, example: Example) -> str:
    return f"{misstep.id}/{'-'.join(example.name.lower().split())}"


def _first(example: Example) -> int:
    """The first step that is the agent's."""
    steps = of_example(example, "").steps
    return next((n for n, step in enumerate(steps) if step.source == "agent"), len(steps))


def save(path: Path, records: Iterator[Record]) -> int:
    """Writes a file of cases, whole or not at all; how many there are."""
    rows = [json.loads(json.dumps(one, default=str)) for one in records]
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text("".join(dump(one) + "\n" for one in rows), encoding="utf-8")
    fresh.replace(path)
    return len(rows) - 1
