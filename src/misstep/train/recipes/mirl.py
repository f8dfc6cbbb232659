"""MiRL: RL from the states before a misstep, rewarded where the tests pass *and* the misstep is absent.

Starts: misstep prefixes, types drawn uniformly, then environments (MiRL, sampling; the paper has prefixes only: share 1). Mixed with
task starts by default, because prefixes alone can break what came before them. Reward: r_o AND r_e, r_e over the next m turns
(MiRL, the reward). Everything else is TMax's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from misstep.train.recipes.base import Data, Parts, Recipe, outcome
from misstep.train.rewards import Behaviour, Conjunction, Reward
from misstep.train.starts import Starts


@dataclass(frozen=True, slots=True)
class Mirl(Recipe):
    """MiRL and, by its switches, its ablations."""

    name: str = "mirl"
    behaviour: bool = True
    """r_e is part of the reward. Off: the tests alone."""
    m: int = 3
    """Turns after a prefix that are looked at."""
    always: bool = False
    """The model judges targets of the catalogue too."""
    selected: bool = False
    """Task starts only in environments that have a misstep prefix."""

    SECTIONS = {
        **Recipe.SECTIONS,
        "share": "MiRL, RL: prefixes only (1); half and half is ours",
        "behaviour": "MiRL, the reward: r = r_o AND r_e; off in the ablation of prefix starts",
        "m": "MiRL, the behaviour judge: the next m steps; 3 is ours",
        "always": "MiRL, the behaviour judge is a model; detectors first is ours",
        "selected": "MiRL, ablations: environment selection",
    }

    def starts(self, data: Data, seed: int, path: Path | None = None) -> Starts:
        tasks = list(data.tasks)
        if self.selected:
            hard = {one.environment for one in data.prefixes}
            tasks = [one for one in tasks if one.environment in hard]
        if self.behaviour:
            tasks = [replace(one, targets=one.targets or data.targets) for one in tasks]
        return Starts(data.prefixes, tasks, share=self.share, seed=seed, path=path)

    def reward(self, parts: Parts) -> Reward:
        passed = outcome(self, parts)
        if not self.behaviour:
            return passed
        absent = Behaviour(judge=parts.judge, m=self.m, always=self.always, counts=parts.counts)
        return Conjunction(passed, absent, counts=parts.counts)


def recipe() -> Mirl:
    """MiRL with half of its starts at tasks."""
    return Mirl()


def published() -> Mirl:
    """MiRL as published: prefixes only."""
    return Mirl(share=1.0)
