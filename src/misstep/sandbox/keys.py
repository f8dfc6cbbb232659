"""The names of keys, as tmux has them, and what a terminal sends for each."""

from __future__ import annotations

import re

_NAMED = {
    "Enter": "\r", "Escape": "\x1b", "Tab": "\t", "BTab": "\x1b[Z", "Space": " ", "BSpace": "\x7f",
    "IC": "\x1b[2~", "Insert": "\x1b[2~", "DC": "\x1b[3~", "Delete": "\x1b[3~",
    "PageUp": "\x1b[5~", "PgUp": "\x1b[5~", "PPage": "\x1b[5~",
    "PageDown": "\x1b[6~", "PgDn": "\x1b[6~", "NPage": "\x1b[6~",
    "F1": "\x1bOP", "F2": "\x1bOQ", "F3": "\x1bOR", "F4": "\x1bOS", "F5": "\x1b[15~", "F6": "\x1b[17~",
    "F7": "\x1b[18~", "F8": "\x1b[19~", "F9": "\x1b[20~", "F10": "\x1b[21~", "F11": "\x1b[23~", "F12": "\x1b[24~",
}  # fmt: skip
_MOVES = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "Home": "H", "End": "F"}
_CONTROL = re.compile(r"(?:C-|\^)([a-zA-Z@\[\\\]^_?]|Space)")


def sent(key: str, *, application: bool = False) -> str | None:
    """What a terminal sends for a key: Enter, Up, F5, C-c or ^C, M-x ...; None if it is no key's name.

    Args:
        application: the program has asked for the cursor keys' other form (as vim and less do).
    """
    if key in _NAMED:
        return _NAMED[key]
    if key in _MOVES:
        return ("\x1bO" if application else "\x1b[") + _MOVES[key]
    if match := _CONTROL.fullmatch(key):
        with_control = match.group(1)
        if with_control in ("Space", "@"):
            return "\0"
        return "\x7f" if with_control == "?" else chr(ord(with_control.upper()) & 0x1F)
    if key.startswith("M-") and len(key) > 2:
        rest = key[2:]
        inner = rest if len(rest) == 1 else sent(rest, application=application)
        return None if inner is None else "\x1b" + inner
    return None
