"""The engines against enumeration of every outcome, and against one another."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from misstep.stats import TooLargeError, attainable_p, exact, interaction, mean_interval, paired_effect, sign_flip_p
from misstep.stats.exact import SumLaw, difference_quantile, integers, subset_tails, sum_tails

# A busy machine is not a failure.
relaxed = settings(deadline=None, max_examples=80)
small = st.lists(st.integers(-4, 4), min_size=1, max_size=7)
differences = st.lists(st.integers(-3, 3), min_size=1, max_size=40)


@relaxed
@given(small)
def test_sign_flip_counts_every_pattern(values):
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))
    ]
    assert sign_flip_p(values) == sum(s >= abs(sum(values)) for s in sums) / len(sums)


@relaxed
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=5), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_interval_counts_every_draw(values, level):
    counts = Counter(map(sum, product(values, repeat=len(values))))
    tail = Fraction(str(level))
    ends = []
    for target in ((1 - tail) / 2, (1 + tail) / 2):
        seen = 0
        for total in sorted(counts):
            seen += counts[total]
            if Fraction(seen, len(values) ** len(values)) >= target:
                ends.append(total / len(values))
                break
    assert mean_interval(values, level=level)[:2] == pytest.approx(ends, abs=1e-12)


@relaxed
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=5), st.lists(st.integers(-4, 4), min_size=1, max_size=5))
def test_interaction_counts_every_split(a, b):
    def difference(chosen, rest):
        return Fraction(sum(chosen), len(chosen)) - Fraction(sum(rest), len(rest))

    every, observed = [*a, *b], abs(difference(a, b))
    splits = list(combinations(range(len(every)), len(a)))
    hits = sum(
        abs(difference([every[i] for i in s], [every[i] for i in range(len(every)) if i not in s])) >= observed
        for s in splits
    )
    assert interaction(a, b).p == pytest.approx(hits / len(splits), abs=1e-12)


@relaxed
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=4),
    st.lists(st.integers(-3, 3), min_size=1, max_size=4),
    st.sampled_from([(1, 40), (1, 4), (1, 2), (39, 40)]),
)
def test_difference_of_cohorts_counts_every_pair_of_draws(a, b, target):
    scale_a, scale_b = len(b), len(a)
    counts = Counter(
        scale_a * sum(x) - scale_b * sum(y) for x in product(a, repeat=len(a)) for y in product(b, repeat=len(b))
    )
    seen, wanted = 0, Fraction(*target) * sum(counts.values())
    for total in sorted(counts):
        seen += counts[total]
        if seen >= wanted:
            break
    assert difference_quantile(SumLaw(a), SumLaw(b), scale_a, scale_b, *target) == total


@relaxed
@given(differences, st.randoms(use_true_random=False), st.integers(1, 9))
def test_order_scale_and_sign_do_not_matter(values, random, scale):
    shuffled = random.sample(values, len(values))
    effect = paired_effect(values)
    assert paired_effect(shuffled) == effect
    mirrored = paired_effect([-v for v in values])
    assert mirrored.p == effect.p
    assert (mirrored.up, mirrored.down, mirrored.mean) == (effect.down, effect.up, -effect.mean)
    scaled = paired_effect([Fraction(v, scale) for v in values])
    assert scaled.p == effect.p
    assert scaled.interval[:2] == pytest.approx([end / scale for end in effect.interval[:2]])


@relaxed
@given(differences)
def test_p_and_interval_stay_in_their_bounds(values):
    effect = paired_effect(values)
    assert attainable_p(effect.changed) <= effect.p <= 1.0
    assert min(values) <= effect.interval.low <= effect.interval.high <= max(values)
    assert sign_flip_p([*values, 0, 0]) == effect.p  # unchanged tasks carry nothing
    wider = mean_interval(values, level=0.99)
    assert wider.low <= effect.interval.low
    assert effect.interval.high <= wider.high


@relaxed
@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.data())
def test_turning_a_task_round_never_lowers_p(values, data):
    index = data.draw(st.integers(0, len(values) - 1))
    turned = [-v if i == index else v for i, v in enumerate(values)]
    assert sign_flip_p(turned) >= sign_flip_p(values) == attainable_p(len(values))


@relaxed
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=3), min_size=1, max_size=6)
)
def test_engines_agree(terms):
    low, high = (sum(pick(v for v, _ in t) for t in terms) for pick in (min, max))
    for point in range(low, high + 1):
        packed = exact._tails_packed(terms, point, low, high)
        assert exact._tails_halves(terms, point) == packed
        less, more = exact._tails_float(terms, low, high)
        assert (less[point - low], more[point - low]) == pytest.approx(packed, abs=1e-13)
    assert sum_tails(terms, low - 1) == (0.0, 1.0)
    assert sum_tails(terms, high + 1) == (1.0, 0.0)


def test_large_sums_use_float64_and_agree(monkeypatch):
    values = [(7 * i) % 11 - 4 for i in range(90)]
    other = [(5 * i) % 7 - 3 for i in range(70)]
    want = paired_effect(values), interaction(values, other)
    monkeypatch.setattr(exact, "_INTEGER_WORK", 0)
    got = paired_effect(values), interaction(values, other)
    assert not SumLaw(values).exact
    assert got[0].p == pytest.approx(want[0].p, rel=1e-12)
    assert got[1].p == pytest.approx(want[1].p, rel=1e-12)
    assert got[0].interval == want[0].interval
    assert got[1].interval == want[1].interval


def test_too_fine_a_lattice_is_bounded_never_anticonservative(monkeypatch):
    values = [Fraction((37 * i) % 101 - 40, 100 + i) for i in range(34)]
    scaled, common = integers(values)
    assert common > 10**20
    # 34 changed tasks: 2^17 outcomes a half, still listable here as the reference.
    want = (
        2
        * exact._tails_halves([[(0, 1), (abs(v), 1)] for v in scaled], (sum(map(abs, scaled)) + abs(sum(scaled))) // 2)[
            1
        ]
    )
    got = paired_effect(values)
    assert want <= got.p <= want * 1.01
    low, high, _, slack = got.interval
    assert 0 < slack < 2e-4
    monkeypatch.setattr(exact, "_POINTS", 1 << 23)
    finer = mean_interval(values)
    assert finer.slack < slack
    assert low <= finer.low + finer.slack
    assert finer.high - finer.slack <= high
    assert (low, high) == pytest.approx(finer[:2], abs=slack + finer.slack)


def test_few_tasks_on_any_lattice_are_exact():
    values = [Fraction(1, 10**9 + i) for i in range(20)]
    assert sign_flip_p(values) == 2 / 2**20


def test_what_cannot_be_held_is_refused():
    fine = [Fraction(i, 10_007 + i) for i in range(1, 50)]
    with pytest.raises(TooLargeError):
        interaction(fine, fine)


def test_thousands_of_tasks():
    values = [1] * 900 + [-1] * 780 + [2] * 300 + [-2] * 260 + [0] * 2760
    effect = paired_effect(values, over=5)
    deviation = math.sqrt(900 + 780 + 4 * 560)
    z = (sum(values) - 1) / deviation  # possible sums are 2 apart
    assert effect.p == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.01)
    half = 1.96 * math.sqrt(deviation**2 / 5000 - (sum(values) / 5000) ** 2) / math.sqrt(5000) / 5
    assert (effect.interval.high - effect.interval.low) / 2 == pytest.approx(half, rel=0.01)


def test_values_are_put_on_a_lattice():
    assert integers([1, -2, 0]) == ([1, -2, 0], 1)
    assert integers([0.5, -1, True]) == ([1, -2, 2], 2)
    scaled, common = integers([1 / 3, 0.25, Fraction(1, 7)])
    assert [Fraction(s, common) for s in scaled] == [Fraction(1, 3), Fraction(1, 4), Fraction(1, 7)]
    assert integers([1.0, 2], over=5) == ([1, 2], 5)
    assert integers([Fraction(1, 2521), Fraction(1, 2)]) == ([2, 2521], 5042)


@pytest.mark.parametrize(
    ("values", "over", "message"),
    [
        ([0.5, math.pi / 4], None, r"value 1 is 0\.785.*not a multiple of 1/d for any d <= 2520"),
        ([1, 0.5], 2, r"value 1 is 0\.5: with a denominator given, values are whole numerators"),
        ([Fraction(1, 3)], 2, "value 0 is Fraction"),
        ([float("nan")], None, "value 0 is nan: expected a finite number"),
        (["1"], None, "value 0 is '1': expected a finite number"),
        ([None], None, "value 0 is None: expected a finite number"),
        ([1], 0, "positive integer"),
    ],
)
def test_what_is_no_multiple_is_refused_in_one_line(values, over, message):
    with pytest.raises(ValueError, match=message) as caught:
        sign_flip_p(values, over)
    assert "\n" not in str(caught.value)


def test_numpy_numbers_are_taken():
    numpy = pytest.importorskip("numpy")
    assert sign_flip_p(numpy.array([0.5, 0.5, 1.0])) == 0.25
    assert sign_flip_p(numpy.array([1, 1, 2])) == 0.25


def test_nothing_to_say_about_nothing():
    assert sign_flip_p([]) == sign_flip_p([0, 0]) == 1.0
    for call in (lambda: paired_effect([]), lambda: mean_interval([]), lambda: interaction([], [1])):
        with pytest.raises(ValueError, match=r"task|values"):
            call()
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="between 0 and 1"):
            mean_interval([1], level=level)


def test_subset_tails_at_the_ends():
    assert subset_tails([0, 0, 1], 1, -1, 2) == (0.0, 0.0)
    assert subset_tails([0, 0, 1], 1, 5, -5) == (1.0, 1.0)
    assert subset_tails([0, 0, 1], 1, 0, 1) == pytest.approx((2 / 3, 1 / 3))
