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
    usd: float | None
    """None where no price is known."""


class Budget:
    """Holds back what the calls in flight may cost, so that the limit is passed by an estimate's error at most."""

    def __init__(self, usd: float | None = None, tokens: int | None = None, spent: Spent | None = None) -> None:
        self.usd, self.tokens = usd, tokens
        self.spent = spent or Spent()
        self._held, self._flying = Hold(0, 0.0), 0
        self._waiting: list[asyncio.Future[None]] = []

    async def hold(self, hold: Hold) -> None:
        """Waits for calls in flight where they may use up the rest.

        Raises:
            BudgetExceeded: without any call in flight this one would go beyond the limit.
        """
        while not self._fits(hold, self._held):
            if not self._fits(hold, Hold(0, 0.0)):
                raise BudgetExceeded(self._says())
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(settled)
            await settled
        self._flying += 1
        self._held = Hold(self._held.tokens + hold.tokens, (self._held.usd or 0.0) + (hold.usd or 0.0))

    def settle(self, hold: Hold, tokens: int, usd: float | None) -> None:
        """A call has ended: what it held back is free, what it cost is spent."""
        self._flying -= 1
        left = Hold(self._held.tokens - hold.tokens, (self._held.usd or 0.0) - (hold.usd or 0.0))
        self._held = left if self._flying else Hold(0, 0.0)  # (sums of floats are not exact)
        self.spent.add(tokens, usd)
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            if not settled.done():
                settled.set_result(None)

    def _fits(self, hold: Hold, held: Hold) -> bool:
        tokens = self.spent.tokens + held.tokens + hold.tokens
        usd = self.spent.usd + (held.usd or 0.0) + (hold.usd or 0.0)
        return (self.tokens is None or tokens <= self.tokens) and (self.usd is None or usd <= self.usd + 1e-12)

    def _says(self) -> str:
        parts = []
        if self.usd is not None:
            parts.append(f"${self.spent.usd:.4g} of ${self.usd:g}")
        if self.tokens is not None:
            parts.append(f"{self.spent.tokens:,} of {self.tokens:,} tokens")
        return f"the budget is used up ({', '.join(parts)}; the next call could go beyond it)"
