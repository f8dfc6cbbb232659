"""Which candidate of a slot counts, and what runs next: the replacement rule, frozen with the design.

`first-fair` (FIRE): the original counts where it is an observation of the agent. Otherwise the first observation of its
recovery chain does: candidates 2, 3 ... up to `candidates`, in the order in which they ran. A chain goes on only after
every original has run: round after round, each in the order of the schedule, so that an outage of an hour does not use up
the chains of the slots that it met, and no slot is favoured. `none`: nothing is replaced.

What an attempt's outcome was plays no part. A decision is a function of the records alone, so lineage.jsonl can be made
again from attempts.jsonl at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from misstep.experiment.attempts import Attempt, fair

if TYPE_CHECKING:
    from misstep.experiment.plan.design import Replacement
    from misstep.experiment.plan.schedule import Slot

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Decision:
    """A line of lineage.jsonl."""

    slot: Key
    candidate: int
    trial: str
    decision: str
    """kept | replaced | exhausted, or dropped: the trial did not count as one and its candidate ran again."""
    why: str
    rule: str
    time: str

    def plain(self) -> dict[str, Any]:
        """As in the file."""
        return {**asdict(self), "slot": list(self.slot)}


def decided(attempt: Attempt, rule: Replacement, time: str) -> Decision:
    """What the rule says about a candidate."""
    last = rule.faults == "none" or attempt.candidate >= rule.candidates
    decision = "kept" if fair(attempt) else "exhausted" if last else "replaced"
    why = attempt.termination if fair(attempt) else attempt.fault or attempt.termination
    name = f"{rule.faults}/{rule.candidates}"
    return Decision(attempt.slot, attempt.candidate, attempt.trial, decision, why, name, time)


def rounds(slots: Sequence[Slot], attempts: Iterable[Attempt], rule: Replacement) -> Iterator[list[tuple[Slot, int]]]:
    """What is still to run: first the originals that are missing, then one round of candidates after the other.

    Ask again after each round: what the second holds depends on how the first one ended. An empty answer: nothing is left.
    """
    seen: dict[Key, list[Attempt]] = {}
    for attempt in attempts:
        seen.setdefault(attempt.slot, []).append(attempt)
    missing = [(slot, 1) for slot in slots if slot.key not in seen]
    if missing:
        yield missing
        return
    due = [(slot, candidate) for slot in slots for candidate in [following(seen[slot.key], rule)] if candidate]
    if due:
        first = min(candidate for _, candidate in due)
        yield [(slot, candidate) for slot, candidate in due if candidate == first]


def following(candidates: Sequence[Attempt], rule: Replacement) -> int:
    """The number of the candidate that a slot needs next, 0 where it needs none or may have none."""
    if any(map(fair, candidates)):
        return 0
    last = max((one.candidate for one in candidates), default=0)
    if rule.faults == "none":
        return 0 if last else 1
    return last + 1 if last < rule.candidates else 0


def settled(slots: Sequence[Slot], attempts: Iterable[Attempt], rule: Replacement) -> Mapping[Key, bool | None]:
    """Slot -> True: it has its observation; False: its chain is exhausted; None: something is still to run."""
    seen: dict[Key, list[Attempt]] = {slot.key: [] for slot in slots}
    for attempt in attempts:
        seen.setdefault(attempt.slot, []).append(attempt)
    return {
        key: True if any(map(fair, found)) else None if not found or following(found, rule) else False
        for key, found in seen.items()
    }
