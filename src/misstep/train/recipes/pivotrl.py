"""PivotRL: RL on single steps, from the states of successful trajectories, rewarded where the step does what the recorded one did.

Starts: every step of successful trajectories (PivotRL, pivots), kept where the rewards of K samples of the frozen policy vary and their
mean is below a threshold (PivotRL, selection). Reward: functional equivalence (PivotRL, the verifier): alike texts pass without
the judge. No sandbox is needed. With a share below 1 the other starts are tasks, rolled out and rewarded by their tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from misstep.train.advantages import Group
from misstep.train.batching import Gathering
from misstep.train.episode import Codec, Episode, Policy
from misstep.train.equivalence import Equivalence
from misstep.train.prefixes import Prefix, Target, Turn
from misstep.train.recipes.base import Data, Parts, Recipe, RecipeError
from misstep.train.rollout import Rollouts, Settings
from misstep.train.starts import Start, Starts

PIVOT = "reference-step"
"""Id of the target of a pivot; its definition is the step that followed."""


@dataclass(frozen=True, slots=True)
class Pivotrl(Recipe):
    """PivotRL on TMax's loss and sizes."""

    name: str = "pivotrl"
    share: float = 1.0
    samples: int = 8
    """K: samples of the frozen policy in each state."""
    most: float = 0.75
    """States whose mean reward is not below this are left out."""
    same: float = 0.95
    """Similarity of texts from which no judge is asked."""

    SECTIONS = {
        **Recipe.SECTIONS,
        "share": "PivotRL, pivots: all starts are recorded states",
        "samples": "PivotRL, selection: K of at least 8",
        "most": "PivotRL, selection: mean below a threshold; 0.75 is ours",
        "same": "PivotRL, the verifier: similarity of 0.95 passes",
    }

    def starts(self, data: Data, seed: int, path: Path | None = None) -> Starts:
        if self.share > 0 and not data.pivots:
            raise RecipeError("pivotrl: successful trajectories are needed to take pivots from, and there is none")
        return Starts(data.pivots, data.tasks, share=self.share, seed=seed, path=path)

    async def roll(self, rollouts: Rollouts, starts: Sequence[Start], parts: Parts, first: int) -> list[Group]:
        graded = Equivalence(parts.equivalence, same=self.same, counts=parts.counts)

        async def group(number: int, start: Start) -> Group:
            if start.prefix is not None and start.prefix.target.id == PIVOT:
                return await step_group(rollouts.policy, rollouts.codec, start, self.size, graded, self.rollout, number)
            return (await rollouts.groups([start], self.size, first=number))[0]

        return list(await asyncio.gather(*(group(first + n, one) for n, one in enumerate(starts))))


def pivots(instruction: str, turns: Sequence[Turn], last: str, like: Prefix) -> list[Prefix]:
    """Each step of a successful trajectory as a state with its reference; `like` gives task, folder and environment.

    Args:
        last: the text with which the agent ended its work, '' to leave that step out.
    """
    references = [one.command for one in turns] + ([last] if last else [])
    made = []
    for n, reference in enumerate(references):
        if reference:
            target = Target(PIVOT, "taxonomy", "does what the recorded step did", reference)
            made.append(replace(like, instruction=instruction, turns=tuple(turns[:n]), target=target, token_ids=None))
    return made


async def step_group(
    policy: Policy, codec: Codec, start: Start, size: int, graded: Equivalence, settings: Settings, number: int = 0
) -> Group:
    """`size` single turns in a recorded state, each rewarded by what the recorded turn did."""
    assert start.prefix is not None
    prompt = start.prefix.prompt_ids(codec)
    gathering = policy if isinstance(policy, Gathering) else None
    if gathering is not None:
        for _ in range(size):
            gathering.enter()
    before = "\n".join(f"$ {turn.command}\n{turn.output}" for turn in start.prefix.turns)

    async def one(sample: int) -> Episode:
        try:
            made = await policy.generate(prompt, max_tokens=settings.turn_tokens, stop=codec.stop)
        finally:
            if gathering is not None:
                gathering.leave()
        action = codec.action(made.ids)
        cut = made.finish == "length"
        text = None if cut else action.said if action.submits else action.command
        score = await graded.score(start.prefix.instruction, before, start.prefix.target.definition, text)  # type: ignore[union-attr]
        extras = {
            "start": start.id, "kind": "pivot", "task": start.task, "group": number, "sample": sample, "ended": "step",
            "fault": "", "truncated": cut, "steps": 1, "tokens": len(made.ids), "why": score.why, "parts": {},
            "commands": [[text, None]] if text else [],
        }  # fmt: skip
        return Episode(tuple(prompt), made.ids, (1,) * len(made.ids), made.logprobs, score.value, extras)

    return list(await asyncio.gather(*(one(sample) for sample in range(size))))


async def select(
    policy: Policy, codec: Codec, found: Iterable[Prefix], recipe: Pivotrl, parts: Parts, *, at_once: int = 16
) -> list[Prefix]:
    """The pivots whose rewards vary and whose mean is below the threshold, over K samples of the frozen policy."""
    graded = Equivalence(parts.equivalence, same=recipe.same, counts=parts.counts)
    every = list(found)
    kept = []
    for n in range(0, len(every), at_once):
        some = every[n : n + at_once]
        made = await asyncio.gather(
            *(step_group(policy, codec, Start.at(one), recipe.samples, graded, recipe.rollout) for one in some)
        )
        for pivot, group in zip(some, made, strict=True):
            rewards = np.array([one.reward for one in group if one.reward is not None])
            if rewards.size and rewards.var() > 0 and rewards.mean() < recipe.most:
                kept.append(pivot)
    return kept


def recipe() -> Pivotrl:
    """PivotRL as published."""
    return Pivotrl()
