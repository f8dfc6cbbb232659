"""Recipes: every setting says where it is from, starts and rewards are what each paper has, ablations are configurations."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace

import pytest

from misstep.train.codec import ByteCodec
from misstep.train.episode import Generated
from misstep.train.prefixes import Prefix, Target, Turn
from misstep.train.recipes import RECIPES, Data, Parts, RecipeError, ablations, get, mirl, pivotrl, rar
from misstep.train.rewards import Behaviour, Combined, Conjunction, Outcome
from misstep.train.starts import Start

A, B = Target("binary-as-text"), Target("unverified-claim")


def _prefix(environment: str, target: Target = A, split: str = "train") -> Prefix:
    return Prefix(
        environment, f"/tasks/{environment}", environment, "do it", (Turn("ls", "x\n", 0),), target, split=split
    )


def _data() -> Data:
    tasks = [Start(f"task:{one}", one, f"/tasks/{one}", one) for one in ("easy", "hard-1", "hard-2")]
    return Data([_prefix("hard-1"), _prefix("hard-2", B)], tasks)


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_names_its_section(name: str):
    made = get(name)
    assert set(made.SECTIONS) == {one.name for one in fields(made)}
    assert all(len(section) > 3 for section in made.SECTIONS.values())
    assert made.name == name
    assert made.plain()["share"] == made.share


def test_shared_settings_are_tmax():
    made = get("tmax")
    assert (made.loss, made.delta, made.rate, made.grad_norm, made.groups, made.size) == ("dppo", 0.1, 1e-6, 1.0, 8, 32)
    assert (made.low, made.high, made.temperature, made.staleness, made.share) == (0.2, 0.272, 1.0, 4, 0.0)
    assert (made.rollout.turns, made.rollout.response_tokens, made.rollout.turn_tokens) == (64, 65_536, 16_384)
    assert get("mirl").share == 0.5 and mirl.published().share == 1.0


def test_an_unknown_recipe_names_those_that_exist():
    with pytest.raises(RecipeError, match="there are mirl, tmax"):
        get("ppo")


def test_starts_of_each():
    data = _data()
    kinds = lambda made: {one.kind for one in made.starts(data, 0).draw(12)}  # noqa: E731
    assert kinds(get("tmax")) == {"task"}
    assert kinds(mirl.published()) == {"prefix"}
    assert kinds(get("mirl")) == {"prefix", "task"}
    half = get("mirl").starts(data, 0).draw(12)
    assert sum(one.kind == "prefix" for one in half) == 6
    assert all(one.targets == (A, B) for one in half if one.kind == "task")  # every type counts from a task's start
    assert {one.task for one in ablations.environment_selection().starts(data, 0).draw(9)} == {"hard-1", "hard-2"}
    assert all(not one.targets for one in get("tmax").starts(data, 0).draw(6))


def test_rewards_of_each():
    parts = Parts()
    assert isinstance(get("tmax").reward(parts), Outcome)
    assert isinstance(get("mirl").reward(parts), Conjunction)
    assert isinstance(ablations.behaviour_reward().reward(parts), Conjunction)
    assert isinstance(ablations.prefix_starts().reward(parts), Outcome)
    assert isinstance(ablations.environment_selection().reward(parts), Outcome)
    inner = replace(get("mirl"), m=5).reward(parts)
    assert isinstance(inner, Conjunction) and isinstance(inner.behaviour, Behaviour) and inner.behaviour.m == 5
    with pytest.raises(RecipeError, match="rubrics"):
        get("rar").reward(parts)


def test_rar_combines():
    class Judge:
        async def met(self, attempt, items):
            return [True for _ in items]

        async def score(self, attempt, items):
            return 1.0

    made = rar.Rar(combine="gate").reward(Parts(rubrics=lambda attempt: [], rubric_judge=Judge()))
    assert isinstance(made, Combined) and made.how == "gate"


def test_pivotrl_needs_successful_trajectories():
    with pytest.raises(RecipeError, match="successful trajectories"):
        get("pivotrl").starts(_data(), 0)


def test_pivots_are_all_steps_of_a_trajectory():
    turns = [Turn("ls", "a\n", 0), Turn("cat a", "x\n", 0)]
    made = pivotrl.pivots("do it", turns, "done Done.", _prefix("hard-1"))
    assert [(len(one.turns), one.target.definition) for one in made] == [(0, "ls"), (1, "cat a"), (2, "done Done.")]
    assert len({one.id for one in made}) == 3
    starts = get("pivotrl").starts(Data(pivots=made), 0).draw(6)
    assert {one.id for one in starts} == {one.id for one in made}


class Says:
    """A policy that gives these texts in turn."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.asked = texts, 0

    async def generate(self, prompt_ids, *, max_tokens, stop=()):
        text = self.texts[self.asked % len(self.texts)]
        self.asked += 1
        ids = (*text.encode(), 256)
        return Generated(ids, (-0.1,) * len(ids))


def test_pivots_are_kept_where_rewards_vary_and_are_low():
    pivot = pivotrl.pivots("do it", [Turn("ls", "a\n", 0)], "", _prefix("hard-1"))
    recipe = replace(get("pivotrl"), samples=8)

    def kept(*texts: str) -> bool:
        return bool(asyncio.run(pivotrl.select(Says(*texts), ByteCodec(), pivot, recipe, Parts())))

    assert kept("$ ls", "$ rm a")
    assert not kept("$ ls") and not kept("$ rm a")  # no variance
    assert not kept("$ ls", "$ ls", "$ ls", "$ rm a")  # mean .75


def test_a_pivots_episode_is_one_turn_that_is_trained_whole():
    pivot = pivotrl.pivots("do it", [Turn("ls", "a\n", 0)], "", _prefix("hard-1"))[0]
    graded = pivotrl.Equivalence()
    group = asyncio.run(
        pivotrl.step_group(Says("$ ls", "$ rm a"), ByteCodec(), Start.at(pivot), 4, graded, get("pivotrl").rollout)
    )
    assert [one.reward for one in group] == [1.0, 0.0, 1.0, 0.0]
    assert all(all(one.mask) and one.prompt_ids == group[0].prompt_ids for one in group)
