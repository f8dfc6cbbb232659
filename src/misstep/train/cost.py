"""What a training run costs up to a checkpoint: rollouts, environments, tokens, GPU hours, money (MiRL, cost).

Nothing is guessed: a part whose price or count is not known is None, and so is a sum that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one kind of work, by what they are charged as."""

    uncached: int = 0
    """Input that the server had not seen."""
    cached: int = 0
    """Input that it had: the turns before, in a multi-turn episode."""
    output: int = 0
    trained: int = 0
    """Tokens that went through the trainer, forward and backward."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 0:
                raise ValueError(f"{one.name} tokens are at least 0, not {getattr(self, one.name)}")

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.uncached + other.uncached,
            self.cached + other.cached,
            self.output + other.output,
            self.trained + other.trained,
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens of each kind; None: not known."""

    uncached: float | None = None
    cached: float | None = None
    output: float | None = None
    trained: float | None = None

    def of(self, tokens: Tokens) -> float | None:
        """Dollars; None where a kind of which there are tokens has no price."""
        total = 0.0
        for one in fields(self):
            count, price = getattr(tokens, one.name), getattr(self, one.name)
            if count and price is None:
                return None
            total += count * (price or 0.0) / 1e6
        return total


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rollouts a recipe makes.

    steps: optimiser steps up to the checkpoint; prompts: groups that train in a step; group: rollouts of a group;
    dropped: the share of groups without signal, dropped and filled up again, in [0, 1).
    """

    steps: int
    prompts: int
    group: int
    dropped: float = 0.0

    def __post_init__(self) -> None:
        if min(self.steps, self.prompts, self.group) < 1:
            raise ValueError(f"steps, prompts and group are at least 1, not {self.steps}, {self.prompts}, {self.group}")
        if not 0.0 <= self.dropped < 1.0:
            raise ValueError(f"the dropped share is at least 0 and below 1, not {self.dropped}")

    @property
    def rollouts(self) -> float:
        """S B G / (1 - d): what trains, and what had to be made for it."""
        return self.steps * self.prompts * self.group / (1.0 - self.dropped)

    @property
    def environments(self) -> float:
        """Starts that are drawn, each once: the rollouts over the size of a group."""
        return self.rollouts / self.group


TMAX_4B = Plan(steps=200, prompts=8, group=32, dropped=0.325)
"""TMax-4B up to its best checkpoint: 75.9 thousand rollouts from 2,370 environments."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What was spent, preprocessing (profiling, replay, judging) included."""

    rollouts: int = 0
    gpu_hours: float | None = 0.0
    """None: not measured."""
    tokens: Tokens = Tokens()
    usd: float | None = 0.0

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            self.rollouts + other.rollouts,
            _sum(self.gpu_hours, other.gpu_hours),
            self.tokens + other.tokens,
            _sum(self.usd, other.usd),
        )


def bill(
    rollouts: int,
    tokens: Tokens,
    prices: Prices,
    *,
    gpu_hours: float | None = None,
    usd_per_gpu_hour: float | None = None,
) -> Bill:
    """A part of the bill: by token prices, or by the hour where GPUs are rented (then tokens have no price of their own)."""
    by_hour = None if gpu_hours is None or usd_per_gpu_hour is None else gpu_hours * usd_per_gpu_hour
    return Bill(rollouts, gpu_hours, tokens, prices.of(tokens) if usd_per_gpu_hour is None else by_hour)


def up_to(parts: Iterable[Bill]) -> Bill:
    """The sum of all parts up to a checkpoint. A part that is not known makes the sum not known."""
    total = Bill()
    for part in parts:
        total = total + part
    return total


def share(part: float | None, whole: float | None) -> float | None:
    """A part of what another run cost; None where either is not known or the whole is nothing."""
    return None if part is None or not whole else part / whole


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second
