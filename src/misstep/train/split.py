"""Environments in two: those that are trained on, and those that are held out. Locked in a file of hashes (MiRL, the split).

An environment is what a task is to an agent and its verifier: instruction, container, tests, settings. The lock names each by the
SHA-256 of those files, so that a task that was changed, or comes again under another name, is told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misstep import __version__
from misstep.sandbox.tasks import Task
from misstep.train.prefixes import Split

SCHEMA, VERSION = "misstep.split", 1
FILE = "split.json"
HELD_OUT = 0.2
"""Share of environments that are held out (the source is silent)."""
_PARTS = ("task.toml", "instruction.md", "environment", "tests")


class SplitError(ValueError):
    """A split that cannot be used: one line that names the file and what was expected."""


def environment_of(folder: Path) -> str:
    """SHA-256 of a task's files, their names among them; the oracle's and wrong deliveries are no part of it.

    Raises SplitError where the folder cannot be read.
    """
    whole = hashlib.sha256()
    try:
        files = [path for part in _PARTS for path in _files(folder / part)]
        for path in sorted(files, key=lambda one: one.relative_to(folder).as_posix()):
            name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
            kind = b"x" if path.stat().st_mode & 0o100 else b"-"
            data = path.read_bytes()
            whole.update(b"%d %s %s %d\n" % (len(name), name, kind, len(data)))
            whole.update(data)
    except OSError as error:
        raise SplitError(f"{error.filename or folder}: {error.strerror}") from None
    return whole.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    if path.is_dir():
        return (one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
    return [path] if path.exists() else []


@dataclass(frozen=True)
class Locked:
    """Which environments are held out."""

    seed: int
    held_out: float
    environments: Mapping[str, tuple[str, Split]]
    """SHA-256 -> (the task's name when it was locked, the side)."""

    def side(self, environment: str) -> Split | None:
        """None: the environment is not in the lock."""
        found = self.environments.get(environment)
        return None if found is None else found[1]

    def plain(self) -> dict[str, Any]:
        """As in the file, without the hash."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "misstep": __version__,
            "seed": self.seed,
            "held_out": self.held_out,
            "environments": {
                one: {"task": name, "split": side} for one, (name, side) in sorted(self.environments.items())
            },
        }


def make(tasks: Iterable[Task], *, held_out: float = HELD_OUT, seed: int = 0) -> Locked:
    """Splits environments by a hash of seed and environment: the order of the tasks and their names do not matter.

    At least one environment is on each side where there are two or more and a share is held out.
    """
    if not 0 <= held_out < 1:
        raise SplitError(f"held out: expected a share of 0 to below 1, found {held_out}")
    names: dict[str, str] = {}
    for task in tasks:
        names.setdefault(environment_of(task.path), task.name)
    order = sorted(names, key=lambda one: hashlib.sha256(f"{seed}|{one}".encode()).digest())
    count = round(held_out * len(order))
    if held_out and len(order) > 1:
        count = min(max(1, count), len(order) - 1)
    held = set(order[:count])
    return Locked(seed, held_out, {one: (names[one], "held-out" if one in held else "train") for one in order})


def _sum(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def save(path: Path, locked: Locked) -> None:
    """Writes the lock. Raises SplitError where there is another one: it is never edited."""
    if path.exists():
        if load(path).environments != locked.environments:
            raise SplitError(f"{path}: is another split than this: give it as --split, or name another folder")
        return
    plain = locked.plain()
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps({**plain, "sha256": _sum(plain)}, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)


def load(path: Path) -> Locked:
    """A lock from its file, or its folder.

    Raises:
        SplitError: it is none, or was changed after it was locked.
    """
    path = path / FILE if path.is_dir() else path
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SplitError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise SplitError(f"{path}: no JSON: {error}") from None
    if not isinstance(given, dict) or (given.get("schema"), given.get("version")) != (SCHEMA, VERSION):
        raise SplitError(f"{path}: expected schema {SCHEMA!r}, version {VERSION}")
    kept = given.pop("sha256", None)
    if kept != _sum(given):
        raise SplitError(f"{path}: was changed after it was locked (its SHA-256 is another)")
    found = {key: (one["task"], one["split"]) for key, one in given["environments"].items()}
    return Locked(given["seed"], given["held_out"], found)
