"""How far a panel is: read from its folder, whether or not a run is at work in it. Says nothing about outcomes."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from misstep.experiment.attempts import Attempt, fair, read_attempts
from misstep.experiment.plan import lock
from misstep.experiment.runs.archive import ATTEMPTS, BEGUN, LINEAGE, LOCK, TRIALS, ArchiveError, read_lineage
from misstep.experiment.runs.replacement import settled

if TYPE_CHECKING:
    from misstep.experiment.plan.lock import Panel


@dataclass(frozen=True, slots=True)
class AtWork:
    """A trial that runs."""

    trial: str
    task: str
    seconds: float
    agent: bool
    """Whether the agent has begun."""


@dataclass(frozen=True, slots=True)
class Status:
    """A panel's state, as its records tell it."""

    name: str
    slots: int
    settled: int
    """Slots that need nothing more: with their observation, or with their chain exhausted."""
    observed: int
    exhausted: int
    candidates: int
    """Attempts on record, every candidate counted."""
    running: bool
    """Whether a run is at work in the folder."""
    at_work: tuple[AtWork, ...]
    arms: dict[str, int]
    """Arm -> slots with their observation: how balanced it is."""
    faults: dict[str, int]
    """Why candidates were no observations -> how many."""
    dropped: int
    seconds_per_attempt: float | None
    left: float | None
    """Seconds that what is left will take at the design's concurrency."""
    cost_usd: float | None

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def status_of(folder: Path) -> Status:
    """The state of a locked panel's folder.

    Raises:
        LockError, DesignError, ScheduleError, AttemptsError, ArchiveError: the file and what was expected.
    """
    panel = lock.read(folder)
    attempts = read_attempts(folder / ATTEMPTS) if _filled(folder / ATTEMPTS) else []
    lineage = list(read_lineage(folder / LINEAGE)) if _filled(folder / LINEAGE) else []
    states = settled(panel.slots, attempts, panel.design.replacement)
    took = [one.total_seconds for one in attempts if one.total_seconds is not None]
    each = median(took) if took else None
    rest = sum(state is None for state in states.values())
    costs = [one.cost_usd for one in attempts if one.cost_usd is not None]
    running = _held(folder / LOCK)
    return Status(
        name=panel.design.name,
        slots=len(panel.slots),
        settled=len(states) - rest,
        observed=sum(state is True for state in states.values()),
        exhausted=sum(state is False for state in states.values()),
        candidates=len(attempts),
        running=running,
        at_work=tuple(_at_work(panel, attempts)) if running else (),
        arms={
            arm: sum(states[slot.key] is True for slot in panel.slots if slot.arm == arm) for arm in panel.design.arms
        },
        faults=dict(
            Counter(one.fault.split(":")[0] or one.termination for one in attempts if not fair(one)).most_common()
        ),
        dropped=sum(one.get("decision") == "dropped" for one in lineage),
        seconds_per_attempt=each,
        left=None if each is None else rest * each / max(1, min(panel.design.environment.concurrency, rest)),
        cost_usd=sum(costs) if costs else None,
    )


def _filled(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _held(path: Path) -> bool:
    """Whether a process holds the lock of a run."""
    try:
        file = path.open("r")
    except OSError:
        return False
    with file, contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    return True


def _at_work(panel: Panel, attempts: list[Attempt]) -> list[AtWork]:
    from misstep.experiment.runs.trials import Work

    last: Counter[tuple[str, str, int]] = Counter()
    for one in attempts:
        last[one.slot] = max(last[one.slot], one.candidate)
    found = []
    for slot in panel.slots:
        work = Work(slot, last[slot.key] + 1, panel.design.seed)
        path = panel.folder / TRIALS / work.trial
        with contextlib.suppress(OSError):
            began = (path / "config.json").stat().st_mtime
            found.append(AtWork(work.trial, slot.task, time.time() - began, (path / BEGUN).exists()))
    return sorted(found, key=lambda one: -one.seconds)


__all__ = ["ArchiveError", "AtWork", "Status", "status_of"]
