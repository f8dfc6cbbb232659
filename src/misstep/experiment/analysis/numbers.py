"""Estimates over tasks: the exact engine of `misstep.stats`, fed with shares of attempts, or with measures on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, lcm

from misstep.experiment.analysis.model import Estimate
from misstep.stats import Effect, mean_interval, paired_effect

Share = tuple[int, int]
"""(numerator, denominator) of a task: passes of attempts, say."""

_LATTICE = 100_000
"""Points of a sum's lattice up to which values are taken as they are: beyond (thousands of tasks with unequal numbers of
attempts, measures) they are rounded to a grid, and the estimate's slack says by how much."""
_LEVELS = 1024


def differences(pairs: Sequence[tuple[Share, Share]]) -> tuple[list[int], int]:
    """First less second of each pair, as numerators over one denominator."""
    common = lcm(*{den for one in pairs for _, den in one}) if pairs else 1
    return [p * (common // n) - q * (common // m) for (p, n), (q, m) in pairs], common


def estimate(pairs: Sequence[tuple[Share, Share]]) -> Estimate | None:
    """The paired effect over tasks from each one's two shares; None without tasks."""
    if not pairs:
        return None
    values, common = differences(pairs)
    step = max(8, _LATTICE // len(pairs))
    if common <= step:
        return _of(paired_effect(values, common))
    rounded = [_nearest(v * step, common) for v in values]
    return _widened(paired_effect(rounded, step), values, sum(values) / common / len(values), 1.0, 0.5 / step)


def measured(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """The same of measures (dollars, seconds): differences on a grid of up to 1,024 steps either way; None without tasks."""
    if not pairs:
        return None
    values = [one - other for one, other in pairs]
    span = max(map(abs, values))
    if not span:
        return _of(paired_effect([0] * len(values)))
    levels = max(64, min(_LEVELS, _LATTICE // len(values)))
    effect = paired_effect([round(v / span * levels) for v in values], levels)
    return _widened(effect, values, fsum(values) / len(values), span, 0.5 * span / levels)


def mean(shares: Sequence[Share]) -> tuple[float, float, float] | None:
    """Mean over tasks, and its interval; None without tasks."""
    if not shares:
        return None
    common = lcm(*{den for _, den in shares})
    values = [num * (common // den) for num, den in shares]
    found = sum(values) / common / len(values)
    step = max(8, _LATTICE // len(values))
    if common <= step:
        low, high, _, slack = mean_interval(values, common)
        return found, low, high
    low, high, _, slack = mean_interval([_nearest(v * step, common) for v in values], step)
    return found, max(0.0, low - slack - 0.5 / step), min(1.0, high + slack + 0.5 / step)


def _nearest(value: int, step: int) -> int:
    return (2 * value + step) // (2 * step)


def _of(effect: Effect) -> Estimate:
    low, high, _, slack = effect.interval
    return Estimate(effect.tasks, effect.mean, low, high, effect.p, effect.floor, effect.up, effect.down, slack)


def _widened(effect: Effect, values: Sequence[float], mean: float, scale: float, half: float) -> Estimate:
    """An estimate from rounded values: up and down are of the true ones, the interval is widened by what rounding can do."""
    low, high, _, slack = effect.interval
    up, down = sum(v > 0 for v in values), sum(v < 0 for v in values)
    return Estimate(
        tasks=effect.tasks,
        mean=mean,
        low=low * scale - half,
        high=high * scale + half,
        p=effect.p,
        floor=min(1.0, 2.0 / 2 ** min(up + down, 1000)),
        up=up,
        down=down,
        slack=slack * scale + 2 * half,
    )
