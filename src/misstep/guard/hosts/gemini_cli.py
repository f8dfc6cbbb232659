"""Gemini CLI (0.61).

Its calls have no ids, so a call is known by its tool and input. A text at a call goes out with the result (BeforeTool takes
none); a stop is continued by denying AfterAgent, and the text comes back as the next prompt.
"""

from __future__ import annotations

from .._json import dumps
from .._paths import digest
from . import Reading, call_record, clipped, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "gemini-cli"
EVENTS = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent")
CONFIG = ("", "~/.gemini", "settings.json")
"""The variable that names the folder, the folder, and the file that holds the hooks."""
TIMEOUT_UNIT, NAMED = 1000, True
LATE_TEXT = True
ONCE = True
UNREAD = ("comma", "mark")
PROJECT_NOTE = (
    "Gemini CLI runs the hooks of a project only in a folder that it trusts: /permissions there, or "
    "the question that it asks at its start."
)


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload tells; None for an event that is none of ours."""
    event, session = payload.get("hook_event_name"), text(payload.get("session_id"))
    if not session:
        return None
    # A forced turn keeps the prompt of the turn that it continues.
    prompt = text(payload.get("prompt"))
    reading = Reading(session, turn=digest(prompt.encode("utf-8", "replace")) if prompt else "")
    reading.transcript = text(payload.get("transcript_path"))
    records = reading.records
    if event == "BeforeAgent":
        records.append({"e": "prompt", "text": prompt})
    elif event in ("BeforeTool", "AfterTool"):
        record = call_record("before" if event == "BeforeTool" else "after", payload)
        record["id"] = digest(dumps([record["tool"], record["input"]]).encode())
        if event == "AfterTool":
            record["result"] = _result(payload.get("tool_response"), record["tool"] == "run_shell_command")
        records.append(record)
    elif event == "AfterAgent":
        records.append({"e": "stop", "message": text(payload.get("prompt_response")), "turn": reading.turn})
    elif event == "SessionStart":
        source = text(payload.get("source"))
        records.append({"e": "compact"} if source == "compress" else {"e": "start", "source": source})
    else:
        return None
    return reading


def _result(given: Any, shell: bool) -> dict[str, Any]:
    """The result that the text for the model tells. A shell's text names an exit status only where it is not 0."""
    if not isinstance(given, dict):
        return clipped({}, text(given))
    content = given.get("llmContent")
    if isinstance(content, list):
        content = "\n".join(text(part.get("text")) for part in content if isinstance(part, dict))
    output = text(content).strip()
    output = output.removeprefix("<untrusted_context>").removesuffix("</untrusted_context>").strip()
    error = given.get("error")
    result: dict[str, Any] = {"failed": bool(error)}
    if not shell:
        return clipped(result, output)
    if not error:
        result["exit"] = 0
    lines = output.split("\n")
    while lines:
        name, mark, value = lines[-1].partition(": ")
        if not mark or name not in ("Exit Code", "Process Group PGID", "Signal", "Error", "Background PIDs"):
            break
        if name == "Exit Code" and value.strip().lstrip("-").isdigit():
            result["exit"] = int(value)
            result["failed"] = int(value) != 0
        elif name == "Signal" and value.strip() not in ("", "(none)"):
            result["exit"], result["failed"] = None, True
        lines.pop()
    return clipped(result, "\n".join(lines).removeprefix("Output: "))


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """The hook's output at a call (a denial) or at the end of a turn."""
    return dumps({"decision": "deny", "reason": decision.text})


def late(words: str, payload: dict[str, Any]) -> str:
    """The hook's output at a result, for a text that was due at its call."""
    return dumps({"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": words}})
