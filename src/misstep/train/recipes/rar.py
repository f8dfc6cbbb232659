"""RaR+: Rubrics as Rewards beside the tests, from the beginning of tasks.

A rubric of 7 to 20 items is written once a task, offline, by a model (RaR, rubric generation): essential, important, optional, pitfall,
with weights 1.0, 0.7, 0.3, 0.9 (ours). Reward: the explicit sum of w c over the sum of w, or the judge's one number (RaR,
explicit and implicit aggregation), combined with the tests: their sum (ours by default), their product, or a gate.
"""

from __future__ import annotations

from dataclasses import dataclass

from misstep.train.recipes.base import Parts, Recipe, RecipeError, outcome
from misstep.train.rewards import Combine, Combined, Reward, Rubric


@dataclass(frozen=True, slots=True)
class Rar(Recipe):
    """Rubrics as Rewards, on TMax's settings."""

    name: str = "rar"
    share: float = 0.0
    implicit: bool = False
    combine: Combine = "sum"

    SECTIONS = {
        **Recipe.SECTIONS,
        "share": "RaR, setup: tasks only",
        "implicit": "RaR, explicit and implicit aggregation",
        "combine": "RaR+ of MiRL's comparison: rubric and tests; the sum is ours",
    }

    def reward(self, parts: Parts) -> Reward:
        if parts.rubrics is None or parts.rubric_judge is None:
            raise RecipeError("rar: rubrics of the tasks and a judge that grades by them are needed")
        graded = Rubric(parts.rubrics, parts.rubric_judge, implicit=self.implicit, counts=parts.counts)
        return Combined(outcome(self, parts), graded, self.combine, counts=parts.counts)


def recipe() -> Rar:
    """RaR+ with the explicit sum."""
    return Rar()
