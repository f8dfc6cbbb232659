"""Old logs go: by age, then by size, never while they are in use, and never in a scored run."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from misstep.cli.guard import command
from misstep.guard import prune

from .conftest import Hooks, plain_rules
from .test_daemon import started

DAY = 86400


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "MISSTEP_GUARD", "MISSTEP_PORTFOLIO", "MISSTEP_ARM", "MISSTEP_SCORED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    return tmp_path


def session(home: Path, name: str, days: float, size: int = 1000) -> Path:
    """A session whose last event is so many days ago."""
    folder = home / "state" / "guard" / "sessions" / "codex" / name
    (folder / "agents" / "one").mkdir(parents=True)
    for path in (folder / "log.jsonl", folder / "agents" / "one" / "log.jsonl"):
        path.write_bytes(b"x" * (size // 2))
        os.utime(path, (time.time() - days * DAY,) * 2)
    return folder


def left(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "state" / "guard" / "sessions" / "codex").iterdir())


def guard(*words: str) -> str:
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_by_age(home: Path) -> None:
    for name, days in (("old", 91), ("young", 89)):
        session(home, name, days)
    mixed = session(home, "mixed", 91)
    os.utime(mixed / "agents" / "one" / "log.jsonl")  # its sub-agent still works
    assert "Logs: 3 sessions, 0.0 MB; kept for 90 days, up to 500 MB" in guard("status")
    assert guard("prune", "--dry-run") == "1 sessions, 0.0 MB, would be deleted\n"
    assert guard("prune") == "1 sessions, 0.0 MB, are deleted\n"
    assert left(home) == ["mixed", "young"]
    assert guard("prune", "--days", "0") == "0 sessions, 0.0 MB, are deleted\n"
    guard("prune", "--days", "80")
    assert left(home) == ["mixed"]


def test_by_size_the_oldest_first(home: Path) -> None:
    for number in range(5):
        session(home, f"d{number}", number + 0.5, size=1_000_000)
    guard("prune", "--megabytes", "3")
    assert left(home) == ["d0", "d1", "d2"]
    guard("prune", "--megabytes", "0.5")
    assert left(home) == ["d0"], "what had an event today stays"


def test_a_session_with_a_hook_in_it_stays(home: Path) -> None:
    folder = session(home, "old", 100)
    with (folder / "log.jsonl").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert guard("prune").startswith("0 sessions")
    assert left(home) == ["old"] and guard("prune").startswith("1 sessions")


def test_links_are_not_followed(home: Path) -> None:
    folder = session(home, "old", 100)
    (home / "mine").mkdir()
    (home / "mine" / "file").write_text("x")
    (folder / "link").symlink_to(home / "mine")
    (folder.parent / "other").symlink_to(home / "mine")
    guard("prune", "--days", "1")
    assert (home / "mine" / "file").is_file() and left(home) == ["other"]


def test_faults_too(home: Path) -> None:
    path = home / "state" / "guard" / "faults.jsonl"
    path.parent.mkdir(parents=True)
    now = time.time()
    lines = [{"e": "fault", "t": now - days * DAY, "error": str(days)} for days in (100, 91, 1)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    guard("prune")
    assert [json.loads(line)["error"] for line in path.read_text().splitlines()] == ["1"]
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("".join(json.dumps({"e": "fault", "t": now, "error": f"{n:0900}"}) + "\n" for n in range(2000)))
    guard("prune")
    kept = [int(json.loads(line)["error"]) for line in path.read_text().splitlines()]
    assert kept == list(range(kept[0], 2000)) and path.stat().st_size <= prune.FAULTS


def gone(folder: Path) -> bool:
    for _ in range(100):
        if not folder.exists():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("how", ["hook", "daemon"])
def test_hooks_see_to_it_once_a_day(hooks: Hooks, home: Path, how: str) -> None:
    hooks.use(plain_rules())
    process = started(hooks) if how == "daemon" else None
    try:
        old = session(home, "old", 100)
        hooks.send("SessionStart", source="startup")
        assert gone(old)
        old = session(home, "old", 100)
        hooks.prompt("Go.", session="two")
        hooks.call("ls", session="two")
        assert not gone(old)
        stamp = home / "state" / "guard" / "pruned"
        os.utime(stamp, (time.time() - 2 * DAY,) * 2)
        hooks.call("ls", session="two")
        assert not gone(old), "only where a session begins"
        hooks.prompt("Go.", session="three")
        assert gone(old)
        assert hooks.call("remove", session="three")["permissionDecision"] == "deny"
    finally:
        if process is not None:
            process.kill()
            process.wait()


def test_never_in_a_scored_run_and_not_without_bounds(hooks: Hooks, home: Path) -> None:
    old = session(home, "old", 100)
    hooks.env["MISSTEP_SCORED"] = "1"
    hooks.prompt("Go.", session="one")
    del hooks.env["MISSTEP_SCORED"]
    settings = home / "state" / "guard" / "settings.json"
    settings.write_text(json.dumps({"keep_days": 0, "keep_megabytes": 0}))
    hooks.prompt("Go.", session="two")
    assert not gone(old)
    assert "; kept without bound" in guard("status")
    settings.write_text(json.dumps({"keep_days": "many", "keep_megabytes": -1}))
    assert "; kept for 90 days, up to 500 MB" in guard("status")


def test_a_clock_that_was_ahead_keeps_nobody_from_it(hooks: Hooks, home: Path) -> None:
    hooks.prompt("Go.", session="one")
    os.utime(home / "state" / "guard" / "pruned", (time.time() + 400 * DAY,) * 2)
    old = session(home, "old", 100)
    hooks.prompt("Go.", session="two")
    assert gone(old)


def test_what_killed_processes_left_goes(home: Path) -> None:
    folder = home / "state" / "guard"
    (folder / "trusted").mkdir(parents=True)
    left = [folder / "image-cpython-312.77", folder / "portfolio.json.4711", folder / "trusted" / "a.json.5"]
    kept = [folder / "image-cpython-312", folder / "settings.json", folder / "trusted" / "a.json", folder / "daemon.8"]
    for path in (*left, *kept):
        path.write_text("{}")
        os.utime(path, (time.time() - 2 * DAY,) * 2)
    os.utime(kept[-1])  # somebody may be at it
    (folder / "folder.9").mkdir()
    guard("prune")
    assert [path.exists() for path in (*left, *kept)] == [False] * 3 + [True] * 4
    assert (folder / "folder.9").is_dir()
