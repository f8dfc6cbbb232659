"""From error cards to a first list of types: batches, independent proposals, merge, recurrence (MiRL, taxonomy)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from misstep.profile.cards import Card
from misstep.profile.merging import Group, Proposal, merge
from misstep.profile.taxonomy import ErrorType, Key, Taxonomy, examples, slug

if TYPE_CHECKING:
    from misstep.profile.annotator import Annotator, ProposedType
    from misstep.profile.asking import Asker

SMALLEST = 5
"""Cards of a batch at least, where there are as many environments."""


class TooFew(ValueError):
    """Not enough for a taxonomy: none is guessed. The text is one line."""


@dataclass(frozen=True)
class Parameters:
    """What decides a taxonomy, besides the model and its prompts."""

    size: int = 50
    """Cards of a batch at most."""
    draws: int = 2
    """Independent proposals of each batch."""
    recur: int = 3
    """Batches in which a type is proposed at least."""
    seed: int = 0
    """Of what stands in which batch."""
    similarity: str = "words"
    """See `similarity.WAYS`."""
    assigned: int = 20
    """Cards that are assigned in one question, in refinement."""
    gain: float = 0.01
    """The share of cards that a pass adds at least: two in a row below it end refinement."""
    share: float = 0.01
    """The share of cards that a type has at least."""
    passes: int = 10
    """Of refinement at most."""


def batches(cards: Sequence[Card], size: int, seed: int, least: int = 1) -> list[list[Card]]:
    """The cards in batches of at most `size`, no two of one environment in any; batches below `least` are left out.

    Each batch takes the environments that have most cards left, so that few cards are left over. The order of the cards
    given makes no difference.
    """
    left: dict[str, list[Card]] = defaultdict(list)
    for card in sorted(cards, key=lambda one: (_hash(seed, one.identity), one.key)):
        left[card.task].append(card)
    made = []
    while left:
        chosen = nlargest(size, left, key=lambda task: (len(left[task]), _hash(seed, task)))
        batch = [left[task].pop() for task in chosen]
        left = {task: cards for task, cards in left.items() if cards}
        if len(batch) >= least:
            made.append(sorted(batch, key=lambda one: _hash(seed, one.identity)))
    return made


def size_of(cards: int, parameters: Parameters) -> int:
    """Cards of a batch: fewer than asked for where there would be too few batches for a type to recur in."""
    return max(min(parameters.size, cards // (2 * parameters.recur)), min(SMALLEST, parameters.size))


def _hash(seed: int, what: object) -> bytes:
    return blake2b(f"{seed}\0{what!r}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


async def build(
    cards: Sequence[Card], annotator: Annotator, asker: Asker[Any], parameters: Parameters, made: Mapping[str, Any]
) -> Taxonomy:
    """The types that recur, as a draft. `made` says what it was made with.

    Raises:
        TooFew: there are too few cards for a type to recur; Stopped, ImportError.
    """
    written = [one for one in cards if one.card]
    environments = len({one.task for one in written})
    least = min(SMALLEST, environments)
    sorted_in = batches(written, size_of(len(written), parameters), parameters.seed, least)
    if len(sorted_in) < parameters.recur:
        raise TooFew(
            f"{len(written)} error cards of {environments} environments make {len(sorted_in)} batches of different "
            f"environments; a type has to recur in {parameters.recur}"
        )
    texts = {one.key: one.card for one in written}
    proposals: list[Proposal] = []

    async def ask(one: tuple[int, int, list[Card]]) -> list[ProposedType]:
        return await annotator.propose([card.card for card in one[2]], one[1])

    def keep(one: tuple[int, int, list[Card]], found: list[ProposedType] | None, failure: str) -> None:
        proposals.extend(proposal(each, one[2], one[0], one[1]) for each in found or ())

    # Another order of the cards in each draw: draws differ also where the model is asked without chance.
    questions = [
        (number, draw, sorted(batch, key=lambda one: _hash(parameters.seed + draw, one.identity)))
        for number, batch in enumerate(sorted_in)
        for draw in range(parameters.draws)
    ]
    await asker.all("propose", questions, ask, keep, len(questions))
    groups = await merge(proposals, texts, annotator, asker, parameters.similarity)
    recurring = [one for one in groups if len(one.batches) >= parameters.recur]
    by_key = {one.key: one for one in written}
    return Taxonomy(
        "built",
        {**made, "parameters": asdict(parameters)},
        tuple(type_of(one, by_key) for one in recurring),
        tail=tuple(tail(one, "does not recur") for one in groups if len(one.batches) < parameters.recur),
        cards=len(written),
        batches=len(sorted_in),
        asked={**asker.counted(), "card": _written(cards)},
    )


def _written(cards: Sequence[Card]) -> dict[str, int]:
    """Counted from the cards themselves: those that an earlier run made count too."""
    kinds = Counter(one.failure.partition(":")[0] for one in cards if one.failure)
    return {"asked": len(cards), **dict(sorted(kinds.items()))}


def proposal(given: ProposedType, cards: Sequence[Card], batch: int, draw: int) -> Proposal:
    """What the annotator proposed for some cards of a batch."""
    from misstep.profile.annotator import line

    return Proposal(
        line(given.name), line(given.definition), batch, draw, tuple(sorted(cards[n].key for n in given.cards))
    )


def type_of(group: Group, cards: Mapping[Key, Card], since: int = 0) -> ErrorType:
    """A type from what was proposed for it."""
    name, definition = group.wording
    shown = examples((key, cards[key].task, cards[key].card) for key in group.cards)
    return ErrorType(slug(name), name, definition, since, len(group.batches), len(group.cards), shown)


def tail(group: Group, why: str) -> dict[str, Any]:
    """What is listed of a group that is not kept."""
    name, definition = group.wording
    return {
        "name": name,
        "definition": definition,
        "batches": len(group.batches),
        "cards": len(group.cards),
        "why": why,
    }
