"""The summary of a scan in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from .console import one_line
from .words import agent_name, count, percent, period, points, program, quoted, reason, shortened

if TYPE_CHECKING:
    from misstep.scan.sources import Place
    from misstep.scan.summary import Summary, Tally

_BAR = 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LISTED = 6
"""Reasons that are listed one by one."""


def show(
    out: Console,
    summary: Summary,
    places: Iterable[Place] = (),
    written: Iterable[str] = (),
    asked: str = "",
    by_path: bool = False,
) -> None:
    """Print the summary. `asked` are the arguments as they were given, for the commands that are proposed; these name sessions
    by their path where ids are not known to `misstep show` (no index was written)."""
    out.print()
    _head(out, summary, list(places))
    tallies = summary.sorted()
    seen = [t for t in tallies if t.sessions]
    if seen:
        _table(out, summary, seen, by_path)
    elif tallies:
        out.print(Text(f"\n  None of {count(len(tallies), 'misstep')} was found.", "right"))
    else:
        out.print(Text("\n  No misstep is stable yet: --preview counts those in preview.", "unsure"))
    _rest(out, tallies)
    _policies(out, summary)
    _outcomes(out, summary, seen)
    _not_counted(out, summary)
    _next(out, seen, list(written), asked, by_path)


def _head(out: Console, summary: Summary, places: list[Place]) -> None:
    sessions = count(summary.sessions, "session")
    if summary.subagents:
        sessions += f" ({summary.subagents:,} of them of sub-agents)"
    facts = [sessions, count(summary.steps, "agent step"), count(summary.calls, "call")]
    when = period(summary.first, summary.last)
    out.print(Text.assemble("  ", (" · ".join(facts), "bold"), *([("   " + when, "quiet")] if when else [])))
    agents = [f"{agent_name(name)} {n:,}" for name, n in summary.agents.most_common()]
    _wrapped(out, ", ".join(agents), "quiet")
    if summary.sessions and summary.tallies:
        share = percent(summary.affected / summary.sessions)
        line = f"{summary.affected:,} of {summary.sessions:,} sessions ({share}) hold at least one misstep"
        out.print(Text(f"  {line}", "wrong" if summary.affected else "right"))


def _table(out: Console, summary: Summary, seen: list[Tally], by_path: bool) -> None:
    bar = _BAR + 2 if out.width >= 96 else 0
    rates = out.width >= 64
    room = out.width - 4 - 21 - bar - (17 if rates else 0)
    head = f"  {'The agent …':<{room}}  {'':<{bar}}{'sessions':>14}{'times':>7}"
    out.print(Text("\n" + head + (f"{'steps':>8}{'chances':>9}" if rates else ""), "quiet"))
    for tally in seen:
        _row(out, summary, tally, room, bar, rates, by_path)
    _legend(out, seen, rates)


def _row(out: Console, summary: Summary, tally: Tally, room: int, bar: int, rates: bool, by_path: bool) -> None:
    base = tally.in_scope if tally.info["scoped"] else summary.sessions
    part = tally.sessions / base if base else 0
    decided = tally.occurrences + tally.right
    first, *rest = _named(tally, room)
    line = Text("\n  ")
    line.append_text(first)
    line.append(" " * (room - len(first) + 2))
    if bar:
        line.append(f"{_bar(part):<{bar}}", "bar")
    line.append(f"{f'{tally.sessions:,}/{base:,}':>8}{percent(part):>6}")
    line.append(f"{f'{tally.occurrences:,}×':>7}")
    if rates:
        line.append(f"{percent(tally.occurrences / summary.steps) if summary.steps else '':>8}", "quiet")
        line.append(f"{percent(tally.occurrences / decided) if decided else '':>9}", "quiet")
    out.print(line)
    for more in rest:
        out.print(Text("  ").append_text(more))
    for example in tally.examples[:1]:
        _example(out, example, by_path)


def _named(tally: Tally, room: int) -> list[Text]:
    """The name, then the id and what is to be known of it, in lines of at most `room` characters."""
    words = [(word, "name") for word in tally.info["name"].split()] + [(f" {tally.id}", "quiet")]
    if tally.info["status"] == "preview":
        words.append((" preview", "quiet"))
    if tally.info["scoped"]:
        words.append((" of tasks in scope", "quiet"))
    if tally.unknown:
        words.append((f" {tally.unknown:,} unknown", "quiet"))
    lines = [Text()]
    for word, style in words:
        if len(lines[-1]) and len(lines[-1]) + 1 + len(word) > room:
            lines.append(Text())
        lines[-1].append((" " if len(lines[-1]) else "") + (word if len(lines[-1]) else word.lstrip()), style)
    return lines


def _legend(out: Console, seen: list[Tally], rates: bool) -> None:
    """What the words of the table mean."""
    said = ["chances: steps where it could happen and the record tells"] if rates else []
    said += ["unknown: the record does not tell"] if any(t.unknown for t in seen) else []
    if said:
        _wrapped(out, "; ".join(said), "quiet", before="\n")


def _shown(example: dict[str, Any], by_path: bool) -> str:
    """The command that shows an example."""
    name = example["path"] + (f"::{example['n']}" if example["n"] else "") if by_path else example["session"]
    return f"{program()} show {quoted(name)}#{example['step']}"


def _example(out: Console, example: dict[str, Any], by_path: bool) -> None:
    left = _shown(example, by_path)
    line = Text("    ")
    line.append(left, "command")
    room = out.width - len(left) - 7
    said = example["why"] or example["command"]
    if room >= 24:
        line.append("   " + shortened(said, room), "quiet")
        out.print(line, soft_wrap=True)
    else:
        out.print(line, soft_wrap=True)
        out.print(Text("      " + shortened(said, out.width - 7), "quiet"))


def _bar(part: float) -> str:
    eighths = round(part * _BAR * 8)
    if part and not eighths:
        eighths = 1
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def _rest(out: Console, tallies: list[Tally]) -> None:
    silent = [t.id for t in tallies if not t.sessions and t.judged]
    never = [t.id for t in tallies if not t.judged]
    if silent:
        _wrapped(out, "Not found: " + ", ".join(silent), "quiet", before="\n")
    if never:
        _wrapped(out, "No chance to happen: " + ", ".join(never), "quiet", before="" if silent else "\n")


def _policies(out: Console, summary: Summary) -> None:
    if not summary.policies:
        return
    out.print(Text("\n  Policies that would have stepped in", "heading"))
    ranked = sorted(summary.policies.items(), key=lambda p: (-p[1]["sessions"], -p[1]["times"], p[0]))
    for name, policy in ranked:
        line = Text("    ")
        line.append(f"{name:<40} ")
        line.append(f"{policy['action']:<9}", "quiet")
        line.append(f"{count(policy['times'], 'time')} in {count(policy['sessions'], 'session')}")
        out.print(line)


def _outcomes(out: Console, summary: Summary, seen: list[Tally]) -> None:
    """The difference in pass rate of each misstep for which there is one, or why there is none."""
    if not summary.outcomes:
        return
    told = {name: n for name, n in summary.outcomes.items() if name in ("passed", "failed")}
    counts = [f"{n:,} {name}" for name, n in sorted(told.items(), key=lambda kv: (-kv[1], kv[0]))]
    untold = summary.sessions - sum(told.values())
    counts += [f"{untold:,} without a recorded outcome"] if untold else []
    out.print(Text.assemble(("\n  Outcomes  ", "heading"), ", ".join(counts)))
    known = [(t, summary.outcome(t)) for t in seen]
    available = [(t, found) for t, found in known if found["available"]]
    if not available:
        why = sorted({found["reason"] for _, found in known})
        if why:
            _wrapped(out, "the difference in pass rate is not available: " + "; ".join(why), "quiet", indent=4)
        return
    text = (
        "Pass rate of attempts with the misstep less that of attempts at the same task without it, in points: mean over "
        "tasks, exact 95 % interval, p. An association, not an effect of the misstep."
    )
    _wrapped(out, text, "quiet", indent=4)
    wide = max(len(t.id) for t, _ in available)
    for tally, found in available:
        line = Text(f"    {tally.id:<{wide}}  ")
        style = "wrong" if found["high"] < 0 else ""
        interval = f"[{points(found['low'])}, {points(found['high'])}]"
        line.append(f"{points(found['difference']):>5} {interval:<13}", style)
        line.append(f"  p {found['p']:<6.2g}  {count(found['tasks'], 'task')}", "quiet")
        out.print(line, soft_wrap=True)
    few = [f"{t.id} ({found['changed']})" for t, found in available if found["note"]]
    if few:
        text = "Too few tasks differ (in brackets) for any p below 0.05: " + ", ".join(few)
        _wrapped(out, text, "quiet", indent=4)


def _not_counted(out: Console, summary: Summary) -> None:
    lines: list[str] = []
    if summary.copies:
        lines.append(
            f"{count(summary.copies, 'copy', 'copies')} of sessions that stand in several files (the longest counts)"
        )
    for name, n in sorted(summary.faults.items()):
        why = "the agent never ran" if name == "never-ran" else f"broken by {name}"
        lines.append(f"{count(n, 'attempt')}: {why}")
    if summary.empty:
        lines.append(f"{count(summary.empty, 'session')} without a step of the agent")
    for name, n in sorted(summary.filtered.items()):
        lines.append(
            f"{count(n, 'session')} left out by --{name}"
            if name in ("agent", "since")
            else f"{count(n, 'session')}: {name}"
        )
    lines += _reasons(summary.unread, "file")
    lines += [f"{line} (read in part)" for line in _reasons(summary.partial, "file")]
    lines += _reasons(summary.skipped, "record")
    for name, n in sorted(summary.errors.items()):
        lines.append(f"{name}: its detector failed on {count(n, 'session')} (please report this)")
    if lines:
        out.print(Text("\n  Not counted", "heading"))
        for line in lines:
            _wrapped(out, line, "quiet", indent=4)


def _reasons(counted: Any, what: str) -> list[str]:
    ranked = sorted(counted.items(), key=lambda kv: (-kv[1], kv[0]))
    lines = [f"{count(n, what)}: {reason(why)}" for why, n in ranked[:_LISTED]]
    if len(ranked) == _LISTED + 1:
        lines.append(f"{count(ranked[-1][1], what)}: {reason(ranked[-1][0])}")
    elif len(ranked) > _LISTED:
        left = sum(n for _, n in ranked[_LISTED:])
        lines.append(f"{count(left, what)} for {len(ranked) - _LISTED} other reasons (--json lists them)")
    return lines


def _next(out: Console, seen: list[Tally], written: list[str], asked: str, by_path: bool) -> None:
    out.print()
    for name in written:
        out.print(Text.assemble("  Written  ", (one_line(name, 400), "command")), soft_wrap=True)
    if seen and seen[0].examples:
        _line(out, "Next     ", _shown(seen[0].examples[0], by_path), "the first of these in its context")
        _line(out, "         ", f"{program()} catalogue {seen[0].id}", "what it is, and how it is told")
        if not any(name.endswith((".html", ".htm")) for name in written):
            asked = f" {one_line(asked, 4000)}" if asked else ""
            _line(out, "         ", f"{program()} scan{asked} --html report.html", "every occurrence, in context")
    else:
        _line(out, "Next     ", f"{program()} catalogue", "what is looked for")
    out.print()


def _line(out: Console, lead: str, command: str, what: str) -> None:
    fits = 2 + len(lead) + len(command) + 3 + len(what) <= out.width
    out.print(Text.assemble(f"  {lead}", (command, "command"), ("   " + what if fits else "", "quiet")), soft_wrap=True)


def _wrapped(out: Console, text: str, style: str, before: str = "", indent: int = 2) -> None:
    pad = " " * indent
    lines = textwrap.wrap(one_line(text, 4000), out.width - indent - 2, break_on_hyphens=False)
    body = ("\n" + pad + "  ").join(lines)
    out.print(Text(before + pad + body, style), soft_wrap=True)
