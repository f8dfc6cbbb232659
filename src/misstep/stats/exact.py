"""Exact laws of sums of integers: the engine under every p-value and interval of this package.

Outcomes of tasks are put on a lattice: integers over one common denominator. The law of a sum of independent integers is a
product of polynomials, so it is computed, not sampled: no seed, no ties decided by rounding, any number of tasks.

Three engines, chosen by size alone (never by what happens to be imported), so that a result does not depend on the caller:

* integers: polynomials packed into one Python integer, or the power recurrence below. Exact; no numpy. Covers all usual sizes.
* halves: few tasks on a lattice too fine to store. Exact; every outcome of either half is listed.
* float64: large sums (thousands of tasks). Every probability is within 1e-11 of the truth.

A lattice too fine even for float64 is replaced by a coarser grid, and the caller is told the bound on what that can change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from math import comb, gcd, isfinite, lcm, log2, prod
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    #: The possible outcomes of one term of a sum: (integer value, integer weight), weights positive.
    Term = list[tuple[int, int]]

#: Largest denominator that a float is recognised with.
MAX_DENOMINATOR = 2520
#: Below this many word operations the integer engine is used (about 2 ms).
_INTEGER_WORK = 6_000_000
#: Outcomes listed for one half of the terms.
_HALF = 1 << 15
#: Points and additions that the float64 engine may use (about 2 s).
_POINTS = 1 << 21
_FLOAT_WORK = 1 << 30
_FLOAT_ERROR = 1e-11


class TooLargeError(ValueError):
    """The sum has more possible values than any engine here can hold."""


def integers(values: Iterable[Any], over: int | None = None) -> tuple[list[int], int]:
    """Values as integers over a common denominator.

    With `over`, values are numerators: whole numbers, each meaning value / over. Without it, ints and Fractions are taken as
    they are, and a float must be within 1e-9 of a fraction whose denominator is at most 2520.

    Returns (numerators, denominator). Raises ValueError naming the first value that does not fit.
    """
    values = list(values)
    if over is not None and over < 1:
        raise ValueError(f"a denominator is a positive integer, not {over}")
    if all(type(v) is int for v in values):
        return values, over or 1
    for index, value in enumerate(values):
        if not isinstance(value, Real) or not isfinite(value):
            raise ValueError(f"value {index} is {value!r}: expected a finite number")
    for trial in (1,) if over else (1, 2, 6, 60, MAX_DENOMINATOR):
        scaled = [round(v * trial) for v in values]
        # Rationals are compared exactly: a value that is given exactly is never rounded.
        fits = [
            s == v * trial if isinstance(v, Rational) else abs(s - v * trial) <= 1e-9 * trial
            for s, v in zip(scaled, values, strict=True)
        ]
        if all(fits):
            return scaled, over or trial
    if over:
        index = fits.index(False)
        raise ValueError(f"value {index} is {values[index]!r}: with a denominator given, values are whole numerators")
    fractions = [_fraction(value, index) for index, value in enumerate(values)]
    common = lcm(*(f.denominator for f in fractions))
    return [f.numerator * (common // f.denominator) for f in fractions], common


def _fraction(value: Any, index: int) -> Fraction:
    from fractions import Fraction

    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    near = Fraction(float(value)).limit_denominator(MAX_DENOMINATOR)
    if abs(float(near) - value) > 1e-9:
        raise ValueError(
            f"value {index} is {value!r}: not a multiple of 1/d for any d <= {MAX_DENOMINATOR}; pass integers or Fractions"
        )
    return near


def sum_tails(terms: Sequence[Term], point: int) -> tuple[float, float]:
    """P(sum <= point) and P(sum >= point) of independent terms; exact but for float64's rounding of the result.

    Where the lattice is too fine for every engine, values are rounded to a coarser grid and both probabilities are upper bounds
    (the point is moved outwards by the most that rounding can do), so a p-value made of them is never too small.
    """
    terms = [term for term in terms if term]
    low = sum(min(v for v, _ in term) for term in terms)
    high = sum(max(v for v, _ in term) for term in terms)
    if point < low:
        return 0.0, 1.0
    if point > high:
        return 1.0, 0.0
    width = sum(log2(sum(w for _, w in term)) for term in terms)
    atoms = sum(len(term) for term in terms)
    if (high - low + 1) * (width + 2) / 64 * atoms <= _INTEGER_WORK:
        return _tails_packed(terms, point, low, high)
    if prod(len(term) for term in terms) <= _HALF * _HALF:
        return _tails_halves(terms, point)
    coarse = -(-(high - low + 1) // min(_POINTS, _FLOAT_WORK // atoms))
    if coarse == 1:
        less, more = _tails_float(terms, low, high)
        return float(less[point - low]), float(more[point - low])
    # Each term moves by at most half a grid step, so the sum by at most half a step a term.
    gridded = [[(round_half(v, coarse), w) for v, w in term] for term in terms]
    low, high = (sum(pick(v for v, _ in term) for term in gridded) for pick in (min, max))
    less, more = _tails_float(gridded, low, high)
    above = min(max(-(-(2 * point - len(terms) * coarse) // (2 * coarse)) - low, 0), high - low)
    below = min(max((2 * point + len(terms) * coarse) // (2 * coarse) - low, 0), high - low)
    return float(less[below]), float(more[above])


def round_half(value: int, step: int) -> int:
    """The nearest multiple of `step`, as a number of steps."""
    return (2 * value + step) // (2 * step)


def _packed(terms: Sequence[Term], bits: int) -> int:
    """The product of the terms' polynomials; the coefficient of x^k sits in bits [k * bits, (k + 1) * bits)."""
    packed = 1
    for term in terms:
        base = min(v for v, _ in term)
        packed = sum((packed << (v - base) * bits) * w for v, w in term)
    return packed


def _digit_sum(packed: int, bits: int) -> int:
    # A number is congruent to the sum of its digits modulo base - 1; the sum is smaller than that by choice of `bits`.
    return packed % ((1 << bits) - 1)


def _tails_packed(terms: Sequence[Term], point: int, low: int, high: int) -> tuple[float, float]:
    total = prod(sum(w for _, w in term) for term in terms)
    bits = total.bit_length() + 1
    packed = _packed(terms, bits)
    above = _digit_sum(packed >> (point - low) * bits, bits)
    at = packed >> (point - low) * bits & (1 << bits) - 1
    return (total - above + at) / total, above / total


def _tails_halves(terms: Sequence[Term], point: int) -> tuple[float, float]:
    halves: list[Counter[int]] = [Counter({0: 1}), Counter({0: 1})]
    for term in sorted(terms, key=len, reverse=True):
        side = 0 if len(halves[0]) <= len(halves[1]) else 1
        grown: Counter[int] = Counter()
        for total, weight in halves[side].items():
            for v, w in term:
                grown[total + v] += weight * w
        halves[side] = grown
    values = sorted(halves[1])
    below = [0]
    for v in values:
        below.append(below[-1] + halves[1][v])
    every = sum(halves[0].values()) * below[-1]
    less = sum(w * below[bisect_left(values, point - v)] for v, w in halves[0].items())
    not_more = sum(w * below[bisect_left(values, point + 1 - v)] for v, w in halves[0].items())
    return not_more / every, (every - less) / every


def _tails_float(terms: Sequence[Term], low: int, high: int) -> tuple[Any, Any]:
    """P(sum <= low + k) and P(sum >= low + k) for every k, as two arrays."""
    import numpy as np

    law = np.zeros(high - low + 1)
    law[0], size = 1.0, 1
    for term in terms:
        base, total = min(v for v, _ in term), sum(w for _, w in term)
        grown = np.zeros(size + max(v for v, _ in term) - base)
        for v, w in term:
            grown[v - base : v - base + size] += law[:size] * (w / total)
        size = len(grown)
        law[:size] = grown
    # Only sums of positive numbers: the relative error stays below a few times the number of terms times 1e-16.
    return np.minimum(np.cumsum(law), 1.0), np.minimum(np.cumsum(law[::-1])[::-1], 1.0)


class SumLaw:
    """The law of the sum of `draws` independent draws from a list of integers: the exact bootstrap.

    Possible sums are start + k * step for k in range(len(cumulative)); cumulative[k] / total is P(sum <= that). The weights are
    Python integers, or float64 (total 1.0) where integers would take too long.
    """

    def __init__(self, values: Sequence[int], draws: int | None = None) -> None:
        if not values:
            raise ValueError("no values: the law of a mean needs at least one task")
        self.draws = len(values) if draws is None else draws
        least = min(values)
        self.step = gcd(*(v - least for v in values)) or 1
        self.start = least * self.draws
        counts = Counter((v - least) // self.step for v in values)
        size = self.draws * max(counts) + 1
        work = size * len(counts) * (self.draws * log2(len(values)) / 64 + 4)
        self.cumulative: Any
        self.total: Any
        if work <= _INTEGER_WORK / 3:
            self.cumulative = _power(counts, self.draws, size)
            self.total = self.cumulative[-1]
        elif size <= _POINTS:
            self.cumulative = _power_float(counts, self.draws, size)
            self.total = 1.0
        else:
            raise TooLargeError(f"the sum of {self.draws} draws has {size} possible values")

    @property
    def exact(self) -> bool:
        """Whether the weights are integers."""
        return isinstance(self.cumulative, list)

    def at_most(self, point: int) -> Any:
        """The weight of sums <= point; divide by `total` for the probability."""
        index = (point - self.start) // self.step
        return self.cumulative[min(index, len(self.cumulative) - 1)] if index >= 0 else 0

    def quantile(self, numerator: int, denominator: int) -> int:
        """The smallest possible sum s with P(sum <= s) >= numerator / denominator."""
        if self.exact:
            index = bisect_left(self.cumulative, numerator * self.total, key=lambda c: c * denominator)
        else:
            index = bisect_left(self.cumulative, _float_level(numerator, denominator))
        return self.start + self.step * min(index, len(self.cumulative) - 1)


def gridded_law(values: Sequence[int]) -> tuple[SumLaw, int]:
    """The law of the sum of as many draws, and the grid step that values had to be rounded to (1: none, the law is exact)."""
    try:
        return SumLaw(values), 1
    except TooLargeError:
        coarse = (max(values) - min(values)) * len(values) * 4 // _POINTS + 1
        return SumLaw([round_half(v, coarse) for v in values]), coarse


def _float_level(numerator: int, denominator: int) -> float:
    """The level moved outwards by the float64 engine's error, so that a tie within it is decided for the wider interval."""
    level = numerator / denominator
    return level - _FLOAT_ERROR if 2 * numerator < denominator else level + _FLOAT_ERROR


def _power(counts: Counter[int], draws: int, size: int) -> list[int]:
    """Cumulative coefficients of f(x)^draws, f = sum of counts[k] x^k, in exact integers.

    P = f^n obeys f P' = n f' P, which gives each coefficient from the few before it: size * len(counts) products in all.
    """
    constant = counts[0]
    rest = sorted((k, c) for k, c in counts.items() if k)
    power, cumulative = [constant**draws], [constant**draws]
    for index in range(1, size):
        numerator = 0
        for k, c in rest:
            if k > index:
                break
            numerator += ((draws + 1) * k - index) * c * power[index - k]
        power.append(numerator // (index * constant))
        cumulative.append(cumulative[-1] + power[-1])
    return cumulative


def _power_float(counts: Counter[int], draws: int, size: int) -> Any:
    import numpy as np

    law = np.zeros(max(counts) + 1)
    law[list(counts)] = list(counts.values())
    length = 1 << size.bit_length()
    power = np.fft.irfft(_raised(np.fft.rfft(law / law.sum(), length), draws), length)[:size]
    cumulative = np.cumsum(np.clip(power, 0.0, None))
    return cumulative / cumulative[-1]


def _raised(base: Any, exponent: int) -> Any:
    """base ** exponent by squaring: numpy's complex power takes several times as long."""
    power = base if exponent & 1 else base * 0 + 1
    while exponent := exponent >> 1:
        base = base * base
        if exponent & 1:
            power = power * base
    return power


def difference_quantile(a: SumLaw, b: SumLaw, scale_a: int, scale_b: int, numerator: int, denominator: int) -> int:
    """The smallest t with P(scale_a * A - scale_b * B <= t) >= numerator / denominator, A and B independent; scales positive."""
    step = gcd(a.step * scale_a, b.step * scale_b)
    start = a.start * scale_a - (b.start + b.step * (len(b.cumulative) - 1)) * scale_b
    reach = a.step * (len(a.cumulative) - 1) * scale_a + b.step * (len(b.cumulative) - 1) * scale_b
    exact = a.exact and b.exact
    if exact:
        needed = numerator * a.total * b.total
        weights = [c - p for c, p in zip(a.cumulative, [0, *a.cumulative[:-1]], strict=True)]

    def enough(index: int) -> bool:
        t = start + step * index
        if exact:
            # A value x of A counts with those of B that are at least (scale_a x - t) / scale_b, rounded up.
            got = sum(
                w * (b.total - b.at_most(-((t - scale_a * (a.start + k * a.step)) // scale_b) - 1))
                for k, w in enumerate(weights)
                if w
            )
            return got * denominator >= needed
        return _difference_cdf(a, b, scale_a, scale_b, t) >= _float_level(numerator, denominator)

    return start + step * bisect_left(range(reach // step), True, key=enough)


def _difference_cdf(a: SumLaw, b: SumLaw, scale_a: int, scale_b: int, t: int) -> float:
    import numpy as np

    law_a = np.array([c / a.total for c in a.cumulative]) if a.exact else a.cumulative
    law_b = np.array([c / b.total for c in b.cumulative]) if b.exact else b.cumulative
    values = a.start + a.step * np.arange(len(law_a), dtype=object if scale_a * abs(a.start) > 1 << 60 else np.int64)
    index = (-((t - scale_a * values) // scale_b) - 1 - b.start) // b.step
    below = np.concatenate(([0.0], law_b))[np.clip(index + 1, 0, len(law_b)).astype(np.int64)]
    return float(np.diff(law_a, prepend=0.0) @ (1.0 - below))


def subset_tails(values: Sequence[int], size: int, low: int, high: int) -> tuple[float, float]:
    """P(S <= low) and P(S >= high), S the sum of a random subset of `size` of the values, all subsets equally likely.

    Raises TooLargeError where there are too many (size, sum) pairs to hold.
    """
    least = min(values)
    step = gcd(*(v - least for v in values)) or 1
    shifted = sorted((v - least) // step for v in values)
    reach = sum(shifted[len(values) - size :])
    # In steps above the least possible sum; the points themselves need not be on the lattice.
    floor = min((low - least * size) // step, reach)
    ceiling = max(-((least * size - high) // step), 0)
    stride, bits = sum(shifted) + 1, len(values) + 2
    if stride * (len(values) + 1) * bits / 64 * len(values) <= _INTEGER_WORK:
        # Two variables in one integer: x counts the sum in digits, y the chosen in strides of digits.
        packed = _packed([[(0, 1), (stride + v, 1)] for v in shifted], bits)
        row = packed >> size * stride * bits & (1 << stride * bits) - 1
        ways = comb(len(values), size)
        more = _digit_sum(row >> (floor + 1) * bits, bits) if floor >= 0 else ways
        return (ways - more) / ways, _digit_sum(row >> ceiling * bits, bits) / ways
    law = _subset_law(shifted, size, reach)
    return min(1.0, float(law[: max(floor + 1, 0)].sum())), min(1.0, float(law[ceiling:].sum()))


def _subset_law(values: Sequence[int], size: int, reach: int) -> Any:
    import numpy as np

    if (size + 1) * (reach + 1) > _POINTS or (size + 1) * (reach + 1) * len(values) > _FLOAT_WORK:
        raise TooLargeError(f"{size} of {len(values)} tasks have {reach + 1} possible sums")
    law = np.zeros((size + 1, reach + 1))
    law[0, 0] = 1.0
    for seen, v in enumerate(values):
        # P(j chosen, sum s) of the first tasks, under the law in which exactly `size` of all are chosen in the end.
        chosen = np.arange(size + 1)[:, None]
        take = np.clip((size - chosen) / (len(values) - seen), 0.0, 1.0)
        grown = law * (1.0 - take)
        grown[1:, v:] += (law * take)[:-1, : reach + 1 - v]
        law = grown
    return law[size]
