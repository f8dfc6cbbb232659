"""Associations of a misstep with outcomes, unequal attempts, and what a panel cannot say."""

from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from misstep.stats import association, attainable_note, attainable_p, compare, from_transitions, sign_flip_p

outcomes = st.lists(st.booleans(), min_size=1, max_size=3)


def rate(values):
    return Fraction(sum(values), len(values))


@given(st.lists(st.tuples(outcomes, outcomes), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_within_task_permutation_counts_every_deal(tasks):
    result = association(tasks)
    observed = sum(rate(w) - rate(o) for w, o in tasks)
    deals = [[(p[: len(w)], p[len(w) :]) for p in permutations([*w, *o])] for w, o in tasks]
    sums = [sum(rate(w) - rate(o) for w, o in choice) for choice in _thinned(deals)]
    below, above = sum(s <= observed for s in sums) / len(sums), sum(s >= observed for s in sums) / len(sums)
    assert result.p_within == pytest.approx(min(1.0, 2 * min(below, above)), abs=1e-12)
    assert result.effect.mean == pytest.approx(float(observed) / len(tasks))
    assert result.effect.p == sign_flip_p([rate(w) - rate(o) for w, o in tasks])


def _thinned(deals):
    # A deal counts only by how many passes land on either side: permutations within a side repeat it equally often.
    distinct = []
    for task in deals:
        seen = {}
        for w, o in task:
            key = (tuple(sorted(w)), tuple(sorted(o)))
            seen[key] = seen.get(key, 0) + 1
        least = min(seen.values())
        if any(count % least for count in seen.values()):
            least = 1
        distinct.append([deal for deal, count in seen.items() for _ in range(count // least)])
    return product(*distinct)


def test_tasks_that_do_not_contribute_are_counted_not_dropped():
    result = association(
        [
            ([False, None], [True, True]),
            ([False], []),
            ([], [True]),
            ([None], [None]),
            ([None], [True]),
            ([False, False], [True, False]),
        ]
    )
    assert (result.both, result.only_with, result.only_without, result.unknown) == (2, 1, 2, 4)
    assert result.effect.mean == pytest.approx((-1 - 0.5) / 2)
    assert (result.effect.up, result.effect.down) == (0, 2)


def test_no_task_has_both():
    result = association([([True], []), ([], [False])])
    assert result.effect is None
    assert result.p_within is None
    assert (result.only_with, result.only_without) == (1, 1)
    assert association([]).both == 0


def test_tasks_without_any_variation_give_no_evidence():
    result = association([([True], [True, True]), ([False], [False])])
    assert (result.effect.p, result.p_within, result.effect.mean) == (1.0, 1.0, 0.0)


def test_one_attempt_a_side_agrees_with_the_sign_flip():
    tasks = [([False], [True])] * 7 + [([True], [False])] * 1 + [([True], [True])] * 4
    result = association(tasks)
    assert result.effect.p == result.p_within == 2 * 9 / 2**8


def test_many_unequal_attempts_are_handled():
    tasks = [([i % 3 == 0] * (1 + i % 9), [i % 2 == 0, True, False] * (1 + i % 5)) for i in range(150)]
    result = association(tasks)
    mean = sum(rate(w) - rate(o) for w, o in tasks) / 150
    assert result.effect.mean == pytest.approx(float(mean))
    assert result.effect.interval.low <= mean <= result.effect.interval.high
    assert 0 < result.effect.p <= 1
    assert result.effect.interval.slack < 1e-3


def test_outcomes_are_three_valued():
    with pytest.raises(ValueError, match=r"True, False or None, not 0\.5"):
        association([([0.5], [True])])


def test_six_changed_tasks_are_needed():
    assert [attainable_p(k) for k in (0, 1, 4, 5, 6)] == [1.0, 1.0, 0.125, 0.0625, 0.03125]
    assert attainable_p(5000) == 0.0
    assert attainable_note(6) is None
    assert (
        attainable_note(5)
        == "5 changed tasks cannot reach p = 0.05 in a sign-flip test: the smallest possible p is 0.0625."
    )
    assert attainable_note(1).startswith("1 changed task cannot reach")
    assert attainable_note(0) == "No task changed, so a sign-flip test cannot reach p = 0.05."
    assert attainable_note(6, 0.01) is not None
    with pytest.raises(ValueError, match="-1"):
        attainable_p(-1)


@pytest.mark.parametrize(
    ("baseline", "other", "message"),
    [
        ([(1, 2)], [], "pair them first"),
        ([(3, 2)], [(1, 2)], "3 of 2"),
        ([(0, 0)], [(1, 2)], "0 of 0"),
        ([], [], "no tasks"),
    ],
)
def test_impossible_counts(baseline, other, message):
    with pytest.raises(ValueError, match=message):
        compare(baseline, other)


def test_unequal_attempts_of_two_conditions():
    suite = compare([(1, 2), (0, 3), (2, 2)], [(3, 3), (1, 2), (2, 5)])
    differences = [Fraction(1, 2), Fraction(1, 2), Fraction(-3, 5)]
    assert suite.effect.mean == pytest.approx(float(sum(differences) / 3))
    assert suite.effect.p == sign_flip_p(differences)
    assert len(suite.pass_at) == 2


@pytest.mark.parametrize("matrix", [[], [[1]], [[1, 2], [3]], [[1, -1], [0, 0]]])
def test_transition_table_shape(matrix):
    with pytest.raises(ValueError, match="square"):
        from_transitions(matrix)
