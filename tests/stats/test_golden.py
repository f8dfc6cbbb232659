"""The published tables and job records, to the printed digit."""

import csv
import json
from collections import defaultdict

import pytest

from misstep.stats import (
    compare,
    from_transitions,
    interaction,
    mean_pass_at_k,
    mean_pass_hat_k,
    paired_effect,
    pass_at_k,
    pass_hat_k,
)

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "golden" / "fire-tables.json").read_text())


def points(*values):
    return [round(100 * v, 1) for v in values]


@pytest.mark.parametrize(("model", "exact_p"), [("luna", 0.4333), ("terra", 0.1702), ("sol", 0.0935)])
def test_table5_from_table6(golden, model, exact_p):
    published = golden["complete_suite_table5"][model]
    suite = compare(*from_transitions(golden["transitions_table6"][model]))
    effect = suite.effect
    assert effect.tasks == 87
    assert points(*suite.pass_at[0]) == published["pass@1"]
    assert points(*suite.pass_at[1]) == published["pass@2"]
    assert points(*suite.pass_hat[1]) == published["pass^2"]
    assert points(effect.mean) == [published["delta"]]
    assert points(*effect.interval[:2]) == published["ci95"]
    assert (effect.up, effect.down) == (published["improved"], published["regressed"])
    assert round(effect.p, 2) == published["p"]
    assert round(effect.p, 4) == exact_p
    assert effect.interval.slack == 0.0


CONTRASTS = ["real_minus_sham", "real_minus_baseline", "real_minus_always_verify", "real_minus_reconsider"]


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_panel_contrasts(golden, contrast):
    row = golden["panel_table3"][contrast]
    effect = paired_effect(row["task_differences_inferred"])
    assert points(effect.mean) == [row["delta"]]
    assert points(*effect.interval[:2]) == row.get("ci95_exact", row.get("ci95"))
    assert effect.p == row["p_exact"]
    assert (effect.note() is None) == (effect.changed >= 6)


def test_interaction(golden):
    panel = golden["panel_table3"]
    row = panel["interaction"]
    result = interaction(panel["real_minus_sham"]["task_differences_inferred"], row["silent_differences_inferred"])
    assert 100 * result.mean == row["delta"]
    assert points(*result.interval[:2]) == row["ci95"]
    assert round(result.p, 4) == row["p_exact_label_permutation"]


@pytest.mark.parametrize("model", ["sol", "luna"])
def test_screen(golden, model):
    table = golden["screen_table9"]
    arms = ([(passed, table["attempts_per_task"]) for passed in table[model][arm]] for arm in ("baseline", "policy"))
    effect = compare(*arms).effect
    assert effect.p == table[model]["exact_sign_flip_p"] == effect.floor


def test_transitions_round_trip(golden):
    for model in ("luna", "terra", "sol"):
        matrix = golden["transitions_table6"][model]
        baseline, other = from_transitions(matrix)
        again = [[0] * 3 for _ in range(3)]
        for (i, _), (j, _) in zip(baseline, other, strict=True):
            again[i][j] += 1
        assert again == matrix


def test_cohort_matches_panel_counts(golden):
    # The inferred differences add up to the published passes of 28.
    panel = golden["panel_table3"]
    passes = panel["eligible_passes_of_28"]
    for arm in ("sham", "baseline", "always_verify", "reconsider"):
        differences = panel[f"real_minus_{arm}"]["task_differences_inferred"]
        assert 2 * sum(differences) == passes["real"] - passes[arm]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("20250902_orchestrator_qwen-3-coder-480B", (0.2725, 0.3575, 0.3875)),
        ("20250902_orchestrator_claude-4-sonnet", (0.4625, 0.5475, 0.575)),
        ("20250906_orchestrator_claude-4.1-opus", (0.48625, 0.56, 0.575)),
    ],
)
def test_published_pass_at_k(shared, config, expected):
    tasks = defaultdict(list)
    with (shared / "corpus/terminal-bench-v1/derived/outcomes.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["config"] == config:
                tasks[row["task_id"]].append(row["is_resolved"] == "True")  # a null outcome counts as a failure
    counts = [(sum(outcomes), len(outcomes)) for outcomes in tasks.values()]
    assert len(counts) == 80
    for k, value in zip((2, 4, 5), expected, strict=True):
        assert mean_pass_at_k(counts, k) == pytest.approx(value, abs=1e-12)
    assert mean_pass_at_k(counts, 6) is None
    hats = [mean_pass_hat_k(counts, k) for k in range(1, 6)]
    assert hats == sorted(hats, reverse=True)
    assert hats[0] == pytest.approx(mean_pass_at_k(counts, 1))


def test_not_available_below_k():
    assert pass_at_k(1, 1, 2) is None
    assert pass_hat_k(1, 1, 2) is None
    assert mean_pass_at_k([(1, 2), (1, 1)], 2) is None
    assert mean_pass_at_k([], 1) is None
    assert pass_at_k(2, 5, 2) == pytest.approx(1 - (3 / 5) * (2 / 4))
    assert pass_hat_k(2, 5, 2) == pytest.approx((2 / 5) * (1 / 4))
    for bad in ((3, 2, 1), (-1, 2, 1), (1, 2, 0)):
        with pytest.raises(ValueError, match="needs k >= 1"):
            pass_at_k(*bad)
