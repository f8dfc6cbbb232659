"""What a panel will take, from given rates and from the past."""

import numpy as np
import pytest

from misstep.experiment import Attempt
from misstep.experiment.plan.cost import Estimate, cost, pass_rates, predict
from misstep.experiment.plan.design import Rates


def attempt(task: str, arm: str = "baseline", passed: bool | None = True, **more: object) -> Attempt:
    ended = {True: "pass", False: "fail", None: "timeout"}[passed]
    return Attempt(**{"task": task, "arm": arm, "termination": ended, "passed": passed, **more})  # type: ignore[arg-type]


def test_given_rates() -> None:
    found = cost({"a": 4, "b": 6}, Rates(usd_per_attempt=0.5, seconds_per_attempt=30), concurrency=3)
    assert (found.attempts, found.money) == (10, Estimate(5.0, source="given"))
    assert found.wall == Estimate(100.0, source="given")


def test_nothing_known_is_none() -> None:
    found = cost({"a": 4}, Rates())
    assert (found.money, found.work, found.wall) == (None, None, None)
    assert cost({"a": 4}, Rates(), [attempt("a")]).money is None


def test_given_comes_before_past() -> None:
    past = [attempt("a", cost_usd=1.0, seconds=10)]
    found = cost({"a": 4}, Rates(usd_per_attempt=0.5), past)
    assert found.money == Estimate(2.0, source="given")
    assert found.work is not None and found.work.total == 40


def test_a_slot_costs_what_all_its_candidates_cost() -> None:
    past = [
        attempt("a", cost_usd=1.0),
        attempt("a", replicate=2, candidate=1, termination="invalid", passed=None, cost_usd=0.5),
        attempt("a", replicate=2, candidate=2, cost_usd=2.5),
        attempt(
            "a", replicate=3, candidate=1, termination="invalid", passed=None
        ),  # not recorded: the slot is left out
        attempt("a", replicate=3, candidate=2, cost_usd=100.0),
    ]
    found = cost({"a": 10}, Rates(), past).money
    assert found is not None
    assert found.total == pytest.approx(20.0)
    assert found.source == "2 past attempts at 1 tasks, 1 of the 1 planned ones"
    assert found.low is None  # one task is no variation


def test_total_seconds_before_the_agents_own() -> None:
    found = cost({"a": 1}, Rates(), [attempt("a", seconds=5, total_seconds=8), attempt("a", replicate=2, seconds=6)])
    assert found.work is not None and found.work.total == 7


def test_a_planned_task_has_its_own_mean_and_another_that_of_all() -> None:
    past = {"a": [1.0, 3.0], "b": [10.0], "c": [4.0]}
    found = predict({"a": 10, "new": 2}, past)
    assert found is not None
    assert found.total == pytest.approx(10 * 2 + 2 * (2 + 10 + 4) / 3)
    assert found.low is not None and found.high is not None
    assert 0 <= found.low < found.total < found.high
    alone = predict({"a": 10}, past)
    assert alone is not None and alone.high is not None and found.high is not None
    assert alone.high - alone.total < found.high - found.total


def test_no_past() -> None:
    assert predict({"a": 1}, {}) is None
    assert predict({"a": 1}, {"a": []}) is None


@pytest.mark.parametrize("known", [True, False])
def test_the_interval_holds_the_total_as_often_as_it_says(known: bool) -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(600):
        means = rng.normal(10, 2, 40)
        past = {f"t{n}": list(rng.normal(mean, 1, 3)) for n, mean in enumerate(means[:20])}
        planned = {f"t{n}": 8 for n in (range(20) if known else range(20, 40))}
        total = sum(rng.normal(means[int(task[1:])], 1, 8).sum() for task in planned)
        found = predict(planned, past)
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= total <= found.high
    assert 0.93 <= held / 600 <= 0.97


def test_pass_rates_of_these_tasks_in_order() -> None:
    past = [attempt("a"), attempt("a", passed=False, replicate=2), attempt("b", passed=False), attempt("c")]
    past += [attempt("a", "real", passed=True), attempt("a", "real", passed=True, replicate=2)]
    found, source = pass_rates(past, ["b", "a"], ("sham", "baseline"))
    assert found == [(0 + 0.5) / 2, (1 + 0.5) / 3]
    assert source == "past rates of these tasks (arm baseline)"


def test_pass_rates_of_other_tasks() -> None:
    found, source = pass_rates([attempt("a"), attempt("b", passed=False)], ["new"], ("sham", "baseline"))
    assert (found, source) == ([0.75, 0.25], "past rates of 2 tasks (arm baseline)")
    found, source = pass_rates([attempt("a", "x"), attempt("a", "y", passed=False)], ["a"], ("sham",))
    assert (found, source) == ([0.5], "past rates of these tasks (all arms together)")


def test_faults_say_nothing_and_timeouts_are_failures() -> None:
    past = [attempt("a", passed=None), attempt("b", passed=None, termination="invalid")]
    assert pass_rates(past, ["a"], ())[0] == [0.25]
    assert pass_rates(past[1:], ["b"], ()) == ([], "the past has no observed attempt")


def test_no_planned_tasks_is_all_past_ones() -> None:
    assert pass_rates([attempt("a")], (), ()) == ([0.75], "past rates of 1 tasks (all arms together)")
