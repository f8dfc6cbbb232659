"""What Gemini CLI and its relative Qwen Code have in common: parts, and the texts of their tools' results."""

from __future__ import annotations

import re
from typing import Any

from ..model import Result
from ._common import exit_gemini, is_cut, text_of
from ._fields import listing, mapping, string

_OUTPUT = re.compile(r"\A(?:Command: .*?\n(?:Directory: [^\n]*\n))?(?:Output|Stdout): ", re.S)
_TAIL = re.compile(r"(?:\n(?:Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*)+")
_UNTRUSTED = re.compile(r"<untrusted_context>\n(.*)\n</untrusted_context>", re.S)
_REFUSED = re.compile(
    r"\[Operation Cancelled\] Reason: User did not allow|User did not allow|[Tt]ool execution (?:was )?(?:denied|blocked|not allowed)"
    r"|Tool execution denied by policy|Permission denied by (?:user|policy|hook)|.{0,80}blocked by hook|.{0,80}[Hh]ook .{0,60}(?:denied|blocked)"
)
_INTERRUPTED = re.compile(
    r"\[Operation Cancelled\]|(?:User|Request|Operation|Tool call) (?:was )?cancelled|Command was cancelled by user"
)
_MALFORMED = re.compile(
    r"Tool \"?[^\n\"]{1,80}\"? not found|params(?:/\S+)? must |Missing required|Invalid parameters|Parameter '[^\n']*' |"
    r"Failed to edit|No changes to apply|.{0,200}old_string|File not found|File path must be|Path is not "
)
_TIMED_OUT = re.compile(r"Command (?:was automatically cancelled because it exceeded|timed out)")
_MOVED = re.compile(
    r"Command moved to background|Background (?:shell|command|task) (?:started|running)|Command (?:is )?running in background"
)


def _own(text: str) -> str:
    """A tool's text without the mark by which Gemini CLI (since 0.61 at the latest) tells the model not to obey it."""
    found = _UNTRUSTED.fullmatch(text)
    return text if found is None else found[1].replace("&lt;/untrusted_context&gt;", "</untrusted_context>")


def shell_result(text: str) -> Result:
    """The result of a shell tool from the text that the model saw.

    Older versions always write `Exit Code: N`. Newer ones leave it out where it is 0: a text with the harness's
    `Process Group PGID` line, no code and no signal is a success.
    """
    text = _own(text)
    result = Result(text)
    if _MOVED.match(text):
        result.running = True
        return result
    if _TIMED_OUT.match(text):
        result.failed = result.timed_out = True
        return result
    if _INTERRUPTED.match(text):
        result.fault = "refused" if _REFUSED.match(text) else "interrupted"
        return result
    start = _OUTPUT.match(text)
    # The harness's lines are the last ones: a program may have printed the same before.
    tails = list(_TAIL.finditer(text, start.end() - 1)) if start else []
    if start is None or not tails:
        result.exit_code = exit_gemini(text)
    else:
        tail = tails[-1][0]
        output = text[start.end() : tails[-1].start()].removesuffix("\nError: (none)").removesuffix("\nStderr: (empty)")
        result.output = "" if output == "(empty)" else output
        signal = re.search(r"\nSignal: (\S+)", tail)
        result.exit_code = exit_gemini(tail)
        if signal is not None and signal[1] not in ("0", "(none)"):
            result.exit_code, result.failed = None, True
        elif result.exit_code is None and "\nProcess Group PGID: " in tail and "\nExit Code: " not in tail:
            result.exit_code = 0
    if result.exit_code is not None:
        result.failed = result.exit_code != 0
    return result


def result_of(response: Any, kind: str, status: str) -> Result:
    """The result of a functionResponse's `response`, {output} or {error}; status: success | error | cancelled | ''."""
    response = mapping(response)
    text = string(response.get("output")) or text_of(response.get("content"))
    error = response.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    if not text and isinstance(error, str):
        text = error
    text = _own(text)
    result = shell_result(text) if kind == "shell" else Result(text)
    failing = status in ("error", "cancelled") or (not status and isinstance(error, str) and bool(error))
    if failing and result.exit_code is None and not result.fault and not result.running:
        head = text[:400]
        if _REFUSED.match(head):
            result.fault, result.failed = "refused", None
        elif status == "cancelled" or _INTERRUPTED.match(head):
            result.fault, result.failed = "interrupted", None
        else:
            result.failed = True
            if _MALFORMED.match(head):
                result.fault = "malformed"
    elif kind != "shell" and result.failed is None and status == "success":
        result.failed = False
    result.truncated = is_cut(text) or is_cut(result.output)
    return result


def responses(parts: Any) -> list[dict[str, Any]]:
    """The functionResponse objects of a list of parts."""
    return [mapping(p["functionResponse"]) for p in listing(parts) if isinstance(p, dict) and "functionResponse" in p]


def split(parts: Any) -> tuple[str, str, list[dict[str, Any]]]:
    """(text, thoughts, functionCall objects) of a message's parts; a str is its text."""
    if isinstance(parts, str):
        return parts, "", []
    text: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in listing(parts):
        if isinstance(part, str):
            text.append(part)
        elif isinstance(part, dict):
            if isinstance(part.get("text"), str):
                (thoughts if part.get("thought") is True else text).append(part["text"])
            if isinstance(part.get("functionCall"), dict):
                calls.append(part["functionCall"])
            if "inlineData" in part or "fileData" in part:
                text.append("[file]")
    return "\n".join(text), "\n".join(thoughts), calls
