"""GEE and conditional logit against statsmodels, against enumeration, and against cases made by hand."""

import math
import timeit
from fractions import Fraction
from itertools import product
from math import comb, log

import numpy as np
import pytest

from misstep.stats import association, compare, conditional_logit, gee
from misstep.stats.sensitivity import MIN_TASKS, sensitivity, t_cdf, t_quantile


def drawn(seed: int, tasks: int, low: int = 0, high: int = 4) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    rng = np.random.default_rng(seed)
    made = []
    for rate in rng.beta(2, 2, tasks):
        n, m = (int(x) for x in rng.integers(low, high, 2))
        made.append(((int(rng.binomial(n, min(1, rate + 0.2))), n), (int(rng.binomial(m, rate)), m)))
    return made


def rows(counts):
    """(task, arm, passed) of every attempt, as three arrays."""
    made = [
        (task, side == 0, number < passed)
        for task, cells in enumerate(counts)
        for side, (passed, of) in enumerate(cells)
        for number in range(of)
    ]
    return tuple(np.array(column, dtype=float) for column in zip(*made, strict=True))


# -- statsmodels is the oracle -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_gee_is_statsmodels_with_the_bias_reduced_variance(seed):
    sm = pytest.importorskip("statsmodels.api")
    counts = drawn(seed, 20)
    groups, arm, passed = rows(counts)
    fit = sm.GEE(
        passed, sm.add_constant(arm), groups=groups, family=sm.families.Binomial(), cov_struct=sm.cov_struct.Independence()
    ).fit(cov_type="bias_reduced")  # fmt: skip
    found = gee(counts)
    assert log(found.odds_ratio) == pytest.approx(fit.params[1], abs=1e-7)
    error = log(found.odds_interval.high / found.odds_ratio) / t_quantile(0.975, found.tasks - 2)
    assert error == pytest.approx(fit.bse[1], rel=1e-6)
    # the difference of rates: the delta method on statsmodels' own covariance
    rates = 1 / (1 + np.exp(-np.array([fit.params.sum(), fit.params[0]])))
    slopes = rates * (1 - rates)
    gradient = np.array([slopes[0] - slopes[1], slopes[0]])
    spread = math.sqrt(gradient @ fit.cov_robust_bc @ gradient)
    low, high, *_ = found.difference_interval
    assert found.difference == pytest.approx(rates[0] - rates[1], abs=1e-9)
    if low > -1 and high < 1:
        assert (high - low) / 2 / t_quantile(0.975, found.tasks - 2) == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_conditional_logit_is_statsmodels(seed):
    models = pytest.importorskip("statsmodels.discrete.conditional_models")
    counts = drawn(seed, 20, 1, 5)
    groups, arm, passed = rows(counts)
    with np.errstate(all="ignore"), pytest.warns():  # groups without variance are dropped there, too
        fit = models.ConditionalLogit(passed, arm[:, None], groups=groups).fit(disp=0)
    assert log(conditional_logit(counts).odds_ratio) == pytest.approx(fit.params[0], abs=2e-3)


def test_students_t_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 2, 6, 28, 500):
        for value in (-30.0, -2.0, -0.1, 0.0, 0.7, 3.0, 12.0):
            assert t_cdf(value, freedom) == pytest.approx(stats.t.cdf(value, freedom), abs=1e-12)
        for share in (0.5, 0.9, 0.975, 0.9995):
            assert t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-9, abs=1e-9)


# -- enumeration -----------------------------------------------------------------------------------------------------------------


def enumerated(counts, odds: Fraction) -> dict[int, Fraction]:
    """P(sum of the arm's passes) given each task's passes: every way to deal these to its attempts, one by one."""
    law: dict[int, Fraction] = {}
    tasks = []
    for (a, n), (b, m) in counts:
        ways = [w for w in product((0, 1), repeat=n + m) if sum(w) == a + b]
        tasks.append([sum(w[:n]) for w in ways])
    for sums in product(*tasks):
        law[sum(sums)] = law.get(sum(sums), Fraction(0)) + odds ** sum(sums)
    total = sum(law.values())
    return {k: v / total for k, v in law.items()}


SMALL = [((2, 2), (1, 2)), ((1, 2), (0, 2)), ((1, 3), (1, 1)), ((0, 2), (1, 2)), ((2, 2), (2, 2)), ((1, 1), (0, 0))]


def test_conditional_logit_is_what_enumeration_gives():
    found = conditional_logit(SMALL)
    observed = sum(a for (a, _), _ in SMALL)
    law = enumerated(SMALL, Fraction(1))
    tails = sum(v for k, v in law.items() if k <= observed), sum(v for k, v in law.items() if k >= observed)
    assert found.p == pytest.approx(float(min(1, 2 * min(tails))), abs=1e-12)
    # at the estimate the expected sum is the observed one, at the ends a tail is 2.5 %
    at = enumerated(SMALL, Fraction(found.odds_ratio))
    assert float(sum(k * v for k, v in at.items())) == pytest.approx(observed, abs=1e-9)
    low = enumerated(SMALL, Fraction(found.odds_interval.low))
    assert float(sum(v for k, v in low.items() if k >= observed)) == pytest.approx(0.025, abs=1e-9)
    high = enumerated(SMALL, Fraction(found.odds_interval.high))
    assert float(sum(v for k, v in high.items() if k <= observed)) == pytest.approx(0.025, abs=1e-9)
    assert (found.tasks, found.attempts) == (4, 16)
    assert found.difference is None


def test_its_p_is_that_of_the_permutation_within_tasks():
    counts = drawn(5, 20, 1, 5)
    sides = [([True] * a + [False] * (n - a), [True] * b + [False] * (m - b)) for (a, n), (b, m) in counts]
    # equal arms: with unequal numbers of attempts the two statistics differ
    even = [((min(a, 2), 2), (min(b, 2), 2)) for (a, _), (b, _) in counts]
    sides = [([True] * a + [False] * (2 - a), [True] * b + [False] * (2 - b)) for (a, _), (b, _) in even]
    assert conditional_logit(even).p == pytest.approx(association(sides).p_within, abs=1e-12)


# -- by hand ---------------------------------------------------------------------------------------------------------------------


def test_matched_pairs_are_the_ratio_of_the_discordant_ones():
    pairs = [((1, 1), (0, 1))] * 9 + [((0, 1), (1, 1))] * 3 + [((1, 1), (1, 1))] * 5
    found = conditional_logit(pairs)
    assert found.odds_ratio == pytest.approx(3.0, rel=1e-9)
    assert found.tasks == 12
    # the exact binomial test of 9 against 3, and Clopper-Pearson's interval of 9 of 12 as odds
    assert found.p == pytest.approx(2 * sum(comb(12, k) for k in range(9, 13)) / 2**12, abs=1e-12)
    from misstep.stats import clopper_pearson

    share = clopper_pearson(9, 12)
    assert found.odds_interval[:2] == pytest.approx([end / (1 - end) for end in share[:2]], rel=1e-9)


def test_one_table_is_fishers():
    stats = pytest.importorskip("scipy.stats")
    found = conditional_logit([((8, 10), (3, 12))])
    exact = stats.contingency.odds_ratio([[8, 2], [3, 9]], kind="conditional")
    assert found.odds_ratio == pytest.approx(exact.statistic, rel=1e-6)
    low, high = exact.confidence_interval(0.95)
    assert found.odds_interval[:2] == pytest.approx([low, high], rel=1e-6)


def test_gee_with_equal_attempts_has_the_effect_of_the_primary():
    counts = [((int(a), 2), (int(b), 2)) for a, b in np.random.default_rng(2).integers(0, 3, (20, 2))]
    effect = compare([b for _, b in counts], [a for a, _ in counts]).effect
    found = gee(counts)
    assert found.difference == pytest.approx(effect.mean, abs=1e-12)
    # and its variance is the jackknife's around the estimate: tasks' differences over (n - 1)
    differences = [(a - b) / 2 for (a, _), (b, _) in counts]
    jack = math.sqrt(sum((d - effect.mean) ** 2 for d in differences)) / (len(counts) - 1)
    half = (found.difference_interval.high - found.difference_interval.low) / 2
    assert half == pytest.approx(t_quantile(0.975, 18) * jack, rel=1e-9)


def test_arms_exchanged_turn_everything_round():
    counts = drawn(1, 24, 1, 5)
    turned = [(b, a) for a, b in counts]
    for model in (gee, conditional_logit):
        one, other = model(counts), model(turned)
        assert one.odds_ratio == pytest.approx(1 / other.odds_ratio, rel=1e-9)
        assert one.odds_interval.low == pytest.approx(1 / other.odds_interval.high, rel=1e-9)
        assert one.p == pytest.approx(other.p, abs=1e-12)


def test_rows_are_counted():
    counts = drawn(1, 12, 1, 5)
    made = [
        (f"t{n}", arm, k < passed)
        for n, cells in enumerate(counts)
        for arm, (passed, of) in zip(("real", "sham"), cells, strict=True)
        for k in range(of)
    ]
    made += [("t1", "baseline", True), ("other", "baseline", False)]
    np.random.default_rng(0).shuffle(made)
    made = [(str(task), str(arm), passed in (True, "True")) for task, arm, passed in made]
    assert sensitivity(made, "real", "sham") == (gee(counts), conditional_logit(counts))


# -- what is not available is None, and says why ---------------------------------------------------------------------------------


def unavailable(found):
    return found.odds_ratio, found.odds_interval, found.difference, found.difference_interval


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ([], "an arm has no attempts"),
        ([((1, 2), (0, 0))] * 20, "an arm has no attempts"),
        ([((1, 2), (0, 2)), ((0, 2), (1, 2))] * 3, f"6 tasks are too few for its variance: it needs {MIN_TASKS}"),
        ([((2, 2), (1, 2)), ((2, 2), (0, 2))] * 6, "every attempt of one arm passed"),
        ([((1, 2), (0, 2)), ((0, 2), (0, 2))] * 6, "no attempt of one arm passed"),
        ([((1, 2), (1, 2))] * 12, "no task differs from the others"),
        ([((1, 2), (1, 2)), *[((1, 2), (0, 0))] * 12], "all attempts of an arm are of one task"),
    ],
)
def test_gee_says_why_it_is_not_available(counts, why):
    found = gee(counts)
    assert found.why.startswith(why)
    assert unavailable(found) == (None,) * 4
    assert found.p is None


def test_conditional_logit_says_why_it_is_not_available():
    found = conditional_logit([((2, 2), (2, 2)), ((0, 2), (0, 1)), ((1, 2), (0, 0))])
    assert (found.tasks, found.p) == (0, None)
    assert found.why == "no task has attempts in both arms and both outcomes"
    for counts, side in (([((2, 2), (0, 2))] * 3, "for"), ([((0, 2), (2, 2))] * 3, "against")):
        found = conditional_logit(counts)
        assert unavailable(found) == (None,) * 4
        assert found.why.startswith(f"every difference within tasks that there could be is {side} the arm")
        assert found.p == pytest.approx(2 / 6**3)  # it needs no finite odds


@pytest.mark.parametrize("model", [gee, conditional_logit])
def test_impossible_counts_are_refused(model):
    for counts in ([((3, 2), (1, 2))], [((1, 2), (-1, 2))]):
        with pytest.raises(ValueError, match="impossible"):
            model(counts)
    with pytest.raises(ValueError, match="a level is between 0 and 1"):
        model([((1, 2), (1, 2))], 1.0)


def test_many_attempts_do_not_overflow():
    found = conditional_logit([((90, 100), (40, 100))] * 60)
    assert 10 < found.odds_ratio < 20
    assert found.odds_interval.low < found.odds_ratio < found.odds_interval.high
    assert 0 <= found.p < 1e-100


def test_both_take_milliseconds():
    counts = drawn(3, 87, 2, 4)
    assert min(timeit.repeat(lambda: gee(counts), number=1, repeat=5)) < 0.025
    assert min(timeit.repeat(lambda: conditional_logit(counts), number=1, repeat=5)) < 0.25


@pytest.mark.slow
def test_neither_finds_too_much_where_there_is_nothing():
    """Size at most 5 % (and two standard errors of counting), at any number of tasks at which it is available."""
    rng = np.random.default_rng(1)
    panels = 800
    for tasks, mean in product((MIN_TASKS, 14, 30), (0.65, 0.3)):
        found = [0, 0]
        for _ in range(panels):
            rates = rng.beta(3.5 * mean, 3.5 * (1 - mean), tasks)
            counts = [
                ((int(a), 2), (int(b), 2)) for a, b in zip(rng.binomial(2, rates), rng.binomial(2, rates), strict=True)
            ]
            for index, model in enumerate((gee, conditional_logit)):
                p = model(counts).p
                found[index] += p is not None and p <= 0.05
        for count in found:
            assert count / panels <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / panels), (tasks, mean, found)
