"""The tasks of a design: where they are, what hashes pin them, and in which cohort each one is."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.experiment.plan.design import Design, DesignError, Tasks
from misstep.experiment.plan.schedule import rank, shuffled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from misstep.guard.portfolio import Portfolio

LEFT_OUT = frozenset({".git", "__pycache__", ".DS_Store"})
"""Files and folders of these names, and *.pyc, are no part of a task."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a panel."""

    name: str
    path: Path
    """Its folder, on this machine."""
    instruction: str
    ref: str = ""
    """A dataset's task: its own digest at Harbor's hub, `sha256:...`."""

    @property
    def digest(self) -> str:
        """See `digest`."""
        return digest(self.path)


def digest(folder: Path) -> str:
    """SHA-256 over the files of a task: of one line a file, `<SHA-256 of the contents>  <relative path>`, sorted by path.

    Paths are sorted as UTF-8 bytes and end in a newline each, so that coreutils can compute it too. A symbolic link counts
    as a file that holds `link:` and its target. Modes and times do not count. Raises OSError.
    """
    rows = []
    for here, folders, files in os.walk(folder):
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders[:] = [name for name in folders if name not in LEFT_OUT and name not in links]
        for name in (*files, *links):
            if name in LEFT_OUT or name.endswith(".pyc"):
                continue
            path = Path(here, name)
            link = path.is_symlink()
            content = b"link:" + os.fsencode(path.readlink()) if link else path.read_bytes()
            rows.append((os.fsencode(path.relative_to(folder).as_posix()), hashlib.sha256(content).hexdigest()))
    lines = b"".join(one.encode() + b"  " + name + b"\n" for name, one in sorted(rows))
    return hashlib.sha256(lines).hexdigest()


def harbor_digest(folder: Path) -> str:
    """The hash that Harbor's own lock.json will have for the task (`TaskLock.digest`); '' where Harbor is not installed."""
    try:
        from harbor.publisher.packager import Packager
    except ImportError:
        return ""
    return f"sha256:{Packager.compute_content_hash(folder)[0]}"


def tasks_of(design: Design) -> list[Task]:
    """The tasks that a design chooses, sorted by name.

    Raises:
        DesignError: no such folder, no task left, or a dataset that cannot be had.
    """
    chosen = design.tasks
    found = _dataset(chosen) if chosen.dataset else _folder(design)
    kept = [task for task in found if _wanted(chosen, task.name)]
    if not kept:
        what = f"none of the {len(found)} tasks is left by include and exclude" if found else "no Harbor tasks in it"
        raise DesignError(f"tasks: {chosen.dataset or design.where(chosen.path)}: {what}")
    for pattern in chosen.exclude:
        if not any(fnmatchcase(task.name, pattern) for task in found):
            raise DesignError(f"tasks.exclude: {pattern!r} names no task")
    return sorted(kept, key=lambda task: task.name)


def _wanted(chosen: Tasks, name: str) -> bool:
    return any(fnmatchcase(name, p) for p in chosen.include) and not any(fnmatchcase(name, p) for p in chosen.exclude)


def _folder(design: Design) -> list[Task]:
    folder = design.where(design.tasks.path)
    try:
        paths = sorted(path for path in folder.iterdir() if (path / "task.toml").is_file())
        return [Task(path.name, path, _instruction(path)) for path in paths]
    except OSError as error:
        raise DesignError(f"tasks.path: {error.filename or folder}: {error.strerror}") from None


def _instruction(path: Path) -> str:
    return (path / "instruction.md").read_text(encoding="utf-8", errors="replace")


def _dataset(chosen: Tasks) -> list[Task]:
    """The tasks of a dataset at Harbor's hub, by way of Harbor's own cache."""
    import asyncio

    os.environ.setdefault("HARBOR_TELEMETRY", "0")
    try:
        from harbor.models.job.config import DatasetConfig
        from harbor.tasks.client import TaskClient
    except ImportError:
        raise DesignError("tasks.dataset: needs Harbor: pip install 'misstep[harbor]'") from None

    async def fetch() -> list[Task]:
        configs = await DatasetConfig(name=chosen.dataset, ref=chosen.ref).get_task_configs()
        ids = [config.get_task_id() for config in configs]
        names = [task_id.get_name().rpartition("/")[2] for task_id in ids]
        wanted = [n for n, name in enumerate(names) if _wanted(chosen, name)]
        done = await TaskClient().download_tasks([ids[n] for n in wanted])
        return [
            Task(names[n], path, _instruction(path), str(configs[n].ref or ""))
            for n, path in zip(wanted, done.paths, strict=True)
        ]

    try:
        return asyncio.run(fetch())
    except Exception as error:  # the hub's client raises what its transport raises
        text = " ".join(str(error).split())
        raise DesignError(
            f"tasks.dataset: {chosen.dataset}@{chosen.ref[:19]}: {type(error).__name__}: {text}"
        ) from None


# -- cohorts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assigned:
    """Which tasks a panel runs, and why."""

    cohort: Mapping[str, str]
    """Task -> eligible | silent, of the tasks that run, sorted by name."""
    eligible: Mapping[str, tuple[str, ...]]
    """Task -> the policies whose eligibility takes it, in the portfolio's order; every task of the design."""
    everywhere: tuple[str, ...]
    """Policies that take every task there could be: they make no cohort."""

    def tasks(self, cohort: str) -> list[str]:
        """The names of a cohort."""
        return [name for name, kind in self.cohort.items() if kind == cohort]

    def selected(self, task: str) -> tuple[str, ...]:
        """The policies that take this task and not every one."""
        return tuple(policy for policy in self.eligible[task] if policy not in self.everywhere)

    @property
    def hidden(self) -> list[str]:
        """Silent tasks that a policy takes for its own: it may fire there."""
        return [name for name in self.tasks("silent") if self.selected(name)]

    @property
    def unused(self) -> list[str]:
        """Tasks that are in no cohort."""
        return [name for name in self.eligible if name not in self.cohort]


def assign(design: Design, tasks: Sequence[Task], portfolio: Portfolio) -> Assigned:
    """The cohorts of a design: eligible by the portfolio's own E over the instructions, silent by name or by the seed.

    A policy that takes every task selects none, so it does not make a task eligible, unless no policy selects.

    Raises:
        DesignError: a name that is no task, a task named eligible that nothing takes, too few silent tasks.
        PortfolioError: a policy that cannot be loaded.
    """
    from misstep.guard.study import audit

    names = [task.name for task in tasks]
    for key, named in (("eligible", design.cohorts.eligible or ()), ("silent", design.cohorts.silent)):
        for name in named:
            if name not in names:
                raise DesignError(f"cohorts.{key}: expected names of the design's tasks, not {name!r}")
    routes = audit(portfolio, [(task.name, task.instruction) for task in tasks])
    taken: dict[str, list[str]] = {name: [] for name in names}
    order = {rule.policy: n for n, rule in enumerate(portfolio.rules) if rule.mode == "enforce"}  # others never act
    routes = [route for route in routes if route.policy in order]
    for route in sorted(routes, key=lambda r: order[r.policy]):
        taken[route.task].append(route.policy)
    everywhere = tuple(p for p in order if p in {r.policy for r in routes if not r.words})
    only = set(everywhere) if len(everywhere) < len(order) else set()
    selected = [name for name in names if set(taken[name]) - only]
    silent = set(design.cohorts.silent)
    wanted = design.cohorts.eligible
    for name in wanted or ():
        if name not in selected:
            raise DesignError(f"cohorts.eligible: expected tasks that a policy takes, but none takes {name!r}")
    eligible = set(selected if wanted is None else wanted) - silent
    if design.cohorts.count:
        free = [name for name in names if name not in selected]
        if len(free) < design.cohorts.count:
            raise DesignError(
                f"cohorts.count: expected at most {len(free)}, the tasks that are eligible for nothing, not {design.cohorts.count}"
            )
        silent = set(shuffled(free, lambda name: rank(design.seed, "silent", name))[: design.cohorts.count])
    cohort = {n: "eligible" if n in eligible else "silent" for n in names if n in eligible or n in silent}
    if not cohort:
        raise DesignError("cohorts.eligible: no task is eligible for a policy, and none is named silent")
    return Assigned(cohort, {n: tuple(p) for n, p in taken.items()}, tuple(p for p in everywhere if p in only))


def portfolio_of(design: Design) -> dict[str, Any]:
    """The plain form of the design's portfolio. Raises DesignError or PortfolioError."""
    import json

    from misstep.guard.freeze import read
    from misstep.guard.portfolio import default

    if not design.portfolio:
        return default()
    path = design.where(design.portfolio)
    if path.suffix == ".toml":
        return read(path.resolve())
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DesignError(f"portfolio: {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DesignError(f"portfolio: {path}: neither a portfolio file (.toml) nor a lock: {error}") from None
    if not isinstance(plain, dict) or not isinstance(plain.get("rules"), list):
        raise DesignError(f"portfolio: {path}: not a lock of a portfolio")
    return plain
