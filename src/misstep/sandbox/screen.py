"""What a terminal shows: the part of an xterm that full-screen programs use, without colours.

Cursor movement, erasing, inserting and deleting, scroll regions, the alternate screen, wide characters and combining
ones. What is not known is passed over, as a terminal does.
"""

from __future__ import annotations

import re
import unicodedata

_TOKEN = re.compile(
    r"\x1b\[([\x30-\x3f]*)([\x20-\x2f]*)([\x40-\x7e])"  # 1-3: a control sequence
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\)"  # a title, a mark, a string: swallowed
    r"|\x1b([\x20-\x2f]*)([\x30-\x7e])"  # 4-5: an escape
    r"|([\x00-\x1f\x7f])"  # 6: a control character
    r"|([^\x00-\x1f\x7f]+)",  # 7: text
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[\x20-\x3f]{0,64}|[\]PX^_][^\x07]{0,4096}|[\x20-\x2f]*)?\Z", re.DOTALL)


def width(char: str) -> int:
    """How many columns a character takes: 0, 1 or 2."""
    if char < "\u0300":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Screen:
    """Rows and columns of characters, and a cursor."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self.rows, self.columns = rows, columns
        self.application_keys = False
        self._rest = ""
        self._other: list[list[str]] | None = None
        self._reset()

    def _reset(self) -> None:
        self._lines = [self._blank() for _ in range(self.rows)]
        self._y = self._x = 0  # behind the last column: the next character begins a new line
        self._wrap = True
        self._top, self._bottom = 0, self.rows - 1
        self._saved = (0, 0)
        self._last = ""

    def _blank(self) -> list[str]:
        return [" "] * self.columns

    @property
    def lines(self) -> list[str]:
        """The rows, without trailing blanks."""
        return ["".join(row).rstrip() for row in self._lines]

    @property
    def text(self) -> str:
        """All of it, without blank lines at its end."""
        return "\n".join(self.lines).rstrip("\n")

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column, from 0."""
        return self._y, self._x

    def resize(self, rows: int, columns: int) -> None:
        """Another size; what is beyond it is lost, from the top where the cursor would be."""
        self._lines = self._lines[max(0, self._y - rows + 1) :][:rows]
        self._y = min(self._y, rows - 1)
        self.rows, self.columns = rows, columns
        self._lines += [self._blank() for _ in range(rows - len(self._lines))]
        self._lines = [(row + self._blank())[:columns] for row in self._lines]
        self._x, self._top, self._bottom = min(self._x, columns - 1), 0, rows - 1
        if self._other is not None:
            self._other = [(row + self._blank())[:columns] for row in self._other[:rows]]
            self._other += [self._blank() for _ in range(rows - len(self._other))]

    def feed(self, text: str) -> None:
        """Shows what a program writes; a sequence that is not complete waits for its rest."""
        text = self._rest + text
        tail = _UNFINISHED.search(text)
        self._rest = tail.group() if tail else ""
        if tail:
            text = text[: tail.start()]
        for match in _TOKEN.finditer(text):
            if match.group(7):
                for char in match.group(7):
                    self._put(char)
                continue
            last, self._last = self._last, ""  # only a character just shown can be repeated
            if match.group(6):
                self._control(match.group(6))
            elif match.group(3):
                if not match.group(2):
                    self._sequence(match.group(1), match.group(3), last)
            elif match.group(5) and not match.group(4):
                self._escape(match.group(5))

    def _put(self, char: str) -> None:
        size = width(char)
        if size == 0:
            if self._x > 0:
                self._lines[self._y][self._x - 1] += char
            return
        if self._x + size > self.columns:
            if self._wrap:
                self._x = 0
                self._down()
            else:
                self._x = self.columns - size
        row = self._lines[self._y]
        row[self._x] = self._last = char
        if size == 2:
            row[self._x + 1] = ""
        self._x += size

    def _control(self, char: str) -> None:
        if char == "\r":
            self._x = 0
        elif char in "\n\v\f":
            self._down()
        elif char == "\b":
            self._x = max(0, self._x - 1)
        elif char == "\t":
            self._x = max(self._x, min((self._x // 8 + 1) * 8, self.columns - 1))

    def _down(self) -> None:
        if self._y == self._bottom:
            self._scroll(self._top, 1, self._bottom)
        elif self._y < self.rows - 1:
            self._y += 1

    def _up(self) -> None:
        if self._y == self._top:
            self._scroll(self._top, -1, self._bottom)
        elif self._y > 0:
            self._y -= 1

    def _scroll(self, top: int, count: int, bottom: int | None) -> None:
        """Moves the lines from `top` to `bottom` (None: the last): up by `count`, down if it is below zero."""
        bottom = self.rows - 1 if bottom is None else bottom
        size = bottom - top + 1
        count = max(-size, min(size, count))
        part = self._lines[top : bottom + 1]
        blank = [self._blank() for _ in range(abs(count))]
        self._lines[top : bottom + 1] = part[count:] + blank if count > 0 else blank + part[: size + count]

    def _escape(self, final: str) -> None:
        if final == "7":
            self._saved = self._y, self._x
        elif final == "8":
            self._move(*self._saved)
        elif final == "D":
            self._down()
        elif final == "E":
            self._x = 0
            self._down()
        elif final == "M":
            self._up()
        elif final == "c":
            self._other = None
            self._reset()

    def _move(self, y: int, x: int) -> None:
        self._y, self._x = max(0, min(y, self.rows - 1)), max(0, min(x, self.columns - 1))

    def _sequence(self, given: str, final: str, last: str) -> None:
        if given[:1] in ("?", ">", "<", "="):
            if given[0] == "?" and final in "hl":
                for mode in given[1:].split(";"):
                    self._mode(mode, final == "h")
            return
        numbers = [int(part) if part.isdigit() else 0 for part in given.split(";")]
        first = numbers[0]
        n, row, y, x = max(1, first), self._lines[self._y], self._y, self._x
        if final in "Hf":
            self._move(n - 1, max(1, numbers[1] if len(numbers) > 1 else 1) - 1)
        elif final in "AF":
            self._move(max(y - n, self._top if y >= self._top else 0), x if final == "A" else 0)
        elif final in "BeE":
            self._move(min(y + n, self._bottom if y <= self._bottom else self.rows - 1), 0 if final == "E" else x)
        elif final in "Ca":
            self._move(y, x + n)
        elif final == "D":
            self._move(y, x - n)
        elif final in "G`":
            self._move(y, n - 1)
        elif final == "d":
            self._move(n - 1, x)
        elif final == "J":
            self._erase(first)
        elif final == "K":
            start, end = (
                (x, self.columns) if first == 0 else (0, min(x + 1, self.columns)) if first == 1 else (0, self.columns)
            )
            row[start:end] = [" "] * (end - start)
        elif final == "X":
            end = min(x + n, self.columns)
            row[x:end] = [" "] * (end - x)
        elif final == "P":
            self._lines[y] = (row[:x] + row[x + n :] + self._blank())[: self.columns]
        elif final == "@":
            self._lines[y] = (row[:x] + [" "] * n + row[x:])[: self.columns]
        elif final in "LM":
            self._scroll(y, n if final == "M" else -n, self._bottom if self._top <= y <= self._bottom else None)
        elif final in "ST":
            self._scroll(self._top, n if final == "S" else -n, self._bottom)
        elif final == "r":
            bottom = numbers[1] if len(numbers) > 1 and numbers[1] else self.rows
            if n < bottom <= self.rows:
                self._top, self._bottom = n - 1, bottom - 1
                self._move(0, 0)
        elif final == "b":
            for _ in range(min(n, self.columns - x) if last else 0):
                self._put(last)
        elif final == "s":
            self._saved = y, x
        elif final == "u":
            self._move(*self._saved)

    def _erase(self, what: int) -> None:
        if what == 0:
            self._lines[self._y][self._x :] = [" "] * (self.columns - self._x)
            start, end = self._y + 1, self.rows
        elif what == 1:
            end = min(self._x + 1, self.columns)
            self._lines[self._y][:end] = [" "] * end
            start, end = 0, self._y
        else:
            start, end = 0, self.rows
        self._lines[start:end] = [self._blank() for _ in range(end - start)]

    def _mode(self, mode: str, on: bool) -> None:
        if mode == "1":
            self.application_keys = on
        elif mode == "7":
            self._wrap = on
        elif mode in ("47", "1047", "1049"):
            if on and self._other is None:
                self._other = self._lines
                self._saved = self._y, self._x
                self._lines = [self._blank() for _ in range(self.rows)]
            elif not on and self._other is not None:
                self._lines, self._other = self._other, None
                if mode == "1049":
                    self._move(*self._saved)
