"""Rollouts in real sandboxes: ids that only grow, masks, state, bounds, faults."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from misstep.sandbox import Root, SandboxError
from misstep.train.batching import Batched
from misstep.train.codec import END, SHOWN, TURN, ByteCodec
from misstep.train.episode import Episode, Generated, PolicyError
from misstep.train.prefixes import Prefix, Target, Turn
from misstep.train.rewards import Outcome, Score
from misstep.train.rollout import NO_COMMAND, Rollouts, Settings
from misstep.train.starts import Start
from misstep.train.states import States

from .conftest import Rule, said, script

TARGET = Target("destroyed-what-to-keep", name="destroys what was to be kept")
QUICK = Settings(command_seconds=5, at_once=16, seconds=60)


@pytest.fixture
def states(root: Root) -> Iterator[States]:
    with States(root) as made:
        yield made


def prefix_of(folder: Path, *turns: Turn, lasting: bool = True) -> Prefix:
    instruction = (folder / "instruction.md").read_text().strip()
    return Prefix(folder.name, str(folder), "e" * 64, instruction, turns, TARGET, lasting=lasting)


def roll(
    states: States, start: Start, policy, settings: Settings = QUICK, reward=None, count: int = 1
) -> list[Episode]:
    with Rollouts(policy, ByteCodec(), states, reward or Outcome(), settings) as rollouts:
        return asyncio.run(rollouts.groups([start], count))[0]


def shown(episode: Episode) -> list[str]:
    """What the policy was shown after each of its turns, the prefix's among them."""
    return said([*episode.prompt_ids, *episode.ids])[1]


def test_a_task_is_done_and_its_tests_are_the_reward(states, make_task):
    folder = make_task()
    policy = Rule(script("$ cat old.conf", "$ echo size=2 > new.conf"))
    (made,) = roll(states, Start.of_task(folder), policy)
    assert made.reward == 1.0
    assert made.extras["ended"] == "submitted" and made.extras["steps"] == 3
    assert made.extras["commands"] == [["cat old.conf", 0], ["echo size=2 > new.conf", 0]]
    (made,) = roll(states, Start.of_task(folder), Rule(script("$ rm old.conf")))
    assert made.reward == 0.0


def test_the_ids_of_a_turn_begin_with_those_of_every_earlier_one(states, make_task):
    policy = Rule(script("$ echo ü", "no command here", "$ false", "$ printf '\\377x'"))
    (made,) = roll(states, Start.of_task(make_task()), policy)
    asked = [*policy.asked, [*made.prompt_ids, *made.ids]]
    assert len(asked) == 6
    for earlier, later in itertools.pairwise(asked):
        assert later[: len(earlier)] == earlier and len(later) > len(earlier)
    assert asked[0] == list(made.prompt_ids)


def test_tool_tokens_are_masked_and_have_no_log_probability(states, make_task):
    (made,) = roll(states, Start.of_task(make_task()), Rule(script("$ cat old.conf"), logprob=-0.25))
    turn, shown, last = [*b"$ cat old.conf", END], [SHOWN, *b"size=1\n", TURN], [*b"done", END]
    assert list(made.ids) == turn + shown + last
    assert list(made.mask) == [1] * len(turn) + [0] * len(shown) + [1] * len(last)
    assert set(made.logprobs[len(turn) : len(turn) + len(shown)]) == {0.0}
    assert {one for one, m in zip(made.logprobs, made.mask, strict=True) if m} == {-0.25}
    assert made.trained == len(turn) + len(last) == made.extras["tokens"]


def test_log_probabilities_that_are_not_known_are_not_made_up(states, make_task):
    (made,) = roll(states, Start.of_task(make_task()), Rule(script("$ :"), logprob=None))
    assert made.logprobs == ()


def test_directory_and_variables_last(states, make_task):
    policy = Rule(script("$ cd /tmp; export A=5; f() { echo $((A + 1)); }", "$ pwd; echo $A; f"))
    (made,) = roll(states, Start.of_task(make_task()), policy)
    assert shown(made)[-1] == "/tmp\n5\n6\n"


def test_a_prefix_is_branched_and_its_shell_stands_where_the_record_ended(states, make_task):
    folder = make_task()
    prefix = prefix_of(
        folder, Turn("mkdir -p /srv/x && cd /srv/x && export WHO=me", "", 0), Turn("echo kept > note; ls", "note\n", 0)
    )
    policy = Rule(script("", "", "$ pwd; echo $WHO; cat note; echo more >> note"))
    group = roll(states, Start.at(prefix), policy, count=4)
    assert states.replays == 1 and states.branches == 4
    for made in group:
        assert list(made.prompt_ids) == prefix.prompt_ids(ByteCodec())
        assert shown(made)[-1] == "/srv/x\nme\nkept\n"
        assert made.extras["kind"] == "prefix" and made.extras["prefix_steps"] == 2
        assert made.attempt is not None and made.attempt.first == 3
        assert [s.source for s in made.attempt.trajectory.steps] == ["user", *["agent"] * 4]


def test_recorded_token_ids_are_the_prompt_as_they_are(states, make_task):
    ids = tuple(ByteCodec().opening("other words, with what was thought"))
    prefix = replace(prefix_of(make_task(), Turn("true", "", 0)), token_ids=ids)
    (made,) = roll(states, Start.at(prefix), Rule(script()))
    assert made.prompt_ids == ids


def test_where_each_recorded_command_had_its_own_shell_the_rollout_has_so_too(states, make_task):
    prefix = prefix_of(make_task(), Turn("cd /tmp; pwd", "/tmp\n", 0), lasting=False)
    (made,) = roll(states, Start.at(prefix), Rule(script("", "$ cd /usr", "$ pwd")))
    assert shown(made)[-1] == "/app\n"


def test_a_replay_that_shows_something_else_gives_no_reward_and_is_counted(states, make_task):
    prefix = prefix_of(make_task(), Turn("cat old.conf", "size=9\n", 0))
    with Rollouts(Rule(script()), ByteCodec(), states, Outcome(), QUICK) as rollouts:
        group = asyncio.run(rollouts.groups([Start.at(prefix)], 3))[0]
    assert [one.reward for one in group] == [None] * 3
    assert all(one.extras["fault"].startswith("replay: the output differs: cat old.conf") for one in group)
    assert [one.trained for one in group] == [0, 0, 0] and all(one.ids for one in group)
    assert rollouts.counts.plain() == {"rollout": {"replay": 3}}
    assert states.replays == 2  # a third try would not show anything else


def test_a_sandbox_that_dies_gives_no_reward(states, make_task):
    held = []

    def rule(task: str, shown: list[str]) -> str:
        if len(shown) == 1:
            held[0].stop()
        return "$ echo on"

    fresh = states.fresh
    states.fresh = lambda *a: held.append(fresh(*a)) or held[-1]  # type: ignore[method-assign]
    with Rollouts(Rule(rule), ByteCodec(), states, Outcome(), QUICK) as rollouts:
        (made,) = asyncio.run(rollouts.groups([Start.of_task(make_task())], 1))[0]
    assert made.reward is None and made.extras["fault"].startswith("sandbox: ")
    assert made.extras["ended"] == "fault"
    assert rollouts.counts.plain() == {"rollout": {"sandbox": 1}}


def test_a_task_whose_environment_cannot_be_built_gives_no_reward(states, make_task):
    folder = make_task()
    (folder / "environment" / "Dockerfile").write_text("FROM debian:12\nCOPY missing /app/\n")
    (made,) = roll(states, Start.of_task(folder), Rule(script()))
    assert made.reward is None and made.extras["fault"].startswith("sandbox: ")


def test_a_policy_that_fails_gives_no_reward_and_a_fault_of_the_program_is_raised(states, make_task):
    start = Start.of_task(make_task())

    class Broken:
        def __init__(self, error: Exception) -> None:
            self.error = error

        async def generate(self, prompt_ids, *, max_tokens, stop=()) -> Generated:
            raise self.error

    (made,) = roll(states, start, Broken(PolicyError("the server is gone")))
    assert made.reward is None and made.extras["fault"] == "policy: the server is gone"
    with pytest.raises(ZeroDivisionError):
        roll(states, start, Broken(ZeroDivisionError()), count=3)


def test_a_command_is_ended_at_its_limit_and_the_rollout_goes_on(states, make_task):
    settings = replace(QUICK, command_seconds=0.3)
    policy = Rule(script("$ sleep 30", "$ echo size=2 > new.conf"))
    began = time.monotonic()
    (made,) = roll(states, Start.of_task(make_task()), policy, settings)
    assert time.monotonic() - began < 5
    assert made.extras["commands"][0] == ["sleep 30", 124] and made.reward == 1.0


def test_outputs_are_cut_at_both_ends(states, make_task):
    settings = replace(QUICK, head=4, tail=3)
    (made,) = roll(states, Start.of_task(make_task()), Rule(script("$ printf 0123456789")), settings)
    assert shown(made) == ["0123\n[... 3 characters left out ...]\n789"]


def test_a_turn_without_a_command_is_told_so(states, make_task):
    (made,) = roll(states, Start.of_task(make_task()), Rule(script("hello")))
    assert shown(made) == [NO_COMMAND]
    assert made.extras["steps"] == 2 and made.extras["commands"] == []


def test_turns_and_tokens_are_bounded(states, make_task):
    start = Start.of_task(make_task())
    (made,) = roll(states, start, Rule(lambda *_: "$ :"), replace(QUICK, turns=3))
    assert (made.extras["ended"], made.extras["steps"], made.reward) == ("steps", 3, 0.0)
    (made,) = roll(states, start, Rule(lambda *_: "$ :"), replace(QUICK, turn_tokens=2))
    assert (made.extras["ended"], made.extras["truncated"], len(made.ids)) == ("tokens", True, 2)
    assert made.extras["commands"] == [] and made.reward == 0.0
    (made,) = roll(states, start, Rule(lambda *_: "$ :"), replace(QUICK, response_tokens=9))
    assert made.extras["ended"] == "tokens" and len(made.ids) <= 9
    (made,) = roll(states, start, Rule(lambda *_: "$ seq 50"), replace(QUICK, response_tokens=60))
    assert (made.extras["ended"], bytes(made.ids[:-1]), set(made.mask)) == ("tokens", b"$ seq 50", {1})
    assert made.extras["commands"] == [["seq 50", 0]]
    (made,) = roll(states, start, Rule(lambda *_: "$ :"), replace(QUICK, context=5))
    assert made.reward is None and made.extras["fault"].startswith("context: ")


def test_steps_left_from_a_prefix():
    settings = Settings()
    prefix = Prefix("t", "t", "e", "do", tuple(Turn("ls") for _ in range(60)), TARGET)
    assert settings.left(Start.at(replace(prefix, turns=prefix.turns[:10]))) == 54
    assert settings.left(Start.at(prefix)) == 16
    assert settings.left(Start("task:t", "t", "t")) == 64


def test_a_straggler_is_a_fault_and_its_sandbox_is_gone(states, make_task):
    settings = replace(QUICK, seconds=0.5)
    held = []
    fresh = states.fresh
    states.fresh = lambda *a: held.append(fresh(*a)) or held[-1]  # type: ignore[method-assign]
    began = time.monotonic()
    start, policy = Start.of_task(make_task()), Rule(lambda *_: "$ sleep 30")
    settings = replace(settings, command_seconds=30, at_once=2)
    for made in roll(states, start, policy, settings, count=2):
        assert made.reward is None and made.extras["fault"].startswith("timeout: ")
    assert not any(one.alive for one in held) and time.monotonic() - began < 10


def test_sixty_four_at_once_leave_nothing_behind(states, make_task):
    start = Start.of_task(make_task())
    held = []
    fresh = states.fresh
    states.fresh = lambda *a: held.append(fresh(*a)) or held[-1]  # type: ignore[method-assign]
    group = roll(states, start, Rule(script("$ echo size=2 > new.conf")), replace(QUICK, at_once=64), count=64)
    assert [one.reward for one in group] == [1.0] * 64
    assert len(held) == 64 and not any(one.alive for one in held)


def test_rollouts_work_in_one_loop_after_the_other(states, make_task):
    start = Start.of_task(make_task())
    with Rollouts(Rule(script("$ :")), ByteCodec(), states, Outcome(), replace(QUICK, at_once=2)) as rollouts:
        for _ in range(2):
            assert len(asyncio.run(rollouts.groups([start, start], 3))) == 2


def test_batches_hold_all_that_wait_and_are_the_same_in_every_run(states, make_task):
    seen: list[list[int]] = []

    class Counting(Rule):
        def generate_batch(self, prompts, *, max_tokens, stop=()):
            seen.append([len(p) for p in prompts])
            return [self.answer(p, m) for p, m in zip(prompts, max_tokens, strict=True)]

    def rule(task: str, shown: list[str]) -> str:
        return "$ sleep 0.05" if task.endswith("a)") and not shown else "$ :" if len(shown) < 3 else "done"

    starts = [Start.of_task(make_task(name)) for name in ("copy-a", "copy-b")]
    runs = []
    for _ in range(2):
        seen.clear()
        policy = Batched(Counting(rule), wait=None)
        with Rollouts(policy, ByteCodec(), states, Outcome(), QUICK) as rollouts:
            asyncio.run(rollouts.groups(starts, 3))
        policy.close()
        runs.append(list(seen))
    assert runs[0] == runs[1] and sum(map(len, runs[0])) == policy.answers == 24
    assert [len(one) for one in runs[0]] == [6, 6, 6, 6]


def test_a_batch_that_failed_leaves_nothing_in_the_way_of_the_next_loop(states, make_task):
    class Once(Rule):
        broken = True

        def generate_batch(self, prompts, *, max_tokens, stop=()):
            if self.broken:
                raise ZeroDivisionError
            return [self.answer(p, m) for p, m in zip(prompts, max_tokens, strict=True)]

    inner = Once(script("$ :"))
    policy = Batched(inner, most=2, wait=30)
    start = Start.of_task(make_task())
    with Rollouts(policy, ByteCodec(), states, Outcome(), QUICK) as rollouts:
        with pytest.raises(ZeroDivisionError):
            asyncio.run(rollouts.groups([start], 3))
        inner.broken = False
        assert len(asyncio.run(rollouts.groups([start], 3))[0]) == 3
    policy.close()


def test_a_batch_goes_off_when_its_time_is_up():
    class Sizes:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def generate_batch(self, prompts, *, max_tokens, stop=()):
            self.seen.append(len(prompts))
            return [Generated((len(p), END)) for p in prompts]

    async def ask() -> list[Generated]:
        first = [asyncio.create_task(policy.generate([0] * n, max_tokens=9)) for n in (3, 1)]
        made = list(await asyncio.gather(*first))
        return [*made, *await asyncio.gather(*(policy.generate([0] * n, max_tokens=9) for n in range(1, 6)))]

    inner = Sizes()
    policy = Batched(inner, most=3, wait=0.05)
    for _ in range(9):
        policy.enter()
    assert [one.ids[0] for one in asyncio.run(ask())] == [3, 1, 1, 2, 3, 4, 5]
    assert inner.seen == [2, 3, 2] and (policy.batches, policy.answers) == (3, 7)
    policy.close()


def test_the_reward_sees_a_sandbox_whose_session_is_over(states, make_task):
    class Sees:
        name = "sees"

        async def __call__(self, attempt) -> Score:
            assert attempt.box is not None
            return Score(float(len(attempt.box.processes())), parts={"x": 1.0})

    (made,) = roll(
        states, Start.of_task(make_task()), Rule(script("$ sleep 60 & setsid sleep 61 & sleep 0.2")), reward=Sees()
    )
    assert made.reward == 1.0 and made.extras["parts"] == {"sees": 1.0, "x": 1.0}
    assert made.attempt is not None and made.attempt.box is None


def test_a_verifier_without_a_reward_gives_none(states, make_task):
    folder = make_task(check="#!/bin/bash\nexit 1\n")
    outcome = Outcome()
    (made,) = roll(states, Start.of_task(folder), Rule(script()), reward=outcome)
    assert made.reward is None and made.extras["why"].startswith("no-reward: ")
    assert outcome.counts.plain() == {"outcome": {"no-reward": 1}}


def test_states_that_are_not_used_any_more_are_removed(root, make_task):
    with States(root, most=1) as states:
        folder = make_task()
        for n in range(3):
            roll(states, Start.at(prefix_of(folder, Turn(f"echo {n}", f"{n}\n", 0))), Rule(script("", "$ :")))
        assert len([k for k in states._kept.values() if k.state]) == 1
        with pytest.raises(SandboxError):
            states.open(Start("task:x", "x", str(folder / "missing")))
