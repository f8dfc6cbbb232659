"""The design of a branch test: what it says, what it refuses, and what a folder's later run may change."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from misstep.experiment.attempts import Attempt, write_attempts
from misstep.experiment.branch import BranchDesign, BranchDesignError, find, forms
from misstep.experiment.branch.design import kept, settle, write
from misstep.experiment.branch.sources import tasks_at
from misstep.experiment.plan.design import DesignError
from misstep.guard.portfolio import default, from_plain
from misstep.trajectory import atif_out
from misstep.trajectory.model import Call, Result, Step, Trajectory

DOCS = Path(__file__).resolve().parents[2] / "docs" / "branch.md"


def loaded(folder: Path, text: str) -> BranchDesign:
    (folder / "branch.toml").write_text(text)
    return BranchDesign.load(folder / "branch.toml")


def test_the_documented_design_loads(tmp_path: Path) -> None:
    text = re.search(r"^```toml\n(.*?)^```", DOCS.read_text(), re.M | re.S)
    assert text
    made = loaded(tmp_path, text[1])
    assert (made.continuations, made.arms, made.contrast) == (4, ("real", "sham", "nothing"), ("real", "sham"))
    assert made.agent.kwargs["models"] == "models.toml" and made.where("models.toml") == tmp_path / "models.toml"
    assert made.environment.kwargs["end_session"] is True and made.environment.concurrency == 2
    assert made.in_process and not made.network


def test_an_empty_design_is_the_default(tmp_path: Path) -> None:
    made = loaded(tmp_path, "")
    assert replace(made, base=".") == BranchDesign()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arm = 1", "arm: unknown key"),
        ('arms = ["real", "baseline"]', "arms: expected arms, each one of"),
        ('arms = ["real", "nothing"]', "contrast: expected two of the arms"),
        ("continuations = 0", "continuations: expected a whole number from 1"),
        ('rule = "any"', "rule: expected one of 'exact', 'masked'"),
        ('[agent]\nname = "aider"', "agent.name: expected one of misstep-bash, codex, claude-code"),
        ('[agent]\nname = "misstep-bash"\nkwargs = {step = 3}', "agent.kwargs.step: unknown key"),
        (
            '[agent]\nname = "misstep-bash"\nkwargs = {steps = "3"}',
            "agent.kwargs.steps: expected another kind of value",
        ),
        (
            'arms = ["real", "sham", "always-verify"]\n[agent]\nname = "codex"',
            "codex can have real, sham and nothing only",
        ),
        ("[texts]\nx = 3", "texts.x: expected a text"),
        ("x = ", "not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DesignError) as error:
        loaded(tmp_path, text)
    assert says in str(error.value) and "branch.toml" in str(error.value) and "\n" not in str(error.value)


def test_a_folder_keeps_its_design(tmp_path: Path) -> None:
    made = BranchDesign(name="x", continuations=3, texts={"m": "Look."})
    assert kept(tmp_path) is None
    write(tmp_path, made)
    old = kept(tmp_path)
    assert old == made
    assert settle(old, replace(made, continuations=5), tmp_path).continuations == 5
    assert settle(old, replace(made, continuations=2), tmp_path).continuations == 3
    wide = replace(made, environment=replace(made.environment, concurrency=4))
    assert settle(old, wide, tmp_path).environment.concurrency == 4
    for changed in (replace(made, seed=2), replace(made, rule="masked"), replace(made, texts={})):
        with pytest.raises(BranchDesignError, match="a changed design needs a folder of its own"):
            settle(old, changed, tmp_path)
    (tmp_path / "branch.json").write_text(json.dumps({"schema": "x"}))
    with pytest.raises(BranchDesignError, match="expected schema"):
        kept(tmp_path)


def test_of_a_panel_the_baseline_is_taken(tmp_path: Path) -> None:
    command = "python3 -m http.server 8080 &"
    asked = "Start a web server on port 8080. It must be running at the end."
    (tmp_path / "tasks/serve").mkdir(parents=True)
    (tmp_path / "tasks/serve/instruction.md").write_text(asked)
    (tmp_path / "tasks/serve/task.toml").write_text("")
    attempts = []
    for number, (arm, end) in enumerate((("baseline", "fail"), ("real", "fail"), ("baseline", "invalid"))):
        trial = tmp_path / f"panel/trials/t{number}"
        (trial / "agent").mkdir(parents=True)
        about = {"trial_name": f"t{number}", "task_name": "serve", "task_checksum": "x", "agent_info": {"name": "a"}}
        (trial / "result.json").write_text(json.dumps({**about, "verifier_result": {"rewards": {"reward": 0}}}))
        call = Call("c", "bash", "shell", {"command": command}, command)
        served = Step("agent", "", calls=[call], results={"c": Result("", 0, False)}, stop=False)
        steps = [Step("user", asked, prompt=True), served, Step("agent", "Done.", stop=True)]
        atif_out.write_file(Trajectory("t", "atif", forms.AGENT, steps), trial / "agent/trajectory.json")
        attempts.append(Attempt(task="serve", arm=arm, id=f"t{number}", termination=end, trial=f"trials/t{number}"))
    write_attempts(tmp_path / "panel/attempts.jsonl", attempts)
    known = tasks_at([tmp_path / "tasks"])
    found = find([tmp_path / "panel"], from_plain(default()), known)
    assert [one.id for one in found.attempts] == ["t0"]
    assert found.unread == {"of the arm real": 1, "invalid: no observation of the agent": 1}
    assert {point.policy for point in found.points} == {"service-persistence"}
    found = find([tmp_path / "panel"], from_plain(default()), known, arms=("real",))
    assert [one.id for one in found.attempts] == ["t1"]
