"""The error localizer: is a proposed call wrong or impossible? (MiRL, profiling: asked before the call runs.)

It sees the task and the steps before, never what the call gave. Needs the extra `models`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from misstep.models import BudgetExceeded, InvalidAnswer, ModelError, NotCached, Rejected, Unreachable
from misstep.profile.prompts import Prompt, load

if TYPE_CHECKING:
    from misstep.models import Client
    from misstep.profile.view import View, Views

try:
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as error:  # pragma: no cover
    raise ImportError("profiling with models needs more packages: pip install 'misstep[models]'") from error

KINDS = {
    InvalidAnswer: "invalid",
    Unreachable: "unreachable",
    Rejected: "rejected",
    BudgetExceeded: "budget",
    NotCached: "offline",
}
"""Failures that are a step's own; any other error ends the run."""


class Judged(BaseModel):
    """What the model says of one call."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(description="One or two sentences: what decides it.")
    verdict: Literal["good", "bad"]


class JudgedCall(Judged):
    """One of several."""

    number: int = Field(description="The number of the call.")


class JudgedCalls(BaseModel):
    """What the model says of several calls."""

    model_config = ConfigDict(extra="forbid")
    calls: list[JudgedCall]


@dataclass(frozen=True, slots=True)
class Opinion:
    """What some votes come to."""

    verdict: str | None
    """good | bad: what more than half of the votes asked for say. None: unknown."""
    reason: str = ""
    """Of the first vote that says so."""
    confidence: float | None = None
    """The share of the votes asked for that agree with the verdict; None for a single vote."""
    votes: tuple[str | None, ...] = ()
    failure: str = ""
    """Why there is no verdict: `kind: message`."""


class Localizer:
    """The model of a role, asked about calls."""

    def __init__(self, client: Client, role: str = "localizer") -> None:
        self.client, self.role = client, role
        self._one, self._several = load("localize"), load("localize_batch")

    @staticmethod
    def prompts(batch: int = 1) -> tuple[Prompt, ...]:
        """What decides its answers, for a result's header."""
        return (load("localize"),) if batch == 1 else (load("localize"), load("localize_batch"))

    async def judge(self, view: View, votes: int = 1) -> Opinion:
        """One proposed call, by so many independent votes. Raises what is no failure of this step's own (CacheError ...)."""
        messages = self._one.render(**view.values())

        async def vote(sample: int) -> Judged:
            return (await self.client.ask(self.role, messages, Judged, sample=sample)).value

        if votes == 1:  # (the common case, without a task of its own)
            try:
                return decide([await vote(0)])
            except ModelError as error:
                return decide([error])
        return decide(await asyncio.gather(*map(vote, range(votes)), return_exceptions=True))

    async def judge_all(self, views: Views, places: Sequence[tuple[int, int]], votes: int = 1) -> list[Opinion]:
        """Several calls of one trajectory, (step, call) in order, in one question a vote.

        The model sees the steps before the first of them; of the others it sees the calls alone: what any of them gave, or what
        the agent then said of it, would tell the result of a call that is judged. Cheaper, and blinder, than one at a time.
        """
        return await self.judge_run(*run_of(views, places), votes)

    async def judge_run(self, first: View, more: Sequence[str], votes: int = 1) -> list[Opinion]:
        """The same, of what `run_of` gave."""
        if not more:
            return [await self.judge(first, votes)]
        count = 1 + len(more)
        told = "\n\n".join(f"Call number {n}:\n{text}" for n, text in enumerate([first.proposed, *more], 1))
        messages = self._several.render(**{**first.values(), "proposed": told}, count=count)

        def check(given: JudgedCalls) -> str | None:
            numbers = sorted(one.number for one in given.calls)
            if numbers == list(range(1, count + 1)):
                return None
            return f"calls must hold the numbers 1 to {count}, each once, not {numbers[:50]}"

        async def vote(sample: int) -> list[JudgedCall]:
            reply = await self.client.ask(self.role, messages, JudgedCalls, check=check, sample=sample)
            return sorted(reply.value.calls, key=lambda one: one.number)

        found = await asyncio.gather(*map(vote, range(votes)), return_exceptions=True)
        return [decide([one if isinstance(one, BaseException) else one[n] for one in found]) for n in range(count)]


def run_of(views: Views, places: Sequence[tuple[int, int]]) -> tuple[View, tuple[str, ...]]:
    """What is shown of several calls: the view of the first, and the other calls alone."""
    return views.at(*places[0]), tuple(views.proposed(*place, said_too=False) for place in places[1:])


def decide(votes: Sequence[Judged | BaseException]) -> Opinion:
    """What the votes come to. A vote that another run may yet get (no money, no server) leaves it open.

    Raises:
        the first error among them that is no failure of the step's own.
    """
    for vote in votes:
        if isinstance(vote, BaseException) and type(vote) not in KINDS:
            raise vote
    said = tuple(vote.verdict if isinstance(vote, Judged) else None for vote in votes)
    failed = [vote for vote in votes if isinstance(vote, BaseException)]
    waiting = next((vote for vote in failed if not isinstance(vote, InvalidAnswer)), None)
    if waiting is not None:
        return Opinion(None, votes=said, failure=failure(waiting))
    for verdict in ("good", "bad"):
        agree = said.count(verdict)
        if 2 * agree > len(said):
            reason = next(vote.reason for vote in votes if isinstance(vote, Judged) and vote.verdict == verdict)
            return Opinion(verdict, reason.strip(), agree / len(said) if len(said) > 1 else None, said)
    if 2 * len(failed) >= len(said):
        return Opinion(None, votes=said, failure=failure(failed[0]))
    return Opinion(
        None, votes=said, failure=f"split: {said.count('good')} good, {said.count('bad')} bad of {len(said)}"
    )


def failure(error: BaseException) -> str:
    """`kind: message`, for an error of `KINDS`."""
    return f"{KINDS[type(error)]}: {' '.join(str(error).split())[:300]}"
