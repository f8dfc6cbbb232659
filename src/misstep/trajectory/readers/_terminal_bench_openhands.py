"""What the log of OpenHands in a Terminal-Bench v1 trial tells: whether its agent came to act at all.

OpenHands prints that its runtime served an action, the agent's states, and class and number of an action that takes
long; it prints neither the actions nor what they gave. So no step is cut from this log: there is none in it.
"""

from __future__ import annotations

import re

_ACTED = ("POST /execute_action", "to AgentState.RUNNING")
_OWN_LINE = re.compile(r" - openhands[\w.]*:(?:DEBUG|INFO|WARNING|ERROR)")
_GAVE_UP = re.compile(r"^ERROR:root:<class 'tenacity\.RetryError'>", re.MULTILINE)
_NO_INTERPRETER = re.compile(
    r"^(?:\x1b\[\?2004l\r)?(?:/\S+/)?openhands: line \d+: /\S*/python[\d.]*: No such file or directory\r*$",
    re.MULTILINE,
)


def never_acted(raw: str) -> bool:
    """Whether the terminal shows that OpenHands ended before its agent's first action.

    Either its start script found no interpreter, or its runtime did not answer until OpenHands gave up waiting.
    """
    if any(mark in raw for mark in _ACTED):
        return False
    if "Starting server with command:" in raw:
        return _GAVE_UP.search(raw) is not None
    return _OWN_LINE.search(raw) is None and _NO_INTERPRETER.search(raw) is not None
