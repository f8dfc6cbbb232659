"""scipy is the oracle: it samples or enumerates what this package computes."""

import numpy as np
import pytest

from misstep.stats import clopper_pearson, holm, interaction, mean_interval, paired_effect, sign_flip_p, wilson
from misstep.stats.planning import batch_sign_flip_p

scipy_stats = pytest.importorskip("scipy.stats")


def mean(x, axis):
    return np.mean(x, axis=axis)


@pytest.mark.parametrize("seed", range(6))
def test_sign_flip_is_scipys_with_all_patterns(seed):
    values = np.random.default_rng(seed).integers(-2, 3, 11)
    result = scipy_stats.permutation_test(
        (values,), mean, permutation_type="samples", n_resamples=2**11, vectorized=True
    )
    assert sign_flip_p(values) == pytest.approx(result.pvalue, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_interval_is_scipys_percentile_bootstrap(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, 60) / 2
    result = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=rng, confidence_level=0.9
    )
    interval = mean_interval(values, level=0.9)
    # Monte Carlo error of a 5 % quantile at 20,000 draws is 0.15 % of probability: at most one lattice step here.
    assert interval[:2] == pytest.approx(tuple(result.confidence_interval), abs=1.01 * 0.5 / 60)


@pytest.mark.parametrize("seed", range(3))
def test_interaction_is_scipys_permutation_of_the_absolute_difference(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-1, 3, 5), rng.integers(-2, 2, 7)

    def statistic(x, y, axis):
        return np.abs(np.mean(x, axis=axis) - np.mean(y, axis=axis))

    result = scipy_stats.permutation_test((a, b), statistic, n_resamples=np.inf, alternative="greater", vectorized=True)
    assert interaction(a, b).p == pytest.approx(result.pvalue, abs=1e-12)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("passed", "total"), [(0, 7), (7, 7), (3, 30), (29, 30), (1, 1), (450, 1000), (3, 100_000)])
def test_proportions(passed, total, level):
    result = scipy_stats.binomtest(passed, total)
    for method, ours in (("exact", clopper_pearson), ("wilson", wilson)):
        interval = ours(passed, total, level)
        assert interval[:2] == pytest.approx(tuple(result.proportion_ci(level, method)), abs=1e-9)


def test_batched_p_is_the_single_one():
    panels = np.random.default_rng(5).integers(-3, 4, (200, 23))
    single = [sign_flip_p(row.tolist()) for row in panels]
    assert batch_sign_flip_p(panels, 3) == pytest.approx(np.array(single), abs=1e-12)


def test_one_attempt_a_task_is_the_sign_test():
    effect = paired_effect([1] * 9 + [-1] * 2 + [0] * 5)
    assert effect.p == pytest.approx(scipy_stats.binomtest(9, 11).pvalue, abs=1e-15)


def test_holm_rejects_what_stepping_down_rejects():
    ps = [0.01, 0.04, 0.03, 0.005]
    assert holm(ps) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.03, None, 0.01]) == pytest.approx([0.06, None, 0.03])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([1.2])
