"""Results in ATIF: what a converter kept beside the content, and what the agents write into it."""

from __future__ import annotations

import re
from typing import Any

from ..model import Call, Result
from ._common import EXIT_CLAUDE, exit_codex, exit_gemini, is_cut
from ._fields import integer, mapping
from .mini_swe_agent import observation

_CODE_KEYS = ("exit_code", "exitCode", "returncode", "return_code")
_INSIDE_KEYS = ("tool_metadata", "tool_result_metadata", "metadata", "tool_use_result", "raw_output")
_ERROR_KEYS = ("tool_result_is_error", "is_error", "isError")
_OPENHANDS = re.compile(r"\[(?:The command completed|Command finished) with exit code (-?\d+)\.?")
_TERMINUS_LATE = "The previous command timed out after"


def _code_in(extra: dict[str, Any], depth: int = 0) -> int | None:
    for key in _CODE_KEYS:
        code = integer(extra.get(key))
        if code is not None:
            return code
    if depth < 3:
        for key in _INSIDE_KEYS:
            code = _code_in(mapping(extra.get(key)), depth + 1)
            if code is not None:
                return code
    return None


def _error_in(extra: dict[str, Any]) -> bool | None:
    found = [value for key in _ERROR_KEYS for value in (extra.get(key),) if isinstance(value, bool)]
    return found[0] if found else None


def result_of(call: Call, content: str, extra: dict[str, Any], agent: str) -> Result:
    """The result in an observation of the agent's call. An exit code is that of the record or of the agent's own words."""
    result = Result(content, truncated=is_cut(content))
    if call.kind == "keys":
        result.running = _TERMINUS_LATE in content
        return result
    error, code = _error_in(extra), _code_in(extra)
    if call.kind == "shell":
        if agent.startswith("mini-swe") or content.startswith("<returncode>"):
            seen = observation(content)
            if seen is not None:
                return seen
        if code is None:
            code = _code_in_text(content, agent, error)
    result.exit_code = code if call.kind == "shell" else None
    if call.kind == "shell" and code is not None:
        result.failed = code != 0
    elif error is not None:
        result.failed = error
    return result


def _code_in_text(content: str, agent: str, error: bool | None) -> int | None:
    if agent.startswith("claude"):
        found = EXIT_CLAUDE.match(content) if error is not False else None
        return int(found.group(1)) if found else None
    if agent.startswith("codex"):
        return exit_codex(content)
    if agent.startswith(("gemini", "qwen")):
        return exit_gemini(content)
    marks = _OPENHANDS.findall(content[-600:])
    return int(marks[-1]) if marks else None


__all__ = ["result_of"]
