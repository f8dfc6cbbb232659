"""Anytime-valid monitoring of a running panel: look after every task, stop whenever you like, keep the error rate."""

from __future__ import annotations

#: Shares of the wealth staked on the next difference, for and against.
BETS = tuple(sign * size / 20 for size in (1, 2, 4, 6, 9, 13, 18) for sign in (1, -1))


class Monitor:
    """An e-process over paired task differences in [-1, 1], fed in an order fixed before the outcomes were known.

    Null: given the tasks before it, each difference has mean 0. Then the evidence (a mixture of the wealth of fixed bets) is a
    martingale that starts at 1, so that P(it ever reaches 1 / alpha) <= alpha. Two-sided.

    >>> monitor = Monitor()
    >>> [round(monitor.update(d), 2) for d in (0.5, 0.5, 1, 0, 1)]
    [1.0, 1.06, 1.28, 1.28, 1.76]
    """

    def __init__(self) -> None:
        self.tasks = 0
        self.peak = 1.0
        self._wealth = [1.0] * len(BETS)

    @property
    def evidence(self) -> float:
        """The e-value now: how many times the stake has grown."""
        return sum(self._wealth) / len(BETS)

    @property
    def p(self) -> float:
        """The anytime-valid p-value: valid at any stopping time, and never increasing."""
        return min(1.0, 1.0 / self.peak)

    def update(self, difference: float) -> float:
        """Take in the next task's difference (a proportion in [-1, 1]); returns the evidence. Raises ValueError outside that."""
        if not -1.0 <= difference <= 1.0:
            raise ValueError(f"a task's difference is between -1 and 1, not {difference!r}")
        self._wealth = [w * (1.0 + bet * difference) for w, bet in zip(self._wealth, BETS, strict=True)]
        self.tasks += 1
        self.peak = max(self.peak, self.evidence)
        return self.evidence
