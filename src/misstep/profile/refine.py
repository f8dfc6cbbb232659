"""Passes over all cards: each is assigned to types there are, and what several share that no type covers becomes one.

(MiRL, taxonomy: refinement.) A pass looks at the cards that no pass before it could assign, in other batches each time; within a pass
no batch knows of another, so that their order makes no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from misstep.profile.build import Parameters, batches, proposal, tail, type_of
from misstep.profile.cards import Card
from misstep.profile.merging import Group, Proposal, Wording, by_name, merge, order
from misstep.profile.taxonomy import ErrorType, Key, Taxonomy, examples, slug

if TYPE_CHECKING:
    from misstep.profile.annotator import Annotator, ProposedType
    from misstep.profile.asking import Asker


TWINS, TWIN_CARDS = 0.5, 5
"""Jaccard index of their cards from which on two types are one; cards that each has at least."""
WORDINGS = 3
"""Of a group, that are compared with a type."""


@dataclass
class _State:
    """Where refinement stands."""

    types: list[ErrorType]
    assigned: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """Of cards with at least one type."""
    passes: list[dict[str, Any]] = field(default_factory=list)
    tail: list[Mapping[str, Any]] = field(default_factory=list)
    left: list[Proposal] = field(default_factory=list)
    """Of which no type was made yet: more may be said for them in a later pass."""

    def coverage(self, cards: int) -> float:
        return len(self.assigned) / cards if cards else 0.0


async def refine(
    taxonomy: Taxonomy, cards: Sequence[Card], annotator: Annotator, asker: Asker[Any], parameters: Parameters
) -> Taxonomy:
    """The refined draft: types of at least `share` of the cards, with how coverage grew.

    Raises:
        Stopped, ImportError.
    """
    written = [one for one in cards if one.card]
    state = _State(list(taxonomy.types), tail=list(taxonomy.tail))
    while not _ended(state, parameters):
        await _pass(state, written, annotator, asker, parameters)
    _twins(state)
    counts = Counter(name for names in state.assigned.values() for name in names)
    kept: list[ErrorType] = []
    small: list[ErrorType] = []
    for one in sorted(state.types, key=lambda each: each.id):
        enough = counts[one.id] >= max(1, parameters.share * len(written))
        (kept if enough else small).append(_with_cards(one, written, state.assigned))
    state.tail += [tail(one, "of few cards, or one environment") for one in by_name(sorted(_still(state), key=order))]
    state.tail += [
        {
            "name": one.name,
            "definition": one.definition,
            "batches": one.batches,
            "cards": one.cards,
            "why": f"below {parameters.share:g} of the cards",
        }
        for one in small
    ]
    return replace(
        taxonomy,
        stage="refined",
        types=tuple(kept),
        tail=tuple(state.tail),
        passes=tuple(state.passes),
        cards=len(written),
        asked=_added(taxonomy.asked, {what: n for what, n in asker.counted().items() if what != "card"}),
    )


def _ended(state: _State, parameters: Parameters) -> bool:
    """Two passes added too little, and no new type waits for its cards."""
    last = state.passes[-2:]
    little = len(last) == 2 and all(one["gain"] < parameters.gain for one in last) and not last[-1]["added"]
    return not state.types or little or len(state.passes) >= parameters.passes


async def _pass(
    state: _State, cards: Sequence[Card], annotator: Annotator, asker: Asker[Any], parameters: Parameters
) -> None:
    number = len(state.passes) + 1
    open_ = [one for one in cards if one.key not in state.assigned]
    mixed = [one for batch in batches(open_, len(open_) or 1, parameters.seed + number) for one in batch]
    groups = [mixed[at : at + parameters.assigned] for at in range(0, len(mixed), parameters.assigned)]
    before, types = len(state.assigned), tuple(state.types)
    found: list[tuple[int, list[Card], list[tuple[str, ...]], list[ProposedType]]] = []

    async def ask(one: tuple[int, list[Card]]) -> tuple[list[tuple[str, ...]], list[ProposedType]]:
        return await annotator.assign(types, [card.card for card in one[1]])

    def keep(
        one: tuple[int, list[Card]],
        answer: tuple[list[tuple[str, ...]], list[ProposedType]] | None,
        failure: str,
    ) -> None:
        if answer is not None:
            found.append((*one, *answer))

    await asker.all("assign", list(enumerate(groups)), ask, keep, len(groups))
    proposals: list[Proposal] = []
    for at, batch, names, new in found:
        state.assigned.update({card.key: ids for card, ids in zip(batch, names, strict=True) if ids})
        proposals += [proposal(one, batch, at, number) for one in new]
    proposals = [*_still(state), *proposals]
    added = await _new(state, proposals, cards, annotator, asker, parameters, number)
    state.passes.append(
        {
            "pass": number,
            "types": len(types),
            "asked": len(open_),
            "covered": len(state.assigned),
            "coverage": round(state.coverage(len(cards)), 6),
            "gain": round((len(state.assigned) - before) / len(cards), 6),
            "added": sorted(one.id for one in added),
        }
    )
    state.types += added


async def _new(
    state: _State,
    proposals: Sequence[Proposal],
    cards: Sequence[Card],
    annotator: Annotator,
    asker: Asker[Any],
    parameters: Parameters,
    number: int,
) -> list[ErrorType]:
    """What was proposed and is not covered yet, but for what the annotator says is a type that there is already."""
    from misstep.profile.annotator import SEVERAL

    by_key = {one.key: one for one in cards}
    texts = {one.key: one.card for one in cards}
    ids = {one.id for one in state.types}
    groups = await merge(proposals, texts, annotator, asker, parameters.similarity)
    fresh = [one for one in groups if slug(one.wording[0]) not in ids]
    environments = {one.task for one in cards}
    shared: list[Group] = []
    alone: list[Group] = []
    for one in fresh:
        spread = len({by_key[key].task for key in one.cards})
        several = len(one.cards) >= SEVERAL and spread >= min(2, len(environments))
        (shared if several else alone).append(one)
    known = await _known(shared, state.types, annotator, asker, parameters.similarity)
    state.left = [each for one in groups if one in alone or id(one) in known for each in one.proposals]
    return [type_of(one, by_key, number) for one in shared if id(one) not in known]


async def _known(
    groups: Sequence[Group], types: Sequence[ErrorType], annotator: Annotator, asker: Asker[Any], way: str
) -> set[int]:
    """The id() of the groups that the annotator takes for one of the three types nearest to them.

    Their cards were just held to be of none of those types: it has to say so of more than half of a group's wordings.
    """
    import numpy as np

    from misstep.profile.merging import NEAREST
    from misstep.profile.similarity import vectors

    if not groups or not types:
        return set()
    told = [f"{name}. {definition}" for name, definition in (one.wording for one in groups)]
    rows = vectors([*told, *(f"{one.name}. {one.definition}" for one in types)], way)
    like = rows[: len(told)] @ rows[len(told) :].T
    pairs = [
        (n, types[int(j)], wording)
        for n, row in enumerate(like)
        for j in np.argsort(-row, kind="stable")[:NEAREST]
        for wording in groups[n].wordings[:WORDINGS]
    ]
    said: Counter[tuple[int, str]] = Counter()

    async def ask(pair: tuple[int, ErrorType, Wording]) -> bool:
        return await annotator.same(pair[2], (pair[1].name, pair[1].definition))

    def keep(pair: tuple[int, ErrorType, Wording], answer: bool | None, failure: str) -> None:
        said[pair[0], pair[1].id] += bool(answer)

    await asker.all("same", pairs, ask, keep, len(pairs))
    return {id(groups[n]) for (n, _), count in said.items() if 2 * count > len(groups[n].wordings[:WORDINGS])}


def _still(state: _State) -> Iterator[Proposal]:
    """What was proposed before for cards that are still covered by nothing."""
    for one in state.left:
        cards = tuple(key for key in one.cards if key not in state.assigned)
        if cards:
            yield replace(one, cards=cards)


def _twins(state: _State) -> None:
    """Two types that hold of much the same cards are one, whatever was said of their words: the larger stays."""
    while True:
        cards = {one.id: {key for key, names in state.assigned.items() if one.id in names} for one in state.types}
        pairs = sorted(
            (-len(cards[a.id] & cards[b.id]) / len(cards[a.id] | cards[b.id]), a.id, b.id)
            for n, a in enumerate(state.types)
            for b in state.types[n + 1 :]
            if min(len(cards[a.id]), len(cards[b.id])) >= TWIN_CARDS
        )
        if not pairs or -pairs[0][0] < TWINS:
            return
        stays, goes = sorted(pairs[0][1:], key=lambda name: (-len(cards[name]), name))
        gone = next(one for one in state.types if one.id == goes)
        state.types.remove(gone)
        for key in cards[goes]:
            state.assigned[key] = tuple(sorted({*state.assigned[key], stays} - {goes}))
        state.tail.append(
            {
                "name": gone.name,
                "definition": gone.definition,
                "batches": gone.batches,
                "cards": len(cards[goes]),
                "why": f"holds of the same cards as {stays}",
            }
        )


def _with_cards(one: ErrorType, cards: Sequence[Card], assigned: Mapping[Key, tuple[str, ...]]) -> ErrorType:
    """The type with its cards counted; as examples, cards of no other type before those of several."""
    mine = [card for card in cards if one.id in assigned.get(card.key, ())]
    only = examples((card.key, card.task, card.card) for card in mine if len(assigned[card.key]) == 1)
    if len(only) < 5:
        taken = {example.key for example in only}
        more = examples((card.key, card.task, card.card) for card in mine if card.key not in taken)
        only = (*only, *more)[:5]
    return replace(one, cards=len(mine), examples=only)


def _added(one: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Counts of both stages together."""
    return {
        what: {
            kind: one.get(what, {}).get(kind, 0) + other.get(what, {}).get(kind, 0)
            for kind in sorted({*one.get(what, {}), *other.get(what, {})})
        }
        for what in sorted({*one, *other})
    }
