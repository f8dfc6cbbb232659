"""The stream of events: what detectors and policies see, recorded or live.

`events(trajectory)` and a host's hook payloads give the same classes, so one fold serves both.
"""

from __future__ import annotations

from misstep._record import record

from .model import Call, Result, Step, Trajectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@record(slots=True)
class Event:
    """Common to all: the place in the stream and in the record."""

    index: int
    """Position in the stream, from 0."""
    step: int
    """Position in `Trajectory.steps`, from 0 (live: the turn)."""


@record(slots=True)
class Prompt(Event):
    """A person's prompt (or the task). The first one decides eligibility."""

    text: str
    late: bool = False
    """The record begins with it in the middle of a session: what came before is not in it."""


@record(slots=True)
class Say(Event):
    """Text of the agent beside its calls. Hooks do not deliver it, so policies must not need it."""

    text: str


@record(slots=True)
class Before(Event):
    """A call is proposed and has not run."""

    call: Call


@record(slots=True)
class After(Event):
    """A call's result is there."""

    call: Call
    result: Result


@record(slots=True)
class Compact(Event):
    """The agent's context was summarised: what it read before may be gone from its view."""


@record(slots=True)
class Interrupt(Event):
    """A person broke the agent off: what was under way was not finished by the agent's own decision."""


@record(slots=True)
class Stop(Event):
    """The agent ends its turn, with this last message."""

    message: str


def events(trajectory: Trajectory) -> Iterator[Event]:
    """The events of a recorded trajectory, in order.

    Each call is a Before, followed by its After where a result is recorded; the calls of one step come in
    the order of the record. An agent step without calls that is followed by a prompt or by the end of the
    record is a Stop, unless a person interrupted it or the harness broke down right after it. A reader that
    knows better says so in `Step.stop`.
    """
    index = 0
    late = trajectory.late
    steps = trajectory.steps
    for number, step in enumerate(steps):
        if step.copied:
            continue
        if step.compacted:
            yield Compact(index, number)
            index += 1
        if step.interrupted:
            yield Interrupt(index, number)
            index += 1
        if step.source == "user":
            if step.prompt:
                yield Prompt(index, number, step.message, late)
                late = False
                index += 1
            continue
        if step.source != "agent":
            continue
        stops = step.stop if step.stop is not None else _is_last_of_turn(steps, number)
        if step.message and not (stops and not step.calls):
            yield Say(index, number, step.message)
            index += 1
        for call in step.calls:
            yield Before(index, number, call)
            index += 1
            result = step.results.get(call.id)
            if result is not None:
                yield After(index, number, call, result)
                index += 1
        if stops:
            yield Stop(index, number, step.message)
            index += 1


def _is_last_of_turn(steps: list[Step], number: int) -> bool:
    step = steps[number]
    if step.calls or not step.message or step.interrupted:
        return False
    for later in steps[number + 1 :]:
        if later.interrupted or later.extra.get("harness"):
            return False
        if later.copied or later.source == "system":
            continue
        return later.source == "user" and later.prompt
    return True
