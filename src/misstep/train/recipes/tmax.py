"""TMax: RL from the beginning of tasks, rewarded by their tests; what MiRL builds on and is compared with.

Starts: tasks (share 0; with a share above 0, misstep prefixes as well, still rewarded by the tests alone). Reward: r_o. Loss: DPPO.
Advantages are centred and not divided by the deviation; groups without deviation are dropped and refilled; no KL term.
"""

from __future__ import annotations

from dataclasses import dataclass

from misstep.train.recipes.base import Recipe


@dataclass(frozen=True, slots=True)
class Tmax(Recipe):
    """TMax's settings are the shared ones."""

    name: str = "tmax"
    share: float = 0.0
    """TMax, training setup: every rollout begins at a task."""

    SECTIONS = {**Recipe.SECTIONS, "share": "TMax, training setup: tasks only"}


def recipe() -> Tmax:
    """TMax as published."""
    return Tmax()
