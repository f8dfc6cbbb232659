"""Branch tests, as people read them: points and their replays, and the report in the terminal and as one HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

import misstep
from misstep.report.console import one_line, printable
from misstep.report.panel import numbers as n
from misstep.report.panel import plots

MARK = 'content="misstep branch report '
STAGES = (
    ("attempts", "attempts read"),
    ("looked through", "looked through for points"),
    ("with a point", "with a point"),
    ("points", "points"),
    ("to be replayed", "of them, the record can be replayed"),
    ("rebuilt", "rebuilt: two replays show what the record shows"),
    ("continued", "with continuations"),
)


# -- points ----------------------------------------------------------------------------------------------------------------


def points(out: Console, found: Mapping[str, Any], most: int = 40) -> None:
    """A search: {"attempts": [...], "points": [...]} in the plain form."""
    rows = found["points"]
    lost = sum(bool(one["problem"]) for one in rows)
    looked = sum(not one["left_out"] for one in found["attempts"])
    out.print(
        Text(
            f"\n  {len(rows)} points in {looked} of {len(found['attempts'])} attempts; {lost} cannot be rebuilt", "bold"
        )
    )
    _reasons(out, "attempts left out", (one["left_out"] for one in found["attempts"]))
    _reasons(out, "points that cannot be rebuilt", (one["problem"] for one in rows))
    _table(
        out,
        "",
        ("policy", "task", "event", "step", "rebuildable", "what"),
        [
            (
                one["policy"] + ("" if one["scoped"] else " (out of scope)"),
                one["task"],
                f"{one['event']} ({one['action']})",
                str(one["step"]),
                "no" if one["problem"] else "maybe",
                one["what"],
            )
            for one in rows[:most]
        ],
    )
    if len(rows) > most:
        out.print(Text(f"  and {len(rows) - most} more (--json has them)", "quiet"))


def _reasons(out: Console, what: str, given: Iterable[str]) -> None:
    why: dict[str, int] = {}
    for one in given:
        if one:
            why[one] = why.get(one, 0) + 1
    for reason, count in _most(why):
        out.print(Text(f"  {what}: {count} ({one_line(reason, 140)})", "quiet"), soft_wrap=True)


def verdict(out: Console, point: Mapping[str, Any], known: Mapping[str, Any], trusted: bool) -> None:
    """What two replays said of a point, in a line or two."""
    style = "right" if trusted else "wrong"
    grade = known["grade"] or "not replayed"
    out.print(
        Text.assemble(
            "  ", (f"{grade:<13}", style), (f"{one_line(point['policy'], 40)} ", "name"),
            (f"{one_line(point['attempt'], 40)}#{point['step']}  {known['commands']} commands, {known['seconds']:.1f} s", "quiet"),
        )
    )  # fmt: skip
    if known["why"]:
        out.print(Text(f"                {one_line(known['why'], 200)}"), soft_wrap=True)
    if known["live"]:
        text = (
            f"branched by replay each time: {len(known['live'])} process(es) live on ({one_line(known['live'][0], 80)})"
        )
        out.print(Text(f"                {text}", "unsure"), soft_wrap=True)


# -- the report ------------------------------------------------------------------------------------------------------------


def sentence(a: Mapping[str, Any]) -> str:
    """What was found, in one sentence."""
    if not a["effects"] or not a["effects"][0]["at_point"]:
        return "No point has continuations in both arms of the primary contrast yet."
    one = a["effects"][0]
    e = one["at_point"]
    return (
        f"At {one['points']} decision points of {one['tasks']} tasks, {one['arm']} passes {n.signed(e['mean'])} points "
        f"{'more' if e['mean'] >= 0 else 'less'} than {one['against']} (95 % interval {n.span(e['low'], e['high'])}, "
        f"exact p {n.p_text(e['p'])})."
    )


def notes(a: Mapping[str, Any]) -> list[str]:
    """What it cannot say."""
    found = []
    if a["effects"] and a["effects"][0]["note"]:
        found.append(a["effects"][0]["note"])
    if a["missing"]:
        found.append(
            f"{a['missing']} planned continuations have no observation: the bounds say what they could change."
        )
    lost = sum(a["lost"].values())
    if lost:
        found.append(
            f"{lost} of {a['funnel']['points']} points are not used; the effect is that at the others, which may differ from them."
        )
    if a["funnel"]["rebuilt"] and a["verbatim"] < a["funnel"]["rebuilt"]:
        rest = a["funnel"]["rebuilt"] - a["verbatim"]
        found.append(
            f"At {rest} points the conversation is not message by message the recorded one, but told in another form."
        )
    if a["replayed"]:
        found.append(
            f"At {a['replayed']} points processes live on: each continuation there began with a replay of its own, held against the first."
        )
    found.append(
        "The effect at points is conditional on reaching them in attempts without intervention; it says nothing of tasks where "
        "the policy never fires, nor of a second firing."
    )
    return found


def show(out: Console, a: Mapping[str, Any], written: Iterable[str] = ()) -> None:
    """Print an analysis in its plain form."""
    out.print()
    out.print(Text(f"  {one_line(sentence(a), 600)}", "bold"))
    if a["simulated"]:
        out.print(
            Text(f"  Simulated: {one_line(a['simulated'], 200)}. These figures say nothing about any agent.", "wrong")
        )
    _table(out, "Points", ("", ""), [(label, f"{a['funnel'][key]:,}") for key, label in STAGES])
    _table(out, "Points that are not used", ("why", ""), [(why, str(count)) for why, count in _most(a["lost"])])
    _table(out, "Attempts that were left out", ("why", ""), [(why, str(count)) for why, count in _most(a["left_out"])])
    _table(
        out,
        "Effects at the points, in points of pass rate; tasks are the unit",
        ("contrast", "of", "effect", "95 % interval", "p", "Holm", "p within", "tasks", "points"),
        [_effect_row(one) for one in a["effects"]],
    )
    _table(
        out,
        "Effects on a whole attempt (attempts in which the policy never fires count 0)",
        ("contrast", "of", "effect", "95 % interval", "p", "tasks", "attempts", "without"),
        [
            (
                n.name(one), one["policy"], n.signed(e["mean"]), n.span(e["low"], e["high"]), n.p_text(e["p"]), str(e["tasks"]),
                str(one["attempts"]), str(one["without"]),
            )
            for one in a["effects"] if (e := one["per_attempt"])
        ],
    )  # fmt: skip
    _table(
        out,
        "Arms",
        ("arm", "passed", "intervened", "behaviour", "ends", "tokens", "time, s"),
        [_arm_row(*o) for o in a["arms"].items()],
    )
    _table(out, "Continuations that are no observations", ("why", ""), [(w, str(c)) for w, c in _most(a["faults"])])
    out.print(Text("\n  What this cannot say", "heading"))
    for one in notes(a):
        out.print(Text(f"  - {one_line(one, 400)}"), soft_wrap=True)
    out.print()
    for name in written:
        out.print(Text.assemble("  Written  ", (one_line(name, 400), "command")), soft_wrap=True)


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _effect_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    e = one["at_point"]
    shown = ("–", "–", "–") if e is None else (n.signed(e["mean"]), n.span(e["low"], e["high"]), n.p_text(e["p"]))
    holm = "" if one["p_holm"] is None else n.p_text(one["p_holm"])
    return (n.name(one), one["policy"], *shown, holm, n.p_text(one["p_within"]), str(one["tasks"]), str(one["points"]))


def _arm_row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    ends = ", ".join(f"{n.ENDS.get(kind, kind)} {count}" for kind, count in one["terminations"].items())
    return (
        name, n.share(one["passed"], one["continuations"]), n.share(one["fired"], one["continuations"]),
        n.share(*one["behaviour"]), ends, f"{one['tokens']:,}", f"{one['seconds']:,.0f}",
    )  # fmt: skip


def _table(out: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="quiet", pad_edge=False, show_header=any(heads))
    lines = [[printable(one_line(cell, 200)) for cell in row] for row in rows]
    wide = [min(44, max([len(head), *(len(row[at]) for row in lines)])) for at, head in enumerate(heads)]
    wide[-1] = max(
        16, out.width - 4 - sum(wide[:-1]) - 2 * (len(wide) - 1)
    )  # what is longest stands last, and gives way
    for at, head in enumerate(heads):
        plain = at and all(row[at][0] in "+−–0123456789<" for row in lines if row[at])
        made.add_column(
            head, justify="right" if plain else "left", overflow="ellipsis", no_wrap=True, max_width=wide[at]
        )
    for line in lines:
        made.add_row(*map(Text, line))
    if title:
        out.print(Text(f"\n  {title}", "heading"))
    from rich.padding import Padding

    out.print(Padding(made, (0, 0, 0, 2)))


# -- the page --------------------------------------------------------------------------------------------------------------


def text(analysis: Mapping[str, Any], version: str = misstep.__version__) -> str:
    """The page of an analysis in its plain form. The same analysis gives the same bytes."""
    shown: dict[str, Any] = _safe(analysis)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("misstep.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(n=n, plots=plots)
    style = (resources.files("misstep.report") / "templates" / "panel.css").read_text(encoding="utf-8")
    contrasts = [
        {**one, "cohort": one["policy"], "role": "secondary" if at else "primary", "effect": one["at_point"]}
        for at, one in enumerate(shown["effects"])
    ]
    return environment.get_template("branch.html.j2").render(
        a=shown,
        version=version,
        style=Markup(style),
        style_hash="sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        sentence=sentence(shown),
        notes=notes(shown),
        stages=STAGES,
        most=_most,
        forest=plots.forest({"contrasts": contrasts}),
    )


def _safe(value: Any) -> Any:
    """The same with every text printable: nothing in it that a browser or a terminal would act on."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): _safe(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(one) for one in value]
    return value
