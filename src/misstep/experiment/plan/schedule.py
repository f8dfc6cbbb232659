"""The order of a panel's attempts: randomised in blocks, from the seed alone.

A block is one (task, replicate) with all arms of the design in random order. All blocks of replicate 1 run before those of
replicate 2, in random order within a replicate: wherever a panel is interrupted, all arms but those of the block in flight
have the same tasks (FIRE: condition order randomised within each replicate).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

SCHEMA = "misstep.schedule"
VERSION = 1
T = TypeVar("T")


class ScheduleError(ValueError):
    """A schedule that cannot be read: one line with the file, the line and what was expected."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A planned attempt."""

    at: int
    """Its place in the order of running, from 0."""
    block: int
    """Of its (task, replicate), from 0 in the order of running."""
    task: str
    arm: str
    replicate: int
    """From 1."""

    @property
    def key(self) -> tuple[str, str, int]:
        """(task, arm, replicate), as `Attempt.slot`."""
        return self.task, self.arm, self.replicate


def rank(seed: int, *what: object) -> bytes:
    """A hash that orders things at random: SHA-256 of the JSON list [seed, what...] in UTF-8, without spaces.

    Sorting by it is a uniform random order that needs no generator's state: it is the same on every machine and in every
    version of Python, and what one thing gets does not depend on which others are there.
    """
    text = json.dumps([seed, *what], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def shuffled(items: Iterable[T], key: Callable[[T], bytes]) -> list[T]:
    """The items in the order of their ranks."""
    return sorted(items, key=key)


def schedule(tasks: Sequence[str], arms: Sequence[str], attempts: int, seed: int) -> list[Slot]:
    """Every slot of a panel, in order of running. Does not depend on the order in which tasks or arms are given.

    Blocks of replicate r are ordered by rank(seed, "block", task, r), the arms in one by rank(seed, "arm", task, r, arm).
    Raises ValueError for a task or an arm that is there twice.
    """
    for kind, names in (("task", tasks), ("arm", arms)):
        if len(set(names)) != len(names):
            raise ValueError(f"a {kind} is there twice: {next(n for n in names if list(names).count(n) > 1)!r}")
    made: list[Slot] = []
    block = 0
    for replicate in range(1, attempts + 1):
        for task in shuffled(tasks, lambda t: rank(seed, "block", t, replicate)):  # noqa: B023 (used at once)
            for arm in shuffled(arms, lambda a: rank(seed, "arm", task, replicate, a)):  # noqa: B023
                made.append(Slot(len(made), block, task, arm, replicate))
            block += 1
    return made


def write_schedule(path: Path, slots: Iterable[Slot]) -> None:
    """The whole file. Raises OSError."""
    path.write_text(text_of(slots), encoding="utf-8")


def text_of(slots: Iterable[Slot]) -> str:
    """What the file holds: a header, then a slot a line."""
    rows = [{"schema": SCHEMA, "version": VERSION}, *map(asdict, slots)]
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def read_schedule(path: Path) -> list[Slot]:
    """The slots of a file, which must be whole: at counts from 0, and no slot is there twice.

    Raises:
        ScheduleError: the file, the line, what was expected.
        OSError: the file cannot be read.
    """
    made: list[Slot] = []
    seen: set[tuple[str, str, int]] = set()
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        if not text and number > 1:
            continue
        where = f"{path}:{number}"
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ScheduleError(f"{where}: not JSON: {error}") from None
        if number == 1:
            if not isinstance(given, dict) or given.get("schema") != SCHEMA:
                raise ScheduleError(f"{where}: not a schedule (expected schema {SCHEMA!r})")
            if given.get("version") != VERSION:
                raise ScheduleError(f"{where}: version {given.get('version')!r}; this misstep reads {VERSION}")
            continue
        slot = _slot(given, where)
        if slot.at != len(made):
            raise ScheduleError(f"{where}: at is {slot.at}; expected {len(made)}")
        if slot.key in seen:
            raise ScheduleError(f"{where}: slot {list(slot.key)} is there twice")
        seen.add(slot.key)
        made.append(slot)
    return made


def _slot(given: Any, where: str) -> Slot:
    kinds = {"at": int, "block": int, "task": str, "arm": str, "replicate": int}
    if not isinstance(given, dict) or given.keys() != kinds.keys():
        raise ScheduleError(f"{where}: expected an object with {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(given[name]) is not kind or (kind is int and given[name] < (name == "replicate")) or given[name] == "":
            raise ScheduleError(f"{where}: {name} is {'a number' if kind is int else 'a text'}, not {given[name]!r}")
    return Slot(**given)
