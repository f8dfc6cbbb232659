"""A hard limit in money and tokens over all calls of a run, reruns included."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from misstep.models.errors import ModelError


class BudgetExceeded(ModelError):
    """The next call could go beyond the budget: it was not made."""


@dataclass
class Spent:
    """What calls have cost, failed ones too."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    """Calls without a known price."""

    def add(self, tokens: int, usd: float | None) -> None:
        """One more call."""
        self.calls += 1
        self.tokens += tokens
        self.usd += usd or 0.0
        self.unpriced += usd is None


@dataclass(frozen=True)
class Hold:
    """What a call in flight may cost at most, by estimate."""

    tokens: int
    usd: float


class Budget:
    """Holds back what the calls in flight may cost, so that the limit is passed by an estimate's error at most."""

    def __init__(self, usd: float | None = None, tokens: int | None = None, spent: Spent | None = None) -> None:
        self.usd, self.tokens = usd, tokens
        self.spent = spent or Spent()
        self._held = Hold(0, 0.0)
        self._settled = asyncio.Condition()

    async def hold(self, hold: Hold) -> None:
        """Waits for calls in flight where they may use up the rest.

        Raises:
            BudgetExceeded: without any call in flight this one would go beyond the limit.
        """
        async with self._settled:
            while not self._fits(hold, self._held):
                if not self._fits(hold, Hold(0, 0.0)):
                    raise BudgetExceeded(self._says())
                await self._settled.wait()
            self._held = Hold(self._held.tokens + hold.tokens, self._held.usd + hold.usd)

    async def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """A call has ended: what it held back is free, what it cost is spent."""
        async with self._settled:
            self._held = Hold(self._held.tokens - hold.tokens, self._held.usd - hold.usd)
            self.spent.add(tokens, usd)
            self._settled.notify_all()

    def _fits(self, hold: Hold, held: Hold) -> bool:
        tokens = self.spent.tokens + held.tokens + hold.tokens
        usd = self.spent.usd + held.usd + hold.usd
        return (self.tokens is None or tokens <= self.tokens) and (self.usd is None or usd <= self.usd + 1e-12)

    def _says(self) -> str:
        parts = []
        if self.usd is not None:
            parts.append(f"${self.spent.usd:.4g} of ${self.usd:g}")
        if self.tokens is not None:
            parts.append(f"{self.spent.tokens:,} of {self.tokens:,} tokens")
        return f"the budget is used up ({', '.join(parts)}; the next call could go beyond it)"
