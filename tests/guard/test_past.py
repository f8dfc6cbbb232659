"""Sessions that began before the guard: what happened is taken from the host's transcript, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from misstep.cli.guard import command
from misstep.guard import past

from .agents import Agent
from .conftest import Hooks, plain_rules
from .test_agents import AGENTS, COPY, DENIED, OPEN, RECOVER


def line(kind: str, number: int, content: Any, **given: Any) -> dict[str, Any]:
    role = {"role": kind, "content": content}
    if kind == "assistant":
        role |= {"id": f"m{number}", "type": "message", "model": "claude-sonnet-4-5", "stop_reason": None}
    return {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s",
        "cwd": "/w",
        "version": "2.1.332",
        "isSidechain": False,
        "timestamp": f"2026-01-01T00:00:{number:02}.000Z",
        "message": role,
        **given,
    }


def transcript(folder: Path) -> Path:
    """A session of Claude Code: a prompt, a call `write` with its result, a stop, another call `remove` under way."""
    lines = [
        line("user", 0, "Go carefully."),
        line("assistant", 1, [{"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "write"}}]),
        line(
            "user",
            2,
            [{"type": "tool_result", "tool_use_id": "a", "content": "done", "is_error": False}],
            toolUseResult={"stdout": "done", "stderr": "", "interrupted": False},
        ),
        line("assistant", 3, [{"type": "text", "text": "I wrote."}]),
        line("user", 4, "Now check it."),
        line("assistant", 5, [{"type": "tool_use", "id": "b", "name": "Bash", "input": {"command": "remove"}}]),
    ]
    path = folder / "s.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in lines))
    return path


def kinds(hooks: Hooks) -> list[tuple[Any, bool]]:
    return [(record.get("e"), "past" in record) for record in hooks.log()[1:]]


BEFORE = [("prompt", True), ("before", True), ("after", True), ("stop", True), ("prompt", True)]


def test_at_a_call(hooks: Hooks, tmp_path: Path) -> None:
    hooks.use(plain_rules())
    path = str(transcript(tmp_path))
    assert hooks.call("remove", "b", transcript_path=path)["permissionDecision"] == "deny"
    assert kinds(hooks) == [*BEFORE, ("before", False), ("decision", False)]
    kept = hooks.state()["runs"]["plain"][0]
    assert kept == {"calls": 1, "results": 1, "failed": 0, "prompts": 2, "checked": False}
    # the task is the first prompt, and is known
    assert hooks.stop(transcript_path=path)["reason"] == "Check again."
    assert sum(past for _, past in kinds(hooks)) == 5, "the transcript is read once"
    # and all of it can be had again from the log
    (hooks.folder() / "state.json").unlink()
    assert hooks.call("ls", "c", transcript_path=path) == {}
    assert hooks.state()["runs"]["plain"][0]["calls"] == 2
    told = CliRunner().invoke(command, ["log", "s"], env={"MISSTEP_HOME": hooks.env["MISSTEP_HOME"]}).output
    assert "began before the guard: 5 earlier events are from its transcript" in told
    assert "2 calls, 1 stops" in told


def test_at_a_result_a_stop_a_prompt_and_a_resumption(hooks: Hooks, tmp_path: Path) -> None:
    hooks.use(plain_rules())
    path = transcript(tmp_path)
    given = {"transcript_path": str(path)}
    hooks.result("remove", "b", session="one", **given)
    hooks.stop(session="one", **given)
    assert hooks.state("one")["runs"]["plain"][0]["results"] == 2
    hooks.send("SessionStart", session="two", source="resume", **given)
    assert hooks.state("two")["runs"]["plain"][0]["calls"] == 2
    hooks.prompt("Now check it.", session="three", **given)
    assert hooks.state("three")["runs"]["plain"][0]["prompts"] == 3
    with path.open("a") as file:
        file.write(json.dumps(line("user", 6, "And once more.")) + "\n")
    hooks.prompt("And once more.", session="four", **given)
    assert hooks.state("four")["runs"]["plain"][0]["prompts"] == 3, "the prompt that is said now is in the file already"
    hooks.send("SessionStart", session="five", source="startup", **given)
    assert "past" not in json.dumps(hooks.log("five"))
    assert not hooks.faults()


def test_what_cannot_be_read_is_said_and_leaves_the_policies_silent(
    hooks: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.use(plain_rules())
    path = tmp_path / "noise.jsonl"
    path.write_text("no transcript\n")
    assert hooks.call("remove", transcript_path=str(path)) == {}
    assert [record["e"] for record in hooks.log()[1:]] == ["unseen", "before", "decision"]
    hooks.prompt("Go carefully.", transcript_path=str(path))
    assert hooks.stop(transcript_path=str(path)) == {}, "what was before that prompt is not known"
    with path.open("w") as file:
        file.truncate(past.LARGEST + 1)
    (found,) = past.past(str(path), {"e": "stop"})
    assert found == {"e": "unseen", "error": "its transcript has 16 MB, more than 16 are not read"}
    told = CliRunner().invoke(command, ["log", "s"], env={"MISSTEP_HOME": hooks.env["MISSTEP_HOME"]}).output
    assert "began before the guard, and what was before is not known: " in told
    # one that is not written yet is a session's beginning
    assert past.past(str(tmp_path / "not.jsonl"), {"e": "prompt", "text": "x"}) == []


def test_later_hooks_do_not_pay_for_it(hooks: Hooks, tmp_path: Path) -> None:
    hooks.use(plain_rules())
    hooks.call("ls", "c", transcript_path=str(transcript(tmp_path)))
    hooks.call("ls", "d")
    image = next((hooks.home / "state" / "guard").glob("image-*"))
    assert b"misstep.trajectory.readers" not in image.read_bytes()


_made: list[Agent] = []


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


@pytest.mark.slow
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("name", ["codex-0.146", "codex-newest", "claude-code-2.1.332", "claude-code-2.1.197"])
def test_a_real_session_from_before_the_guard(name: str, copied: bool, tmp_path: Path) -> None:
    """Its task is known, and so is what was done: a copy that was made then releases the policy now."""
    host, version, model = AGENTS[name]
    agent = Agent(host, version, tmp_path, model)
    _made.append(agent)
    for suffix in ("", "-wal", "-shm"):
        (agent.work / f"evidence.db{suffix}").write_text("x")
    agent.run(RECOVER, [{"run": COPY if copied else "ls"}, {"say": "I looked."}])
    assert agent.logs() == {}
    pattern = "sessions/**/*.jsonl" if host == "codex" else "projects/*/*.jsonl"
    (record,) = agent.folder.glob(pattern)
    session = record.stem[-36:]
    agent.install()
    resume = ["resume", session] if host == "codex" else ["--resume", session]
    server = agent.run("Go on, please.", [{"run": OPEN}, {"say": "Done."}], *resume)
    assert agent.done.returncode == 0, agent.done.stderr
    assert (DENIED in server.seen(1)) == (not copied)
    assert (agent.work / "ran.txt").exists() == copied
    log = agent.log()
    earlier = [item for item in log if item.get("past")]
    assert [item["e"] for item in earlier] == ["prompt", "before", "after", "stop"]
    assert earlier[0]["text"] == RECOVER and earlier[1]["input"] and earlier[3]["message"] == "I looked."
    assert [item["e"] for item in log[5:]][:3] == ["start", "prompt", "before"]
    assert not (agent.state / "guard" / "faults.jsonl").exists()
