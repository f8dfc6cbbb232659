"""A byte-pair tokenizer of a few hundred pieces, made from texts in a moment: every text has ids, and comes back from them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

_WORDS = re.compile(r" ?[A-Za-z]+| ?[0-9]| ?[^A-Za-z0-9\s]|\s")


class Bpe:
    """Ids 0 to 255 are bytes, those after them merges, in the order in which they were made."""

    def __init__(self, merges: Sequence[tuple[int, int]]) -> None:
        self.merges = [(int(a), int(b)) for a, b in merges]
        self._rank = {pair: number for number, pair in enumerate(self.merges)}
        self._bytes = [bytes([one]) for one in range(256)]
        for a, b in self.merges:
            self._bytes.append(self._bytes[a] + self._bytes[b])
        self._known: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._bytes)

    @classmethod
    def train(cls, texts: Iterable[str], pieces: int = 760) -> Bpe:
        """Merges the most frequent pair (of equals the smallest) until there are so many pieces, or no pair occurs twice."""
        counts = Counter(word for text in texts for word in _WORDS.findall(text))
        words = [(list(_bytes(word)), count) for word, count in sorted(counts.items())]
        merges: list[tuple[int, int]] = []
        while 256 + len(merges) < pieces:
            pairs: Counter[tuple[int, int]] = Counter()
            for ids, count in words:
                for pair in pairwise(ids):
                    pairs[pair] += count
            if not pairs:
                break
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            if pairs[best] < 2:
                break
            made = 256 + len(merges)
            merges.append(best)
            for ids, _ in words:
                _merge(ids, best, made)
        return cls(merges)

    def encode(self, text: str) -> list[int]:
        """The ids of a text. A lone surrogate is the byte it stands for, or a question mark where it stands for none."""
        made: list[int] = []
        for word in _WORDS.findall(text):
            if word not in self._known:
                ids = list(_bytes(word))
                while len(ids) > 1:
                    ranked = [(self._rank.get(pair, 1 << 30), pair) for pair in pairwise(ids)]
                    rank, pair = min(ranked)
                    if rank == 1 << 30:
                        break
                    _merge(ids, pair, 256 + rank)
                self._known[word] = ids
            made += self._known[word]
        return made

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; those that are no pieces (marks of a codec) are left out."""
        found = b"".join(self._bytes[one] for one in ids if 0 <= one < len(self._bytes))
        return found.decode("utf-8", "surrogateescape")

    def save(self, path: Path) -> None:
        """Writes the merges as JSON."""
        path.write_text(json.dumps({"schema": "misstep.bpe", "version": 1, "merges": self.merges}) + "\n")

    @classmethod
    def load(cls, path: Path) -> Bpe:
        """Raises OSError, ValueError, KeyError, TypeError."""
        return cls([(a, b) for a, b in json.loads(path.read_text())["merges"]])


def _merge(ids: list[int], pair: tuple[int, int], made: int) -> None:
    at = 0
    while at + 1 < len(ids):
        if ids[at] == pair[0] and ids[at + 1] == pair[1]:
            ids[at : at + 2] = [made]
        at += 1


def _bytes(word: str) -> bytes:
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word.encode("utf-8", "replace")
