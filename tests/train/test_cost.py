"""What a run costs, against published figures and by hand."""

import pytest

from misstep.train.cost import TMAX_4B, Bill, Plan, Prices, Tokens, bill, share, up_to


def test_tmax_4b_from_its_settings() -> None:
    assert round(TMAX_4B.rollouts / 1000, 1) == 75.9
    assert round(TMAX_4B.environments, -1) == 2370


def test_a_plan_without_dropped_groups() -> None:
    plan = Plan(steps=3, prompts=4, group=5)
    assert (plan.rollouts, plan.environments) == (60, 12)


@pytest.mark.parametrize(("steps", "dropped"), [(0, 0.0), (1, 1.0), (1, -0.1)])
def test_impossible_plans(steps: int, dropped: float) -> None:
    with pytest.raises(ValueError, match="at least"):
        Plan(steps, 1, 1, dropped)


def test_prices_by_hand() -> None:
    tokens = Tokens(uncached=2_000_000, cached=10_000_000, output=1_000_000, trained=500_000)
    assert Prices(1.0, 0.1, 4.0, 2.0).of(tokens) == pytest.approx(2 + 1 + 4 + 1)
    assert Prices(1.0, 0.1, 4.0).of(tokens) is None
    assert Prices(1.0, 0.1, 4.0).of(Tokens(output=1_000_000)) == 4.0


def test_a_bill_has_what_came_before_and_nothing_that_is_not_known() -> None:
    prices = Prices(1.0, 0.1, 4.0, 2.0)
    profiling = bill(100, Tokens(uncached=1_000_000), prices, gpu_hours=2.0)
    training = bill(1000, Tokens(output=1_000_000, trained=1_000_000), prices, gpu_hours=8.0)
    whole = up_to([profiling, training])
    assert (whole.rollouts, whole.gpu_hours, whole.usd) == (1100, 10.0, 7.0)
    assert whole.tokens == Tokens(uncached=1_000_000, output=1_000_000, trained=1_000_000)
    assert up_to([whole, bill(1, Tokens(output=1), Prices())]).usd is None
    assert up_to([whole, bill(1, Tokens(), prices)]).gpu_hours is None
    assert up_to([]) == Bill()


def test_rented_hours_are_not_charged_twice() -> None:
    prices = Prices(1.0, 0.1, 4.0, 2.0)
    assert bill(1, Tokens(output=1_000_000), prices, gpu_hours=3.0, usd_per_gpu_hour=2.5).usd == 7.5
    assert bill(1, Tokens(output=1_000_000), prices, usd_per_gpu_hour=2.5).usd is None


def test_shares() -> None:
    assert share(39.0, 100.0) == 0.39
    assert share(None, 100.0) is None
    assert share(1.0, 0.0) is None
