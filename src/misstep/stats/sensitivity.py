"""Does the primary result depend on how it was made? Two other models of the same attempts; neither replaces it.

* `gee`: logistic regression of the outcome on the arm, tasks as clusters, independent working correlation, with the
  bias-reduced sandwich variance of Mancl and DeRouen (2001). Marginal: an odds ratio and a difference of rates over all tasks.
* `conditional_logit`: each task has a level of its own, conditioned away; a common odds ratio within tasks. Its law given
  each task's number of passes is a product of polynomials, so estimate, interval and p are exact, not asymptotic.

Both are closed forms or exact here, so nothing has to converge and no package is needed; statsmodels is the oracle in the
tests. Not here, on purpose: variational mixed logit (15 % false positives without an effect) and McNemar on majorities (it
throws attempts away).
"""

from __future__ import annotations

from math import comb, exp, inf, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

from misstep.stats.paired import Interval
from misstep.stats.rates import _beta_cdf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    #: One task's attempts in one arm: (passed, attempts).
    Count = tuple[int, int]

MIN_TASKS = 8
"""With fewer tasks its size was not measured (docs/statistics.md has what was): it is not available there."""


class Sensitivity(NamedTuple):
    """What another model says of a contrast. What is not available is None, and `why` says why.

    tasks, attempts: those that carry information in this model. odds_ratio: of passing, arm against the other.
    difference: of marginal pass rates (a proportion); None in a model that has none. p: two-sided, of no effect.
    """

    method: str
    tasks: int
    attempts: int
    odds_ratio: float | None = None
    odds_interval: Interval | None = None
    difference: float | None = None
    difference_interval: Interval | None = None
    p: float | None = None
    why: str = ""


def sensitivity(
    rows: Iterable[tuple[str, str, bool]], arm: str, against: str, level: float = 0.95
) -> tuple[Sensitivity, Sensitivity]:
    """(GEE, conditional logit) of `arm` less `against`, from (task, arm, passed) of every attempt; other arms are left out."""
    tasks: dict[str, list[list[int]]] = {}
    for task, name, passed in rows:
        if name in (arm, against):
            cell = tasks.setdefault(task, [[0, 0], [0, 0]])[name == against]
            cell[0] += bool(passed)
            cell[1] += 1
    counts = [((a[0], a[1]), (b[0], b[1])) for a, b in tasks.values()]
    return gee(counts, level), conditional_logit(counts, level)


def _checked(counts: Sequence[tuple[Count, Count]], level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, not {level!r}")
    for passed, attempts in (cell for pair in counts for cell in pair):
        if not 0 <= passed <= attempts:
            raise ValueError(f"{passed} of {attempts} attempts passed: impossible")


def gee(counts: Sequence[tuple[Count, Count]], level: float = 0.95) -> Sensitivity:
    """Marginal logistic model with the bias-reduced variance, from ((passed, attempts), (passed, attempts)) of each task.

    The model has one rate an arm, so the estimate is the pooled rate, and the leverage of a task's n attempts among the arm's
    N is n / N: its residual sum counts N / (N - n) times. Tests and intervals use Student's t with tasks - 2 degrees of
    freedom, on the log odds and (by the delta method) on the difference. Tasks with attempts in one arm only take part.
    Not available: fewer than MIN_TASKS tasks; an arm in which all or no attempts passed (separation: the odds are infinite
    and the variance says nothing); an arm that stands on one task.
    """
    _checked(counts, level)
    counts = [pair for pair in counts if pair[0][1] or pair[1][1]]
    totals = [(sum(c[side][0] for c in counts), sum(c[side][1] for c in counts)) for side in (0, 1)]
    tasks, attempts = len(counts), totals[0][1] + totals[1][1]

    def missing(why: str) -> Sensitivity:
        return Sensitivity("gee", tasks, attempts, why=why)

    if not all(n for _, n in totals):
        return missing("an arm has no attempts")
    if tasks < MIN_TASKS:
        return missing(
            f"{tasks} {'task is' if tasks == 1 else 'tasks are'} too few for its variance: it needs {MIN_TASKS}"
        )
    for passed, n in totals:
        if passed in (0, n):
            return missing(f"{'no' if passed == 0 else 'every'} attempt of one arm passed: its odds are not finite")
    if any(c[side][1] == totals[side][1] for c in counts for side in (0, 1)):
        return missing("all attempts of an arm are of one task")
    (p, n), (q, m) = ((passed / of, of) for passed, of in totals)
    # The change of each rate that a task accounts for: its residual sum over the attempts of the others.
    parts = [((a - x * p) / (n - x), (b - y * q) / (m - y)) for (a, x), (b, y) in counts]
    odds = p / (1 - p) / (q / (1 - q))
    on_logit = [u / (p * (1 - p)) - v / (q * (1 - q)) for u, v in parts]
    error = sqrt(sum(v * v for v in on_logit))
    error_difference = sqrt(sum((u - v) ** 2 for u, v in parts))
    if error <= 1e-12 or error_difference <= 1e-12:
        return missing("no task differs from the others: there is no variance to measure by")
    freedom = tasks - 2
    t = t_quantile((1 + level) / 2, freedom)
    middle, shift = log(odds), p - q
    return Sensitivity(
        "gee",
        tasks,
        attempts,
        odds,
        Interval(exp(middle - t * error), exp(middle + t * error), level),
        shift,
        Interval(max(-1.0, shift - t * error_difference), min(1.0, shift + t * error_difference), level),
        2 * (1 - t_cdf(abs(middle) / error, freedom)),
    )


def conditional_logit(counts: Sequence[tuple[Count, Count]], level: float = 0.95) -> Sensitivity:
    """Common odds ratio within tasks, from ((passed, attempts), (passed, attempts)) of each task.

    Given how many of a task's attempts passed, how many of these were the arm's has weights C(n, x) C(m, t - x) OR^x. The sum
    over tasks decides: odds_ratio is the conditional maximum likelihood estimate, the interval inverts both exact tails, and p
    is twice the smaller tail at OR = 1 (`Association.p_within`). Only tasks with attempts in both arms and both outcomes carry
    information. Given the model, the interval covers at least `level`, and more with few attempts. There is no marginal
    difference in this model.
    Not available: no such task; the estimate, where the sum is the least or the largest there could be (separation: p stands).
    """
    _checked(counts, level)
    told = [((a, n), (b, m)) for (a, n), (b, m) in counts if n and m and 0 < a + b < n + m]
    tasks, attempts = len(told), sum(n + m for (_, n), (_, m) in told)
    if not told:
        why = "no task has attempts in both arms and both outcomes"
        return Sensitivity("conditional-logit", 0, 0, why=why)
    laws = _Laws([(a, n, b, m) for (a, n), (b, m) in told])
    p = min(1.0, 2 * min(laws.tails(0.0)))
    if laws.observed in (0, laws.most):
        side = "against" if laws.observed == 0 else "for"
        why = f"every difference within tasks that there could be is {side} the arm: the odds ratio is not finite"
        return Sensitivity("conditional-logit", tasks, attempts, p=p, why=why)
    tail = (1 - level) / 2
    best = _root(lambda b: laws.mean(b) - laws.observed)
    around = laws.around(best)
    low, high = _root(lambda b: around(b)[1] - tail), _root(lambda b: tail - around(b)[0])
    why = "this model has no marginal difference"
    odds = Interval(exp(low), exp(high), level)
    return Sensitivity("conditional-logit", tasks, attempts, exp(best), odds, p=p, why=why)


class _Laws:
    """The law of the arm's passes, over what is least, given each task's passes, for a log odds ratio b.

    float64; only sums and products of positive numbers, so every probability has a relative error near 1e-12.
    """

    def __init__(self, told: list[tuple[int, int, int, int]]) -> None:
        import numpy as np

        self.observed = self.most = 0
        rows: list[list[float]] = []
        known: dict[tuple[int, int, int], list[float]] = {}
        for a, n, b, m in told:
            low, high = max(0, a + b - m), min(n, a + b)
            key = n, m, a + b
            if key not in known:
                known[key] = [log(comb(n, x)) + log(comb(m, a + b - x)) for x in range(low, high + 1)]
            rows.append(known[key])
            self.observed += a - low
            self.most += high - low
        self.sizes = [len(row) for row in rows]
        self.logs = np.full((len(rows), max(self.sizes)), -inf)
        for index, row in enumerate(rows):
            self.logs[index, : len(row)] = row
        self.values = np.arange(self.logs.shape[1])

    def _shares(self, b: float) -> Any:
        import numpy as np

        logs = self.logs + b * self.values
        shares = np.exp(logs - logs.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def mean(self, b: float) -> float:
        return float((self._shares(b) @ self.values).sum())

    def _law(self, b: float) -> Any:
        import numpy as np

        law = np.ones(1)
        for row, size in zip(self._shares(b), self.sizes, strict=True):
            law = np.convolve(law, row[:size])
        return law

    def tails(self, b: float) -> tuple[float, float]:
        """P(at most what was observed), P(at least that)."""
        law = self._law(b)
        return float(law[: self.observed + 1].sum()), float(law[self.observed :].sum())

    def around(self, b: float) -> Callable[[float], tuple[float, float]]:
        """`tails` as a function of the log odds ratio, from one law: right near b, and on the right side of any tail afar
        (what has a probability below 1e-300 at b is left out)."""
        import numpy as np

        with np.errstate(divide="ignore"):
            logs = np.log(self._law(b))
        steps = np.arange(len(logs))

        def tails(other: float) -> tuple[float, float]:
            tilted = logs + (other - b) * steps
            weights = np.exp(tilted - tilted.max())
            total = weights.sum()
            return float(weights[: self.observed + 1].sum() / total), float(weights[self.observed :].sum() / total)

        return tails


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function of the log odds ratio is 0, to 1e-12; the ends are reached by doubling."""
    low, high = -1.0, 1.0
    while rising(low) > 0 and low > -700:
        low *= 2
    while rising(high) < 0 and high < 700:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if high - low < 1e-13 * max(1.0, abs(middle)):
            break
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_cdf(value: float, freedom: int) -> float:
    """P(T <= value) of Student's t."""
    tail = _beta_cdf(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return 1 - tail if value > 0 else tail


def t_quantile(share: float, freedom: int) -> float:
    """The value that Student's t does not exceed with that probability, which is at least one half."""
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < share and high < 1e12:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2
