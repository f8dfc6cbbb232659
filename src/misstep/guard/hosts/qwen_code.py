"""Qwen Code (0.24).

Its hooks have Claude's form. A text at a call is not delivered with the call, so it goes out with the result. A prompt
event comes at every model call: empty for results, with our own text after a stop.
"""

from __future__ import annotations

from . import Reading, call_record, clipped, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "qwen-code"
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop")
CONFIG = ("", "~/.qwen", "settings.json")
"""The variable that names the folder, the folder, and the file that holds the hooks."""
TIMEOUT_UNIT, NAMED = 1, True
LATE_TEXT = True
PROJECT_NOTE = (
    "Qwen Code runs the hooks of a project only in a folder that it trusts (where its setting for folder trust is on)."
)


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload tells; None for an event that is none of ours."""
    event, session = payload.get("hook_event_name"), text(payload.get("session_id"))
    if not session:
        return None
    reading = Reading(session, text(payload.get("agent_id")), text(payload.get("prompt_id")))
    reading.transcript = text(payload.get("transcript_path"))
    records = reading.records
    if event == "UserPromptSubmit":
        words = text(payload.get("submitted_prompt")) or text(payload.get("prompt"))
        if not words.strip():
            return None
        records.append({"e": "prompt", "text": words})
    elif event == "PreToolUse":
        records.append(call_record("before", payload))
    elif event == "PostToolUse":
        record = call_record("after", payload)
        given = payload.get("tool_response")
        content = given.get("llmContent") if isinstance(given, dict) else given
        record["result"] = _result(text(content), record["tool"] == "run_shell_command", False)
        records.append(record)
    elif event == "PostToolUseFailure":
        record = call_record("after", payload)
        record["result"] = _result(text(payload.get("error")), record["tool"] == "run_shell_command", True)
        if payload.get("is_interrupt") is True:
            record["result"].update(failed=None, fault="interrupted")
        records.append(record)
    elif event in ("Stop", "SubagentStop"):
        records.append({"e": "stop", "message": text(payload.get("last_assistant_message")), "turn": reading.turn})
    elif event == "SessionStart":
        source = text(payload.get("source"))
        records.append({"e": "compact"} if source == "compact" else {"e": "start", "source": source})
    else:
        return None
    return reading


def _result(output: str, shell: bool, failed: bool) -> dict[str, Any]:
    """The result that the text for the model tells; a shell's has named lines below its output."""
    result: dict[str, Any] = {"failed": failed}
    if not shell:
        return clipped(result, output)
    if failed and not output.startswith("Command: "):
        result.update(failed=None, fault="refused")  # by a rule of the host's: it never ran
    body, mark, tail = output.rpartition("\nExit Code: ")
    if mark:
        code = tail.partition("\n")[0].strip()
        if code.lstrip("-").isdigit():
            result["exit"] = int(code)
            result["failed"] = int(code) != 0
        elif code == "(none)":
            result["failed"] = None
        said = body.partition("\nOutput: ")[2]
        shown, mark, error = said.rpartition("\nError: ")
        output = shown if mark else said
        if mark and error != "(none)":
            output = f"{output}\n{error}" if output else error
        if output == "(empty)":
            output = ""
    return clipped(result, output)


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """The hook's output at a call (a denial) or a stop."""
    from .._json import dumps

    if decision.event == "stop":
        return dumps({"decision": "block", "reason": decision.text})
    said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": decision.text}
    return dumps({"hookSpecificOutput": said})


def late(words: str, payload: dict[str, Any]) -> str:
    """The hook's output at a result, for a text that was due at its call."""
    from .._json import dumps

    event = text(payload.get("hook_event_name"))
    return dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": words}})
