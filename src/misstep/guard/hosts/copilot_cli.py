"""GitHub Copilot CLI, by its published hook contract; not tried with the real program.

Its hooks have camelCase names and payloads. A command hook before a tool fails closed when it crashes, which ours does not.
A text at a call goes out with the result; a stop is continued by `block`. It ends a run of forced turns by itself after eight.
"""

from __future__ import annotations

from .._json import dumps, loads
from .._paths import digest
from . import Reading, clipped, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "copilot-cli"
EVENTS = (
    "sessionStart",
    "userPromptSubmitted",
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "agentStop",
    "subagentStop",
)
CONFIG = ("COPILOT_HOME", "~/.copilot", "hooks/misstep.json")
TIMEOUT_UNIT, NAMED = 1, False
PROJECT = ".github/hooks/misstep.json"
TRIED = False
LATE_TEXT = True


def entry(command: str, seconds: int) -> dict[str, Any]:
    """What stands in the list of an event."""
    return {"type": "command", "bash": command, "timeoutSec": seconds}


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload tells; None for an event that is none of ours. Both spellings of the fields are taken."""
    session = _of(payload, "sessionId", "session_id") or text(_of(payload, "transcriptPath", "transcript_path"))
    if not isinstance(session, str) or not session:
        return None
    reading = Reading(session, text(_of(payload, "agentId", "agent_id")))
    reading.transcript = text(_of(payload, "transcriptPath", "transcript_path"))
    event = text(_of(payload, "hookEventName", "hook_event_name")) or _event(payload)
    event = event[:1].lower() + event[1:]
    records = reading.records
    tool, cwd = text(_of(payload, "toolName", "tool_name")), text(payload.get("cwd"))
    if event in ("userPromptSubmitted", "userPromptSubmit"):
        records.append({"e": "prompt", "text": text(payload.get("prompt"))})
    elif event in ("preToolUse", "postToolUse", "postToolUseFailure") and tool:
        given = _arguments(_of(payload, "toolArgs", "tool_input"))
        call = text(_of(payload, "toolCallId", "tool_use_id")) or digest(dumps([tool, given]).encode())
        record: dict[str, Any] = {"e": "before", "id": call, "tool": tool, "input": given}
        if cwd:
            record["cwd"] = cwd
        if event != "preToolUse":
            record["e"] = "after"
            record["result"] = _result(
                _of(payload, "toolResult", "tool_response"), payload, event == "postToolUseFailure"
            )
        records.append(record)
    elif event in ("agentStop", "stop", "subagentStop"):
        message = text(_of(payload, "lastAssistantMessage", "last_assistant_message"))
        records.append({"e": "stop", "message": message, "turn": text(_of(payload, "turnId", "turn_id"))})
    elif event == "sessionStart":
        records.append({"e": "start", "source": text(payload.get("source"))})
    else:
        return None
    return reading


def _of(payload: dict[str, Any], *names: str) -> Any:
    return next((payload[n] for n in names if n in payload), None)


def _event(payload: dict[str, Any]) -> str:
    """The event of a payload that does not name it, by its fields."""
    if "toolResult" in payload:
        return "postToolUse"
    if "toolName" in payload:
        return "postToolUseFailure" if "error" in payload else "preToolUse"
    if "stopReason" in payload:
        return "agentStop"
    if "prompt" in payload:
        return "userPromptSubmitted"
    return "sessionStart" if "source" in payload else ""


def _arguments(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return loads(value)
        except (ValueError, RecursionError):
            return {"input": value}
    return value


def _result(given: Any, payload: dict[str, Any], failed: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"failed": True if failed else None}
    output = text(given)
    if isinstance(given, dict):
        kind = given.get("resultType")
        output = text(given.get("textResultForLlm")) or text(given.get("stdout"))
        result["failed"] = {"success": False, "failure": True}.get(str(kind), True if failed else None)
        if kind == "denied":
            result.update(failed=None, fault="refused")
    # the shell tool names the exit status in the last line of its text
    head, mark, tail = output.rstrip().rpartition("<exited with exit code ")
    if mark and tail.endswith(">") and tail[:-1].lstrip("-").isdigit():
        result["exit"], output = int(tail[:-1]), head
        result["failed"] = result["exit"] != 0
    return clipped(result, output or text(payload.get("error")))


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """The hook's output at a call (a denial) or a stop."""
    if decision.event == "stop":
        return dumps({"decision": "block", "reason": decision.text})
    return dumps({"permissionDecision": "deny", "permissionDecisionReason": decision.text})


def late(words: str, payload: dict[str, Any]) -> str:
    """The hook's output at a result, for a text that was due at its call."""
    return dumps({"additionalContext": words})
