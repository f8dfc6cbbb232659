"""How alike short texts are, without a model server: vectors of unit length, whose product is a cosine.

`words`: stems and pairs of stems weighed by rarity (TF-IDF), nothing to install. `wordllama`: static word vectors of a small package
(extra `taxonomy`), which also see that other words say the same. Both are deterministic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[Any, np.dtype[np.float64]]

WAYS = ("words", "wordllama")
_SIZE = 2048
_COMMON = """a an the of to in on at is it its that this and or as if for by with without be are was were not no so has have had than
then where while which what who them they from into also else agent"""
_STOP = frozenset(_COMMON.split())


def available() -> str:
    """The better of the ways that can be gone here."""
    return "wordllama" if find_spec("wordllama") is not None else "words"


def vectors(texts: Sequence[str], way: str) -> Matrix:
    """One row of unit length a text (zeros where a text has no words).

    Raises:
        ImportError: wordllama is not installed.
    """
    import numpy as np

    made = _wordllama(texts) if way == "wordllama" else _words(texts)
    length = np.linalg.norm(made, axis=1, keepdims=True)
    unit: Matrix = np.divide(made, length, out=np.zeros_like(made), where=length > 0)
    return unit


def _words(texts: Sequence[str]) -> Matrix:
    import numpy as np

    found = [Counter(_features(text)) for text in texts]
    spread = Counter(place for one in found for place in one)
    made = np.zeros((len(texts), _SIZE))
    for row, one in enumerate(found):
        for place, count in one.items():
            made[row, place] = (1 + np.log(count)) * np.log((1 + len(texts)) / spread[place])
    return made


def _features(text: str) -> list[int]:
    stems = [_stem(word) for word in re.findall(r"[^\W\d_]+", text.lower()) if word not in _STOP]
    return [_place(one) for one in (*stems, *map(" ".join, pairwise(stems)))]


@cache
def _place(feature: str) -> int:
    return int.from_bytes(blake2b(feature.encode("utf-8", "replace"), digest_size=4).digest(), "big") % _SIZE


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _wordllama(texts: Sequence[str]) -> Matrix:
    import numpy as np

    if not texts:
        return np.zeros((0, 1))
    return np.asarray(_model().embed([text or "." for text in texts]), dtype=np.float64)


@cache
def _model() -> Any:
    try:
        wordllama = import_module("wordllama")
    except ImportError as error:
        raise ImportError("word vectors need one more package: pip install 'misstep[taxonomy]'") from error
    # Its weights lie in the package; nothing is to be loaded from anywhere.
    return wordllama.WordLlama.load(cache_dir=Path(str(wordllama.__file__)).parent, disable_download=True)
