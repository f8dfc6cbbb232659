"""Chances that depend on a key alone: the same on every machine, and in every version of Python.

`random` promises that of `random()` only, not of what chooses, shuffles and samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A stream of chances named by a key.

    Args:
        key: what names the stream, such as the family and the seed.
    """

    def __init__(self, *key: object) -> None:
        self._key = "\0".join(map(str, key)).encode()
        self._count = 0

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1. `limit` is at most 2**32."""
        room = 2**64 - 2**64 % limit
        while True:
            block = hashlib.sha256(self._key + b"\0%d" % self._count).digest()
            self._count += 1
            drawn = int.from_bytes(block[:8], "big")
            if drawn < room:  # else the small numbers would be more frequent
                return drawn % limit

    def between(self, first: int, last: int) -> int:
        """A number from first to last, both included."""
        return first + self.below(last - first + 1)

    def chance(self, percent: int) -> bool:
        """True in so many cases of a hundred."""
        return self.below(100) < percent

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        left = list(items)
        for last in range(len(left) - 1, 0, -1):
            other = self.below(last + 1)
            left[last], left[other] = left[other], left[last]
        return left

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """So many different ones of the items."""
        if count > len(items):
            raise ValueError(f"{count} of {len(items)} items")
        left = list(items)
        for first in range(count):
            other = first + self.below(len(left) - first)
            left[first], left[other] = left[other], left[first]
        return left[:count]

    def bytes(self, count: int) -> bytes:
        """So many bytes."""
        return bytes(self.below(256) for _ in range(count))
