"""Claude Code's calls, results and token counts, block by block."""

from __future__ import annotations

import re
from typing import Any

from ..model import Call, Result, Step
from ._common import EXIT_CLAUDE, INTERRUPTED, is_cut, text_of
from ._fields import listing, mapping, number, string

_KINDS = {
    "Bash": "shell",
    "Read": "read",
    "NotebookRead": "read",
    "Write": "write",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Grep": "search",
    "Glob": "search",
    "LS": "search",
}
_MEANT = frozenset({"No matches found", "Files differ", "Condition is false", "Some directories were inaccessible"})
"""returnCodeInterpretation of an exit code 1 that is no failure (grep, diff, test, find)."""
_REFUSED = (
    "The user doesn't want to proceed with this tool use",
    "Permission for this tool use was denied",
    "User rejected",
    "Permission to use ",
    "Claude requested permissions to ",
    "This command requires approval",
    "Hook PreToolUse:",
    "PreToolUse:",
)
_TIMED_OUT = re.compile(r"Command timed out after \d")
_BROKEN = re.compile(r"\A(?:ENOENT: no such file or directory, posix_spawn|spawn \S+ E[A-Z]+\b)")
"""The harness could not start a program of its own."""
_SILENT = "(Bash completed with no output)"
"""What the harness says in the place of an output that is empty."""
_NEVER_RAN = ("<tool_use_error>Sibling tool call errored", "<tool_use_error>Cancelled: ", "Sibling tool call errored")


def measure(step: Step, usage: dict[str, Any]) -> None:
    """Usage is repeated on each line of a message, and grows in a stream: the last one counts."""
    cached = number(usage.get("cache_read_input_tokens")) or 0
    fresh = number(usage.get("input_tokens"))
    if fresh is not None:
        step.metrics["prompt_tokens"] = fresh + cached + (number(usage.get("cache_creation_input_tokens")) or 0)
        step.metrics["cached_tokens"] = cached
    given = number(usage.get("output_tokens"))
    if given is not None:
        step.metrics["completion_tokens"] = max(given, step.metrics.get("completion_tokens", 0))


def call_of(block: dict[str, Any], cwd: Any) -> Call:
    given = mapping(block.get("input"))
    tool = string(block.get("name"))
    kind = _KINDS.get(tool, "other")
    call = Call(string(block.get("id")), tool, kind, given, cwd=cwd if isinstance(cwd, str) else None)
    if kind == "shell":
        command = given.get("command")
        if not isinstance(command, str):
            call.kind = "other"
            return call
        call.command = command
        call.background = given.get("run_in_background") is True
        timeout = number(given.get("timeout"))
        call.timeout = timeout / 1000 if timeout else None
    elif kind != "other":
        path = given.get("file_path", given.get("notebook_path", given.get("path")))
        # A redacted path is no identity: two files may share it, and one file may have two.
        if isinstance(path, str) and path and "REDACTED" not in path:
            call.paths = (path,)
            if kind in ("write", "edit"):
                call.edits = _edits(path, given)
    return call


def _edits(path: str, given: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    if isinstance(given.get("content"), str):
        return ((path, "", given["content"]),)
    if isinstance(given.get("new_source"), str):
        return ((path, "", given["new_source"]),)
    return tuple(
        (path, edit["old_string"], edit["new_string"])
        for edit in (listing(given["edits"]) if "edits" in given else [given])
        if isinstance(edit, dict)
        and isinstance(edit.get("old_string"), str)
        and isinstance(edit.get("new_string"), str)
    )


def result_of(block: dict[str, Any], record: dict[str, Any], kind: str) -> Result:
    output = text_of(block.get("content"))
    if kind == "shell" and output == _SILENT:
        output = ""
    detail = record.get("toolUseResult", record.get("tool_use_result"))
    result = Result(output, failed=False)
    if block.get("is_error"):
        _failure(result, output)
        if record.get("toolDenialKind") and not result.fault:
            result.fault, result.failed = "refused", None
        if kind == "search" and _BROKEN.match(output):
            result.fault, result.failed = "harness", None
    if isinstance(detail, dict):
        _detail(result, detail)
    if kind == "shell":
        if result.running or output.startswith("Command running in background with ID"):
            result.running, result.failed, result.exit_code = True, None, None
        elif result.failed is False and result.exit_code is None and not result.fault:
            result.exit_code = 0
    result.truncated = result.truncated or is_cut(output)
    return result


def _failure(result: Result, output: str) -> None:
    result.failed = True
    exit_ = EXIT_CLAUDE.match(output)
    if exit_:
        result.exit_code = int(exit_[1])
        result.output = output[exit_.end() :]
        ends = result.output[:200] + result.output[-200:]
        if result.output.startswith(INTERRUPTED) or "Command was aborted before completion" in ends:
            result.fault, result.failed = "interrupted", None
        elif _TIMED_OUT.search(ends):
            result.timed_out = True
    elif output.startswith(_NEVER_RAN):
        result.fault, result.failed = "never-ran", None
    elif output.startswith(_REFUSED):
        result.fault, result.failed = "refused", None
    elif output.startswith(("The user doesn't want to take this action right now", INTERRUPTED)):
        result.fault, result.failed = "interrupted", None
    elif output.startswith(
        ("<tool_use_error>", "InputValidationError", "No such tool available", "Error: No such tool")
    ):
        result.fault = "malformed"


def _detail(result: Result, detail: dict[str, Any]) -> None:
    if detail.get("interrupted") is True and not result.fault:
        # A time limit is said in the text; without it a person stopped the command.
        result.timed_out = bool(_TIMED_OUT.search(result.output[:400] + result.output[-400:]))
        result.fault, result.failed = (None, True) if result.timed_out else ("interrupted", None)
    meaning = detail.get("returnCodeInterpretation")
    if isinstance(meaning, str) and meaning:
        result.exit_code = 1 if meaning in _MEANT else None
        result.failed = False if meaning in _MEANT else None
    if isinstance(detail.get("backgroundTaskId"), str) and detail["backgroundTaskId"]:
        result.running = True
    if detail.get("truncated") is True or detail.get("appliedLimit"):
        result.truncated = True
    milliseconds = number(detail.get("durationMs"))
    if milliseconds is not None:
        result.seconds = milliseconds / 1000
