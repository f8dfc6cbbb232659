"""Where missteps were found: by the catalogue's detectors over any agent's records, or by a profile made with models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from misstep.catalogue import Misstep, definition
from misstep.catalogue.fold import judge
from misstep.profile import labelling, tokens
from misstep.profile.labels import StepLabel
from misstep.profile.taxonomy import Key, Taxonomy
from misstep.profile.view import task_text
from misstep.scan.units import find
from misstep.train.prefixes import Target
from misstep.trajectory import Before, Trajectory, events
from misstep.trajectory.readers import Unreadable, read


@dataclass(slots=True)
class Occurrence:
    """A misstep at a step of a recorded trajectory."""

    trajectory: Trajectory
    path: str
    n: int
    """Place of the trajectory in that file, from 0."""
    step: int
    call: int
    target: Target
    by: str
    """catalogue, or the model that judged it."""
    asked: str = ""
    """The task as the agent got it."""
    token_ids: tuple[int, ...] = ()
    """Of all that preceded the step, where the record has them."""
    again: bool = False
    """The same misstep happened in the steps before, and nothing took its place: what it broke may be broken for good."""


@dataclass(slots=True)
class Found:
    """What was read."""

    trajectories: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)
    """Reason -> units."""


def target_of(misstep: Misstep) -> Target:
    """A misstep of the catalogue as a target; its page says what it is."""
    return Target(misstep.id, "catalogue", misstep.name, definition(misstep))


def trajectories(paths: Iterable[str], found: Found) -> Iterator[tuple[str, int, Trajectory]]:
    """(path, place in it, trajectory) of all that can be read below the paths."""
    for unit in find(paths):
        try:
            for n, trajectory in enumerate(read(unit.path)):
                found.trajectories += 1
                yield unit.path, n, trajectory
        except Unreadable as error:
            found.unreadable[str(error).rpartition(": ")[2]] += 1


def by_catalogue(paths: Iterable[str], missteps: Sequence[Misstep], found: Found | None = None) -> Iterator[Occurrence]:
    """Every occurrence that a detector tells. A misstep that a trajectory repeats counts each time."""
    found = found if found is not None else Found()
    targets = {one.id: target_of(one) for one in missteps}
    for path, n, trajectory in trajectories(paths, found):
        judged = judge(trajectory, missteps)
        places: dict[int, tuple[int, int]] | None = None
        ids: dict[int, tuple[int, ...]] | None = None
        for name, verdicts in judged.verdicts.items():
            for number, verdict in enumerate([one for one in verdicts if one.holds]):
                places = places if places is not None else _places(trajectory)
                ids = ids if ids is not None else prompts(path, n)
                step, call = places[verdict.at]
                given = ids.get(step, ()) if call == 0 else ()
                yield Occurrence(
                    trajectory,
                    path,
                    n,
                    step,
                    call,
                    targets[name],
                    "catalogue",
                    task_text(trajectory),
                    given,
                    number > 0,
                )


def _places(trajectory: Trajectory) -> dict[int, tuple[int, int]]:
    """Event index -> (step, place of its call in the step)."""
    made = {}
    for event in events(trajectory):
        call = 0
        if isinstance(event, Before):
            call = next(i for i, one in enumerate(trajectory.steps[event.step].calls) if one is event.call)
        made[event.index] = (event.step, call)
    return made


def prompts(path: str, n: int) -> dict[int, tuple[int, ...]]:
    """Step -> the ids of its prompt, of records that have them; {} of others."""
    if n or not path.endswith(".json"):
        return {}
    try:
        return {step: one.prompt for step, one in tokens.read(Path(path)).items() if one.prompt}
    except (OSError, ValueError):
        return {}


def by_labels(
    steps: Sequence[StepLabel],
    taxonomy: Taxonomy,
    labels: labelling.Labels,
    found: Found | None = None,
    resolve: Callable[[str], str] = str,
) -> Iterator[Occurrence]:
    """Steps that a localizer judged bad, with the types that an annotator gave them; one occurrence a type.

    Args:
        resolve: the path of a record from the one in the labels.
    """
    found = found if found is not None else Found()
    targets = {
        one.id: Target(one.id, "taxonomy", one.name, one.definition, tuple(e.card for e in one.examples))
        for one in taxonomy.types
    }
    wanted: dict[str, list[StepLabel]] = {}
    for label in steps:
        if label.verdict == "bad" and labels.types.get(label.key):
            wanted.setdefault(label.path, []).append(label)
    for path, many in sorted(wanted.items()):
        try:
            read_ = list(read(resolve(path)))
        except Unreadable as error:
            found.unreadable[str(error).rpartition(": ")[2]] += 1
            continue
        found.trajectories += len(read_)
        before: set[tuple[int, str]] = set()
        for label in sorted(many, key=lambda one: one.key):
            if label.n >= len(read_) or label.step >= len(read_[label.n].steps):
                found.unreadable["the record is no longer the one that was judged"] += 1
                continue
            trajectory, key = read_[label.n], label.key
            ids = prompts(resolve(path), label.n).get(label.step, ()) if label.call == 0 else ()
            for name in types_of(labels, key):
                yield Occurrence(
                    trajectory, path, label.n, label.step, label.call, targets[name], labels.model,
                    task_text(trajectory), ids, (label.n, name) in before,
                )  # fmt: skip
                if label.corrected is None:
                    before.add((label.n, name))


def types_of(labels: labelling.Labels, key: Key) -> tuple[str, ...]:
    """The types of a step; () where it has none, or there was no valid answer."""
    return labels.types.get(key) or ()
