"""Error steps, and their error cards: one sentence each, free of the task (MiRL, taxonomy).

cards.jsonl     {"schema":"misstep.cards", ...}, then {path, n, step, call, trajectory, task, card, failure}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.profile.corrected import as_proposed
from misstep.profile.labels import StepLabel
from misstep.profile.lines import Lines, LinesError, Record, read
from misstep.profile.taxonomy import Key
from misstep.profile.view import Room, Views, task_text
from misstep.scan.record import cut
from misstep.trajectory import Trajectory
from misstep.trajectory.readers import Unreadable
from misstep.trajectory.readers import read as trajectories

if TYPE_CHECKING:
    from misstep.profile.annotator import Annotator
    from misstep.profile.asking import Asker

FILE, SCHEMA, VERSION = "cards.jsonl", "misstep.cards", 1
ROOM = Room(task=1_500, prefix=6_000, text=800, output=1_000, proposed=3_000)
"""Of what the annotator sees of a step."""


@dataclass(frozen=True, slots=True)
class Case:
    """An error step, as the annotator sees it."""

    label: StepLabel
    task: str
    before: str
    """The last steps before it."""
    proposed: str

    @property
    def key(self) -> Key:
        return self.label.key

    def values(self) -> dict[str, str]:
        """For a prompt with the places {task}, {before}, {proposed} and {reason}."""
        return {
            "task": self.task or "(not recorded)",
            "before": self.before or "(none)",
            "proposed": self.proposed,
            "reason": self.label.reason or "(no reason given)",
        }


@dataclass(frozen=True, slots=True)
class Card:
    """The error card of a step."""

    path: str
    n: int
    step: int
    call: int
    trajectory: str
    task: str
    """The environment: what groups trajectories of one task."""
    card: str = ""
    failure: str = ""
    """Why there is none: `kind: message`."""

    @property
    def key(self) -> Key:
        return (self.path, self.n, self.step, self.call)

    @property
    def identity(self) -> tuple[str, str, int, int]:
        """The same wherever its record lies: what chance goes by."""
        return (self.task, self.trajectory, self.step, self.call)


def error_steps(labels: Iterable[StepLabel]) -> list[StepLabel]:
    """The steps with verdict bad, in order of their keys; one that stands in several files (a copied session) once."""
    seen: set[tuple[Any, ...]] = set()
    found = []
    for one in sorted(labels, key=lambda label: label.key):
        same = (one.trajectory, one.task, one.step, one.call, one.command, one.reason)
        if one.verdict == "bad" and same not in seen:
            seen.add(same)
            found.append(one)
    return found


def cases(labels: Iterable[StepLabel], room: Room = ROOM) -> Iterator[Case]:
    """What the annotator sees of each, from its trajectory; where that cannot be read any more, the call alone."""
    for path, group in groupby(labels, key=lambda label: label.path):
        wanted = list(group)
        found = recorded(path, {label.n for label in wanted})
        views = {n: Views(trajectory, room) for n, trajectory in found.items()}
        for label in wanted:
            if label.corrected and label.n in found:  # the record has the correction at that step
                yield _case(label, Views(as_proposed(found[label.n], label.step), room))
            else:
                yield _case(label, views.get(label.n))


def _case(label: StepLabel, views: Views | None) -> Case:
    if views is not None and label.corrected is not None:  # the record goes on with what took the step's place
        views = Views(as_proposed(views.trajectory, label.step), views.room)
    try:
        view = views.at(label.step, label.call) if views is not None and _is(label, views.trajectory) else None
    except IndexError:
        view = None
    if views is None or view is None:
        return Case(label, "", "", cut(label.command, ROOM.proposed))
    return Case(label, cut(task_text(views.trajectory), ROOM.task), view.prefix, view.proposed)


def _is(label: StepLabel, trajectory: Trajectory) -> bool:
    return trajectory.id == label.trajectory


def recorded(path: str, wanted: Iterable[int]) -> dict[int, Trajectory]:
    """The trajectories of a file by their place in it; none where it cannot be read."""
    places = set(wanted)
    found: dict[int, Trajectory] = {}
    if not Path(path).exists():
        return found
    try:
        for n, trajectory in enumerate(trajectories(path)):
            if n in places:
                found[n] = trajectory
            if len(found) == len(places):
                break
    except Unreadable:
        pass
    return found


def header(identity: Mapping[str, Any], prompts: list[dict[str, Any]]) -> Record:
    """The first line of the file: all that decides a card."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "prompts": prompts,
        "annotator": dict(identity),
        "room": ROOM.identity,
    }


async def make(labels: list[StepLabel], folder: Path, annotator: Annotator, asker: Asker[Case]) -> list[Card]:
    """A card of every error step: those that the folder has, and the others from the annotator. In order of their keys.

    Raises:
        Stopped, LinesError.
    """
    from misstep.profile.annotator import identities

    head = header(annotator.identity, identities("card"))
    with Lines(
        folder / FILE, head, key=_key, final=lambda record: not record["failure"].startswith("rejected")
    ) as kept:
        todo = [one for one in labels if one.key not in kept]

        def keep(case: Case, text: str | None, failure: str) -> None:
            path, n, step, call = case.key
            kept.add(
                {"path": path, "n": n, "step": step, "call": call, "trajectory": case.label.trajectory,
                 "task": case.label.task, "card": text or "",
                 "failure": failure}
            )  # fmt: skip

        await asker.all("card", cases(todo), annotator.card, keep, len(todo))
        kept.finish()
        return [Card(**kept.records[one.key]) for one in labels]


def load(folder: Path) -> dict[Key, Card]:
    """All cards that there are. Raises LinesError."""
    path = folder / FILE
    if not path.exists():
        return {}
    found, _ = read(path)
    if found[0].get("schema") != SCHEMA:
        raise LinesError(f"{path}:1: schema {SCHEMA} was expected, not {found[0].get('schema')!r}")
    try:
        return {_key(record): Card(**record) for record in found[1:]}
    except (KeyError, TypeError) as error:
        raise LinesError(f"{path}: no error card: {error}") from None


def _key(record: Record) -> Key:
    return (record["path"], record["n"], record["step"], record["call"])
