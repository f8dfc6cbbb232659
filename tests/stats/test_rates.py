"""Proportions, agreement, power and monitoring."""

import random
from math import comb

import pytest

from misstep.stats import (
    Monitor,
    TooLargeError,
    clopper_pearson,
    cohen_kappa,
    past_rates,
    power,
    tasks_needed,
    wilson,
    wilson_clustered,
)


@pytest.mark.parametrize(("passed", "total"), [(1, 10), (9, 10), (27, 30), (60, 80)])
def test_clopper_pearson_ends_are_the_rates_with_that_tail(passed, total):
    def tail(rate, counts):
        return sum(comb(total, c) * rate**c * (1 - rate) ** (total - c) for c in counts)

    low, high, *_ = clopper_pearson(passed, total)
    assert tail(low, range(passed, total + 1)) == pytest.approx(0.025, rel=1e-9)
    assert tail(high, range(passed + 1)) == pytest.approx(0.025, rel=1e-9)
    inner = wilson(passed, total)
    assert low < inner.low < passed / total < inner.high < high


def test_no_trials_is_not_available():
    assert wilson(0, 0) is clopper_pearson(0, 0) is None
    for bad in ((2, 1), (-1, 3)):
        with pytest.raises(ValueError, match="not a proportion"):
            wilson(*bad)


def test_kappa_of_a_worked_table():
    ratings = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15 + [(None, 1), (0, None)]
    result = cohen_kappa(ratings)
    assert (result.items, result.dropped) == (50, 2)
    assert (result.observed, result.chance) == pytest.approx((0.7, 0.5))
    assert result.kappa == pytest.approx(0.4)
    assert result.interval.low < 0.4 < result.interval.high


def test_kappa_of_perfect_agreement_keeps_an_interval():
    result = cohen_kappa([("a", "a")] * 10 + [("b", "b")] * 10)
    assert result.kappa == result.interval.high == 1.0
    assert 0.5 < result.interval.low < 0.8
    assert cohen_kappa([("a", "a")] * 9).kappa is None
    assert cohen_kappa([]).kappa is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cells", "total"), [((0.4, 0.1, 0.1, 0.4), 30), ((0.8, 0.05, 0.05, 0.1), 50), ((0.45, 0.02, 0.03, 0.5), 30)]
)
def test_kappa_interval_covers(cells, total):
    rng = random.Random(1)
    both, first, second, neither = cells
    chance = (both + first) * (both + second) + (neither + first) * (neither + second)
    truth = (both + neither - chance) / (1 - chance)
    covered = 0
    for _ in range(3000):
        sample = rng.choices([(1, 1), (1, 0), (0, 1), (0, 0)], cells, k=total)
        interval = cohen_kappa(sample).interval
        covered += interval is not None and interval.low <= truth <= interval.high
    assert 0.925 <= covered / 3000 <= 0.985


@pytest.mark.parametrize(
    ("effect", "tasks", "attempts", "published"),
    [(0.21, 14, 2, 0.29), (0.21, 30, 2, 0.77), (0.21, 87, 1, 0.93), (0.08, 87, 3, 0.55)],
)
def test_power_of_the_reference_designs(effect, tasks, attempts, published):
    result = power(effect, tasks, attempts)
    assert result.power == pytest.approx(published, abs=0.03)
    assert 0 < result.error < 0.009
    assert power(effect, tasks, attempts) == result  # seeded


def test_power_without_an_effect_is_at_most_the_level():
    for tasks, attempts in ((8, 2), (30, 1), (60, 3)):
        result = power(0.0, tasks, attempts)
        assert result.power <= 0.05 + 3 * 0.0035


def test_power_from_past_rates():
    assert past_rates([(0, 2), (2, 2), (1, 2)]) == pytest.approx([1 / 6, 5 / 6, 1 / 2])
    rates = past_rates([(i % 3, 2) for i in range(30)])
    few, many = power(0.2, 30, 1, rates), power(0.2, 30, 4, rates)
    assert few.power < many.power
    assert power(0.2, 15, 2, rates).power < power(0.2, 60, 2, rates).power
    assert power(0.2, 5, 3, rates).power == 0.0  # five tasks cannot reach 0.05
    with pytest.raises(ValueError, match="no room"):
        power(0.5, 10, 2, [0.9] * 10)
    with pytest.raises(ValueError, match="between 0 and 1"):
        power(0.1, 10, 2, [1.5])
    with pytest.raises(ValueError, match="at least 1"):
        power(0.1, 0, 2)


def test_monitor_keeps_its_error_rate_however_often_one_looks():
    rng = random.Random(0)
    alarms = 0
    for _ in range(2000):
        monitor = Monitor()
        for _ in range(60):
            monitor.update(rng.choice((-1, -0.5, 0, 0, 0.5, 1)))
        alarms += monitor.p <= 0.05
    assert alarms / 2000 <= 0.05


def test_monitor_finds_an_effect_in_either_direction():
    for sign in (1, -1):
        monitor, rng = Monitor(), random.Random(4)
        for _ in range(87):
            monitor.update(sign * rng.choices((-0.5, 0, 0.5, 1), (1, 5, 3, 2))[0])
        assert monitor.p < 0.01
        assert monitor.tasks == 87
        assert monitor.p <= 1 / monitor.evidence


def test_monitor_starts_at_one_and_never_takes_back():
    monitor = Monitor()
    assert (monitor.evidence, monitor.p) == (1.0, 1.0)
    least = 1.0
    for difference in (1, 1, 1, -1, -1, 0, 0.5):
        monitor.update(difference)
        assert monitor.p <= least
        least = monitor.p
    for bad in (1.5, float("nan")):
        with pytest.raises(ValueError, match="between -1 and 1"):
            monitor.update(bad)


class TestWilsonClustered:
    def test_clusters_of_one_are_wilsons(self):
        counts = [(1, 1)] * 30 + [(0, 1)] * 70
        one, other = wilson_clustered(counts), wilson(30, 100)
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.002)
        assert one.low <= other.low  # (n - 1 in the variance between clusters)

    def test_clusters_that_are_of_one_kind_count_once(self):
        assert wilson_clustered([(10, 10)] * 3 + [(0, 10)] * 7)[:2] == pytest.approx(wilson(3, 10)[:2], abs=0.03)

    def test_all_or_none_is_known_from_the_clusters_alone(self):
        assert wilson_clustered([(0, 50)] * 4) == wilson(0, 4)
        assert wilson_clustered([(50, 50)] * 4) == wilson(4, 4)

    def test_what_is_not_there(self):
        assert wilson_clustered([]) is wilson_clustered([(0, 0)]) is None
        assert wilson_clustered([(3, 10)])[:2] == pytest.approx((0.0, 1.0), abs=0.2)
        with pytest.raises(ValueError, match="not a proportion"):
            wilson_clustered([(2, 1)])

    def test_its_coverage_where_clusters_differ(self):
        # 40 clusters of 1 to 15 steps, whose rates are spread as a beta law's of mean 0.2: plain Wilson misses too often.
        dice, hits, plain = random.Random(3), 0, 0
        for _ in range(600):
            counts = []
            for _ in range(40):
                n, rate = dice.randint(1, 15), dice.betavariate(0.5, 2)
                counts.append((sum(dice.random() < rate for _ in range(n)), n))
            low, high, *_ = wilson_clustered(counts)
            hits += low < 0.2 < high
            low, high, *_ = wilson(sum(k for k, _ in counts), sum(n for _, n in counts))
            plain += low < 0.2 < high
        assert plain / 600 < 0.85
        assert hits / 600 > 0.92


def test_a_power_beyond_what_can_be_computed_is_refused_and_not_begun():
    with pytest.raises(TooLargeError, match="100,000 tasks x 1,000 attempts is too large"):
        power(0.21, 100_000, 1000)
    assert tasks_needed(0.2, 1000) is None  # seven tasks at most can be computed
    assert power(0.21, 20, 100, panels=50).power > 0.9  # and takes little memory
