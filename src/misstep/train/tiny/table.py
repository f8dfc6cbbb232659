"""The proof's table: rates with intervals over environments and seeds, and which of the expectations held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from misstep.stats.rates import wilson_clustered

MISSTEP, SUCCESS, TURNS, TRUNCATED = 1, 2, 3, 5
"""Places in an evaluation's line."""


def rate(lines: Iterable[Sequence[Any]], place: int) -> dict[str, Any]:
    """Share of 1 among what is known, over clusters that are environments (all seeds of one together): rate, low, high, n, unknown."""
    by: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    unknown = 0
    for line in lines:
        if line[place] is None:
            unknown += 1
            continue
        by[line[0]][0] += line[place]
        by[line[0]][1] += 1
    passed, total = sum(k for k, _ in by.values()), sum(n for _, n in by.values())
    interval = wilson_clustered([(k, n) for k, n in by.values()])
    return {
        "rate": passed / total if total else None, "low": interval.low if interval else None,
        "high": interval.high if interval else None, "n": total, "environments": len(by), "unknown": unknown,
    }  # fmt: skip


def row(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row: the cells of a recipe in a regime, over seeds."""
    sets = {name: [line for one in cells for line in one["evaluation"][name]] for name in cells[0]["evaluation"]}
    eligible = sets.get("eligible", sets["tasks"])
    drawn = sum(one.get("drawn", 0) for one in cells)
    return {
        "row": cells[0]["row"], "seeds": len(cells),
        "misstep_prefixes": rate(sets["prefixes"], MISSTEP),
        "success_prefixes": rate(sets["prefixes"], SUCCESS),
        "misstep_tasks": rate(eligible, MISSTEP),
        "success_eligible": rate(eligible, SUCCESS),
        "success_tasks": rate(sets["tasks"], SUCCESS),
        "by_seed": [
            {
                "seed": one["seed"], "misstep_prefixes": rate(one["evaluation"]["prefixes"], MISSTEP)["rate"],
                "misstep_tasks": rate(one["evaluation"].get("eligible", one["evaluation"]["tasks"]), MISSTEP)["rate"],
                "success_tasks": rate(one["evaluation"]["tasks"], SUCCESS)["rate"], "half": half(one),
            }
            for one in cells
        ],
        "turns": _mean(line[TURNS] for line in sets["tasks"]),
        "truncated_evaluation": _mean(line[TRUNCATED] for name in sets for line in sets[name]),
        "tokens": _mean(one["tokens"] for one in cells), "rollouts": _mean(one.get("rollouts", 0) for one in cells),
        "steps": _mean(one["steps"] for one in cells),
        "zero_signal": sum(one.get("zero_signal", 0) for one in cells) / drawn if drawn else None,
        "truncated": sum(one.get("truncated", 0) for one in cells), "unknown": sum(one.get("unknown", 0) for one in cells),
    }  # fmt: skip


def half(one: dict[str, Any]) -> int | None:
    """Tokens of training after which the rate from held-out prefixes was at most 57 % of the one before (43 % lower): at a probe on the
    way, or at the end; None: never seen."""
    curve = [point for point in one["curve"] if point[2]]
    if not curve or not curve[0][1]:
        return None
    goal = 0.57 * curve[0][1] / curve[0][2]
    told = [line[MISSTEP] for line in one["evaluation"]["prefixes"] if line[MISSTEP] is not None]
    points = [*curve[1:], *([[one["tokens"], sum(told), len(told)]] if told else [])]
    return next((tokens for tokens, k, n in points if k / n <= goal), None)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def table(cells: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Regime -> rows, `before` first, then in the order of the cells."""
    grouped: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for one in cells:
        grouped[one["regime"]][one["row"]].append(one)
    return {regime: [row(found) for found in rows.values()] for regime, rows in grouped.items()}


def expectations(rows: Sequence[dict[str, Any]], regime: str) -> list[dict[str, Any]]:
    """What the trials led us to expect, and whether it held: {says, held (None: cannot be told), figures}."""
    by = {one["row"]: one for one in rows}

    def of(name: str, what: str) -> float | None:
        value = by[name][what]["rate"] if name in by else None
        return None if value is None else float(value)

    def claim(says: str, held: bool | None, *figures: float | None) -> dict[str, Any]:
        known = all(one is not None for one in figures)
        return {"says": says, "held": held if known else None, "figures": figures}

    before, task, mix, only = (of(n, "misstep_tasks") for n in ("before", "behaviour-reward", "mirl", "mirl-prefixes"))
    ok_before, ok_task, ok_mix, ok_only = (
        of(n, "success_tasks") for n in ("before", "behaviour-reward", "mirl", "mirl-prefixes")
    )
    v = [
        one if one is not None else float("nan")
        for one in (before, task, mix, only, ok_before, ok_task, ok_mix, ok_only)
    ]
    if regime == "rare":
        halves = {
            name: [one["half"] for one in by[name]["by_seed"]] for name in ("behaviour-reward", "mirl") if name in by
        }
        slow, fast = halves.get("behaviour-reward", []), halves.get("mirl", [])
        reached = [one for one in fast if one is not None]
        sooner = len(reached) == len(fast) and (None in slow or _mean(reached) < _mean(filter(None, slow)))
        return [
            claim("half and half: the held-out rate falls by >= 43 %", v[2] <= 0.57 * v[0], before, mix),
            claim(
                "half and half: >= 43 % below task starts (same reward, same tokens)", v[2] <= 0.57 * v[1], task, mix
            ),
            claim(
                "half and half: success at least that of task starts (within 2 points)",
                v[6] >= v[5] - 0.02,
                ok_task,
                ok_mix,
            ),
            {
                "says": "half and half: fewer tokens until the rate from held-out prefixes is 43 % lower than task starts need",
                "held": sooner if slow and fast else None,
                "figures": (_mean(reached) if reached else None, None if None in slow or not slow else _mean(slow)),
            },
            claim(
                "prefixes only: breaks earlier steps (success > 5 points below half and half)",
                v[7] < v[6] - 0.05,
                ok_mix,
                ok_only,
            ),
        ]
    return [
        claim("task starts suffice: the held-out rate falls by >= 43 %", v[1] <= 0.57 * v[0], before, task),
        claim("half and half is no better than task starts by more than 5 points", v[2] >= v[1] - 0.05, task, mix),
        claim("task starts: success not below before", v[5] >= v[4] - 0.02, ok_before, ok_task),
    ]  # fmt: skip


_COLUMNS = (
    "recipe", "seeds", "misstep from held-out prefixes", "misstep from held-out tasks", "success, held-out tasks",
    "success where it may be met", "success from prefixes", "turns", "tokens", "rollouts", "zero-signal", "truncated", "unknown", "tokens to -43 %",
)  # fmt: skip


def markdown(tables: dict[str, list[dict[str, Any]]]) -> str:
    """The tables and the expectations as markdown."""
    lines = []
    for regime, rows in tables.items():
        lines += [f"### {regime} misstep", "", "| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
        for one in rows:
            halves = [seed["half"] for seed in one["by_seed"]]
            reached = [value for value in halves if value is not None]
            zero = "" if one["zero_signal"] is None else f"{one['zero_signal']:.0%}"
            when = (
                ""
                if one["row"] == "before"
                else f"{_mean(reached):,.0f} ({len(reached)}/{len(halves)})"
                if reached
                else "not seen"
            )
            cells = [
                one["row"], str(one["seeds"]), _shown(one["misstep_prefixes"]), _shown(one["misstep_tasks"]),
                _shown(one["success_tasks"]), _shown(one["success_eligible"]), _shown(one["success_prefixes"]), f"{one['turns']:.1f}",
                f"{one['tokens']:,.0f}", f"{one['rollouts']:,.0f}", zero, f"{one['truncated']}", f"{one['unknown']}", when,
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
        for claim in expectations(rows, regime):
            said = {True: "held", False: "did not hold", None: "not told"}[claim["held"]]
            figures = " / ".join(
                "not reached" if one is None else f"{one:.3f}" if one <= 1 else f"{one:,.0f}"
                for one in claim["figures"]
            )
            lines.append(f"* {claim['says']}: **{said}** ({figures})")
        lines.append("")
    return "\n".join(lines)


def _shown(one: dict[str, Any]) -> str:
    if one["rate"] is None:
        return "n/a"
    return f"{one['rate']:.3f} ({one['low']:.2f}-{one['high']:.2f})".replace("0.", ".").replace("1.000", "1.00")
