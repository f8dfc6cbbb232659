"""Eligibility: reading a task description. Words count where they are said of the task, not where they are denied.

A description is read sentence by sentence; list items and paragraphs are sentences too. Only its first
LIMIT characters count: what a long plan or a pasted log mentions further down is not the task.
"""

from __future__ import annotations

import re

# Patterns are compiled when first used (and kept by `re`): most sessions' hooks never need most of them.
LIMIT = 6000
"""Characters of a prompt that are read."""

_BREAK = r"(?<=[.!?])[)\"'’”]*\s+(?=[\"'“`(*\w-])|\n\s*\n|\n(?=\s*(?:[-*•#]|\d+[.)])\s)|;\s"
_DENIED = (
    r"\b(?:do(?:es)? not|did not|don['’]?t|doesn['’]?t|needn['’]?t|never|without|no need to|not|rather than|instead of|"
    r"avoid(?:ing)?|skip|no longer|no|isn['’]?t|aren['’]?t|can['’]?t|cannot|won['’]?t|ignore)\b[^,.;:!?\n]{0,50}$"
)
_CODE_WORK = (
    r"^\W*(?:please |then |also |can you |could you |let'?s |we (?:should|need to) |\d+[.)]\s*)*"
    r"(?:add|implement|fix|refactor|rename|document|explain|describe|review|update|extend|port|debug|investigate|"
    r"write (?:a |an |the |some )?(?:unit |integration |end-to-end |e2e |regression )*(?:tests?|docs?|documentation)|why|how|what)\b"
)


def sentences(prompt: str) -> list[str]:
    """The sentences of a prompt's first LIMIT characters, white space made single."""
    found = (" ".join(part.split()) for part in re.split(_BREAK, prompt[:LIMIT]) if part)
    return [s for s in found if s]


def said(text: str, pattern: str) -> str | None:
    """The words of the first match of pattern in text (any case) that is not denied just before it."""
    for match in re.finditer(pattern, text, re.I):
        if not denied(text, match.start()):
            return clip(match.group())
    return None


def denied(text: str, start: int) -> bool:
    """Whether what stands just before this position, in the same clause, takes it back ('do not ...', 'without ...')."""
    return re.search(_DENIED, text[max(0, start - 70) : start], re.I) is not None


def code_work(sentence: str) -> bool:
    """Whether a sentence asks for work on code or text (add, fix, explain ...): what it names need not run."""
    return re.search(_CODE_WORK, sentence, re.I) is not None


def first(prompt: str, pattern: str) -> str | None:
    """The first undenied match of pattern in any one sentence."""
    for sentence in sentences(prompt):
        found = said(sentence, pattern)
        if found:
            return found
    return None


def clip(words: str) -> str:
    """Evidence for a log line: one line of at most 120 characters."""
    words = " ".join(words.split())
    return words if len(words) <= 120 else words[:117] + "..."


def joined(*words: str) -> str:
    """Several pieces of evidence as one."""
    return clip(" + ".join(words))
