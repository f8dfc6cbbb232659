"""The terminal: what every view shares. Text of transcripts is shown as it is written, never interpreted."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

from rich.console import Console
from rich.theme import Theme

_THEME = Theme(
    {
        "name": "bold",
        "quiet": "bright_black",
        "bar": "dark_orange",
        "wrong": "bold red",
        "right": "green",
        "unsure": "yellow",
        "command": "cyan",
        "heading": "bold",
    }
)
WIDEST = 116


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """A console without markup, emoji or highlighting; as wide as the terminal, at most WIDEST, 100 where there is none."""
    out = file or sys.stdout
    if width is None:
        width = Console(file=out).width if out.isatty() or os.environ.get("COLUMNS") else 100
    return _Console(
        file=out, width=max(40, min(width, WIDEST)), theme=_THEME, markup=False, emoji=False, highlight=False
    )


def progress() -> Any:
    """A progress bar on standard error that leaves nothing behind. It has no thread, so that worker processes may be forked: who
    shows it refreshes it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )


_CONTROLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS[0x7F] = "\u2421"
_CONTROLS |= {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
_CONTROLS |= {
    code: f"\\u{code:04x}" for code in (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
}
_CONTROLS |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}


def printable(text: str) -> str:
    """The text with control, direction and invisible characters made visible; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def one_line(text: str, room: int) -> str:
    """The printable text on one line of at most `room` characters."""
    text = " ".join(printable(text).split())
    return text if len(text) <= room else text[: max(0, room - 1)] + "…"
