"""Claude Code (2.1.197 to 2.1.332).

A call that fails comes as PostToolUseFailure, with the exit status as the head of `error`; PostToolUse means success.
A denial's reason, a text at a call and a stop's reason all reach the model. It ends a run of forced turns by itself after eight.
"""

from __future__ import annotations

from . import Reading, call_record, clipped, text
from ._shared import blocked_or_told, opened, record_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "claude-code"
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStop",
)
"""The events that the guard registers for."""
CONFIG = ("CLAUDE_CONFIG_DIR", "~/.claude", "settings.json")
"""The variable that names the folder, the folder, and the file that holds the hooks."""
TIMEOUT_UNIT, NAMED = 1, False
LATE_TEXT = False
ONCE = True
UNREAD = ("comment", "comma")

_MEANT = ("No matches found", "Files differ", "Condition is false", "Some directories were inaccessible")
_REFUSED = ("The user doesn't want to", "Permission ", "User rejected", "Claude requested permissions", "PreToolUse:")


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload tells; None for an event that is none of ours."""
    reading = opened(payload, "prompt_id")
    if reading is None:
        return None
    reading.transcript = text(payload.get("agent_transcript_path")) or text(payload.get("transcript_path"))
    event, records = payload.get("hook_event_name"), reading.records
    if event == "PostToolUse":
        record = call_record("after", payload)
        record["result"] = _succeeded(payload.get("tool_response"), record["tool"] == "Bash")
        records.append(record)
    elif event == "PostToolUseFailure":
        record = call_record("after", payload)
        record["result"] = _failed(text(payload.get("error")), payload.get("is_interrupt") is True)
        records.append(record)
        if payload.get("is_interrupt") is True:
            records.append({"e": "interrupt"})
    else:
        other = record_of(payload, reading)
        if other is None:
            return None
        records.append(other)
    return reading


def _succeeded(given: Any, shell: bool) -> dict[str, Any]:
    if not isinstance(given, dict):
        return clipped({"failed": False}, text(given))
    result: dict[str, Any] = {"failed": False}
    if shell:
        result["exit"] = 0
        meaning = text(given.get("returnCodeInterpretation"))
        if meaning:  # an exit status other than 0 that the host does not take for a failure
            result["exit"], result["failed"] = (1, False) if meaning in _MEANT else (None, None)
        if given.get("interrupted") is True:
            result.update(exit=None, failed=None, fault="interrupted")
        if given.get("backgroundTaskId"):
            result.update(exit=None, failed=None, running=True)
        output = "\n".join(part for part in (text(given.get("stdout")), text(given.get("stderr"))) if part)
        return clipped(result, output)
    file = given.get("file")
    for value in (given.get("content"), file.get("content") if isinstance(file, dict) else None):
        if isinstance(value, str):
            return clipped(result, value)
        if isinstance(value, list):
            return clipped(result, "\n".join(text(part.get("text")) for part in value if isinstance(part, dict)))
    names = given.get("filenames")
    if isinstance(names, list):
        return clipped(result, "\n".join(name for name in names if isinstance(name, str)))
    return clipped(result, "")


def _failed(error: str, interrupted: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"failed": True}
    head, _, rest = error.partition("\n")
    words = head.removeprefix("Error: ")
    if words.startswith("Exit code ") and words[10:].isdigit():
        result["exit"], error = int(words[10:]), rest
        ends = error[:200] + error[-200:]
        if "Command timed out after " in ends:
            result["timed_out"] = True
        elif error.startswith("[Request interrupted by user") or "Command was aborted before completion" in ends:
            interrupted = True
    elif "Sibling tool call errored" in head or head.startswith("<tool_use_error>Cancelled: "):
        result.update(failed=None, fault="never-ran")
    elif error.startswith(_REFUSED):
        result.update(failed=None, fault="refused")
    elif error.startswith(("<tool_use_error>", "InputValidationError", "No such tool available")):
        result["fault"] = "malformed"
    if interrupted:
        result.update(failed=None, fault="interrupted")
    return clipped(result, error)


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """The hook's output."""
    return blocked_or_told(decision)
