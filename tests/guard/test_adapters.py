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
    monkeypatch.setenv("MSWEA_GLOBAL_CONFIG_DIR", str(tmp_path / "mini"))  # mini-swe-agent makes it when it is imported
    monkeypatch.setenv("MSWEA_SILENT_STARTUP", "1")
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


def test_mini_swe_agent_with_several_actions_at_once(home: Path) -> None:
    pytest.importorskip("minisweagent")
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.test_models import DeterministicModel, make_output

    from misstep.guard.adapters.mini_swe_agent import Guarded

    class Agent(Guarded, DefaultAgent):
        pass

    (home / "notes").write_text("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n")
    looks = "grep -c COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT notes"  # no submission
    steps = [["echo one", "echo two; exit 3"], [looks], ["echo 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT'"]]
    agent = Agent(
        DeterministicModel(outputs=[make_output("", [{"command": c} for c in step]) for step in steps]),
        LocalEnvironment(cwd=str(home)),
        system_template="You are an agent.",
        instance_template="{{task}}",
        cost_limit=0,
    )
    assert agent.run("Go.")["exit_status"] == "Submitted"
    lines = log(home)
    calls = [(line["id"], line["input"]["command"]) for line in lines if line.get("e") == "before"]
    assert [command for _, command in calls] == [*steps[0], looks]
    assert len({call for call, _ in calls}) == 3
    exits = {line["input"]["command"]: line["result"]["exit"] for line in lines if line.get("e") == "after"}
    assert exits == {"echo one": 0, "echo two; exit 3": 3, looks: 0}
    assert sum(line.get("e") == "stop" for line in lines) == 1


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
    # neither what was denied nor what was typed into a program has a result
    assert [x["input"]["command"] for x in log(home) if x.get("e") == "after"] == ["write it\n", "ls\n"]


# -- LangChain -----------------------------------------------------------------------------------------------------------


LANGCHAIN = ["prompt", *["before", "decision"] * 2, "after", *["stop", "decision"] * 2]


@pytest.mark.parametrize("loop", [False, True], ids=["invoke", "ainvoke"])
def test_langchain(home: Path, loop: bool) -> None:
    pytest.importorskip("langchain")
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    ran: list[str] = []

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return f"ran {command}"

    script = [_calls("remove", "a"), _calls("write", "b"), AIMessage("Done."), AIMessage("Checked.")]
    messages = _langchain(script, bash, loop)
    texts = [str(m.text) for m in messages]
    assert ran == ["write"]
    assert "First denial." in texts and "ran write\n\nAdvice one.\n\nAdvice two." in texts
    assert [m.status for m in messages if m.type == "tool"] == ["error", "success"]
    assert texts[-3:] == ["Done.", "Check again.", "Checked."]
    assert kinds(home) == LANGCHAIN


def _calls(command: str, id: str) -> Any:
    from langchain_core.messages import AIMessage

    return AIMessage("", tool_calls=[{"name": "bash", "args": {"command": command}, "id": id}])


def _langchain(script: list[Any], bash: Any, loop: bool = False) -> list[Any]:
    """The messages of an agent with one tool, whose model says what the script says."""
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

    from misstep.guard.adapters.langchain import GuardMiddleware

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    agent = create_agent(Model(messages=iter(script)), [bash], middleware=[GuardMiddleware()])
    given: Any = {"messages": [("user", "Go carefully.")]}
    return (asyncio.run(agent.ainvoke(given)) if loop else agent.invoke(given))["messages"]


@pytest.mark.parametrize("loop", [False, True], ids=["invoke", "ainvoke"])
def test_langchain_keeps_what_a_tool_gives(home: Path, loop: bool) -> None:
    """A list of blocks, and a Command, are still what they were, with the text below."""
    pytest.importorskip("langchain")
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import tool
    from langgraph.types import Command

    picture = {"type": "image", "url": "https://example.org/x.png"}

    @tool
    def bash(command: str) -> Any:
        """Run a command."""
        if "first" in command:
            return [{"type": "text", "text": "seen"}, picture]
        return Command(update={"messages": [ToolMessage("commanded", tool_call_id="b")]})

    script = [_calls("write first", "a"), _calls("write second", "b"), AIMessage("Done."), AIMessage("Checked.")]
    first, second = (m for m in _langchain(script, bash, loop) if m.type == "tool")
    assert first.content == [
        {"type": "text", "text": "seen"},
        picture,
        {"type": "text", "text": "Advice one.\n\nAdvice two."},
    ]
    assert second.content.startswith("commanded")
    outputs = [line["result"]["output"] for line in log(home) if line.get("e") == "after"]
    assert outputs == ["seen", "commanded"]


@pytest.mark.parametrize("loop", [False, True], ids=["invoke", "ainvoke"])
def test_langchain_sees_a_tool_that_raises(home: Path, loop: bool) -> None:
    pytest.importorskip("langchain")
    from langchain_core.tools import tool

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk"):
        _langchain([_calls("ls", "a")], bash, loop)
    (result,) = [line["result"] for line in log(home) if line.get("e") == "after"]
    assert (result["failed"], result["output"]) == (True, "no disk")


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
