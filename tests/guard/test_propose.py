"""Drafts say honestly what they are: which of their examples do not hold yet, and what is left to the author."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from misstep.cli.policies import command
from misstep.guard.skeleton import Draft, module, open_points
from misstep.guard.study import examples_of, missteps_in

SESSIONS = Path(__file__).resolve().parents[2] / "examples" / "sessions"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def policies(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


@pytest.mark.parametrize("misstep", ["reads-missing-path", "unchecked-last-edit", "edits-text-not-there"])
def test_a_draft_tells_which_of_its_examples_do_not_hold(home: Path, misstep: str) -> None:
    told = policies("propose", misstep, str(SESSIONS), "--id", "mine")
    assert "mine.py and mine.yaml are written: a draft, no policy yet." in told
    (chosen,) = missteps_in(home / "mine.py")
    results = dict(examples_of(chosen))
    wrong = {name: why for name, why in results.items() if why}
    assert 0 < len(wrong) < len(results)
    assert f"Of its {len(results)} examples {len(wrong)} do not hold:" in told
    for name, why in results.items():
        assert (f"  {name}: {why}\n" in told) == bool(why)
    for point in ("docstring", "text", "matters()", "differs"):
        assert f"\n  {point}" in told or f"\n  the {point}" in told
    # and `policies test` says the same
    assert f"{len(results)} examples of 1 missteps, {len(wrong)} failed" in policies("test", "mine.py", code=1)


def test_a_draft_is_about_the_calls_that_were_seen(home: Path) -> None:
    assert "now every read\n" in policies("propose", "reads-missing-path", str(SESSIONS), "--id", "one")
    assert "return call.kind == 'read'" in (home / "one.py").read_text()
    examples = yaml.safe_load((home / "one.yaml").read_text())
    last = [example["events"][-1] for example in examples["fires"]]
    assert all("read" in event and event["policy"] == "one" for event in last)
    # what a change was left unchecked: the edit that is evidence, not the stop
    assert "now every edit\n" in policies("propose", "unchecked-last-edit", str(SESSIONS), "--id", "two")


def test_what_was_seen_is_never_told_to_a_model(home: Path) -> None:
    policies("propose", "reads-missing-path", str(SESSIONS), "--id", "mine")
    source = (home / "mine.py").read_text()
    (chosen,) = missteps_in(home / "mine.py")
    seen = re.findall(r"^    # seen: (.+)$", source, re.M)
    assert seen and all("is not there" in line for line in seen)
    assert "/" not in chosen.policies[0].text and "Write here" in chosen.policies[0].text


def test_what_was_seen_cannot_become_code() -> None:
    seen = ["one\nimport os; raise SystemExit\r\x1b[31m\u2028raise\x00", "x" * 300, '"""']
    source = module(Draft("mine", seen=seen))
    scope: dict[str, object] = {}
    exec(compile(source, "mine.py", "exec"), scope)
    assert "Mine" in scope
    lines = [line for line in source.splitlines() if "seen:" in line]
    assert len(lines) == 3 and lines[0] == "    # seen: one import os; raise SystemExit [31m raise"
    assert max(map(len, lines)) <= 112


@pytest.mark.parametrize("at", ["stop", "before"])
def test_a_new_policys_examples_hold_and_what_is_left_is_said(at: str) -> None:
    told = policies("new", "ignored-warning", "--at", at)
    assert "Of its 2 examples all hold.\nLeft to you:\n" in told
    assert "now every command that begins with `the-program its-first-word`" in told
    assert "2 examples of 1 missteps, 0 failed" in policies("test", "ignored_warning.py")


def test_a_draft_about_nothing_says_so() -> None:
    draft = Draft("mine", words=[])
    assert "now none" in "\n".join(open_points(draft))
    assert "return False  # say here which" in module(draft)
