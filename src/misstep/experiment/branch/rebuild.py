"""A decision point on its feet again: the sandbox by replay of the recorded commands, the conversation by its messages.

The replay is done twice in fresh sandboxes of the task before anything is built on it (`misstep.sandbox.replay`). Where
processes live on at the point, its files are not its state: every branch is then a replay of its own, and is held against the
first ones.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.experiment.branch.cut import before, call_of, conversation, obstacle, recording_of
from misstep.experiment.branch.points import Point, PointsError, Recorded
from misstep.experiment.branch.treatment import PointLost
from misstep.models.request import Message
from misstep.sandbox import replay
from misstep.sandbox.base import SandboxError
from misstep.trajectory import Event, Trajectory, events
from misstep.trajectory.readers import Unreadable, read

if TYPE_CHECKING:
    from misstep.sandbox.replay import Start
    from misstep.trajectory.model import Call

RULES = ("exact", "masked")


@dataclass(frozen=True, slots=True)
class Verified:
    """What two replays said of a point."""

    point: str
    grade: str
    """exact | masked | different | unknown; '' where nothing could be replayed."""
    why: str = ""
    """What of it is not exact, or why it cannot be replayed, in one line."""
    live: tuple[str, ...] = ()
    """Commands of the processes that live on at the point: it is branched by replay, each time."""
    commands: int = 0
    seconds: float = 0.0
    """Of both replays."""
    verbatim: bool = False
    """The conversation is message by message the recorded one; else it is told in our own form."""

    def trusted(self, rule: str) -> bool:
        """Whether branches may be built on it under a rule (exact, masked)."""
        return self.grade == "exact" or (rule == "masked" and self.grade == "masked")

    def plain(self) -> dict[str, Any]:
        """As in the file."""
        return {name: _list(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def from_plain(cls, given: dict[str, Any]) -> Verified:
        """Back from the file."""
        return cls(**{**given, "live": tuple(given.get("live", ()))})


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@dataclass(slots=True)
class Rebuilt:
    """A point whose sandbox can be branched."""

    point: Point
    cut: Trajectory
    """The steps up to it."""
    past: list[Event]
    """The events before the point's own."""
    messages: list[Message]
    pending: Call | None
    stopping: str | None
    prefix: replay.Prefix
    verified: Verified
    tokens: dict[str, int] = field(default_factory=dict)

    def discard(self) -> None:
        """Removes its state from the disk."""
        self.prefix.discard()


def trajectory_of(attempt: Recorded) -> Trajectory:
    """The record of an attempt. Raises PointsError where it can no longer be read."""
    try:
        found = list(read(attempt.path))
    except Unreadable as error:
        raise PointsError(str(error)) from None
    if attempt.place >= len(found):
        raise PointsError(f"{attempt.path}: expected {attempt.place + 1} trajectories in it")
    return found[attempt.place]


def rebuild(
    point: Point, attempt: Recorded, start: Start, *, rule: str = "exact", keep: bool = True
) -> tuple[Verified, Rebuilt | None]:
    """Replay a point's prefix twice and, where it can be trusted, keep the state for branches.

    Args:
        start: makes a fresh sandbox of the attempt's task.
        rule: exact, or masked: what two replays show to be noise may differ.

    Raises:
        PointsError: the record can no longer be read.
        SandboxError: the sandbox is at fault, not the record.
    """
    if point.problem:
        return Verified(point.id, "", point.problem), None
    trajectory = trajectory_of(attempt)
    cut = before(trajectory, point.step, point.call)
    recording = recording_of(cut)
    problem = obstacle(cut, recording)
    if problem:
        return Verified(point.id, "", problem), None
    pending = call_of(trajectory, point.step, point.call)
    messages, verbatim = conversation(cut, pending)
    began = time.monotonic()
    prefix = replay.verify(recording, start, keep=keep)
    worst = prefix.first_difference
    why = "" if worst is None else f"{worst.reason}: {worst.recorded.shown[:160]}"
    verified = Verified(
        point.id,
        prefix.grade,
        why,
        tuple(one.command[:200] for one in prefix.live),
        len(recording.commands),
        round(time.monotonic() - began, 3),
        verbatim,
    )
    if not verified.trusted(rule) or not keep:
        prefix.discard()
        return verified, None
    past = [event for event in events(trajectory) if event.index < point.at]
    stopping = None if pending is not None else cut.steps[-1].message
    return verified, Rebuilt(point, cut, past, messages, pending, stopping, prefix, verified)


class Verdicts:
    """`verified.jsonl`: what replays said of points, the last line of a point counts."""

    SCHEMA, VERSION = "misstep.branch.verified", 1

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Verified] = {}
        for number, row in rows_of(path, self.SCHEMA, self.VERSION):
            try:
                one = Verified.from_plain(row)
            except TypeError as error:
                raise PointsError(f"{path}:{number}: expected what a replay said of a point: {error}") from None
            self.known[one.point] = one

    def add(self, one: Verified) -> None:
        """Append, unless the file says so already."""
        if self.known.get(one.point) is not None and _same(self.known[one.point], one):
            return
        append(self.path, one.plain(), self.SCHEMA, self.VERSION)
        self.known[one.point] = one


def _same(one: Verified, other: Verified) -> bool:
    return {**one.plain(), "seconds": 0} == {**other.plain(), "seconds": 0}


def rows_of(path: Path, schema: str, version: int) -> list[tuple[int, dict[str, Any]]]:
    """(line, record) of a file of records, a last line that was cut short left out; [] where there is none.

    Raises PointsError with the file and line.
    """
    if not path.exists():
        return []
    found = []
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1], 1):
        try:
            row = json.loads(text)
            if not isinstance(row, dict):
                raise ValueError("no object")
        except ValueError as error:
            raise PointsError(f"{path}:{number}: expected a JSON object: {error}") from None
        if number == 1:
            if (row.get("schema"), row.get("version")) != (schema, version):
                raise PointsError(f"{path}:1: expected schema {schema!r}, version {version}")
            continue
        found.append((number, row))
    return found


def append(path: Path, row: dict[str, Any], schema: str, version: int) -> None:
    """Add a record in one write, synced; a file's head comes first, a line that was cut short before it goes. Raises OSError."""
    import os

    with path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                data = path.read_bytes()
                file.truncate(data.rfind(b"\n") + 1)
        head = "" if file.seek(0, os.SEEK_END) else json.dumps({"schema": schema, "version": version}) + "\n"
        file.write(
            (head + json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "replace")
        )
        file.flush()
        os.fsync(file.fileno())


__all__ = [
    "RULES",
    "PointLost",
    "Rebuilt",
    "SandboxError",
    "Verdicts",
    "Verified",
    "append",
    "rebuild",
    "rows_of",
    "trajectory_of",
]
