"""Numbers and names as people read them."""

from __future__ import annotations

import re
import shlex
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from .console import one_line

_AGENTS = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini-cli": "Gemini CLI",
    "qwen-code": "Qwen Code",
    "copilot-cli": "Copilot CLI",
    "opencode": "OpenCode",
    "openhands": "OpenHands",
    "swe-agent": "SWE-agent",
}

_REASONS = {
    "JSON, but no known trajectory format": "no session of a known agent (JSON of another kind)",
    "no known trajectory format": "no session of a known agent",
}


def agent_name(name: str) -> str:
    """An agent's name as its makers write it."""
    return _AGENTS.get(name, name or "unnamed agent")


_called = "misstep"


def called(name: str) -> None:
    """Say how the command was invoked (its first word), for the commands that are proposed."""
    global _called
    _called = name


def program() -> str:
    """The command as a person can type it again: `misstep` where that is on PATH, else as it was invoked."""
    if Path(_called).name != "misstep" or shutil.which("misstep"):
        return "misstep"
    return quoted(_called)


def quoted(name: str) -> str:
    """A file's or session's name as a shell reads it, the home folder shortened."""
    try:
        name = f"~/{Path(name).relative_to(Path.home())}" if name.startswith("/") else name
    except (ValueError, RuntimeError):
        pass
    text = one_line(name, 4000)
    return "~/" + shlex.quote(text[2:]) if text.startswith("~/") else shlex.quote(text)


def shortened(text: str, room: int) -> str:
    """The text on one line of at most `room` characters; paths in it are shortened from the left first."""
    text = one_line(text, 4000)
    for keep in (3, 2, 1):
        if len(text) <= room:
            break
        text = _PATH.sub(partial(_tail, keep=keep), text)
    return one_line(text, room)


_PATH = re.compile(r"(?:[~.…]|\b[\w.-]+)?(?:/[\w.@+-]+){2,}")


def _tail(found: re.Match[str], keep: int) -> str:
    parts = found[0].split("/")
    return found[0] if len(parts) <= keep + 1 else "…/" + "/".join(parts[-keep:])


def count(n: int, one: str, many: str = "") -> str:
    """'1 session', '3,214 steps'."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def percent(part: float | None) -> str:
    """'0.4 %', '12 %'; '' where it is not known."""
    if part is None:
        return ""
    value = part * 100
    if 0 < value < 0.95:
        return f"{value:.1f}%" if value >= 0.05 else "<0.1%"
    return f"{value:.0f}%"


def points(part: float) -> str:
    """A difference in percentage points, with its sign."""
    value = round(part * 100)
    return f"+{value}" if value > 0 else f"−{-value}" if value < 0 else "0"


def period(first: float | None, last: float | None) -> str:
    """'2026-01-03 to 2026-02-14', UTC; '' where no time is recorded."""
    if first is None or last is None:
        return ""
    days = []
    for moment in (first, last):
        try:
            days.append(datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d"))
        except (OverflowError, ValueError, OSError):
            return ""
    return days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"


def reason(text: str) -> str:
    """Why something was not read, for a person."""
    return _REASONS.get(text, text)


_FAULTS = {
    "interrupted": "interrupted by the person",
    "refused": "not allowed by the person or the harness",
    "harness": "the harness failed",
    "malformed": "the call was malformed",
    "never-ran": "never started",
}
_ILL_FORMED = re.compile(
    r"InputValidationError|required parameter|unexpected parameter|[Nn]o such tool|unknown tool|not a valid tool"
    r"|[Ii]nvalid (?:arguments|parameters|tool)|unsupported call|failed to parse|must have required|[Ii]nvalid JSON|[Tt]ool .{0,60}not found"
)


def fault(name: str, output: str = "") -> str:
    """Why a call is not the agent's doing, for a person: a call that was well-formed and did not go through is no malformed one."""
    if name == "malformed" and output.strip() and not _ILL_FORMED.search(output[:240]):
        return "refused by the tool"
    return _FAULTS.get(name, name)
