"""Estimates over tasks: the exact engine of `misstep.stats`, fed with shares of attempts, or with measures on a grid.

Where the lattice of the values is too fine for a report in seconds (thousands of tasks with unequal numbers of attempts,
dollars, seconds) values are rounded to a grid. The mean is then of the true values; the interval is that of the rounded
ones, moved by the mean of what rounding did and widened by three standard errors of it: `slack` says by how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, lcm, sqrt

from misstep.experiment.analysis.model import Estimate
from misstep.stats import Effect, mean_interval, paired_effect

Share = tuple[int, int]
"""(numerator, denominator) of a task: passes of attempts, say."""

_LATTICE = 25_000
"""Tasks times denominator up to which values are taken as they are."""
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
    step = _step(len(pairs))
    if common <= step:
        return _of(paired_effect(values, common))
    return _rounded([v / common for v in values], 1 / step)


def measured(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """The same of measures (dollars, seconds), on a grid of up to 1,024 steps either way; None without tasks."""
    if not pairs:
        return None
    values = [one - other for one, other in pairs]
    span = max(map(abs, values))
    if not span:
        return _of(paired_effect([0] * len(values)))
    return _rounded(values, span / max(64, min(_LEVELS, _step(len(values)))))


def mean(shares: Sequence[Share]) -> tuple[float, float, float] | None:
    """Mean over tasks, and its interval; None without tasks."""
    if not shares:
        return None
    common = lcm(*{den for _, den in shares})
    values = [num * (common // den) for num, den in shares]
    found = sum(values) / common / len(values)
    step = _step(len(values))
    if common <= step:
        low, high, _, _ = mean_interval(values, common)
        return found, low, high
    grid = [round(v * step / common) for v in values]
    low, high, _, _ = mean_interval(grid, step)
    moved, half = _error([v / common for v in values], grid, 1 / step)
    return found, min(found, max(0.0, low + moved - half)), max(found, min(1.0, high + moved + half))


def _step(tasks: int) -> int:
    return max(16, _LATTICE // tasks)


def _of(effect: Effect) -> Estimate:
    low, high, _, slack = effect.interval
    return Estimate(effect.tasks, effect.mean, low, high, effect.p, effect.floor, effect.up, effect.down, slack)


def _rounded(values: Sequence[float], unit: float) -> Estimate:
    """An estimate from values rounded to multiples of a unit; up, down and the mean are of the true ones."""
    grid = [round(v / unit) for v in values]
    effect = paired_effect(grid)
    moved, half = _error(values, grid, unit)
    up, down = sum(v > 0 for v in values), sum(v < 0 for v in values)
    return Estimate(
        tasks=effect.tasks,
        mean=fsum(values) / len(values),
        low=effect.interval.low * unit + moved - half,
        high=effect.interval.high * unit + moved + half,
        p=effect.p,
        floor=2.0 / 2 ** min(up + down, 1000) if up + down else 1.0,
        up=up,
        down=down,
        slack=effect.interval.slack * unit + 2 * half,
    )


def _error(values: Sequence[float], grid: Sequence[int], unit: float) -> tuple[float, float]:
    """The mean of what rounding did, and three standard errors of it."""
    errors = [v - g * unit for v, g in zip(values, grid, strict=True)]
    mean = fsum(errors) / len(errors)
    return mean, 3 * sqrt(fsum((e - mean) ** 2 for e in errors)) / len(errors)
