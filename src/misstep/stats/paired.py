"""Paired inference with tasks as the unit: effect, interval and p of a contrast, an interaction, a suite, a misstep.

Everything is exact (see `misstep.stats.exact`). Differences and interval ends are proportions (0.034 is 3.4 points).
"""

from __future__ import annotations

from math import comb, gcd, lcm
from typing import TYPE_CHECKING, Any, NamedTuple

from misstep.stats.exact import (
    SumLaw,
    difference_quantile,
    gridded_law,
    integers,
    subset_tails,
    sum_tails,
)
from misstep.stats.passk import mean_pass_at_k, mean_pass_hat_k

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    #: One task's attempts under one condition: (passed, attempts).
    Count = tuple[int, int]

_TAIL = 10**9


class Interval(NamedTuple):
    """A percentile interval. The exact ends lie within `slack` inside [low, high]; slack is 0.0 unless the lattice was too fine."""

    low: float
    high: float
    level: float = 0.95
    slack: float = 0.0


class Effect(NamedTuple):
    """A mean over tasks with its exact interval and p.

    tasks: the number of tasks; mean: proportion; up, down: tasks above and below zero; p: two-sided.
    floor: the smallest p that these tasks could have given, whatever the signs.
    """

    tasks: int
    mean: float
    interval: Interval
    p: float
    up: int
    down: int
    floor: float

    @property
    def changed(self) -> int:
        """Tasks that differ at all: only they carry information for the sign-flip test."""
        return self.up + self.down

    def note(self, level: float = 0.05) -> str | None:
        """A sentence for the report when no arrangement of these tasks could have reached the level; else None."""
        return attainable_note(self.changed, level)


def sign_flip_p(differences: Iterable[Any], over: int | None = None) -> float:
    """Two-sided p of the paired sign-flip test: the share of the 2^n sign patterns whose |sum| is at least the observed one.

    The law is symmetric, so this equals twice the smaller tail, capped at 1. No differences, or only zeros, gives 1.0.
    """
    values, _ = integers(differences, over)
    return _sign_flip(values)


def _sign_flip(values: Sequence[int]) -> float:
    sizes = [abs(v) for v in values if v]
    if not sizes:
        return 1.0
    step = gcd(*sizes)
    # With U the sum of the sizes that keep a plus sign, sum = 2 U - total; |sum| >= observed is two equal tails of U.
    point = (sum(sizes) + abs(sum(values))) // 2 // step
    return min(1.0, 2 * sum_tails([[(0, 1), (s // step, 1)] for s in sizes], point)[1])


def attainable_p(changed: int) -> float:
    """The smallest two-sided sign-flip p that this many changed tasks can give: 2 / 2^changed."""
    if changed < 0:
        raise ValueError(f"changed tasks cannot be {changed}")
    return min(1.0, 2.0 / 2**changed) if changed < 1024 else 0.0


def attainable_note(changed: int, level: float = 0.05) -> str | None:
    """A sentence saying that so few changed tasks cannot reach the level; None when they can."""
    least = attainable_p(changed)
    if least <= level:
        return None
    if not changed:
        return f"No task changed, so a sign-flip test cannot reach p = {level:g}."
    tasks = "1 changed task" if changed == 1 else f"{changed} changed tasks"
    return f"{tasks} cannot reach p = {level:g} in a sign-flip test: the smallest possible p is {least:.4g}."


def mean_interval(values: Iterable[Any], over: int | None = None, level: float = 0.95) -> Interval:
    """The percentile bootstrap interval of a mean over tasks, exact: tasks drawn with replacement, all n^n draws counted.

    With F the law of the resampled mean and a = (1 - level) / 2, the ends are the smallest x with F(x) >= a and with
    F(x) >= 1 - a: what numpy's "inverted_cdf" percentiles of infinitely many resamples would be.
    Raises ValueError for no values or a level outside (0, 1).
    """
    scaled, common = integers(values, over)
    return _mean_interval(scaled, common, level)


def _mean_interval(values: Sequence[int], denominator: int, level: float) -> Interval:
    tail = _tail(level)
    law, coarse = gridded_law(values)
    unit = coarse / (denominator * len(values))
    slack = coarse / (2 * denominator) if coarse > 1 else 0.0
    low, high = law.quantile(tail, _TAIL), law.quantile(_TAIL - tail, _TAIL)
    return Interval(low * unit - slack, high * unit + slack, level, 2 * slack)


def _tail(level: float) -> int:
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, not {level!r}")
    return round((1 - level) / 2 * _TAIL)


def paired_effect(differences: Iterable[Any], over: int | None = None, level: float = 0.95) -> Effect:
    """The contrast of two conditions from one difference per task (a mean of attempts in one less the mean in the other).

    differences: ints, Fractions or floats that are small fractions (0.5, 0.3333333333333333); with `over`, whole numerators over
    that denominator: [1, -2] over 2 is [0.5, -1.0].
    Raises ValueError for no tasks, or a value that is no such number.
    """
    values, common = integers(differences, over)
    if not values:
        raise ValueError("no tasks: a paired effect needs at least one difference")
    up, down = sum(v > 0 for v in values), sum(v < 0 for v in values)
    return Effect(
        tasks=len(values),
        mean=sum(values) / (common * len(values)),
        interval=_mean_interval(values, common, level),
        p=_sign_flip(values),
        up=up,
        down=down,
        floor=attainable_p(up + down),
    )


class Interaction(NamedTuple):
    """How far the effect in one cohort exceeds that in another: mean difference, exact interval, label-permutation p (two-sided)."""

    tasks: tuple[int, int]
    mean: float
    interval: Interval
    p: float


def interaction(
    cohort: Iterable[Any], other: Iterable[Any], over: int | None = None, level: float = 0.95
) -> Interaction:
    """Mean difference of `cohort` less that of `other`, from one difference per task in each.

    Interval: tasks are resampled within their cohorts, all draws counted. p: the labels are permuted over all tasks, and p is
    the share of all splits whose |difference of means| is at least the observed one. (With cohorts of different size this law
    is not symmetric, and twice the smaller tail, which scipy reports, is another number.)
    Raises ValueError for an empty cohort, and TooLargeError (a ValueError) beyond some 700 tasks or a very fine lattice.
    """
    a, b = list(cohort), list(other)
    if not a or not b:
        raise ValueError("an interaction needs at least one task in each cohort")
    values, common = integers([*a, *b], over)
    first, second = values[: len(a)], values[len(a) :]
    smaller, total = min(first, second, key=len), sum(values)
    # The difference of means grows with the smaller cohort's sum s like n s - total * size; both tails of that, then back to s.
    observed = abs(len(values) * sum(smaller) - total * len(smaller))
    middle = total * len(smaller)
    below, above = (middle - observed) // len(values), -((-middle - observed) // len(values))
    p = sum(subset_tails(values, len(smaller), below, above)) if observed else 1.0
    tail = _tail(level)
    both = lcm(len(a), len(b))
    scales = both // len(a), both // len(b)
    laws = SumLaw(first), SumLaw(second)
    low, high = (difference_quantile(*laws, *scales, q, _TAIL) / (common * both) for q in (tail, _TAIL - tail))
    return Interaction(
        tasks=(len(a), len(b)),
        mean=(sum(first) * scales[0] - sum(second) * scales[1]) / (common * both),
        interval=Interval(low, high, level),
        p=min(1.0, p),
    )


class Suite(NamedTuple):
    """Two conditions on the same tasks. pass_at[k - 1] and pass_hat[k - 1] are (baseline, other) means over tasks.

    k runs to the smallest number of attempts of any task in either condition.
    """

    effect: Effect
    pass_at: tuple[tuple[float, float], ...]
    pass_hat: tuple[tuple[float, float], ...]


def compare(baseline: Sequence[Count], other: Sequence[Count], level: float = 0.95) -> Suite:
    """Compare two conditions from (passed, attempts) of each task, in the same task order.

    Raises ValueError when the lists differ in length, are empty, or hold an impossible count.
    """
    if len(baseline) != len(other):
        raise ValueError(f"{len(baseline)} tasks in one condition, {len(other)} in the other: pair them first")
    for passed, attempts in (*baseline, *other):
        if not 0 <= passed <= attempts or attempts < 1:
            raise ValueError(f"{passed} of {attempts} attempts passed: impossible, or a task without attempts")
    common = lcm(*{attempts for _, attempts in (*baseline, *other)})
    scaled = [q * (common // m) - p * (common // n) for (p, n), (q, m) in zip(baseline, other, strict=True)]
    effect = paired_effect(scaled, common, level)
    ks = range(1, min(n for _, n in (*baseline, *other)) + 1)
    return Suite(
        effect=effect,
        pass_at=tuple((mean_pass_at_k(baseline, k) or 0.0, mean_pass_at_k(other, k) or 0.0) for k in ks),
        pass_hat=tuple((mean_pass_hat_k(baseline, k) or 0.0, mean_pass_hat_k(other, k) or 0.0) for k in ks),
    )


def from_transitions(matrix: Sequence[Sequence[int]]) -> tuple[list[Count], list[Count]]:
    """The per-task counts behind a square transition table.

    matrix[i][j]: the number of tasks with i passes in the baseline and j in the other condition, out of len(matrix) - 1 each.
    """
    attempts = len(matrix) - 1
    if attempts < 1 or any(len(row) != attempts + 1 or min(row) < 0 for row in matrix):
        raise ValueError("a transition table is square, at least 2 x 2, and holds numbers of tasks")
    pairs = [(i, j) for i, row in enumerate(matrix) for j, tasks in enumerate(row) for _ in range(tasks)]
    return [(i, attempts) for i, _ in pairs], [(j, attempts) for _, j in pairs]


class Association(NamedTuple):
    """Outcomes of attempts with a misstep against attempts of the same tasks without it.

    effect: over the tasks that have both; None when there are none. p_within: exact permutation of outcomes within tasks.
    both, only_with, only_without: tasks by what they have with a known outcome; unknown: attempts without a known outcome.
    An association is not an effect of the misstep: attempts that go wrong for other reasons may also contain it more often.
    """

    effect: Effect | None
    p_within: float | None
    both: int
    only_with: int
    only_without: int
    unknown: int


def association(
    tasks: Iterable[tuple[Sequence[bool | None], Sequence[bool | None]]], level: float = 0.95
) -> Association:
    """Per task: outcomes of attempts with the misstep, outcomes of those without (True passed, False failed, None unknown).

    The effect is the mean over tasks of (pass rate with) - (pass rate without); its p flips signs of whole tasks. With unequal
    numbers of attempts the difference of a task is not symmetric under the null and the sign-flip test is approximate;
    p_within, which deals the task's own outcomes anew to its attempts, is exact for any numbers. Prefer it there.
    """
    counts: list[tuple[Count, Count]] = []
    only_with = only_without = unknown = 0
    for with_, without in tasks:
        sides = []
        for outcomes in (with_, without):
            known = [o for o in outcomes if o is not None]
            if any(o not in (0, 1) for o in known):
                raise ValueError(f"outcomes are True, False or None, not {next(o for o in known if o not in (0, 1))!r}")
            unknown += len(outcomes) - len(known)
            sides.append((sum(map(int, known)), len(known)))
        if sides[0][1] and sides[1][1]:
            counts.append((sides[0], sides[1]))
        elif sides[0][1]:
            only_with += 1
        elif sides[1][1]:
            only_without += 1
    if not counts:
        return Association(None, None, 0, only_with, only_without, unknown)
    effect = compare([w for _, w in counts], [w for w, _ in counts], level).effect
    return Association(effect, _within(counts), len(counts), only_with, only_without, unknown)


def _within(counts: Sequence[tuple[Count, Count]]) -> float:
    informative = [((p, n), (q, m)) for (p, n), (q, m) in counts if 0 < p + q < n + m]
    common = lcm(*(lcm(n, m) for (_, n), (_, m) in informative))
    terms, observed = [], 0
    for (p, n), (q, m) in informative:
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
    terms = [[((v - term[0][0]) // step, w) for v, w in term] for term in terms]
    return min(1.0, 2 * min(sum_tails(terms, (observed - shift) // step))) if terms else 1.0
