"""One list of types from many independent proposals.

Proposals of one name are one. Those whose words are much alike are one, unless they are proposed beside each other: what tells
two types apart in the same batch takes them for two. For the rest the words only choose which pairs are compared: the annotator
says which are the same. It names what came together. The order of the proposals makes no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from misstep.profile.similarity import vectors
from misstep.profile.taxonomy import Key, slug

if TYPE_CHECKING:
    from misstep.profile.annotator import Annotator
    from misstep.profile.asking import Asker
    from misstep.profile.similarity import Matrix

Wording = tuple[str, str]
"""(name, definition)"""
ALIKE = 0.6
"""The mean cosine from which two groups are one without a question."""
ASKED = 0.1
"""The mean cosine below which nobody is asked."""
NEAREST = 3
"""Others that a group is compared with in a round."""
ROUNDS = 4
BESIDE = 1 / 3
"""The share of the smaller group's draws in which both were proposed, from which on they are two."""
OWN_WORDS = 0.6
"""Weight of a proposal's name and definition; the rest is that of its cards."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A type as one batch showed it."""

    name: str
    definition: str
    batch: int
    draw: int
    cards: tuple[Key, ...]

    @property
    def wording(self) -> Wording:
        return (self.name, self.definition)


@dataclass
class Group:
    """Proposals that are one type."""

    proposals: list[Proposal]
    named: Wording | None = None
    draws: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.proposals.sort(key=order)
        self.draws = {(one.batch, one.draw) for one in self.proposals}

    @property
    def wordings(self) -> list[Wording]:
        """The most frequent first."""
        return [one for one, _ in sorted(Counter(p.wording for p in self.proposals).items(), key=lambda i: (-i[1], i[0]))]  # fmt: skip

    @property
    def wording(self) -> Wording:
        """What it is called by now."""
        return self.named or self.wordings[0]

    @property
    def batches(self) -> set[int]:
        """In which it was proposed."""
        return {one.batch for one in self.proposals}

    @property
    def cards(self) -> list[Key]:
        """That it was proposed for, in order."""
        return sorted({key for one in self.proposals for key in one.cards})

    def beside(self, other: Group) -> bool:
        """Whether the annotator told the two apart."""
        return len(self.draws & other.draws) >= BESIDE * min(len(self.draws), len(other.draws))

    def with_(self, other: Group) -> Group:
        """Both together."""
        return Group([*self.proposals, *other.proposals])


def order(one: Proposal) -> Any:
    """By what it says: not by when it came."""
    return (slug(one.name), one.name, one.definition, one.batch, one.draw, one.cards)


async def merge(
    proposals: Iterable[Proposal], texts: Mapping[Key, str], annotator: Annotator, asker: Asker[Any], way: str
) -> list[Group]:
    """Groups with a name and a definition, in order of their ids. `texts` holds the cards.

    Raises:
        Stopped, ImportError.
    """
    every = sorted(proposals, key=order)
    if not every:
        return []
    space = _Space(every, texts, way)
    groups = agglomerate(by_name(every), space)
    asked: set[tuple[Wording, ...]] = set()
    for _ in range(ROUNDS):
        fewer = await _compared(groups, space, annotator, asker, asked)
        if len(fewer) == len(groups):
            break
        groups = fewer
    await _name(groups, texts, annotator, asker)
    return _of_one_name(groups)


def by_name(proposals: Sequence[Proposal]) -> list[Group]:
    """Proposals of one name together; sorted ones are given."""
    return [Group(list(group)) for _, group in groupby(proposals, key=lambda one: slug(one.name))]


class _Space:
    """Where proposals stand by their words; a group stands at the mean of its proposals."""

    def __init__(self, proposals: Sequence[Proposal], texts: Mapping[Key, str], way: str) -> None:
        import numpy as np

        said = vectors([f"{one.name}. {one.definition}" for one in proposals], way)
        shown = vectors(["\n".join(texts[key] for key in one.cards if key in texts) for one in proposals], way)
        whole = np.hstack([said * OWN_WORDS**0.5, shown * (1 - OWN_WORDS) ** 0.5])
        self._at = {one: whole[n] for n, one in enumerate(proposals)}

    def means(self, groups: Sequence[Group]) -> Matrix:
        """The product of two rows is the mean cosine of the two groups' proposals."""
        import numpy as np

        return np.stack([np.mean([self._at[one] for one in group.proposals], axis=0) for group in groups])


def agglomerate(groups: list[Group], space: _Space) -> list[Group]:
    """Average linkage: the two groups most alike become one, down to ALIKE, but for those proposed beside each other."""
    import numpy as np

    if len(groups) < 2:
        return groups
    kept: list[Group | None] = list(groups)
    means = space.means(groups)
    like = means @ means.T
    np.fill_diagonal(like, -np.inf)
    partner, best = like.argmax(1), like.max(1)

    def refresh(rows: Any) -> None:
        partner[rows], best[rows] = like[rows].argmax(1), like[rows].max(1)

    while True:
        i = int(best.argmax())
        j = int(partner[i])
        if best[i] < ALIKE:
            return [one for one in kept if one is not None]
        first, second = kept[i], kept[j]
        assert first is not None
        assert second is not None
        if first.beside(second):
            like[i, j] = like[j, i] = -np.inf
            refresh([i, j])
            continue
        a, b = len(first.proposals), len(second.proposals)
        kept[i], kept[j] = first.with_(second), None
        means[i] = (a * means[i] + b * means[j]) / (a + b)
        alive = np.array([one is not None for one in kept])
        fresh = np.where(alive, means @ means[i], -np.inf)
        fresh[i] = -np.inf
        like[i], like[:, i] = fresh, fresh
        like[j] = like[:, j] = -np.inf
        stale = np.flatnonzero((partner == i) | (partner == j) | (fresh > best))
        refresh(np.union1d(stale, [i, j]))


async def _compared(
    groups: list[Group], space: _Space, annotator: Annotator, asker: Asker[Any], asked: set[tuple[Wording, ...]]
) -> list[Group]:
    """The groups after the annotator compared near ones; a failure counts as different."""
    pairs = []
    for alike, i, j in _near(groups, space):
        both = tuple(sorted((groups[i].wording, groups[j].wording)))
        if both not in asked:
            asked.add(both)
            pairs.append((alike, i, j))
    same: list[tuple[float, int, int]] = []

    async def ask(pair: tuple[float, int, int]) -> bool:
        return await annotator.same(groups[pair[1]].wording, groups[pair[2]].wording)

    await asker.all("same", pairs, ask, lambda pair, answer, failure: same.append(pair) if answer else None, len(pairs))
    into = list(range(len(groups)))
    now: list[Group | None] = list(groups)
    for _, i, j in sorted(same, key=lambda one: (-one[0], one[1], one[2])):
        i, j = sorted((_root(into, i), _root(into, j)))
        first, second = now[i], now[j]
        if i == j or first is None or second is None or first.beside(second):
            continue
        now[i], now[j], into[j] = first.with_(second), None, i
    return [one for one in now if one is not None]


def _root(into: list[int], i: int) -> int:
    while into[i] != i:
        i = into[i]
    return i


def _near(groups: list[Group], space: _Space) -> list[tuple[float, int, int]]:
    """(mean cosine, i, j) of pairs of which one is among the other's nearest, but for those proposed beside each other."""
    import numpy as np

    if len(groups) < 2:
        return []
    means = space.means(groups)
    found: dict[tuple[int, int], float] = {}
    for i in range(len(groups)):
        like = means @ means[i]
        like[i] = -np.inf
        left = NEAREST
        for j in map(int, np.argsort(-like, kind="stable")):
            if like[j] < ASKED or not left:
                break
            if not groups[i].beside(groups[j]):
                found[(min(i, j), max(i, j))] = round(float(like[j]), 9)
                left -= 1
    return sorted((alike, i, j) for (i, j), alike in found.items())


async def _name(groups: list[Group], texts: Mapping[Key, str], annotator: Annotator, asker: Asker[Any]) -> None:
    """One name and definition each; where the annotator gives none, the most frequent wording stays."""
    several = [one for one in groups if len(one.wordings) > 1]

    async def ask(group: Group) -> Wording:
        return await annotator.name(group.wordings, [texts[key] for key in group.cards if key in texts])

    def keep(group: Group, named: Wording | None, failure: str) -> None:
        group.named = named

    await asker.all("name", several, ask, keep, len(several))


def _of_one_name(groups: list[Group]) -> list[Group]:
    """Groups that came to be called the same are the same; the description of the larger stays."""
    made = []
    ordered = sorted(groups, key=lambda one: (slug(one.wording[0]), -len(one.proposals), one.wording))
    for _, some in groupby(ordered, key=lambda one: slug(one.wording[0])):
        first, *rest = some
        whole = first
        for one in rest:
            whole = whole.with_(one)
        whole.named = first.wording
        made.append(whole)
    return made
