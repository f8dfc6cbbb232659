"""What a search for points needs beside the records: the portfolio, and the tasks' folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from misstep.experiment.branch.points import PointsError
from misstep.guard.portfolio import from_plain
from misstep.sandbox.tasks import Task
from misstep.sandbox.tasks import find as tasks_in


def portfolio_at(path: Path | None) -> dict[str, Any]:
    """The plain form of a portfolio file or lock; the catalogue's without a path. Raises PortfolioError or PointsError."""
    from misstep.guard.freeze import read as frozen
    from misstep.guard.portfolio import default

    if path is None:
        return default()
    if path.suffix == ".toml":
        return frozen(path.resolve())
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PointsError(f"{path}: neither a portfolio file (.toml) nor a lock: {error}") from None
    from_plain(plain)
    found: dict[str, Any] = plain
    return found


def tasks_at(paths: Iterable[Path], sources: Iterable[Path] = ()) -> list[Task]:
    """The tasks in some folders (of one task, or of many), and those of the designs of panels. Raises PointsError."""
    found: dict[str, Task] = {}
    for path in [*_designed(sources), *paths]:
        here = [Task.load(path)] if (path / "task.toml").is_file() else tasks_in(path) if path.is_dir() else []
        if not here:
            raise PointsError(f"{path}: no task in it; expected a folder of Harbor tasks, or one of them")
        for task in here:
            found[task.name] = task
    if not found:
        raise PointsError("the tasks' folders are not known: name them with --tasks")
    return list(found.values())


def _designed(sources: Iterable[Path]) -> Iterator[Path]:
    """The folders of tasks that belong to panels."""
    from misstep.experiment.plan import lock
    from misstep.experiment.plan.design import DesignError
    from misstep.experiment.plan.tasks import tasks_of

    for path in sources:
        if (path / lock.LOCK).is_file():
            try:
                yield from (task.path for task in tasks_of(lock.read(path).design))
            except (DesignError, lock.LockError):
                continue  # --tasks may say it
