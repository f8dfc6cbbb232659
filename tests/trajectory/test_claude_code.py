"""Claude Code's sessions: every quirk that recorded files show."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from misstep.trajectory import After, Before, Compact, Interrupt, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, Unreadable, read, reader_of

DATA = Path(__file__).parent / "data" / "claude"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


class Session:
    """Writes a session's records, with the ids in place."""

    def __init__(self, **common: Any) -> None:
        self.records: list[dict] = []
        self.common = {"isSidechain": False, "sessionId": "s1", "cwd": "/work", "version": "2.1.30", **common}

    def add(self, kind: str, **record: Any) -> "Session":
        number = len(self.records)
        given = {"type": kind, "uuid": f"u{number}", "timestamp": f"2026-02-03T04:05:{number % 60:02}.000Z"}
        self.records.append({**self.common, **given, **record})
        return self

    def user(self, content: Any, **record: Any) -> "Session":
        return self.add("user", message={"role": "user", "content": content}, **record)

    def agent(self, *blocks: dict, id: str | None = None, **record: Any) -> "Session":
        message = {"id": id or f"m{len(self.records)}", "role": "assistant", "model": "claude-x", "content": [*blocks]}
        message.update(record.pop("message", {}))
        return self.add("assistant", message=message, **record)

    def result(self, id: str, content: Any, error: bool | None = None, detail: Any = None) -> "Session":
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        if error is not None:
            block["is_error"] = error
        return self.user([block], **({} if detail is None else {"toolUseResult": detail}))

    def read(self, folder: Path) -> Trajectory:
        return one(self.write(folder))

    def write(self, folder: Path, name: str = "session.jsonl") -> Path:
        path = folder / name
        path.write_text("".join(json.dumps(r) + "\n" for r in self.records))
        return path


def text(words: str) -> dict:
    return {"type": "text", "text": words}


def use(id: str, name: str = "Bash", **given: Any) -> dict:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def ran(folder: Path, content: Any, error: bool | None = None, detail: Any = None, name: str = "Bash", **given: Any):
    """The result of one call."""
    given = given or {"command": "make"}
    session = Session().user("Go on").agent(use("t", name, **given)).result("t", content, error, detail)
    return session.read(folder).steps[1].results["t"]


# -- steps -------------------------------------------------------------------------------------------------------


def test_one_message_over_several_lines_is_one_step(tmp_path):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5}
    session = Session().user("Go")
    session.agent({"type": "thinking", "thinking": "Hm."}, id="m", message={"usage": {**usage, "output_tokens": 1}})
    session.agent(text("I look."), id="m", message={"usage": {**usage, "output_tokens": 1}})
    session.agent(use("a", command="ls"), id="m", message={"usage": {**usage, "output_tokens": 7}})
    session.result("a", "x")
    session.agent(use("b", command="pwd"), id="m", message={"usage": {**usage, "output_tokens": 7}})
    session.result("b", "/work")
    found = session.read(tmp_path)
    assert [s.source for s in found.steps] == ["user", "agent"]
    step = found.steps[1]
    assert (step.reasoning, step.message, [c.command for c in step.calls]) == ("Hm.", "I look.", ["ls", "pwd"])
    assert [step.results[c.id].output for c in step.calls] == ["x", "/work"]
    assert step.metrics == {"prompt_tokens": 115, "cached_tokens": 100, "completion_tokens": 7}
    assert step.id == "u1" and step.time == 1770091501.0
    assert found.model == "claude-x" and found.cwd == "/work" and found.agent_version == "2.1.30"


def test_parallel_calls_are_matched_by_id(tmp_path):
    session = Session().user("Go").agent(use("a", command="sleep 1"), id="m").agent(use("b", command="ls"), id="m")
    session.result("b", "Exit code 2\nls: no", True).result("a", "", False)
    step = session.read(tmp_path).steps[1]
    assert (step.results["a"].exit_code, step.results["b"].exit_code) == (0, 2)
    kinds = [type(e).__name__ for e in events(session.read(tmp_path))]
    assert kinds == ["Prompt", "Before", "After", "Before", "After"]


def test_result_before_its_call(tmp_path):
    session = Session().user("Go").agent(text("Now."), id="m").result("a", "Exit code 1\n", True)
    session.agent(use("a", command="df"), id="m")
    found = session.read(tmp_path)
    assert found.steps[1].results["a"].exit_code == 1 and not found.skipped


def test_reused_id_belongs_to_the_last_call(tmp_path):
    session = Session().user("Go").agent(use("a", command="ls")).result("a", "x").agent(use("a", command="pwd"))
    found = session.read(tmp_path)
    assert found.steps[1].results["a"].output == "x" and not found.steps[2].results


def test_call_without_result_and_result_without_call(tmp_path):
    found = Session().user("Go").agent(use("a", command="ls")).result("other", "x").read(tmp_path)
    assert not found.steps[1].results and found.skipped == {"result without a call": 1}


def test_duplicate_records_are_read_once(tmp_path):
    session = Session().user("Go").agent(use("a", command="ls"))
    session.records.append({**session.records[0], "message": {"role": "user", "content": "Other"}})
    found = session.read(tmp_path)
    assert [s.message for s in found.steps if s.source == "user"] == ["Go"]
    assert found.skipped == {"duplicate record": 1}


def test_lines_that_are_no_conversation(tmp_path):
    session = Session()
    session.add("file-history-snapshot", messageId="x", snapshot={})
    session.add("queue-operation", operation="enqueue", content="Go")
    session.add("progress", data={"type": "bash_progress", "output": "x", "message": {"type": "user"}})
    session.add("progress", data={"type": "hook_progress"})
    session.user("Go").add("summary", summary="x", leafUuid="y").add("pr-link", url="x")
    session.add("api-request-shape", shape={}).add("future-widget-event", x=1).agent(
        {"type": "future_gadget"}, text("Done.")
    )
    found = session.read(tmp_path)
    assert [s.message for s in found.steps] == ["Go", "Done."]
    assert found.skipped == {"unknown record: future-widget-event": 1, "unknown block: future_gadget": 1}


def test_tool_input_that_looks_like_a_progress_line(tmp_path):
    """Lines are passed over by their bytes: a call with such an argument is none of them."""
    record = {"message": {"role": "assistant", "id": "m", "content": [use("a", "Task", type="progress")]}}
    record.update(type="assistant", sessionId="s1", isSidechain=False, uuid="u9")
    path = Session().user("Go").write(tmp_path)
    with path.open("a") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")
    assert one(path).steps[1].calls[0].arguments == {"type": "progress"}


# -- results -----------------------------------------------------------------------------------------------------


def test_exit_status_of_a_recorded_run():
    found = one(DATA / "2.1.332.fail_then_ok.jsonl")
    calls = [(c.command, s.results[c.id]) for s in found.steps for c in s.calls]
    assert [(c, r.exit_code, r.failed, r.output) for c, r in calls] == [
        ("echo hello; exit 3", 3, True, "hello"),
        ("echo ok", 0, False, "ok"),
    ]
    assert [s.message for s in found.steps if s.prompt] == ["Please do the task"]


@pytest.mark.parametrize("code", [1, 2, 127, 128, 129])
def test_failure_is_told_by_its_text(tmp_path, code):
    detail = f"Error: Exit code {code}\nout"
    result = ran(tmp_path, f"Exit code {code}\nout", True, detail)
    assert (result.exit_code, result.failed, result.fault, result.output) == (code, True, None, "out")


def test_success_has_no_code(tmp_path):
    result = ran(tmp_path, "Exit code 3 is what it prints", False, {"stdout": "", "interrupted": False})
    assert (result.exit_code, result.failed, result.fault) == (0, False, None)
    assert ran(tmp_path, "", None).exit_code == 0


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [("No matches found", (1, False)), ("Files differ", (1, False)), ("New words", (None, None))],
)
def test_exit_code_that_is_no_failure(tmp_path, meaning, expected):
    detail = {"stdout": "", "stderr": "", "interrupted": False, "returnCodeInterpretation": meaning}
    result = ran(tmp_path, "", False, detail, command="grep -r x .")
    assert (result.exit_code, result.failed) == expected and result.fault is None


@pytest.mark.parametrize(
    "words",
    [
        "File has not been read yet. Read it first before writing to it.",
        "String to replace not found in file.\nString: x",
        "Found 3 matches of the string to replace, but replace_all is false.",
        "File does not exist.",
        "Error: No such tool available: Foo",
    ],
)
def test_malformed_call(tmp_path, words):
    given = {"file_path": "/work/a.py", "old_string": "a", "new_string": "b"}
    result = ran(tmp_path, f"<tool_use_error>{words}</tool_use_error>", True, f"Error: {words}", "Edit", **given)
    assert (result.failed, result.fault, result.exit_code) == (True, "malformed", None)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("The user doesn't want to proceed with this tool use. The tool use was rejected.", "refused"),
        ("Permission for this tool use was denied. The tool use was rejected.", "refused"),
        ("PreToolUse:Bash hook error: make a copy first", "refused"),
        ("PreToolUse:Bash hook error: [python3 hook.py]: no", "refused"),
        ("The user doesn't want to take this action right now. STOP what you are doing.", "interrupted"),
        ("[Request interrupted by user for tool use]", "interrupted"),
        ("<tool_use_error>Sibling tool call errored</tool_use_error>", "never-ran"),
        ("<tool_use_error>Cancelled: parallel tool call Bash(x) errored</tool_use_error>", "never-ran"),
        ("Exit code 137\n[Request interrupted by user for tool use]\n=== RUN", "interrupted"),
    ],
)
def test_not_the_agents_doing(tmp_path, words, fault):
    result = ran(tmp_path, words, True, f"Error: {words}")
    assert (result.fault, result.failed) == (fault, None)


def test_the_harness_could_not_start_its_own_program(tmp_path):
    words = "ENOENT: no such file or directory, posix_spawn '/opt/agent/rg'"
    assert ran(tmp_path, words, True, name="Grep", pattern="x").fault == "harness"
    assert ran(tmp_path, f"Exit code 1\n{words}", True).fault is None


def test_interrupted_or_timed_out(tmp_path):
    result = ran(tmp_path, "half", False, {"stdout": "half", "stderr": "", "interrupted": True})
    assert (result.fault, result.failed, result.exit_code, result.timed_out) == ("interrupted", None, None, False)
    result = ran(tmp_path, "Exit code 143\nCommand timed out after 2m 0.0s\nx", True)
    assert (result.fault, result.failed, result.exit_code, result.timed_out) == (None, True, 143, True)
    late = {"stdout": "x", "stderr": "Command timed out after 2m", "interrupted": True}
    result = ran(tmp_path, "x\nCommand timed out after 2m", False, late)
    assert (result.fault, result.failed, result.timed_out) == (None, True, True)


def test_denied_by_a_hook_in_a_recorded_run():
    found = one(DATA / "2.1.332.deny.jsonl")
    (result,) = found.steps[1].results.values()
    assert (result.fault, result.failed, result.exit_code) == ("refused", None, None)
    assert result.output.endswith("DENY-REASON make a copy first")


def test_background_and_rewritten_in_a_recorded_run():
    found = one(DATA / "2.1.332.background.jsonl")
    call, result = found.steps[1].calls[0], found.steps[1].results["t1"]
    assert call.background and result.running and (result.exit_code, result.failed) == (None, None)
    assert found.steps[2].calls[0].command == "echo orig"
    assert found.steps[2].extra["rewritten"] == {"t2": {"command": "echo rewritten"}}
    notice = found.steps[4]
    assert notice.message.startswith("<task-notification>") and not notice.prompt
    assert [e.message for e in events(found) if isinstance(e, Stop)] == ["All done.", "All done."]


def test_moved_to_the_background(tmp_path):
    words = "Command running in background with ID: b1. Output is being written to: /tmp/b1.output"
    result = ran(tmp_path, words, False, {"stdout": "", "stderr": "", "interrupted": False, "backgroundTaskId": "b1"})
    assert result.running and result.exit_code is None and result.failed is None


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        ("<persisted-output>\nOutput too large (90KB). Full output saved to: /x/y.txt\n\nPreview", {}),
        ("a\n\n... [1234 characters truncated] ...\n\nb", {}),
        ("a.py\nb.py", {"filenames": [], "truncated": True}),
        ("a:1", {"mode": "content", "appliedLimit": 100}),
    ],
)
def test_output_that_was_cut(tmp_path, words, detail):
    assert ran(tmp_path, words, None, detail, "Grep", pattern="x").truncated
    assert not ran(tmp_path, "the text was truncated by hand", None, None, "Grep", pattern="x").truncated


@pytest.mark.parametrize("detail", [None, "Error: x", [{"type": "text", "text": "x"}], {"stdout": "x"}])
@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("x", "x"),
        ("", ""),
        ([text("a"), text("b")], "a\nb"),
        ([{"type": "image", "source": {"type": "base64", "data": "AA"}}], "[image]"),
        ([{"type": "tool_reference", "tool_name": "x"}], ""),
        (None, ""),
    ],
)
def test_shapes_of_results(tmp_path, content, output, detail):
    assert ran(tmp_path, content, None, detail, "mcp__x__y", a=1).output == output


# -- calls -------------------------------------------------------------------------------------------------------


def call_of(folder: Path, name: str, **given: Any):
    return Session().user("Go").agent(use("t", name, **given)).read(folder).steps[1].calls[0]


def test_kinds_of_tools(tmp_path):
    names = [
        "Bash",
        "Read",
        "Write",
        "Edit",
        "MultiEdit",
        "NotebookEdit",
        "Grep",
        "Glob",
        "LS",
        "Task",
        "TodoWrite",
        "mcp__linear__get_issue",
    ]
    kinds = [call_of(tmp_path, n, command="x", file_path="/a").kind for n in names]
    assert kinds == [
        "shell",
        "read",
        "write",
        "edit",
        "edit",
        "edit",
        "search",
        "search",
        "search",
        "other",
        "other",
        "other",
    ]
    assert call_of(tmp_path, "Bash", cmd="ls").kind == "other"  # no such argument: nothing ran


def test_shell_call(tmp_path):
    call = call_of(tmp_path, "Bash", command="make -j", timeout=90000, run_in_background=True)
    assert (call.command, call.timeout, call.background, call.cwd) == ("make -j", 90.0, True, "/work")


def test_edits(tmp_path):
    edit = call_of(tmp_path, "Edit", file_path="/a", old_string="x", new_string="y")
    assert (edit.paths, edit.edits) == (("/a",), (("/a", "x", "y"),))
    several = [{"old_string": "x", "new_string": "y"}, {"old_string": "p", "new_string": "q"}, {"bad": 1}]
    edit = call_of(tmp_path, "MultiEdit", file_path="/a", edits=several)
    assert edit.edits == (("/a", "x", "y"), ("/a", "p", "q"))
    assert call_of(tmp_path, "Write", file_path="/a", content="new").edits == (("/a", "", "new"),)
    cell = call_of(tmp_path, "NotebookEdit", notebook_path="/n.ipynb", new_source="1 + 1")
    assert (cell.paths, cell.edits) == (("/n.ipynb",), (("/n.ipynb", "", "1 + 1"),))


def test_redacted_path_is_no_identity(tmp_path):
    call = call_of(tmp_path, "Edit", file_path="/Users/x/.REDACTED.txt", old_string="x", new_string="y")
    assert call.paths == () and call.edits == () and call.arguments["file_path"] == "/Users/x/.REDACTED.txt"


# -- who speaks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "record"),
    [
        ("<command-name>/exit</command-name>\n<command-message>exit</command-message>", {}),
        ("<command-message>pr</command-message>\n<command-name>/pr</command-name>", {}),
        ("<local-command-stdout>Bye!</local-command-stdout>", {}),
        ("<local-command-caveat>Caveat: The messages below were generated", {"isMeta": True}),
        ("Caveat: The messages below were generated by the user while running local commands.", {}),
        ("<bash-input>git pull</bash-input>", {}),
        ("<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>", {}),
        ("<system-reminder>\nToday is Monday.\n</system-reminder>", {}),
        ("Stop hook feedback:\nrun the tests", {"isMeta": True}),
        ("Stop hook feedback:\nrun the tests", {}),
        ("<task-notification>\n<status>failed</status></task-notification>", {"promptSource": "system"}),
        ("Anything", {"origin": {"kind": "task-notification"}}),
        ("Base directory for this skill: /x", {"isMeta": True}),
        ([text("Base directory for this skill: /x")], {"isMeta": True}),
        ("This session is being continued from a previous conversation", {"isCompactSummary": True}),
    ],
)
def test_texts_of_the_harness_are_no_prompts(tmp_path, content, record):
    session = Session().user(content, **record).user("A real one")
    found = session.read(tmp_path)
    assert [s.prompt for s in found.steps] == [False, True]
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["A real one"]


def test_reminders_are_cut_out_of_a_prompt(tmp_path):
    reminder = "<system-reminder>\nBe brief.\n</system-reminder>"
    found = Session().user([text(f"{reminder}\nFix it\n{reminder}"), {"type": "image"}]).read(tmp_path)
    assert found.steps[0].message == "Fix it\n[image]"
    opened = "<ide_opened_file>The user opened a.py</ide_opened_file>"
    found = Session().user([text(opened), text("Fix it")]).read(tmp_path)
    assert found.steps[0].message == "Fix it" and found.steps[0].prompt


def test_prompt_that_only_speaks_of_tags_is_one(tmp_path):
    found = Session().user("Why does <command-name> appear in my log?").read(tmp_path)
    assert found.steps[0].prompt


def test_what_is_typed_while_the_agent_works(tmp_path):
    session = Session().user("Go").agent(use("a", command="make"))
    session.add("attachment", attachment={"type": "queued_command", "prompt": "use ninja", "commandMode": "prompt"})
    note = {"type": "queued_command", "prompt": "<task-notification>x", "commandMode": "task-notification"}
    session.add("attachment", attachment=note)
    assert [s.message for s in session.read(tmp_path).steps if s.prompt] == ["Go", "use ninja"]


def test_hook_contexts_in_a_recorded_run_are_no_prompts():
    found = one(DATA / "2.1.332.contexts.jsonl")
    assert [s.message for s in found.steps if s.source == "user"] == ["Please do the task"]


@pytest.mark.parametrize("words", ["[Request interrupted by user]", "[Request interrupted by user for tool use]"])
@pytest.mark.parametrize("as_blocks", [True, False])
def test_interruption(tmp_path, words, as_blocks):
    session = Session().user("Go").agent(text("I am about to")).user([text(words)] if as_blocks else words)
    found = session.read(tmp_path)
    assert found.steps[2].interrupted and not found.steps[2].prompt
    kinds = [type(e) for e in events(found)]
    assert kinds.count(Interrupt) == 1 and Stop not in kinds


def test_api_errors_and_synthetic_answers_are_the_harness(tmp_path):
    session = Session().user("Go").agent(text("Let me see"))
    session.add("system", subtype="api_error", error={"message": "Overloaded"}, level="error")
    session.agent(text("API Error: 500"), message={"model": "<synthetic>"}, isApiErrorMessage=True)
    session.agent(text("No response requested."), message={"model": "<synthetic>"})
    found = session.read(tmp_path)
    assert [s.source for s in found.steps] == ["user", "agent", "system", "system", "system"]
    assert found.model == "claude-x" and found.steps[2].message == "Overloaded"
    assert not [e for e in events(found) if isinstance(e, Stop)]


def test_compaction(tmp_path):
    session = Session().user("Go").agent(use("a", command="ls")).result("a", "x")
    session.add("system", subtype="compact_boundary", content="Conversation compacted", parentUuid=None)
    session.user("This session is being continued from a previous conversation", isCompactSummary=True)
    session.agent(use("b", command="ls")).add("system", subtype="microcompact_boundary", content="Context")
    found = session.read(tmp_path)
    assert [e.step for e in events(found) if isinstance(e, Compact)] == [2, 5]
    assert [s.message for s in found.steps if s.prompt] == ["Go"]


def test_compaction_without_a_boundary(tmp_path):
    session = Session().user("Go").user("A summary", isCompactSummary=True).user("Go on")
    assert [type(e) for e in events(session.read(tmp_path))] == [Prompt, Compact, Prompt]


# -- stops -------------------------------------------------------------------------------------------------------


def test_stop_that_a_hook_refused_in_a_recorded_run():
    found = one(DATA / "2.1.332.stop_block.jsonl")
    assert [type(e).__name__ for e in events(found)] == ["Prompt", "Stop", "Stop"]
    assert not found.steps[2].prompt and found.steps[2].message.startswith("Stop hook feedback:")


@pytest.mark.parametrize("end", ["stop_hook_summary", "turn_duration"])
def test_turn_ends(tmp_path, end):
    session = Session().user("Go").agent(text("Done.")).add("system", subtype=end).user("<command-name>/x", isMeta=True)
    assert session.read(tmp_path).steps[1].stop is True
    session = Session().user("Go").agent(text("Run"), use("a", command="x")).add("system", subtype=end)
    assert session.read(tmp_path).steps[1].stop is False


def test_local_command_after_the_last_message(tmp_path):
    session = Session().user("Go").agent(text("Done.")).user("<command-name>/exit</command-name>")
    assert [e.message for e in events(session.read(tmp_path)) if isinstance(e, Stop)] == ["Done."]


def test_message_cut_off_by_its_length_is_no_stop(tmp_path):
    session = Session().user("Go").agent(text("And so"), message={"stop_reason": "max_tokens"})
    assert not [e for e in events(session.read(tmp_path)) if isinstance(e, Stop)]


def test_blank_message_is_none(tmp_path):
    session = Session().user("Go").agent(text("\n\n"), message={"stop_reason": None})
    assert not [e for e in events(session.read(tmp_path)) if isinstance(e, Stop)]


def test_message_at_the_damaged_end_of_a_file_is_no_stop(tmp_path):
    path = Session().user("Go").agent(text("I run it")).write(tmp_path)
    assert [type(e) for e in events(one(path))] == [Prompt, Stop]
    with path.open("a") as file:
        file.write('{"type": "assistant", "message": {"id": "m1", "content": [{"type": "tool_')
    assert Stop not in [type(e) for e in events(one(path))]


# -- sub-agents, streams, forks ----------------------------------------------------------------------------------


def progress(session: Session, agent: str, kind: str, message: dict, uuid: str) -> None:
    data = {"type": "agent_progress", "agentId": agent, "message": {"type": kind, "message": message, "uuid": uuid}}
    session.add("progress", parentToolUseID="t", data=data)


def test_sub_agents_in_progress_lines(tmp_path):
    session = Session().user("Go").agent(use("t", "Task", prompt="Look"))
    progress(session, "a1", "user", {"role": "user", "content": [text("Look around")]}, "p1")
    progress(session, "a1", "assistant", {"id": "k", "role": "assistant", "content": [use("x", command="ls")]}, "p2")
    progress(session, "a2", "user", {"role": "user", "content": [text("Count")]}, "p3")
    result = [{"type": "tool_result", "tool_use_id": "x", "content": "a.py"}]
    progress(session, "a1", "user", {"role": "user", "content": result}, "p4")
    session.result("t", "Found a.py")
    main, first, second = read(session.write(tmp_path))
    assert (main.id, main.parent, len(main.steps)) == ("s1", "", 2)
    assert (first.id, first.parent, second.id) == ("s1/a1", "s1", "s1/a2")
    assert [s.id for s in first.steps] == ["p1", "p2"] and first.steps[0].prompt
    assert first.steps[1].results["x"].output == "a.py" and first.steps[1].calls[0].cwd == "/work"


def test_sub_agent_in_a_file_of_its_own(tmp_path):
    session = Session(isSidechain=True, agentId="a1").user("Look around").agent(text("Nothing."))
    found = session.read(tmp_path)
    assert (found.id, found.parent) == ("s1/a1", "s1")
    assert [type(e) for e in events(found)] == [Prompt, Stop]


def test_side_chains_within_an_old_session(tmp_path):
    session = Session().user("Go").agent(use("t", "Task", prompt="x"))
    session.user("Look", isSidechain=True, parentUuid=None).agent(text("One."), isSidechain=True, parentUuid="u2")
    session.user("Count", isSidechain=True, parentUuid=None).agent(text("Two."), isSidechain=True, parentUuid="u4")
    session.user("More", isSidechain=True, parentUuid="u3")
    main, first, second = read(session.write(tmp_path))
    assert [s.message for s in first.steps] == ["Look", "One.", "More"]
    assert [s.message for s in second.steps] == ["Count", "Two."]
    assert first.parent == second.parent == main.id


def test_stream_json(tmp_path):
    common = {"session_id": "s9"}
    answer = {"id": "m", "role": "assistant", "model": "claude-x", "content": [use("t", command="ls")]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    last = {"id": "n", "role": "assistant", "model": "claude-x", "content": [text("Done.")], "stop_reason": None}
    inner = {"id": "k", "role": "assistant", "model": "claude-x", "content": [text("Inner.")]}
    session = Session()
    session.records = [
        {
            "type": "system",
            "subtype": "init",
            "cwd": "/w",
            "claude_code_version": "2.1.9",
            "model": "claude-x",
            **common,
        },
        {"type": "assistant", "message": answer, "parent_tool_use_id": None, "uuid": "1", **common},
        {"type": "assistant", "message": inner, "parent_tool_use_id": "t0", "uuid": "2", **common},
        {"type": "user", "message": result, "parent_tool_use_id": None, "uuid": "3", **common},
        {"type": "stream_event", "event": {}, "uuid": "4", **common},
        {"type": "assistant", "message": last, "parent_tool_use_id": None, "uuid": "5", **common},
        {"type": "result", "subtype": "success", "num_turns": 2, "total_cost_usd": 0.25, "is_error": False, **common},
    ]
    main, sub = read(session.write(tmp_path))
    assert (main.id, main.cwd, main.agent_version, main.extra["cost_usd"]) == ("s9", "/w", "2.1.9", 0.25)
    assert main.steps[0].results["t"].exit_code == 0 and main.steps[-1].stop is True and not main.skipped
    assert sub.parent == "s9" and [s.message for s in sub.steps] == ["Inner."]
    whole = tmp_path / "array.json"
    whole.write_text(json.dumps(session.records, indent=1))
    assert [len(t.steps) for t in read(whole)] == [2, 1]


def test_a_prompt_that_was_edited_keeps_both_branches(tmp_path):
    session = Session().user("First").agent(text("Answer.")).user("Old", parentUuid="u1").user("New", parentUuid="u1")
    assert [e.text for e in events(session.read(tmp_path)) if isinstance(e, Prompt)] == ["First", "Old", "New"]


def test_copies_of_a_resumed_session_have_the_same_ids(tmp_path):
    session = Session().user("First").agent(text("Answer.")).user("Second")
    long = one(session.write(tmp_path, "long.jsonl"))
    session.records = session.records[:2]
    short = one(session.write(tmp_path, "short.jsonl"))
    assert [s.id for s in long.steps][: len(short.steps)] == [s.id for s in short.steps]


# -- the corpus --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sessions(shared: Path) -> dict[Path, list[Trajectory]]:
    found: dict[Path, list[Trajectory]] = {}
    for path in sorted((shared / "corpus" / "claude-code" / "entireio-cli").glob("*/full.jsonl")):
        found[path] = list(read(path))
    return found


@pytest.mark.corpus
def test_recorded_sessions(sessions):
    everything = [t for found in sessions.values() for t in found]
    assert len(sessions) == 24 and {t.format for t in everything} == {"claude-code"}
    steps = [s for t in everything for s in t.steps]
    agents = [s for s in steps if s.source == "agent"]
    calls = [c for s in agents for c in s.calls]
    assert Counter(c.tool for c in calls)["Bash"] > 250
    faults = Counter(r.fault for s in agents for r in s.results.values())
    assert faults["refused"] >= 10 and faults["malformed"] >= 15 and faults["interrupted"] >= 2
    # every call but those under way at the end, or in a sub-agent whose lines stop early, has its result
    waiting = [c for s in agents for c in s.calls if c.id not in s.results]
    assert len(waiting) < 15
    shells = [(c, s.results[c.id]) for s in agents for c in s.calls if c.kind == "shell" and c.id in s.results]
    assert all(r.exit_code is not None or r.fault or r.running for c, r in shells)
    assert sum(len(t.steps) > 0 and t.parent != "" for t in everything) == 2


@pytest.mark.corpus
def test_label_that_lies(shared):
    folder = shared / "corpus" / "claude-code" / "entireio-cli" / "c0-70516b3fa9-0-mislabelled-gemini"
    assert json.loads((folder / "metadata.json").read_text())["agent"] == "Gemini CLI"
    assert reader_of(Source(folder / "full.jsonl")).FORMAT == "claude-code"


@pytest.mark.corpus
def test_no_prompt_of_the_corpus_is_the_harness(sessions):
    prompts = [s.message for found in sessions.values() for t in found for s in t.steps if s.prompt]
    assert len(prompts) > 80
    assert not [p for p in prompts if p.startswith(("<", "Caveat", "[Request", "Stop hook", "This session is being"))]


@pytest.mark.corpus
def test_the_sum_of_tokens_counts_each_message_once(shared, sessions):
    for path, found in list(sessions.items())[:8]:
        usage: dict[str, int] = {}
        for line in path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("type") == "assistant" and record["message"].get("model") != "<synthetic>":
                message = record["message"]
                usage[message["id"]] = max(usage.get(message["id"], 0), message["usage"]["output_tokens"])
        mine = sum(s.metrics.get("completion_tokens", 0) for s in found[0].steps)
        assert mine == sum(usage.values())


@pytest.mark.corpus
def test_single_recorded_messages(shared):
    """Files with one record each: a result alone tells nothing, and says so."""
    folder = shared / "corpus" / "claude-code" / "pypi-claude-code-log"
    results = sorted(folder.rglob("*-tool_result*"))
    uses = sorted(folder.rglob("*-tool_use*"))
    assert results and uses
    for path in results:
        with pytest.raises(Unreadable, match="claude-code: result without a call"):
            list(read(path))
    for path in uses:
        (found,) = read(path)
        assert len(found.steps) == 1 and len(found.steps[0].calls) == 1, path


@pytest.mark.corpus
def test_speed(shared):
    """12 MB well under half a second of processor time."""
    import time

    paths = sorted((shared / "corpus" / "claude-code").rglob("*.jsonl"))
    before = time.process_time()
    count = 0
    for path in paths:
        try:
            count += sum(isinstance(e, (Before, After)) for t in read(path) for e in events(t))
        except Unreadable:
            continue
    assert count > 1500
    assert time.process_time() - before < 0.45


def test_a_record_that_begins_in_the_middle_of_a_session_says_so(tmp_path):
    def late(parent: str | None) -> list[bool]:
        session = Session().add("progress", data={"type": "hook_progress"}, parentUuid=parent)
        session.user("Fix it.", parentUuid="u0").agent(text("Fixed."), parentUuid="u1")
        session.user("Again.", parentUuid="u2").agent(text("Fixed."), parentUuid="u3")
        return [e.late for e in events(session.read(tmp_path)) if isinstance(e, Prompt)]

    assert late("a record that this file does not hold") == [True, False]
    assert late(None) == [False, False]


def test_an_empty_output_is_empty(tmp_path):
    session = Session().user("do").agent({"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "true"}})
    found = session.result("c1", "(Bash completed with no output)", False, {"stdout": "", "stderr": ""}).read(tmp_path)
    (result,) = found.steps[-1].results.values()
    assert (result.output, result.exit_code) == ("", 0)
