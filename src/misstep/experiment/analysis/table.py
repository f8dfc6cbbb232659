"""The attempts as a table of tasks by arms. The rules of counting are here, and nowhere else.

* The attempt of a slot (task, arm, replicate) is the first fair candidate (`observed`).
* A fair attempt without a verdict is a failure: timeouts and crashes of the agent are (FIRE). Never-ran and invalid ones are
  no observations: without a fair successor their slot is missing.
* What is planned comes from the plan (a panel's schedule); else from the design and the tasks seen; else from the
  replicates seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from misstep.experiment.analysis.model import ALL, Missing
from misstep.experiment.analysis.numbers import Share
from misstep.experiment.attempts import Attempt, fair
from misstep.experiment.plan.design import Design

ORDER = ("baseline", "real", "sham", "sham-deny", "always-verify", "reconsider", "always-real")
"""Of arms where no design gives one; others follow by name."""
UNSCOPED = frozenset({"always-real", "always-verify", "reconsider"})
"""Arms whose eligibility is every task: it tells nothing about a task."""
NOT_RUN = "not-run"

Key = tuple[str, str, int]
Test = Callable[[Attempt], bool | None]


class PlanError(ValueError):
    """A request that these attempts cannot meet, in one line."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a panel's lock and schedule add to its design."""

    slots: tuple[Key, ...]
    """(task, arm, replicate) in the order of running."""
    cohorts: Mapping[str, str] = field(default_factory=dict)
    """Task -> "eligible" or "silent"."""
    eligible: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Task -> policies that take it for their own."""


class Row:
    """A task in an arm: its observed attempts by replicate, and the slots without one. Sums are made once, when asked for."""

    __slots__ = ("_share", "_shares", "_taken", "attempts", "missing")

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.missing: list[Missing] = []
        self._share: Share | None = None
        self._shares: dict[Test, Share] = {}
        self._taken: dict[str, list[float]] = {}

    @property
    def passed(self) -> int:
        """Attempts that the verifier passed."""
        return self.share[0]

    @property
    def share(self) -> Share:
        """(passed, attempts)."""
        if self._share is None:
            self._share = sum([a.passed is True for a in self.attempts]), len(self.attempts)
        return self._share

    def share_of(self, test: Test) -> Share:
        """(attempts for which the test holds, attempts for which it is known)."""
        found = self._shares.get(test)
        if found is None:
            answers = [test(a) for a in self.attempts]
            found = self._shares[test] = answers.count(True), len(answers) - answers.count(None)
        return found

    def taken(self, measure: str) -> list[float]:
        """A measure of the attempts that have it on record."""
        found = self._taken.get(measure)
        if found is None:
            given = [getattr(a, measure) for a in self.attempts]
            found = self._taken[measure] = [v for v in given if v is not None and isfinite(v)]
        return found


class Table:
    """Tasks by arms, and who the tasks are."""

    def __init__(self, attempts: Iterable[Attempt], design: Design | None, plan: Plan | None) -> None:
        candidates: dict[Key, list[Attempt]] = {}
        for attempt in attempts:
            candidates.setdefault((attempt.task, attempt.arm, attempt.replicate), []).append(attempt)
        for found in candidates.values():
            if len(found) > 1:
                found.sort(key=lambda a: (a.candidate, a.started, a.id))
        self.slots = _slots(candidates.keys(), design, plan)
        planned = set(self.slots)
        self.unplanned = sorted(slot for slot in candidates if slot not in planned)
        self.candidates = {slot: found for slot, found in candidates.items() if slot in planned}
        self.twice = sorted(
            s for s, found in candidates.items() if len(found) > 1 and len({a.candidate for a in found}) < len(found)
        )
        self.arms = _arms({slot[1] for slot in self.slots}, design)
        self.tasks = sorted({slot[0] for slot in self.slots})
        self.observed = 0
        self._unsettled: set[Key] = set()
        self.rows: dict[tuple[str, str], Row] = {(arm, task): Row() for arm in self.arms for task in self.tasks}
        limit = _candidates(design)
        for slot in self.slots:
            task, arm, replicate = slot
            row = self.rows[arm, task]
            found = self.candidates.get(slot, [])
            counted = next(filter(fair, found), None)  # as `observed` has it
            if counted is not None:
                row.attempts.append(counted)
                self.observed += 1
                continue
            row.missing.append(Missing(task, arm, replicate, found[-1].termination if found else NOT_RUN))
            if (design or plan) and len(found) < limit:
                self._unsettled.add(slot)
        self.families = self._families(plan)
        self.cohort = self._cohorts(design, plan)
        names = [name for name in ("eligible", "silent") if name in self.cohort.values()]
        self.cohorts = [*names, ALL]

    @property
    def finished(self) -> bool:
        """Whether every slot has an observation, or had all its candidates."""
        return not self._unsettled

    def settled(self, slot: Key) -> bool:
        """Whether nothing more will run for a slot."""
        return slot not in self._unsettled

    def _families(self, plan: Plan | None) -> dict[str, tuple[str, ...]]:
        """The missteps whose policies take a task for their own."""
        found: dict[str, set[str]] = {task: set() for task in self.tasks}
        if plan and plan.eligible:
            for task, policies in plan.eligible.items():
                if task in found:
                    found[task].update(map(family, policies))
        else:
            for (arm, task), row in self.rows.items():
                if arm not in UNSCOPED:
                    for names in {attempt.eligible for attempt in row.attempts}:
                        found[task].update(map(family, names))
        return {task: tuple(sorted(names - UNSCOPED)) for task, names in found.items()}

    def _cohorts(self, design: Design | None, plan: Plan | None) -> dict[str, str]:
        if plan and plan.cohorts:
            return {task: plan.cohorts.get(task, "") for task in self.tasks}
        named = design.cohorts.silent if design else ()
        given = (design.cohorts.eligible or ()) if design else ()
        if not design and not any(self.families.values()):
            return dict.fromkeys(self.tasks, "")
        return {
            task: "silent"
            if task in named
            else "eligible"
            if task in given or (not given and self.families[task])
            else "silent"
            for task in self.tasks
        }

    def of(self, cohort: str) -> list[str]:
        """The tasks of a cohort, by name."""
        return self.tasks if cohort == ALL else [task for task in self.tasks if self.cohort[task] == cohort]

    def row(self, arm: str, task: str) -> Row:
        """A task in an arm."""
        return self.rows[arm, task]

    def all_rows(self, arm: str, tasks: Sequence[str]) -> list[Row]:
        """The rows of tasks in an arm."""
        return [self.rows[arm, task] for task in tasks]

    def pairs(
        self, arm: str, against: str, tasks: Sequence[str], test: Test | None = None
    ) -> list[tuple[str, Share, Share]]:
        """The tasks with an observation in both arms, with the share of attempts that pass (or hold the test) in each."""
        made = []
        for task in tasks:
            one, other = self.rows[arm, task], self.rows[against, task]
            first = one.share_of(test) if test else one.share
            second = other.share_of(test) if test else other.share
            if first[1] and second[1]:
                made.append((task, first, second))
        return made


def family(policy: str) -> str:
    """The misstep that a policy is of: 'exact-replacement/words' is of 'exact-replacement'."""
    return policy.partition("/")[0]


def _candidates(design: Design | None) -> int:
    if design is None:
        return 1
    return 1 if design.replacement.faults == "none" else design.replacement.candidates


def _slots(seen: Iterable[Key], design: Design | None, plan: Plan | None) -> list[Key]:
    if plan is not None:
        return list(plan.slots)
    slots = sorted(seen, key=lambda s: (s[2], s[0], s[1]))
    if design is None:
        return slots
    arms = [*design.arms, *sorted({s[1] for s in slots} - set(design.arms))]
    tasks = sorted({s[0] for s in slots})
    due = [(task, arm, r) for r in range(1, design.attempts + 1) for task in tasks for arm in arms]
    known = set(due)
    return due + [s for s in slots if s not in known]


def _arms(seen: set[str], design: Design | None) -> list[str]:
    first = [arm for arm in (design.arms if design else ORDER) if arm in seen]
    return [*first, *sorted(seen - set(first))]
