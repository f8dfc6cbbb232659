"""What a model sees: the task, the steps before, the call. Nothing of the result, the outcome, or later steps."""

from __future__ import annotations

import pytest

from misstep.profile.view import Room, Views, proposals, task_of
from misstep.trajectory import Call, Outcome, Result, Step, Trajectory


def call(n: int, k: int = 0, command: str = "") -> Call:
    return Call(f"c{n}.{k}", "bash", "shell", {}, command or f"cmd-{n}-{k}")


def agent(n: int, calls: int = 1, output: str = "", said: str = "", **more: object) -> Step:
    made = [call(n, k) for k in range(calls)]
    results = {c.id: Result(output or f"out-{n}-{k}", 0) for k, c in enumerate(made)}
    return Step("agent", said or f"say-{n}", calls=made, results=results, **more)  # type: ignore[arg-type]


def trajectory(*steps: Step, **more: object) -> Trajectory:
    return Trajectory("t", "f", "a", [Step("user", "the task", prompt=True), *steps], **more)  # type: ignore[arg-type]


def test_the_steps_before_and_the_call() -> None:
    view = Views(trajectory(agent(1), agent(2), agent(3))).at(2)
    assert view.task == "the task"
    assert (
        view.prefix == "[step 1] agent says: say-1\n[step 1] agent calls bash: cmd-1-0\n  result (exit code 0): out-1-0"
    )
    assert view.proposed == "[step 2] agent says: say-2\n[step 2] agent calls bash: cmd-2-0"
    assert view.left_out == 0


def test_nothing_that_comes_after_is_seen() -> None:
    """Neither this call's result, nor later steps, nor the outcome change a view."""
    plain = trajectory(agent(1), agent(2), agent(3))
    other = trajectory(agent(1), agent(2, output="Traceback: it failed"), agent(3, said="That was wrong"), agent(4))
    other.outcome = Outcome(passed=False, reward=0.0, task="x", exception="boom", extra={"reference": "42"})
    assert Views(plain).at(2) == Views(other).at(2)
    assert Views(plain).at(3) != Views(other).at(3)


def test_calls_of_one_turn() -> None:
    view = Views(trajectory(agent(1, calls=3))).at(1, 1)
    assert view.proposed.splitlines() == [
        "[step 1] agent says: say-1",
        "In one turn, before any result was known, the agent proposed these calls:",
        "[step 1] agent calls bash: cmd-1-0",
        "[step 1] agent calls bash: cmd-1-1 <== the call to judge",
        "[step 1] agent calls bash: cmd-1-2",
    ]
    with pytest.raises(IndexError, match="step 1 of t proposes no call 3"):
        Views(trajectory(agent(1, calls=3))).at(1, 3)


@pytest.mark.parametrize("room", [1200, 2000, 8000])
def test_a_long_prefix_leaves_out_the_oldest_middle_steps(room: int) -> None:
    whole = trajectory(*(agent(n, output="x" * 150) for n in range(1, 60)), agent(60))
    view = Views(whole, Room(prefix=room, text=100, output=100)).at(60)
    assert len(view.prefix) <= room + 60
    assert view.prefix.startswith("[step 1] ")
    assert view.left_out > 0
    assert f"\n... {view.left_out} steps left out ...\n" in view.prefix
    shown = [n for n in range(1, 60) if f"[step {n}] agent calls" in view.prefix]
    assert shown == [1, *range(2 + view.left_out, 60)]


def test_what_was_asked_for_last_is_never_left_out() -> None:
    steps = [agent(n, output="x" * 150) for n in range(1, 60)]
    steps[10] = Step("user", "now do the other thing", prompt=True)
    view = Views(trajectory(*steps, agent(60)), Room(prefix=1500, text=100, output=100)).at(60)
    assert "[step 11] user: now do the other thing" in view.prefix
    assert view.prefix.count("left out") == 2


def test_bounds_hold_whatever_is_in_it() -> None:
    huge = "y" * 500_000
    steps = [agent(n, calls=20, output=huge, said=huge) for n in range(1, 8)]
    views = Views(trajectory(*steps))
    room = views.room
    for step, place in [(1, 0), (7, 19), (4, 10)]:
        view = views.at(step, place)
        assert len(view.task) <= room.task
        assert len(view.prefix) <= room.prefix + 100
        assert len(view.proposed) <= 2 * room.proposed + 10 * (room.text + 60) + 200


def test_copies_and_what_a_person_or_the_harness_did() -> None:
    steps = [agent(1, copied=True), Step("user", "<reminder>"), Step("system", "API error", interrupted=True), agent(4)]
    one = trajectory(*steps)
    assert list(proposals(one)) == [(4, 0)]
    assert Views(one).at(4).prefix.splitlines() == [
        "[step 2] environment: <reminder>",
        "[step 3] (a person interrupted the agent here)",
        "[step 3] environment: API error",
    ]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Result("", 1), "result (exit code 1): (no output)"),
        (Result("x", None, True), "result (failed): x"),
        (Result("x", None, timed_out=True), "result (ended at its time limit): x"),
        (Result("x", None, fault="refused"), "result (refused): x"),
        (Result("\x1b[31mred\x07 \ud800", 0), "result (exit code 0): [31mred \ufffd"),
        (None, "result: not recorded"),
    ],
)
def test_results_in_words(result: Result | None, told: str) -> None:
    step = agent(1)
    step.results = {} if result is None else {step.calls[0].id: result}
    assert Views(trajectory(step, agent(2))).at(2).prefix.splitlines()[-1].strip() == told


def test_credentials_are_hidden() -> None:
    secret = "sk-" + "proj-abcDEF123456789012345"
    one = trajectory(agent(1, output=f"key {secret}", said=f"use {secret}"), agent(2))
    one.steps[0].message = f"the key is {secret}"
    one.steps[2].calls[0].command = f"curl -H 'Authorization: Bearer {secret}'"
    view = Views(one).at(2)
    assert secret not in view.task + view.prefix + view.proposed


def test_what_groups_trajectories() -> None:
    one = trajectory(agent(1))
    same = Trajectory("u", "f", "a", one.steps)
    assert task_of(one) == task_of(same)
    assert task_of(one).startswith("asked:")
    one.outcome = Outcome(task="suite/x@1")
    assert task_of(one) == "suite/x@1"
    assert task_of(Trajectory("t9", "f", "a", [agent(0)])) == "trajectory:t9"
