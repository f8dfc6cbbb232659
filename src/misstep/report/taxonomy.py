"""A labelled taxonomy in the terminal, and as one HTML file: no script, nothing is loaded, no text of a record becomes markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup
from rich.console import Console
from rich.text import Text

import misstep
from misstep.profile.coverage import ALIKE

from .console import one_line, printable
from .words import count, fault, percent, program, quoted

NONE = "–"
LISTED = 12
"""Rows of the tail, and of overlaps, that the terminal shows."""
READINGS = {"draw": "another draw of the same model", "second": "another model"}


def show(out: Console, found: Mapping[str, Any], folder: str, everything: bool = False) -> None:
    """The summary: `found` is `coverage.numbers`."""
    out.print()
    _head(out, found)
    _types(out, found)
    _agreement(out, found)
    _overlap(out, found, folder, everything)
    _tail(out, found, everything)
    out.print()


def _head(out: Console, found: Mapping[str, Any]) -> None:
    steps, environments = found["coverage"]["steps"], found["coverage"]["environments"]
    out.print(
        Text(
            f"  {count(found['error_steps'], 'error step')} in {count(found['environments'], 'environment')} · "
            f"{count(len(found['types']), 'type')} · annotator {one_line(found['annotator'], 60)}",
            "bold",
        )
    )
    out.print(Text(f"  the types cover {share(steps)} of the labelled steps", ""))
    out.print(Text(f"  and occur in    {share(environments)} of the environments", ""))
    failed = found["error_steps"] - found["labelled"]
    if failed:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in found["failures"].items())
        unread = f"{', ' if kinds else ''}{found['unread']:,} not labelled yet" if found["unread"] else ""
        out.print(Text(f"  without labels  {failed:,} ({kinds}{unread}): in no share", "unsure"))


def _types(out: Console, found: Mapping[str, Any]) -> None:
    room = max(24, out.width - 56)
    out.print(Text(f"\n  {'The agent …':<{room}}{'steps':>8}{'share':>7}  {'95 %':<13}{'env.':>7}{'union':>8}{'kappa':>7}", "quiet"))  # fmt: skip
    kappas: Mapping[str, Any] = list(found["agreement"].values())[-1]["types"] if found["agreement"] else {}
    for one, union in zip(found["types"], found["union"], strict=True):
        style = "quiet" if one["small"] else ""
        line = Text("  ")
        line.append(f"{one_line(one['name'], room - 2):<{room}}", style or "name")
        line.append(
            f"{one['steps']['some']:>8,}{percent(one['steps']['rate']) or NONE:>7}  {interval(one['steps']):<13}"
        )
        line.append(f"{percent(one['environments']['rate']) or NONE:>7}{percent(union['steps']) or NONE:>8}")
        kappa = kappas.get(one["id"], {}).get("kappa")
        line.append(f"{NONE if kappa is None else f'{kappa:.2f}':>7}", "quiet")
        out.print(line)
        out.print(Text(f"    {one['id']}", "quiet"))
    out.print(
        Text("  share, env.: of labelled steps, of environments; union: share of the steps so far together", "quiet")
    )
    passes = found["passes"]
    if passes:
        grown = " → ".join(f"{one['coverage']:.1%}" for one in passes)
        out.print(Text(f"  refinement covered {grown} of the cards in {count(len(passes), 'pass', 'passes')}", "quiet"))


def _agreement(out: Console, found: Mapping[str, Any]) -> None:
    if not found["agreement"]:
        return
    out.print(Text("\n  Agreement of whole answers", "heading"))
    for name, one in found["agreement"].items():
        whole = one["whole"]
        kappa = (
            "not available" if whole["kappa"] is None else f"kappa {whole['kappa']:.2f} ({_plain(whole['interval'])})"
        )
        same = "" if whole["observed"] is None else f", the same in {percent(whole['observed'])}"
        out.print(Text(f"  {READINGS[name]:<34}{kappa}{same} of {whole['items']:,} steps"))


def _overlap(out: Console, found: Mapping[str, Any], folder: str, everything: bool) -> None:
    rows = found["overlap"]
    if not rows:
        out.print(Text("\n  No type has a step in which a misstep of the catalogue occurs.", "quiet"))
        return
    out.print(Text("\n  Beside the catalogue", "heading"))
    out.print(Text(f"  {'type':<46}{'misstep':<30}{'both':>6}{'type':>7}{'misstep':>9} only", "quiet"), soft_wrap=True)
    for one in rows if everything else rows[:LISTED]:
        line = Text(f"  {one_line(one['type'], 44):<46}{one_line(one['misstep'], 28):<30}")
        line.append(f"{one['both']:>6,}{one['only_type']:>7,}{one['only_misstep']:>9,}", "")
        line.append("  much the same" if one["jaccard"] >= ALIKE else "", "right")
        out.print(line, soft_wrap=True)
    if len(rows) > LISTED and not everything:
        out.print(Text(f"  {len(rows) - LISTED} more: --all", "quiet"))
    alike = {one["type"] for one in rows if one["jaccard"] >= ALIKE}
    fresh = next((one for one in found["types"] if one["id"] not in alike and one["steps"]["some"]), None)
    if fresh is not None:
        command = f"{program()} policies propose {fresh['id']} PATHS --taxonomy {quoted(folder)}"
        out.print(Text.assemble(("  " + command, "command"), ("   drafts a policy against the largest that no detector has", "quiet")), soft_wrap=True)  # fmt: skip


def _tail(out: Console, found: Mapping[str, Any], everything: bool) -> None:
    tail = found["tail"]
    none = found["labelled"] - found["coverage"]["steps"]["some"]
    out.print(
        Text(f"\n  The long tail: {count(none, 'step')} of no type, {count(len(tail), 'type')} not kept", "heading")
    )
    for one in tail if everything else tail[:LISTED]:
        left = f"  {one['cards']:>5,} cards  {one_line(one['name'], 44):<46}"
        out.print(Text(left + one_line(one["why"], max(12, out.width - len(left))), "quiet"), soft_wrap=True)
    if len(tail) > LISTED and not everything:
        out.print(Text(f"  {len(tail) - LISTED} more: --all", "quiet"))


def share(given: Mapping[str, Any]) -> str:
    """'52 % (48 to 56), 400 of 768'."""
    if given["rate"] is None:
        return "none to tell from"
    return f"{percent(given['rate'])} ({interval(given)}), {given['some']:,} of {given['of']:,}"


def interval(given: Mapping[str, Any]) -> str:
    """'48 to 56 %', to the digits that a share is given with."""
    if given["interval"] is None:
        return NONE
    low, high = (percent(max(0.0, end)) for end in given["interval"])
    return f"{low.removesuffix('%')} to {high}"


def _plain(ends: Sequence[float] | None) -> str:
    return NONE if ends is None else f"{ends[0]:.2f} to {ends[1]:.2f}"


def text(found: Mapping[str, Any], contexts: Mapping[str, Iterable[Mapping[str, Any]]], folder: str = "DIR") -> str:
    """The page: `found` is `coverage.numbers`, `contexts` is `instances.contexts`. The same gives the same bytes."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("misstep.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    files = resources.files("misstep.report") / "templates"
    style = "".join((files / name).read_text(encoding="utf-8") for name in ("panel.css", "taxonomy.css"))
    shown = _safe(found)
    environment.globals.update(
        percent=percent, interval=interval, share=share, plain=_plain, count=count, NONE=NONE, readings=READINGS,
        alike=ALIKE, notes=step_notes,
    )  # fmt: skip
    return environment.get_template("taxonomy.html.j2").render(
        f=shown,
        contexts=_safe({name: list(some) for name, some in contexts.items()}),
        union=_curve([(one["types"], one["steps"]) for one in shown["union"] if one["steps"] is not None], 1.0),
        passes=_curve([(one["pass"], one["coverage"]) for one in shown["passes"]], 1.0),
        seen=_curve(shown["rarefaction"], max((y for _, y in shown["rarefaction"]), default=0.0)),
        command=f"misstep policies propose TYPE PATHS --taxonomy {quoted(folder)}",
        version=misstep.__version__,
        style=Markup(style),
        style_hash="sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )


def step_notes(call: Mapping[str, Any]) -> str:
    """What is said of a call's end beside its output: 'exit 1', 'no result recorded'."""
    if call.get("missing"):
        return "no result recorded"
    found = []
    if call.get("fault"):
        found.append(fault(str(call["fault"]), str(call.get("output", ""))))
    elif call.get("exit_code") is not None:
        found.append(f"exit {call['exit_code']}")
    elif call.get("failed") is not None:
        found.append("failed" if call["failed"] else "")
    found += [name for name in ("truncated", "running") if call.get(name)]
    return ", ".join(one for one in found if one)


LEFT, RIGHT, TOP, BOTTOM = 44, 300, 12, 150


def _curve(points: Sequence[Sequence[float]], top: float) -> dict[str, Any] | None:
    """Where a curve goes, in the units of its view box; None where there is nothing to draw."""
    if not points or top <= 0:
        return None
    last = max(x for x, _ in points)

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x / last) * (RIGHT - LEFT) if last else LEFT
        return round(across, 1), round(BOTTOM - (y / top) * (BOTTOM - TOP), 1)

    made = [(*at(x, y), x, y) for x, y in points]
    return {
        "points": made,
        "line": " ".join(f"{x},{y}" for x, y, *_ in made),
        "last": last,
        "top": top,
        "end": made[-1],
    }


def _safe(value: Any) -> Any:
    """The same with every text printable: nothing in it that a browser or a terminal would act on."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): _safe(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(one) for one in value]
    return value
