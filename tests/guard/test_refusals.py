"""What keeps policies from acting is logged once, and shown: locks, arms, portfolios, faults."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from misstep.cli.guard import command
from misstep.guard import freeze
from misstep.guard.journal import read
from misstep.report.guard import page

from .conftest import POLICIES, Hooks, plain_rules


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "MISSTEP_GUARD", "MISSTEP_PORTFOLIO", "MISSTEP_ARM", "MISSTEP_SCORED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def guard(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


@pytest.fixture
def lock(home: Path) -> Path:
    """The lock of a policy that imports a module beside it."""
    folder = home / "own"
    folder.mkdir()
    head = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"
    future = "from __future__ import annotations\n"
    text = (POLICIES / "plain.py").read_text().replace(future, future + head + "def later():\n    import near\n")
    (folder / "mine.py").write_text(text)
    (folder / "near.py").write_text("from far import deep\n")
    (folder / "far").mkdir()
    (folder / "far" / "__init__.py").write_text("")
    (folder / "far" / "deep.py").write_text("")
    (folder / "unrelated.py").write_text("")
    (folder / "p.toml").write_text('[[policy]]\nid = "plain/deny-first"\nfile = "mine.py"\n')
    freeze.write_lock(folder / "p.lock", freeze.lock(freeze.read(folder / "p.toml")))
    return folder / "p.lock"


def refusals(hooks: Hooks, session: str = "s") -> list[str]:
    return [line["error"] for line in hooks.log(session) if line.get("e") == "refused"]


def test_a_lock_covers_what_a_policy_imports(lock: Path) -> None:
    names = [name for name in json.loads(lock.read_text())["sources"] if not name.startswith("misstep/")]
    assert [Path(name).relative_to(lock.parent).as_posix() for name in names] == [
        "mine.py",
        "near.py",
        "far/__init__.py",
        "far/deep.py",
    ]
    found = json.loads(lock.read_text())
    assert freeze.verify(found) == ""
    assert freeze.verify({**found, "misstep": "0.0.9"}).startswith("the lock was made with misstep 0.0.9, this is ")
    (lock.parent / "unrelated.py").write_text("x = 1\n")
    assert freeze.verify(found) == ""
    (lock.parent / "far" / "deep.py").write_text("x = 1\n")
    assert freeze.verify(found) == f"{lock.parent}/far/deep.py changed since the lock was made"
    (lock.parent / "far" / "deep.py").write_text("")
    (lock.parent / "near.py").unlink()
    assert freeze.verify(found) == f"{lock.parent}/far/__init__.py is in the lock, and no longer used"


def test_a_source_that_changes_in_a_scored_session_ends_it(hooks: Hooks, lock: Path) -> None:
    hooks.env.update(MISSTEP_SCORED="1", MISSTEP_PORTFOLIO=str(lock))
    hooks.prompt("Go.")
    assert hooks.call("remove")["permissionDecision"] == "deny"
    source = lock.parent / "near.py"
    os.utime(source, ns=(time.time_ns(), time.time_ns()))  # touched, and the same
    assert hooks.call("remove")["permissionDecision"] == "deny"
    source.write_text("from far import deep # \n")
    assert hooks.call("remove") == {}
    wrong = f"{source} changed since the lock was made"
    assert refusals(hooks) == [wrong]
    # for good, whatever becomes of the source and of the state
    source.write_text("from far import deep\n")
    assert hooks.call("remove") == {}
    (hooks.folder() / "state.json").unlink()
    assert hooks.call("remove") == {}
    assert hooks.log()[-1]["e"] == "before"
    assert set(refusals(hooks)) == {wrong} and set(hooks.faults()) == {wrong}
    assert f"refused, no policy acts: {wrong}" in guard("log", "s")
    assert f"refused, no policy acts: {wrong}" in page([read(hooks.folder() / "log.jsonl")], 0.0)
    hooks.prompt("Go.", session="new")
    assert hooks.call("remove", session="new")["permissionDecision"] == "deny"


def test_a_source_that_changes_is_seen_through_the_daemon_too(hooks: Hooks, lock: Path) -> None:
    from .test_daemon import started

    hooks.env.update(MISSTEP_SCORED="1", MISSTEP_PORTFOLIO=str(lock))
    process = started(hooks)
    try:
        hooks.prompt("Go.")
        assert hooks.call("remove")["permissionDecision"] == "deny"
        (lock.parent / "near.py").write_text("x = 1\n")
        assert hooks.call("remove") == {}
    finally:
        process.kill()
        process.wait()
    assert refusals(hooks) == [f"{lock.parent}/near.py changed since the lock was made"]


@pytest.mark.parametrize(
    ("env", "wrong"),
    [
        ({}, "a scored run needs a lock, not the catalogue as it is"),
        ({"MISSTEP_PORTFOLIO": "/no/such.lock"}, "a scored run needs a lock, not /no/such.lock"),
        ({"MISSTEP_ARM": "bogus"}, "no arm 'bogus': it is one of "),
    ],
)
def test_a_scored_run_that_cannot_be_is_logged_and_shown(
    hooks: Hooks, lock: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], wrong: str
) -> None:
    if "MISSTEP_ARM" in env:
        env = {**env, "MISSTEP_PORTFOLIO": str(lock)}
    hooks.env.update(MISSTEP_SCORED="1", **env)
    hooks.prompt("Go.")
    for _ in range(3):
        assert hooks.call("remove") == {}
    hooks.result("remove")
    kinds = [line.get("e") for line in hooks.log()]
    assert kinds[0] is None and kinds.count("refused") == 1
    assert [k for k in kinds[1:] if k != "refused"] == ["prompt", "before", "before", "before", "after"]
    assert [line.startswith(wrong) for line in refusals(hooks)] == [True]
    (refused,) = [line for line in hooks.log() if line.get("e") == "refused"]
    assert refused["final"] is True and hooks.log()[0]["scored"] is True
    assert len(hooks.faults()) == 1
    monkeypatch.setenv("MISSTEP_SCORED", "1")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    told = CliRunner().invoke(command, ["status"]).output
    assert f"1 hook runs gave no answer; the last: {wrong}" in told
    if "MISSTEP_ARM" in env:
        assert "Scored: the lock" in told and "Arm: bogus" in told and "Error: no arm 'bogus'" in told
    else:
        assert f"Warning: Scored: every session is refused, no policy acts: {wrong}" in told
    assert f", 1 times: claude-code: {wrong}" in guard("log")


def test_a_bad_arm_is_logged_once_and_policies_act_again_when_it_is_gone(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    hooks.env["MISSTEP_ARM"] = "bogus"
    for _ in range(2):
        assert hooks.call("write") == {}
        hooks.result("write")
    assert len(refusals(hooks)) == len(hooks.faults()) == 1
    assert "refused, no policy acts: no arm 'bogus'" in guard("log", "s")
    del hooks.env["MISSTEP_ARM"]
    # nothing was lost: the calls meanwhile are in the states
    assert hooks.call("write", "last")["additionalContext"] == "Advice one.\n\nAdvice two."
    assert hooks.state()["runs"]["plain"][0]["calls"] == 3
    assert "refused" not in guard("log", "s")
    hooks.env["MISSTEP_ARM"] = "bogus"
    hooks.call("write")
    assert len(refusals(hooks)) == 2


def test_a_portfolio_that_is_not_there_loses_no_event(hooks: Hooks, home: Path) -> None:
    hooks.env["MISSTEP_PORTFOLIO"] = str(home / "not.json")
    hooks.prompt("Go carefully.")
    assert hooks.call("remove") == {} and hooks.stop() == {}
    assert hooks.faults() == refusals(hooks) == [f"{home}/not.json cannot be read"]
    hooks.use(plain_rules())
    assert hooks.call("remove")["permissionDecision"] == "deny"
    assert hooks.stop()["reason"] == "Check again.", "the prompt is known"


def test_a_relative_portfolio_is_refused_wherever_the_hook_runs(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks.env["MISSTEP_PORTFOLIO"] = "portfolio.toml"
    hooks.prompt("Go.")
    wrong = "the portfolio 'portfolio.toml' has no absolute path: hooks run in any folder"
    assert refusals(hooks) == [wrong]
    monkeypatch.setenv("MISSTEP_PORTFOLIO", "portfolio.toml")
    assert f"Error: {wrong}\n" in guard("status", code=2)


def test_a_stale_lock_in_use_is_said(lock: Path) -> None:
    guard("use", str(lock))
    assert f"The lock {lock} holds" in guard("status")
    (lock.parent / "near.py").write_text("x = 1\n")
    wrong = f"the lock {lock} is stale, and used all the same outside scored runs: {lock.parent}/near.py changed"
    assert f"Warning: {wrong}" in guard("status")
    assert f"BAD  {wrong}" in guard("doctor", code=1)


def test_faults_are_shown_with_their_times_and_each_reason_once(hooks: Hooks, home: Path) -> None:
    assert "gave no answer" not in guard("status") + guard("log")
    for _ in range(3):
        hooks.raw(b"no json")
    hooks.raw(b"[]")
    path = home / "state" / "guard" / "faults.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["t"], lines[-1]["t"] = 86400.0, 1796000000.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, last = (time.strftime("%Y-%m-%d %H:%M", time.localtime(line["t"])) for line in (lines[0], lines[-1]))
    said = f"4 hook runs gave no answer; the last: ValueError: a payload that is no object but list ({last}, the first {first})"
    assert said in guard("status")
    told = guard("log").splitlines()
    assert told[0] == "No session was guarded yet." and told[1] == said
    assert [line.split(", ", 1)[1] for line in told[2:]] == [
        "3 times: claude-code: ValueError: not a JSON text",
        "1 times: claude-code: ValueError: a payload that is no object but list",
    ]
