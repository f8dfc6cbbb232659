"""Agents that run in the same Python process as the guard: see `misstep.guard.adapters`."""

from __future__ import annotations

from . import Reading, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "in-process"
EVENTS = ()
LATE_TEXT = False


def read(payload: dict[str, Any]) -> Reading | None:
    """The payload holds records already."""
    session = text(payload.get("session_id"))
    if not session:
        return None
    reading = Reading(session, text(payload.get("agent_id")), text(payload.get("turn")))
    reading.records = payload["records"]
    return reading


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """What was decided, for `adapters.Guard`."""
    from .._json import dumps

    return dumps({"action": decision.action, "text": decision.text})
