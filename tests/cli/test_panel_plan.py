"""`misstep panel plan` and `misstep panel power`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misstep.experiment import Attempt, write_attempts
from misstep.experiment.plan.lock import read, verify

DESIGN = """
name = "demo"
seed = 4
attempts = 2
arms = ["baseline", "real", "sham"]
secondary = [["real", "baseline"]]
[tasks]
path = "tasks"
[agent]
name = "codex"
[primary]
contrast = ["real", "sham"]
[cohorts]
count = 2
[rates]
effect = 0.3
usd_per_attempt = 0.25
pass_rates = "past.jsonl"
"""


@pytest.fixture
def design(tmp_path: Path) -> Path:
    for n, text in enumerate(
        [6 * "Start an HTTP server on port 80. It must still be running when the work is judged.\n"] * 6
        + ["Count words.\n"] * 3
    ):
        task = tmp_path / "tasks" / f"t{n}"
        task.mkdir(parents=True)
        (task / "task.toml").write_text("")
        (task / "instruction.md").write_text(text)
    past = [
        Attempt(task=f"t{n}", arm="baseline", termination="pass" if n % 2 else "fail", passed=bool(n % 2), total_seconds=100.0 + n)
        for n in range(9)
    ]  # fmt: skip
    write_attempts(tmp_path / "past.jsonl", past)
    path = tmp_path / "panel.toml"
    path.write_text(DESIGN)
    return path


def test_plan_writes_only_where_it_is_told(run, design: Path, tmp_path: Path) -> None:
    before = sorted(p.name for p in tmp_path.iterdir())
    code, out, err = run("panel", "plan", design)
    assert (code, err) == (0, "")
    assert "demo: 8 tasks x 3 arms x 2 attempts = 48 attempts, seed 4" in out
    assert "primary: real - sham in the eligible tasks; secondary: real - baseline" in out
    assert "money  $12.00 (given)" in out
    assert (
        "time   83 min, 95 % between 81 min and 85 min (9 past attempts at 9 tasks, 8 of the 8 planned ones), 1 at once"
        in out
    )
    assert "power of the primary contrast (past rates of these tasks (arm baseline))" in out
    assert "  +30 points: 0." in out
    assert out.endswith("Nothing is written. --out DIR locks it.\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_plan_locks(run, design: Path, tmp_path: Path) -> None:
    code, out, _ = run("panel", "plan", design, "--out", tmp_path / "panel")
    assert code == 0
    assert f"Locked in {tmp_path / 'panel'}. Next: misstep panel run {tmp_path / 'panel'}" in out
    assert verify(tmp_path / "panel", analysis=True) == ""
    assert len(read(tmp_path / "panel").slots) == 48
    code, _, err = run("panel", "plan", design, "--out", tmp_path / "panel")
    assert code == 2 and "a panel is locked here already" in err and err.count("\n") == 1


def test_plan_as_json(run, design: Path) -> None:
    code, out, _ = run("panel", "plan", design, "--json", "--effect", "0.1")
    found = json.loads(out)
    assert (code, found["attempts"], [c["effect"] for c in found["power"]]) == (0, 48, [0.1])
    assert found["cost"]["money"]["total"] == 12.0


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "demo"', "name = 1", "panel.toml: name: expected a text"),
        ('path = "tasks"', 'path = "taks"', "panel.toml: tasks.path: "),
        ("count = 2", "count = 4", "panel.toml: cohorts.count: expected at most 3"),
        ('"sham"]\nsec', '"sham", "without:nothing"]\nsec', "panel.toml: no arm 'without:nothing'"),
        ("past.jsonl", "absent.jsonl", "rates.pass_rates: "),
        ("past.jsonl", "panel.toml", "panel.toml:2: not JSON"),
        ("seed = 4", 'portfolio = "absent.toml"', "absent.toml: No such file"),
        ("name", "\x00", "panel.toml: not TOML"),
        (
            '"codex"\n',
            '"codex"\nkwargs = {misstep = {colour = "red"}}\n',
            "panel.toml: agent.kwargs.misstep.colour: unknown key",
        ),
    ],
)
def test_what_is_wrong_is_one_line(run, design: Path, old: str, new: str, says: str) -> None:
    design.write_text(DESIGN.replace(old, new, 1))
    code, out, err = run("panel", "plan", design)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_an_agent_that_no_run_will_take_is_told_before_the_lock(run, design: Path) -> None:
    design.write_text(DESIGN.replace('"codex"', '"oracle"'))
    code, out, err = run("panel", "plan", design)
    assert (code, err) == (0, "")
    assert (
        "warning: `panel run` cannot run this. agent.name: the guard has no place in 'oracle'; it is one of codex"
        in out
    )
    design.write_text(DESIGN)
    assert "cannot run this" not in run("panel", "plan", design)[1]


def test_a_panel_has_an_end(run, design: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("misstep.experiment.plan.lock.SLOTS", 47)
    code, _, err = run("panel", "plan", design)
    assert (code, err.count("\n")) == (2, 1)
    assert "attempts: 8 tasks x 3 arms x 2 attempts are 48; a panel has at most 47" in err


def test_power(run) -> None:
    code, out, err = run("panel", "power", "--tasks", 14, "--attempts", 2, "--effect", 0.21)
    assert (code, err) == (0, "")
    assert out.startswith("14 tasks x 2 attempts, an effect of +21 points: power 0.2")
    assert "for 80 % with 2 attempts: 3" in out
    assert "for 80 % with 14 tasks: 6 attempts each" in out


@pytest.mark.slow
def test_power_as_json_with_curve_and_simulation(run) -> None:
    code, out, _ = run("panel", "power", "--json", "--curve", "--simulate", "--tasks", 20)
    found = json.loads(out)
    assert code == 0
    assert (found["tasks"], found["attempts"], found["effect"]) == (20, 2, 0.21)
    row = next(r for r in found["curve"] if (r["tasks"], r["attempts"]) == (20, 2))
    assert row["power"] == pytest.approx(found["power"], abs=0.03)
    null, effect = found["simulated"]
    assert null["rejected"] <= 0.05
    assert effect["rejected"] == pytest.approx(effect["predicted"], abs=0.02)


def test_power_with_few_tasks(run) -> None:
    _, out, _ = run("panel", "power", "--tasks", 5)
    assert "So few tasks cannot reach p = 0.05: the smallest possible p is 0.0625." in out
    assert "for 80 % with 5 tasks: not with 64 attempts each: more tasks" in out


def test_power_from_past_rates(run, design: Path) -> None:
    past = design.parent / "past.jsonl"
    code, out, _ = run("panel", "power", "--rates", past, "--effect", "0.3")
    assert code == 0 and "rates: past rates of 9 tasks (arm baseline)" in out
    for args, says in (
        (("--rates", past, "--effect", "0.9"), "leaves no room for an effect"),
        (("--rates", past, "--arm", "sham"), "no attempt of arm 'sham'; it has baseline"),
        (("--rates", past, "--simulate"), "does not go with --rates"),
        (("--rates", design), "not JSON"),
        (("--effect", "0"), "no difference of pass rates"),
        (("--effect", "nan"), "no difference of pass rates"),
    ):
        code, out, err = run("panel", "power", *args)
        assert (code, out) == (2, "") and says in err, args
