"""The localizer: votes, failures, and batches that never show what a judged call gave."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from misstep.models import BudgetExceeded, Cache, CacheError, Client, InvalidAnswer, NotCached, Settings, Unreachable
from misstep.profile.localizer import Judged, Localizer, Opinion, decide
from misstep.profile.view import Views
from misstep.trajectory import Call, Result, Step, Trajectory

GOOD, BAD = Judged(reason=" fine ", verdict="good"), Judged(reason="wrong", verdict="bad")
INVALID = InvalidAnswer("localizer gave no valid answer: no JSON object in it")


@pytest.mark.parametrize(
    ("votes", "opinion"),
    [
        ([GOOD], Opinion("good", "fine", None, ("good",))),
        ([BAD], Opinion("bad", "wrong", None, ("bad",))),
        ([GOOD, BAD, BAD], Opinion("bad", "wrong", 2 / 3, ("good", "bad", "bad"))),
        ([GOOD, INVALID, GOOD], Opinion("good", "fine", 2 / 3, ("good", None, "good"))),
        ([GOOD, BAD], Opinion(None, votes=("good", "bad"), failure="split: 1 good, 1 bad of 2")),
        ([GOOD, BAD, INVALID], Opinion(None, votes=("good", "bad", None), failure="split: 1 good, 1 bad of 3")),
        ([INVALID], Opinion(None, votes=(None,), failure=f"invalid: {INVALID}")),
        ([INVALID, INVALID, GOOD], Opinion(None, votes=(None, None, "good"), failure=f"invalid: {INVALID}")),
        ([GOOD, GOOD, Unreachable("no\nserver")], Opinion(None, votes=("good", "good", None), failure="unreachable: no server")),
        ([BudgetExceeded("used up")], Opinion(None, votes=(None,), failure="budget: used up")),
        ([NotCached("offline")], Opinion(None, votes=(None,), failure="offline: offline")),
    ],
)  # fmt: skip
def test_what_votes_come_to(votes: list[Any], opinion: Opinion) -> None:
    assert decide(votes) == opinion


def test_what_is_no_failure_of_the_step_ends_the_run() -> None:
    with pytest.raises(CacheError):
        decide([GOOD, CacheError("disk full")])


def trajectory(count: int = 4) -> Trajectory:
    steps = [Step("user", "the task", prompt=True)]
    for n in range(1, count + 1):
        made = Call(f"c{n}", "bash", "shell", {}, f"cmd-{n}")
        steps.append(Step("agent", f"say-{n}", calls=[made], results={made.id: Result(f"out-{n}", 0)}))
    return Trajectory("t", "f", "a", steps)


def localizer(server: Any, folder: Path, **more: object) -> Localizer:
    role = {"model": "openai:m", "base_url": server.url, "concurrency": 4, "repairs": 1, **more}
    return Localizer(
        Client(Settings.from_plain({"roles": {"localizer": role}}), Cache(folder / "c.sqlite"), first_wait=0.005)
    )


def test_a_batch_shows_no_result_of_what_is_judged(scripted: ModuleType, tmp_path: Path) -> None:
    answer = json.dumps(
        {"calls": [{"number": n, "reason": f"r{n}", "verdict": "bad" if n == 2 else "good"} for n in (3, 1, 2)]}
    )

    async def work() -> list[Opinion]:
        one = localizer(server, tmp_path)
        async with one.client:
            return await one.judge_all(Views(trajectory()), [(2, 0), (3, 0), (4, 0)])

    with scripted.Server(lambda prompt, number: answer) as server:
        found = asyncio.run(work())
    assert [(one.verdict, one.reason) for one in found] == [("good", "r1"), ("bad", "r2"), ("good", "r3")]
    (body,) = server.bodies
    prompt = body["messages"][-1]["content"]
    assert "out-1" in prompt
    assert "cmd-2" in prompt
    assert "cmd-4" in prompt
    for hidden in ("out-2", "out-3", "out-4", "say-3", "say-4"):
        assert hidden not in prompt


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([1], "calls must hold the numbers 1 to 2, each once, not [1]"),
        ([0, 1], "not [0, 1]"),
        ([1, 2, 2], "not [1, 2, 2]"),
    ],
)
def test_a_batch_that_is_not_answered_whole_is_asked_again(
    scripted: ModuleType, tmp_path: Path, numbers: list[int], problem: str
) -> None:
    def answer(numbers: list[int]) -> str:
        return json.dumps({"calls": [{"number": n, "reason": "r", "verdict": "good"} for n in numbers]})

    def rule(prompt: str, number: int) -> str:
        return answer([1, 2]) if problem in prompt else answer(numbers)

    async def work() -> list[Opinion]:
        one = localizer(server, tmp_path)
        async with one.client:
            return await one.judge_all(Views(trajectory()), [(1, 0), (2, 0)])

    with scripted.Server(rule) as server:
        found = asyncio.run(work())
    assert [one.verdict for one in found] == ["good", "good"]
    assert len(server.bodies) == 2


def test_votes_are_independent_draws(scripted: ModuleType, tmp_path: Path) -> None:
    said = iter(["bad", "good", "bad"])

    async def work() -> tuple[Opinion, Opinion]:
        one = localizer(server, tmp_path, concurrency=1)
        async with one.client:
            view = Views(trajectory()).at(1)
            return await one.judge(view, 3), await one.judge(view, 3)

    with scripted.Server(lambda prompt, number: json.dumps({"reason": "r", "verdict": next(said)})) as server:
        first, again = asyncio.run(work())
    assert first == again == Opinion("bad", "r", 2 / 3, ("bad", "good", "bad"))
    assert len(server.bodies) == 3
