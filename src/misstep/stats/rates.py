"""Proportions and agreement with their intervals: Wilson, Clopper-Pearson, Cohen's kappa. No numpy, no scipy."""

from __future__ import annotations

from math import exp, lgamma, log, log1p, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from misstep.stats.paired import Interval

if TYPE_CHECKING:
    from collections.abc import Iterable


def wilson(passed: int, total: int, level: float = 0.95) -> Interval | None:
    """Wilson's score interval of a proportion: coverage near the level on average. None for total = 0."""
    if not _known(passed, total, level):
        return None
    return _wilson(passed / total, total, level)


def _wilson(rate: float, total: float, level: float) -> Interval:
    from statistics import NormalDist

    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    middle, shrink = rate + z2 / (2 * total), 1 + z2 / total
    half = sqrt(z2 * rate * (1 - rate) / total + (z2 / (2 * total)) ** 2)
    low = 0.0 if rate == 0 else (middle - half) / shrink
    high = 1.0 if rate == 1 else (middle + half) / shrink
    return Interval(low, high, level)


def wilson_clustered(counts: Iterable[tuple[int, int]], level: float = 0.95) -> Interval | None:
    """The interval of sum(k) / sum(n) over clusters that had k of n: what is in one cluster is not independent.

    Wilson's, for the number of independent trials that would give the ratio's linearised variance between clusters; never more
    of them than sum(n). Where all or none of the trials passed, the clusters are taken for the trials. None for sum(n) = 0.
    """
    pairs = [(k, n) for k, n in counts if _known(k, n, level)]
    if not pairs:
        return None
    passed, total, clusters = sum(k for k, _ in pairs), sum(n for _, n in pairs), len(pairs)
    rate = passed / total
    if passed in (0, total) or clusters == 1:
        return _wilson(rate, clusters, level)
    between = clusters / (clusters - 1) * sum((k - rate * n) ** 2 for k, n in pairs) / total**2
    independent = rate * (1 - rate) / total
    return _wilson(rate, total * min(1.0, independent / between) if between else total, level)


def clopper_pearson(passed: int, total: int, level: float = 0.95) -> Interval | None:
    """The exact (Clopper-Pearson) interval of a proportion: coverage never below the level. None for total = 0.

    The ends are the rates at which the binomial tail beyond what was seen equals (1 - level) / 2; found to 1e-12.
    """
    if not _known(passed, total, level):
        return None
    tail = (1 - level) / 2
    # P(X >= c | rate) is the regularised incomplete beta I(rate; c, n - c + 1), which grows with the rate.
    low = 0.0 if passed == 0 else _solve(tail, passed, total - passed + 1)
    high = 1.0 if passed == total else _solve(1 - tail, passed + 1, total - passed)
    return Interval(low, high, level)


def _known(passed: int, total: int, level: float) -> bool:
    if not 0 <= passed <= total:
        raise ValueError(f"{passed} of {total} is not a proportion")
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, not {level!r}")
    return total > 0


def _solve(target: float, a: int, b: int) -> float:
    low, high = 0.0, 1.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if _beta_cdf(middle, a, b) < target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function by its continued fraction (Lentz's method)."""
    if not 0.0 < x < 1.0:
        return float(x >= 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_cdf(1.0 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d or tiny)
            c = 1.0 + term / c or tiny
            value *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return front * value


class Agreement(NamedTuple):
    """Cohen's kappa of two raters. items: rated by both; dropped: with an unknown (None) rating; observed, chance: proportions.

    kappa and its interval are None where they are not available: no items, or both raters gave one and the same label to all.
    """

    items: int
    dropped: int
    observed: float | None
    chance: float | None
    kappa: float | None
    interval: Interval | None


def cohen_kappa(ratings: Iterable[tuple[Any, Any]], level: float = 0.95) -> Agreement:
    """Agreement beyond chance from (first rater's label, second rater's label) of each item; None is an unknown rating.

    The interval is Wilson's for the observed agreement, carried over with the chance agreement held as estimated. Unlike the
    usual large-sample formula it keeps its coverage for few items, rare labels and perfect agreement.
    """
    every = list(ratings)
    pairs = [(a, b) for a, b in every if a is not None and b is not None]
    items, dropped = len(pairs), len(every) - len(pairs)
    if not items:
        return Agreement(0, dropped, None, None, None, None)
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    agreed = sum(a == b for a, b in pairs)
    by_chance = sum(first.count(label) * second.count(label) for label in set(first))
    observed, chance = agreed / items, by_chance / items**2
    if by_chance == items**2:
        return Agreement(items, dropped, observed, chance, None, None)
    ends = _wilson(observed, items, level)
    low, high = ((end - chance) / (1 - chance) for end in ends[:2])
    return Agreement(
        items, dropped, observed, chance, (observed - chance) / (1 - chance), Interval(max(-1.0, low), high, level)
    )
