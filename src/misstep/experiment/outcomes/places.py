"""Where trials lie: the jobs of Harbor and the runs of terminal-bench v1 below what a person names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misstep.experiment.attempts import AttemptsError
from misstep.trajectory.readers import harbor as harbor_reader
from misstep.trajectory.readers import terminal_bench as v1_reader

_SKIPPED = frozenset([".git", "node_modules", "__pycache__", ".venv"])


@dataclass(frozen=True, slots=True)
class Place:
    """Something to read, with the arm that it was given ('' for none)."""

    path: Path
    arm: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial's folder, or a run's results.json where trials have no folders of their own (v1)."""

    kind: str
    """harbor | v1"""
    path: Path
    job: str
    arm: str


def walk(root: Path, arm: str) -> Iterator[Trial]:
    """The trials below a folder. Below a trial nothing is looked for: what an agent left there is its own."""
    for name, folders, files in os.walk(root):
        folder, names = Path(name), frozenset(files)
        if harbor_reader.matches_folder(folder, names) or _unfinished(folder, names):
            folders.clear()
            yield Trial("harbor", folder, _name(folder.parent, root), arm)
            continue
        if v1_reader.matches_folder(folder, names):
            folders.clear()
            yield Trial("v1", folder, _name(folder.parent.parent, root), arm)
            continue
        if "results.json" in names and _has_rows(folder / "results.json"):
            yield Trial("v1", folder / "results.json", _name(folder, root), arm)
        folders[:] = sorted(one for one in folders if one not in _SKIPPED)


def _unfinished(folder: Path, names: frozenset[str]) -> bool:
    """Whether it is the folder of a Harbor trial that did not end: a config of a trial, and no result."""
    if "config.json" not in names or "result.json" in names:
        return False
    config = document(folder / "config.json")
    return isinstance(config.get("trial_name"), str) and isinstance(config.get("task"), dict)


def of_file(path: Path, arm: str) -> Iterator[Trial]:
    """A trial's or a run's result file given by itself."""
    folder, names = path.parent, frozenset([path.name])
    if harbor_reader.matches_folder(folder, names):
        yield Trial("harbor", folder, _name(folder.parent, folder.parent), arm)
    elif v1_reader.matches_folder(folder, names):
        yield Trial("v1", folder, _name(folder.parent.parent, folder.parent.parent), arm)
    elif _has_rows(path):
        yield Trial("v1", path, _name(folder, folder), arm)
    else:
        raise AttemptsError(f"{path}: expected a result of Harbor or of terminal-bench v1")


def _has_rows(path: Path) -> bool:
    """Whether it is the results.json of a terminal-bench run."""
    with path.open("rb") as file:
        if b"{" not in file.read(16):
            return False
    rows = document(path).get("results")
    return isinstance(rows, list) and any(isinstance(row, dict) and "is_resolved" in row for row in rows)


def _name(job: Path, root: Path) -> str:
    """What a job is called: its place below what was given, or that one's own name."""
    try:
        inside = job.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        inside = "."  # a trial, or a task's folder, was given by itself
    return job.resolve().name if inside == "." else inside


def document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes().decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def task_of(result: Mapping[str, Any], folder: Path) -> str:
    """The task's name; of a trial that did not end, as its config has it."""
    name = result.get("task_name")
    if isinstance(name, str) and name:
        return name
    config = result.get("config")
    task = config.get("task") if isinstance(config, dict) else None
    found = (task.get("name") or task.get("path")) if isinstance(task, dict) else None
    return Path(found).name if isinstance(found, str) and found else folder.name.rpartition("__")[0] or folder.name


def task_folder(result: Mapping[str, Any]) -> Path | None:
    """The folder of the task that a Harbor trial ran, None where it names none that is on this machine."""
    config = result.get("config")
    task = config.get("task") if isinstance(config, dict) else None
    path = task.get("path") if isinstance(task, dict) else None
    return Path(path) if isinstance(path, str) and (Path(path) / "instruction.md").is_file() else None


def instruction(task: Path | None) -> str:
    """What a task's folder asks for, '' where it cannot be read."""
    try:
        return (task / "instruction.md").read_text(encoding="utf-8", errors="replace").strip() if task else ""
    except OSError:
        return ""
