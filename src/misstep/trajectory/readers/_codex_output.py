"""What a Codex tool gave back: exit code, fault and the program's own output, by the texts of each version."""

from __future__ import annotations

import json
import re
from typing import Any

from ..model import Result
from ._common import exit_codex, is_cut, text_of
from ._fields import integer, mapping, number, string

_HEADER = re.compile(
    r"\A(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines|Process [a-z]+)\b[^\n]*\n)+Output:\n?"
)
_SCRIPT = re.compile(
    r"\AScript (completed|failed|running with cell ID (\S+))[^\n]*(?:\n|\Z)(?:Wall time[^\n]*(?:\n|\Z))?(?:Output:\n?)?"
)
_RUNNING = re.compile(r"^Process running with session ID (\S+)\s*$", re.M)
_WALL = re.compile(r"^Wall time:? ([\d.]+) seconds", re.M)
_REFUSED = re.compile(
    r"Command blocked by PreToolUse hook: |(?:exec )?(?:command|patch) rejected by user|exec_command failed[^\n]{0,80}rejected by user"
    r"|Tool call blocked by PreToolUse hook: |This action was rejected due to |rejected: |approval (?:denied|required by policy)"
)
_INTERRUPTED = re.compile(r"(?:Wall time:? [\d.]+ seconds\n)?(?:command )?aborted by user|aborted\Z")
_SHORTENED = re.compile(
    r"\A(?:Warning: truncated output[^\n]*\n)?Total output lines: \d+\n+|\AWarning: truncated output[^\n]*\n"
)
_TIMED_OUT = re.compile(r"[Cc]ommand timed out after \d+")
_MALFORMED = re.compile(
    r"failed to parse function arguments|unsupported call: |unsupported custom tool call|apply_patch verification failed"
    r"|invalid patch|Tool [^\n]{1,80} not found|tool [^\n]{1,80} invoked with incompatible payload"
)


def session_of(text: str) -> str:
    """The id of the terminal session in which the command still runs, '' where it does not."""
    head = text[:2000].partition("\nOutput:")[0]
    found = _RUNNING.search(head)
    return found[1] if found else ""


def result_of(value: Any, kind: str, known: dict[str, Any] | None = None) -> Result:
    """The result that `output` of a function_call_output or custom_tool_call_output tells.

    kind: the call's kind, or 'script' for a code-mode script.
    known: the structured end of the command (exit_code, seconds) where an event recorded it.
    """
    text = text_of(value)
    # What a code-mode script prints may look like a result of its own.
    loaded = None if kind == "script" else _loaded(text)
    if loaded is not None:
        result = _of_json(loaded)
    else:
        result = _of_text(text, kind)
    if known and not result.running and not result.fault:
        if integer(known.get("exit_code")) is not None:
            result.exit_code = known["exit_code"]
        if number(known.get("seconds")) is not None:
            result.seconds = known["seconds"]
        if known.get("failed") is not None:
            result.failed = known["failed"]
    if result.exit_code is not None and not result.fault:
        result.failed = result.exit_code != 0
    _shorten(result)
    result.timed_out = bool(_TIMED_OUT.match(result.output))
    return result


def _loaded(text: str) -> dict[str, Any] | None:
    """The object of an old shell result, {"output", "metadata"}, or of a code-mode one, {"output", "exit_code" ...}."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and isinstance(value.get("output"), str):
        return value if "metadata" in value or "exit_code" in value or "chunk_id" in value else None
    return None


def of_json(value: dict[str, Any]) -> Result:
    """The result of a nested command of code mode, as its script prints it."""
    result = _of_json(value)
    if result.exit_code is not None:
        result.failed = result.exit_code != 0
    _shorten(result)
    return result


def _shorten(result: Result) -> None:
    """Takes the harness's note that the output was cut off its head."""
    note = _SHORTENED.match(result.output)
    if note:
        result.output, result.truncated = result.output[note.end() :], True
    result.truncated = result.truncated or is_cut(result.output)


def _of_json(value: dict[str, Any]) -> Result:
    metadata = mapping(value.get("metadata"))
    result = Result(string(value.get("output")))
    result.exit_code = integer(metadata.get("exit_code", value.get("exit_code")))
    result.seconds = number(metadata.get("duration_seconds", value.get("wall_time_seconds")))
    result.running = result.exit_code is None and value.get("session_id") is not None
    return result


def _of_text(text: str, kind: str) -> Result:
    result = Result(text)
    head = text[:400]
    script = _SCRIPT.match(text)
    if script:
        result.output = text[script.end() :]
        result.running = script[2] is not None
        result.failed = True if script[1] == "failed" else None
        return result
    header = _HEADER.match(text)
    if header:
        result.exit_code = exit_codex(text)
        result.running = bool(session_of(text))
        wall = _WALL.search(header[0])
        result.seconds = float(wall[1]) if wall and wall[1].replace(".", "", 1).isdigit() else None
        result.output = text[header.end() :]
        result.truncated = "\nTotal output lines:" in header[0] or header[0].startswith("Total output lines:")
    elif _REFUSED.match(head):
        result.fault = "refused"
    elif _INTERRUPTED.match(head):
        result.fault = "interrupted"
    elif _MALFORMED.match(head):
        result.fault, result.failed = "malformed", True
    elif kind in ("edit", "write") and text.startswith("Success."):
        result.failed = False
    elif kind == "shell" and head.startswith(("execution error: ", "exec_command failed for ")):
        result.failed = True
    return result
