"""Codex CLI (0.146 to 0.171), plain and code mode.

PostToolUse brings the output and no exit status: that stands in the transcript a little later, and is read at the next
call or stop. Its context output is only taken without a permission decision; a stop is continued by `block` only, and
without end: the cap is ours.
"""

from __future__ import annotations

import os

from . import Reading, call_record, clipped, text
from ._shared import blocked_or_told, opened, record_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "codex"
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop")
CONFIG = ("CODEX_HOME", "~/.codex", "hooks.json")
"""The variable that names the folder, the folder, and the file that holds the hooks."""
TIMEOUT_UNIT, NAMED = 1, False
LATE_TEXT = False
ONCE = False
UNREAD = ("comment", "comma", "mark")
SHELL = "exec_command"
"""Hooks call it Bash, as Claude Code calls its shell, which does not yield."""
TAIL = 1 << 20
"""Bytes at the end of a transcript in which an exit status is looked for."""


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload tells; None for an event that is none of ours."""
    reading = opened(payload, "turn_id")
    if reading is None:
        return None
    reading.transcript = text(payload.get("agent_transcript_path")) or text(payload.get("transcript_path"))
    if payload.get("hook_event_name") == "PostToolUse":
        record = _named(call_record("after", payload))
        record["result"] = _result(payload.get("tool_response"))
        if "exit" not in record["result"] and reading.transcript and record["tool"] == SHELL:
            record["open"] = True
        reading.records.append(record)
        return reading
    other = record_of(payload, reading)
    if other is None:
        return None
    reading.records.append(_named(other))
    return reading


def _named(record: dict[str, Any]) -> dict[str, Any]:
    """The call under the name that the model knows its tool by: one that yields while the command runs."""
    if record.get("tool") == "Bash":
        record["tool"] = SHELL
    return record


def _result(given: Any) -> dict[str, Any]:
    output = text(given)
    result: dict[str, Any] = {}
    code, body = _header(output)
    if code is not None:
        result["exit"], output = code, body
    return clipped(result, output)


def _header(output: str) -> tuple[int | None, str]:
    """The exit status in the header that stands above `Output:`, and what is below it."""
    head, mark, body = output.partition("\nOutput:")
    if not mark or len(head) > 2000:
        return None, output
    for line in head.split("\n"):
        for words in ("Process exited with code ", "Exit code: "):
            if line.startswith(words):
                code = line[len(words) :].strip()
                if code.lstrip("-").isdigit():
                    return int(code), body.removeprefix("\n")
    return None, output


def exits(reading: Reading, results: list[dict[str, Any]]) -> dict[str, int | None]:
    """Exit statuses of earlier results, by call id, as far as the end of the transcript tells them.

    None: it is not told, and will not be. A result that is left out belongs to calls that are still under way.
    """
    from .._json import loads

    wanted = {str(r["id"]): str(r["result"].get("output") or "") for r in results}
    found: dict[str, int | None] = dict.fromkeys(wanted)
    ids = [i.encode() for i in wanted]
    nested = any(i.startswith("exec-") for i in wanted)
    printed: list[list[dict[str, Any]]] = []
    for line in _tail(reading.transcript):
        if not any(i in line for i in ids) and not (nested and b'"custom_tool_call_output"' in line):
            continue
        try:
            payload = loads(line.decode("utf-8", "replace"))["payload"]
            item = payload.get("item") if isinstance(payload.get("item"), dict) else payload
            call, code, output = item.get("call_id") or item.get("id"), item.get("exit_code"), item.get("output")
            kind = item.get("type")
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            continue
        if kind == "custom_tool_call_output" and isinstance(output, list):
            printed.append(_printed(output))
        if call not in wanted:
            continue
        if kind == "function_call":
            found.pop(call, None)  # under way, unless its output follows
            continue
        if code is None and isinstance(output, str):
            code = _header(output)[0]
        if kind == "function_call_output" or code is not None:
            found[call] = code if isinstance(code, int) and not isinstance(code, bool) else None
    for call, output in wanted.items():
        if call.startswith("exec-") and found.get(call, 0) is None:
            # a command of a script has no id in the transcript: what the script printed of it must be its own
            codes = {p["exit_code"] for part in printed[-2:] for p in part if p["output"] == output}
            if len(codes) == 1:
                found[call] = codes.pop()
    return found


def _printed(parts: list[Any]) -> list[dict[str, Any]]:
    """The results that a script printed as JSON."""
    from .._json import loads

    found = []
    for part in parts:
        shown = text(part.get("text")) if isinstance(part, dict) else ""
        if shown.startswith("{") and '"exit_code"' in shown:
            try:
                value = loads(shown)
            except (ValueError, RecursionError):
                continue
            if isinstance(value.get("exit_code"), int) and isinstance(value.get("output"), str):
                found.append(value)
    return found


def _tail(path: str) -> list[bytes]:
    """The last lines of a file, at most TAIL bytes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return []
    try:
        size = os.fstat(fd).st_size
        start = max(0, size - TAIL)
        data = os.pread(fd, size - start, start)
    except OSError:
        return []
    finally:
        os.close(fd)
    lines = data.split(b"\n")
    return lines[1:] if start else lines


def plan_trust(*given: Any) -> None:
    """See `codex_trust`."""
    from ..codex_trust import plan_trust

    plan_trust(*given)


def plan_distrust(*given: Any) -> None:
    """See `codex_trust`."""
    from ..codex_trust import plan_distrust

    plan_distrust(*given)


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """The hook's output."""
    return blocked_or_told(decision)
