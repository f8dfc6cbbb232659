"""How good a localizer is: its answers against the marks that people made (Who&When, AgentRx).

Two protocols of the literature. All at once: the whole record in one question, which step was it? Step by step: our localizer's
own question of each step in turn, from what came before it; the first bad one is the answer. The deterministic
catalogue stands beside them: its first occurrence is its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.catalogue import judge
from misstep.models import ModelError
from misstep.profile.attribution import Run, as_trajectory
from misstep.profile.beside import chosen
from misstep.profile.labels import PASSING
from misstep.profile.lines import Lines
from misstep.profile.localizer import KINDS, Localizer, failure
from misstep.profile.prompts import Prompt, load
from misstep.profile.summary import Share
from misstep.scan.record import ends

if TYPE_CHECKING:
    from misstep.models import Client, Role

try:
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as error:  # pragma: no cover
    raise ImportError("profiling with models needs more packages: pip install 'misstep[models]'") from error

ALL_AT_ONCE, STEP_BY_STEP, CATALOGUE = "all-at-once", "step-by-step", "catalogue"
PROTOCOLS = (ALL_AT_ONCE, STEP_BY_STEP)
TOLERANCES = (0, 1, 2, 3, 4, 5)
FILE, SCHEMA, VERSION = "localizer.jsonl", "misstep.localizer", 1
RECORD, TURN, TASK = 60_000, 6_000, 6_000
"""Characters at most: of a whole record, of a step in it, of a task."""


class Located(BaseModel):
    """The answer of all at once."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(description="One or two sentences.")
    step: int = Field(description="The number of the step that holds the decisive mistake.")
    agent: str = Field(description="Who made it.")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one protocol says of one run."""

    dataset: str
    id: str
    protocol: str
    step: int | None = None
    """The predicted step; None: none was found bad, or there is no answer (`failure`)."""
    agent: str = ""
    """Who is said to have made the mistake: as named (all at once), else the agent of the step."""
    reason: str = ""
    failure: str = ""
    """Why there is no answer: `kind: message`."""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.dataset, self.id, self.protocol)

    def plain(self) -> dict[str, Any]:
        """As kept in the file."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class Score:
    """A protocol over the runs of a data set. Shares are of the runs with an answer; one that found no step is wrong."""

    dataset: str
    protocol: str
    runs: int
    failures: dict[str, int]
    """Kind -> runs without an answer."""
    silent: int
    """Answered, and no step was found bad."""
    within: dict[int, Share]
    """Tolerance -> answers at most so many steps from the marked one; 0: the step accuracy."""
    agent: Share
    any: Share
    """Answers that name some marked step, where several are."""
    chance: float
    """Step accuracy of a guess among the steps of each run."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        shares = {str(k): share.plain() for k, share in self.within.items()}
        return {**vars(self), "within": shares, "agent": self.agent.plain(), "any": self.any.plain()}


def prompts(protocols: Sequence[str]) -> list[Prompt]:
    """What decides the answers."""
    names = {ALL_AT_ONCE: "locate", STEP_BY_STEP: "localize"}
    return [load(names[one]) for one in protocols]


def header(protocols: Sequence[str], role: Role, votes: int) -> dict[str, Any]:
    """The first line of a file of answers: all that decides what is in it."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "prompts": [one.identity for one in prompts(PROTOCOLS)],
        "models": {"localizer": role.model},
        "sampling": role.sampling(),
        "structured": role.structured,
        "votes": votes,
    }


def lines(folder: Path, head: dict[str, Any]) -> Lines:
    """The file of answers, open for going on with it. Raises LinesError."""
    return Lines(
        folder / FILE,
        head,
        key=lambda one: (one["dataset"], one["id"], one["protocol"]),
        final=lambda one: one["failure"].partition(":")[0] not in PASSING,
    )


async def evaluate(runs: Sequence[Run], protocols: Sequence[str], client: Client, kept: Lines, votes: int = 1) -> None:
    """Answers what is not yet answered, several runs at once. Raises what is no failure of one run (CacheError ...)."""
    localizer = Localizer(client)
    todo = iter([(run, name) for name in protocols for run in runs if (*run.key, name) not in kept])

    async def worker() -> None:
        for run, name in todo:
            answer = await (at_once(run, client) if name == ALL_AT_ONCE else by_step(run, localizer, votes))
            kept.add(answer.plain())

    workers = [asyncio.ensure_future(worker()) for _ in range(2 * client.settings.role("localizer").concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for one in workers:
            one.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    kept.finish()


async def at_once(run: Run, client: Client) -> Answer:
    """All at once: which step of the whole record was it?"""
    messages = load("locate").render(
        task=ends(run.task, TASK),
        record=record(run),
        first=0,
        last=len(run.turns) - 1,
        agents=", ".join(run.agents),
    )

    def check(given: Located) -> str | None:
        if 0 <= given.step < len(run.turns):
            return None
        return f"step must be a number from 0 to {len(run.turns) - 1}, not {given.step}"

    try:
        said = (await client.ask("localizer", messages, Located, check=check)).value
    except ModelError as error:
        if type(error) not in KINDS:
            raise
        return Answer(*run.key, ALL_AT_ONCE, failure=failure(error))
    return Answer(*run.key, ALL_AT_ONCE, said.step, said.agent.strip(), said.reason.strip())


async def by_step(run: Run, localizer: Localizer, votes: int = 1) -> Answer:
    """Step by step: the first that our localizer calls bad, from the steps before it alone."""
    from misstep.profile.view import View

    room = turn_room(run)
    told = [f"[step {n}] {turn.agent}: {ends(turn.text, room)}" for n, turn in enumerate(run.turns)]
    for n in range(len(run.turns)):
        view = View(n, 0, ends(run.task, TASK), "\n".join(told[:n]), told[n])
        opinion = await localizer.judge(view, votes)
        if opinion.verdict is None:
            return Answer(*run.key, STEP_BY_STEP, failure=opinion.failure)
        if opinion.verdict == "bad":
            return Answer(*run.key, STEP_BY_STEP, n, run.turns[n].agent, opinion.reason)
    return Answer(*run.key, STEP_BY_STEP)


def record(run: Run) -> str:
    """All steps, numbered from 0 whatever the data set counts from; long ones keep their start and end."""
    room = turn_room(run)
    return "\n".join(f"[step {n}] {turn.agent}: {ends(turn.text, room)}" for n, turn in enumerate(run.turns))


def turn_room(run: Run) -> int:
    """Characters that each step may take."""
    return max(200, min(TURN, RECORD // max(1, len(run.turns))))


def by_catalogue(runs: Iterable[Run]) -> Iterator[Answer]:
    """The catalogue's answers: the first occurrence, for runs in which some detector had something to judge."""
    detectors = chosen()
    for run in runs:
        found = judge(as_trajectory(run), detectors)
        if not any(found.verdicts.values()):
            continue
        places = _steps(run)
        holds = [(one.at, name, one.why) for name, said in found.verdicts.items() for one in said if one.holds]
        if not holds:
            yield Answer(*run.key, CATALOGUE)
            continue
        at, name, why = min(holds)
        step = places[at]
        yield Answer(*run.key, CATALOGUE, step, run.turns[step].agent, f"{name}: {why}"[:300])


def _steps(run: Run) -> list[int]:
    from misstep.trajectory import events

    return [event.step for event in events(as_trajectory(run))]


def scores(runs: Sequence[Run], answers: Iterable[Answer]) -> list[Score]:
    """By data set and protocol, for those that have an answer."""
    labelled = {run.key: run for run in runs}
    groups: dict[tuple[str, str], list[Answer]] = {}
    for one in answers:
        if (one.dataset, one.id) in labelled:
            groups.setdefault((one.dataset, one.protocol), []).append(one)
    return [_score(dataset, protocol, found, labelled) for (dataset, protocol), found in sorted(groups.items())]


def _score(dataset: str, protocol: str, found: Sequence[Answer], labelled: dict[tuple[str, str], Run]) -> Score:
    kinds = [one.failure.partition(":")[0] for one in found if one.failure]
    answered = [(one, labelled[one.dataset, one.id]) for one in found if not one.failure]
    away = [None if one.step is None else abs(one.step - run.step) for one, run in answered]
    return Score(
        dataset,
        protocol,
        len(found),
        {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        away.count(None),
        {k: Share(sum(d is not None and d <= k for d in away), len(away), exact=True) for k in TOLERANCES},
        Share(
            sum(one.step is not None and _same(one.agent, run.agent) for one, run in answered), len(away), exact=True
        ),
        Share(sum(one.step in run.steps for one, run in answered), len(away), exact=True),
        sum(1 / len(run.turns) for _, run in answered) / len(answered) if answered else 0.0,
    )


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()
