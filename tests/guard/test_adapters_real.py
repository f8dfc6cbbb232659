"""The guard inside Python agents with the real programs at work, against a scripted model on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from misstep.sandbox import native

from .agents import Agent
from .model_server import ModelServer
from .test_agents import COPY, DENIED, FIRST_WRITE, OPEN, RECOVER, RELAUNCH, REPLACE

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


# -- Claude Agent SDK: Claude Code itself, with the guard in this process ------------------------------------------------


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    agent = Agent("claude-code", "claude-code-2.1.332", tmp_path)
    for name in ("MISSTEP_GUARD", "MISSTEP_ARM", "MISSTEP_PORTFOLIO"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MISSTEP_HOME", str(agent.state))
    yield agent
    agent.close()


def converse(agent: Agent, prompt: str, script: list[dict[str, Any]]) -> tuple[ModelServer, list[Any]]:
    """Run Claude Code through the SDK: what the model server saw, and the messages of the SDK."""
    sdk = pytest.importorskip("claude_agent_sdk")
    from misstep.guard.adapters.claude_agent_sdk import hooks

    async def go(port: int) -> list[Any]:
        options = sdk.ClaudeAgentOptions(
            hooks=hooks(),
            cli_path=str(agent.program),
            cwd=str(agent.work),
            env=agent.environment(port),
            model="claude-sonnet-4-5",
            permission_mode="bypassPermissions",
        )
        return [message async for message in sdk.query(prompt=prompt, options=options)]

    with ModelServer(script) as server:
        messages = asyncio.run(asyncio.wait_for(go(server.port), 90))
    return server, messages


def test_the_sdk_denies_a_call_until_the_policy_lets_go(claude: Agent) -> None:
    for suffix in ("", "-wal", "-shm"):
        (claude.work / f"evidence.db{suffix}").write_text("x")
    server, messages = converse(claude, RECOVER, [{"run": OPEN}, {"run": COPY}, {"run": OPEN}, {"say": "Recovered."}])
    assert DENIED in server.seen(1) and server.seen(2).count(DENIED) == 1
    assert (claude.work / "ran.txt").read_text() == "ran\n"  # the second time only
    assert claude.fired() == [("database-evidence", "deny", True)]
    assert type(messages[-1]).__name__ == "ResultMessage" and not messages[-1].is_error
    assert not (claude.state / "guard" / "faults.jsonl").exists()


def test_the_sdk_tells_at_a_call_and_at_a_stop(claude: Agent) -> None:
    (claude.work / "notes.txt").write_text("my colour\n")
    script: list[dict[str, Any]] = [
        {"run": "perl -pi -e s/colour/color/g notes.txt"},
        {"say": "Done."},
        {"say": "Yes."},
    ]
    server, _ = converse(claude, REPLACE, script)
    assert FIRST_WRITE not in server.seen(0) and server.seen(1).count(FIRST_WRITE) == 1
    fired = [(policy, action) for policy, action, did in claude.fired() if did]
    assert fired == [("exact-replacement/first-write", "instruct"), ("exact-replacement/words", "instruct")]
    assert len(server.requests) == 3, "the stop was turned into another turn"
    assert sum(line.get("e") == "stop" for line in claude.log()) == 2


# -- terminus-2: Harbor's own trial, in our sandbox ----------------------------------------------------------------------

GUARDED = """
from harbor.agents.terminus_2.terminus_2 import Terminus2
from misstep.guard.adapters.terminus_2 import Guarded

class Agent(Guarded, Terminus2):
    pass
"""
LAUNCH = "python3 counter.py"
PROBE = "curl -s http://127.0.0.1:8077/hits"


def turn(*keys: str, done: bool = False) -> dict[str, Any]:
    commands = [{"keystrokes": f"{key}\n", "duration": 1.0} for key in keys]
    return {"say": json.dumps({"analysis": "", "plan": "", "commands": commands, "task_complete": done})}


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_terminus_2_in_a_trial_of_harbors(tmp_path: Path, mode: str) -> None:
    """A server that is typed into the terminal belongs to it, until the agent is told when it wants to stop."""
    pytest.importorskip("harbor")
    problem = native.problem()
    if problem:
        pytest.skip(problem)
    if not Path("/usr/bin/tmux").exists():
        pytest.skip("this machine's /usr has no tmux")
    (tmp_path / "guarded_agent.py").write_text(GUARDED)
    task = tmp_path / "tasks" / "hit-counter"
    shutil.copytree(CHECKOUT / "tasks" / "hit-counter", task)
    with (task / "instruction.md").open("a") as instruction:
        instruction.write(
            "\nIt is a server: it must be running and reachable at http://localhost:8077 when you are done.\n"
        )
    counter = (task / "solution" / "counter.py").read_text()
    script = [
        turn(f"cat > counter.py <<'EOF'\n{counter}EOF", f"{LAUNCH} > log 2>&1 &", PROBE),
        turn(done=True),
        # what the model does when it is told:
        turn("kill %1", f"setsid {LAUNCH} > log 2>&1 < /dev/null &"),
        turn(PROBE),
        turn(done=True),
        turn(done=True),
    ]
    if mode == "observe":
        script[2:] = [turn(done=True)]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MISSTEP", "OPENAI"))}
    env |= {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}
    env |= {"MISSTEP_HOME": str(tmp_path / "state"), "MISSTEP_GUARD": mode, "PYTHONPATH": str(tmp_path)}
    with ModelServer(script, plain=True) as server:
        words = ["run", "--path", str(task), "--agent", "guarded_agent:Agent", "--model", "openai/gpt-4o"]
        words += ["--ak", f"api_base=http://127.0.0.1:{server.port}/v1", "--jobs-dir", str(tmp_path / "jobs")]
        words += ["--env", "misstep.sandbox.harbor:BubblewrapEnvironment", "--ek", "root=host"]
        harbor = Path(sys.executable).with_name("harbor")
        done = subprocess.run([str(harbor), *words], capture_output=True, text=True, env=env, timeout=180)
    (found,) = (tmp_path / "jobs").glob("*/hit-counter__*/result.json")
    row = json.loads(found.read_text())
    assert row["exception_info"] is None, done.stdout[-2000:] + str(row["exception_info"])
    assert len(server.requests) == len(script)
    (path,) = (tmp_path / "state" / "guard" / "sessions" / "in-process").glob("*/log.jsonl")
    log = [json.loads(line) for line in path.read_text().splitlines()]
    decided = [line for line in log if line.get("e") == "decision" and line["event"] == "stop"]
    rows = [r for line in decided for r in line["rows"] if r["policy"] == "service-persistence"]
    assert "Are you sure" in server.seen(2)
    assert (RELAUNCH in server.seen(2)) == (mode == "enforce")
    if mode == "observe":
        assert [(r["fires"], r["fired"]) for r in rows] == [(True, False)]
        return
    assert [(r["fires"], r["fired"], r["released"]) for r in rows] == [(True, True, False), (False, False, True)]
    assert row["verifier_result"]["rewards"] == {"reward": 1.0}
    typed = [line["input"]["command"] for line in log if line.get("e") == "before"]
    assert typed[-1] == f"{PROBE}\n" and f"setsid {LAUNCH} > log 2>&1 < /dev/null &\n" in typed
