"""Where the known agents keep their sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from misstep.scan.sources import places

KEPT = {
    "Claude Code": ".claude/projects",
    "Codex": ".codex/sessions",
    "Gemini CLI": ".gemini/tmp/0a1b/chats",
    "Qwen Code": ".qwen/projects/-work/chats",
    "Copilot CLI": ".copilot/session-state",
    "OpenHands": ".openhands/sessions",
}


def found(home: Path, environ: dict[str, str] | None = None, here: Path | None = None) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for place in places(home, environ or {}, here or home / "nowhere"):
        result.setdefault(place.agent, []).append(str(place.path))
    return result


@pytest.mark.parametrize("agent", KEPT)
def test_each_agent(agent: str, tmp_path: Path):
    (tmp_path / KEPT[agent]).mkdir(parents=True)
    assert found(tmp_path) == {agent: [str(tmp_path / KEPT[agent])]}


def test_opencode(tmp_path: Path):
    root = tmp_path / ".local/share/opencode"
    (root / "storage/session_diff").mkdir(parents=True)
    (root / "opencode.db-wal").touch()
    assert found(tmp_path) == {}
    (root / "storage/session").mkdir()
    assert found(tmp_path) == {"OpenCode": [str(root / "storage")]}
    for name in ("opencode.db", "opencode-dev.db"):
        (root / name).touch()
    assert found(tmp_path)["OpenCode"] == [str(root / n) for n in ("opencode-dev.db", "opencode.db", "storage")]


@pytest.mark.parametrize("name", ["mine.db", "/elsewhere/mine.db", ":memory:"])
def test_opencode_database_by_variable(name: str, tmp_path: Path):
    path = Path(f"{tmp_path}{name}") if name.startswith("/") else tmp_path / ".local/share/opencode" / name
    path.parent.mkdir(parents=True)
    path.touch()
    value = str(path) if name.startswith("/") else name
    assert found(tmp_path, {"OPENCODE_DB": value}) == ({} if name == ":memory:" else {"OpenCode": [str(path)]})


def test_an_empty_home(tmp_path: Path):
    assert found(tmp_path) == {} and found(tmp_path / "missing") == {}


def test_the_working_folder(tmp_path: Path):
    for name in ("jobs/j1/t1/result.json", "trajectories/me/x/x.traj", "runs/r/results.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    here = {"Harbor": ["jobs"], "SWE-agent": ["trajectories"], "Terminal-Bench": ["runs"]}
    assert found(tmp_path / "home", here=tmp_path) == {a: [str(tmp_path / p) for p in ps] for a, ps in here.items()}


@pytest.mark.parametrize(
    ("variable", "below", "agent"),
    [
        ("CLAUDE_CONFIG_DIR", "projects", "Claude Code"),
        ("CODEX_HOME", "sessions", "Codex"),
        ("GEMINI_CLI_HOME", ".gemini/tmp/x/chats", "Gemini CLI"),
        ("COPILOT_HOME", "session-state", "Copilot CLI"),
        ("OPENHANDS_PERSISTENCE_DIR", "conversations", "OpenHands"),
        ("XDG_DATA_HOME", "opencode/opencode.db", "OpenCode"),
    ],
)
def test_variables_lead(variable: str, below: str, agent: str, tmp_path: Path):
    other = tmp_path / "other"
    (other / below).mkdir(parents=True)
    assert found(tmp_path / "home", {variable: str(other)}) == {agent: [str(other / below)]}


def test_the_conversations_of_openhands(tmp_path: Path):
    (tmp_path / ".openhands/conversations").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    assert found(tmp_path) == {"OpenHands": [str(tmp_path / ".openhands/conversations")]}
    assert (
        str(tmp_path / "mine") in found(tmp_path, {"OPENHANDS_CONVERSATIONS_DIR": str(tmp_path / "mine")})["OpenHands"]
    )


def test_several_claude_folders(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name / "projects").mkdir(parents=True)
    both = f"{tmp_path}/a,{tmp_path}/b"
    assert len(found(tmp_path, {"CLAUDE_CONFIG_DIR": both})["Claude Code"]) == 2


def test_folders_of_the_same_name_that_hold_other_things(tmp_path: Path):
    for name in ("jobs/cron/nightly.sh", "trajectories/lidar/0001.bin", "runs/tensorboard/events.out"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    assert found(tmp_path / "home", here=tmp_path) == {}


def test_one_folder_by_two_names_is_one(tmp_path: Path):
    (tmp_path / ".claude/projects").mkdir(parents=True)
    (tmp_path / ".config/claude").mkdir(parents=True)
    (tmp_path / ".config/claude/projects").symlink_to(tmp_path / ".claude/projects")
    assert len(found(tmp_path)["Claude Code"]) == 1
