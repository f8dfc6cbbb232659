"""Where the marks of a panel's figures go, in the units of their view boxes. The template's macros draw them."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor
from typing import Any

from misstep.report.panel.numbers import COHORTS, NONE, STAGES, name, of, p_text, percent, share, signed, span

ROW = 26
TASKS = 120
"""Rows of a per-task figure: of more tasks, those that changed most."""


def ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers from low to high, at most so many."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0):
        found = [round(i * step, 4) for i in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)]
        if len(found) <= most:
            return found
    return [-1.0, 0.0, 1.0]


def forest(analysis: Mapping[str, Any]) -> dict[str, Any] | None:
    """Figure 1 of the paper: every contrast with its interval, grouped by cohort, the planned ones first."""
    shown = [one for one in analysis["contrasts"] if one["effect"]]
    if not shown:
        return None
    ends = [v for one in shown for v in (one["effect"]["low"], one["effect"]["high"], 0.0)]
    marks = ticks(min(ends), max(max(ends), min(ends) + 0.02))
    left, right = 210, 640

    def x(value: float) -> float:
        return round(left + (value - marks[0]) / (marks[-1] - marks[0]) * (right - left), 1)

    rows: list[dict[str, Any]] = []
    y, cohort = 20, None
    for one in shown:
        if one["cohort"] != cohort:
            cohort = one["cohort"]
            rows.append({"head": COHORTS.get(cohort, cohort), "y": y + 2})
            y += ROW - 4
        effect = one["effect"]
        rows.append(
            {
                "y": y,
                "label": name(one),
                "role": one["role"],
                "x": x(effect["mean"]),
                "from": x(effect["low"]),
                "to": x(effect["high"]),
                "text": f"{signed(effect['mean'])} [{span(effect['low'], effect['high'])}]",
                "p": f"p {p_text(effect['p'])}",
            }
        )
        y += ROW
    return {
        "height": y + 22,
        "bottom": y - 8,
        "zero": x(0.0),
        "ticks": [(x(value), signed(value, 0)) for value in marks],
        "rows": rows,
    }


def funnel(analysis: Mapping[str, Any], cohort: str) -> dict[str, Any]:
    """Figure 3: of the attempts of each arm, how many saw the state, were intervened in, showed the behaviour, passed."""
    left, wide = 150, 150
    rows = []
    for at, one in enumerate(of(analysis["funnel"], cohort=cohort)):
        bars = []
        for column, stage in enumerate(("state", "fired", "behaviour", "passed")):
            whole = one[{"behaviour": "known", "state": "told", "fired": "watched"}.get(stage, "attempts")]
            part = one[stage] / whole if whole else 0.0
            bars.append(
                {
                    "x": left + column * wide,
                    "width": round(part * (wide - 62), 1),
                    "of": wide - 62,
                    "text": share(one[stage], whole),
                    "stage": stage,
                }
            )
        rows.append({"y": 34 + at * ROW, "label": one["arm"], "bars": bars})
    heads = [(left + i * wide, STAGES[s]) for i, s in enumerate(("state", "fired", "behaviour", "passed"))]
    return {"height": 34 + len(rows) * ROW, "rows": rows, "heads": heads}


def dumbbells(analysis: Mapping[str, Any], contrast: Mapping[str, Any]) -> dict[str, Any]:
    """Every task's pass rate in both arms of a contrast; the greatest gains first, the greatest losses last."""
    arms = [one["arm"] for one in analysis["arms"]]
    first, second = arms.index(contrast["arm"]), arms.index(contrast["against"])
    found = []
    for task in analysis["tasks"]:
        sizes = task["attempts"][first], task["attempts"][second]
        if all(sizes) and contrast["cohort"] in ("all", task["cohort"]):
            one, other = task["passed"][first] / sizes[0], task["passed"][second] / sizes[1]
            text = f"{share(task['passed'][second], sizes[1])} → {share(task['passed'][first], sizes[0])}"
            found.append((one - other, task["task"], one, other, text))
    total = len(found)
    if total > TASKS:
        found = sorted(found, key=lambda row: (-abs(row[0]), row[1]))[:TASKS]
    found.sort(key=lambda row: (-row[0], -row[2], row[1]))
    left, right = 250, 640
    rows = [
        {
            "y": 30 + at * 20,
            "label": task,
            "arm": round(left + one * (right - left), 1),
            "against": round(left + other * (right - left), 1),
            "text": text,
            "kind": "up" if moved > 0 else "down" if moved < 0 else "same",
        }
        for at, (moved, task, one, other, text) in enumerate(found)
    ]
    return {
        "height": 30 + len(rows) * 20,
        "rows": rows,
        "hidden": total - len(rows),
        "ticks": [(left + part * (right - left), percent(part).replace(".0", "") + " %") for part in (0, 0.5, 1)],
    }


def ends(analysis: Mapping[str, Any], cohort: str) -> dict[str, Any]:
    """How the attempts of each arm ended, as parts of one bar."""
    left, wide = 150, 560
    rows = []
    for at, one in enumerate(of(analysis["terminations"], cohort=cohort)):
        whole = sum(one["counts"].values()) + sum(one["missing"].values())
        x, parts = float(left), []
        kinds = [*one["counts"].items(), ("missing", sum(one["missing"].values()))]
        for kind, n in kinds:
            width = n / whole * wide if whole else 0.0
            if n:
                parts.append({"x": round(x, 1), "width": round(width, 1), "kind": kind, "text": str(n)})
            x += width
        rows.append({"y": 6 + at * ROW, "label": one["arm"], "parts": parts})
    return {"height": 6 + len(rows) * ROW, "rows": rows}


def heat(table: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """A table of transitions: every cell with its shade, 0 to 5, and whether the tasks in it gained or lost."""
    counts = table["tasks"]
    top = max((n for row in counts for n in row), default=0)
    rows, columns = len(counts) - 1, len(counts[0]) - 1 if counts else 0
    made = []
    for i, row in enumerate(counts):
        line = []
        for j, n in enumerate(row):
            moved = j * rows - i * columns
            shade = ceil(5 * n / top) if n else 0
            line.append({"n": n, "shade": shade, "kind": "up" if moved > 0 else "down" if moved < 0 else "same"})
        made.append(line)
    return made


def label(text: str, room: int) -> str:
    """A name in a figure, cut where there is no room."""
    return text if len(text) <= room else text[: room - 1] + "…"


__all__ = ["NONE", "dumbbells", "ends", "forest", "funnel", "heat", "label", "ticks"]
