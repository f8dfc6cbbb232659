"""Running a locked panel: trials in the order of its schedule, each one an attempt, until nothing is left to run.

Harbor runs each trial (`Trial.create`, `run`); its own retries are never used, so that no attempt can replace another one
unseen. One bad trial ends nothing. `Runner.run` may be called again after any interruption, kill -9 included: see
`archive` for what becomes of trials that were at work then.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.experiment.attempts import Attempt, fair
from misstep.experiment.outcomes.classify import attempt_of
from misstep.experiment.plan import lock
from misstep.experiment.plan.tasks import tasks_of
from misstep.experiment.runs import archive as archives
from misstep.experiment.runs import leftovers, runtime, trials
from misstep.experiment.runs.archive import Archive, state_of, tidy
from misstep.experiment.runs.liveness import Marker, checked
from misstep.experiment.runs.replacement import Decision, decided, rounds, settled
from misstep.experiment.runs.trials import RunError, Work
from misstep.guard.portfolio import from_plain

if TYPE_CHECKING:
    from harbor.models.trial.config import TrialConfig

    from misstep.experiment.plan.lock import Panel
    from misstep.experiment.plan.schedule import Slot

IN_A_ROW = 8
"""Candidates that are no observations, one after the other, after which a run ends by itself: something is broken."""

_ALONE = (
    "the sandboxes of tasks with a public network share this machine's: one attempt at a time, "
    "or a server of one could answer for another's"
)


@dataclass(slots=True)
class Progress:
    """Where a run is; it says nothing about outcomes, by arm or at all: nobody shall steer by them."""

    slots: int
    settled: int = 0
    """Slots with their observation, or with their chain exhausted."""
    exhausted: int = 0
    ran: int = 0
    """Attempts that this run has recorded."""
    invalid: int = 0
    """Of those, the ones that are no observations."""
    running: int = 0
    seconds: float = 0.0
    left: float | None = None
    """Seconds that what is left will take, as far as one can tell."""
    cost_usd: float = 0.0


@dataclass(slots=True)
class Outcome:
    """What a run did, and why it ended."""

    recorded: int = 0
    dropped: int = 0
    recovered: int = 0
    """Trials of an earlier process that were recorded now."""
    end: str = "done"
    """done | limit | interrupted | broken | changed"""
    why: str = ""
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    overhead: float = 0.0
    """Seconds of this module's own work for each attempt, besides Harbor's trial."""


class Runner:
    """One run over a panel's folder.

    Args:
        concurrency: trials at the same time; the design's own unless given.
        limit: attempts to record at most.
        progress: called whenever something changed.

    Raises:
        LockError, DesignError, ScheduleError, RunError, RuntimeFault: what cannot be run, in one line.
    """

    def __init__(
        self,
        folder: Path,
        concurrency: int = 0,
        limit: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        _quiet()
        self.panel: Panel = lock.read(folder)
        wrong = lock.verify(folder)
        if wrong:
            raise RunError(wrong)
        self.folder = folder
        self.outcome = Outcome()
        self.concurrency = concurrency or self.panel.design.environment.concurrency
        if self.concurrency > 1 and trials.shares_network(self.panel):
            self.concurrency = 1
            self.outcome.warnings.append(_ALONE)
        self.limit = limit
        self.told = progress
        self.tasks = {task.name: task.path.resolve() for task in tasks_of(self.panel.design)}
        self.portfolio = _plain(folder / lock.PORTFOLIO)
        self.simulated = str(trials.ours_of(self.panel.design).get("simulated", ""))
        self.runtime = None if trials.in_process(self.panel) else runtime.make(self.portfolio)
        trials.preflight(self.panel, self.runtime)
        self.marker = self._marker()
        self.stopping = ""
        """Why nothing new is begun, '' while it is."""
        self._row = 0
        self._at_work: dict[str, asyncio.Task[Any]] = {}
        self._took: list[float] = []
        self._own = 0.0
        self._began = time.monotonic()

    def _marker(self) -> Marker:
        """What stands in the logs of this panel; the arm is put in for each attempt."""
        if self.runtime is not None:
            return Marker("", self.runtime.lock, self.runtime.portfolio)
        path = self.folder / lock.PORTFOLIO
        return Marker("", hashlib.sha256(path.read_bytes()).hexdigest(), from_plain(dict(self.portfolio)).key)

    # -- the run -------------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run until nothing is left, the limit is reached, or it is interrupted (SIGINT, SIGTERM)."""
        with Archive(self.folder) as self.archive:
            self.outcome.warnings += self.archive.warnings
            self._recover()
            asyncio.run(self._all())
            if not self.outcome.why:
                wrong = lock.verify(self.folder)
                if wrong:
                    self.outcome.end, self.outcome.why = "changed", f"while the panel ran: {wrong}"
        self.outcome.seconds = time.monotonic() - self._began
        if self.outcome.recorded:
            self.outcome.overhead = self._own / self.outcome.recorded
        return self.outcome

    def _recover(self) -> None:
        """Bring the records in order with the trials' folders that an earlier process left."""
        for attempt in self.archive.undecided():
            self._decide(attempt)
        unfinished = []
        for slot, candidate in self._expected():
            work = self._work(slot, candidate)
            folder = self.archive.trials / work.trial
            state = state_of(folder)
            if state in ("begun", "prepared"):
                unfinished.append(work.trial)
            if state == "ended":
                self._record(work, self._attempt(work, folder))
            elif state == "begun" and not (folder / "interrupted").exists():
                why = "the machine's fault: the run was killed while the agent was at work"
                self._record(work, replace(self._attempt(work, folder), termination="invalid", passed=None, fault=why))
            elif state:
                self._drop(
                    work, "the run ended before the agent began" if state == "prepared" else "interrupted by a person"
                )
                continue
            else:
                continue
            self.outcome.recovered += 1
            self.outcome.recorded -= 1
        leftovers.collect(self.panel.design.environment, unfinished)

    def _expected(self) -> Iterator[tuple[Slot, int]]:
        """Every (slot, candidate) that may have a folder and has no record: the next candidate of each slot."""
        last: dict[tuple[str, str, int], int] = {}
        for attempt in self.archive.attempts:
            last[attempt.slot] = max(last.get(attempt.slot, 0), attempt.candidate)
        for slot in self.panel.slots:
            yield slot, last.get(slot.key, 0) + 1

    async def _all(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):  # not the main thread
                loop.add_signal_handler(number, self._interrupt)
        while not self.stopping:
            due = next(rounds(self.panel.slots, self.archive.attempts, self.panel.design.replacement), [])
            if not due:
                return
            queue = deque(self._work(*one) for one in due)
            workers = [asyncio.create_task(self._worker(queue)) for _ in range(min(self.concurrency, len(queue)))]
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            if any(one.exception() for one in done):  # a disk that is full, say: what runs counts as not run
                self._stop("broken", "")
                self._cancel()
                await asyncio.wait(workers)
            for one in workers:
                one.result()

    async def _worker(self, queue: deque[Work]) -> None:
        while queue and not self.stopping:
            if self.limit and self.outcome.recorded + len(self._at_work) >= self.limit:
                self._stop("limit", "")
                break
            work = queue.popleft()
            self._at_work[work.trial] = task = asyncio.create_task(self._one(work))
            self._tell()
            try:
                await asyncio.wait([task])
                task.result()
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise
            finally:
                del self._at_work[work.trial]
            self._tell()

    def _interrupt(self) -> None:
        """End: begin nothing new, end what runs; it counts as not run."""
        if self.stopping != "interrupted":
            self._stop("interrupted", "interrupted: what was running counts as not run")
            self._cancel()

    def _cancel(self) -> None:
        for task in self._at_work.values():
            task.cancel()

    def _stop(self, end: str, why: str) -> None:
        if not self.stopping or end == "interrupted":
            self.stopping = self.outcome.end = end
            self.outcome.why = why

    async def _one(self, work: Work) -> None:
        """Run one candidate and record it."""
        began = time.perf_counter()
        folder = self.archive.trials / work.trial
        if folder.exists():  # neither recorded nor dropped: it cannot be, and nothing is written over
            raise RunError(f"{folder}: is there already")
        fault, took = "", 0.0
        try:
            made = trials.config(self.panel, work, self.tasks[work.slot.task], self.runtime)
            started = time.perf_counter()
            try:
                await self._trial(made, folder)
            finally:
                took = time.perf_counter() - started
        except asyncio.CancelledError:
            self._interrupted(work, folder)
            raise
        except Exception as error:
            fault = f"the trial could not be run: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        folder.mkdir(exist_ok=True)
        attempt = await asyncio.to_thread(self._attempt, work, folder)
        if fault and state_of(folder) != "ended":
            attempt = replace(attempt, termination="invalid", passed=None, fault=fault)
        self._record(work, attempt)
        self._watch(attempt)
        self._took.append(took)
        self._own += time.perf_counter() - began - took

    async def _trial(self, made: TrialConfig, folder: Path) -> None:
        from harbor.trial.hooks import TrialEvent
        from harbor.trial.trial import Trial

        async def begun(_: object) -> None:
            (folder / archives.BEGUN).touch()

        trial = await Trial.create(made)
        trial.add_hook(TrialEvent.AGENT_START, begun)
        await trial.run()

    def _watch(self, attempt: Attempt) -> None:
        """End a run in which everything breaks. Only originals tell: in a recovery round what breaks is among itself."""
        self._row = self._row + 1 if not fair(attempt) and attempt.candidate == 1 else 0
        if self._row >= max(IN_A_ROW, 2 * self.concurrency) and not self.stopping:
            why = f"{self._row} attempts in a row were no observations of the agent; the last: {attempt.fault}"
            self._stop("broken", why)

    def _interrupted(self, work: Work, folder: Path) -> None:
        if state_of(folder) in ("begun", "prepared"):
            (folder / "interrupted").touch()
            self._drop(work, "interrupted by a person")

    # -- records -------------------------------------------------------------------------------------------------------

    def _work(self, slot: Slot, candidate: int) -> Work:
        return Work(slot, candidate, self.panel.design.seed)

    def _attempt(self, work: Work, folder: Path) -> Attempt:
        task, arm, replicate = work.slot.key
        attempt = attempt_of(
            folder,
            task=task,
            arm=arm,
            replicate=replicate,
            candidate=work.candidate,
            gave_up=self.panel.design.termination.gave_up,
            root=self.folder,
            portfolio=from_plain(dict(self.portfolio)),
        )
        attempt = checked(attempt, folder, replace(self.marker, arm=arm))
        if self.simulated:
            attempt = replace(attempt, extra={**attempt.extra, "simulated": self.simulated})
        tidy(folder)
        return attempt

    def _record(self, work: Work, attempt: Attempt) -> None:
        self.archive.record(attempt)
        self._decide(attempt)
        self.outcome.recorded += 1

    def _decide(self, attempt: Attempt) -> None:
        self.archive.decide(decided(attempt, self.panel.design.replacement, archives.now()))

    def _drop(self, work: Work, why: str) -> None:
        name = self.archive.drop(work.trial)
        rule = self.panel.design.replacement
        self.archive.decide(
            Decision(
                work.slot.key, work.candidate, name, "dropped", why, f"{rule.faults}/{rule.candidates}", archives.now()
            )
        )
        self.outcome.dropped += 1

    # -- progress ------------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        if self.told is None:
            return
        states = settled(self.panel.slots, self.archive.attempts, self.panel.design.replacement)
        mine = self.archive.attempts[-self.outcome.recorded :] if self.outcome.recorded else []
        known = Progress(
            slots=len(self.panel.slots),
            settled=sum(state is not None for state in states.values()),
            exhausted=sum(state is False for state in states.values()),
            ran=self.outcome.recorded,
            invalid=sum(not fair(one) for one in mine),
            running=len(self._at_work),
            seconds=time.monotonic() - self._began,
            cost_usd=sum(one.cost_usd or 0.0 for one in mine),
        )
        if self._took:
            rest = known.slots - known.settled
            known.left = rest * sum(self._took) / len(self._took) / max(1, min(self.concurrency, rest or 1))
        self.told(known)


def _plain(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _quiet() -> None:
    """Harbor and litellm ask the network for news unless told not to, and log to the terminal."""
    os.environ.setdefault("HARBOR_TELEMETRY", "0")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    try:
        from harbor.utils.logger import logger
    except ImportError as error:
        raise RunError("a panel is run by Harbor, which is not installed: pip install 'misstep[harbor]'") from error
    logger.addHandler(logging.NullHandler())
    logger.propagate = False  # each trial keeps its own log
