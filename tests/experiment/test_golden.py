"""FIRE's published tables from the counts, by the report's own code: analysis, page and terminal.

Where the paper prints a Monte Carlo value, the exact one stands beside it here and in docs/panel.md.
"""

from __future__ import annotations

import io
import json
import re

import pytest

from misstep.experiment import Attempt
from misstep.experiment.analysis import Analysis, analyse
from misstep.report.console import console
from misstep.report.panel import page, terminal
from misstep.stats import from_transitions

pytestmark = pytest.mark.corpus

PUBLISHED_P = {"luna": (0.43, 0.4333), "terra": (0.17, 0.1702), "sol": (0.09, 0.0935)}
"""Table 5: as printed, exact."""
PANEL_P = {
    "sham": (0.061, 0.0625),
    "baseline": (0.032, 0.03125),
    "always-verify": (0.064, 0.0625),
    "reconsider": (0.28, 0.28125),
}
"""Table 3: as printed, exact."""


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "golden" / "fire-tables.json").read_text())


def outcomes(arm: str, passes: dict[str, int], attempts: int, **more: object) -> list[Attempt]:
    """Attempts of an arm from the passes of each task."""
    return [
        Attempt(task=task, arm=arm, replicate=r + 1, termination="pass" if r < k else "fail", passed=r < k, **more)  # type: ignore[arg-type]
        for task, k in passes.items()
        for r in range(attempts)
    ]


def points(*values: float | None) -> list[float]:
    return [round(100 * v, 1) for v in values if v is not None]


def shown(analysis: Analysis) -> tuple[str, str]:
    """What people read: terminal and page (its text), with every minus as in the paper."""
    out = io.StringIO()
    terminal.show(console(out, width=116), analysis.plain())
    html = re.sub(r"<style>.*?</style>", "", page.text(analysis.plain()), flags=re.S)
    return out.getvalue(), re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def suite(golden, model: str) -> Analysis:
    baseline, policy = from_transitions(golden["transitions_table6"][model])
    made = []
    for arm, counts in (("baseline", baseline), ("policy", policy)):
        made += outcomes(arm, {f"task-{i:02}": p for i, (p, _) in enumerate(counts)}, 2)
    return analyse(made, primary=("policy", "baseline"))


@pytest.mark.parametrize("model", ["luna", "terra", "sol"])
def test_table_5_from_table_6(golden, model) -> None:
    published = golden["complete_suite_table5"][model]
    analysis = suite(golden, model)
    cells = [analysis.cell("baseline"), analysis.cell("policy")]
    assert points(*(c.rate for c in cells)) == published["pass@1"]
    assert points(*(c.ks[1].at for c in cells)) == published["pass@2"]
    assert points(*(c.ks[1].hat for c in cells)) == published["pass^2"]
    primary = analysis.primary
    assert primary is not None and primary.effect is not None
    effect = primary.effect
    assert points(effect.mean) == [published["delta"]]
    assert points(effect.low, effect.high) == published["ci95"]
    assert (len(primary.improved), len(primary.regressed)) == (published["improved"], published["regressed"])
    printed, exact = PUBLISHED_P[model]
    assert (round(effect.p, 2), round(effect.p, 4)) == (printed, exact) and published["p"] == printed
    assert [list(row) for row in analysis.transitions[0].tasks] == golden["transitions_table6"][model]
    for text in shown(analysis):
        low, high = (f"{v:+.1f}".replace("-", "−") if v else "0.0" for v in published["ci95"])
        assert f"{published['delta']:+.1f}" in text and f"{low} to {high}" in text
        assert f"{effect.p:.4g}" in text
        for name in ("pass@1", "pass@2", "pass^2"):
            assert all(f"{v:.1f}" in text for v in published[name])


def split(total: int, attempts: int, tasks: int) -> list[int]:
    """Some way to spread passes over tasks."""
    made = []
    for left in range(tasks, 0, -1):
        made.append(min(attempts, total) if total else 0)
        total -= made[-1]
        assert total <= attempts * (left - 1)
    return made


def panel(golden) -> Analysis:
    """Table 3: passes per task that give all published differences, counts and cohorts at once.

    The differences of real to each other arm are known up to their order over tasks, so each contrast is analysed with
    passes of its own (`pair` below); here all arms have the published totals.
    """
    table = golden["panel_table3"]
    made = []
    for arm, total in table["eligible_passes_of_28"].items():
        counts = split(total, 2, 14)
        made += outcomes(
            arm.replace("_", "-"), {f"e{i:02}": k for i, k in enumerate(counts)}, 2, eligible=("service-persistence",)
        )
    for arm, total in table["silent_passes_of_32"].items():
        counts = split(total, 2, 16)
        made += outcomes(arm.replace("_", "-"), {f"s{i:02}": k for i, k in enumerate(counts)}, 2)
    return analyse(made, primary=("real", "sham"))


def pair(
    differences: list[float], arm: str, against: str, prefix: str, attempts: int = 2, **more: object
) -> list[Attempt]:
    """Attempts of two arms with these differences per task."""
    steps = [round(d * attempts) for d in differences]
    return [
        one
        for i, d in enumerate(steps)
        for name, k in ((arm, max(d, 0)), (against, max(-d, 0)))
        for one in outcomes(name, {f"{prefix}{i:02}": k}, attempts, **more)
    ]


def test_table_3_counts(golden) -> None:
    analysis = panel(golden)
    for arm, total in golden["panel_table3"]["eligible_passes_of_28"].items():
        cell = analysis.cell(arm.replace("_", "-"), "eligible")
        assert (cell.passed, cell.attempts, cell.tasks) == (total, 28, 14)
    for arm, total in golden["panel_table3"]["silent_passes_of_32"].items():
        cell = analysis.cell(arm.replace("_", "-"), "silent")
        assert (cell.passed, cell.attempts) == (total, 32)
    text, html = shown(analysis)
    assert "17/28" in text and "17/28" in html and "21/32" in html


@pytest.mark.parametrize("against", list(PANEL_P))
def test_table_3_contrasts(golden, against) -> None:
    row = golden["panel_table3"][f"real_minus_{against.replace('-', '_')}"]
    analysis = analyse(pair(row["task_differences_inferred"], "real", against, "e"), primary=("real", against))
    found = analysis.primary
    assert found is not None and found.effect is not None
    effect = found.effect
    assert points(effect.mean) == [row["delta"]]
    ends = row.get("ci95_exact", row.get("ci95"))
    assert points(effect.low, effect.high) == ends
    printed, exact = PANEL_P[against]
    assert effect.p == exact == row["p_exact"] and row.get("p_published", printed) == printed
    assert ("few-changed" in {one.kind for one in analysis.limits}) == (effect.up + effect.down < 6)
    for text in shown(analysis):
        assert f"{row['delta']:+.1f}" in text
        assert f"{ends[0]:+.1f} to {ends[1]:+.1f}".replace("-", "−") in text
        assert f"{exact:.4g}" in text


def test_table_3_interaction(golden) -> None:
    table = golden["panel_table3"]
    row = table["interaction"]
    attempts = pair(table["real_minus_sham"]["task_differences_inferred"], "real", "sham", "e", eligible=("a",))
    attempts += pair(row["silent_differences_inferred"], "real", "sham", "s")
    analysis = analyse(attempts, primary=("real", "sham"))
    (found,) = analysis.interactions
    assert found.mean is not None and found.p is not None
    assert 100 * found.mean == row["delta"]
    assert points(found.low, found.high) == row["ci95"]
    assert round(found.p, 4) == row["p_exact_label_permutation"] and round(found.p, 1) == row["p_published"]
    for text in shown(analysis):
        assert "+18.8" in text and "−4.9 to +42.9" in text and "0.1974" in text


@pytest.mark.parametrize("model", ["luna", "terra", "sol"])
def test_table_7(golden, model) -> None:
    columns = golden["terminations_table7"]["columns"]
    names = ["pass", "gave-up", "fail", "timeout", "crash"]
    attempts = []
    for arm, row in ((a, r) for a, r in golden["terminations_table7"][model].items()):
        counts = dict(zip(columns, row, strict=True))
        total = sum(counts[c] for c in columns[:5])
        # Published ends of one row add up to 174, 175 or 176 of 174 attempts: each row is taken with its own sum.
        ends = [name for name, column in zip(names, columns, strict=False) for _ in range(counts[column])]
        attempts += [
            Attempt(
                task=f"t{i:03}", arm=arm, termination=end, passed=end == "pass",
                cost_usd=counts["cost_usd"] / total, seconds=counts["mean_agent_s"],
            )
            for i, end in enumerate(ends)
        ]  # fmt: skip
    analysis = analyse(attempts, primary=("policy", "baseline"))
    for arm, row in golden["terminations_table7"][model].items():
        (found,) = (one for one in analysis.terminations if (one.arm, one.cohort) == (arm, "all"))
        assert list(found.counts.values()) == row[:5]
        assert list(found.counts) == names
        spend = {one.measure: one for one in analysis.spend if (one.arm, one.cohort) == (arm, "all")}
        assert round(spend["cost_usd"].total or 0, 2) == row[5]
        assert round(spend["seconds"].mean or 0) == row[6]
    text, _ = shown(analysis)
    for arm, row in golden["terminations_table7"][model].items():
        line = next(one.split() for one in text.splitlines() if one.split()[:2] == [arm, str(row[0])])
        assert line[1:6] == [str(n) for n in row[:5]]


@pytest.mark.parametrize("model", ["luna", "terra", "sol"])
def test_cost_change_of_table_5(golden, model) -> None:
    table = golden["terminations_table7"][model]
    attempts = []
    for arm, row in table.items():
        attempts += [Attempt(task=f"t{i}", arm=arm, termination="fail", cost_usd=row[5] / 87) for i in range(87)]
    analysis = analyse(attempts, primary=("policy", "baseline"))
    (change,) = (one for one in analysis.spend_changes if one.measure == "cost_usd")
    assert change.ratio is not None
    published = golden["complete_suite_table5"][model]["cost_change_pct"]
    # The paper's totals are rounded to cents: to the digit that this leaves.
    assert round(100 * change.ratio, 1) == pytest.approx(published, abs=0.11)


def test_table_8(golden) -> None:
    table = golden["cohort_table8"]
    attempts = []
    for arm, total in table["passes_of_28"].items():
        cost = table["cost_usd"][arm] / 28
        attempts += outcomes(arm, {f"e{i:02}": k for i, k in enumerate(split(total, 2, 14))}, 2, cost_usd=cost)
    for model in ("terra", "sol"):
        analysis = analyse(attempts, primary=(f"{model}+policies", model))
        gain = table["passes_of_28"][f"{model}+policies"] - table["passes_of_28"][model]
        found = analysis.primary
        assert found is not None and found.effect is not None
        assert found.effect.mean == pytest.approx(gain / 28)
    for arm, total in table["passes_of_28"].items():
        cell = analysis.cell(arm)
        assert (cell.passed, cell.attempts) == (total, 28)
        (cost,) = (
            one.total for one in analysis.spend if (one.arm, one.cohort, one.measure) == (arm, "all", "cost_usd")
        )
        assert cost is not None and round(cost, 2) == table["cost_usd"][arm]


@pytest.mark.parametrize("model", ["sol", "luna"])
def test_table_9(golden, model) -> None:
    table = golden["screen_table9"]
    attempts = []
    for arm in ("baseline", "policy"):
        attempts += outcomes(arm, dict(zip(table["tasks"], table[model][arm], strict=True)), table["attempts_per_task"])
    analysis = analyse(attempts, primary=("policy", "baseline"))
    found = analysis.primary
    assert found is not None and found.effect is not None
    assert found.effect.p == table[model]["exact_sign_flip_p"] == found.effect.floor
    moved = [
        t for t, b, p in zip(table["tasks"], table[model]["baseline"], table[model]["policy"], strict=True) if p > b
    ]
    assert list(found.improved) == sorted(moved) and not found.regressed
    assert [c.passed for c in (analysis.cell("baseline"), analysis.cell("policy"))] == [
        sum(table[model][arm]) for arm in ("baseline", "policy")
    ]
    for text in shown(analysis):
        assert f"{found.effect.p:.4g}" in text
        assert all(name in text for name in moved)


def test_the_funnel_of_figure_3() -> None:
    """The paper's funnel, by arm: state, fired, behaviour, pass of 28 eligible attempts (reference: FIRE, Figure 3)."""
    published = {
        "baseline": (25, 0, (11, 24), 11),
        "real": (26, 25, (22, 24), 17),
        "sham": (26, 26, (13, 24), 10),
        "always-verify": (25, 28, (14, 24), 11),
        "reconsider": (24, 28, (12, 24), 12),
    }
    attempts = []
    for arm, (state, fired, (shown_, known), passed) in published.items():
        name = arm if arm in ("always-verify", "reconsider") else "service-persistence"
        attempts += [
            Attempt(
                task=f"e{i // 2:02}", arm=arm, replicate=i % 2 + 1,
                termination="pass" if i < passed else "gave-up", passed=i < passed,
                eligible=("service-persistence",),
                state=("service-persistence",) if i < state else (),
                fired={name: 1} if i < fired else {},
                behaviour={"service-persistence": i < shown_ if i < known else None},
            )
            for i in range(28)
        ]  # fmt: skip
    analysis = analyse(attempts)
    for one in analysis.funnel:
        if one.cohort == "eligible":
            found = (one.state, one.fired, (one.behaviour, one.known), one.passed)
            assert found == published[one.arm]
            assert one.attempts == 28
    text, html = shown(analysis)
    assert re.search(r"real\s+26/28\s+25/28\s+22/24\s+17/28", text)
    assert re.search(r"real 26/28 25/28 22/24 17/28", html)
