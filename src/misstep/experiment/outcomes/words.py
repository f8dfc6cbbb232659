"""An agent's last words, and whether they say that the task was not done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from misstep.trajectory import Trajectory

_DO = r"(?:complete|finish|solve|accomplish|fulfil+|carry out)"
_ALL = r"(?:the|this|your|that)(?: (?:entire|whole|full|given|original|requested))?"
_TASK = r"(?:task|challenge|assignment|request|problem|puzzle|objective|goal|job)"
_UNABLE = r"(?:unable|not able|n't able|n't been able|not been able) to"
_NOT = rf"(?:(?:\s*(?:'m|'ve|was|am|were|are|have|had)\s*(?:been\s+)?{_UNABLE})|\s+(?:could|can|did)(?:\s?n't|\s?not)|\s+failed to)"
GAVE_UP = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:i|we){_NOT}\s+(?:\w+ly\s+)?{_DO}\s+{_ALL}\s+{_TASK}\b",
        rf"\b{_TASK}\s+(?:could\s+not|couldn't|cannot|can't|can not)\s+be\s+(?:\w+ly\s+)?(?:completed|solved|finished|done|accomplished|fulfilled)\b",
        rf"\b{_ALL}\s+{_TASK}\s+(?:is|remains|was)\s+(?:still\s+)?(?:not\s+(?:yet\s+)?(?:complete|completed|finished|solved|done)|incomplete|unfinished|unsolved)\b",
        r"\b(?:i|we)(?:'m|\s+am|\s+are|\s+have\s+to|\s+must|\s+will\s+have\s+to)?\s+(?:now\s+)?giv(?:e|ing)\s+up\b",
    )
)
"""What a last message has to say, in a sentence of the agent's own, for the attempt to count as given up: that it could
not do the task, that the task is not done, that it gives up. A task's part that was not done is not enough."""
_UNLESS = re.compile(r"\b(?:if|unless|until|whether|in case|initially|at first|otherwise)\b", re.IGNORECASE)
"""A sentence with a condition, or of what was before, says nothing of the end."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=\s*[-*#\d])")
_QUOTED = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*$", re.DOTALL | re.MULTILINE)


def said_so(message: str, gave_up: Sequence[str] = ()) -> bool:
    """Whether a last message says that the task was not done. Code and quotations are not the agent's own words.

    Raises re.error where one of gave_up is no regular expression.
    """
    if gave_up:
        return any(re.search(pattern, message, re.IGNORECASE) for pattern in gave_up)
    text = _QUOTED.sub(" ", message).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return any(
        pattern.search(sentence)
        for sentence in _SENTENCE.split(text)
        if not _UNLESS.search(sentence)
        for pattern in GAVE_UP
    )


def last_words(trajectories: Sequence[Trajectory]) -> str:
    """The message with which the agent ended, '' where its last step is a call and no end."""
    roots = [one for one in trajectories if not one.parent]
    steps = [step for one in roots for step in one.steps if step.source == "agent" and not step.copied]
    if not steps:
        return ""
    last = steps[-1]
    if last.stop is not True and any(call.kind != "finish" for call in last.calls):
        return ""
    said = [last.message]
    for call in last.calls if last.stop is not True else ():
        said += [value for value in call.arguments.values() if isinstance(value, str)]
    return "\n".join(text for text in said if text)
