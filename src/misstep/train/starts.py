"""Where rollouts start: misstep prefixes and tasks, mixed; the order is a function of the seed and the position alone.

The share of prefixes is a parameter of every recipe (0: task starts only, as TMax; 1: prefixes only, as MiRL; default half and
half). Types are drawn uniformly, then environments, then the prefixes of one (MiRL, sampling): each in shuffled cycles, so
that counts differ by at most one over a cycle. Nothing is random but by the seed: all that must be kept to go on after a
kill is the position, and `commit` keeps it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from misstep.train.prefixes import Prefix, Target

SCHEMA, VERSION = "misstep.starts", 1


class StartsError(ValueError):
    """Starts that cannot be drawn, or not gone on with: one line that names the file and what was expected."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where the rollouts of a group start."""

    id: str
    """The prefix's, or `task:` and the task's name."""
    task: str
    folder: str
    """Of the task, in Harbor's format."""
    environment: str = ""
    """SHA-256 of the task's files, '' where it was not asked for."""
    prefix: Prefix | None = None
    """None: the task's beginning."""
    targets: tuple[Target, ...] = ()
    """Missteps that the reward looks for: the prefix's own; of a task start those that the recipe names, perhaps none."""

    @property
    def kind(self) -> Literal["prefix", "task"]:
        return "task" if self.prefix is None else "prefix"

    @classmethod
    def at(cls, prefix: Prefix) -> Start:
        """The state before a prefix's misstep."""
        return cls(prefix.id, prefix.task, prefix.folder, prefix.environment, prefix, (prefix.target,))

    @classmethod
    def of_task(cls, folder: Path, targets: Sequence[Target] = (), environment: str = "") -> Start:
        """A task's beginning."""
        return cls(f"task:{folder.name}", folder.name, str(folder), environment, None, tuple(targets))


def _order(count: int, *key: object) -> list[int]:
    """A permutation of range(count) that is a function of the key."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    order = list(range(count))
    random.Random(int.from_bytes(digest, "big")).shuffle(order)
    return order


class _Cycles:
    """The n-th item when items are drawn in shuffled cycles: every item once before any comes again."""

    def __init__(self, count: int, *key: object) -> None:
        self.count, self.key = count, key
        self._cycle, self._now = -1, list[int]()

    def at(self, n: int) -> tuple[int, int]:
        """(which item, how often it came before)."""
        cycle, place = divmod(n, self.count)
        if cycle != self._cycle:
            self._cycle, self._now = cycle, _order(self.count, *self.key, cycle)
        return self._now[place], cycle


class Starts:
    """An endless sequence of starts.

    Args:
        prefixes: those of the training environments.
        tasks: task starts.
        share: of prefixes among the starts, 0 to 1; exact over any stretch of the sequence to one start.
        path: keeps the position; read here where it exists.

    Raises:
        StartsError: there is nothing to draw from; a held-out prefix is among them; `path` is of another sequence.
    """

    def __init__(
        self,
        prefixes: Sequence[Prefix],
        tasks: Sequence[Start] = (),
        *,
        share: float = 0.5,
        seed: int = 0,
        path: Path | None = None,
    ) -> None:
        if not 0 <= share <= 1:
            raise StartsError(f"share: expected 0 to 1, found {share}")
        if share > 0 and not prefixes:
            raise StartsError(f"a share of {share:g} prefixes, and there is no prefix")
        if share < 1 and not tasks:
            raise StartsError(f"a share of {1 - share:g} task starts, and there is no task")
        held = next((one for one in prefixes if one.split != "train"), None)
        if held is not None:
            raise StartsError(f"prefix {held.id} is of a held-out environment ({held.task}): not to train on")
        self.share, self.seed, self.path = share, seed, path
        self.position = 0
        """Starts drawn so far."""
        self._tasks = sorted(tasks, key=lambda one: (one.id, one.folder))
        self._task_cycles = _Cycles(max(1, len(self._tasks)), seed, "tasks")
        grouped: dict[str, dict[str, list[Prefix]]] = defaultdict(lambda: defaultdict(list))
        for one in prefixes:
            grouped[f"{one.target.kind}:{one.target.id}"][one.environment].append(one)
        self._types = [
            [sorted(found, key=lambda p: p.id) for _, found in sorted(grouped[name].items())]
            for name in sorted(grouped)
        ]
        self._type_cycles = _Cycles(max(1, len(self._types)), seed, "types")
        self._environment_cycles = [_Cycles(len(t), seed, "environments", n) for n, t in enumerate(self._types)]
        ids = [sorted(one.id for one in prefixes), [one.id for one in self._tasks]]
        self.fingerprint = hashlib.sha256(json.dumps([share, seed, ids]).encode()).hexdigest()
        if path is not None and path.exists():
            self._resume(path)

    def _resume(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            position = kept["position"]
            if (kept["schema"], kept["version"]) != (SCHEMA, VERSION) or not isinstance(position, int) or position < 0:
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            raise StartsError(f"{path}: expected a position of schema {SCHEMA}, version {VERSION}") from None
        if kept.get("fingerprint") != self.fingerprint:
            raise StartsError(f"{path}: is of other starts (other prefixes, tasks, share or seed): name another folder")
        self.position = position

    def at(self, n: int) -> Start:
        """The n-th start, from 0."""
        before, after = int(n * self.share + 1e-9), int((n + 1) * self.share + 1e-9)
        if after == before:
            return self._tasks[self._task_cycles.at(n - before)[0]]
        kind, times = self._type_cycles.at(before)
        environments = self._types[kind]
        which, again = self._environment_cycles[kind].at(times)
        found = environments[which]
        return Start.at(found[_order(len(found), self.seed, "prefixes", kind, which)[again % len(found)]])

    def draw(self, count: int = 1) -> list[Start]:
        """The next starts. A draw that was not committed is drawn again after a kill."""
        made = [self.at(n) for n in range(self.position, self.position + count)]
        self.position += count
        return made

    def commit(self) -> None:
        """Keeps the position, on disk when this returns: to be called where a step's results are kept too."""
        if self.path is None:
            return
        row = {"schema": SCHEMA, "version": VERSION, "position": self.position, "fingerprint": self.fingerprint}
        fresh = self.path.with_name(f"{self.path.name}.new")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def plain(self) -> dict[str, Any]:
        """What there is to draw from, for config.json."""
        prefixes = sum(len(found) for kind in self._types for found in kind)
        return {
            "share": self.share, "seed": self.seed, "prefixes": prefixes, "types": len(self._types),
            "tasks": len(self._tasks), "fingerprint": self.fingerprint,
        }  # fmt: skip
