"""The catalogue in the terminal."""

from __future__ import annotations

import re
import textwrap

from rich.console import Console
from rich.text import Text

from misstep.catalogue import Misstep

from .pages import Precision, example_lines, page_of, paragraphs, precisions
from .words import program


def show_list(out: Console, missteps: tuple[Misstep, ...]) -> None:
    """Every misstep on one or two lines, the stable ones first."""
    known = precisions()
    for status, title in (
        ("stable", "Counted by default"),
        ("preview", "In preview: counted with --preview, or by name"),
    ):
        chosen = [m for m in missteps if m.status == status]
        if not chosen:
            continue
        out.print(Text(f"\n  {title}  The agent …", "heading"))
        wide = max(len(m.id) for m in chosen) + 2
        for m in chosen:
            lines = textwrap.wrap(m.name, max(30, out.width - wide - 16)) or [""]
            line = Text(f"    {m.id:<{wide}}", "command")
            line.append(f"{lines[0]:<{max(30, out.width - wide - 16)}}", "")
            line.append(_share(known.get(m.id)), "quiet")
            out.print(line, soft_wrap=True)
            for more in lines[1:]:
                out.print(Text(" " * (wide + 4) + more), soft_wrap=True)
    if known:
        out.print(Text("\n  The share of hand-checked occurrences that were right stands on the right.", "quiet"))
    out.print(Text.assemble("\n  ", (f"{program()} catalogue ID", "command"), ("   explains one\n", "quiet")))


def show_one(out: Console, misstep: Misstep) -> None:
    """A misstep's page."""
    page = page_of(misstep)
    out.print(Text(f"\n  {page.title}", "heading"))
    checked = precisions().get(misstep.id)
    status = f"{misstep.id} · {misstep.status}, since {misstep.since}"
    out.print(Text(f"  {status}{_checked(checked)}", "quiet"))
    for heading, text in page.sections.items():
        out.print(Text(f"\n  {heading}", "heading"))
        for paragraph in paragraphs(text):
            for line in paragraph.split("\n"):
                _prose(out, line, 4)
    for policy in misstep.policies:
        out.print(Text(f"\n  Policy {policy.id}", "heading"))
        limit = (
            "until released" if policy.limit is None else f"at most {policy.limit}×" if policy.limit != 1 else "once"
        )
        where = "before the call" if policy.at == "before" else "when the agent wants to stop"
        out.print(Text(f"    {'denies' if policy.action == 'deny' else 'instructs'} {where}, {limit}", "quiet"))
        for line in policy.text.splitlines():
            _prose(out, line, 4)
    _examples(out, misstep)
    out.print()


def _examples(out: Console, misstep: Misstep) -> None:
    from misstep.catalogue.examples import load

    try:
        fires, silent = load(misstep)
    except FileNotFoundError:
        return
    for example in fires:
        out.print(Text(f"\n  Found: {example.name}", "heading"))
        _stream(out, example_lines(example.items))
    for example in silent:
        verdict = "cannot be told" if example.verdict == "unknown" else "right"
        out.print(Text.assemble((f"\n  {verdict.capitalize()}: {example.name}", "heading")))
        _prose(out, f"differs from “{example.near}”: {example.differs}", 4, "quiet")
        _stream(out, example_lines(example.items))


def _stream(out: Console, lines: list[tuple[bool, str]]) -> None:
    for mark, text in lines:
        first, *rest = text.split("\n")
        style = "wrong" if mark else "command" if first.startswith(("$", "types")) else ""
        for at, part in enumerate(textwrap.wrap(first, out.width - 9, replace_whitespace=False) or [""]):
            out.print(Text(("  ✗   " if mark and not at else "      ") + part, style), soft_wrap=True)
        for line in rest:
            for part in textwrap.wrap(line, out.width - 11, replace_whitespace=False) or [""]:
                out.print(Text("      │ " + part, "quiet"), soft_wrap=True)


def _prose(out: Console, text: str, indent: int, style: str = "") -> None:
    """Text with `code` in colour, wrapped."""
    for line in textwrap.wrap(text, out.width - indent - 2, break_on_hyphens=False) or [""]:
        shown = Text(" " * indent, style)
        for at, part in enumerate(re.split(r"`", line)):
            shown.append(part, "command" if at % 2 and line.count("`") % 2 == 0 else style)
        out.print(shown, soft_wrap=True)


def _share(p: Precision | None) -> str:
    return "" if p is None or p.share is None else f"  {p.right}/{p.n} right"


def _checked(p: Precision | None) -> str:
    if p is None or p.share is None:
        return " · precision not measured"
    low, high = p.interval() or (0.0, 1.0)
    return f" · {p.right} of {p.n} hand-checked occurrences right (95 % interval {low:.2f} to {high:.2f})"
