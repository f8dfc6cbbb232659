"""The catalogue's verdicts, by the call that they judge: they stand beside a model's, which never changes them."""

from __future__ import annotations

from collections.abc import Sequence

from misstep.catalogue import Fold, Misstep, missteps
from misstep.trajectory import After, Before, Event, Trajectory, events

Place = tuple[int, int]
"""(step, call)"""


def chosen() -> list[Misstep]:
    """All detectors that are not retired."""
    return [one for one in missteps() if one.status != "retired"]


def beside(trajectory: Trajectory, detectors: Sequence[Misstep]) -> dict[Place, dict[str, bool | None]]:
    """What the detectors say of each call: misstep id -> occurred, did not, unknown; no entry where it is not at issue.

    A detector that fails says nothing of this trajectory.
    """
    stream = list(events(trajectory))
    places: dict[int, Place] = {}
    for event in stream:
        if isinstance(event, Before | After):
            calls = trajectory.steps[event.step].calls
            number = next((n for n, call in enumerate(calls) if call is event.call), None)
            if number is not None:
                places[event.index] = (event.step, number)
    found: dict[Place, dict[str, bool | None]] = {}
    for name, at, holds in _verdicts(stream, detectors):
        place = places.get(at)
        if place is None:  # of what the agent said, or of a stop: no call
            continue
        said = found.setdefault(place, {})
        # One that occurred stands whatever else is said of the call; unknown is not "did not".
        said[name] = holds if name not in said else _worse(said[name], holds)
    return {place: dict(sorted(said.items())) for place, said in found.items()}


def _worse(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None or other is None else False


def _verdicts(stream: list[Event], detectors: Sequence[Misstep]) -> list[tuple[str, int, bool | None]]:
    try:
        return _fold(stream, detectors)
    except Exception:
        if len(detectors) == 1:
            return []
        return [one for detector in detectors for one in _verdicts(stream, [detector])]


def _fold(stream: list[Event], detectors: Sequence[Misstep]) -> list[tuple[str, int, bool | None]]:
    fold = Fold(detectors)
    for event in stream:
        fold.push(event)
    return [(name, one.at, one.holds) for name, said in fold.finish().verdicts.items() for one in said]
