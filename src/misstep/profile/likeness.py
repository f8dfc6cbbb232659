"""How alike two commands are as texts (PivotRL's shortcut before a judge is asked)."""

from __future__ import annotations

import difflib

SIMILAR = 0.95
"""Similarity of two steps from which no judge is asked (PivotRL)."""


def similarity(one: str, other: str) -> float:
    """0 to 1; white space counts once. 1 for two empty texts."""
    a, b = " ".join(one.split()), " ".join(other.split())
    if a == b:
        return 1.0
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def alike(one: str, other: str, least: float = SIMILAR) -> bool:
    """Whether two texts are at least so similar. The bounds are cheap, and rule out most pairs of long texts."""
    a, b = " ".join(one.split()), " ".join(other.split())
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return a == b or (
        matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least and matcher.ratio() >= least
    )
