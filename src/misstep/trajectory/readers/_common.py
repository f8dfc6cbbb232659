"""What several readers need: times, shell texts, exit codes, and which texts are the harness's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..harness import is_harness_text, said


def time_of(value: Any) -> float | None:
    """Seconds since the epoch of an ISO text (no zone: UTC) or a number (seconds, milliseconds), else None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        if not 0 < value < 1e14:
            return None
        return value / 1000 if value > 1e11 else float(value)
    if not isinstance(value, str):
        return None
    text = value[:-1] + "+00:00" if value.endswith(("Z", "z")) else value
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        # Before Python 3.11 only 3 or 6 digits of a second were understood.
        match = re.fullmatch(r"(.*?[T ]\d\d:\d\d:\d\d)\.(\d+)(.*)", text)
        if not match:
            return None
        try:
            moment = datetime.fromisoformat(f"{match[1]}.{match[2][:6]:0<6}{match[3]}")
        except ValueError:
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    try:
        return moment.timestamp()
    except (OverflowError, ValueError):
        return None


def text_of(content: Any) -> str:
    """The text of a message or tool result: a str, a list of blocks ({text} or nested {content}), or nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        return ""
    parts = []
    for block in content:
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, Mapping):
            if isinstance(block.get("text"), str):
                parts.append(block["text"])
            elif block.get("type") in ("image", "input_image", "image_url"):
                parts.append("[image]")
            elif isinstance(block.get("content"), (str, list)):
                parts.append(text_of(block["content"]))
    return "\n".join(parts)


_SHELLS = {"bash", "sh", "zsh", "dash", "ksh"}
_SHELL_FLAG = re.compile(r"-[a-z]*c")


def shell_text(command: Any) -> str | None:
    """The shell text of a command: a str as it is, ["bash", "-lc", TEXT] its TEXT, another argv list quoted, else None."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return None
    name = command[0].replace("\\", "/").rsplit("/", 1)[-1]
    if len(command) >= 3 and name in _SHELLS and _SHELL_FLAG.fullmatch(command[1]):
        return command[2] if len(command) == 3 else shlex.join(command)
    return shlex.join(command)


def unwrapped(command: str) -> str:
    """TEXT of `/bin/bash -lc 'TEXT'`, the command itself where it is not that."""
    if not re.match(r"(/\S*/)?(bash|sh|zsh) -[a-z]*c ", command):
        return command
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 else command


EXIT_CLAUDE = re.compile(r"(?:Error: )?Exit code (\d+)(?:\n|$)")
"""Claude Code: the head of a failed Bash result (match at the start)."""
EXIT_CODEX = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)\s*$", re.M)
"""Codex: a line of the header, above `Output:`."""
EXIT_GEMINI = re.compile(r"^Exit Code: (-?\d+)\s*$", re.M)
"""Gemini CLI, Qwen Code: a line below the output. The last match is the harness's own."""


def exit_codex(text: str) -> int | None:
    """The exit code that Codex wrote in the header of an output, above `Output:`, else None."""
    header, mark, _ = text[:2000].partition("\nOutput:")
    match = EXIT_CODEX.search(header) if mark or len(text) < 2000 else None
    return int(match[1]) if match else None


def exit_gemini(text: str) -> int | None:
    """The exit code that Gemini CLI or Qwen Code wrote below the output, else None."""
    found = EXIT_GEMINI.findall(text[-2000:])
    return int(found[-1]) if found else None


INTERRUPTED = "[Request interrupted by user"
"""Claude Code: a user text that begins so says that a person broke the agent off."""

CUT = re.compile(
    r"<persisted-output>|\[\d[\d,]* (?:characters|lines|chars|bytes|tokens) truncated\]|…\s?\d+ (?:tokens|chars) truncated\s?…"
    r"|\[\.\.\. omitted \d+ of \d+ lines \.\.\.\]|\(Results are truncated\.|<tool_output_masked>|"
    r"\[Output truncated|\.\.\. \[(?:output )?truncated\]|Output too large\. Showing"
)
"""A harness's mark that it cut an output."""


def is_cut(output: str) -> bool:
    """Whether the harness marked the output as cut. The marks are looked for where harnesses put them or in short texts."""
    if len(output) > 200_000:
        output = output[:4000] + output[-4000:]
    return (
        "truncated" in output
        or "<persisted-output>" in output
        or "omitted" in output
        or "masked" in output
        or "too large" in output
    ) and bool(CUT.search(output))


__all__ = [
    "CUT",
    "EXIT_CLAUDE",
    "EXIT_CODEX",
    "EXIT_GEMINI",
    "INTERRUPTED",
    "exit_codex",
    "exit_gemini",
    "is_cut",
    "is_harness_text",
    "said",
    "shell_text",
    "text_of",
    "time_of",
    "unwrapped",
]
