"""The judges of `misstep.profile` as rewards ask them: their failures become faults that are counted, never a 0.

One failed question is one unknown reward. A judge of which nothing can be had any more (so many failures in a row, a budget that is
used up) ends the run: what it would go on with is rollouts without rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from misstep.train.rewards import Item, JudgeError, JudgeStopped, Question

if TYPE_CHECKING:
    from misstep.profile.judges import BehaviourJudge, EquivalenceJudge
    from misstep.profile.rubric import RubricScorer
    from misstep.train.episode import Attempt

IN_A_ROW = 64
"""Failures of the server, one after the other, after which there is no use in asking on."""
_SERVER = ("unreachable", "rejected", "timeout")
_OVER = ("budget", "offline")


class _Patience:
    """Tells one failure from a server that is gone."""

    def __init__(self, most: int = IN_A_ROW) -> None:
        self.most, self.row = most, 0

    def answer(self, holds: bool | None, failure: str) -> bool | None:
        """Raises JudgeError where there is a failure, JudgeStopped where there will be no other answer."""
        kind = failure.partition(":")[0]
        if holds is not None or kind == "unknown":
            self.row = 0
            return holds
        self.row = self.row + 1 if kind in _SERVER else 0
        if kind in _OVER or self.row >= self.most:
            raise JudgeStopped(failure if kind in _OVER else f"{self.row} questions in a row had no answer: {failure}")
        raise JudgeError(failure or "no answer")


class Behaving:
    """A `Judge` by a behaviour judge of `misstep.profile.judges`: a model, or the catalogue behind the same interface."""

    def __init__(self, judge: BehaviourJudge) -> None:
        self.judge, self._patience = judge, _Patience()

    async def occurs(self, question: Question) -> bool | None:
        """Whether the type occurs in the steps that are asked about."""
        made = await self.judge.judge(question.attempt.trajectory, question.first, question.end, question.target)
        return self._patience.answer(made.holds, made.failure)


class Comparing:
    """An `EquivalenceJudge` of rewards by the one of `misstep.profile.judges`."""

    def __init__(self, judge: EquivalenceJudge) -> None:
        self.judge, self._patience = judge, _Patience()

    async def equivalent(self, task: str, before: str, reference: str, candidate: str) -> bool | None:
        """Whether the candidate may stand for the reference."""
        made = await self.judge.judge(task, before, reference, candidate)
        return self._patience.answer(made.holds, made.failure)


class Grading:
    """A `RubricJudge` by a scorer of `misstep.profile.rubric`, which grades items or the whole, as it was made to."""

    def __init__(self, scorer: RubricScorer) -> None:
        self.scorer, self._patience = scorer, _Patience()

    async def _grade(self, attempt: Attempt, items: Sequence[Item]) -> Any:
        made = await self.scorer.grade(attempt.trajectory, items)  # type: ignore[arg-type]
        self._patience.answer(None if made.value is None else True, made.failure)
        return made

    async def met(self, attempt: Attempt, items: Sequence[Item]) -> Sequence[bool | None]:
        """Of each item whether it is met."""
        made = await self._grade(attempt, items)
        return list(made.met)

    async def score(self, attempt: Attempt, items: Sequence[Item]) -> float | None:
        """One number for the whole."""
        made = await self._grade(attempt, items)
        value: float | None = made.value
        return value
