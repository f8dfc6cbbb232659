"""Qwen Code (0.24).

Its hooks have Claude's form. A text at a call is not delivered with the call, so it goes out with the result. A prompt
event comes at every model call: empty for results, with our own text after a stop.
"""

from __future__ import annotations

from . import Reading, call_record, clipped, text
from ._shared import blocked, opened, record_of, specific

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
ONCE = True
UNREAD = ("comma",)
PROJECT_NOTE = (
    "Qwen Code runs the hooks of a project only in a folder that it trusts (where its setting for folder trust is on)."
)


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload tells; None for an event that is none of ours."""
    reading = opened(payload, "prompt_id")
    if reading is None:
        return None
    reading.transcript = text(payload.get("transcript_path"))
    event, records = payload.get("hook_event_name"), reading.records
    if event == "UserPromptSubmit":
        words = text(payload.get("submitted_prompt")) or text(payload.get("prompt"))
        if not words.strip():
            return None
        records.append({"e": "prompt", "text": words})
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
    else:
        other = record_of(payload, reading)
        if other is None:
            return None
        records.append(other)
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
    return blocked(decision)


def late(words: str, payload: dict[str, Any]) -> str:
    """The hook's output at a result, for a text that was due at its call."""
    return specific(text(payload.get("hook_event_name")), additionalContext=words)
