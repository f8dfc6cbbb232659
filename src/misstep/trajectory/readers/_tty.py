"""Text from a recorded terminal: control sequences obeyed, hard wraps of a pretty-printer undone where certain."""

from __future__ import annotations

import re
import unicodedata

_TOKEN = re.compile(
    r"\x1b\[([0-9;?<>=]*)([@-~])"  # CSI
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC
    r"|\x1b[()][0-9A-Za-z]|\x1b[=>78cDEHMNOZ]"  # other escapes
    r"|([\r\n\x08\x07])"
)
_OTHER_CONTROL = re.compile(r"[\x00-\x06\x0b\x0c\x0e-\x1f\x7f]")
MAX_ROWS = 200_000


def screen(raw: str) -> list[str]:
    """The lines that a terminal without line wrap and with endless rows would show, trailing blanks kept.

    Obeyed: carriage return, backspace, cursor up/down/forward/back/column, erase in line, erase in display
    (what is below and the whole). Colours and modes are dropped.
    """
    rows: list[str] = [""]
    row = column = position = 0

    def write(piece: str) -> None:
        nonlocal column
        line = rows[row]
        if column > len(line):
            line += " " * (column - len(line))
        rows[row] = line[:column] + piece + line[column + len(piece) :]
        column += len(piece)

    for found in _TOKEN.finditer(raw):
        if found.start() > position:
            write(_OTHER_CONTROL.sub("", raw[position : found.start()]))
        position = found.end()
        control, final = found.group(3), found.group(2)
        if control == "\n":
            row += 1
            if row == len(rows):
                rows.append("")
            column = 0
        elif control == "\r":
            column = 0
        elif control == "\x08":
            column = max(0, column - 1)
        elif final == "K":
            line, mode = rows[row], found.group(1)
            rows[row] = "" if mode == "2" else " " * column + line[column:] if mode == "1" else line[:column]
        elif final and final in "ABCDGJ":
            count = int(found.group(1)) if found.group(1).isdigit() else 0
            if final == "A":
                row = max(0, row - (count or 1))
            elif final == "B":
                row = min(len(rows) - 1, row + (count or 1))
            elif final == "C":
                column = min(column + (count or 1), 10_000)
            elif final == "D":
                column = max(0, column - (count or 1))
            elif final == "G":
                column = min(max(0, (count or 1) - 1), 10_000)
            elif count in (2, 3):
                rows, row, column = [""], 0, 0
            elif count == 0:
                del rows[row + 1 :]
                rows[row] = rows[row][:column]
        if len(rows) > MAX_ROWS:
            break
    if position < len(raw) and len(rows) <= MAX_ROWS:
        write(_OTHER_CONTROL.sub("", raw[position:]))
    return rows


def cells(text: str) -> int:
    """Columns that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)


def unwrapped(lines: list[str], width: int) -> tuple[list[str], int]:
    """Lines as they were before a word-wrapping printer broke them at `width`, and the number of joins that are likely, not certain.

    The printer keeps the blank before which it breaks, as far as the width goes, and breaks in a word only where the
    word alone is wider than a line. So a line that is short and ends in a blank before a word that would not have
    fitted was broken there; a full line without a blank is a piece of a longer word (a ruler is none); a full line with blanks lost
    the one at its end, unless it happened to be exactly that long (the likely joins).
    """
    joined: list[str] = []
    uncertain = 0
    previous = ""
    for line in lines:
        first = line.split(None, 1)[0] if line.strip() else ""
        if not joined or not previous.strip() or not first or line[:1] in " \t":
            joined.append(line)
        else:
            wide = cells(previous)
            if wide < width and previous.endswith(" ") and wide + cells(first) > width:
                joined[-1] += line
            elif wide == width and len(set(previous.strip())) <= 2:
                joined.append(line)
            elif wide == width and " " not in previous.strip():
                joined[-1] += line
            elif wide == width and not previous.endswith(" "):
                joined[-1] += " " + line
                uncertain += 1
            elif wide == width:
                joined[-1] += line
            else:
                joined.append(line)
        previous = line
    return joined, uncertain
