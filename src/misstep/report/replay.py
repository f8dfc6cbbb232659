"""A replay in the terminal: a grade for each command, and the first difference side by side."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from misstep.sandbox.replay import GRADES, Compared, Prefix

from .console import one_line, printable
from .words import count

_STYLES = {"exact": "right", "masked": "unsure", "different": "wrong", "unknown": "quiet"}
_AROUND = 3
_MOST = 24


def show(out: Console, prefix: Prefix, rule: str, *, every: bool = False) -> None:
    """Print what became of each command (only of those that are not exact, unless `every`), and the first difference."""
    compared = prefix.compared
    out.print()
    for number, one in enumerate(compared, 1):
        if every or one.grade != "exact":
            at = f" step {one.recorded.step}" if one.recorded.step is not None else ""
            reason = f"  {one_line(one.reason, 80)}" if one.reason else ""
            room = max(20, out.width - 22 - len(at) - len(reason))
            line = Text(f"  {number:>4} ")
            line.append(f"{one.grade:<9}", _STYLES[one.grade])
            line.append(f"{at} ", "quiet")
            line.append(one_line(one.recorded.shown, room), "command")
            line.append(reason, "quiet")
            out.print(line)
    first = prefix.first_difference
    if first is not None and first.recorded.output is not None and not first.recorded.edits:
        _difference(out, first, compared.index(first) + 1)
    _summary(out, prefix, rule)


def _difference(out: Console, one: Compared, number: int) -> None:
    out.print()
    out.print(Text(f"  The first difference: command {number}", "heading"))
    for words in one.recorded.command.strip().splitlines()[:8]:
        out.print(Text("    " + one_line(words, out.width - 4), "command"))
    out.print()
    half = (out.width - 9) // 2
    codes = [one.recorded.exit_code, one.replays[-1].exit_code]
    heads = [f"{name} (exit code {'unknown' if code is None else code})" for name, code in zip(("recorded", "replayed"), codes, strict=True)]  # fmt: skip
    out.print(Text(f"    {heads[0]:<{half}} {heads[1]}", "quiet"))
    left, right = ((text or "").splitlines() for text in (one.recorded.output, one.replays[-1].output))
    rows = _rows(left, right)
    start = next((i for i, (mark, _, _) in enumerate(rows) if mark), None)
    if start is None:
        shown, before = rows[-_AROUND:], len(rows) > _AROUND
    else:
        shown, before = rows[max(0, start - _AROUND) :][:_MOST], start > _AROUND
    if before:
        out.print(Text("    ...", "quiet"))
    for mark, a, b in shown:
        if mark == "|" and a is not None and b is not None:
            a, b = _from_difference(a, b, half)
        line = Text("    ")
        line.append(f"{_cell(a, half):<{half}}", "right" if mark else "")
        line.append(f" {mark or ' '} ", "wrong")
        line.append(_cell(b, half), "wrong" if mark else "")
        out.print(line)
    if start is not None and len(rows) > max(0, start - _AROUND) + _MOST:
        out.print(Text("    ...", "quiet"))
    if (one.recorded.output or "").splitlines() == one.replays[-1].output.splitlines() and one.grade == "different":
        out.print(Text("    (they differ in white space at the ends, or in the exit code)", "quiet"))


def _rows(left: list[str], right: list[str]) -> list[tuple[str, str | None, str | None]]:
    """(mark, recorded line, replayed line): '' the same, | changed, < only recorded, > only replayed."""
    rows: list[tuple[str, str | None, str | None]] = []
    for tag, i, j, k, n in SequenceMatcher(None, left, right, False).get_opcodes():
        for a, b in zip_longest(left[i:j], right[k:n]):
            mark = "" if tag == "equal" else "|" if a is not None and b is not None else "<" if b is None else ">"
            rows.append((mark, a, b))
    return rows


def _from_difference(left: str, right: str, width: int) -> tuple[str, str]:
    """Both lines, cut at their start where their first difference would else be out of sight."""
    same = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    if same < width * 2 // 3:
        return left, right
    return "…" + left[same - 12 :], "…" + right[same - 12 :]


def _cell(text: str | None, width: int) -> str:
    if text is None:
        return ""
    shown = printable(text).expandtabs(8)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _summary(out: Console, prefix: Prefix, rule: str) -> None:
    counts = Counter(one.grade for one in prefix.compared)
    out.print()
    words = [f"{counts[grade]} {grade}" for grade in GRADES if counts[grade]]
    out.print(
        Text(
            f"  {count(len(prefix.compared), 'command')}, each replayed twice: {', '.join(words) or 'none'}", "heading"
        )
    )
    for reason, number in sorted(prefix.recording.skipped.items()):
        out.print(Text(f"  {count(number, 'call')} not replayed: {one_line(reason, 90)}", "quiet"))
    for process in prefix.live:
        out.print(Text(f"  still running at the end: {one_line(process.command, 90)} (branched by replay)", "unsure"))
    if prefix.trusted("masked" if rule == "masked" else "exact"):
        out.print(Text("  The prefix can be trusted.", "right"))
    else:
        wanted = "exact" if rule == "exact" else "exact, or differ in noise only"
        out.print(Text(f"  The prefix cannot be trusted: every command has to be {wanted}.", "wrong"))
    out.print()
