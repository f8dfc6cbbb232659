"""Copies of one session in several files.

An agent that resumes a session starts a new file with the steps of the old one, so one session stands in several
files as growing prefixes; folders of runs get copied into each other. Of such records the longest is kept. Parts
without common steps (after a compaction, or a cleared context) are sessions of their own. The answer
does not depend on the order in which the records come.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


ID_BYTES = 6
"""Bytes of a step's hash."""
SAME = 0.9
"""A record with this share of its steps in a longer one is a copy of it."""


class Steps:
    """What is needed of one record to compare it."""

    __slots__ = ("ids", "key", "started")

    def __init__(self, key: tuple[str, int], ids: bytes, started: float) -> None:
        self.key = key
        """(path, n): unique, and the order of the records."""
        self.ids = ids
        """The step hashes, ID_BYTES each."""
        self.started = started


def copies(records: Iterable[Steps]) -> dict[tuple[str, int], tuple[str, int]]:
    """The records that are copies: {its key: the key of the record that is kept}."""
    owner: dict[bytes, tuple[str, int]] = {}
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for record in sorted(records, key=lambda r: (-len(r.ids), r.started, r.key)):
        hashes = {record.ids[i : i + ID_BYTES] for i in range(0, len(record.ids), ID_BYTES)}
        shared: dict[tuple[str, int], int] = {}
        for one in hashes:
            if one in owner:
                shared[owner[one]] = shared.get(owner[one], 0) + 1
        if shared:
            most = max(shared.values())
            if most >= SAME * len(hashes):
                found[record.key] = min(key for key, n in shared.items() if n == most)
                continue
        for one in hashes:
            owner.setdefault(one, record.key)
    return found
