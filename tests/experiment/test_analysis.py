"""The rules of counting and what follows from them: on records whose numbers are worked out by hand, and on random ones."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path

import pytest

from misstep.experiment import Attempt, observed, write_attempts
from misstep.experiment.analysis import Analysis, Plan, PlanError, analyse
from misstep.experiment.analysis import numbers as numbers_
from misstep.experiment.plan.design import Agent, Contrast, Design, Primary, Replacement, Tasks
from misstep.experiment.records import read
from misstep.stats import paired_effect


def one(task: str, arm: str, replicate: int = 1, passed: bool | None = False, **more: object) -> Attempt:
    end = more.pop("termination", "pass" if passed else "fail")
    return Attempt(task=task, arm=arm, replicate=replicate, passed=passed, termination=end, **more)  # type: ignore[arg-type]


def cell(arm: str, counts: dict[str, tuple[int, int]], **more: object) -> list[Attempt]:
    return [one(task, arm, r + 1, r < p, **more) for task, (p, n) in counts.items() for r in range(n)]


def kinds(analysis: Analysis) -> list[str]:
    return [limit.kind for limit in analysis.limits]


def design(**more: object) -> Design:
    made = {
        "name": "d",
        "agent": Agent("codex"),
        "tasks": Tasks(path="t"),
        "arms": ("baseline", "real", "sham"),
        "primary": Primary(Contrast("real", "sham"), "eligible"),
        "secondary": (Contrast("real", "baseline"),),
        **more,
    }
    return Design(**made)  # type: ignore[arg-type]


# -- what counts ---------------------------------------------------------------------------------------------------------


def test_the_first_fair_candidate_counts_and_a_slot_without_one_is_missing() -> None:
    attempts = [
        one("t", "real", 1, None, termination="invalid", fault="no image"),
        one("t", "real", 1, True, candidate=2),
        one("t", "real", 1, False, candidate=3),
        one("t", "real", 2, None, termination="never-ran"),
        one("t", "baseline", 1, False),
        one("t", "baseline", 2, False),
    ]
    for order in (attempts, attempts[::-1]):
        found = analyse(order, primary=("real", "baseline"))
        real = found.cell("real")
        assert (real.passed, real.attempts, real.missing, real.rate) == (1, 1, 1, 1.0)
        assert (real.rate_all_fail, real.rate_all_pass) == (0.5, 1.0)
        assert [(m.task, m.arm, m.replicate, m.why) for m in found.missing] == [("t", "real", 2, "never-ran")]
        ends = next(t for t in found.terminations if t.arm == "real" and t.cohort == "all")
        assert (ends.replaced, dict(ends.missing)) == (1, {"never-ran": 1})
        assert "missing" in kinds(found) and "imbalance" in kinds(found)


def test_the_rule_is_that_of_observed() -> None:
    rng = random.Random(3)
    attempts = [
        one(
            f"t{t}",
            arm,
            r,
            rng.random() < 0.5,
            candidate=c,
            termination=rng.choice(["pass", "fail", "invalid", "never-ran"]),
        )
        for t in range(20)
        for arm in ("a", "b")
        for r in (1, 2)
        for c in range(1, rng.randint(1, 3) + 1)
    ]
    found = analyse(attempts, primary=("a", "b"))
    kept = observed(attempts)
    assert found.observed == sum(a is not None for a in kept.values())
    for at, arm in enumerate(one.arm for one in found.arms):
        for task in found.tasks:
            mine = [a for (t, name, _), a in kept.items() if a and (t, name) == (task.task, arm)]
            assert (task.passed[at], task.attempts[at]) == (sum(a.passed is True for a in mine), len(mine))


def test_a_fair_attempt_without_a_verdict_is_a_failure_and_a_pass_after_a_timeout_a_pass() -> None:
    attempts = [
        one("t", "a", 1, None, termination="timeout"),
        one("t", "a", 2, True, termination="timeout"),
        one("t", "b", 1, False),
        one("t", "b", 2, False),
    ]
    found = analyse(attempts, primary=("a", "b"))
    assert (found.cell("a").passed, found.cell("a").attempts) == (1, 2)
    assert {"passed-otherwise", "no-verdict"} <= set(kinds(found))


def test_two_records_of_one_candidate_and_slots_out_of_the_plan_are_told() -> None:
    attempts = [
        one("t", "a", 1, True, started="2026-01-02T00:00:00Z"),
        one("t", "a", 1, False, started="2026-01-01T00:00:00Z"),
        one("t", "b", 1, False),
        one("other", "a", 1, True),
    ]
    plan = Plan((("t", "a", 1), ("t", "b", 1)))
    for order in (attempts, attempts[::-1]):
        found = analyse(order, None, plan, primary=("a", "b"))
        assert [t.task for t in found.tasks] == ["t"]
        assert found.cell("a").passed == 0  # the first to start
        assert {"twice", "unplanned"} <= set(kinds(found))


def test_pass_at_k_needs_k_attempts_of_every_task() -> None:
    found = analyse(
        [*cell("a", {"t": (1, 3), "u": (2, 2)}), *cell("b", {"t": (0, 3), "u": (0, 2)})], primary=("a", "b")
    )
    ks = found.cell("a").ks
    assert [k.k for k in ks] == [1, 2, 3]
    assert ks[0].at == ks[0].hat == found.cell("a").rate
    assert ks[1].at == pytest.approx((1 - 1 / 3 + 1) / 2) and ks[1].hat == pytest.approx((0 + 1) / 2)
    assert ks[2].at is None and ks[2].why == "1 of 2 tasks has fewer than 3 observed attempts"


# -- contrasts -----------------------------------------------------------------------------------------------------------


def test_holm_is_over_the_secondary_contrasts_and_described_ones_are_outside() -> None:
    counts = {f"t{i}": (2, 2) for i in range(8)}
    worse = {task: (i % 3, 2) for i, task in enumerate(counts)}
    attempts = [
        *cell("real", counts, eligible=("p",)),
        *cell("sham", worse, eligible=("p",)),
        *cell("baseline", dict.fromkeys(counts, (0, 2)), eligible=("p",)),
        *cell("reconsider", worse, eligible=("p",)),
        *cell("real", {"s": (1, 2)}),
        *cell("sham", {"s": (1, 2)}),
        *cell("baseline", {"s": (0, 2)}),
        *cell("reconsider", {"s": (2, 2)}),
    ]
    found = analyse(attempts)
    assert [(c.name, c.cohort, c.role) for c in found.contrasts[:4]] == [
        ("real − sham", "eligible", "primary"),
        ("real − baseline", "eligible", "secondary"),
        ("real − reconsider", "eligible", "secondary"),
        ("real − sham", "silent", "described"),
    ]
    first, second = found.contrasts[1:3]
    assert first.effect is not None and second.effect is not None
    assert first.p_holm == min(1.0, 2 * first.effect.p) and first.effect.p == 2 / 2**8
    assert second.p_holm == second.effect.p
    assert found.contrasts[0].p_holm is None and found.contrasts[3].p_holm is None
    assert "primary-guessed" in kinds(found)


def test_bounds_hold_every_way_that_missing_attempts_could_have_ended() -> None:
    attempts = [
        *cell("a", {"t": (1, 2), "u": (2, 2)}),
        *cell("b", {"t": (1, 2), "u": (1, 1)}),
        one("u", "b", 2, None, termination="invalid"),
        one("t", "a", 3, None, termination="never-ran"),
    ]
    found = analyse(attempts, primary=("a", "b")).primary
    assert found is not None and found.missing == (1, 1)
    bounds = {b.case: b.mean for b in found.bounds}
    every = []
    for x, y in product((0, 1), repeat=2):
        every.append((Fraction(1 + x, 3) - Fraction(1, 2) + 1 - Fraction(1 + y, 2)) / 2)
    assert bounds["worst"] == pytest.approx(float(min(every)))
    assert bounds["best"] == pytest.approx(float(max(every)))
    assert bounds["all fail"] == pytest.approx(float(every[0])) and bounds["all pass"] == pytest.approx(float(every[3]))


def test_unequal_attempts_have_the_exact_p_within_and_a_note() -> None:
    found = analyse(
        [*cell("a", {"t": (3, 3), "u": (1, 2)}), *cell("b", {"t": (0, 2), "u": (1, 2)})], primary=("a", "b")
    )
    primary = found.primary
    assert primary is not None
    law: dict[Fraction, Fraction] = {}
    for x, y in product(range(1, 4), range(3)):  # of 3 passes in t, and 2 in u, so many fall to the arm
        ways = comb(3, x) * comb(2, 3 - x) * comb(2, y) * comb(2, 2 - y)
        value = Fraction(x, 3) - Fraction(3 - x, 2) + Fraction(y, 2) - Fraction(2 - y, 2)
        law[value] = law.get(value, Fraction(0)) + Fraction(ways, comb(5, 3) * comb(4, 2))
    seen = Fraction(1)
    tails = [sum(w for v, w in law.items() if keep(v)) for keep in (lambda v: v <= seen, lambda v: v >= seen)]
    assert primary.p_within == pytest.approx(float(min(1, 2 * min(tails))))
    assert "unequal-attempts" in kinds(found)
    equal = analyse([*cell("a", {"t": (2, 2)}), *cell("b", {"t": (0, 2)})], primary=("a", "b"))
    assert equal.primary is not None and equal.primary.p_within is None


def test_tasks_in_one_arm_only_are_named_and_in_the_bounds() -> None:
    found = analyse([*cell("a", {"t": (1, 1), "v": (1, 1)}), *cell("b", {"t": (0, 1)})], primary=("a", "b"))
    primary = found.primary
    assert primary is not None and primary.unpaired == ("v",) and primary.effect is not None
    assert primary.effect.tasks == 1
    assert any(limit.kind == "unpaired" and "v" in limit.text for limit in found.limits)


def test_placebo_are_tasks_where_nothing_fired_in_either_arm() -> None:
    attempts = [
        *cell("real", {"t": (2, 2)}, fired={"p": 1}),
        *cell("real", {"u": (1, 2), "v": (0, 2)}),
        *cell("baseline", {"t": (0, 2), "u": (2, 2), "v": (0, 2)}),
    ]
    (found,) = analyse(attempts, primary=("real", "baseline")).placebo
    assert found.untouched is not None and found.touched is not None
    assert (found.untouched.tasks, found.untouched.up, found.untouched.down) == (2, 0, 1)
    assert (found.touched.tasks, found.touched.mean) == (1, 1.0)


def test_arms_that_no_guard_tells_apart_have_no_placebo() -> None:
    attempts = [*cell("monday", {"t": (2, 2), "u": (1, 2)}), *cell("tuesday", {"t": (0, 2), "u": (2, 2)})]
    (found,) = analyse(attempts, primary=("tuesday", "monday")).placebo
    assert (found.untouched, found.touched) == (None, None)
    watched = [replace(a, extra={"guard": {"arms": [a.arm]}}) for a in attempts]
    (found,) = analyse(watched, primary=("tuesday", "monday")).placebo
    assert found.untouched is not None and found.untouched.tasks == 2 and found.touched is None


def test_leave_one_family_out() -> None:
    own, other = {"t": (2, 2), "u": (2, 2)}, {"v": (1, 2)}
    attempts = []
    for arm, worse in (("real", own), ("without:p", {"t": (0, 2), "u": (1, 2)})):
        attempts += cell(arm, worse, eligible=("p/one", "p/two"))
        attempts += cell(arm, other, eligible=("q",))
    (found,) = analyse(attempts, primary=("real", "without:p")).left_out
    assert (found.family, found.arm, found.against) == ("p", "real", "without:p")
    assert found.own is not None and (found.own.tasks, found.own.mean) == (2, 0.75)
    assert found.elsewhere is not None and (found.elsewhere.tasks, found.elsewhere.mean) == (1, 0.0)


def test_families_are_of_missteps_not_of_generic_nudges() -> None:
    attempts = [
        *cell("real", {"t": (1, 1)}, eligible=("p/one",), state=("p/one",), fired={"p/one": 2}, behaviour={"p": True}),
        *cell("always-verify", {"t": (0, 1)}, eligible=("p/one", "always-verify"), state=("p/one",), fired={"always-verify": 1}, behaviour={"p": None}),
        *cell("real", {"s": (1, 1)}),
        *cell("always-verify", {"s": (1, 1)}, eligible=("always-verify",), state=("always-verify",), fired={"always-verify": 1}),
    ]  # fmt: skip
    found = analyse(attempts, primary=("real", "always-verify"))
    assert [(t.task, t.cohort, t.families) for t in found.tasks] == [("s", "silent", ()), ("t", "eligible", ("p",))]
    (family,) = found.families
    assert family.family == "p" and family.tasks == ("t",)
    real, verify = family.arms
    assert (real.state, real.fired, real.interventions, real.behaviour, real.known) == (1, 1, 2, 1, 1)
    assert (verify.state, verify.fired, verify.known) == (1, 0, 0)
    whole = {(f.arm, f.cohort): f for f in found.funnel}
    assert (whole["always-verify", "all"].state, whole["always-verify", "all"].fired) == (1, 2)


def test_what_no_record_tells_is_unknown_not_false() -> None:
    attempts = [
        one("t", "real", 1, eligible=("p",), state=("p",), behaviour={"p": True}),
        one("t", "real", 2, eligible=("p",), behaviour={"p": None}, extra={"unrecorded": True}),
        *cell("baseline", {"t": (0, 2)}, eligible=("p",), behaviour={"p": False}),
    ]
    found = analyse(attempts, primary=("real", "baseline"))
    real = next(f for f in found.funnel if (f.arm, f.cohort) == ("real", "eligible"))
    assert (real.attempts, real.told, real.state, real.known, real.behaviour) == (2, 1, 1, 1, 1)
    stages = {s.stage: s.effect for s in found.stages}
    assert stages["state"] is not None and stages["state"].mean == 1.0
    assert stages["behaviour"] is not None and stages["behaviour"].mean == 1.0
    (family,) = found.families
    assert (family.arms[1].told, family.arms[1].state) == (1, 1)


def test_where_neither_steps_nor_a_guard_are_on_record_nothing_is_known_to_have_fired() -> None:
    attempts = [
        *cell("real", {"t": (2, 2)}, extra={"unrecorded": True}),
        one("u", "real", 1, extra={"unrecorded": True, "guard": {"arms": ["real"]}}),
        *cell("baseline", {"t": (0, 2), "u": (0, 1)}, extra={"unrecorded": True}),
    ]
    found = analyse(attempts, primary=("real", "baseline"))
    real, baseline = (
        next(f for f in found.funnel if (f.arm, f.cohort) == (arm, "all")) for arm in ("real", "baseline")
    )
    assert (real.attempts, real.fired, real.watched, baseline.watched) == (3, 0, 1, 0)
    assert {s.stage for s in found.stages if s.effect is None} == {"state", "fired", "behaviour"}


# -- the design and the plan ---------------------------------------------------------------------------------------------


def test_a_design_asks_and_a_plan_says_what_is_due() -> None:
    plan = Plan(
        tuple((task, arm, 1) for task in ("e", "s") for arm in ("real", "sham", "baseline")),
        {"e": "eligible", "s": "silent"},
        {"e": ("p",), "s": ()},
    )
    attempts = [one("e", "real", 1, True), one("e", "sham", 1), one("s", "real", 1, None, termination="invalid")]
    found = analyse(attempts, design(attempts=1), plan)
    assert [(c.name, c.cohort, c.role) for c in found.contrasts if c.role != "described"] == [
        ("real − sham", "eligible", "primary"),
        ("real − baseline", "eligible", "secondary"),
    ]
    assert (found.planned, found.observed, found.finished) == (6, 2, False)
    assert found.contrast("real", "baseline", "eligible").why
    assert found.contrast("real", "baseline", "eligible").p_holm is None
    assert {m.why for m in found.missing} == {"invalid", "not-run"}
    assert found.limits[0].kind == "unfinished"
    done = [one(t, a, 1, False) for t, a, _ in plan.slots]
    assert analyse(done, design(attempts=1), plan).finished
    # Exhausted slots are settled: nothing more will run.
    exhausted = [one("e", "real", 1, None, termination="invalid", candidate=c) for c in (1, 2)]
    rest = [a for a in done if a.slot != ("e", "real", 1)]
    assert analyse(rest + exhausted, design(attempts=1, replacement=Replacement("first-fair", 2)), plan).finished


def test_a_design_without_a_plan_is_due_for_every_task_seen() -> None:
    found = analyse([one("e", "real", 1, True, eligible=("p",))], design(attempts=2))
    assert (found.planned, found.observed) == (6, 1)
    assert [one.arm for one in found.arms] == ["baseline", "real", "sham"]


@pytest.mark.parametrize(
    ("primary", "cohort", "says"),
    [
        (("real", "nothing"), None, "no attempt of arm 'nothing': the arms are baseline, real"),
        (("real", "baseline"), "silent", "no task is in the cohort 'silent': the cohorts are all"),
    ],
)
def test_what_is_not_there_is_named(primary, cohort, says) -> None:
    with pytest.raises(PlanError, match=says):
        analyse([one("t", "real"), one("t", "baseline")], primary=primary, cohort=cohort)


def test_arms_of_which_nobody_asked_are_compared_with_the_first() -> None:
    attempts = [one("t", arm, 1, arm != "b") for arm in ("z", "b", "m")]
    found = analyse(attempts)
    assert [(c.name, c.role) for c in found.contrasts] == [("m − b", "secondary"), ("z − b", "secondary")]
    assert found.primary is None and "no-primary" in kinds(found) and found.sequential is None
    assert found.sentence == "No primary contrast was named: the tables describe the arms."
    two = analyse(attempts[:2])
    assert [(c.name, c.role) for c in two.contrasts] == [("z − b", "primary")]


def test_nothing_at_all() -> None:
    found = analyse([])
    assert found.contrasts == () and found.observed == 0
    json.dumps(found.plain(), allow_nan=False)


def test_the_look_while_it_runs_follows_the_schedule_and_stops_at_what_is_open() -> None:
    slots = tuple((f"t{i}", arm, 1) for i in range(6) for arm in ("real", "sham", "baseline"))
    plan = Plan(slots, {f"t{i}": "eligible" for i in range(6)})
    attempts = [one(task, arm, 1, arm == "real") for task, arm, _ in slots if task != "t3"]
    look = analyse(attempts, design(attempts=1), plan).sequential
    assert look is not None and look.pairs == 3  # t4 and t5 ran early: which ones do may depend on outcomes
    whole = [*attempts, *(one("t3", arm, 1, arm == "real") for arm in ("real", "sham", "baseline"))]
    done = analyse(whole, design(attempts=1), plan).sequential
    assert done is not None and done.pairs == 6 and done.evidence > look.evidence and done.p < look.p


# -- what it cannot say --------------------------------------------------------------------------------------------------


def test_arms_that_differ_in_more_than_their_policies() -> None:
    found = analyse([one("t", "a", model="x"), one("t", "b", model="y")], primary=("a", "b"))
    assert any(limit.kind == "unmatched-arms" and "a: x; b: y" in limit.text for limit in found.limits)
    mixed = analyse([one("t", "a", 1, model="x"), one("t", "a", 2, model="y"), one("t", "b")], primary=("a", "b"))
    assert any(
        limit.kind == "mixed-arm" and limit.text.endswith(": a; --model NAME takes one.") for limit in mixed.limits
    )


def test_one_task_that_carries_the_effect_is_named() -> None:
    a = {f"t{i}": (1, 2) for i in range(5)} | {"big": (2, 2)}
    b = {f"t{i}": (1, 2) for i in range(5)} | {"big": (0, 2)}
    found = analyse([*cell("a", a), *cell("b", b)], primary=("a", "b"))
    assert any(limit.kind == "one-task" and "without big it is 0.0 points" in limit.text for limit in found.limits)


def test_policies_in_the_wrong_place() -> None:
    found = analyse([one("t", "baseline", fired={"p": 1}), one("t", "real", state=("p",))])
    assert {"baseline-fired", "never-fired"} <= set(kinds(found))


def test_the_sentence_claims_no_more_than_the_numbers() -> None:
    """Half of the pairs are missing: not 'all' tasks, and what the missing ones could do to it is said beside it."""
    lost = [one(f"t{i}", "a", 1, None, termination="invalid", fault="x") for i in range(8, 16)]
    seen = [*cell("a", {f"t{i}": (1, 1) for i in range(8)}), *cell("b", {f"t{i}": (0, 1) for i in range(16)})]
    assert analyse([*seen, *lost], primary=("a", "b")).sentence == (
        "a passed 100.0 points more often than b on 8 of the 16 tasks (95 % interval +100.0 to +100.0, p = 0.007812): 8 improved, "
        "0 got worse, 0 did not move. 8 attempts without an observation could make it +50.0 to +100.0 points."
    )
    small = analyse(
        [*cell("a", {f"t{i}": (i < 1, 1) for i in range(3000)}), *cell("b", {f"t{i}": (0, 1) for i in range(3000)})],
        primary=("a", "b"),
    ).sentence
    assert small.startswith("a passed less than 0.1 points more often than b on all 3,000 tasks")
    sure = analyse(
        [*cell("a", {f"t{i}": (1, 1) for i in range(300)}), *cell("b", {f"t{i}": (0, 1) for i in range(300)})],
        primary=("a", "b"),
    ).sentence
    assert "p < 0.0001)" in sure


def test_the_sentence_of_a_panel_that_runs_says_so() -> None:
    slots = tuple((f"t{i}", arm, 1) for i in range(8) for arm in ("real", "sham"))
    attempts = [one(task, arm, 1, arm == "real") for task, arm, _ in slots[:12]]
    found = analyse(
        attempts, design(arms=("real", "sham"), secondary=()), Plan(slots, {f"t{i}": "eligible" for i in range(8)})
    )
    assert found.sentence.startswith(
        "Not finished: 12 of 16 attempts. So far, real passed 100.0 points more often than sham on "
    )
    assert "on 6 of the 8 eligible tasks (" in found.sentence


def test_one_is_singular() -> None:
    twice = [one("t", "a", 1, True), one("t", "a", 1, False), one("t", "b", 1, True, termination="timeout")]
    texts = {limit.kind: limit.text for limit in analyse(twice, primary=("a", "b")).limits}
    assert texts["twice"].startswith("1 slot with two records") and "1 attempt that ended" in texts["passed-otherwise"]
    lost = analyse([one("t", "a"), one("t", "b", 1, None, termination="invalid")], primary=("a", "b"))
    assert any(limit.text.startswith("1 of 2 attempts has no observation") for limit in lost.limits)


def test_the_sentence_says_simulated_where_attempts_do() -> None:
    found = analyse([one("t", "a", 1, True, extra={"simulated": "a coin"}), one("t", "b")], primary=("a", "b"))
    assert found.simulated == "a coin"
    assert found.sentence == (
        "Simulated (a coin). a passed 100.0 points more often than b on the one task (p = 1): "
        "1 improved, 0 got worse, 0 did not move. 1 changed task cannot reach p = 0.05 in a sign-flip test: the smallest "
        "possible p is 1."
    )


# -- the whole -----------------------------------------------------------------------------------------------------------


def panel(rng: random.Random, tasks: int = 12, attempts: int = 2) -> list[Attempt]:
    made = []
    for t, arm, r in product(range(tasks), ("baseline", "real", "sham"), range(1, attempts + 1)):
        ok = rng.random() < 0.5
        end = rng.choice(
            ["pass" if ok else "gave-up", "pass" if ok else "fail", "invalid"]
            if rng.random() < 0.2
            else ["pass" if ok else "fail"]
        )
        scope = ("p",) if t % 2 else ()
        made.append(
            one(
                f"t{t:02}", arm, r, ok if end != "invalid" else None, termination=end, eligible=scope, state=scope,
                fired={"p": 1} if scope and arm == "real" else {}, behaviour={"p": rng.choice([True, False, None])} if scope else {},
                cost_usd=rng.random(), seconds=rng.lognormvariate(4, 1), input_tokens=rng.randrange(10**6), steps=rng.randrange(50),
            )
        )  # fmt: skip
    return made


@pytest.mark.parametrize("seed", range(5))
def test_no_order_of_records_changes_anything(seed) -> None:
    rng = random.Random(seed)
    attempts = panel(rng)
    first = analyse(attempts).plain()
    rng.shuffle(attempts)
    assert analyse(attempts).plain() == first
    assert json.loads(json.dumps(first, allow_nan=False)) == first


@pytest.mark.parametrize("seed", range(5))
def test_swapping_the_arms_of_a_contrast_turns_every_sign(seed) -> None:
    attempts = panel(random.Random(seed))
    one_way = analyse(attempts, primary=("real", "sham"))
    other = analyse(attempts, primary=("sham", "real"))
    for a, b in zip(one_way.stages[:5], other.stages[:5], strict=True):
        if a.effect and b.effect:
            assert a.effect.mean == pytest.approx(-b.effect.mean) and a.effect.p == b.effect.p
    a, b = one_way.primary, other.primary
    assert a and b and a.effect and b.effect
    assert (a.improved, a.regressed) == (b.regressed, b.improved) and a.effect.p == b.effect.p


def test_the_parts_add_up() -> None:
    found = analyse(panel(random.Random(9), 20, 3))
    for arm in found.arms:
        cells = {c.cohort: c for c in found.cells if c.arm == arm.arm}
        for name in ("passed", "attempts", "missing", "tasks"):
            assert getattr(cells["all"], name) == getattr(cells["eligible"], name) + getattr(cells["silent"], name)
        ends = next(t for t in found.terminations if (t.arm, t.cohort) == (arm.arm, "all"))
        assert sum(ends.counts.values()) == cells["all"].attempts
        assert sum(ends.missing.values()) == cells["all"].missing
    primary = found.primary
    assert primary is not None and primary.effect is not None
    assert (len(primary.improved), len(primary.regressed)) == (primary.effect.up, primary.effect.down)
    assert found.observed + len(found.missing) == found.planned


def test_a_grid_is_near_the_exact_engine() -> None:
    rng = random.Random(4)
    pairs = []
    for _ in range(120):
        n, m = rng.choice((17, 18, 19, 20)), rng.choice((17, 18, 19, 20))
        pairs.append(((rng.randint(5, n), n), (rng.randint(3, m), m)))
    near = numbers_.estimate(pairs)
    values, common = numbers_.differences(pairs)
    exact = paired_effect(values, common)
    assert near is not None and 0 < near.slack < 0.002
    assert near.mean == pytest.approx(exact.mean) and (near.up, near.down) == (exact.up, exact.down)
    assert near.p == pytest.approx(exact.p, rel=0.05)
    assert exact.interval.low == pytest.approx(near.low, abs=0.002) and near.low <= exact.interval.low + 1e-3
    assert exact.interval.high == pytest.approx(near.high, abs=0.002)


def test_measures_are_paired_over_the_tasks_that_have_them() -> None:
    attempts = [
        one("t", "a", 1, cost_usd=1.0), one("t", "a", 2, cost_usd=3.0), one("t", "b", 1, cost_usd=1.0),
        one("u", "a", 1, cost_usd=1.0), one("u", "b", 1), one("v", "a", 1, cost_usd=4.0), one("v", "b", 1, cost_usd=2.0),
    ]  # fmt: skip
    found = analyse(attempts, primary=("a", "b"))
    cost = next(c for c in found.spend_changes if c.measure == "cost_usd")
    assert cost.effect is not None and cost.effect.tasks == 2
    assert cost.effect.mean == pytest.approx(1.5) and cost.ratio == pytest.approx(6 / 3 - 1)
    spend = next(s for s in found.spend if (s.arm, s.cohort, s.measure) == ("b", "all", "cost_usd"))
    assert (spend.known, spend.attempts, spend.total, spend.mean) == (2, 3, 3.0, 1.5)


def test_the_sensitivity_is_of_the_same_attempts() -> None:
    attempts = [a for a in panel(random.Random(5), 30, 2) if a.termination != "invalid"]
    found = analyse(attempts, primary=("real", "sham"), cohort="all")
    gee, logit = found.sensitivity
    assert (gee.method, logit.method) == ("gee", "conditional-logit")
    passed = [sum(a.passed is True for a in attempts if a.arm == arm) for arm in ("real", "sham")]
    sizes = [sum(a.arm == arm for a in attempts) for arm in ("real", "sham")]
    assert gee.difference == pytest.approx(passed[0] / sizes[0] - passed[1] / sizes[1])
    assert gee.attempts == sum(sizes)


@pytest.mark.corpus
def test_published_pass_at_k_of_terminal_bench(shared) -> None:
    """Three published jobs: pass@2, pass@4, pass@5 over 80 tasks x 5 attempts (reference: statistics)."""
    import csv

    published = {
        "20250902_orchestrator_qwen-3-coder-480B": (0.2725, 0.3575, 0.3875),
        "20250902_orchestrator_claude-4-sonnet": (0.4625, 0.5475, 0.575),
        "20250906_orchestrator_claude-4.1-opus": (0.48625, 0.56, 0.575),
    }
    seen: dict[tuple[str, str], int] = {}
    attempts = []
    with (shared / "corpus/terminal-bench-v1/derived/outcomes.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["config"] in published:
                key = row["task_id"], row["config"]
                seen[key] = seen.get(key, 0) + 1
                attempts.append(one(*key, seen[key], row["is_resolved"] == "True"))
    found = analyse(attempts)
    for config, expected in published.items():
        ks = {k.k: k.at for k in found.cell(config).ks}
        assert [ks[k] for k in (2, 4, 5)] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "attempts", "lost"), [(1000, 20, 0.0), (1000, 20, 0.02), (200, 100, 0.02)])
def test_a_hundred_thousand_attempts_in_seconds(tmp_path: Path, tasks, attempts, lost) -> None:
    """Read, analyse, render: 5 s are asked for. Measured in processor time and with room: other tests run beside this."""
    from misstep.report.panel import page

    rng = random.Random(1)
    made = [
        replace(a, termination="invalid", passed=None) if rng.random() < lost else a
        for a in (
            one(
                f"task-{t:04}", arm, r, rng.random() < 0.6, id=f"task-{t}-{arm}-{r}", agent="codex", model="m",
                eligible=("p",) if t % 2 else (), state=("p",) if t % 2 else (), fired={"p": 1} if t % 2 and arm == "real" else {},
                behaviour={"p": True} if t % 2 else {}, seconds=rng.lognormvariate(5, 1), cost_usd=rng.random(), steps=9,
                input_tokens=rng.randrange(10**6), output_tokens=rng.randrange(10**4), trial=f"trials/task-{t}-{arm}-{r}",
            )
            for t in range(tasks)
            for arm in ("baseline", "real", "sham", "always-verify", "reconsider")
            for r in range(1, attempts + 1)
        )
    ]  # fmt: skip
    write_attempts(tmp_path / "a.jsonl", made)
    start = time.process_time()
    found = read(tmp_path / "a.jsonl").analyse(("real", "sham"))
    text = page.text(found.plain())
    spent = time.process_time() - start
    assert found.planned == 100_000 and found.primary and found.primary.effect
    assert len(text) < 1_000_000
    assert spent < 15, f"{spent:.1f} s"
