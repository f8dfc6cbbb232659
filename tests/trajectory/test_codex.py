"""Codex: rollouts of every age, code mode, and the standard output of `codex exec --json`."""

import json
from pathlib import Path
from typing import Any

import pytest

from misstep.trajectory import Compact, Interrupt, Prompt, Say, Stop, Trajectory, events
from misstep.trajectory.readers import Source, Unreadable, read, reader_of
from misstep.trajectory.readers._codemode import script_of
from misstep.trajectory.readers._codex_output import result_of

DATA = Path(__file__).parent / "data" / "codex"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def rollout(folder: Path, *payloads: tuple[str, dict], meta: dict | None = None, **common: Any) -> Trajectory:
    """Records as (type, payload); a session_meta comes first."""
    given = [("session_meta", {"id": "r1", "cwd": "/w", "cli_version": "0.146.0", **(meta or {})}), *payloads]
    path = folder / "any.jsonl"
    with path.open("w") as file:
        for number, (kind, payload) in enumerate(given):
            record = {"timestamp": f"2026-02-03T04:05:{number:02}.123456789Z", "ordinal": number, "type": kind}
            file.write(json.dumps({**record, "payload": payload, **common}) + "\n")
    return one(path)


def item(kind: str, **payload: Any) -> tuple[str, dict]:
    return "response_item", {"type": kind, **payload}


def event(kind: str, **payload: Any) -> tuple[str, dict]:
    return "event_msg", {"type": kind, **payload}


def said(role: str, text: str, **payload: Any) -> tuple[str, dict]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}], **payload)


def call(id: str, name: str, **arguments: Any) -> tuple[str, dict]:
    return item("function_call", call_id=id, name=name, arguments=json.dumps(arguments))


def output(id: str, text: Any) -> tuple[str, dict]:
    return item("function_call_output", call_id=id, output=text)


def agents(found: Trajectory) -> list:
    return [s for s in found.steps if s.source == "agent"]


# -- recorded runs -----------------------------------------------------------------------------------------------


def test_yielded_and_finished_commands():
    found = one(DATA / "0.171.0.exec_command.jsonl")
    first, second, last = agents(found)
    assert (first.calls[0].command, first.calls[0].cwd) == ("sleep 2; echo late; exit 7", "/home/dev/project")
    running = first.results["c2"]
    assert running.running and (running.exit_code, running.failed, running.output) == (None, None, "")
    assert first.extra["ended"]["c2"]["exit_code"] == 7
    done = second.results["c3"]
    assert (done.exit_code, done.failed, done.output) == (1, True, "") and done.seconds == pytest.approx(
        2.916, abs=0.01
    )
    assert (last.message, last.stop) == ("All done.", True)
    assert [s.message for s in found.steps if s.prompt] == ["Please do the task"]
    assert [s.metrics["prompt_tokens"] for s in agents(found)] == [10, 10, 10]
    assert (found.agent_version, found.model, found.id[:8]) == ("0.171.0", "gpt-5.6", "01a22d5c")


def test_write_stdin_tells_the_end_of_an_earlier_command():
    found = one(DATA / "0.171.0.write_stdin.jsonl")
    first, second, _ = agents(found)
    assert first.results["c2"].running
    keys, result = second.calls[0], second.results["c3"]
    assert (keys.kind, keys.command) == ("keys", None)  # it need not be a shell that reads them
    assert (result.exit_code, result.failed, result.output) == (7, True, "hey\r\ngot hey\r\n")
    assert second.extra["continues"] == {"c3": "c2"}


def test_code_mode():
    found = one(DATA / "0.146.0.code_mode.jsonl")
    step = agents(found)[0]
    assert [(c.tool, c.kind) for c in step.calls] == [
        ("exec", "other"),
        ("exec_command", "shell"),
        ("apply_patch", "edit"),
    ]
    outer, command, patch = step.calls
    assert step.results[outer.id].exit_code is None and step.results[outer.id].failed is None
    result = step.results[command.id]
    assert (command.command, result.exit_code, result.failed, result.output) == ("echo hi; exit 4", 4, True, "hi\n")
    assert (patch.paths, patch.edits) == (("a.txt",), (("a.txt", "", "hi"),))
    assert step.results[patch.id].failed is False
    assert [type(e).__name__ for e in events(found)] == ["Prompt", *["Before", "After"] * 3, "Stop"]


def test_stop_that_a_hook_refused():
    found = one(DATA / "0.146.0.stop_block.jsonl")
    assert [s.message for s in found.steps if s.prompt] == ["Please do the task"]
    assert [e.message for e in events(found) if isinstance(e, Stop)] == ["All done.", "Really done."]
    assert [s.metrics for s in agents(found)] == [{"prompt_tokens": 10, "cached_tokens": 0, "completion_tokens": 5}] * 2


@pytest.mark.corpus
def test_version_0_58(shared):
    folder = shared / "corpus" / "codex-rollout" / "AcidicSoil-codex-session-view"
    found = one(next(folder.glob("rollout-*.jsonl")))
    calls = [(c, s.results.get(c.id)) for s in agents(found) for c in s.calls]
    assert len(calls) == 39 and sum(c.kind == "shell" for c, _ in calls) == 35
    # two of the shell calls are apply_patch, which runs no shell
    patches = [(c, r) for c, r in calls if c.kind == "edit"]
    assert [(c.tool, c.paths) for c, _ in patches] == [("shell", ("components/chat/chat-helpers/index.ts",))] * 2
    assert all(r and r.failed is False for _, r in patches)
    assert calls[0][0].command == "ls" and calls[0][0].cwd == found.cwd
    codes = [r.exit_code for c, r in calls if c.kind == "shell" and r]
    assert None not in codes and set(codes) > {0, 2}
    # the message is once an item and once an event, the reasoning too
    assert sum(s.prompt for s in found.steps) == 1
    thoughts = []
    for line in Path(found.path).read_text().splitlines():
        payload = json.loads(line)["payload"]
        if payload.get("type") == "reasoning":
            thoughts += [part["text"] for part in payload["summary"]]
    assert len(thoughts) > 38 and "\n".join(s.reasoning for s in agents(found) if s.reasoning) == "\n".join(thoughts)
    assert sum(r.truncated for _, r in calls if r) >= 3
    assert not any(r.output.startswith("Total output lines") for _, r in calls if r)
    plans = [(c, r) for c, r in calls if c.tool == "update_plan"]
    assert [(c.kind, r.output) for c, r in plans if r] == [("other", "Plan updated")] * 2
    assert not found.skipped
    with pytest.raises(Unreadable, match="codex: no conversation in it"):
        list(read(folder / "example-session-metadata.jsonl"))


@pytest.mark.corpus
def test_single_recorded_messages(shared):
    folder = shared / "corpus" / "codex-rollout" / "pypi-claude-code-log" / "dev-docs" / "messages" / "codex"
    waited = one(folder / "tools" / "async-command.json")
    first, second = agents(waited)
    assert first.calls[0].command == "pytest -q" and first.results["call-async-001"].running
    result = second.results["call-wait-001"]
    assert (result.output, result.exit_code, result.seconds) == ("2 passed\n", 0, 0.2)
    assert second.extra["continues"] == {"call-wait-001": "call-async-001"}
    wrapped = one(folder / "tools" / "exec-wrapper.json").steps[0]
    assert [c.command for c in wrapped.calls] == [None, "git status --short"] and len(wrapped.results) == 1
    plain = one(folder / "tools" / "function-call.json").steps[0]
    assert plain.results["call-structured-001"].exit_code is None  # the text says nothing of it
    assert one(folder / "messages" / "visible-pair.json").steps[0].prompt
    for name in ("messages/environment-context", "messages/user-shell-command", "lifecycle/turn-context"):
        with pytest.raises(Unreadable, match="codex: no conversation in it"):
            list(read(folder / f"{name}.json"))
    with pytest.raises(Unreadable, match="no known trajectory format"):
        list(read(folder / "manifest.json"))


# -- ages --------------------------------------------------------------------------------------------------------


def test_before_0_32_the_lines_have_no_wrapper(tmp_path):
    command = {"command": ["bash", "-lc", "cat a | wc -l"], "workdir": "/w/sub", "timeout_ms": 5000}
    shell = json.dumps({"output": "3\n", "metadata": {"exit_code": 0, "duration_seconds": 0.1}})
    records = [
        {"id": "r0", "timestamp": "2025-06-01T00:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<user_instructions>x"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count"}]},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "function_call", "id": "f", "name": "shell", "arguments": json.dumps(command), "call_id": "c"},
        {"record_type": "state"},
        {"type": "function_call_output", "call_id": "c", "output": shell},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Three."}]},
    ]
    path = tmp_path / "old.txt"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    found = one(path)
    assert (found.format, found.id) == ("codex", "r0") and not found.skipped
    assert [s.message for s in found.steps if s.prompt] == ["Count"]
    step = agents(found)[0]
    assert (step.reasoning, step.calls[0].command, step.calls[0].timeout) == ("Hm.", "cat a | wc -l", 5.0)
    assert step.calls[0].cwd == "/w/sub" and step.results["c"].exit_code == 0 and step.results["c"].output == "3\n"
    assert [e.message for e in events(found) if isinstance(e, Stop)] == ["Three."]
    path.write_text("".join(json.dumps(r) + "\n" for r in records[3:]))  # the head is lost
    assert one(path).id == "old" and len(agents(one(path))) == 2


def test_local_shell_call(tmp_path):
    action = {"type": "exec", "command": ["bash", "-lc", "ls -a"], "timeout_ms": 2000, "working_directory": "/w"}
    found = rollout(
        tmp_path, said("user", "Go"), item("local_shell_call", call_id="c", action=action), output("c", "x")
    )
    shell = agents(found)[0].calls[0]
    assert (shell.kind, shell.command, shell.timeout, shell.cwd) == ("shell", "ls -a", 2.0, "/w")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"output":"x\\n","metadata":{"exit_code":1,"duration_seconds":2.5}}', ("x\n", 1, True, 2.5)),
        ("Exit code: 2\nWall time: 0.4 seconds\nOutput:\nx", ("x", 2, True, 0.4)),
        ("Exit code: 0\nWall time: 1 seconds\nTotal output lines: 900\nOutput:\nx", ("x", 0, False, 1.0)),
        ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nx", ("x", 0, False, 0.1)),
        ("Wall time: 0.1 seconds\nProcess exited with code -1\nOutput:\n", ("", -1, True, 0.1)),
        (
            "Wall time: 0.1 seconds\nOutput:\nProcess exited with code 3\n",
            ("Process exited with code 3\n", None, None, 0.1),
        ),
        ("README.md\nsrc/", ("README.md\nsrc/", None, None, None)),
        ("Exit code: 3 is what the page says", ("Exit code: 3 is what the page says", None, None, None)),
        ('{"a": 1}', ('{"a": 1}', None, None, None)),
    ],
)
def test_exit_status_by_age(text, expected):
    result = result_of(text, "shell")
    assert (result.output, result.exit_code, result.failed, result.seconds) == expected and result.fault is None


def test_output_that_was_cut():
    head = "Wall time: 0.0 seconds\nProcess exited with code 2\nOriginal token count: 64406\nOutput:\n"
    for note in (
        "Total output lines: 2531\n\n",
        "Warning: truncated output (original token count: 9)\nTotal output lines: 5\n\n",
    ):
        result = result_of(f"{head}{note}rg: no", "shell")
        assert (result.truncated, result.output, result.exit_code) == (True, "rg: no", 2)
    assert result_of("Exit code: 0\nWall time: 1 seconds\nTotal output lines: 9\nOutput:\nx", "shell").truncated
    assert result_of("a\n[... omitted 12 of 90 lines ...]\nb", "shell").truncated
    assert result_of("a…512 tokens truncated…b", "shell").truncated
    assert not result_of("the list was truncated", "shell").truncated


@pytest.mark.parametrize(
    ("text", "fault", "failed"),
    [
        ("Command blocked by PreToolUse hook: copy first. Command: rm x", "refused", None),
        ("exec command rejected by user", "refused", None),
        ("aborted by user after 3.2s", "interrupted", None),
        ("Wall time: 3.2 seconds\naborted by user", "interrupted", None),
        ("This action was rejected due to unacceptable risk.", "refused", None),
        ("failed to parse function arguments: missing field `cmd`", "malformed", True),
        ("unsupported call: foo", "malformed", True),
        ("apply_patch verification failed: Failed to find expected lines in a.py", "malformed", True),
    ],
)
def test_faults(text, fault, failed):
    result = result_of(text, "shell")
    assert (result.fault, result.failed, result.exit_code) == (fault, failed, None)


def test_time_limit():
    text = "Exit code: 124\nWall time: 10 seconds\nOutput:\ncommand timed out after 10000 milliseconds\nx"
    result = result_of(text, "shell")
    assert (result.timed_out, result.exit_code, result.failed) == (True, 124, True)


def test_structured_end_wins(tmp_path):
    ended = {"type": "CommandExecution", "id": "c", "exit_code": 5, "duration": {"secs": 1, "nanos": 500_000_000}}
    found = rollout(
        tmp_path,
        said("user", "Go"),
        call("c", "exec_command", cmd="x"),
        event("item_completed", item=ended),
        output("c", "y"),
    )
    result = agents(found)[0].results["c"]
    assert (result.exit_code, result.failed, result.seconds, result.output) == (5, True, 1.5, "y")


# -- steps -------------------------------------------------------------------------------------------------------


def test_one_response_is_one_step(tmp_path):
    found = rollout(
        tmp_path,
        said("user", "Go"),
        item("reasoning", id="rs", summary=[{"type": "summary_text", "text": "Hm."}]),
        said("assistant", "I look."),
        call("a", "exec_command", cmd="ls", workdir="/w/x"),
        call("b", "exec_command", cmd="pwd"),
        output("a", "Process exited with code 0\nOutput:\nx"),
        output("b", "Process exited with code 2\nOutput:\ny"),
        said("assistant", "Done."),
        event("task_complete"),
    )
    first, last = agents(found)
    assert (first.id, first.reasoning, first.message, len(first.calls)) == ("rs", "Hm.", "I look.", 2)
    assert [first.results[c.id].exit_code for c in first.calls] == [0, 2]
    assert [c.cwd for c in first.calls] == ["/w/x", "/w"] and first.time == 1770091502.123456
    assert (first.stop, last.stop, last.message) == (False, True, "Done.")


def test_tokens_are_counted_once_a_response(tmp_path):
    def tokens(total: int, last: int) -> tuple[str, dict]:
        usage = {"total_token_usage": {"input_tokens": total}, "last_token_usage": {"input_tokens": last}}
        return event("token_count", info=usage)

    found = rollout(
        tmp_path,
        said("user", "Go"),
        event("token_count", info=None),
        tokens(10, 10),  # before the items of its response
        call("a", "exec_command", cmd="ls"),
        output("a", "x"),
        tokens(10, 10),
        tokens(30, 20),
        call("b", "exec_command", cmd="ls"),
        output("b", "x"),
    )
    assert [s.metrics["prompt_tokens"] for s in agents(found)] == [10, 20]


def test_events_repeat_what_the_items_say(tmp_path):
    found = rollout(
        tmp_path,
        said("user", "Go"),
        event("user_message", message="Go"),
        event("agent_reasoning", text="Hm."),
        event("agent_message", message="Done."),
        said("assistant", "Done."),
    )
    assert [type(e) for e in events(found)] == [Prompt, Stop]
    only = rollout(tmp_path, event("user_message", message="Go"), said("user", "Go"))
    assert [s.message for s in only.steps] == ["Go"]


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>",
        "<user_instructions>\nBe brief.\n</user_instructions>",
        "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>x</INSTRUCTIONS>",
        '<hook_prompt hook_run_id="stop:1:/x">Run the tests</hook_prompt>',
        "<turn_aborted>\nThe user interrupted\n</turn_aborted>",
        "<user_shell_command><command>ls</command></user_shell_command>",
        "Another language model started to solve this problem and produced a summary of its thinking process.",
    ],
)
def test_wrappers_are_no_prompts(tmp_path, text):
    found = rollout(tmp_path, said("user", text), said("user", "Go"), event("user_message", message="Go"))
    assert [s.prompt for s in found.steps] == [False, True]


def test_unknown_wrapper_that_no_event_names(tmp_path):
    found = rollout(
        tmp_path, said("user", "<new_wrapper>x</new_wrapper>"), said("user", "Go"), event("user_message", message="Go")
    )
    assert [s.message for s in found.steps if s.prompt] == ["Go"]
    found = rollout(
        tmp_path, said("user", "<b>bold</b> is broken"), event("user_message", message="<b>bold</b> is broken")
    )
    assert found.steps[0].prompt


def test_provenance(tmp_path):
    def from_(kind: str) -> dict:
        return {
            "internal_chat_message_metadata_passthrough": {"content_item_metadata": [{"provenance": {"type": kind}}]}
        }

    found = rollout(tmp_path, said("user", "Be brief", **from_("harness")), said("user", "Go", **from_("user")))
    assert [s.prompt for s in found.steps] == [False, True]


def test_compaction_is_told_once(tmp_path):
    found = rollout(
        tmp_path,
        said("user", "Go"),
        ("compacted", {"message": "sum"}),
        event("context_compacted"),
        said("assistant", "On."),
    )
    assert [type(e) for e in events(found)] == [Prompt, Compact, Stop]


def test_interruption(tmp_path):
    found = rollout(
        tmp_path, said("user", "Go"), said("assistant", "I will"), event("turn_aborted", reason="interrupted")
    )
    assert [type(e) for e in events(found)] == [Prompt, Say, Interrupt]


def test_errors_are_the_harness(tmp_path):
    found = rollout(tmp_path, said("user", "Go"), said("assistant", "I will"), event("error", message="rate limit"))
    assert found.steps[-1].extra["harness"] == "error"
    assert Stop not in [type(e) for e in events(found)]


def test_sub_agent_begins_with_a_copy_of_its_parent(tmp_path):
    meta = {
        "thread_source": "subagent",
        "subagent_history_start_ordinal": 4,
        "source": {"subagent": {"thread_spawn": {"parent_thread_id": "p1"}}},
    }
    found = rollout(
        tmp_path,
        said("user", "Go"),
        said("assistant", "Mine"),
        ("session_meta", {"id": "p1"}),
        said("user", "Look"),
        meta=meta,
    )
    assert (found.id, found.parent) == ("r1", "p1")
    assert [s.copied for s in found.steps] == [True, True, False]
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["Look"]


def test_fork_begins_with_older_records(tmp_path):
    meta = {"forked_from_id": "p1", "timestamp": "2026-02-03T04:05:03Z"}
    found = rollout(tmp_path, said("user", "Go"), said("assistant", "Done."), said("user", "Other way"), meta=meta)
    assert [s.copied for s in found.steps] == [True, True, False]


def test_lines_that_tell_nothing(tmp_path):
    found = rollout(
        tmp_path,
        item("ghost_snapshot"),
        ("world_state", {}),
        ("turn_context", {"cwd": "/v", "model": "m"}),
        said("user", "Go"),
        said("developer", "Rules"),
        item("brand_new"),
        ("newer", {}),
        output("gone", "x"),
    )
    assert len(found.steps) == 1 and found.model == "m"
    # a record type that is not known is not taken for Codex's, but counted
    expected = {"unknown item: brand_new": 1, "unknown record: newer": 1, "result without a call": 1}
    assert found.skipped == expected


# -- patches -----------------------------------------------------------------------------------------------------

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n x = 1\n-y = 2\n+y = 3\n*** Add File: b.py\n+z = 4\n*** End Patch"
EDITS = (("a.py", "x = 1\ny = 2", "x = 1\ny = 3"), ("b.py", "", "z = 4"))


@pytest.mark.parametrize(
    "made",
    [
        item("custom_tool_call", call_id="c", name="apply_patch", input=PATCH),
        call("c", "apply_patch", input=PATCH),
        call("c", "shell", command=["apply_patch", PATCH]),
        call("c", "shell", command=["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"]),
    ],
)
def test_apply_patch(tmp_path, made):
    found = rollout(tmp_path, said("user", "Go"), made, output("c", "Success. Updated the following files:\nM a.py\n"))
    patch = agents(found)[0].calls[0]
    assert (patch.kind, patch.command, patch.paths, patch.edits) == ("edit", None, ("a.py", "b.py"), EDITS)
    assert agents(found)[0].results["c"].failed is False


def test_heredoc_that_does_more_than_patch_stays_a_command(tmp_path):
    found = rollout(
        tmp_path, said("user", "Go"), call("c", "exec_command", cmd=f"apply_patch <<'EOF'\n{PATCH}\nEOF\nmake")
    )
    assert agents(found)[0].calls[0].kind == "shell"


# -- code mode ---------------------------------------------------------------------------------------------------


def code(
    folder: Path,
    script: str,
    *parts: str,
    done: str = "Script completed\nWall time 0.1 seconds\nOutput:\n",
    events: tuple = (),
):
    made = item("custom_tool_call", call_id="c", name="exec", input=script)
    texts = [{"type": "input_text", "text": t} for t in (done, *parts)]
    found = rollout(
        folder, said("user", "Go"), made, *events, item("custom_tool_call_output", call_id="c", output=texts)
    )
    step = agents(found)[0]
    return [(c.command, step.results.get(c.id)) for c in step.calls[1:]]


def printed(text: str, status: int) -> str:
    return json.dumps({"chunk_id": "a", "wall_time_seconds": 0.5, "exit_code": status, "output": text})


@pytest.mark.parametrize(
    "script",
    [
        "const a = await tools.exec_command({cmd: \"ls\"}); const b = await tools.exec_command({cmd: 'make'}); text(a); text(b);",
        'text(await tools.exec_command({cmd: "ls"}));\ntext(await tools.exec_command({"cmd": `make`, yield_time_ms: 1_000}));',
        'const [a, b] = await Promise.all([tools.exec_command({cmd:"ls"}), tools.exec_command({cmd:"make"})]); text(a); text(b)',
        '// if (x) { run }\nlet a = await tools.exec_command({cmd: "ls"}); text(a); let b = await tools.exec_command({cmd: "make",}); text(b);',
    ],
)
def test_straight_script_is_unfolded(tmp_path, script):
    (first, one_), (second, two) = code(tmp_path, script, printed("a.py\n", 0), printed("bad\n", 2))
    assert (first, one_.exit_code, one_.output, one_.failed) == ("ls", 0, "a.py\n", False)
    assert (second, two.exit_code, two.output, two.failed, two.seconds) == ("make", 2, "bad\n", True, 0.5)


def test_namespace_of_the_tool(tmp_path):
    made = item(
        "custom_tool_call", call_id="c", name="functions.exec", input='text(await tools.exec_command({cmd: "ls"}))'
    )
    done = item("custom_tool_call_output", call_id="c", output=[{"type": "input_text", "text": printed("x", 1)}])
    (step,) = agents(rollout(tmp_path, said("user", "Go"), made, done))
    assert [c.command for c in step.calls] == [None, "ls"] and step.results[step.calls[1].id].failed is True


def test_results_go_by_what_is_printed_not_by_order(tmp_path):
    script = 'const a = await tools.exec_command({cmd: "ls"}); const b = await tools.exec_command({cmd: "make"}); text(b); text(a.output);'
    (_, one_), (_, two) = code(tmp_path, script, printed("bad", 2), "a.py")
    assert (one_.output, one_.exit_code, one_.failed) == ("a.py", None, None)
    assert (two.output, two.exit_code) == ("bad", 2)


def test_result_that_is_not_printed_is_unknown(tmp_path):
    script = 'const a = await tools.exec_command({cmd: "ls"}); text("done");'
    assert code(tmp_path, script, "done") == [("ls", None)]
    script = 'const a = await tools.exec_command({cmd: "ls"}); text(a);'
    assert code(tmp_path, script, printed("x", 0), "a second part") == [("ls", None)]


@pytest.mark.parametrize(
    "script",
    [
        'if (ok) { await tools.exec_command({cmd: "rm -rf x"}); }',
        'for (const f of files) await tools.exec_command({cmd: "rm " + f});',
        'const r = ok && await tools.exec_command({cmd: "ls"});',
        'const run = c => tools.exec_command({cmd: c}); await run("ls");',
        'await tools.exec_command({cmd: "ls " + name});',
        "await tools.exec_command({cmd: `ls ${name}`});",
        "await tools.exec_command(options);",
        'const t = tools; await t.exec_command({cmd: "ls"}); await tools.exec_command({cmd: "ls"});',
        'await tools.exec_command({cmd: "ls}); text(1)',
        'try { await tools.exec_command({cmd: "ls"}); } catch (e) {}',
    ],
)
def test_script_that_depends_on_what_it_sees_is_unknown(tmp_path, script):
    assert code(tmp_path, script, printed("x", 0)) == []


def test_script_that_failed_or_goes_on_is_unknown(tmp_path):
    script = 'await tools.exec_command({cmd: "ls"}); await tools.exec_command({cmd: "make"});'
    assert code(tmp_path, script, "Error: x", done="Script failed\nWall time 0.1 seconds\nOutput:\n") == []
    assert code(tmp_path, script, done="Script running with cell ID 7\nWall time 10.0 seconds\nOutput:\n") == []


def test_nested_call_that_a_hook_refused(tmp_path):
    words = "Error: Command blocked by PreToolUse hook: copy first. Command: rm x"
    ((command, result),) = code(
        tmp_path,
        'await tools.exec_command({cmd: "rm x"});',
        words,
        done="Script failed\nWall time 0.1 seconds\nOutput:\n",
    )
    assert command == "rm x" and (result.fault, result.failed) == ("refused", None)


def test_recorded_commands_win_over_the_text(tmp_path):
    """Newer versions record each nested command: then even a loop is known."""

    def ended(id: str, command: str, status: int) -> tuple[str, dict]:
        done = {"type": "CommandExecution", "id": id, "command": ["/bin/bash", "-lc", command], "cwd": "file:///w"}
        return event(
            "item_completed", item={**done, "exit_code": status, "aggregated_output": "x", "status": "completed"}
        )

    script = "for (const f of files) await tools.exec_command({cmd: `rm ${f}`});"
    found = code(tmp_path, script, events=(ended("exec-1", "rm a", 0), ended("exec-2", "rm b", 1)))
    assert [(c, r.exit_code, r.failed) for c, r in found] == [("rm a", 0, False), ("rm b", 1, True)]


def test_recorded_commands_of_a_script_that_was_broken_off(tmp_path):
    def ended(id: str, command: str, status: int, outcome: str) -> tuple[str, dict]:
        done = {"type": "CommandExecution", "id": id, "command": ["bash", "-lc", command], "status": outcome}
        return event("item_completed", item={**done, "exit_code": status, "aggregated_output": ""})

    given = (
        ended("e1", "cat a", 0, "completed"),
        ended("e2", "rm b", -1, "declined"),
        ended("e3", "sleep 90", -1, "failed"),
    )
    found = code(tmp_path, "await x()", done="aborted by user after 5.0s", events=given)
    assert [(c, r.exit_code, r.failed, r.fault) for c, r in found] == [
        ("cat a", 0, False, None),
        ("rm b", None, None, "refused"),
        ("sleep 90", None, None, "interrupted"),
    ]


def test_script_that_goes_on_and_is_waited_for(tmp_path):
    script = 'const a = await tools.exec_command({cmd: "make"}); text(a);'
    found = rollout(
        tmp_path,
        said("user", "Go"),
        item("custom_tool_call", call_id="c", name="exec", input=script),
        item(
            "custom_tool_call_output",
            call_id="c",
            output="Script running with cell ID 7\nWall time 10 seconds\nOutput:\n",
        ),
        call("w", "wait", cell_id="7"),
        output(
            "w",
            [
                {"type": "input_text", "text": t}
                for t in ("Script completed\nWall time 1 seconds\nOutput:\n", printed("x", 2))
            ],
        ),
    )
    first, second = agents(found)
    assert first.results["c"].running and len(first.calls) == 1
    assert second.extra["continues"] == {"w": "c"}
    assert [c.command for c in second.calls] == [None, "make"]
    assert second.results[second.calls[1].id].exit_code == 2


@pytest.mark.parametrize(
    "script", ["", "}", "tools.", "tools.exec_command(", "/*", "'", "`${", 'tools.x({"a":', "tools.x([1,2", "\\", "/x/"]
)
def test_any_text_may_be_a_script(script):
    found = script_of(script)
    assert found is None or found.calls == []


def test_escapes_in_a_script():
    found = script_of(
        r'await tools.exec_command({cmd: "a\n\"b\" \u0041 \x42 \u{43} \ud83d\ude00 \\n", n: -1.5, t: true, z: null})'
    )
    assert found is not None
    assert found.calls[0].argument == {"cmd": 'a\n"b" A B C \U0001f600 \\n', "n": -1.5, "t": True, "z": None}


# -- codex exec --json -------------------------------------------------------------------------------------------


def test_exec_json_of_a_recorded_run():
    found = one(DATA / "0.171.0.exec_json_stdout.jsonl")
    assert (found.format, found.agent, found.id[:8]) == ("codex-exec", "codex", "01a22d59")
    # warnings of the program come as items of type error: none of them is the agent's
    assert [s.source for s in found.steps] == ["system"] * 4 + ["agent"] * 2
    shell, result = found.steps[4].calls[0], found.steps[4].results["item_4"]
    assert (shell.command, result.exit_code, result.failed, result.output) == ("echo hello; exit 3", 3, True, "hello\n")
    assert found.steps[5].metrics == {"prompt_tokens": 20, "cached_tokens": 0, "completion_tokens": 10}
    assert [type(e).__name__ for e in events(found)] == ["Before", "After", "Stop"]


def exec_json(folder: Path, *records: dict) -> list[Trajectory]:
    path = folder / "stdout.txt"
    path.write_text("Reading prompt from stdin...\n" + "".join(json.dumps(r) + "\n" for r in records))
    assert reader_of(Source(path)).FORMAT == "codex-exec"
    return list(read(path))


def done(id: str, kind: str, **fields: Any) -> dict:
    return {"type": "item.completed", "item": {"id": id, "type": kind, **fields}}


def test_exec_json_items(tmp_path):
    changes = [{"path": "/w/a.py", "kind": "update"}, {"path": "/w/b.py", "kind": "add"}]
    command = {"command": "/bin/bash -lc 'rm -rf x'", "aggregated_output": "", "exit_code": None}
    (found,) = exec_json(
        tmp_path,
        {"type": "thread.started", "thread_id": "t1"},
        {"type": "turn.started"},
        done("0", "reasoning", text="Hm."),
        done("1", "agent_message", text="I edit."),
        done("2", "file_change", changes=changes, status="completed"),
        done("3", "command_execution", **command, status="declined"),
        {
            "type": "item.started",
            "item": {"id": "4", "type": "command_execution", "command": "sleep 9", "status": "in_progress"},
        },
        {"type": "turn.failed", "error": {"message": "stream disconnected"}},
    )
    edit = found.steps[0]
    assert (edit.reasoning, edit.message, edit.calls[0].kind, edit.calls[0].paths) == (
        "Hm.",
        "I edit.",
        "edit",
        ("/w/a.py", "/w/b.py"),
    )
    assert edit.results["2"].failed is False
    assert found.steps[1].calls[0].command == "rm -rf x" and found.steps[1].results["3"].fault == "refused"
    assert found.steps[2].calls[0].command == "sleep 9" and not found.steps[2].results
    assert found.steps[3].source == "system" and not [e for e in events(found) if isinstance(e, Stop)]


def test_exec_json_of_two_runs_in_one_file(tmp_path):
    runs = [
        r
        for n in ("a", "b")
        for r in (
            {"type": "thread.started", "thread_id": n},
            done("0", "agent_message", text=n),
            {"type": "turn.completed"},
        )
    ]
    assert [(t.id, t.steps[0].message, t.steps[0].stop) for t in exec_json(tmp_path, *runs)] == [
        ("a", "a", True),
        ("b", "b", True),
    ]
