"""Find a session by its path, its id, or the start of its id."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from misstep.trajectory import Trajectory
from misstep.trajectory.readers import Unreadable, read, units

from .index import Index
from .result import BadInput


def find(
    reference: str, index: Index | None, note: Callable[[str], None] = lambda text: None
) -> tuple[Trajectory, int | None]:
    """The trajectory of PATH[::N][#STEP] or ID[#STEP], and the step. Raises BadInput in one line.

    `note` is told what the caller should know of the choice."""
    if not reference.strip() or (reference.startswith("#") and not os.path.lexists(reference)):
        raise BadInput("name a session: a file, a folder or the start of an id")
    name, step = _split(reference)
    name, place = _place(name)
    path = Path(name).expanduser()
    if os.path.lexists(path):
        trajectory = _from_path(path, place)
    else:
        trajectory = _from_id(name, index, note)
    if step is not None and not 0 <= step < len(trajectory.steps):
        raise BadInput(f"{reference}: the session has the steps 0 to {len(trajectory.steps) - 1}")
    return trajectory, step


def _split(reference: str) -> tuple[str, int | None]:
    name, mark, number = reference.rpartition("#")
    if not mark or os.path.lexists(Path(reference).expanduser()):
        return reference, None
    if not re.fullmatch(r"\d{1,9}", number):
        raise BadInput(f"{reference}: after # stands a step's number")
    return name, int(number)


def _place(name: str) -> tuple[str, int | None]:
    head, mark, number = name.rpartition("::")
    if mark and number.isdecimal() and not os.path.lexists(Path(name).expanduser()):
        return head, int(number)
    return name, None


def _from_path(path: Path, place: int | None) -> Trajectory:
    found = []
    for unit in units([path]):
        try:
            found += list(read(unit))
        except Unreadable as error:
            if unit == path:
                raise BadInput(str(error)) from error
        if path.is_dir() and len(found) > 1 and unit != path:
            raise BadInput(f"{path}: a folder of several sessions: name one of its files")
    if not found:
        raise BadInput(f"{path}: no session of a known agent")
    if place is not None and place >= len(found):
        raise BadInput(f"{path}: it holds {len(found)} trajectories, from ::0")
    return found[place or 0]


def _from_id(prefix: str, index: Index | None, note: Callable[[str], None]) -> Trajectory:
    """By the index, else by the names of the files in the known places: their stems are or end in the session's id."""
    rows = [row for row in (index.sessions(prefix) if index else []) if Path(row[1]).exists()]
    exact = [row for row in rows if row[0] == prefix]
    rows = exact or rows
    names = list(dict.fromkeys(row[0] for row in rows))
    if len(names) > 1 and not (_is_start(prefix) and all(n.startswith(names[0] + "/") for n in names[1:])):
        raise BadInput(f"{prefix}: several sessions start so: {_listed(names)}")
    if rows:
        same = [row for row in rows if row[0] == names[0]]
        _, path, n, _ = same[0]
        if len(same) > 1:
            files = [row[1] + (f"::{row[2]}" if row[2] else "") for row in same]
            note(f"{names[0]} stands in {len(files)} places, the longest is shown: {_listed(files)}")
        try:
            for number, trajectory in enumerate(read(path)):
                if number == n:
                    return trajectory
        except Unreadable as error:
            raise BadInput(str(error)) from error
    for path in _named(prefix) if len(prefix) >= 4 else ():
        try:
            for trajectory in read(path):
                if trajectory.id.startswith(prefix):
                    return trajectory
        except Unreadable:
            continue
    raise BadInput(f"{prefix}: no such file, and no session of this id has been scanned here")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _is_start(prefix: str) -> bool:
    """Whether it is the start of a session's own id: that of a sub-agent goes on with a slash."""
    return "/" not in prefix


def _named(prefix: str) -> Iterator[str]:
    from .sources import places

    for place in places():
        for folder, folders, files in os.walk(place.path):
            folders.sort()
            yield from (f"{folder}/{name}" for name in sorted(files) if prefix in name)
