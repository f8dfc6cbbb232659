"""The guard inside Python agents: through the real frameworks where they are installed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from misstep.guard.adapters import Guard

from .conftest import plain_rules


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MISSTEP_GUARD", "MISSTEP_ARM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    path = tmp_path / "portfolio.json"
    path.write_text(json.dumps({"v": 1, "rules": plain_rules()}))
    monkeypatch.setenv("MISSTEP_PORTFOLIO", str(path))
    return tmp_path


def log(home: Path, host: str = "in-process") -> list[dict[str, Any]]:
    (path,) = (home / "state" / "guard" / "sessions" / host).glob("*/log.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(home: Path, host: str = "in-process") -> list[str]:
    return [line["e"] for line in log(home, host) if "e" in line]


def test_a_guard_in_process(home: Path) -> None:
    guard = Guard("s")
    guard.prompt("Go carefully.")
    assert guard.before("a", "bash", {"command": "remove"}).action == "deny"
    answer = guard.before("b", "bash", {"command": "write"})
    assert (answer.action, answer.text) == ("instruct", "Advice one.\n\nAdvice two.")
    guard.after("b", "bash", {"command": "write"}, "done", 1)
    assert not guard.before("c", "bash", {"command": "ls"})
    assert guard.stop("Done.") == "Check again." and guard.stop("Done.") == ""
    state = json.loads((home / "state/guard/sessions/in-process/s/state.json").read_text())
    assert state["runs"]["plain"][0] == {"calls": 2, "results": 1, "failed": 1, "prompts": 1, "checked": False}


def test_it_never_raises(home: Path) -> None:
    (home / "portfolio.json").write_text("broken")
    guard = Guard()
    guard.prompt("Go.")
    assert not guard.before("a", "bash", {"command": object()}) and guard.stop("") == ""


def test_the_programs_own_signals_stay(home: Path) -> None:
    import signal

    def mine(*_: object) -> None: ...

    former = signal.signal(signal.SIGALRM, mine)
    try:
        Guard().prompt("Go.")
        assert signal.getsignal(signal.SIGALRM) is mine
    finally:
        signal.signal(signal.SIGALRM, former)


# -- mini-swe-agent ------------------------------------------------------------------------------------------------------


def test_mini_swe_agent(home: Path) -> None:
    pytest.importorskip("minisweagent")
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.test_models import DeterministicModel, make_output

    from misstep.guard.adapters.mini_swe_agent import Guarded

    class Agent(Guarded, DefaultAgent):
        pass

    submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo result"
    commands = ["touch removed # remove", "echo write", submit, submit]
    outputs = [make_output(f"step {n}", [{"command": c}]) for n, c in enumerate(commands)]
    agent = Agent(
        DeterministicModel(outputs=outputs),
        LocalEnvironment(cwd=str(home)),
        system_template="You are an agent.",
        instance_template="{{task}}",
        cost_limit=0,
    )
    result = agent.run("Go carefully.")
    told = [str(m.get("content")) for m in agent.messages if m.get("role") == "user"]
    assert not (home / "removed").exists() and any("First denial." in t for t in told)
    assert any("write" in t and "Advice one." in t for t in told)
    assert any("Check again." in t for t in told)
    assert result["exit_status"] == "Submitted"
    assert kinds(home) == [
        "prompt",
        "before",
        "decision",
        "before",
        "decision",
        "after",
        "stop",
        "decision",
        "stop",
        "decision",
    ]


# -- terminus-2 ----------------------------------------------------------------------------------------------------------


def test_terminus_2(home: Path) -> None:
    pytest.importorskip("harbor")
    from harbor.agents.terminus_2.terminus_2 import Terminus2

    from misstep.guard.adapters.terminus_2 import Guarded

    class Agent(Guarded, Terminus2):
        def __init__(self) -> None:  # the model and the environment are not needed here
            self.options = SimpleNamespace(parser_name="json")
            self._timeout_template = "{timeout_sec}{command}{terminal_state}"

    typed: list[str] = []

    class Session:
        async def send_keys(self, keys: str, **_: object) -> None:
            typed.append(keys)

        async def get_incremental_output(self) -> str:
            return "$ " + " ".join(typed)

    agent = Agent()
    agent.guard, agent._calls = Guard(), 0
    agent.guard.prompt("Go carefully.")

    def act(*keys: str) -> str:
        commands = [SimpleNamespace(keystrokes=k, duration_sec=0.1) for k in keys]
        timed_out, output = asyncio.run(agent._execute_commands(commands, Session()))
        assert not timed_out
        return output

    assert "Advice one." in act("write it\n", "C-c")
    assert "First denial." in act("ls\n", "remove it\n", "never typed\n")
    assert typed == ["write it\n", "C-c", "ls\n"]
    asked = agent._get_completion_confirmation_message("$ ")
    assert "Are you sure" in asked and "Check again." in asked
    assert "Check again." not in agent._get_completion_confirmation_message("$ ")
    calls = [line["input"]["command"] for line in log(home) if line.get("e") == "before"]
    assert calls == ["write it\n", "ls\n", "remove it\n"]


# -- LangChain -----------------------------------------------------------------------------------------------------------


def test_langchain(home: Path) -> None:
    pytest.importorskip("langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    from misstep.guard.adapters.langchain import GuardMiddleware

    ran: list[str] = []

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return f"ran {command}"

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    def calls(command: str, id: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "bash", "args": {"command": command}, "id": id}])

    script = [calls("remove", "a"), calls("write", "b"), AIMessage("Done."), AIMessage("Checked.")]
    agent = create_agent(Model(messages=iter(script)), [bash], middleware=[GuardMiddleware()])
    messages = agent.invoke({"messages": [("user", "Go carefully.")]})["messages"]
    texts = [str(m.text) for m in messages]
    assert ran == ["write"]
    assert "First denial." in texts and "ran write\n\nAdvice one.\n\nAdvice two." in texts
    assert texts[-3:] == ["Done.", "Check again.", "Checked."]
    assert kinds(home) == [
        "prompt",
        "before",
        "decision",
        "before",
        "decision",
        "after",
        "stop",
        "decision",
        "stop",
        "decision",
    ]


# -- Claude Agent SDK ----------------------------------------------------------------------------------------------------


def test_claude_agent_sdk(home: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    from misstep.guard.adapters.claude_agent_sdk import hooks

    options = sdk.ClaudeAgentOptions(hooks=hooks())

    def send(event: str, **given: Any) -> dict[str, Any]:
        (matcher,) = options.hooks[event]
        payload = {"session_id": "s", "hook_event_name": event, "cwd": str(home), **given}
        return asyncio.run(matcher.hooks[0](payload, None, {}))

    assert send("UserPromptSubmit", prompt="Go carefully.") == {}
    call = {"tool_name": "Bash", "tool_input": {"command": "remove"}, "tool_use_id": "a"}
    assert send("PreToolUse", **call)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert send("Stop", last_assistant_message="Done.") == {"decision": "block", "reason": "Check again."}
    assert kinds(home, "claude-code") == ["prompt", "before", "decision", "stop", "decision"]
