"""Power before spending: the chance that a panel of this size gets a sign-flip p at or below the level.

Panels are drawn in batches; the p of every drawn panel is exact, so the only error is that of counting `panels` of them.
Model: each task has a baseline pass rate, the effect is one common shift of all rates on the logit scale (so that hard tasks
stay hard and easy tasks have little left to gain), attempts of a task are independent given its two rates.
"""

from __future__ import annotations

from math import isqrt, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from misstep.stats.exact import TooLargeError

if TYPE_CHECKING:
    from collections.abc import Sequence


LARGEST = 5_000_000
"""Tasks x attempts squared, up to which a power is computed: minutes and some 100 MB."""


class Power(NamedTuple):
    """power: the share of panels with p <= level; error: its standard error; the rest: what was asked for."""

    power: float
    error: float
    tasks: int
    attempts: int
    effect: float
    level: float


def power(
    effect: float,
    tasks: int,
    attempts: int,
    rates: Sequence[float] | None = None,
    *,
    mean: float = 0.65,
    concentration: float = 3.5,
    level: float = 0.05,
    panels: int = 4000,
    seed: int = 0,
) -> Power:
    """Power to find `effect`, a mean difference of pass rates (0.08 is 8 points).

    rates: baseline pass rates of past tasks (see `past_rates`). With exactly `tasks` of them each panel has these very tasks;
    otherwise each panel draws its tasks from them. Without rates, tasks are drawn from a Beta law with this mean and
    concentration. Rates of exactly 0 or 1 do not move.
    Raises ValueError for impossible numbers, or an effect that these rates leave no room for; TooLargeError (a ValueError) beyond
    LARGEST.
    """
    import numpy as np

    if tasks < 1 or attempts < 1 or panels < 1:
        raise ValueError(f"tasks, attempts and panels are at least 1, not {tasks}, {attempts}, {panels}")
    if tasks * attempts * attempts > LARGEST:
        raise TooLargeError(
            f"the power of {tasks:,} tasks x {attempts:,} attempts is too large to compute (tasks x attempts squared: at most {LARGEST:,})"
        )
    if not 0 < mean < 1 or concentration <= 0:
        raise ValueError(
            f"a Beta law needs a mean between 0 and 1 and a concentration above 0, not {mean}, {concentration}"
        )
    if rates is not None and (not len(rates) or not all(0.0 <= r <= 1.0 for r in rates)):
        raise ValueError("baseline rates are between 0 and 1, and at least one")
    rng = np.random.default_rng(seed)
    fixed = None if rates is None else np.asarray(rates, dtype=float)
    beta = mean * concentration, (1 - mean) * concentration
    shift = _shift(rng.beta(*beta, 200_000) if fixed is None else fixed, effect)
    found = done = 0
    while done < panels:
        shape = (min(panels - done, max(1, (1 << 20) // tasks)), tasks)
        if fixed is None:
            before = rng.beta(*beta, shape)
        elif len(fixed) == tasks:
            before = np.broadcast_to(fixed, shape)
        else:
            before = rng.choice(fixed, shape)
        passed = rng.binomial(attempts, before)
        differences = rng.binomial(attempts, _moved(before, shift)) - passed
        found += int((batch_sign_flip_p(differences, attempts) <= level).sum())
        done += shape[0]
    share = found / panels
    return Power(share, sqrt(share * (1 - share) / panels), tasks, attempts, effect, level)


def curve(
    effect: float, tasks: Sequence[int], attempts: Sequence[int], rates: Sequence[float] | None = None, **options: Any
) -> list[Power]:
    """`power` of every pair of a number of tasks and a number of attempts, tasks first."""
    return [power(effect, n, k, rates, **options) for n in tasks for k in attempts]


def tasks_needed(
    effect: float,
    attempts: int,
    target: float = 0.8,
    rates: Sequence[float] | None = None,
    most: int = 2000,
    **options: Any,
) -> int | None:
    """The number of tasks, with so many attempts each, from which on the power reaches the target; None above `most`, or
    above what can be computed.

    Found by bisection of simulated powers, so within their error (`panels` of `power`).
    """

    def enough(tasks: int) -> bool:
        return power(effect, tasks, attempts, rates, **options).power >= target

    most = min(most, LARGEST // attempts**2)
    low, high = 5, 8  # five changed tasks cannot reach 0.05
    if most < high:
        return None
    while not enough(high):
        if high >= most:
            return None
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def attempts_needed(
    effect: float, tasks: int, target: float = 0.8, rates: Sequence[float] | None = None, most: int = 64, **options: Any
) -> int | None:
    """The number of attempts at each of so many tasks from which on the power reaches the target; None above `most`, or
    above what can be computed.
    """
    most = min(most, isqrt(LARGEST // tasks))
    if most < 1:
        return None
    low, high = 0, 1
    while power(effect, tasks, high, rates, **options).power < target:
        if high >= most:
            return None
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(effect, tasks, middle, rates, **options).power >= target
        low, high = (low, middle) if enough else (middle, high)
    return high


def expected_coverage(tasks: int, level: float = 0.95) -> float:
    """What theory expects the percentile interval of a mean over so many tasks to cover, where differences are near normal.

    The interval is the mean plus and minus z standard errors, with the variance over n and not n - 1: it covers what Student's
    t gives for z sqrt((n - 1) / n). 14 tasks: 91.9 %, 30: 93.6 %, 87: 94.5 %. Skewed differences cost a little more.
    """
    from statistics import NormalDist

    from misstep.stats.sensitivity import t_cdf

    if tasks < 2:
        return 0.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    return 2 * t_cdf(z * sqrt((tasks - 1) / tasks), tasks - 1) - 1


def interval_note(tasks: int, level: float = 0.95) -> str | None:
    """A sentence for the report when theory expects the interval of a mean over so few tasks to cover over a point too little.

    That is below 41 tasks at 95 %. (Theory knows nothing of skew, which took up to 0.7 points more at 30 tasks in simulation.)
    """
    expected = expected_coverage(tasks, level)
    if level - expected <= 0.01:
        return None
    counted = "1 task" if tasks == 1 else f"{tasks} tasks"
    return (
        f"With {counted} the {100 * level:g} % interval is too short: theory expects it to cover {100 * expected:.0f} % of the time. "
        "The p-value is exact for any number of tasks."
    )


def past_rates(counts: Sequence[tuple[int, int]]) -> list[float]:
    """Baseline rates from (passed, attempts) of past tasks, drawn half an attempt towards one half: 0 of 2 is not a rate of 0."""
    return [(passed + 0.5) / (attempts + 1) for passed, attempts in counts]


def batch_sign_flip_p(differences: Any, bound: int) -> Any:
    """Two-sided sign-flip p of many panels at once: an integer array (panels, tasks) within [-bound, bound] -> array (panels,).

    Panels with equal numbers of each size and equal |sum| share one p; each is read off a discrete Fourier transform of the law
    of the sum, to within 1e-12.
    """
    import numpy as np

    sizes = np.abs(differences)
    key = np.stack([*((sizes == s).sum(1) for s in range(1, bound + 1)), np.abs(differences.sum(1))], 1)
    panels, index = np.unique(key, axis=0, return_inverse=True)
    totals = panels[:, :-1] @ np.arange(1, bound + 1)
    points = int(totals.max()) + 1
    angle = 2 * np.pi * np.arange(points // 2 + 1) / points
    one = [(1 + np.exp(-1j * s * angle)) / 2 for s in range(1, bound + 1)]
    ps = np.empty(len(panels))
    chunk = max(1, (1 << 20) // points)
    for start in range(0, len(panels), chunk):
        part = panels[start : start + chunk]
        # The law of the sum of the sizes that keep a plus sign; |sum| >= observed is two equal tails of it.
        spectrum = np.ones((len(part), len(angle)), complex)
        for s, c in enumerate(one):  # one after another: all at once would take `bound` times the memory
            if part[:, s].any():
                spectrum *= c ** part[:, s, None]
        law = np.fft.irfft(spectrum, points)
        above = np.cumsum(law[:, ::-1], 1)[:, ::-1]
        observed = (totals[start : start + chunk] + part[:, -1]) // 2
        ps[start : start + chunk] = 2 * above[np.arange(len(part)), observed]
    return np.clip(ps, 0.0, 1.0)[index.ravel()]


def batch_mean_interval(differences: Any, bound: int, level: float = 0.95) -> Any:
    """`mean_interval` of many panels at once: an integer array (panels, tasks) within [-bound, bound] -> array (panels, 2).

    Ends are numerators: divide by the differences' denominator. Ties within 1e-11 of probability go to the wider interval.
    """
    import numpy as np

    panels, tasks = differences.shape
    ends = np.empty((panels, 2))
    length = 1 << (2 * bound * tasks).bit_length()
    tail = (1 - level) / 2
    for start in range(0, panels, max(1, (1 << 20) // length)):
        part = differences[start : start + max(1, (1 << 20) // length)]
        law = np.stack([(part == v).mean(1) for v in range(-bound, bound + 1)], 1)
        sums = np.fft.irfft(np.fft.rfft(law, length) ** tasks, length)[:, : 2 * bound * tasks + 1]
        cumulative = np.cumsum(np.clip(sums, 0.0, None), 1)
        cumulative /= cumulative[:, -1:]
        for side, share in enumerate((tail - 1e-11, 1 - tail + 1e-11)):
            ends[start : start + len(part), side] = (cumulative >= share).argmax(1) / tasks - bound
    return ends


def _moved(rates: Any, shift: float) -> Any:
    from math import exp

    # The logistic of logit(rate) + shift, without a logit that is infinite at 0 and 1.
    factor = exp(shift)
    return rates * factor / (rates * factor + (1.0 - rates))


def _shift(rates: Any, effect: float) -> float:
    """The common shift on the logit scale that moves the mean rate by `effect`."""
    low, high = -30.0, 30.0
    base = float(rates.mean())
    if not float(_moved(rates, low).mean()) - base <= effect <= float(_moved(rates, high).mean()) - base:
        raise ValueError(f"a mean rate of {base:.3f} leaves no room for an effect of {effect:+g}")
    for _ in range(60):
        middle = (low + high) / 2
        if float(_moved(rates, middle).mean()) - base < effect:
            low = middle
        else:
            high = middle
    return (low + high) / 2
