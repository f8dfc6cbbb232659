"""Every recorded hook payload is read as what it is, and answers have the form that the host takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from misstep.guard.calls import call_of
from misstep.guard.engine import Decision
from misstep.guard.hosts import NAMES, Reading, host
from misstep.trajectory.readers import _calls, _claude

DATA = Path(__file__).parent / "data" / "hooks"
HOSTS = {"claude": "claude-code", "codex": "codex", "qwen": "qwen-code", "gemini": "gemini-cli"}
PAYLOADS = [
    pytest.param(HOSTS[path.stem.split("-")[0]], item["name"], item["payload"], id=f"{path.stem}/{item['name']}")
    for path in sorted(DATA.glob("*.jsonl"))
    for item in map(json.loads, path.read_text().splitlines())
]
BY_ID = {p.id: p.values for p in PAYLOADS}

KINDS = {
    "UserPromptSubmit": ["prompt"],
    "BeforeAgent": ["prompt"],
    "PreToolUse": ["before"],
    "BeforeTool": ["before"],
    "PostToolUse": ["after"],
    "AfterTool": ["after"],
    "PostToolUseFailure": ["after"],
    "Stop": ["stop"],
    "SubagentStop": ["stop"],
    "AfterAgent": ["stop"],
    "SessionStart": ["start"],
}


def reading(id: str) -> Reading:
    name, _, payload = BY_ID[id]
    found = host(name).read(payload)
    assert found is not None
    return found


def only(id: str) -> dict[str, Any]:
    (record,) = reading(id).records
    return record


@pytest.mark.parametrize(("name", "title", "payload"), PAYLOADS)
def test_each_payload_is_read_as_its_event(name: str, title: str, payload: dict[str, Any]) -> None:
    found = host(name).read(payload)
    event = payload["hook_event_name"]
    expected = ["compact"] if title == "SessionStart.compact" else KINDS.get(event)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert [r["e"] for r in found.records] == expected
    assert found.session == payload["session_id"]
    assert found.agent == payload.get("agent_id", "")
    json.dumps(found.records)
    for record in found.records:
        if record["e"] in ("before", "after"):
            shell = "exec_command" if name == "codex" else "Bash"  # Codex' shell yields while a command runs
            assert record["tool"] == (shell if payload["tool_name"] == "Bash" else payload["tool_name"])
            assert record["input"] == payload["tool_input"]
            call = call_of(record["id"], record["tool"], record["input"], record["cwd"])
            assert call.kind != "shell" or call.command == payload["tool_input"]["command"]
        if record["e"] == "after":
            assert set(record["result"]) >= {"output"}
    if event in host(name).EVENTS:
        return
    raise AssertionError(f"{event} is read but not registered for")


@pytest.mark.parametrize(
    ("id", "result"),
    [
        ("claude-2.1.332/PostToolUse.Bash", {"failed": False, "exit": 0, "output": "ok"}),
        ("claude-2.1.332/PostToolUseFailure.Bash", {"failed": True, "exit": 3, "output": "hello"}),
        ("claude-2.1.197/PostToolUseFailure", {"failed": True, "exit": 3}),
        ("claude-2.1.332/PostToolUse.Write", {"failed": False, "output": "hi\n"}),
        ("claude-2.1.332/PostToolUse.Read", {"failed": False, "output": "hello\n"}),
        ("codex-0.146.0/PostToolUse.Bash", {"output": "hi\n"}),
        ("codex-0.171.0/PostToolUse.Bash", {"output": "hello\n"}),
        ("codex-0.171.0/PostToolUse.apply_patch", {"exit": 0}),
        ("qwen-0.24.4/PostToolUse.run_shell_command", {"failed": False, "exit": 0, "output": "ok"}),
        ("qwen-0.24.4/PostToolUseFailure.run_shell_command", {"failed": True, "exit": 3, "output": "hello"}),
        ("gemini-0.61.0/AfterTool", {"failed": False, "exit": 0, "output": "hello-from-tool"}),
    ],
)
def test_results(id: str, result: dict[str, Any]) -> None:
    assert result.items() <= only(id)["result"].items()


def test_codex_tells_the_exit_status_later() -> None:
    assert only("codex-0.171.0/PostToolUse.Bash")["open"] is True
    assert "open" not in only("codex-0.171.0/PostToolUse.apply_patch")


def test_a_patch_of_codex_is_an_edit() -> None:
    record = only("codex-0.146.0/PreToolUse.apply_patch")
    call = call_of(record["id"], record["tool"], record["input"])
    assert call.kind == "edit" and call.command is None
    assert call.paths == ("a.txt",) and call.edits == (("a.txt", "", "hi"),)


def test_turns_and_sub_agents() -> None:
    stop = reading("claude-2.1.332/Stop")
    assert stop.turn == BY_ID["claude-2.1.332/Stop"][2]["prompt_id"]
    assert reading("codex-0.171.0/Stop").turn == BY_ID["codex-0.171.0/Stop"][2]["turn_id"]
    inner = reading("claude-2.1.332/PostToolUse.in-subagent")
    assert inner.agent == "a10c3cda0cceef5ed" and inner.session.startswith("a0b7a148")
    assert reading("gemini-0.61.0/AfterAgent").turn == reading("gemini-0.61.0/BeforeAgent").turn


CALLS = [
    ("Bash", {"command": "ls -la", "description": "look", "timeout": 5000, "run_in_background": True}),
    ("Bash", {"command": None}),
    ("Read", {"file_path": "/w/a.py", "offset": 3}),
    ("Write", {"file_path": "/w/a.py", "content": "x = 1\n"}),
    ("Edit", {"file_path": "/w/a.py", "old_string": "1", "new_string": "2"}),
    ("MultiEdit", {"file_path": "/w/a.py", "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": 3}]}),
    ("NotebookEdit", {"notebook_path": "/w/n.ipynb", "new_source": "y"}),
    ("Grep", {"pattern": "x", "path": "src"}),
    ("Glob", {"pattern": "*.py"}),
    ("TodoWrite", {"todos": []}),
    ("mcp__server__tool", {"path": "/x"}),
]


@pytest.mark.parametrize(("tool", "given"), CALLS)
def test_a_call_is_the_one_that_the_reader_of_claude_sessions_gives(tool: str, given: dict[str, Any]) -> None:
    assert call_of("1", tool, given, "/w") == _claude.call_of({"id": "1", "name": tool, "input": given}, "/w")


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("run_shell_command", {"command": "make", "description": "build", "is_background": True}),
        ("run_shell_command", {"command": "make", "dir_path": "/w/sub"}),
        ("read_file", {"absolute_path": "/w/a"}),
        ("write_file", {"file_path": "/w/a", "content": "x"}),
        ("replace", {"file_path": "/w/a", "old_string": "x", "new_string": "y"}),
        ("exec_command", {"cmd": "make test"}),
        ("shell", {"command": ["bash", "-lc", "make test"]}),
        ("shell", {"command": ["make", "a b"]}),
        ("view_image", {"path": "a.png"}),
        ("update_plan", {"plan": []}),
        ("search_file_content", {"pattern": "x", "path": "src"}),
        ("edit", {"filePath": "/w/a", "oldString": "x", "newString": "y"}),
        ("write", {"filePath": "/w/a", "content": "x"}),
        ("read", {"filePath": "/w/a"}),
    ],
)
def test_a_call_is_the_one_that_the_other_readers_give(tool: str, given: dict[str, Any]) -> None:
    assert call_of("1", tool, given) == _calls.call_of("1", tool, given)


PATCH = """*** Begin Patch
*** Update File: a.py
@@ def f():
 context
-old
+new
*** Add File: dir/b.txt
+one
+two
*** Delete File: c.txt
*** Update File: d.py
*** Move to: e.py
-x
+y
*** End Patch
"""


@pytest.mark.parametrize("patch", [PATCH, PATCH.rstrip(), PATCH.replace("*** End Patch\n", ""), "", "no patch"])
def test_a_patch_is_read_as_the_reader_of_rollouts_reads_it(patch: str) -> None:
    assert call_of("1", "apply_patch", {"command": patch}).edits == _calls.patch_edits(patch)


# -- answers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_valid_for_the_host(name: str) -> None:
    adapter = host(name)
    deny = json.loads(adapter.answer(Decision(3, "before", "", "deny", 'Not "so".'), {}))
    stop = json.loads(adapter.answer(Decision(3, "stop", "", "instruct", "One more thing."), {}))
    if name in ("opencode", "pi"):
        assert (deny, stop) == ({"deny": 'Not "so".'}, {"text": "One more thing."})
        assert json.loads(adapter.answer(Decision(3, "before", "", "instruct", "x"), {})) == {"text": "x"}
        return
    if name == "copilot-cli":
        assert deny == {"permissionDecision": "deny", "permissionDecisionReason": 'Not "so".'}
        assert stop == {"decision": "block", "reason": "One more thing."}
    elif name == "cursor":
        assert deny["permission"] == "deny" and deny["agent_message"] == 'Not "so".'
        assert stop == {"followup_message": "One more thing."}
    elif name == "gemini-cli":
        assert deny == {"decision": "deny", "reason": 'Not "so".'}
        assert stop == {"decision": "deny", "reason": "One more thing."}
    else:
        inner = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": 'Not "so".'}
        assert deny == {"hookSpecificOutput": inner}
        assert stop == {"decision": "block", "reason": "One more thing."}
    if name == "copilot-cli":
        assert json.loads(adapter.late("Mind this.", {})) == {"additionalContext": "Mind this."}
    elif name == "cursor":
        assert json.loads(adapter.late("Mind this.", {})) == {"additional_context": "Mind this."}
    elif adapter.LATE_TEXT:
        event = "AfterTool" if name == "gemini-cli" else "PostToolUse"
        late = json.loads(adapter.late("Mind this.", {"hook_event_name": event}))
        assert late == {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "Mind this."}}
    else:
        instruct = json.loads(adapter.answer(Decision(3, "before", "", "instruct", "Mind this."), {}))
        # a permission decision beside it would make Codex ignore both
        assert instruct == {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "Mind this."}}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"session_id": 3, "hook_event_name": "Stop"},
        {"session_id": "s", "hook_event_name": None},
        {"session_id": "s", "conversation_id": "s", "hook_event_name": ["Stop"]},
        {"session_id": "s", "conversation_id": "s", "hook_event_name": "SomethingNew"},
    ],
)
def test_what_is_no_event_of_ours_is_none(name: str, payload: dict[str, Any]) -> None:
    assert host(name).read(payload) is None


# -- hosts that are served by their published contracts ------------------------------------------------------------------


def records(name: str, **payload: Any) -> list[dict[str, Any]]:
    found = host(name).read(payload)
    assert found is not None and found.session == "s"
    return found.records


def test_copilot_cli() -> None:
    base = {"sessionId": "s", "cwd": "/w", "timestamp": 1}
    assert records("copilot-cli", **base, prompt="Go.") == [{"e": "prompt", "text": "Go."}]
    call = {"toolName": "bash", "toolArgs": '{"command": "make"}'}
    (before,) = records("copilot-cli", **base, **call)
    assert (before["e"], before["tool"], before["input"], before["cwd"]) == (
        "before",
        "bash",
        {"command": "make"},
        "/w",
    )
    shown = {"resultType": "success", "textResultForLlm": "no rule\n<exited with exit code 2>"}
    (after,) = records("copilot-cli", **base, **call, toolResult=shown)
    assert after["id"] == before["id"]
    assert after["result"] == {"failed": True, "exit": 2, "output": "no rule\n"}
    (denied,) = records("copilot-cli", **base, **call, toolResult={"resultType": "denied", "textResultForLlm": "no"})
    assert denied["result"]["fault"] == "refused" and denied["result"]["failed"] is None
    assert records("copilot-cli", **base, stopReason="end_turn")[0]["e"] == "stop"
    # the Pascal names give payloads in Claude's spelling
    snake = {"session_id": "s", "cwd": "/w", "hook_event_name": "PreToolUse"}
    assert records("copilot-cli", **snake, tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="t") == [
        {"e": "before", "id": "t", "tool": "Bash", "input": {"command": "ls"}, "cwd": "/w"}
    ]


def test_cursor() -> None:
    base = {"conversation_id": "s", "generation_id": "g", "cwd": "/w"}
    assert records("cursor", **base, hook_event_name="beforeSubmitPrompt", prompt="Go.") == [
        {"e": "prompt", "text": "Go."}
    ]
    call = {"tool_name": "Shell", "tool_input": {"command": "make", "working_directory": "/w/sub"}, "tool_use_id": "t"}
    (before,) = records("cursor", **base, **call, hook_event_name="preToolUse")
    assert (before["tool"], before["cwd"]) == ("bash", "/w/sub")
    assert call_of("t", before["tool"], before["input"], before["cwd"]).kind == "shell"
    output = '{"exitCode": 2, "stdout": "no rule", "stderr": ""}'
    (after,) = records("cursor", **base, **call, hook_event_name="postToolUse", tool_output=output)
    assert after["result"] == {"failed": True, "exit": 2, "output": "no rule"}
    assert records("cursor", **base, hook_event_name="stop", status="completed", loop_count=0)[0]["e"] == "stop"
    assert records("cursor", **base, hook_event_name="stop", status="aborted")[0]["e"] == "interrupt"


def test_opencode() -> None:
    base = {"session_id": "s", "cwd": "/w"}
    call = {
        "tool_name": "edit",
        "tool_input": {"filePath": "/w/a", "oldString": "x", "newString": "y"},
        "tool_use_id": "t",
    }
    (before,) = records("opencode", **base, **call, hook_event_name="PreToolUse")
    made = call_of("t", before["tool"], before["input"])
    assert (made.kind, made.paths, made.edits) == ("edit", ("/w/a",), (("/w/a", "x", "y"),))
    shown = {"output": "no", "exit": 2}
    (after,) = records("opencode", **base, **call, hook_event_name="PostToolUse", tool_response=shown)
    assert after["result"] == {"failed": True, "exit": 2, "output": "no"}
    assert records("opencode", **base, hook_event_name="Stop")[0]["e"] == "stop"


def test_pi() -> None:
    base = {"session_id": "s", "cwd": "/w", "hook_event_name": "PostToolUse"}
    call = {"tool_name": "bash", "tool_input": {"command": "make"}, "tool_use_id": "t"}
    shown = {"output": "no rule\n\nCommand exited with code 2", "failed": True}
    (after,) = records("pi", **base, **call, tool_response=shown)
    assert after["result"] == {"failed": True, "exit": 2, "output": "no rule"}
    (after,) = records("pi", **base, **call, tool_response={"output": "ok", "failed": False})
    assert after["result"] == {"failed": False, "exit": 0, "output": "ok"}
    assert records("pi", **{**base, "hook_event_name": "Stop"}, last_assistant_message="Done.")[0]["message"] == "Done."


# -- exit statuses from Codex's transcript ------------------------------------------------------------------------------


def line(**payload: Any) -> str:
    return json.dumps({"type": "response_item", "payload": payload})


def exits(tmp_path: Path, lines: list[str], results: dict[str, str]) -> dict[str, int | None]:
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(lines) + "\n")
    records = [{"id": i, "result": {"output": output}} for i, output in results.items()]
    return host("codex").exits(Reading("s", transcript=str(path)), records)


def test_exit_statuses_of_finished_calls(tmp_path: Path) -> None:
    output = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nExit code: 9\n"
    lines = [
        line(type="function_call", call_id="a", name="exec_command", arguments="{}"),
        line(type="function_call", call_id="b", name="exec_command", arguments="{}"),
        line(type="function_call_output", call_id="a", output=output),
        "{broken",
        line(type="function_call", call_id="c", name="exec_command", arguments="{}"),
        line(type="function_call_output", call_id="c", output="no header"),
    ]
    # b is under way, c does not tell, d is unknown
    assert exits(tmp_path, lines, {"a": "", "b": "", "c": "", "d": ""}) == {"a": 3, "c": None, "d": None}


def test_exit_statuses_that_an_item_tells(tmp_path: Path) -> None:
    item = {"type": "CommandExecution", "id": "a", "exit_code": 4}
    lines = [json.dumps({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})]
    assert exits(tmp_path, lines, {"a": ""}) == {"a": 4}


def test_exit_statuses_inside_a_script(tmp_path: Path) -> None:
    def printed(*results: tuple[str, int]) -> str:
        texts = [{"type": "input_text", "text": json.dumps({"exit_code": c, "output": o})} for o, c in results]
        return line(
            type="custom_tool_call_output", call_id="s", output=[{"type": "input_text", "text": "Script"}, *texts]
        )

    lines = [printed(("one\n", 1), ("two\n", 0)), printed(("", 0))]
    assert exits(tmp_path, lines, {"exec-1": "one\n", "exec-2": "two\n", "exec-3": "three\n"}) == {
        "exec-1": 1,
        "exec-2": 0,
        "exec-3": None,
    }
    # the same output with two statuses: it cannot be told
    assert exits(tmp_path, [printed(("x", 1), ("x", 0))], {"exec-1": "x"}) == {"exec-1": None}


def test_a_transcript_that_is_not_there(tmp_path: Path) -> None:
    reading = Reading("s", transcript=str(tmp_path / "none"))
    assert host("codex").exits(reading, [{"id": "a", "result": {"output": ""}}]) == {"a": None}
