"""What every recipe has: settings, each with the section of the paper that it comes from, and functions over shared parts.

A recipe says where rollouts start, what they are rewarded for, and how a step is made. Engines do the rest, alike for all. The
defaults are those of the papers' 4B models; a small model needs other sizes and a higher rate: `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from misstep.sandbox.tasks import Task
from misstep.train.advantages import Group
from misstep.train.episode import Attempt
from misstep.train.equivalence import EquivalenceJudge
from misstep.train.prefixes import Prefix, Target
from misstep.train.rewards import Counts, Item, Judge, Outcome, Reward, RubricJudge
from misstep.train.rollout import Rollouts, Settings
from misstep.train.starts import Start, Starts


class RecipeError(ValueError):
    """A recipe that lacks what it needs: one line."""


@dataclass(frozen=True, slots=True)
class Data:
    """What there is to start from. Only of training environments."""

    prefixes: Sequence[Prefix] = ()
    """Misstep prefixes."""
    tasks: Sequence[Start] = ()
    pivots: Sequence[Prefix] = ()
    """States of successful trajectories with the step that followed (`pivotrl.pivots`)."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """The types of the prefixes, by id."""
        return tuple({one.target.id: one.target for one in sorted(self.prefixes, key=lambda p: p.target.id)}.values())


@dataclass(frozen=True, slots=True)
class Parts:
    """What rewards are made of, given by who runs the recipe."""

    judge: Judge | None = None
    """For targets that no detector knows."""
    equivalence: EquivalenceJudge | None = None
    rubrics: Callable[[Attempt], Sequence[Item]] | None = None
    rubric_judge: RubricJudge | None = None
    task: Callable[[Attempt], Task] | None = None
    """The task of an attempt; by default its folder's."""
    counts: Counts = field(default_factory=Counts)
    executor: Executor | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings that all recipes share; those of TMax where a paper keeps them."""

    name: str = ""
    share: float = 0.5
    """Of starts that are prefixes, the others begin at the task."""
    groups: int = 8
    """Starts a step that are trained on."""
    size: int = 32
    """Rollouts of a start."""
    draws: int = 32
    """Starts a step that are drawn at most, to replace groups without signal."""
    steps: int = 100
    loss: Literal["dppo", "grpo"] = "dppo"
    delta: float = 0.1
    low: float = 0.2
    high: float = 0.272
    rate: float = 1e-6
    grad_norm: float = 1.0
    weight_decay: float = 0.0
    temperature: float = 1.0
    minibatches: int = 1
    """Updates a step; from the second on the batch is off-policy."""
    staleness: int = 4
    """Updates that rollouts may lag behind, in engines that roll out while they train."""
    submitted: bool = True
    """Tests run only where the agent submits; else the reward is 0."""
    rollout: Settings = field(default_factory=Settings)

    SECTIONS: ClassVar[Mapping[str, str]] = {
        "name": "ours",
        "share": "ours: half and half by default",
        "groups": "TMax, training setup: 8 prompts a step",
        "size": "TMax, training setup: 32 rollouts a prompt",
        "draws": "TMax, refilling of zero-deviation groups; the bound is ours",
        "steps": "MiRL, training: 100 to 120 steps (ours within that)",
        "loss": "TMax, the loss: DPPO; GRPO in its ablation",
        "delta": "TMax, the loss: binary total variation, 0.1",
        "low": "TMax, the GRPO ablation: clip 0.2",
        "high": "TMax, the GRPO ablation: clip 0.272",
        "rate": "TMax, training setup: AdamW, 1e-6, constant",
        "grad_norm": "TMax, training setup: 1.0",
        "weight_decay": "ours: none named",
        "temperature": "TMax, training setup: 1",
        "minibatches": "ours: one update a step",
        "staleness": "TMax, asynchronous training: at most 4 steps",
        "submitted": "TMax, the harness: tests in training only after submission",
        "rollout": "TMax, the harness: 64 tool calls, 120 s a command, 65,536 and 16,384 tokens, 5,000 + 5,000 characters; floor of 16 ours",
    }
    """Where each setting comes from."""

    def starts(self, data: Data, seed: int, path: Path | None = None) -> Starts:
        """The sequence of starts. Raises StartsError."""
        return Starts(data.prefixes, data.tasks, share=self.share, seed=seed, path=path)

    def reward(self, parts: Parts) -> Reward:
        """Of a rollout. Raises RecipeError where a part is missing."""
        return outcome(self, parts)

    async def roll(self, rollouts: Rollouts, starts: Sequence[Start], parts: Parts, first: int) -> list[Group]:
        """`size` episodes of each start."""
        return await rollouts.groups(starts, self.size, first=first)

    def plain(self) -> dict[str, Any]:
        """For config.json."""
        return {**asdict(self), "recipe": type(self).__name__}


def outcome(recipe: Recipe, parts: Parts) -> Outcome:
    """r_o: the task's tests pass."""
    return Outcome(task=parts.task, submitted=recipe.submitted, counts=parts.counts, executor=parts.executor)
