"""Recipes side by side: one small file each, over shared parts. `get` finds them by name."""

from __future__ import annotations

from collections.abc import Callable

from misstep.train.recipes import ablations, mirl, pivotrl, rar, tmax
from misstep.train.recipes.base import Data, Parts, Recipe, RecipeError

RECIPES: dict[str, Callable[[], Recipe]] = {
    "mirl": mirl.recipe,
    "tmax": tmax.recipe,
    "pivotrl": pivotrl.recipe,
    "rar": rar.recipe,
    "prefix-starts": ablations.prefix_starts,
    "behaviour-reward": ablations.behaviour_reward,
    "environment-selection": ablations.environment_selection,
}
"""By name, with the share of starts that the paper has (`mirl`: half and half)."""


def get(name: str) -> Recipe:
    """A recipe. Raises RecipeError: none has that name."""
    if name not in RECIPES:
        raise RecipeError(f"no recipe is named {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]()


__all__ = ["RECIPES", "Data", "Parts", "Recipe", "RecipeError", "get"]
