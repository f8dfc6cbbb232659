"""Gemini CLI: JSON sessions, JSONL sessions with patches, dumps of the API's contents."""

import json
from pathlib import Path
from typing import Any

import pytest

from misstep.trajectory import Compact, Interrupt, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, Unreadable, read, reader_of
from misstep.trajectory.readers._gemini import result_of, shell_result

HEADER = {"sessionId": "g1", "projectHash": "ab", "startTime": "2026-01-02T03:04:05.000Z", "lastUpdated": "x"}


def message(id: str, kind: str, content: Any = "", **more: Any) -> dict:
    return {"id": id, "timestamp": "2026-01-02T03:04:06.500Z", "type": kind, "content": content, **more}


def tool(id: str, name: str, response: dict | None, status: str = "success", **args: Any) -> dict:
    made = {"id": id, "name": name, "args": args, "status": status}
    if response is not None:
        made["result"] = [{"functionResponse": {"id": id, "name": name, "response": response}}]
    return made


def session(folder: Path, *messages: dict) -> Trajectory:
    path = folder / "full.jsonl"  # pretty JSON under that name is what one store writes
    path.write_text(json.dumps({**HEADER, "messages": messages}, indent=2))
    (found,) = read(path)
    return found


def lines(folder: Path, *records: dict) -> Trajectory:
    path = folder / "session-1.json"
    path.write_text("".join(json.dumps(r) + "\n" for r in ({**HEADER, "kind": "main"}, *records)))
    (found,) = read(path)
    return found


def contents(folder: Path, *given: dict, wrapped: bool = False) -> Trajectory:
    path = folder / "dump.json"
    path.write_text(json.dumps({"history": given} if wrapped else given))
    (found,) = read(path)
    return found


def test_document(tmp_path):
    shell = "Command: ls nowhere\nDirectory: (root)\nOutput: ls: nowhere\n\nException\nError: (none)\nExit Code: 2\nSignal: 0\nBackground PIDs: (none)\nProcess Group PGID: 7"
    found = session(
        tmp_path,
        message("1", "user", "Look"),
        message("2", "info", "Gemini CLI update available!"),
        message(
            "3",
            "gemini",
            "I look.",
            model="gemini-2.5-flash",
            thoughts=[{"subject": "Where", "description": "In the root."}],
            tokens={"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 0, "total": 115},
            toolCalls=[
                tool("a", "run_shell_command", {"output": shell}, command="ls nowhere"),
                tool("b", "write_file", {"output": "Successfully created"}, file_path="a.md", content="# A"),
            ],
        ),
        message("4", "gemini", "Done.", model="gemini-2.5-flash"),
    )
    assert (found.format, found.id, found.model) == ("gemini-cli", "g1", "gemini-2.5-flash")
    step = found.steps[2]
    # the status is "success" for a shell command that failed: its text tells
    first, second = step.results["a"], step.results["b"]
    assert (first.exit_code, first.failed, first.output) == (2, True, "ls: nowhere\n\nException")
    assert (second.exit_code, second.failed) == (None, False)
    assert [(c.kind, c.paths) for c in step.calls] == [("shell", ()), ("write", ("a.md",))]
    assert step.calls[1].edits == (("a.md", "", "# A"),) and step.calls[0].command == "ls nowhere"
    assert step.metrics == {"prompt_tokens": 100, "cached_tokens": 40, "completion_tokens": 15}
    assert step.reasoning == "Where: In the root." and step.time == 1767323046.5
    assert [type(e).__name__ for e in events(found)] == ["Prompt", "Say", *["Before", "After"] * 2, "Stop"]


def test_only_a_warning(tmp_path):
    path = tmp_path / "full.jsonl"
    path.write_text(json.dumps({**HEADER, "messages": [message("1", "warning", "Hook(s) failed")]}, indent=2))
    with pytest.raises(Unreadable, match="gemini-cli: no message of a user or a model"):
        list(read(path))


def test_lines_with_patches(tmp_path):
    done = tool("a", "run_shell_command", {"output": "Output: ok\nProcess Group PGID: 42"}, command="make")
    found = lines(
        tmp_path,
        message("1", "user", [{"text": "<session_context>\nx\n</session_context>"}]),
        {"$set": {"lastUpdated": "y"}},
        message("2", "user", [{"text": "Build"}]),
        message("3", "gemini", "", tokens={"input": 9, "output": 1}),
        {"$set": {"lastUpdated": "z", "directories": ["/w"]}},
        message("3", "gemini", "", tokens={"input": 9, "output": 1}, toolCalls=[done]),
        message(
            "4", "user", [{"functionResponse": {"id": "a", "name": "run_shell_command", "response": {"output": "x"}}}]
        ),
        message("5", "gemini", "Built."),
        {"newer": 1},
    )
    assert [(s.source, s.prompt) for s in found.steps] == [
        ("user", False),
        ("user", True),
        ("agent", False),
        ("agent", False),
    ]
    assert found.steps[2].results["a"].exit_code == 0 and found.cwd == "/w"
    assert sum(s.metrics.get("prompt_tokens", 0) for s in found.steps) == 9
    assert found.skipped == {"unknown record: None": 1}


def test_rewind(tmp_path):
    found = lines(
        tmp_path,
        message("1", "user", "One"),
        message("2", "gemini", "Answer."),
        message("3", "user", "Two"),
        message("4", "gemini", "Wrong."),
        {"$rewindTo": "3"},
        {"$rewindTo": "nowhere"},
        message("5", "user", "Three"),
    )
    assert [s.message for s in found.steps] == ["One", "Answer.", "Three"]
    assert found.skipped == {"rewound by the user": 2, "rewind to an unknown message": 1}


def test_patch_of_all_messages(tmp_path):
    found = lines(
        tmp_path,
        message("1", "user", "One"),
        {"$set": {"messages": [message("9", "user", "Nine")]}},
        message("10", "gemini", "."),
    )
    assert [s.id for s in found.steps] == ["9", "10"]


def test_result_that_is_only_in_the_next_message(tmp_path):
    response = {"functionResponse": {"id": "a", "name": "read_file", "response": {"error": "File not found: /x"}}}
    made = tool("a", "read_file", None, "executing", file_path="/x")
    found = lines(
        tmp_path,
        message("1", "user", "Go"),
        message("2", "gemini", "", toolCalls=[made]),
        message("3", "user", [response]),
    )
    result = found.steps[1].results["a"]
    assert (result.output, result.failed, result.fault) == ("File not found: /x", True, "malformed")


def test_all_responses_in_one_calls_result(tmp_path):
    first = tool("a", "update_topic", {"output": "Topic"}, title="x")
    other = tool("b", "run_shell_command", {"output": "Output: x\nExit Code: 3\nProcess Group PGID: 1"}, command="x")
    first["result"] += other.pop("result")
    found = session(tmp_path, message("1", "user", "Go"), message("2", "gemini", "", toolCalls=[first, other]))
    results = found.steps[1].results
    assert (results["a"].output, results["b"].exit_code) == ("Topic", 3)


def test_contents_of_the_api(tmp_path):
    given = [
        {
            "role": "user",
            "parts": [{"text": "This is the Gemini CLI. We are setting up the context for our chat.\nToday is ..."}],
        },
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "Count"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True},
                {"text": "I count."},
                {"functionCall": {"name": "run_shell_command", "args": {"command": "wc -l a"}}},
                {"functionCall": {"name": "run_shell_command", "args": {"command": "wc -l b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "run_shell_command",
                        "response": {"output": "Output: 3\nProcess Group PGID: 1"},
                    }
                },
                {
                    "functionResponse": {
                        "name": "run_shell_command",
                        "response": {"output": "Output: (empty)\nExit Code: 1\nProcess Group PGID: 2"},
                    }
                },
                {"functionResponse": {"name": "gone", "response": {"output": "x"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "<state_snapshot>\nx\n</state_snapshot>"}]},
        {"role": "model", "parts": [{"text": "Three."}]},
    ]
    for wrapped in (False, True):
        found = contents(tmp_path, *given, wrapped=wrapped)
        assert [s.message for s in found.steps if s.prompt] == ["Count"]
        step = found.steps[2]
        assert (step.reasoning, step.message) == ("Hm.", "I count.")
        assert [step.results[c.id].exit_code for c in step.calls] == [0, 1]
        assert [step.results[c.id].output for c in step.calls] == ["3", ""]
        assert [type(e) for e in events(found)].count(Compact) == 1 and found.skipped == {"result without a call": 1}
        assert [e.message for e in events(found) if isinstance(e, Stop)] == ["Three."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Command: x\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 0\nSignal: 0\nProcess Group PGID: 1",
            ("", 0, False),
        ),
        (
            "Output: Exit Code: 0\nwas printed\nExit Code: 3\nProcess Group PGID: 1",
            ("Exit Code: 0\nwas printed", 3, True),
        ),
        ("Output: a\nError: it broke\nExit Code: 1\nProcess Group PGID: 1", ("a\nError: it broke", 1, True)),
        ("Output: a\nProcess Group PGID: 1", ("a", 0, False)),
        ("Output: a\nSignal: 9\nProcess Group PGID: 1", ("a", None, True)),
        ("Output: a", ("Output: a", None, None)),
        (
            "Command: x\nDirectory: (root)\nStdout: a\nStderr: (empty)\nError: (none)\nExit Code: 5\nSignal: (none)",
            ("a", 5, True),
        ),
        ("whatever", ("whatever", None, None)),
    ],
)
def test_shell_texts(text, expected):
    result = shell_result(text)
    assert (result.output, result.exit_code, result.failed) == expected


@pytest.mark.parametrize(
    ("response", "status", "fault", "failed"),
    [
        ({"error": "[Operation Cancelled] Reason: User did not allow tool call"}, "cancelled", "refused", None),
        ({"error": "[Operation Cancelled] Reason: User cancelled the operation."}, "cancelled", "interrupted", None),
        ({"error": "Tool execution denied by policy."}, "error", "refused", None),
        ({"error": "Tool execution blocked: make a copy first"}, "error", "refused", None),
        ({"error": 'Tool "foo" not found in registry.'}, "error", "malformed", True),
        ({"error": "params must have required property 'command'"}, "error", "malformed", True),
        ({"error": "Failed to edit, could not find the string to replace."}, "error", "malformed", True),
        ({"error": "something broke"}, "error", None, True),
        ({"error": {"message": "something broke"}}, "", None, True),
        ({"output": "fine"}, "success", None, False),
        ({"output": "fine"}, "", None, None),
    ],
)
def test_faults(response, status, fault, failed):
    result = result_of(response, "edit", status)
    assert (result.fault, result.failed) == (fault, failed)


def test_shell_that_was_ended():
    moved = result_of({"output": "Command moved to background (PID: 7). Output hidden."}, "shell", "success")
    assert moved.running and moved.failed is None
    late = result_of(
        {"output": "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes"},
        "shell",
        "success",
    )
    assert (late.timed_out, late.failed, late.exit_code) == (True, True, None)
    stopped = result_of({"output": "Command was cancelled by user before it could complete."}, "shell", "success")
    assert (stopped.fault, stopped.failed) == ("interrupted", None)
    assert result_of(
        {"output": "Output: <tool_output_masked>x</tool_output_masked>\nProcess Group PGID: 1"}, "shell", "success"
    ).truncated


def test_interruption_and_compression(tmp_path):
    found = session(
        tmp_path,
        message("1", "user", "Go"),
        message("2", "gemini", "I will"),
        message("3", "info", "Request cancelled."),
        message("4", "user", "System: Please continue."),
        message("5", "info", "Chat history compressed from 90000 to 20000 tokens."),
        message("6", "gemini", "Done."),
    )
    assert [type(e) for e in events(found) if isinstance(e, (Prompt, Interrupt, Compact, Stop))] == [
        Prompt,
        Interrupt,
        Compact,
        Stop,
    ]


@pytest.mark.corpus
def test_recorded_sessions(shared):
    folder = shared / "corpus" / "gemini-cli"
    found = {}
    for path in sorted(folder.rglob("*.json*")):
        if path.name == "metadata.json":
            assert reader_of(Source(path)) is None
        else:
            assert reader_of(Source(path)).FORMAT == "gemini-cli", path
            try:
                (found[path],) = read(path)
            except Unreadable as error:
                assert "no message of a user or a model" in str(error)
    assert len(found) == 9
    steps = [s for t in found.values() for s in t.steps]
    shells = [s.results[c.id] for s in steps for c in s.calls if c.kind == "shell"]
    assert (
        len(shells) > 10 and all(r.exit_code in (0, 1) for r in shells) and sum(r.failed is True for r in shells) == 1
    )
    assert not any(r.output.endswith("PGID: 4242") for r in shells)
    prompts = [s.message for s in steps if s.prompt]
    assert not [p for p in prompts if p.startswith(("<", "System: "))]


def test_a_recorded_session():
    """Version 0.61 marks what a command printed as not to be obeyed."""
    (found,) = read(Path(__file__).parent / "data" / "gemini" / "0.61.0.session.jsonl")
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["Please change the file"]
    assert [e.message for e in events(found) if isinstance(e, Stop)] == ["All done."]
    rows = [(c, s.results[c.id]) for s in found.steps for c in s.calls]
    shell = [(c.command, r.exit_code, r.output) for c, r in rows if c.kind == "shell"]
    assert shell == [
        ("ls; echo hi", 0, "hi"),
        ("sh -c 'echo oops; exit 3'", 3, "oops"),
        ("echo two", 0, "two"),
        ("true", 0, ""),
    ]
    assert [r.failed for _, r in rows] == [False, True, False, False, True, False, False, True, False]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("<untrusted_context>\nfound\n</untrusted_context>", "found"),
        ("<untrusted_context>\na\n&lt;/untrusted_context&gt;\nb\n</untrusted_context>", "a\n</untrusted_context>\nb"),
        ("<untrusted_context>\nhalf", "<untrusted_context>\nhalf"),
        ("x <untrusted_context>\na\n</untrusted_context>", "x <untrusted_context>\na\n</untrusted_context>"),
    ],
)
def test_outputs_that_are_not_to_be_obeyed(text, output):
    assert result_of({"output": text}, "other", "success").output == output
