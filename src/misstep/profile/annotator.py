"""The annotator: the one place that asks a model about errors and their types (MiRL, taxonomy).

Every answer is checked by what can be checked without a model: numbers and ids that are there, one sentence, no word of the task.
What stays wrong after the client's repairs is a failure, never a guess. Needs the extra `models`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from misstep.profile.prompts import Prompt, load
from misstep.profile.taxonomy import ErrorType, slug

if TYPE_CHECKING:
    from misstep.models import Client
    from misstep.profile.cards import Case

try:
    from pydantic import BaseModel, ConfigDict, Field, create_model
except ImportError as error:  # pragma: no cover
    raise ImportError("a taxonomy needs more packages: pip install 'misstep[models]'") from error

CARD, NAME, DEFINITION = 300, 80, 600
"""Characters at most."""
SEVERAL = 3
"""Cards of no type that must share a pattern before a new type is proposed for it."""
MOST_TYPES = 15
"""Types that one batch may propose."""
SHOWN = 8
"""Wordings, and cards, that are shown of one type."""


class Form(BaseModel):
    """An answer: no field but those named."""

    model_config = ConfigDict(extra="forbid")


class WrittenCard(Form):
    """An error card."""

    card: str = Field(description="One sentence, free of the task.")


class Described(Form):
    """A type's name and definition."""

    name: str = Field(description="Completes 'The agent ...'.")
    definition: str


class ProposedType(Described):
    """A type with the cards that are of it."""

    cards: list[int] = Field(description="Numbers of the cards.")


class ProposedTypes(Form):
    """What a batch shows."""

    types: list[ProposedType]


class Compared(Form):
    """Of two types."""

    reason: str
    verdict: Literal["same", "different"]


class AssignedCard(Form):
    """A card with its types."""

    card: int
    types: list[str]


class Assigned(Form):
    """A batch with its types, and those that are missing."""

    cards: list[AssignedCard]
    new: list[ProposedType]


class Labelled(Form):
    """A step with its types."""

    reason: str
    labels: list[str]


@lru_cache(64)
def labelled(ids: tuple[str, ...]) -> type[Labelled]:
    """The form with the ids that there are: a server that holds a model to a schema lets it invent none."""
    return create_model("Labelled", __base__=Labelled, labels=(list[Literal[ids]], ...))  # type: ignore[valid-type]


class Annotator:
    """The model of a role, asked about errors."""

    def __init__(self, client: Client, role: str = "annotator") -> None:
        self.client, self.role = client, role

    @property
    def identity(self) -> dict[str, Any]:
        """What of the model decides its answers."""
        role = self.client.settings.role(self.role)
        return {"model": role.model, "sampling": role.sampling(), "structured": role.structured}

    @property
    def at_once(self) -> int:
        """Questions that it has use for at a time."""
        return self.client.settings.role(self.role).concurrency + 4

    async def card(self, case: Case) -> str:
        """The error card of a step."""
        reply = await self.client.ask(
            self.role,
            _prompt("card").render(**case.values()),
            WrittenCard,
            check=lambda given: wrong_card(given.card, case),
        )
        return line(reply.value.card)

    async def propose(self, cards: Sequence[str], draw: int) -> list[ProposedType]:
        """Types that the cards share; each with at least two of them, numbers from 0."""

        def check(given: ProposedTypes) -> str | None:
            if len(given.types) > MOST_TYPES:
                return f"at most {MOST_TYPES} types, not {len(given.types)}"
            return _wrong_types(given.types, range(1, len(cards) + 1))

        reply = await self.client.ask(
            self.role, _prompt("propose_types").render(cards=numbered(cards)), ProposedTypes, check=check, sample=draw
        )
        return [one for one in map(_counted_from_0, reply.value.types) if len(one.cards) > 1]

    async def same(self, first: tuple[str, str], second: tuple[str, str]) -> bool:
        """Whether two (name, definition) are one type. The order of the two makes no difference."""
        first, second = sorted((first, second))
        reply = await self.client.ask(
            self.role, _prompt("same_type").render(first=described(*first), second=described(*second)), Compared
        )
        return reply.value.verdict == "same"

    async def name(self, wordings: Sequence[tuple[str, str]], cards: Sequence[str]) -> tuple[str, str]:
        """One (name, definition) for a type that was described in several ways, the most frequent first."""
        shown = "\n".join(f"- {described(*one)}" for one in wordings[:SHOWN])
        reply = await self.client.ask(
            self.role,
            _prompt("name_type").render(descriptions=shown, cards="\n".join(f"- {card}" for card in cards[:SHOWN])),
            Described,
            check=_wrong_description,
        )
        return line(reply.value.name), line(reply.value.definition)

    async def assign(
        self, types: Sequence[ErrorType], cards: Sequence[str]
    ) -> tuple[list[tuple[str, ...]], list[ProposedType]]:
        """The ids of each card's types, in order of the cards, and new types with the numbers (from 0) of their cards."""
        ids = {one.id for one in types}

        def check(given: Assigned) -> str | None:
            found = sorted(one.card for one in given.cards)
            if found != list(range(1, len(cards) + 1)):
                return f"cards must hold the numbers 1 to {len(cards)}, each once, not {found[:60]}"
            unknown = sorted({name for one in given.cards for name in one.types} - ids)
            if unknown:
                return f"{unknown[:5]} are not ids of the list: use only {sorted(ids)}"
            free = [one.card for one in given.cards if not one.types]
            return _wrong_types(given.new, free, "are not numbers of cards without a type")

        messages = _prompt("assign_types").render(
            types=listed(types, examples=2), cards=numbered(cards), several=SEVERAL
        )
        reply = await self.client.ask(self.role, messages, Assigned, check=check)
        by_number = {one.card: tuple(sorted(set(one.types))) for one in reply.value.cards}
        new = [one for one in map(_counted_from_0, reply.value.new) if len(one.cards) >= SEVERAL]
        return [by_number[n] for n in range(1, len(cards) + 1)], new

    async def label(self, types: Sequence[ErrorType], case: Case, draw: int = 0) -> tuple[tuple[str, ...], str]:
        """The ids of a step's types from the fixed list, sorted, and why."""
        ids = tuple(one.id for one in types)
        messages = _prompt("label_step").render(types=listed(types, examples=2), **case.values())
        reply = await self.client.ask(self.role, messages, labelled(ids), sample=draw)
        return tuple(sorted(set(reply.value.labels))), line(reply.value.reason)[:DEFINITION]


def _prompt(name: str) -> Prompt:
    return load(name)


def identities(*names: str) -> list[dict[str, Any]]:
    """Of prompts, for a header."""
    return [load(name).identity for name in sorted(names)]


def wrong_card(card: str, case: Case) -> str | None:
    """What keeps a text from being an error card, None where nothing does.

    Names of the task are told by form: a word with a slash, dot, underscore or digit in it that also stands in the call or the task.
    """
    text = line(card)
    if not 4 <= len(text.split()) <= 60 or len(text) > CARD:
        return f"card: one sentence of 4 to 60 words and at most {CARD} characters"
    if re.search(r"[.!?]\s+[A-Z]", text):
        return "card: one sentence, not several"
    seen = f"{case.proposed}\n{case.task}"
    for word in re.findall(r"[^\s`'\"(),;:]+", text):
        word = word.rstrip(".!?")
        if len(word) > 2 and re.search(r"[/._\d]", word) and word in seen:
            return f"card: {word!r} is of this task: say it without names of files, paths, programs and values"
    return None


def _wrong_types(types: Sequence[ProposedType], numbers: Sequence[int], why: str = "") -> str | None:
    """What is wrong with proposed types, None where nothing is."""
    known = set(numbers)
    for one in types:
        wrong = sorted(set(one.cards) - known)
        if wrong:
            return f"{one.name!r}: {wrong[:10]} {why or f'are not numbers of cards (1 to {len(known)})'}"
        problem = _wrong_description(one)
        if problem:
            return problem
    names = [slug(one.name) for one in types]
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"two types have the name {twice!r}" if twice else None


def _wrong_description(given: Described) -> str | None:
    if not slug(given.name) or len(line(given.name)) > NAME:
        return f"name: words of the letters a to z, at most {NAME} characters, not {given.name[:100]!r}"
    if len(given.definition.split()) < 3 or len(line(given.definition)) > DEFINITION:
        return f"definition: at least 3 words and at most {DEFINITION} characters"
    return None


def _counted_from_0(given: ProposedType) -> ProposedType:
    return given.model_copy(update={"cards": sorted({n - 1 for n in given.cards})})


def line(text: str) -> str:
    """On one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def numbered(cards: Sequence[str]) -> str:
    """As a model sees them: numbers from 1."""
    return "\n".join(f"{n}. {card}" for n, card in enumerate(cards, 1))


def described(name: str, definition: str) -> str:
    """A type on one line."""
    return f"{name}: {definition}"


def listed(types: Sequence[ErrorType], examples: int = 0) -> str:
    """The list of types, each with its id, its definition and some of its cards."""
    lines = []
    for one in types:
        lines.append(f"[{one.id}] The agent {one.name}. {one.definition}")
        lines += [f"    for example: {example.card}" for example in one.examples[:examples]]
    return "\n".join(lines)
