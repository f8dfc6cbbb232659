"""Arms, sub-agents and locks in real agents: what the model is told, and that nothing else differs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from misstep.catalogue import get
from misstep.guard import freeze
from misstep.guard.always import AlwaysVerify, Reconsider

from .agents import Agent
from .model_server import ModelServer
from .test_agents import AGENTS, COPY, DENIED, LAUNCH, OPEN, RECOVER, RELAUNCH, SERVE

pytestmark = pytest.mark.slow
BOTH = ("codex-0.146", "claude-code-2.1.332")
LOOK = "Have a look at the files in this folder."
REAL = get("database-evidence").policies[0].text
_made: list[Agent] = []


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


def made(name: str, folder: Path, **env: str) -> Agent:
    host, version, model = AGENTS[name]
    agent = Agent(host, version, folder, model)
    agent.env.update(env)
    _made.append(agent)
    agent.install()
    (agent.work / "evidence.db").write_text("x")
    return agent


def told(agent: Agent) -> list[tuple[str, str]]:
    """(what was done, text) of every intervention, in order."""
    return [(d["action"], d["text"]) for log in agent.logs().values() for d in log if d.get("action")]


def received(server: ModelServer, agent: Agent) -> list[str]:
    """The requests that the model got, the guard's texts as TEXT, without what differs between any two runs."""
    found = []
    for body in server.requests:
        whole = json.dumps(body, sort_keys=True, ensure_ascii=False)
        for text in {text for _, text in told(agent)}:
            whole = whole.replace(json.dumps(text, ensure_ascii=False)[1:-1], "TEXT")
        whole = whole.replace(agent.work.name, "WORK").replace(str(agent.root), "ROOT")
        found.append(re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4,12}){2,4}|[0-9a-f]{6,}|\d+", "#", whole))
    return found


@pytest.mark.parametrize("name", BOTH)
def test_arms_with_a_denial(name: str, tmp_path: Path) -> None:
    """real and sham-deny differ in the words alone; in sham and baseline the call runs."""
    requests, texts, ran = {}, {}, {}
    for arm in ("real", "sham-deny", "sham", "baseline"):
        agent = made(name, tmp_path / arm, MISSTEP_ARM=arm)
        server = agent.run(RECOVER, [{"run": OPEN}, {"run": OPEN}, {"say": "Recovered."}])
        assert agent.done.returncode == 0, agent.done.stderr
        requests[arm], texts[arm] = received(server, agent), told(agent)
        ran[arm] = (agent.work / "ran.txt").read_text() if (agent.work / "ran.txt").exists() else ""
        for _, text in texts[arm]:
            assert json.dumps(text, ensure_ascii=False)[1:-1] in server.seen(-1)
        assert [row["policy"] for row in fires(agent)] == ["database-evidence"] * 2
        assert agent.log()[0]["arm"] == arm
    assert texts["real"] == [("deny", REAL)] * 2 and texts["baseline"] == []
    assert [action for action, _ in texts["sham-deny"]] == ["deny", "deny"]
    assert [action for action, _ in texts["sham"]] == ["instruct", "instruct"]
    generic = texts["sham-deny"][0][1]
    assert generic.startswith("This call was not run.") and "copy" not in generic
    assert abs(len(generic) - len(REAL)) <= 0.15 * len(REAL)
    assert "not run" not in texts["sham"][0][1] and abs(len(texts["sham"][0][1]) - len(REAL)) <= 0.15 * len(REAL)
    assert ran == {"real": "", "sham-deny": "", "sham": "ran\nran\n", "baseline": "ran\nran\n"}
    assert requests["real"] == requests["sham-deny"]
    assert len({arm[0] for arm in requests.values()}) == 1
    assert "TEXT" not in "".join(requests["baseline"]) and [r.count("TEXT") for r in requests["sham"]] == [0, 1, 2]


def fires(agent: Agent) -> list[dict[str, Any]]:
    return [
        row
        for log in agent.logs().values()
        for line in log
        if line.get("e") == "decision"
        for row in line["rows"]
        if row["fires"]
    ]


@pytest.mark.parametrize("name", BOTH)
def test_arms_that_speak_at_every_first_stop(name: str, tmp_path: Path) -> None:
    """always-verify and reconsider differ from one another in the words alone, and from the baseline only after the stop."""
    requests = {}
    for arm, text in (("always-verify", AlwaysVerify.text), ("reconsider", Reconsider.text), ("baseline", "")):
        agent = made(name, tmp_path / arm, MISSTEP_ARM=arm)
        server = agent.run(LOOK, [{"run": "ls"}, {"say": "I looked."}, {"say": "Again."}, {"say": "Not asked for."}])
        assert agent.done.returncode == 0, agent.done.stderr
        requests[arm] = received(server, agent)
        assert told(agent) == ([("instruct", text)] if text else [])
        stops = [line["message"] for line in agent.log() if line.get("e") == "stop"]
        assert stops == (["I looked.", "Again."] if text else ["I looked."])
        assert not text or json.dumps(text, ensure_ascii=False)[1:-1] in server.seen(2)
    assert requests["always-verify"] == requests["reconsider"]
    assert requests["always-verify"][:2] == requests["baseline"] and len(requests["reconsider"]) == 3
    # Claude Code shows it twice: as an error of the hook, and as its feedback
    assert [r.count("TEXT") for r in requests["reconsider"]] == [0, 0, 1 if name.startswith("codex") else 2]


@pytest.mark.parametrize("name", BOTH)
def test_always_real_is_the_real_text_in_every_task(name: str, tmp_path: Path) -> None:
    requests = {}
    for task, arms in ((LOOK, ("always-real", "real", "baseline")), (RECOVER, ("always-real", "real"))):
        for arm in arms:
            agent = made(name, tmp_path / f"{arm}-{len(requests)}", MISSTEP_ARM=arm)
            server = agent.run(task, [{"run": OPEN}, {"say": "Done."}])
            assert agent.done.returncode == 0, agent.done.stderr
            requests[task, arm] = received(server, agent)
            speaks = task == RECOVER or arm == "always-real"
            assert told(agent) == ([("deny", REAL)] if speaks else [])
            assert (DENIED in server.seen(1)) == speaks != (agent.work / "ran.txt").exists()
    assert requests[LOOK, "real"] == requests[LOOK, "baseline"]
    assert requests[RECOVER, "real"] == requests[RECOVER, "always-real"]
    assert requests[LOOK, "always-real"][0] == requests[LOOK, "real"][0]


# -- sub-agents ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("name", ["claude-code-2.1.332", "claude-code-2.1.197"])
def test_a_sub_agent_is_guarded_for_its_parents_task(name: str, background: bool, tmp_path: Path) -> None:
    agent = made(name, tmp_path)
    for suffix in ("-wal", "-shm"):
        (agent.work / f"evidence.db{suffix}").write_text("x")
    turns = [{"run": OPEN}, {"run": COPY}, {"run": OPEN}, {"say": "Tables are listed."}]
    script: list[dict[str, Any]] = [
        {"delegate": "List the tables.", "turns": turns, "background": background},
        {"say": "Recovered."},
        {"say": "It came back."},
    ]
    server = agent.run(RECOVER, script)
    assert agent.done.returncode == 0, agent.done.stderr
    assert len(server.inner) == 4 and len(server.requests) == (3 if background else 2)
    assert [server.seen(n, inner=True).count(DENIED) for n in range(4)] == [0, 1, 1, 1]
    assert DENIED not in server.seen(-1), "only the sub-agent is told"
    assert (agent.work / "ran.txt").read_text() == "ran\n"
    (parent, mine), (inner, its) = sorted(agent.logs().items())
    assert inner.startswith(f"{parent}/agents/") and its[0]["agent"] == inner.rpartition("/")[2]
    prompts = [line for line in its if line.get("e") == "prompt" and not line.get("own")]
    assert (prompts[0]["text"], prompts[0]["inherited"]) == (RECOVER, True)
    assert [line["action"] for line in its if line.get("action")] == ["deny"]
    calls = [[line["tool"] for line in log if line.get("e") == "before"] for log in (mine, its)]
    assert calls[0] in (["Agent"], ["Task"]) and calls[1] == ["Bash"] * 3
    assert not [line for line in mine if line.get("action")]
    assert [line["text"] for line in mine if line.get("e") == "prompt" and not line.get("own")] == [RECOVER]
    assert [line["message"] for line in its if line.get("e") == "stop"] == ["Tables are listed."]
    ends = [line["message"] for line in mine if line.get("e") == "stop"]
    assert ends == (["Recovered.", "It came back."] if background else ["Recovered."])
    assert not (agent.state / "guard" / "faults.jsonl").exists()


@pytest.mark.parametrize("background", [False, True])
def test_a_sub_agents_stop_is_turned_into_another_turn(background: bool, tmp_path: Path) -> None:
    agent = made("claude-code-2.1.332", tmp_path)
    turns = [{"run": LAUNCH}, {"say": "It is up."}, {"say": "It really is."}, {"say": "Not asked for."}]
    script: list[dict[str, Any]] = [
        {"delegate": "Start it.", "turns": turns, "background": background},
        *[{"say": "Done."}] * 3,
    ]
    server = agent.run(SERVE, script)
    assert agent.done.returncode == 0, agent.done.stderr
    assert [RELAUNCH in server.seen(n, inner=True) for n in range(len(server.inner))] == [False, False, True]
    assert RELAUNCH not in server.seen(-1), "its parent launched nothing"
    assert len(server.requests) == (3 if background else 2)
    (_, mine), (_, its) = sorted(agent.logs().items())
    assert [line["message"] for line in its if line.get("e") == "stop"] == ["It is up.", "It really is."]
    assert {line["message"] for line in mine if line.get("e") == "stop"} == {"Done."}


# -- locks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOTH)
def test_a_scored_run_whose_lock_does_not_hold_is_refused(name: str, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    source = Path(__file__).parent / "policies" / "plain.py"
    (own / "mine.py").write_text(source.read_text())
    (own / "p.toml").write_text('[[policy]]\nid = "plain/deny-first"\nfile = "mine.py"\n')
    freeze.write_lock(own / "p.lock", freeze.lock(freeze.read(own / "p.toml")))
    agent = made(name, tmp_path / "agent", MISSTEP_SCORED="1", MISSTEP_PORTFOLIO=str(own / "p.lock"))
    script = [{"run": "echo remove >> ran.txt"}, {"say": "Done."}]
    server = agent.run("Tidy up.", script)
    assert "First denial." in server.seen(1) and not (agent.work / "ran.txt").exists()
    (first,) = agent.logs()
    (own / "mine.py").write_text(source.read_text() + "\n")
    server = agent.run("Tidy up.", script)
    assert agent.done.returncode == 0, agent.done.stderr
    assert "denial" not in server.seen(1) and (agent.work / "ran.txt").exists()
    (log,) = (log for key, log in agent.logs().items() if key != first)
    wrong = f"{own}/mine.py changed since the lock was made"
    assert log[0]["scored"] is True
    assert [line["error"] for line in log if line.get("e") == "refused"] == [wrong]
    assert [line for line in log if line.get("e") == "decision"] == []
    assert [line.get("e") for line in log if line.get("e") in ("prompt", "before", "stop")] == [
        "prompt",
        "before",
        "stop",
    ]
    assert f"Warning: Scored: every session is refused, no policy acts: {wrong}" in agent.guard("status").stdout
    # and one that has none
    del agent.env["MISSTEP_PORTFOLIO"]
    agent.run("Tidy up.", script)
    wrong = "a scored run needs a lock, not the catalogue as it is"
    assert [line["error"] for log in agent.logs().values() for line in log if line.get("e") == "refused"].count(
        wrong
    ) == 1
