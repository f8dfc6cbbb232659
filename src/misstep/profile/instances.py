"""Where a type of a labelled taxonomy was found: in context for a person, and as verdicts from which a policy is drafted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from misstep.profile import labelling
from misstep.profile.cards import Card, recorded
from misstep.profile.corrected import PROPOSED, as_proposed
from misstep.profile.labelling import Labels
from misstep.profile.labels import StepLabel
from misstep.profile.labels import load as load_steps
from misstep.profile.taxonomy import ErrorType, Key, Taxonomy, TaxonomyError, examples, load
from misstep.scan.record import cut, describe, view
from misstep.trajectory import Before, Trajectory, events

BEFORE, AFTER = 3, 1
"""Steps that are shown around one."""


def contexts(
    taxonomy: Taxonomy, steps: Sequence[StepLabel], first: Labels, cards: Mapping[Key, Card], most: int = 3
) -> dict[str, list[dict[str, Any]]]:
    """Type -> some of its labelled steps, those of that type alone first, with the steps around them where they can be read."""
    by_key = {one.key: one for one in steps}
    chosen: dict[Key, list[str]] = defaultdict(list)
    for kind in taxonomy.types:
        mine = [
            (key, by_key[key].task, "")
            for key, names in first.types.items()
            if key in by_key and kind.id in (names or ())
        ]
        alone = examples([one for one in mine if len(first.types[one[0]] or ()) == 1], most)
        taken = {one.key for one in alone}
        for one in (*alone, *examples([one for one in mine if one[0] not in taken], most))[:most]:
            chosen[one.key].append(kind.id)
    made: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path, keys in groupby(sorted(chosen), key=lambda key: key[0]):
        wanted = list(keys)
        found = recorded(path, {key[1] for key in wanted})
        for key in wanted:
            label, card = by_key[key], cards.get(key)
            shown = {
                "path": label.path,
                "n": label.n,
                "trajectory": label.trajectory,
                "task": label.task,
                "step": label.step,
                "call": label.call,
                "command": label.command,
                "card": card.card if card else "",
                "reason": label.reason,
                "why": first.reasons.get(key, ""),
                "types": list(first.types[key] or ()),
                "missteps": list(label.missteps),
                "steps": _around(label, found.get(label.n)),
            }
            for name in chosen[key]:
                made[name].append(shown)
    return made


def _around(label: StepLabel, trajectory: Trajectory | None) -> dict[str, Any]:
    """Number -> view of the steps around one; {} where its record is not there any more."""
    if trajectory is None or trajectory.id != label.trajectory or label.step >= len(trajectory.steps):
        return {}
    if label.corrected is not None:
        trajectory = as_proposed(trajectory, label.step)
    places = range(max(0, label.step - BEFORE), min(len(trajectory.steps), label.step + AFTER + 1))
    return {str(n): view(trajectory.steps[n], 900 if n == label.step else 320) for n in places}


def chosen(folder: Path, name: str) -> ErrorType:
    """A type of a folder's frozen taxonomy. Raises TaxonomyError."""
    taxonomy = load(folder)
    for one in taxonomy.types:
        if one.id == name:
            return one
    raise TaxonomyError(f"{folder}: no type {name!r} in its taxonomy ({', '.join(taxonomy.ids)})")


def verdicts(
    folder: Path, kind: ErrorType, trajectories: Iterable[Trajectory]
) -> Iterator[tuple[Trajectory, list[tuple[int, bool, str]]]]:
    """Of each trajectory with judged steps: (event index of the call, whether it is of the type, why), by index.

    A step is of the type by its label; it is not where it was called good, or has other labels alone: of those, the ones that
    begin with the word of one that is, so that they are near it. A step is found by its trajectory's id, its place and its
    command: the files may lie elsewhere by now.

    Raises:
        TaxonomyError, LinesError.
    """
    first = labelling.load(folder, load(folder))
    if first is None:
        raise TaxonomyError(f"{folder}: its steps are not labelled yet: misstep taxonomy label {folder}")
    _, every = load_steps(folder)
    by_place: dict[tuple[str, int, int, str], StepLabel] = {}
    for one in every:
        by_place.setdefault((one.trajectory, one.step, one.call, one.command), one)
    words = {_word(one) for one in every if _is_of(one, first, kind.id)}

    def said(trajectory: Trajectory, only: int | None = None) -> list[tuple[int, bool, str]]:
        found = []
        for index, step, call, command in _calls(trajectory):
            label = by_place.get((trajectory.id, step, call, command)) if only in (None, step) else None
            holds = None if label is None else _is_of(label, first, kind.id)
            if label is not None and holds is not None and (holds or _word(label) in words):
                found.append((index, holds, label.reason))
        return found

    for trajectory in trajectories:
        found = said(trajectory)
        if found:
            yield trajectory, found
        for number, step in enumerate(trajectory.steps):
            if PROPOSED in step.extra:  # what was proposed there is not in the stream: a correction took its place
                proposed = as_proposed(trajectory, number)
                found = said(proposed, number)
                if found:
                    yield proposed, found


def _is_of(label: StepLabel, first: Labels, name: str) -> bool | None:
    names = first.types.get(label.key)
    if names is not None:
        return name in names
    return False if label.verdict == "good" else None


def _word(label: StepLabel) -> str:
    return next(iter(label.command.split()), "")


def _calls(trajectory: Trajectory) -> Iterator[tuple[int, int, int, str]]:
    from misstep.profile.recorded import COMMAND

    places: dict[int, int] = defaultdict(int)
    for event in events(trajectory):
        if isinstance(event, Before):
            place = next(
                (n for n, call in enumerate(trajectory.steps[event.step].calls) if call is event.call),
                places[event.step],
            )
            places[event.step] += 1
            yield event.index, event.step, place, cut(describe(event.call), COMMAND)
