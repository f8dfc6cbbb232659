"""Running branch tests: points one after the other, their continuations in random order of arms, until none is left.

A continuation is done when its record is in `continuations.jsonl`, which is appended to and synced. Killed at any moment, a
run loses what was in flight and nothing else; the next one makes what is missing. A continuation that ends in an
infrastructure fault is tried again, up to the design's number of candidates; every try has its record.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.experiment.branch import points as points_
from misstep.experiment.branch import records as records_
from misstep.experiment.branch.design import BranchDesign, BranchDesignError
from misstep.experiment.branch.engines import Engine, InProcess, Work, root_of, start_of
from misstep.experiment.branch.points import Found, Point, PointsError
from misstep.experiment.branch.rebuild import Rebuilt, Verdicts, Verified, rebuild
from misstep.experiment.branch.records import Branched
from misstep.experiment.branch.treatment import stands_for
from misstep.guard import freeze
from misstep.sandbox.tasks import Task

if TYPE_CHECKING:
    from misstep.sandbox.base import Root

POINTS, VERIFIED, PORTFOLIO, TASKS, LOCK = "points.jsonl", "verified.jsonl", "portfolio.lock", "tasks.json", "run.lock"
IN_A_ROW = 8
"""Continuations that are no observations, one after the other, after which a run ends: something is broken."""


class RunError(ValueError):
    """A branch test that cannot be run, in one line."""


# -- the folder ------------------------------------------------------------------------------------------------------------


def save(folder: Path, found: Found, plain: Mapping[str, Any], tasks: Mapping[str, Path]) -> None:
    """A folder of branch tests: what was found, the portfolio that found it, where its tasks are.

    Raises:
        PointsError: it holds other points already.
    """
    if (folder / records_.FILE).exists():
        raise PointsError(f"{folder / records_.FILE}: continuations of other points are here; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    freeze.write_lock(folder / PORTFOLIO, freeze.lock(dict(plain)))
    named = {point.task for point in found.points}
    kept = {name: str(path.resolve()) for name, path in tasks.items() if name in named}
    (folder / TASKS).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    (folder / VERIFIED).unlink(missing_ok=True)
    points_.write(folder / POINTS, found)


@dataclass(slots=True)
class Folder:
    """A folder of branch tests, as read."""

    folder: Path
    found: Found
    plain: dict[str, Any]
    tasks: dict[str, Task]
    verdicts: Verdicts
    records: list[Branched] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Folder:
        """Raises PointsError, RecordsError, SandboxError: the file and what was expected."""
        found = points_.load(folder / POINTS)
        plain = _json(folder / PORTFOLIO)
        tasks = {name: Task.load(Path(path)) for name, path in _json(folder / TASKS).items()}
        records = records_.read(folder / records_.FILE)
        return cls(folder, found, plain, tasks, Verdicts(folder / VERIFIED), records)

    def changed(self) -> str:
        """The first of the portfolio's sources that is not as it was when the points were found, '' where all are."""
        for name, path in freeze.sources(self.plain).items():
            if self.plain.get("sources", {}).get(name) != freeze.sha256(path):
                return f"{name} changed since the points were found: find them again, into a new folder"
        return ""

    def attempt(self, point: Point) -> points_.Recorded:
        """The attempt of a point."""
        return next(one for one in self.found.attempts if one.id == point.attempt)


def _json(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PointsError(f"{path}: expected a folder of branch tests (misstep branch find --out): {error}") from None
    if not isinstance(given, dict):
        raise PointsError(f"{path}: expected an object")
    return given


def verify(
    tests: Folder,
    root: Root,
    rule: str,
    told: Callable[[Point, Verified], None] | None = None,
    *,
    again: bool = False,
    network: bool = False,
) -> None:
    """Replay the prefix of every point twice, and keep what that says. Points whose verdict is there are left alone.

    Raises:
        SandboxError: no sandbox can run; PointsError: a record can no longer be read.
    """
    for point in tests.found.points:
        known = tests.verdicts.known.get(point.id)
        if known is None or again:
            known, _ = rebuild(
                point, tests.attempt(point), start_of(tests.tasks[point.task], root, network), rule=rule, keep=False
            )
            tests.verdicts.add(known)
        if told is not None:
            told(point, known)


# -- the run ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Progress:
    """Where a run is."""

    planned: int
    done: int = 0
    points: int = 0
    lost: int = 0
    """Points that could not be rebuilt."""
    invalid: int = 0
    cost_usd: float = 0.0


@dataclass(slots=True)
class Outcome:
    """What a run did, and why it ended."""

    recorded: int = 0
    end: str = "done"
    """done | limit | broken"""
    why: str = ""


class Runner:
    """One run over a folder of branch tests.

    Args:
        engine: what continues; made of the design by `engine_of` in a whole run.
        limit: continuations to record at most.
    """

    def __init__(
        self,
        tests: Folder,
        design: BranchDesign,
        engine: Engine,
        root: Root,
        *,
        limit: int = 0,
        told: Callable[[Progress], None] | None = None,
    ) -> None:
        self.tests, self.design, self.engine, self.root = tests, design, engine, root
        self.limit, self.told = limit, told
        self.outcome = Outcome()
        self.progress = Progress(planned=0)
        self._row = 0
        self._flying = 0
        changed = tests.changed()
        if changed:
            raise RunError(changed)

    async def run(self) -> Outcome:
        """Make what is missing. Raises ArchiveError-like RunError where another run has the folder, and what stops a run."""
        with (self.tests.folder / LOCK).open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(f"{self.tests.folder / LOCK}: another run is at work here") from None
            self.tests.records = records_.read(self.tests.folder / records_.FILE)
            await self._all()
        return self.outcome

    def _due(self, point: Point) -> Iterator[tuple[str, int, int]]:
        """(arm, number, candidate) that a point lacks, in the order in which they run: arms in random order within a number."""
        fair = {one.slot for one in self.tests.records if one.fair}
        tried: dict[tuple[str, str, int], int] = {}
        for one in self.tests.records:
            tried[one.slot] = max(tried.get(one.slot, 0), one.candidate)
        arms = [
            arm
            for arm in self.design.arms
            if stands_for(arm, point) == arm or stands_for(arm, point) not in self.design.arms
        ]
        for number in range(1, self.design.continuations + 1):
            for arm in sorted(arms, key=lambda arm: self._rank(point.id, number, arm)):
                slot = (point.id, stands_for(arm, point), number)
                if slot not in fair and tried.get(slot, 0) < self.design.candidates:
                    yield slot[1], number, tried.get(slot, 0) + 1

    def _rank(self, *what: Any) -> bytes:
        return hashlib.sha256(json.dumps([self.design.seed, *what]).encode()).digest()

    async def _all(self) -> None:
        usable = [point for point in self.tests.found.points if not point.problem and self._usable(point)]
        order = sorted(usable, key=lambda point: self._rank(point.id))
        self.progress.points = len(order)
        self.progress.planned = sum(len(list(self._due(point))) for point in order)
        for point in order:
            while not self._ends() and self._usable(point) and (due := list(self._due(point))):
                await self._point(point, due)

    def _ends(self) -> bool:
        """Whether nothing new is begun."""
        if self.limit and self.outcome.recorded >= self.limit and not self.outcome.why:
            self.outcome.end, self.outcome.why = "limit", f"{self.limit} continuations are recorded"
        return bool(self.outcome.why)

    def _usable(self, point: Point) -> bool:
        """Whether no replay has said yet that the point cannot be rebuilt."""
        known = self.tests.verdicts.known.get(point.id)
        return known is None or known.trusted(self.design.rule)

    async def _point(self, point: Point, due: list[tuple[str, int, int]]) -> None:
        task = self.tests.tasks[point.task]
        verified, rebuilt = await asyncio.to_thread(
            rebuild,
            point,
            self.tests.attempt(point),
            start_of(task, self.root, self.design.network),
            rule=self.design.rule,
        )
        self.tests.verdicts.add(verified)
        if rebuilt is None:
            self.progress.lost += 1
            self.progress.planned -= len(due)
            self._tell()
            return
        try:
            queue = list(reversed(due))
            workers = [
                asyncio.create_task(self._worker(queue, rebuilt, task))
                for _ in range(min(self.design.environment.concurrency, len(queue)))
            ]
            try:
                await asyncio.gather(*workers)
            finally:
                for one in workers:
                    one.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        finally:
            await asyncio.to_thread(rebuilt.discard)

    async def _worker(self, queue: list[tuple[str, int, int]], rebuilt: Rebuilt, task: Task) -> None:
        while queue and not self._ends():
            if self.limit and self.outcome.recorded + self._flying >= self.limit:
                return
            arm, number, candidate = queue.pop()
            self._flying += 1
            try:
                record = await self.engine.run(Work(rebuilt, task, arm, number, candidate, self.design.seed))
            finally:
                self._flying -= 1
            records_.add(self.tests.folder / records_.FILE, record)
            self.tests.records.append(record)
            self._count(record)

    def _count(self, record: Branched) -> None:
        self.outcome.recorded += 1
        self.progress.done += 1
        self.progress.invalid += not record.fair
        self.progress.cost_usd += record.cost_usd or 0.0
        self._row = 0 if record.fair else self._row + 1
        if self._row >= IN_A_ROW and not self.outcome.why:
            self.outcome.end = "broken"
            self.outcome.why = (
                f"{self._row} continuations in a row were no observations of the agent; the last: {record.fault}"
            )
        self._tell()

    def _tell(self) -> None:
        if self.told is not None:
            self.told(self.progress)


async def run(
    folder: Path, design: BranchDesign, *, limit: int = 0, told: Callable[[Progress], None] | None = None
) -> Outcome:
    """A whole run of a folder's design: opens the model's client or Harbor, and closes it.

    Raises:
        RunError, BranchDesignError, PointsError, RecordsError: what cannot be run, in one line.
        SettingsError, BudgetExceeded and their like: the model's side; what was recorded stays.
        SandboxError: no sandbox can run here.
    """
    tests = Folder.read(folder)
    root = root_of(design)
    async with AsyncExitStack() as stack:
        engine = await _engine(stack, tests, design, root)
        return await Runner(tests, design, engine, root, limit=limit, told=told).run()


async def _engine(stack: AsyncExitStack, tests: Folder, design: BranchDesign, root: Root) -> Engine:
    if not design.in_process:
        from misstep.experiment.branch.trials import InTrials

        return InTrials(tests.plain, design, tests.folder, root)
    from misstep.experiment.branch.loop import Loop
    from misstep.models import Client, Settings

    kwargs = design.agent.kwargs
    if not kwargs.get("models"):
        raise BranchDesignError("agent.kwargs.models: missing; expected a settings file of models with a role `policy`")
    settings = Settings.load(design.where(kwargs["models"]))
    settings.role("policy")
    client = await stack.enter_async_context(Client.open(settings, tests.folder))
    limits = {name: kwargs[name] for name in ("steps", "seconds", "command_seconds") if name in kwargs}
    return InProcess(Loop(client, **limits), tests.plain, design, tests.folder)
