"""MiRL's ablations, each a configuration of `mirl` (MiRL, ablations).

prefix-starts           prefixes, tests alone                              the paper: +7.9 / +1.5 points over TMax
behaviour-reward        task starts, tests AND no misstep                  +6.5 / +3.3
environment-selection   task starts where missteps happened, tests alone   lower scores, more zero-signal groups
"""

from __future__ import annotations

from misstep.train.recipes.mirl import Mirl


def prefix_starts(share: float = 1.0) -> Mirl:
    """Where rollouts start, alone."""
    return Mirl(name="prefix-starts", share=share, behaviour=False)


def behaviour_reward(share: float = 0.0) -> Mirl:
    """What they are rewarded for, alone."""
    return Mirl(name="behaviour-reward", share=share)


def environment_selection(share: float = 0.0) -> Mirl:
    """Harder environments, alone."""
    return Mirl(name="environment-selection", share=share, behaviour=False, selected=True)
