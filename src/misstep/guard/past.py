"""The past of a session that began before the guard: its events, from the host's transcript.

Without it a policy would not know the task, nor that what it asks for is done already. Only for the first event of a session
that is not at its beginning: what hooks do otherwise costs nothing more.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST = 16 << 20
"""Bytes of a transcript; a longer one is not read."""
FRESH = ("startup", "clear")
"""Sources of a session's start that have no past."""


def has_past(record: dict[str, Any]) -> bool:
    """Whether a session's first record may stand in its middle."""
    return record.get("e") != "start" or record.get("source") not in FRESH


def past(transcript: str, now: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of what happened before the record `now`, each with `past: true`; [] where nothing did.

    Where it cannot be told: one record `unseen`, with the reason.
    """
    try:
        size = os.stat(transcript).st_size
    except OSError:
        return []  # not written yet: it has no past
    if size > LARGEST:
        return [{"e": "unseen", "error": f"its transcript has {size >> 20} MB, more than {LARGEST >> 20} are not read"}]
    from pathlib import Path

    from misstep.trajectory.readers import Unreadable, read

    try:
        trajectory = next((t for t in read(Path(transcript)) if not t.parent), None)
    except (Unreadable, OSError) as error:
        return [{"e": "unseen", "error": " ".join(str(error).split())[:300]}]
    if trajectory is None:
        return []
    return [{**record, "past": True} for record in _until(now, _records(trajectory))]


def _records(trajectory: Any) -> list[dict[str, Any]]:
    from misstep.trajectory import After, Before, Compact, Interrupt, Prompt, Stop, events

    from .hosts import clipped

    found: list[dict[str, Any]] = []
    for event in events(trajectory):
        if isinstance(event, Prompt):
            found.append({"e": "prompt", "text": event.text})
        elif isinstance(event, (Before, After)):
            call = event.call
            record = {"e": "before", "id": call.id, "tool": call.tool, "input": call.arguments, "cwd": trajectory.cwd}
            if isinstance(event, After):
                result = event.result
                kept: dict[str, Any] = {"exit": result.exit_code, "failed": result.failed, "fault": result.fault}
                kept |= {"running": result.running, "timed_out": result.timed_out, "seconds": result.seconds}
                kept["truncated"] = result.truncated
                record |= {"e": "after", "result": clipped(kept, result.output)}
            found.append(record)
        elif isinstance(event, Stop):
            found.append({"e": "stop", "message": event.message})
        elif isinstance(event, Compact):
            found.append({"e": "compact"})
        elif isinstance(event, Interrupt):
            found.append({"e": "interrupt"})
    return found


def _until(now: dict[str, Any], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What stands in the transcript before the record `now`, which may be in it as well."""
    kind = now.get("e")
    if kind in ("before", "after"):
        at = [n for n, record in enumerate(found) if record["e"] == kind and record["id"] == now.get("id")]
        return found[: at[0]] if at else found
    same = {"stop": "message", "prompt": "text"}.get(str(kind))
    if same and found and found[-1]["e"] == kind and found[-1][same].strip() == str(now.get(same, "")).strip():
        return found[:-1]
    return found
