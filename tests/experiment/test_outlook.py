"""What a plan warns of: what the panel will not be able to say."""

from pathlib import Path

import pytest

from misstep.experiment import Attempt
from misstep.experiment.plan.design import Design
from misstep.experiment.plan.lock import plan
from misstep.experiment.plan.outlook import outlook

SERVICE = "Start an HTTP server on port 8080. It must still be running when the work is judged.\n"
PLAIN = "Count the words of /app/text and write the number to /app/count.\n"
BASE = """
name = "p"
arms = ["real", "sham"]
portfolio = "portfolio.toml"
[primary]
contrast = ["real", "sham"]
[tasks]
path = "tasks"
"""
AGENT = '[agent]\nname = "codex"\nversion = "1"\nmodel = "m"\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "portfolio.toml").write_text('[[policy]]\nid = "service-persistence"\n')
    add(tmp_path, "plain", PLAIN, 50)
    return tmp_path


def add(place: Path, name: str, text: str, number: int) -> None:
    for n in range(number):
        task = place / "tasks" / f"{name}-{n:02}"
        task.mkdir(parents=True)
        (task / "task.toml").write_text("")
        (task / "instruction.md").write_text(text)


def seen(
    place: Path,
    cohorts: str = "count = 42",
    agent: str = AGENT,
    base: str = BASE,
    past: tuple[Attempt, ...] = (),
    **more: float,
):
    (place / "panel.toml").write_text(f"{base}{agent}[cohorts]\n{cohorts}\n[rates]\neffect = 0.2\n")
    return outlook(plan(Design.load(place / "panel.toml")), past, **more)  # type: ignore[arg-type]


def test_a_good_design_has_no_warning(place: Path) -> None:
    add(place, "web", SERVICE, 42)
    # one family only, which is said below; here there are two
    for n in range(21):
        (place / "tasks" / f"web-{n:02}" / "instruction.md").write_text(
            "The SQLite database /app/shop.db is corrupt. Recover every row of it into /app/rows.json.\n"
        )
    (place / "portfolio.toml").write_text(
        '[[policy]]\nid = "service-persistence"\n[[policy]]\nid = "database-evidence"\n'
    )
    found = seen(place)
    assert found.warnings == ()
    assert found.cost.attempts == len(found.plan.slots) == (42 + 42) * 2 * 2
    (chance,) = found.chances
    assert chance.power is not None and chance.power > 0.8
    assert chance.tasks_needed is not None and chance.tasks_needed < 42


def test_too_few_tasks(place: Path) -> None:
    add(place, "web", SERVICE, 5)
    found = seen(place, "count = 5")
    assert found.warnings[0] == (
        "The primary contrast has 5 tasks: p <= 0.05 cannot be reached even if every one changes "
        "(the smallest possible p is 0.0625); it takes 6."
    )
    assert found.warnings[1].startswith("With 5 tasks the 95 % interval is too short")
    assert [(c.power, c.attempts_needed) for c in found.chances] == [(0.0, None)]
    add(place, "more", SERVICE, 1)
    assert "cannot be reached" not in " ".join(seen(place, "count = 5").warnings)


@pytest.mark.parametrize(
    ("cohorts", "says"),
    [
        ("", "No silent tasks: the panel cannot tell"),
        ("count = 2", "Cohorts are out of balance: 8 eligible, 2 silent."),
        ('silent = ["web-00", "plain-00", "plain-01", "plain-02"]', "Silent task web-00 is eligible for service-persistence: "),
        ("count = 8", "8 of 8 eligible tasks are so for service-persistence alone"),
        ('silent = ["web-00"]\neligible = ["web-01"]', "The primary contrast has 1 task: p <= 0.05 cannot be reached"),
    ],
)  # fmt: skip
def test_cohorts(place: Path, cohorts: str, says: str) -> None:
    add(place, "web", SERVICE, 8)
    assert any(w.startswith(says) for w in seen(place, cohorts).warnings)


def test_policies_without_a_task_and_those_with_all(place: Path) -> None:
    add(place, "web", SERVICE, 8)
    ids = ("service-persistence", "database-evidence", "blocking-foreground")
    (place / "portfolio.toml").write_text("".join(f'[[policy]]\nid = "{policy}"\n' for policy in ids))
    base = BASE.replace('"sham"]\nportfolio', '"sham", "without:database-evidence"]\nportfolio')
    found = seen(place, "count = 8", base=base).warnings
    assert "No task is eligible for database-evidence: the panel says nothing of it." in found
    assert "Arm without:database-evidence is as real in every task: none is eligible for what it leaves out." in found
    assert "blocking-foreground takes every task: it may fire in the silent cohort too." in found


def test_the_agent(place: Path) -> None:
    add(place, "web", SERVICE, 8)
    agent = '[agent]\nname = "codex"\nenv = { OPENAI_API_KEY = "sk-1", A_TOKEN = "${A_TOKEN}", PLAIN = "x" }\n'
    found = [w.split(" ")[0] for w in seen(place, "count = 8", agent).warnings if w.startswith("agent.")]
    assert found == ["agent.version", "agent.model", "agent.env.OPENAI_API_KEY"]


def test_no_room_for_the_effect(place: Path) -> None:
    add(place, "web", SERVICE, 8)
    past = tuple(
        Attempt(task=f"web-{n:02}", arm="sham", termination="pass", passed=True, replicate=r)
        for n in range(8) for r in range(1, 5)
    )  # fmt: skip
    found = seen(place, "count = 8", past=past, effect=0.3)
    assert found.rates == "past rates of these tasks (arm sham)"
    assert (found.chances[0].power, found.chances[0].effect) == (None, 0.3)
    assert "leaves no room" in found.chances[0].why


def test_the_plain_form_is_json(place: Path) -> None:
    import json

    add(place, "web", SERVICE, 8)
    plain = seen(place, "count = 8").plain()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["attempts"] == 64
    assert plain["cost"]["money"] is None


def test_a_design_of_one_arm(place: Path) -> None:
    base = BASE.replace('["real", "sham"]\nportfolio', '["baseline"]\nportfolio').replace(
        '[primary]\ncontrast = ["real", "sham"]\n', ""
    )
    found = seen(place, 'silent = ["plain-00"]', base=base)
    assert (found.chances, found.warnings) == ((), ())
