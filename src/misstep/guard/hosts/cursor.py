"""Cursor, by its published hook contract; not tried with the real program.

Its lists of hooks are flat. A call's outcome comes as a JSON text with the exit status. A text at a call goes out with the
result; a stop is continued by a follow-up message, which comes back as a prompt. It has a limit of five of its own.
"""

from __future__ import annotations

from .._json import dumps, loads
from . import Reading, call_record, clipped, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "cursor"
EVENTS = (
    "sessionStart",
    "beforeSubmitPrompt",
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "stop",
    "subagentStop",
)
CONFIG = ("", "~/.cursor", "hooks.json")
TIMEOUT_UNIT, NAMED = 1, False
TRIED = False
LATE_TEXT = True
PROJECT_NOTE = "Cursor runs the hooks of a project only in a workspace that it trusts."


def entry(command: str, seconds: int) -> dict[str, Any]:
    """What stands in the list of an event."""
    return {"command": command, "timeout": seconds}


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload tells; None for an event that is none of ours."""
    event, session = payload.get("hook_event_name"), text(payload.get("conversation_id"))
    if not session:
        return None
    reading = Reading(session, text(payload.get("agent_id")), text(payload.get("generation_id")))
    reading.transcript = text(payload.get("transcript_path"))
    records = reading.records
    if event == "beforeSubmitPrompt":
        records.append({"e": "prompt", "text": text(payload.get("prompt"))})
    elif event in ("preToolUse", "postToolUse", "postToolUseFailure"):
        record = call_record("before" if event == "preToolUse" else "after", payload)
        if record["tool"] == "Shell":
            record["tool"] = "bash"
            given = record["input"] if isinstance(record["input"], dict) else {}
            record["cwd"] = text(given.get("working_directory")) or record.get("cwd", "")
        if record["e"] == "after":
            record["result"] = _result(payload, event == "postToolUseFailure")
        records.append(record)
    elif event in ("stop", "subagentStop"):
        if event == "stop" and payload.get("status") not in (None, "completed"):
            records.append({"e": "interrupt"})
        else:
            # a follow-up begins a generation of its own: the turn is the prompt's
            records.append({"e": "stop", "message": "", "turn": ""})
    elif event == "sessionStart":
        records.append({"e": "start", "source": text(payload.get("source"))})
    else:
        return None
    return reading


def _result(payload: dict[str, Any], failed: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"failed": True if failed else None}
    output = text(payload.get("tool_output"))
    try:
        given = loads(output) if output.startswith("{") else None
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        code = given.get("exitCode")
        if isinstance(code, int) and not isinstance(code, bool):
            result["exit"], result["failed"] = code, code != 0
        output = "\n".join(p for p in (text(given.get("stdout")), text(given.get("stderr"))) if p)
    return clipped(result, output or text(payload.get("error_message")))


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """The hook's output at a call (a denial) or a stop."""
    if decision.event == "stop":
        return dumps({"followup_message": decision.text})
    return dumps({"permission": "deny", "user_message": decision.text, "agent_message": decision.text})


def late(words: str, payload: dict[str, Any]) -> str:
    """The hook's output at a result, for a text that was due at its call."""
    return dumps({"additional_context": words})
