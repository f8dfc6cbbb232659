"""PivotRL's reward: is one candidate step functionally the same as the reference's? Needs no sandbox."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from misstep.profile.likeness import SIMILAR, alike
from misstep.train.rewards import Counts, Score, within


@runtime_checkable
class EquivalenceJudge(Protocol):
    """Compares two steps: stage of the work, kind of action, scope, and what they do. Raises JudgeError, or a ModelError."""

    async def equivalent(self, task: str, before: str, reference: str, candidate: str) -> bool | None:
        """None: it gave no clear answer."""
        ...


class Equivalence:
    """1 where the candidate does what the reference does, else 0; without a judge, alike texts only."""

    name = "equivalence"

    def __init__(
        self,
        judge: EquivalenceJudge | None = None,
        *,
        same: float = SIMILAR,
        seconds: float = 120.0,
        counts: Counts | None = None,
    ) -> None:
        self.judge, self.same, self.seconds = judge, same, seconds
        self.counts = counts or Counts()

    async def score(self, task: str, before: str, reference: str, candidate: str | None) -> Score:
        """Of a candidate step in the state that `before` tells; a turn without a command is 0."""
        if candidate is None:
            return self.counts.add(self.name, Score(0.0, "no command"))
        if alike(reference, candidate, self.same):
            return self.counts.add(self.name, Score(1.0, "alike"))
        if self.judge is None:
            return self.counts.add(self.name, Score(0.0, "another text"))
        found = await within(self.seconds, self.judge.equivalent(task, before, reference, candidate))
        if isinstance(found, Score):
            return self.counts.add(self.name, found)
        if found is None:
            return self.counts.add(self.name, Score(None, "judge: it cannot tell"))
        return self.counts.add(self.name, Score(float(found), "the judge says so"))
