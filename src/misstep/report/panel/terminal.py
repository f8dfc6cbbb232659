"""A panel's report in the terminal: what was found in one sentence, then the tables, then what it cannot say."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misstep.report.console import one_line, printable
from misstep.report.panel import numbers as n

NAMES = 12
"""Names of tasks that are listed."""


def show(out: Console, analysis: Mapping[str, Any], written: Iterable[str] = (), notes: Iterable[str] = ()) -> None:
    """Print an analysis in its plain form. notes: sentences that stand with its limits."""
    cohort = n.chosen(analysis)
    planned = [one for one in analysis["contrasts"] if one["role"] != "described"]
    _head(out, analysis)
    _contrasts(out, analysis)
    _changed(out, planned)
    _bounds(out, planned)
    _interactions(out, analysis)
    _cells(out, analysis)
    _ks(out, analysis, cohort)
    _funnel(out, analysis, cohort)
    _stages(out, analysis)
    _families(out, analysis)
    _transitions(out, analysis)
    _ends(out, analysis)
    _spend(out, analysis)
    _checks(out, analysis)
    _limits(out, [*notes, *(one["text"] for one in analysis["limits"])])
    out.print()
    for name in written:
        out.print(Text.assemble("  Written  ", (one_line(name, 400), "command")), soft_wrap=True)


def _head(out: Console, a: Mapping[str, Any]) -> None:
    out.print()
    facts = [n.counted(len(a["tasks"]), "task"), n.counted(len(a["arms"]), "arm")]
    facts.append(f"{a['observed']:,} of {a['planned']:,} attempts observed")
    title = one_line(a["name"], 60)
    out.print(Text.assemble("  ", ((title + "   ") if title else "", "bold"), (" · ".join(facts), "quiet")))
    _wrapped(out, a["sentence"], "bold", before="\n")
    if a["simulated"]:
        _wrapped(out, "Simulated attempts: these figures say nothing about any agent.", "wrong")


def _wrapped(out: Console, text: str, style: str = "", before: str = "", lead: str = "  ") -> None:
    lines = textwrap.wrap(one_line(text, 4000), out.width - len(lead) - 2, break_on_hyphens=False)
    body = ("\n" + " " * len(lead)).join(lines)
    out.print(Text(f"{before}{lead}{body}", style), soft_wrap=True)


def _table(out: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str | Text]], left: int = 1) -> None:
    """A table whose first columns are names."""
    lines = list(rows)
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="quiet", pad_edge=False)
    wide = [max([len(head), *(len(str(row[at])) for row in lines)]) for at, head in enumerate(heads)]
    kept = len(wide)
    while kept > left + 1 and out.width - 4 - sum(wide[1:kept]) - 2 * (kept - 1) < min(wide[0], 12):
        kept -= 1  # a narrow terminal does without the last columns, never without the names
    room = max(12, out.width - 4 - sum(wide[1:kept]) - 2 * (kept - 1))  # what the other columns leave
    title += f" ({len(wide) - kept} columns more in a wider terminal)" if kept < len(wide) else ""
    for at, head in enumerate(heads[:kept]):
        least = min(wide[0], room) if at == 0 else None
        justify: Any = "left" if at < left else "right"
        made.add_column(head, justify=justify, no_wrap=at > 0, overflow="fold", min_width=least, max_width=least)
    count = 0
    for row in lines:
        made.add_row(*(one if isinstance(one, Text) else Text(printable(one)) for one in row[:kept]))
        count += 1
    if count:
        out.print(Text(f"\n  {printable(title)}", "heading"))
        from rich.padding import Padding

        out.print(Padding(made, (0, 0, 0, 4)))


_EFFECT = ("points", "95 % interval", "p", "tasks", "up", "down")


def _effect(effect: Mapping[str, Any] | None) -> list[str]:
    if effect is None:
        return [n.NONE, n.NONE, n.NONE, "0", "", ""]
    return [
        n.signed(effect["mean"]),
        n.span(effect["low"], effect["high"]),
        n.p_text(effect["p"]),
        f"{effect['tasks']:,}",
        f"{effect['up']:,}",
        f"{effect['down']:,}",
    ]


def _labels(found: Sequence[Mapping[str, Any]]) -> tuple[list[str], str]:
    """The names of contrasts, and what they share: 'real − sham', or 'real' and ', less sham' where names are long."""
    others = {one["against"] for one in found}
    if len(others) == 1 and max(len(n.name(one)) for one in found) > 40:
        return [one["arm"] for one in found], f", less {min(others)}"
    return [n.name(one) for one in found], ""


def _contrasts(out: Console, a: Mapping[str, Any]) -> None:
    for cohort in dict.fromkeys(one["cohort"] for one in a["contrasts"]):
        found = n.of(a["contrasts"], cohort=cohort)
        within = any(one["p_within"] is not None for one in found)
        rows = []
        labels, rest = _labels(found)
        for one, label in zip(found, labels, strict=True):
            style = {"primary": "bold", "described": "quiet"}.get(one["role"], "")
            row = [label + (" *" if one["role"] == "primary" else ""), *_effect(one["effect"])]
            row.append(n.p_text(one["p_holm"]) if one["role"] == "secondary" else "")
            if within:
                row.append(n.p_text(one["p_within"]))
            rows.append([Text(printable(cell), style) for cell in row])
        described = all(one["role"] == "described" for one in found)
        title = f"Effects on {n.COHORTS.get(cohort, cohort)}" + (" (described, not planned)" if described else "")
        title += rest
        _table(out, title, ["", *_EFFECT, "Holm", *(["p within"] if within else [])], rows)


def _changed(out: Console, planned: Sequence[Mapping[str, Any]]) -> None:
    for one in planned:
        if one["note"]:
            _wrapped(out, f"{n.name(one)}: {one['note']}", "unsure", lead="    ")
    primary = next((one for one in planned if one["role"] == "primary"), None)
    if primary:
        for what in ("improved", "regressed"):
            found = primary[what]
            if found:
                more = f" and {len(found) - NAMES:,} more" if len(found) > NAMES else ""
                _wrapped(out, f"{what} ({len(found):,}): {', '.join(found[:NAMES])}{more}", "quiet", lead="    ")


def _bounds(out: Console, planned: Sequence[Mapping[str, Any]]) -> None:
    found = [one for one in planned if one["bounds"]]
    if not found:
        return
    labels, rest = _labels(found)
    rows = [
        [label, *(f"{n.signed(b['mean'])} (p {n.p_text(b['p'])})" for b in one["bounds"])]
        for one, label in zip(found, labels, strict=True)
    ]
    title = f"If the missing attempts had ended otherwise{rest}"
    _table(out, title, ["", "all fail", "all pass", "worst", "best"], rows)


def _interactions(out: Console, a: Mapping[str, Any]) -> None:
    rows = [
        [n.name(one), n.signed(one["mean"]), n.span(one["low"], one["high"]), n.p_text(one["p"]), one["why"]]
        for one in a["interactions"]
    ]
    _table(out, "Eligible less silent", ["", "points", "95 % interval", "p", ""], rows)


def _cells(out: Console, a: Mapping[str, Any]) -> None:
    rows = [
        [
            one["arm"],
            one["cohort"],
            n.share(one["passed"], one["attempts"]),
            n.percent(one["rate"]),
            n.rates(one["low"], one["high"]),
            f"{one['missing']:,}" if one["missing"] else "",
            n.rates(one["rate_all_fail"], one["rate_all_pass"]) if one["missing"] else "",
        ]
        for one in a["cells"]
    ]
    heads = ["", "tasks", "passed", "rate, %", "95 % interval", "missing", "all fail … pass"]
    _table(out, "Arms", heads, rows, left=2)


def _ks(out: Console, a: Mapping[str, Any], cohort: str) -> None:
    rows = []
    for one in n.of(a["cells"], cohort=cohort):
        for k in one["ks"]:
            if k["why"]:
                rows.append([one["arm"], str(k["k"]), "not available", "", "", ""])
            else:
                rows.append(
                    [
                        one["arm"],
                        str(k["k"]),
                        n.percent(k["at"]),
                        n.rates(k["at_low"], k["at_high"]),
                        n.percent(k["hat"]),
                        n.rates(k["hat_low"], k["hat_high"]),
                    ]
                )
    heads = ["", "k", "pass@k", "95 % interval", "pass^k", "95 % interval"]
    _table(out, f"pass@k and pass^k on {n.COHORTS.get(cohort, cohort)}, %", heads, rows)


def _stage_row(one: Mapping[str, Any]) -> list[str]:
    whole = one["attempts"]
    return [
        n.share(one["state"], one["told"]),
        n.share(one["fired"], one["watched"]),
        n.share(one["behaviour"], one["known"]),
        n.share(one["passed"], whole),
    ]


_STAGES = ("state", "intervened", "behaviour", "passed")


def _funnel(out: Console, a: Mapping[str, Any], cohort: str) -> None:
    rows = [[one["arm"], *_stage_row(one)] for one in n.of(a["funnel"], cohort=cohort)]
    _table(out, f"Funnel on {n.COHORTS.get(cohort, cohort)}", ["", *_STAGES], rows)


def _stages(out: Console, a: Mapping[str, Any]) -> None:
    primary = next((one for one in a["contrasts"] if one["role"] == "primary"), None)
    if primary:
        found = n.of(a["stages"], arm=primary["arm"], against=primary["against"])
        rows = [[n.STAGES[one["stage"]], *_effect(one["effect"])] for one in found]
        _table(out, f"Stages, {n.name(primary)}", ["", *_EFFECT], rows)


def _families(out: Console, a: Mapping[str, Any]) -> None:
    rows = []
    for one in a["families"]:
        for at, arm in enumerate(one["arms"]):
            name = f"{one['family']} ({len(one['tasks'])})" if not at else ""
            rows.append([name, arm["arm"], *_stage_row(arm)])
    _table(out, "Families (tasks)", ["", "", *_STAGES], rows, left=2)
    rows = [
        [one["family"], part, *_effect(one[key])]
        for one in a["left_out"]
        for part, key in (("its own tasks", "own"), ("elsewhere", "elsewhere"))
    ]
    _table(out, "What a family adds (the real arm less the one without it)", ["", "", *_EFFECT], rows, left=2)


def _transitions(out: Console, a: Mapping[str, Any]) -> None:
    primary = next(iter(a["transitions"]), None)
    if primary and primary["tasks"]:
        title = f"Tasks by passes, {primary['against']} (rows) to {primary['arm']} (columns)"
        rows = [[str(i), *map(str, row)] for i, row in enumerate(primary["tasks"])]
        _table(out, title, ["", *map(str, range(len(primary["tasks"][0])))], rows)


def _ends(out: Console, a: Mapping[str, Any]) -> None:
    kinds = ("pass", "gave-up", "fail", "timeout", "crash")
    rows = []
    for one in n.of(a["terminations"], cohort="all"):
        lost = ", ".join(f"{n.ENDS.get(why, why)} {k:,}" for why, k in one["missing"].items())
        rows.append([one["arm"], *(f"{one['counts'][k]:,}" for k in kinds), f"{one['replaced']:,}", lost or "none"])
    heads = ["", *(n.ENDS[k] for k in kinds), "replaced", "without an observation"]
    _table(out, "How attempts ended", heads, rows)


def _spend(out: Console, a: Mapping[str, Any]) -> None:
    rows = [
        [
            one["arm"],
            n.MEASURES[one["measure"]],
            n.share(one["known"], one["attempts"]),
            n.amount(one["total"], one["measure"]),
            n.amount(one["mean"], one["measure"]),
        ]
        for one in n.of(a["spend"], cohort="all")
        if one["known"] and one["measure"] in ("cost_usd", "seconds", "output_tokens")
    ]
    _table(out, "Cost, time, tokens", ["", "", "on record", "total", "mean"], rows, left=2)
    rows = []
    for one in a["spend_changes"]:
        effect, kind = one["effect"], one["measure"]
        if effect and kind in ("cost_usd", "seconds", "output_tokens"):
            ends = f"{n.amount(effect['low'], kind, True)} to {n.amount(effect['high'], kind, True)}"
            mean = n.amount(effect["mean"], kind, True)
            rows.append([n.name(one), n.MEASURES[kind], mean, ends, n.p_text(effect["p"]), n.change(one["ratio"])])
    heads = ["", "", "difference", "95 % interval", "p", "change"]
    _table(out, "Paired differences of a task's mean", heads, rows, left=2)


def _checks(out: Console, a: Mapping[str, Any]) -> None:
    rows = [
        [n.name(one), what, *_effect(one[key])]
        for one in a["placebo"]
        for what, key in (("nothing fired", "untouched"), ("something fired", "touched"))
        if one[key]
    ]
    _table(out, "Placebo: what moves where nothing fired is noise", ["", "tasks where", *_EFFECT], rows, left=2)
    rows = []
    for one in a["sensitivity"]:
        odds = n.number(one["odds_ratio"], 2)
        ends = n.NONE if one["odds_low"] is None else f"{one['odds_low']:.2f} to {one['odds_high']:.2f}"
        label = n.METHODS.get(one["method"], one["method"])
        rows.append([label, odds, ends, n.signed(one["difference"]), n.p_text(one["p"])])
    heads = ["", "odds ratio", "95 % interval", "points", "p"]
    _table(out, "Sensitivity: other models of the primary contrast", heads, rows)
    for one in a["sensitivity"]:
        if one["odds_ratio"] is None and one["why"]:
            _wrapped(out, f"{n.METHODS.get(one['method'], one['method'])}: {one['why']}", "quiet", lead="    ")


def _limits(out: Console, texts: Sequence[str]) -> None:
    if texts:
        out.print(Text("\n  What this panel cannot say", "heading"))
        for text in texts:
            _wrapped(out, text, "unsure", lead="    · ")
