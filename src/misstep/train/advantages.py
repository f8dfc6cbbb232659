"""Advantages: centred within a group and not divided by its deviation (TMax; MiRL keeps them).

A group is the rollouts of one start. A reward that is None (a fault, an unknown) leaves the baseline and gets advantage 0. A
group whose known rewards are all alike teaches nothing: it is dropped, and another start is drawn in its place (refilling).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from misstep.train.episode import Episode

Rewards = Sequence[float | None]
Group = list[Episode]
"""The episodes of one start."""


def _known(rewards: Rewards) -> NDArray[np.float64]:
    """The rewards that are numbers. Raises ValueError at one that is not finite."""
    known = np.array([one for one in rewards if one is not None], dtype=np.float64)
    if not np.isfinite(known).all():
        raise ValueError(f"a reward is not a finite number: {list(rewards)}")
    return known


def centred(rewards: Rewards) -> NDArray[np.float64]:
    """r - mean(known r) for each known reward, 0 for None. Shape (G,)."""
    known = _known(rewards)
    mean = known.mean() if known.size else 0.0
    return np.array([0.0 if one is None else one - mean for one in rewards], dtype=np.float64)


def zero_signal(rewards: Rewards) -> bool:
    """Whether a group teaches nothing: fewer than two known rewards, or all of them alike."""
    known = _known(rewards)
    return known.size < 2 or bool(np.ptp(known) < 1e-9)


def rewards_of(group: Sequence[Episode]) -> list[float | None]:
    """The rewards of a group's episodes."""
    return [one.reward for one in group]


@dataclass(slots=True)
class Filled:
    """The groups of one RL step, and what it took to get them."""

    groups: list[Group] = field(default_factory=list)
    """With signal, in the order of the draws; at most as many as were wanted."""
    drawn: int = 0
    dropped: list[Group] = field(default_factory=list)
    """Zero-signal groups, in the order of the draws."""
    unknown: int = 0
    """Of the dropped: those with fewer than two known rewards, so by faults and not by likeness."""
    surplus: list[Group] = field(default_factory=list)
    """With signal, beyond what was wanted (a round of drawing may give more)."""

    @property
    def zero_share(self) -> float:
        """d: share of zero-signal groups among those drawn; rollouts of a run = S B G / (1 - d) (MiRL, cost)."""
        return len(self.dropped) / self.drawn if self.drawn else 0.0

    @property
    def episodes(self) -> list[Episode]:
        """Of all groups that are trained on."""
        return [episode for group in self.groups for episode in group]

    @property
    def advantages(self) -> NDArray[np.float64]:
        """Of `episodes`, in their order. Shape (number of episodes,)."""
        made = [centred(rewards_of(group)) for group in self.groups]
        return np.concatenate(made) if made else np.zeros(0)


async def fill(draw: Callable[[int], Awaitable[Sequence[Group]]], wanted: int, *, most: int) -> Filled:
    """Draws groups until `wanted` of them have signal, or `most` were drawn.

    Args:
        draw: gives so many groups of fresh starts, rolled out at once.
        wanted: groups to train on (TMax: 8).
        most: groups drawn at most; a step may then have fewer than wanted.
    """
    filled = Filled()
    while len(filled.groups) < wanted and filled.drawn < most:
        asked = min(wanted - len(filled.groups), most - filled.drawn)
        made = await draw(asked)
        if not made:
            break
        filled.drawn += len(made)
        for group in made:
            rewards = rewards_of(group)
            if zero_signal(rewards):
                filled.dropped.append(group)
                filled.unknown += sum(one is not None for one in rewards) < 2
            else:
                (filled.groups if len(filled.groups) < wanted else filled.surplus).append(group)
    return filled
