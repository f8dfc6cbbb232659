"""The inference of branch tests: points nested in tasks, by hand; exact permutation against enumeration; what is missing."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import pytest

from misstep.experiment.branch.analysis import ALL, analyse
from misstep.experiment.branch.points import Found, Point, Recorded
from misstep.experiment.branch.rebuild import Verified
from misstep.experiment.branch.records import Branched, counted

ARMS = ("real", "sham", "nothing")


def world(cells: dict[str, dict[str, dict[str, str]]], without: dict[str, int] | None = None, **options: Any) -> Any:
    """An analysis of {task: {point: {arm: outcomes}}}: '1' passed, '0' failed, 'x' an infrastructure fault."""
    found, records, verdicts = Found(), [], {}
    for task, points in cells.items():
        for name, arms in points.items():
            policy, scoped = options.get("policies", {}).get(name, "p"), name not in options.get("unscoped", ())
            found.attempts.append(Recorded(id=f"a-{name}", task=task, path="", eligible=("p",)))
            found.points.append(
                Point(id=name, attempt=f"a-{name}", task=task, policy=policy, misstep=policy, scoped=scoped)
            )
            grade = options.get("grades", {}).get(name, "exact")
            verdicts[name] = Verified(name, grade, "" if grade == "exact" else "the output differs: date")
            for arm, outcomes in arms.items():
                for number, outcome in enumerate(outcomes, 1):
                    common = {"point": name, "task": task, "policy": policy, "arm": arm, "number": number}
                    if outcome == "x":
                        records.append(Branched(**common, termination="invalid", fault="the model: busy"))
                    else:
                        end = "pass" if outcome == "1" else "fail"
                        records.append(Branched(**common, termination=end, passed=outcome == "1"))
    for task, number in (without or {}).items():
        found.attempts += [Recorded(id=f"w-{task}-{n}", task=task, path="", eligible=("p",)) for n in range(number)]
    return analyse(found, records, verdicts, arms=options.get("arms", ARMS), continuations=options.get("n", 0))


def test_a_task_is_the_mean_of_its_points_and_the_effect_that_of_tasks() -> None:
    made = world(
        {
            "one": {"p1": {"real": "1111", "sham": "0000"}, "p2": {"real": "1000", "sham": "1000"}},
            "two": {"p3": {"real": "1100", "sham": "0001"}},
        }
    )
    effect = made.effect("real", "sham")
    assert (effect.tasks, effect.points) == (2, 3)
    assert effect.at_point is not None
    # one: (1 + 0) / 2; two: 1/4
    assert effect.at_point.mean == pytest.approx((0.5 + 0.25) / 2)
    assert (effect.at_point.up, effect.at_point.down, effect.at_point.p) == (2, 0, 0.5)
    assert effect.at_point.low == 0.25 and effect.at_point.high == 0.5
    assert "2 changed tasks cannot reach" in effect.note
    assert made.effect("real", "nothing").at_point is None


def test_attempts_without_a_point_count_zero_on_the_whole() -> None:
    made = world(
        {"one": {"p1": {"real": "11", "sham": "00"}}, "two": {"p2": {"real": "10", "sham": "00"}}},
        {"one": 3, "three": 2},
    )
    effect = made.effect("real", "sham", "p")
    assert effect.per_attempt is not None
    # one: a quarter of 1; two: all of 1/2; three: nothing ever fires
    assert effect.per_attempt.tasks == 3 and effect.per_attempt.mean == pytest.approx((0.25 + 0.5 + 0.0) / 3)
    assert (effect.attempts, effect.without) == (7, 5)
    assert made.effect("real", "sham").per_attempt is None


def test_a_task_whose_points_are_all_lost_has_no_value() -> None:
    made = world(
        {"one": {"p1": {"real": "11", "sham": "00"}}, "two": {"p2": {"real": "", "sham": ""}}},
        grades={"p2": "different"},
    )
    effect = made.effect("real", "sham", "p")
    assert effect.per_attempt is not None and effect.per_attempt.tasks == 1
    assert made.lost == {"the output differs": 1}
    assert made.funnel["points"] == 2 and made.funnel["rebuilt"] == 1


@pytest.mark.parametrize("seed", range(6))
def test_the_permutation_within_points_is_exact(seed: int) -> None:
    dice = random.Random(seed)
    cells = {
        f"t{n}": {f"p{n}": {arm: "".join(dice.choice("01") for _ in range(3)) for arm in ("real", "sham")}}
        for n in range(3)
    }
    p = world(cells).effect("real", "sham").p_within
    values = [[int(o) for arm in ("real", "sham") for o in own[f"p{n}"][arm]] for n, own in enumerate(cells.values())]
    observed = sum(sum(v[:3]) - sum(v[3:]) for v in values)
    sums: dict[int, Fraction] = {0: Fraction(1)}
    for v in values:
        deals = list(itertools.combinations(range(6), 3))
        made: dict[int, Fraction] = {}
        for total, weight in sums.items():
            for deal in deals:
                moved = total + 2 * sum(v[i] for i in deal) - sum(v)
                made[moved] = made.get(moved, Fraction()) + weight / len(deals)
        sums = made
    less = sum(w for total, w in sums.items() if total <= observed)
    more = sum(w for total, w in sums.items() if total >= observed)
    assert p == pytest.approx(float(min(Fraction(1), 2 * min(less, more))), abs=1e-12)


def test_one_continuation_each_has_a_permutation_too() -> None:
    cells = {f"t{n}": {f"p{n}": {"real": "1", "sham": "0"}} for n in range(6)}
    effect = world(cells).effect("real", "sham")
    assert effect.p_within == pytest.approx(2 / 2**6) and effect.within is None


def test_missing_continuations_are_bounds_and_counted() -> None:
    made = world({"one": {"p1": {"real": "11x", "sham": "0x"}}}, n=4)
    effect = made.effect("real", "sham")
    assert effect.at_point is not None and effect.at_point.mean == 1.0
    # real: 2 of 2 seen, 2 missing; sham: 0 of 1 seen, 3 missing
    assert (effect.low_bound, effect.high_bound) == (2 / 4 - 3 / 4, 4 / 4 - 0 / 4)
    assert made.missing == 2 + 3 + 4 and made.faults == {"the model": 2}


def test_a_fair_end_without_a_verdict_counts_as_not_passed_and_a_fault_does_not() -> None:
    given = {"point": "p", "task": "t", "policy": "x", "arm": "real", "number": 1}
    fault = Branched(**given, termination="invalid", fault="f")
    second = Branched(**given, candidate=2, termination="timeout")
    assert counted([fault, second]) == {("p", "real", 1): second}
    assert counted([fault]) == {("p", "real", 1): None}


def test_always_real_is_real_in_scope_and_real_is_nothing_out_of_it() -> None:
    made = world(
        {
            "one": {"p1": {"real": "11", "sham": "00", "nothing": "00"}},
            "two": {"p2": {"always-real": "00", "nothing": "11"}},
        },
        arms=("real", "sham", "nothing", "always-real"),
        unscoped=("p2",),
    )
    # one: 1; two: real is silent there
    assert made.effect("real", "nothing").at_point.mean == pytest.approx((1 + 0) / 2)
    assert made.effect("nothing", "always-real").at_point.mean == pytest.approx((-1 + 1) / 2)
    assert made.missing == 0


def test_the_variance_is_split() -> None:
    made = world({"one": {"p1": {"real": "1100", "sham": "0000"}, "p2": {"real": "1111", "sham": "0000"}}})
    effect = made.effect("real", "sham")
    # p1: 2 * 2 / (16 * 3); p2: none
    assert effect.within == pytest.approx((4 / 48 + 0) / 2)
    assert effect.between == pytest.approx(0.125 - 4 / 96)


def test_every_policy_has_its_own_effect_and_holm_is_within_it() -> None:
    made = world(
        {
            "one": {
                "p1": {"real": "11", "sham": "00", "nothing": "00"},
                "p2": {"real": "00", "sham": "11", "nothing": "00"},
            }
        },
        policies={"p2": "q"},
    )
    assert [one.policy for one in made.effects] == [ALL] * 3 + ["p"] * 3 + ["q"] * 3
    assert made.effect("real", "sham", "q").at_point.mean == -1
    assert made.effects[0].p_holm is None and made.effects[1].p_holm is not None


def test_nothing_recorded_gives_nothing() -> None:
    made = world({})
    assert made.primary is not None and made.primary.at_point is None and made.primary.p_within is None
    assert made.plain()["schema"] == "misstep.branch.analysis"


def test_the_interval_covers_and_the_test_holds_its_size() -> None:
    """400 branch tests of 8 tasks with 2 points each, of the same tasks' effects: simulated, with a true effect of 0.2 or none."""
    dice = random.Random(11)
    covered = rejected = within = 0
    for _ in range(400):
        cells: dict[str, Any] = {}
        for task in range(8):
            cells[f"t{task}"] = {}
            for point in range(2):
                rate = dice.choice((0.1, 0.5, 0.7))
                sides = {
                    arm: "".join("01"[dice.random() < rate + up] for _ in range(4))
                    for arm, up in (("real", 0.2), ("sham", 0.0), ("nothing", 0.0))
                }
                cells[f"t{task}"][f"p{task}{point}"] = sides
        made = world(cells)
        effect, none = made.effect("real", "sham").at_point, made.effect("sham", "nothing")
        covered += effect.low <= 0.2 <= effect.high
        rejected += none.at_point.p <= 0.05
        within += none.p_within <= 0.05
    assert 0.85 <= covered / 400 <= 0.97  # eight tasks: a percentile interval is short of its level there
    assert rejected / 400 <= 0.075 and within / 400 <= 0.075
