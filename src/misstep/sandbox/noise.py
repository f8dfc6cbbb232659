"""What of an output is noise: learned from two fresh runs of the same command, never guessed.

A part of an output is noise where two fresh replays differ in it, and only as far as they show: where both have digits
there, the recorded output may have other digits. One thing is known beforehand: a moment (a date, a time, seconds since
the epoch) that lies within its own run is the clock's doing, even if both replays fell into the same minute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_TIME = r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"

_CLOCKS: list[tuple[str, tuple[str, ...]]] = [
    (rf"\d{{4}}-\d\d-\d\d[T ]{_TIME}{_ZONE}", ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M")),
    (rf"{_DAY},? {_MONTH} [ \d]\d {_TIME}(?: [AP]M)?{_ZONE} \d{{4}}", ("%a %b %d %H:%M:%S %Y",)),
    (rf"{_DAY}, \d\d {_MONTH} \d{{4}} {_TIME}{_ZONE}", ("%a, %d %b %Y %H:%M:%S",)),
    (rf"\d\d/{_MONTH}/\d{{4}}[: ]{_TIME}{_ZONE}", ("%d/%b/%Y %H:%M:%S",)),
    (rf"{_MONTH} [ \d]\d {_TIME}", ("%b %d %H:%M:%S", "%b %d %H:%M")),
    (r"\d{4}-\d\d-\d\d", ("%Y-%m-%d",)),
    (r"1[6-9]\d{8}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?", ()),
    (_TIME, ("%H:%M:%S", "%H:%M")),
]
_TOKEN = re.compile(
    "|".join(f"(?<![\\w.:/-])({pattern})(?![\\w:/-]|\\.\\d)" for pattern, _ in _CLOCKS) + r"|\w+|[ \t]+|\n|."
)
_SLACK = timedelta(seconds=2)


@dataclass(frozen=True)
class Moment:
    """When a command ran: seconds since the epoch."""

    start: float
    end: float


def _within(text: str, kind: int, ran: Moment) -> bool:
    """Whether a clock token names a moment of the run, as precisely as it is written."""
    start = datetime.fromtimestamp(ran.start, UTC) - _SLACK
    end = datetime.fromtimestamp(ran.end, UTC) + _SLACK
    formats = _CLOCKS[kind][1]
    if not formats:  # seconds since the epoch, or thousandths and so on of them
        whole = float(text) if "." in text else int(text) / 10 ** (len(text) - 10)
        return start.timestamp() <= whole <= end.timestamp()
    plain = re.sub(_ZONE[:-1] + r"(?= \d{4}$|$)", "", text) if kind in (0, 1, 2, 3) else text
    plain = re.sub(r"[.,]\d+", "", plain)
    if kind == 0:
        plain = plain.replace(" ", "T", 1)
    if kind == 1:
        plain = plain.replace(",", "")
    if kind == 3:
        plain = plain.replace(":", " ", 1) if plain[11] == ":" else plain
    for form in formats:
        try:
            seen = datetime.strptime(plain if "%Y" in form or "%d" not in form else f"{start.year} {plain}",
                                     form if "%Y" in form or "%d" not in form else f"%Y {form}")  # fmt: skip
        except ValueError:
            continue
        seen = seen.replace(tzinfo=UTC)
        unit = timedelta(seconds=1) if "%S" in form else timedelta(minutes=1) if "%M" in form else timedelta(days=1)
        if "%d" not in form:  # a time of day, of the day on which it ran
            return any(
                day + unit > start and day <= end
                for day in (seen.replace(year=d.year, month=d.month, day=d.day) for d in (start, end))
            )
        return seen + unit > start and seen <= end
    return False


def _tokens(text: str) -> list[tuple[str, int | None]]:
    """(text, which clock or None), in order; together they are the text."""
    return [(m.group(), None if m.lastindex is None else m.lastindex - 1) for m in _TOKEN.finditer(text)]


def _kind_of(one: str, other: str) -> list[str | _Noise]:
    """What may stand where two samples differ, no wider than they show."""
    if one.isspace() and other.isspace():
        return [r"[ \t]+"]
    length = len(one) if len(one) == len(other) else None
    if one.isdecimal() and other.isdecimal():
        return [_Noise("digits", length)]
    hexadecimal = length is not None and all(re.fullmatch("[0-9a-f]+", text) for text in (one, other))
    if (
        not hexadecimal and len({re.sub(r"\d+", "0", text) for text in (one, other)}) == 1
    ):  # 12ms and 15ms: only the numbers vary
        return [r"\d+".join(map(re.escape, re.split(r"\d+", one)))]
    for kind in ("hexadecimal", "word"):
        if all(re.fullmatch(_PATTERNS[kind] + "+", text) for text in (one, other)):
            return [_Noise(kind, length)]
    return [r"[^\n]*"]


_WIDTHS = ("digits", "hexadecimal", "word")
_PATTERNS = {"digits": r"\d", "hexadecimal": "[0-9a-f]", "word": r"\w"}


@dataclass(frozen=True)
class _Noise:
    """A token that differs: its narrowest kind, and its length where both samples had the same."""

    kind: str
    length: int | None


def _pattern(parts: list[str | _Noise]) -> str:
    """The whole pattern. One output's noise is of one kind: of random bytes in hexadecimal, some are two digits twice."""
    widest: dict[int | None, str] = {}
    for part in parts:
        if isinstance(part, _Noise):
            widest[part.length] = max(widest.get(part.length, "digits"), part.kind, key=_WIDTHS.index)
    made = []
    for part in parts:
        if isinstance(part, str):
            made.append(part)
            continue
        kind = part.kind if part.length is None else widest[part.length]
        free = part.length is None or kind == "digits"  # numbers have the length that they have
        made.append(_PATTERNS[kind] + ("+" if free else f"{{{part.length}}}"))
    return "".join(made)


class Mask:
    """The noise of one command's output.

    Args:
        one, other: its output in two fresh runs.
        ran: when these were.
    """

    def __init__(self, one: str, other: str, ran: tuple[Moment, Moment]) -> None:
        self._clocks: list[int] = []
        self._ran = ran
        self.learned = 0
        """How many parts differed between the two runs."""
        first, second = one.splitlines(keepends=True), other.splitlines(keepends=True)
        parts: list[str | _Noise] = []
        if len(first) == len(second):
            for a, b in zip(first, second, strict=True):
                parts += self._line(a, b)
        else:
            for tag, i, j, k, n in SequenceMatcher(None, first, second, False).get_opcodes():
                if tag == "equal" or j - i == n - k:
                    for a, b in zip(first[i:j], second[k:n], strict=True):
                        parts += self._line(a, b)
                else:  # lines that come and go
                    self.learned += 1
                    parts.append(rf"(?:[^\n]*\n?){{0,{2 * max(j - i, n - k)}}}")
        self._pattern = re.compile(_pattern(parts))

    def _line(self, one: str, other: str) -> list[str | _Noise]:
        first, second = _tokens(one), _tokens(other)
        if len(first) == len(second):
            return [part for a, b in zip(first, second, strict=True) for part in self._token(a, b)]
        opcodes = SequenceMatcher(None, [t for t, _ in first], [t for t, _ in second], False).get_opcodes()
        self.learned += 1
        same = sum(len(first[k][0].strip()) for tag, i, j, _, _ in opcodes if tag == "equal" for k in range(i, j))
        if same * 2 < len("".join(one.split())):
            return [r"[^\n]*", *(["\n"] if one.endswith("\n") else [])]
        parts: list[str | _Noise] = []
        for tag, i, j, k, n in opcodes:
            if tag == "equal":
                for a, b in zip(first[i:j], second[k:n], strict=True):
                    parts += self._token(a, b)
            else:
                gaps = ["".join(t for t, _ in first[i:j]), "".join(t for t, _ in second[k:n])]
                parts.append(r"\s*" if not "".join(gaps).strip() else r"[^\n]*?")
        return parts

    def _token(self, one: tuple[str, int | None], other: tuple[str, int | None]) -> list[str | _Noise]:
        (a, clock), (b, same_clock) = one, other
        if (
            clock is not None
            and clock == same_clock
            and _within(a, clock, self._ran[0])
            and _within(b, clock, self._ran[1])
        ):
            self._clocks.append(clock)
            self.learned += a != b
            return [f"({_CLOCKS[clock][0]})"]
        if a == b:
            return [re.escape(a)]
        self.learned += 1
        return _kind_of(a, b)

    @property
    def empty(self) -> bool:
        """Nothing in this output is noise."""
        return not self.learned and not self._clocks

    def covers(self, recorded: str, ran: Moment | None) -> bool:
        """Whether a recorded output differs in nothing but noise.

        Args:
            ran: when it was recorded; None where that is not known: then no moment in it counts as the clock's.
        """
        match = self._pattern.fullmatch(recorded)
        if match is None:
            return False
        if self._clocks and ran is None:
            return False
        return all(
            ran is not None and _within(text, kind, ran)
            for text, kind in zip(match.groups(), self._clocks, strict=True)
        )
