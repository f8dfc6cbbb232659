"""Judges: does one type of misstep occur in a few steps (MiRL, the behaviour judge); is one step as good as another (PivotRL)?

A judge answers yes, no, or nothing: a failure of the model, of its server or of the time limit is None, never a no. The
deterministic judge of the catalogue comes first where there is a detector, behind the same interface.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from misstep.catalogue import Misstep, definition, get
from misstep.catalogue.fold import judge as fold
from misstep.models import ModelError
from misstep.profile.likeness import SIMILAR, alike
from misstep.profile.localizer import KINDS
from misstep.profile.prompts import Prompt, load
from misstep.profile.view import Room, Views
from misstep.trajectory import Trajectory, events

if TYPE_CHECKING:
    from misstep.models import Client, Message
    from misstep.profile.taxonomy import ErrorType

try:
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as error:  # pragma: no cover
    raise ImportError("judges need more packages: pip install 'misstep[models]'") from error

T = TypeVar("T", bound=BaseModel)
M = 3
"""Steps after a prefix that are judged (MiRL's m; 1 to 5; the default is ours)."""
SECONDS = 600.0
"""Of one question, with all its tries and its wait for a free connection."""
BEFORE = Room(task=6_000, prefix=6_000, text=800, output=800)
"""Of what came before the judged steps."""
JUDGED = Room(prefix=24_000, text=3_000, output=3_000)
"""Of the judged steps: a quarter of `prefix` each at most."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a judge says."""

    holds: bool | None
    """Yes, no; None: nothing, for the reason in `failure`."""
    reason: str = ""
    failure: str = ""
    """`kind: message` with kind invalid | unreachable | rejected | budget | offline | timeout | unknown."""
    by: str = "model"
    """model | similarity | catalogue"""


@dataclass(slots=True)
class Counts:
    """What a judge was asked, and how that ended."""

    kinds: Counter[str] = field(default_factory=Counter)
    """yes | no | similarity, and the kinds of failure."""
    cached: int = 0
    """Of the model's answers, those from the cache."""

    @property
    def asked(self) -> int:
        return self.kinds.total()

    def add(self, ruling: Ruling) -> Ruling:
        if ruling.by == "similarity":
            self.kinds["similarity"] += 1
        elif ruling.holds is None:
            self.kinds[ruling.failure.partition(":")[0]] += 1
        else:
            self.kinds["yes" if ruling.holds else "no"] += 1
        return ruling

    def plain(self) -> dict[str, int]:
        """For JSON."""
        return {"asked": self.asked, "cached": self.cached, **dict(sorted(self.kinds.items()))}


@runtime_checkable
class Sought(Protocol):
    """The type that is looked for."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str:
        """Completes 'the agent ...'."""
        ...

    @property
    def definition(self) -> str: ...
    @property
    def examples(self) -> Sequence[str]:
        """Each a few steps in words."""
        ...


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A `Sought`."""

    id: str
    name: str
    definition: str
    examples: tuple[str, ...] = ()


@runtime_checkable
class BehaviourJudge(Protocol):
    """Looks for one type in some steps of a trajectory."""

    name: str
    counts: Counts

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides its answers."""
        ...

    async def judge(self, trajectory: Trajectory, first: int, end: int, sought: Sought) -> Ruling:
        """Whether it occurs in the steps from `first` (position in `Trajectory.steps`) to before `end`. Never raises a ModelError."""
        ...


def window(trajectory: Trajectory, first: int, m: int | None = M) -> tuple[int, int]:
    """(first, end) of the m next turns of the agent, positions in the steps; None: all that follow. Fewer where the record ends."""
    steps = trajectory.steps
    left = len(steps) if m is None else m
    for number in range(first, len(steps)):
        if steps[number].source == "agent" and not steps[number].copied:
            left -= 1
            if left == 0:
                return first, number + 1
    return first, len(steps)


class CatalogueJudge:
    """The detector of a misstep of the catalogue.

    It sees the whole trajectory, what was built up before the steps and what is shown after them; its verdicts count only where
    they are about one of the steps.
    """

    name = "catalogue"

    def __init__(self, missteps: Callable[[str], Misstep] = get) -> None:
        self._missteps, self.counts = missteps, Counts()

    @property
    def identity(self) -> dict[str, Any]:
        """See `BehaviourJudge`."""
        import misstep

        return {"catalogue": misstep.__version__}

    def knows(self, sought: Sought) -> bool:
        """Whether there is a detector."""
        try:
            self._missteps(sought.id)
        except KeyError:
            return False
        return True

    async def judge(self, trajectory: Trajectory, first: int, end: int, sought: Sought) -> Ruling:
        """See `BehaviourJudge`. Unknown where there is no occurrence, and of some step the detector cannot tell."""
        return self.counts.add(self._ruled(trajectory, first, end, sought))

    def _ruled(self, trajectory: Trajectory, first: int, end: int, sought: Sought) -> Ruling:
        try:
            misstep = self._missteps(sought.id)
        except KeyError:
            return Ruling(None, failure="unknown: the catalogue has no detector of this type", by="catalogue")
        steps = {event.index: event.step for event in events(trajectory)}
        try:
            found = fold(trajectory, [misstep]).verdicts.get(misstep.id, [])
        except Exception as error:  # of a detector, on what it was not written for
            return Ruling(
                None, failure=f"unknown: the detector failed: {type(error).__name__}: {error}", by="catalogue"
            )
        mine = [one for one in found if first <= steps.get(one.at, -1) < end]
        for one in mine:
            if one.holds:
                return Ruling(True, one.why, by="catalogue")
        for one in mine:
            if one.holds is None:
                return Ruling(None, failure=f"unknown: {one.why}", by="catalogue")
        return Ruling(False, "the opportunity was there" if mine else "there was no opportunity", by="catalogue")


class Said(BaseModel):
    """The behaviour judge's answer."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(description="One or two sentences: the step, and what in it decides.")
    answer: Literal["yes", "no"]


class Asking:
    """What the judges by model share: a role, a time limit, counts."""

    prompts: Sequence[str] = ()

    def __init__(self, client: Client, role: str = "judge", *, seconds: float = SECONDS, name: str = "") -> None:
        self.client, self.role, self.seconds, self.counts = client, role, seconds, Counts()
        self.name = name or client.settings.role(role).model

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides its answers."""
        role = self.client.settings.role(self.role)
        return {
            "model": role.model,
            "sampling": role.sampling(),
            "structured": role.structured,
            "prompts": [prompt.identity for prompt in self.loaded()],
        }

    @classmethod
    def loaded(cls) -> list[Prompt]:
        """Its prompts."""
        return [load(name) for name in cls.prompts]

    async def ask(self, messages: list[Message], form: type[T], check: Callable[[T], str | None] | None = None) -> T:
        """A valid answer. Raises ModelError."""
        reply = await self.client.ask(self.role, messages, form, check=check)
        self.counts.cached += reply.cached
        return reply.value

    async def within(self, work: Coroutine[Any, Any, Ruling]) -> Ruling:
        """The ruling, counted; None where there was none in time."""
        return self.counts.add(await limited(work, self.seconds))


async def limited(work: Coroutine[Any, Any, Ruling], seconds: float | None) -> Ruling:
    """What the work gives, or a ruling of None with the failure's kind."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return Ruling(None, failure=f"timeout: no answer in {seconds:g} s")
    except ModelError as error:
        return Ruling(None, failure=f"{KINDS.get(type(error), 'cache')}: {' '.join(str(error).split())[:300]}")


class ModelBehaviourJudge(Asking):
    """The behaviour judge by a model: it sees the task, the m next steps, the type's name, definition and examples.

    Args:
        before: characters of the steps before that it sees as well; 0: none, as in the paper. Many types cannot be told without
            (a copy made before an overwrite, an output seen before a claim), so some are shown by default.
    """

    prompts = ("judge_behaviour",)

    def __init__(
        self,
        client: Client,
        role: str = "judge",
        *,
        before: int = BEFORE.prefix,
        seconds: float = SECONDS,
        name: str = "",
    ) -> None:
        super().__init__(client, role, seconds=seconds, name=name)
        self._room = Room(BEFORE.task, before, BEFORE.text, BEFORE.output)
        self._prompt = load("judge_behaviour")

    @property
    def identity(self) -> dict[str, Any]:
        """See `BehaviourJudge`."""
        return {**super().identity, "before": self._room.identity, "judged": JUDGED.identity}

    async def judge(self, trajectory: Trajectory, first: int, end: int, sought: Sought) -> Ruling:
        """See `BehaviourJudge`."""
        return await self.within(self._judged(trajectory, first, end, sought))

    async def _judged(self, trajectory: Trajectory, first: int, end: int, sought: Sought) -> Ruling:
        context = Views(trajectory, self._room)
        messages = self._prompt.render(
            name=sought.name.rstrip("."),
            definition=sought.definition,
            examples="\n\n".join(f"Example {n}:\n{text}" for n, text in enumerate(sought.examples, 1)) or "(none)",
            task=context.task,
            before=(context.before(first) if self._room.prefix else "") or "(none, or not shown)",
            steps=told(trajectory, first, end) or "(the agent did nothing more)",
        )
        said = await self.ask(messages, Said)
        return Ruling(said.answer == "yes", said.reason.strip())


def told(trajectory: Trajectory, first: int, end: int, room: Room = JUDGED) -> str:
    """Some steps in words, with what they gave, and whether the agent's work ended with them."""
    views = Views(trajectory, room)
    lines = [text for number in range(first, end) if (text := views.told(number))]
    if end >= len(trajectory.steps) and lines:
        lines.append(ending(trajectory))
    return "\n".join(lines)


def ending(trajectory: Trajectory) -> str:
    """How a trajectory ends, in words."""
    last = trajectory.steps[-1] if trajectory.steps else None
    stops = last is not None and last.source == "agent" and last.stop is not False
    return "(here the agent ended its work)" if stops else "(the record ends here)"


# -- equivalence of steps --------------------------------------------------------------------------------------------------


class Compared(BaseModel):
    """The equivalence judge's answer."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(description="One or two sentences: the decisive difference, or that there is none.")
    execution_stage: bool
    action_type: bool
    scope_parity: bool
    functional_equivalence: bool
    answer: Literal["yes", "no"]

    @property
    def points(self) -> dict[str, bool]:
        return {
            name: getattr(self, name)
            for name in ("execution_stage", "action_type", "scope_parity", "functional_equivalence")
        }


def _consistent(made: Compared) -> str | None:
    if all(made.points.values()) == (made.answer == "yes"):
        return None
    return "answer is yes if all four points are true, and only then"


class EquivalenceJudge(Asking):
    """May a candidate step stand for the reference (PivotRL)? Not the other way round.

    Args:
        similar: similarity of the two texts from which it may, without a question; None: always ask.
    """

    prompts = ("judge_equivalence",)

    def __init__(
        self,
        client: Client,
        role: str = "judge",
        *,
        similar: float | None = SIMILAR,
        seconds: float = SECONDS,
        name: str = "",
    ) -> None:
        super().__init__(client, role, seconds=seconds, name=name)
        self.similar, self._prompt = similar, load("judge_equivalence")

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides its answers."""
        return {**super().identity, "similar": self.similar}

    async def judge(self, task: str, before: str, reference: str, candidate: str) -> Ruling:
        """The steps as their commands, or in words; `before` tells the situation. Never raises a ModelError."""
        if self.similar is not None and alike(reference, candidate, self.similar):
            return self.counts.add(Ruling(True, "the two texts are alike", by="similarity"))
        return await self.within(self._judged(task, before, reference, candidate))

    async def _judged(self, task: str, before: str, reference: str, candidate: str) -> Ruling:
        messages = self._prompt.render(
            task=task or "(not recorded)", before=before or "(none)", reference=reference, candidate=candidate
        )
        made = await self.ask(messages, Compared, _consistent)
        against = [name.replace("_", " ") for name, holds in made.points.items() if not holds]
        reason = made.reason.strip()
        return Ruling(made.answer == "yes", f"{reason} (against: {', '.join(against)})" if against else reason)


def of_catalogue(misstep: Misstep, examples: Sequence[str] = ()) -> Behaviour:
    """A misstep of the catalogue as a type to look for: its page says what it is."""
    return Behaviour(misstep.id, misstep.name, definition(misstep), tuple(examples))


def digest(identity: dict[str, Any]) -> str:
    """12 hexadecimal digits of what decides a judge's answers."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def of_error_type(given: ErrorType, examples: int = 3) -> Behaviour:
    """A type of a taxonomy as a type to look for; its error cards are the examples."""
    return Behaviour(given.id, given.name, given.definition, tuple(one.card for one in given.examples[:examples]))
