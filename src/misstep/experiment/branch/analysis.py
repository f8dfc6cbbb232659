"""What continuations say: the effect of an arm at the decision points, over tasks, with the points nested in them.

A point's effect is the difference of its two arms' pass rates; a task's the mean over its points; the estimate the mean over
tasks, with the exact percentile interval and sign-flip p of `misstep.stats`: tasks are the unit, as in a panel of whole runs.
The within-point permutation asks a narrower question with more power: whether, at these very points, the arm matters at all.
It deals the outcomes of each point anew to its continuations, exactly.

Two estimands, never mixed:

* `at_point`: the mean effect where the policy acts. Tasks without a usable point have none.
* `per_attempt`: the effect on a whole attempt, as a panel estimates it: the effect at the points times the share of a task's
  attempts in which the policy fires, since an attempt in which it never fires is the same in all arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from math import comb, gcd, lcm
from statistics import fmean, variance
from typing import Any

from misstep.experiment.analysis.model import Estimate
from misstep.experiment.analysis.numbers import estimate
from misstep.experiment.branch.points import NOTHING, Found, Point, Recorded
from misstep.experiment.branch.rebuild import Verified
from misstep.experiment.branch.records import Branched, counted
from misstep.experiment.branch.treatment import stands_for
from misstep.stats import attainable_note, holm
from misstep.stats.exact import sum_tails

ALL = "all policies"
SCHEMA, VERSION = "misstep.branch.analysis", 1

Cell = tuple[int, int]
"""(passed, continuations) of a point in an arm."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One contrast over some points."""

    arm: str
    against: str
    policy: str
    """A policy, or `all policies`."""
    points: int
    tasks: int
    at_point: Estimate | None
    """None without a point that has both arms."""
    per_attempt: Estimate | None
    """Of single policies only."""
    attempts: int
    """Those that `per_attempt` is over, those without a point among them."""
    without: int
    """Of them, those in which the policy never fires."""
    p_within: float | None
    """Of the permutation within points."""
    p_holm: float | None
    low_bound: float | None
    high_bound: float | None
    """The estimate if every missing continuation spoke against the arm, or for it."""
    within: float | None
    """Variance of a point's effect from the chance of its continuations: the mean over points; None with one continuation."""
    between: float | None
    """Variance between points of one task, that from their continuations left out, never below 0; None without two."""
    note: str = ""

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


@dataclass(slots=True)
class BranchAnalysis:
    """The analysis of a folder of branch tests."""

    effects: list[Effect] = field(default_factory=list)
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Arm -> continuations, passed, fired, behaviour, terminations, costs."""
    points: list[dict[str, Any]] = field(default_factory=list)
    funnel: dict[str, int] = field(default_factory=dict)
    """Attempts looked through, with a point, points, that may be rebuilt, that were, that have continuations."""
    lost: dict[str, int] = field(default_factory=dict)
    """Why points are not used -> how many."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why attempts were not looked through -> how many."""
    missing: int = 0
    """Planned continuations without an observation."""
    faults: dict[str, int] = field(default_factory=dict)
    replayed: int = 0
    """Points with processes alive: branched by replay, each time."""
    verbatim: int = 0
    """Points whose conversation is message by message the recorded one."""
    simulated: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def primary(self) -> Effect | None:
        """The primary contrast over all points."""
        return self.effects[0] if self.effects else None

    def effect(self, arm: str, against: str, policy: str = ALL) -> Effect:
        """Raises KeyError where there is none."""
        for one in self.effects:
            if (one.arm, one.against, one.policy) == (arm, against, policy):
                return one
        raise KeyError((arm, against, policy))

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return {"schema": SCHEMA, "version": VERSION, **asdict(self)}


def analyse(
    found: Found,
    records: Sequence[Branched],
    verdicts: Mapping[str, Verified],
    *,
    arms: Sequence[str] = ("real", "sham", NOTHING),
    contrast: tuple[str, str] = ("real", "sham"),
    continuations: int = 0,
    rule: str = "exact",
    about: Mapping[str, Any] | None = None,
) -> BranchAnalysis:
    """The analysis. Pure: no clock, no file.

    Args:
        continuations: planned of each point in each arm; the most that there are by default.
    """
    made = BranchAnalysis(about=dict(about or {}))
    chosen = counted(list(records))
    planned = continuations or max((one.number for one in records), default=0)
    cells = {point.id: {arm: _cell(point, arm, chosen) for arm in arms} for point in found.points}
    usable = _usable(found, verdicts, rule, made)
    _describe(made, found, records, chosen, verdicts, usable, cells, arms)
    made.missing = sum(
        max(0, planned - cells[point.id][arm][1]) for point in usable for arm in arms if stands_for(arm, point) == arm
    )
    pairs = [
        contrast,
        *((arm, other) for n, arm in enumerate(arms) for other in arms[n + 1 :] if {arm, other} != set(contrast)),
    ]
    policies = sorted({point.policy for point in usable})
    scopes: list[tuple[str, list[Point]]] = [(ALL, usable)]
    scopes += [(name, [point for point in usable if point.policy == name]) for name in policies]
    for policy, points in scopes:
        rows = [_effect(arm, against, policy, points, cells, found, planned) for arm, against in pairs]
        made.effects += _adjusted(rows)
    return made


def _cell(point: Point, arm: str, chosen: Mapping[tuple[str, str, int], Branched | None]) -> Cell:
    """(passed, continuations). A fair end without a verdict counts as not passed, as in a panel."""
    name = stands_for(arm, point)
    own = [one for (at, under, _), one in chosen.items() if at == point.id and under == name and one is not None]
    return sum(one.passed is True for one in own), len(own)


def _usable(found: Found, verdicts: Mapping[str, Verified], rule: str, made: BranchAnalysis) -> list[Point]:
    usable = []
    for point in found.points:
        known = verdicts.get(point.id)
        if point.problem:
            why = point.problem
        elif known is None:
            why = "not replayed yet"
        elif known.trusted(rule):
            usable.append(point)
            continue
        else:
            why = known.why
        why = why.partition(": ")[0]
        made.lost[why] = made.lost.get(why, 0) + 1
    return usable


def _describe(
    made: BranchAnalysis,
    found: Found,
    records: Sequence[Branched],
    chosen: Mapping[tuple[str, str, int], Branched | None],
    verdicts: Mapping[str, Verified],
    usable: Sequence[Point],
    cells: Mapping[str, Mapping[str, Cell]],
    arms: Sequence[str],
) -> None:
    for one in found.attempts:
        if one.left_out:
            made.left_out[one.left_out] = made.left_out.get(one.left_out, 0) + 1
    branched = {one.point for one in chosen.values() if one is not None}
    made.funnel = {
        "attempts": len(found.attempts),
        "looked through": sum(not one.left_out for one in found.attempts),
        "with a point": len({point.attempt for point in found.points}),
        "points": len(found.points),
        "to be replayed": len(found.rebuildable),
        "rebuilt": len(usable),
        "continued": len(branched & {point.id for point in usable}),
    }
    made.replayed = sum(bool(verdicts[point.id].live) for point in usable)
    made.verbatim = sum(verdicts[point.id].verbatim for point in usable)
    for record in records:
        if not record.fair:
            why = record.fault.partition(": ")[0] or record.termination
            made.faults[why] = made.faults.get(why, 0) + 1
        made.simulated = made.simulated or record.simulated
    for arm in arms:
        own = [record for record in chosen.values() if record is not None and record.arm == arm]
        if own:
            made.arms[arm] = _arm(own)
    for point in usable:
        known = verdicts[point.id]
        made.points.append(
            {
                "point": point.id,
                "task": point.task,
                "attempt": point.attempt,
                "policy": point.policy,
                "event": point.event,
                "step": point.step,
                "action": point.action,
                "scoped": point.scoped,
                "what": point.what,
                "grade": known.grade,
                "live": list(known.live),
                "arms": {arm: list(cell) for arm, cell in cells[point.id].items()},
            }
        )


def _arm(own: Sequence[Branched]) -> dict[str, Any]:
    ends: dict[str, int] = {}
    for one in own:
        ends[one.termination] = ends.get(one.termination, 0) + 1
    told = [one.behaviour for one in own if one.behaviour is not None]
    return {
        "continuations": len(own),
        "passed": sum(one.passed is True for one in own),
        "fired": sum(bool(one.fired) for one in own),
        "behaviour": [sum(told), len(told)],
        "terminations": dict(sorted(ends.items())),
        "answers": sum(one.answers for one in own),
        "tokens": sum(one.input_tokens + one.output_tokens for one in own),
        "cost_usd": sum(one.cost_usd or 0.0 for one in own),
        "seconds": round(sum(one.total_seconds for one in own), 3),
    }


# -- effects ---------------------------------------------------------------------------------------------------------------


def _effect(
    arm: str,
    against: str,
    policy: str,
    points: Sequence[Point],
    cells: Mapping[str, Mapping[str, Cell]],
    found: Found,
    planned: int,
) -> Effect:
    both = [point for point in points if cells[point.id][arm][1] and cells[point.id][against][1]]
    pairs = {point.id: (cells[point.id][arm], cells[point.id][against]) for point in both}
    by_task: dict[str, list[Point]] = {}
    for point in both:
        by_task.setdefault(point.task, []).append(point)
    at_point = estimate([_shares([pairs[p.id] for p in own]) for own in by_task.values()])
    whole, attempts, without = (None, 0, 0)
    if policy != ALL:
        whole, attempts, without = _per_attempt(policy, both, pairs, found)
    low, high = _bounds(both, pairs, planned, by_task)
    within, between = _parts(by_task, pairs)
    note = attainable_note(at_point.up + at_point.down) or "" if at_point else ""
    return Effect(
        arm, against, policy, len(both), len(by_task), at_point, whole, attempts, without,
        _within([pair for point in both if (pair := _own_pair(point, arm, against, pairs))]),
        None, low, high, within, between, note,
    )  # fmt: skip


def _own_pair(point: Point, arm: str, against: str, pairs: Mapping[str, tuple[Cell, Cell]]) -> tuple[Cell, Cell] | None:
    """The pair, None where both arms stand for the same continuations there."""
    return None if stands_for(arm, point) == stands_for(against, point) else pairs[point.id]


def _shares(pairs: Sequence[tuple[Cell, Cell]]) -> tuple[Cell, Cell]:
    """A task's two arms as shares: means over its points."""
    sides = []
    for side in (0, 1):
        mean = sum((Fraction(*pair[side]) for pair in pairs), Fraction()) / len(pairs)
        sides.append((mean.numerator, mean.denominator))
    return sides[0], sides[1]


def _per_attempt(
    policy: str, both: Sequence[Point], pairs: Mapping[str, tuple[Cell, Cell]], found: Found
) -> tuple[Estimate | None, int, int]:
    """(the effect on a whole attempt, attempts that it is over, those of them without a point).

    Of a task: the share of its attempts in which the policy fires, times the mean effect at those of its points that can be
    used. A task whose points are all lost has no value.
    """
    of = {point.attempt for point in found.points if point.policy == policy and point.scoped}
    tasks: dict[str, list[str]] = {}
    for attempt in found.attempts:
        if not attempt.left_out and (policy in attempt.eligible or attempt.id in of):
            tasks.setdefault(attempt.task, []).append(attempt.id)
    shares: list[tuple[Cell, Cell]] = []
    counted_ = without = 0
    for task, attempts in tasks.items():
        own = [pairs[point.id] for point in both if point.task == task and point.scoped]
        reached = sum(one in of for one in attempts)
        if reached and not own:
            continue
        counted_, without = counted_ + len(attempts), without + len(attempts) - reached
        sides = []
        for side in (0, 1):
            mean = sum((Fraction(*pair[side]) for pair in own), Fraction()) / (len(own) or 1)
            value = mean * reached / len(attempts)
            sides.append((value.numerator, value.denominator))
        shares.append((sides[0], sides[1]))
    return estimate(shares), counted_, without


def _bounds(
    both: Sequence[Point],
    pairs: Mapping[str, tuple[Cell, Cell]],
    planned: int,
    by_task: Mapping[str, Sequence[Point]],
) -> tuple[float | None, float | None]:
    """The mean over tasks if every missing continuation failed in the arm and passed in the other, and the other way."""
    if not both:
        return None, None
    ends = []
    for favour in (0, 1):
        means = []
        for own in by_task.values():
            values = []
            for point in own:
                (p, n), (q, m) = pairs[point.id]
                total_p, total_q = max(planned, n), max(planned, m)
                values.append((p + favour * (total_p - n)) / total_p - (q + (1 - favour) * (total_q - m)) / total_q)
            means.append(fmean(values))
        ends.append(fmean(means))
    return ends[0], ends[1]


def _parts(
    by_task: Mapping[str, Sequence[Point]], pairs: Mapping[str, tuple[Cell, Cell]]
) -> tuple[float | None, float | None]:
    """(within, between): see `Effect`."""
    inner = []
    for (p, n), (q, m) in pairs.values():
        if n > 1 and m > 1:
            inner.append(p * (n - p) / (n * n * (n - 1)) + q * (m - q) / (m * m * (m - 1)))
    within = fmean(inner) if inner else None
    outer = [
        variance([p / n - q / m for (p, n), (q, m) in (pairs[point.id] for point in own)])
        for own in by_task.values()
        if len(own) > 1
    ]
    if not outer or within is None:
        return within, None
    return within, max(0.0, fmean(outer) - within)


def _within(pairs: Sequence[tuple[Cell, Cell]]) -> float | None:
    """Exact two-sided p of dealing the outcomes of each point anew to its continuations; None where no point can tell.

    The statistic is the sum over points of the difference of rates.
    """
    told = [((p, n), (q, m)) for (p, n), (q, m) in pairs if 0 < p + q < n + m]
    if not told:
        return None if not pairs else 1.0
    common = lcm(*(lcm(n, m) for (_, n), (_, m) in told))
    terms, observed = [], 0
    for (p, n), (q, m) in told:
        passed = p + q
        terms.append(
            [
                (x * (common // n) - (passed - x) * (common // m), comb(passed, x) * comb(n + m - passed, n - x))
                for x in range(max(0, passed - m), min(n, passed) + 1)
            ]
        )
        observed += p * (common // n) - q * (common // m)
    step = gcd(*(v - term[0][0] for term in terms for v, _ in term)) or 1
    shift = sum(term[0][0] for term in terms)
    moved = [[((v - term[0][0]) // step, w) for v, w in term] for term in terms]
    return min(1.0, 2 * min(sum_tails(moved, (observed - shift) // step)))


def _adjusted(rows: Sequence[Effect]) -> list[Effect]:
    """The rows of one scope, the secondary ones with Holm's p."""
    from dataclasses import replace

    rest = holm([one.at_point.p if one.at_point else None for one in rows[1:]])
    return [rows[0], *(replace(one, p_holm=p) for one, p in zip(rows[1:], rest, strict=True))]


__all__ = ["ALL", "BranchAnalysis", "Effect", "Recorded", "analyse"]
