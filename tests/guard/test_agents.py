"""The guard in real agents, driven by a scripted model: what the model is told, and what the log says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .agents import Agent
from .model_server import ModelServer

pytestmark = pytest.mark.slow

AGENTS = {
    "codex-0.146": ("codex", "codex-0.146.0", "gpt-5.5"),
    "codex-0.146-code-mode": ("codex", "codex-0.146.0", "gpt-5.6-luna"),
    "codex-newest": ("codex", "codex-newest", "gpt-5.5"),
    "codex-newest-code-mode": ("codex", "codex-newest", "gpt-5.6-sol"),
    "claude-code-2.1.332": ("claude-code", "claude-code-2.1.332", ""),
    "claude-code-2.1.197": ("claude-code", "claude-code-2.1.197", ""),
    "qwen-code": ("qwen-code", "qwen-code", ""),
    "gemini-cli": ("gemini-cli", "gemini-cli", ""),
    "opencode": ("opencode", "opencode", ""),
    "pi": ("pi", "pi", ""),
}
MAIN = ("codex-0.146", "codex-newest-code-mode", "claude-code-2.1.332")

RECOVER = "The sqlite database evidence.db is corrupted. Recover the rows from it and write them to out.json."
OPEN = "sqlite3 evidence.db .tables; echo ran >> ran.txt"
COPY = "mkdir -p kept && cp evidence.db evidence.db-wal evidence.db-shm kept/ ; echo copied"
SERVE = "Start a web server on port 8127 that serves this folder. It must be running and reachable at http://localhost:8127 when you are done."
LAUNCH = "python3 -m http.server 8127 >/dev/null 2>&1 & sleep 0.1; echo started; kill $!"
REPLACE = (
    "Replace every occurrence of the word colour with color in notes.txt. These are the only edits you may make: do not "
    "change anything else in the file."
)

DENIED = "This call was not run"
RELAUNCH = "Before you stop: the task needs the service to outlive this session"
FIRST_WRITE = "Before this first write"


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Agent:
    return made(request.param, tmp_path)


_made: list[Agent] = []


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


def made(name: str, folder: Path, trust: bool = True) -> Agent:
    host, version, model = AGENTS[name]
    agent = Agent(host, version, folder, model, trust=trust)
    _made.append(agent)
    if trust:
        agent.install()
    return agent


def test_a_denied_call_does_not_run_until_the_policy_lets_go(agent: Agent) -> None:
    for suffix in ("", "-wal", "-shm"):
        (agent.work / f"evidence.db{suffix}").write_text("x")
    server = agent.run(RECOVER, [{"run": OPEN}, {"run": COPY}, {"run": OPEN}, {"say": "Recovered."}])
    assert agent.done.returncode == 0, agent.done.stderr
    assert DENIED in server.seen(1)
    assert DENIED in server.seen(2) and server.seen(2).count(DENIED) == 1
    assert (agent.work / "ran.txt").read_text() == "ran\n"  # the second time only
    assert agent.fired() == [("database-evidence", "deny", True)]
    calls = [line for line in agent.log() if line.get("e") == "before"]
    assert len(calls) == 3
    results = {line["id"]: line for line in agent.log() if line.get("e") == "after"}
    assert calls[0]["id"] not in results or agent.host == "gemini-cli"  # gemini: the id of a call is its text
    assert not (agent.state / "guard" / "faults.jsonl").exists()


def test_a_stop_is_turned_into_another_turn_that_sees_the_text(agent: Agent) -> None:
    server = agent.run(SERVE, [{"run": LAUNCH}, {"say": "It is up."}, {"run": "echo looked"}, {"say": "Done."}])
    assert agent.done.returncode == 0, agent.done.stderr
    if agent.host == "opencode":
        # `opencode run` ends when the session is idle, before its plugins can prompt it again
        assert agent.fired()[0] == ("service-persistence", "instruct", True) and len(server.requests) == 2
        return
    assert len(server.requests) == 4
    assert RELAUNCH not in server.seen(1)
    assert RELAUNCH in server.seen(2)
    assert agent.fired()[0] == ("service-persistence", "instruct", True)
    stops = [line for line in agent.log() if line.get("e") == "stop"]
    assert [line["message"].split("\n")[-1] for line in stops] == ["It is up.", "Done."]
    # our own text that comes back as a prompt is none
    prompts = [line for line in agent.log() if line.get("e") == "prompt" and not line.get("own")]
    assert [line["text"] for line in prompts] == [SERVE]


def test_an_instruction_at_a_call_reaches_the_model_with_the_result(agent: Agent) -> None:
    (agent.work / "notes.txt").write_text("my colour\n")
    server = agent.run(REPLACE, [{"run": "perl -pi -e s/colour/color/g notes.txt"}, {"run": "ls"}, {"say": "Done."}])
    assert agent.done.returncode == 0, agent.done.stderr
    assert FIRST_WRITE not in server.seen(0)
    assert server.seen(1).count(FIRST_WRITE) == 1
    assert server.seen(2).count(FIRST_WRITE) == 1
    assert (agent.work / "notes.txt").read_text() == "my color\n"
    assert ("exact-replacement/first-write", "instruct", True) in agent.fired()


@pytest.mark.parametrize("name", MAIN)
def test_observing_logs_the_same_and_changes_nothing(name: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    agent.guard("mode", "observe")
    server = agent.run(RECOVER, [{"run": OPEN}, {"say": "Recovered."}])
    assert DENIED not in server.seen(-1)
    assert (agent.work / "ran.txt").is_file()
    assert agent.fired() == [("database-evidence", "", False)]
    held = [line["held"] for line in agent.log() if line.get("e") == "decision" and line.get("held")]
    assert held == ["observe"]


@pytest.mark.parametrize("name", MAIN)
def test_off_leaves_no_trace(name: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    agent.guard("mode", "off")
    server = agent.run(RECOVER, [{"run": OPEN}, {"say": "Recovered."}])
    assert DENIED not in server.seen(-1) and (agent.work / "ran.txt").is_file()
    assert agent.logs() == {}


@pytest.mark.parametrize("name", MAIN)
def test_a_policy_without_limit_ends_at_the_stop_cap(name: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    rule = {"policy": "service-persistence", "misstep": "service-persistence", "limit": None}
    rule["module"] = "misstep.catalogue.service_persistence"
    portfolio = tmp_path / "portfolio.json"
    portfolio.write_text(json.dumps({"v": 1, "rules": [rule], "stop_cap": 3}))
    agent.env["MISSTEP_PORTFOLIO"] = str(portfolio)
    server = agent.run(SERVE, [{"run": LAUNCH}, *[{"say": f"Up {n}."} for n in range(9)]])
    assert agent.done.returncode == 0, agent.done.stderr
    assert len(server.requests) == 5  # the launch, the first stop, three forced turns
    assert [line.get("held") for line in agent.log() if line.get("e") == "decision" and line["event"] == "stop"] == [
        None,
        None,
        None,
        "stop cap",
    ]


@pytest.mark.parametrize("name", MAIN)
def test_calls_of_one_turn_at_the_same_time_are_all_there(name: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    commands = [f"echo number {n}" for n in range(8)]
    server = agent.run("Count.", [{"run": commands}, {"say": "Counted."}])
    assert len(server.requests) == 2
    log = agent.log()
    for kind in ("before", "after"):
        assert sorted(line["input"]["command"] for line in log if line.get("e") == kind) == commands
    at = [line["at"] for line in log if line.get("e") == "decision"]
    assert at == sorted(set(at))


@pytest.mark.parametrize("name", ["codex-0.146", "codex-newest", "claude-code-2.1.332"])
def test_a_resumed_session_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    (agent.work / "evidence.db").write_text("x")
    agent.run(RECOVER, [{"run": "ls"}, {"say": "I looked."}])
    (session,) = agent.logs()
    resume = ["resume", session] if agent.host == "codex" else ["--resume", session]
    # The second prompt is about no database: the task is still the first one.
    server = agent.run("Go on, please.", [{"run": OPEN}, {"say": "Done."}], *resume)
    assert agent.done.returncode == 0, agent.done.stderr
    assert DENIED in server.seen(1)
    assert list(agent.logs()) == [session]
    assert agent.fired() == [("database-evidence", "deny", True)]
    assert {"e": "start", "source": "resume"}.items() <= [x for x in agent.log() if x.get("e") == "start"][-1].items()


@pytest.mark.parametrize("name", MAIN)
def test_two_agents_in_one_folder_do_not_mix(name: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    agent.run(RECOVER, [{"say": "Later."}])
    server = agent.run("List the files.", [{"run": OPEN}, {"say": "Listed."}])
    assert DENIED not in server.seen(1)
    assert len(agent.logs()) == 2
    assert agent.fired() == []


@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize("how", ["portfolio", "home", "hook", "python"])
def test_a_broken_guard_does_not_break_the_agent(name: str, how: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    if how == "portfolio":
        agent.env["MISSTEP_PORTFOLIO"] = str(tmp_path / "not-there.json")
    elif how == "home":
        shutil.rmtree(agent.state, ignore_errors=True)
        agent.state.write_text("a file, where a folder should be")
    else:
        part = "/hook.py" if how == "hook" else "python3.12"
        config = agent.folder / ("hooks.json" if agent.host == "codex" else "settings.json")
        text = config.read_text()
        assert part in text
        config.write_text(text.replace(part, part + ".gone"))
        if agent.host == "codex":
            agent.run("List the files.", [{"say": "-"}], "--dangerously-bypass-hook-trust")
    extra = ["--dangerously-bypass-hook-trust"] if agent.host == "codex" else []
    server = agent.run(RECOVER, [{"run": OPEN}, {"say": "Recovered."}], *extra)
    assert agent.done.returncode == 0, agent.done.stderr
    assert (agent.work / "ran.txt").is_file() and DENIED not in server.seen(-1)
    if how == "portfolio":
        faults = (agent.state / "guard" / "faults.jsonl").read_text().splitlines()
        assert "not-there.json cannot be read" in json.loads(faults[0])["error"]


def test_codex_runs_no_hook_that_is_not_trusted(tmp_path: Path) -> None:
    agent = made("codex-newest", tmp_path, trust=False)
    told = agent.guard("install", "codex")
    assert "skips hooks silently until you trust them" in told.stderr
    agent.run("List the files.", [{"run": "ls"}, {"say": "Listed."}])
    assert agent.logs() == {}
    agent.guard("install", "codex", "--trust")
    agent.run("List the files.", [{"run": "ls"}, {"say": "Listed."}])
    assert len(agent.logs()) == 1


@pytest.mark.parametrize("name", ["codex-0.146", "codex-newest", "claude-code-2.1.332", "qwen-code", "gemini-cli"])
def test_the_doctor_proves_that_hooks_run(name: str, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    program = {"claude-code": "claude", "qwen-code": "qwen", "gemini-cli": "gemini"}.get(agent.host, "codex")
    (programs / program).symlink_to(agent.program)
    agent.env["PATH"] = f"{programs}:{os.environ['PATH']}"
    told = agent.guard("doctor", agent.host, "--live", check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "its prompt and its stop came through the hooks" in told.stdout
    assert not agent.logs(), "the canary leaves no trace"
    if agent.host == "codex":
        assert "Codex trusts all 6 hooks" in told.stdout
        (agent.folder / "config.toml").unlink()
        told = agent.guard("doctor", agent.host, "--live", check=False)
        assert told.returncode == 1 and "hooks are untrusted" in told.stdout and "its hooks did not" in told.stdout


# -- arms ----------------------------------------------------------------------------------------------------------------

ARMS = ("real", "baseline", "sham", "sham-deny", "always-real", "without:service-persistence")


def plain(server: ModelServer, agent: Agent) -> list[str]:
    """What a model server received, without what differs between any two runs: ids, times, places."""
    texts = []
    for body in server.requests:
        text = json.dumps(body, sort_keys=True).replace(agent.work.name, "WORK").replace(str(agent.root), "ROOT")
        texts.append(re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4,12}){2,4}|[0-9a-f]{6,}|\d+", "#", text))
    return texts


@pytest.mark.parametrize("name", ["codex-0.146", "claude-code-2.1.332"])
def test_arms_cannot_be_told_apart_but_by_their_texts(name: str, tmp_path: Path) -> None:
    configs, quiet, loud = set(), set(), {}
    for arm in ARMS:
        folder = tmp_path / arm.replace(":", "-")
        agent = made(name, folder)
        agent.env["MISSTEP_ARM"] = arm
        config = agent.folder / ("hooks.json" if agent.host == "codex" else "settings.json")
        configs.add(config.read_text())
        server = agent.run("List the files.", [{"run": "ls"}, {"say": "Listed."}])
        quiet.add(tuple(plain(server, agent)))
        server = agent.run(SERVE, [{"run": LAUNCH}, {"say": "It is up."}, {"say": "Done."}])
        loud[arm] = (len(server.requests), plain(server, agent)[0], server.seen(-1))
        assert [log[0]["arm"] for log in agent.logs().values()] == [arm, arm]
        held = [row for log in agent.logs().values() for d in log if d.get("e") == "decision" for row in d["rows"]]
        fires = [
            row["fires"] for row in held if row["policy"] == "service-persistence" and row["eligible"] and row["holds"]
        ]
        assert fires[0] is True, "what would fire is logged in every arm"
    assert len(configs) == 1, "the command lines, their paths and their order are the same"
    assert len(quiet) == 1, "where nothing fires, the model sees the same bytes"
    assert len({first for _, first, _ in loud.values()}) == 1
    assert {arm: turns for arm, (turns, _, _) in loud.items()} == {
        "real": 3,
        "baseline": 2,
        "sham": 3,
        "sham-deny": 3,
        "always-real": 3,
        "without:service-persistence": 2,
    }
    assert RELAUNCH in loud["real"][2] and RELAUNCH not in loud["sham"][2] and "Take a moment" in loud["sham"][2]


# -- the whole story -----------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def verify(port: int) -> bool:
    """What judges the task, after the agent has ended: is the page served?"""
    for _ in range(10):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.txt", timeout=2) as answer:
                return bool(answer.read() == b"hello\n")
        except OSError:
            time.sleep(0.1)
    return False


WAIT = "--retry 20 --retry-delay 1 --retry-connrefused"
"""A busy machine takes its time to start a server."""


@pytest.mark.parametrize("name", ["codex-0.146", "codex-newest", "codex-newest-code-mode"])
def test_the_service_outlives_the_session_only_with_the_guard(name: str, tmp_path: Path) -> None:
    """Codex ends the process groups of its commands when it ends: a server that was started with `&` goes with them."""
    agent = made(name, tmp_path)
    (agent.work / "page.txt").write_text("hello\n")
    outcomes = {}
    for mode in ("observe", "enforce"):
        port = free_port()
        agent.env["MISSTEP_GUARD"] = mode
        task = f"Start a web server on port {port} that serves this folder. It must be running and reachable at http://localhost:{port} when you are done."
        serve = f"python3 -m http.server {port} --bind 127.0.0.1"
        probe = f"curl -s {WAIT} http://127.0.0.1:{port}/page.txt"
        script: list[dict[str, object]] = [
            {"run": f"{serve} > server.log 2>&1 & echo $! > server.pid; sleep 0.5; {probe}"},
            {"say": "The server is running."},
            # what the model does when it is told:
            {"run": f"kill $(cat server.pid); setsid {serve} < /dev/null > server.log 2>&1 & echo $! > server.pid"},
            {"run": probe},
            {"say": "Now it runs in a session of its own, and answers."},
        ]
        server = agent.run(task, script)
        try:
            outcomes[mode] = (len(server.requests), verify(port))
            # the agent saw it working both times, from inside its session
            assert "hello" in server.seen(1)
        finally:
            with suppress(ProcessLookupError):
                os.kill(int((agent.work / "server.pid").read_text()), signal.SIGKILL)
        assert (RELAUNCH in server.seen(-1)) == (mode == "enforce")
    assert outcomes == {"observe": (2, False), "enforce": (5, True)}
    last = next(log for log in agent.logs().values() if log[0]["mode"] == "enforce")
    assert last[-1]["event"] == "stop" and not last[-1].get("action")
    assert [r["released"] for r in last[-1]["rows"] if r["policy"] == "service-persistence"] == [True]
