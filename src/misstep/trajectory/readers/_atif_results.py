"""Results in ATIF: what a converter kept beside the content, and what the agents write into it."""

from __future__ import annotations

import re
from typing import Any

from ..model import Call, Result
from . import _claude, _codex_output, _gemini
from ._common import is_cut
from ._fields import integer, mapping
from .mini_swe_agent import observation

_CODE_KEYS = ("exit_code", "exitCode", "returncode", "return_code")
_INSIDE_KEYS = ("tool_metadata", "tool_result_metadata", "metadata", "tool_use_result", "raw_output")
_ERROR_KEYS = ("tool_result_is_error", "is_error", "isError")
_OPENHANDS = re.compile(
    r"(?:\s*\[(?:The command completed|Command finished|Current working directory|Python interpreter)[^\n]*\])+\s*$"
)
_OPENHANDS_CODE = re.compile(r"with exit code (-?\d+)\.?\]")
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
    if call.kind == "keys":
        late = _TERMINUS_LATE in content
        return Result(content, truncated=is_cut(content), running=late)
    error, code = _error_in(extra), _code_in(extra)
    result = _recorded(call.kind, extra, agent) or _as_written(call.kind, content, error, agent)
    result.truncated = result.truncated or is_cut(content)
    if result.fault:
        return result
    if call.kind == "shell" and code is not None:
        result.exit_code, result.failed = code, code != 0
    elif error is not None and result.exit_code is None:
        result.failed = error
    return result


def _recorded(kind: str, extra: dict[str, Any], agent: str) -> Result | None:
    """The result from the agent's own record, where Harbor keeps it beside a content that it put together of several parts."""
    kept = mapping(extra.get("tool_result_metadata"))
    block = mapping(kept.get("raw_tool_result"))
    if not agent.startswith("claude") or "content" not in block:
        return None
    return _claude.result_of(block, {"tool_use_result": kept.get("tool_use_result")}, kind)


def _as_written(kind: str, content: str, error: bool | None, agent: str) -> Result:
    if agent.startswith("claude") and error is not None:
        return _claude.result_of({"content": content, "is_error": error}, {}, kind)
    if agent.startswith("codex"):
        return _codex_output.result_of(content, kind)
    if kind != "shell":
        return Result(content)
    if agent.startswith(("gemini", "qwen")):
        return _gemini.shell_result(content)
    if agent.startswith("mini-swe") or content.startswith("<returncode>"):
        return observation(content) or Result(content)
    ending = _OPENHANDS.search(content[-1000:])
    code = _OPENHANDS_CODE.search(ending.group(0)) if ending else None
    if ending is None or code is None:
        return Result(content)
    return Result(content[: len(content) - len(ending.group(0))], int(code.group(1)), code.group(1) != "0")


__all__ = ["result_of"]
