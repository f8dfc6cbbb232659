"""Copilot CLI event streams and Entire's compact transcripts."""

import json
import shutil
from pathlib import Path

import pytest

from misstep.trajectory import After, Interrupt, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, Unreadable, read, reader_of

DATA = Path(__file__).parent / "data" / "copilot_cli"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def stream(tmp_path: Path, *given: tuple, name: str = "events.jsonl") -> Path:
    """Events from (type, data) pairs, a second apart."""
    head = (
        "session.start",
        {"sessionId": "s-1", "producer": "copilot-agent", "copilotVersion": "1.0", "context": {"cwd": "/w"}},
    )
    path = tmp_path / name
    lines = []
    for at, (kind, data) in enumerate([head, *given]):
        lines.append(
            {"type": kind, "data": data, "id": f"e{at}", "timestamp": f"2026-07-19T23:12:{at:02}Z", "parentId": None}
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def asks(*tools: tuple, text: str = "", **more: object) -> tuple:
    requests = [{"toolCallId": i, "name": n, "arguments": a, "type": "function"} for i, n, a in tools]
    return (
        "assistant.message",
        {"messageId": "m", "content": text, "toolRequests": requests, "outputTokens": 5, **more},
    )


def done(id: str, content: str = "", success: bool = True, **more: object) -> tuple:
    return ("tool.execution_complete", {"toolCallId": id, "success": success, "result": {"content": content}, **more})


def starts(id: str, name: str = "bash", arguments: object = None, **more: object) -> tuple:
    return ("tool.execution_start", {"toolCallId": id, "toolName": name, "arguments": arguments or {}, **more})


PROMPT = ("user.message", {"content": "Do it"})


def test_a_recorded_session():
    found = one(DATA / "real.jsonl")
    assert (found.agent, found.agent_version, found.model) == ("copilot-cli", "1.0.72-1", "gpt-5.6-sol")
    calls = [c for s in found.steps for c in s.calls]
    assert [c.kind for c in calls] == ["shell"] * 4
    results = [e.result for e in events(found) if isinstance(e, After)]
    assert [(r.exit_code, r.failed) for r in results] == [(0, False)] * 4
    assert results[2].output.endswith("fix/windows-test-flakiness") and round(results[1].seconds, 2) == 7.82
    assert [type(e) for e in events(found) if isinstance(e, (Prompt, Stop))] == [Prompt, Stop]


def test_a_failing_command_is_a_success_of_the_tool(tmp_path):
    given = (
        PROMPT,
        asks(("a", "bash", {"command": "false"})),
        starts("a"),
        done("a", "oops\n<shellId: 0 completed with exit code 3>"),
    )
    result = one(stream(tmp_path, *given)).steps[1].results["a"]
    assert (result.exit_code, result.failed, result.output, result.seconds) == (3, True, "oops", 1.0)


@pytest.mark.parametrize(
    ("complete", "expected"),
    [
        (done("a", "x\n<exited with exit code 1>"), (1, True, None, False)),
        (
            done("a", "x\n<command with shellId: 2 is still running after 30 seconds. Use read_bash>"),
            (None, None, None, True),
        ),
        (done("a", "x"), (None, None, None, False)),
        (done("a", "", False, error={"message": "gone", "code": "failure"}), (None, True, None, False)),
        (done("a", "", False, error={"message": "no", "code": "denied"}), (None, None, "refused", False)),
        (done("a", "<shellId: 0 completed with exit code 1>\nmore"), (None, None, None, False)),
    ],
)
def test_results_of_a_shell(tmp_path, complete, expected):
    result = one(stream(tmp_path, PROMPT, asks(("a", "bash", {"command": "x"})), complete)).steps[1].results["a"]
    assert (result.exit_code, result.failed, result.fault, result.running) == expected


def test_a_refused_permission_is_no_failure(tmp_path):
    refusal = ("permission.completed", {"toolCallId": "a", "result": {"kind": "denied-interactively-by-user"}})
    given = (
        PROMPT,
        asks(("a", "edit", {"path": "f", "old_str": "a", "new_str": "b"})),
        refusal,
        done("a", "", False, error={"code": "failure"}),
    )
    step = one(stream(tmp_path, *given)).steps[1]
    assert (step.results["a"].fault, step.results["a"].failed) == ("refused", None)
    assert step.calls[0].kind == "edit" and step.calls[0].edits == (("f", "a", "b"),)


def test_a_failing_view_is_the_tools_failure(tmp_path):
    error = {"message": "Path does not exist", "code": "failure"}
    step = one(stream(tmp_path, PROMPT, asks(("a", "view", {"path": "/x"})), done("a", "", False, error=error))).steps[
        1
    ]
    assert (step.calls[0].kind, step.calls[0].paths) == ("read", ("/x",))
    assert (step.results["a"].output, step.results["a"].failed, step.results["a"].exit_code) == (
        "Path does not exist",
        True,
        None,
    )


def test_hooks_that_fail_are_not_the_agents(tmp_path):
    hook = ("hook.end", {"hookInvocationId": "h", "success": False, "error": {"message": "broken"}})
    found = one(
        stream(tmp_path, ("hook.start", {"hookInvocationId": "h"}), hook, PROMPT, asks(text="Hi"), ("hook.start", {}))
    )
    assert [type(e) for e in events(found)] == [Prompt, Stop]


def test_only_a_persons_words_are_prompts(tmp_path):
    found = one(
        stream(
            tmp_path,
            PROMPT,
            ("user.message", {"content": "", "source": "system"}),
            (
                "user.message",
                {"content": "\n<system_reminder>\nrules\n</system_reminder>", "source": "instruction-discovery"},
            ),
            ("user.message", {"content": "<system_reminder>x</system_reminder>"}),
            asks(text="Done"),
        )
    )
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["Do it"]
    assert [type(e) for e in events(found)] == [Prompt, Stop]


def test_an_abort_interrupts(tmp_path):
    given = (
        PROMPT,
        asks(("a", "bash", {"command": "sleep 9"}), text="Wait"),
        starts("a"),
        ("abort", {"reason": "user initiated"}),
    )
    found = one(stream(tmp_path, *given))
    assert found.steps[1].results["a"].fault == "interrupted"
    assert [type(e) for e in events(found)][-1] is Interrupt and not [e for e in events(found) if isinstance(e, Stop)]


def test_a_patch_in_text_arguments(tmp_path):
    patch = "*** Begin Patch\n*** Add File: a.md\n+# A\n*** Update File: b.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n"
    call = one(stream(tmp_path, PROMPT, asks(("a", "apply_patch", patch)))).steps[1].calls[0]
    assert (call.kind, call.paths) == ("edit", ("a.md", "b.py"))
    assert call.edits == (("a.md", "", "# A"), ("b.py", "x = 1", "x = 2"))


def test_sub_agents_are_their_own(tmp_path):
    inner = asks(("b", "bash", {"command": "ls"}), parentToolCallId="t")
    given = (
        PROMPT,
        asks(("t", "task", {"prompt": "Look"})),
        inner,
        done("b", "<exited with exit code 0>", parentToolCallId="t"),
        done("t", "found"),
    )
    main, sub = read(stream(tmp_path, *given))
    assert (main.id, sub.id, sub.parent) == ("s-1", "s-1.t", "s-1")
    assert [c.tool for s in main.steps for c in s.calls] == ["task"] and [
        c.command for s in sub.steps for c in s.calls
    ] == ["ls"]
    assert [e.text for e in events(sub) if isinstance(e, Prompt)] == ["Look"]


def test_a_call_that_no_message_announced_and_an_orphan_result(tmp_path):
    found = one(
        stream(
            tmp_path,
            PROMPT,
            starts("a", arguments={"command": "ls"}),
            done("a", "<exited with exit code 0>"),
            done("zz", "x"),
        )
    )
    assert [c.command for s in found.steps for c in s.calls] == ["ls"]
    assert found.skipped["result of an unknown call"] == 1


def compact(tmp_path: Path) -> Path:
    head = {"v": 1, "agent": "copilot-cli", "cli_version": "0.8"}
    tool = {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "make"}}
    lines = [
        {**head, "type": "user", "ts": "2026-07-19T23:13:02Z", "content": [{"text": "Build"}]},
        {
            **head,
            "type": "assistant",
            "ts": "2026-07-19T23:13:03Z",
            "id": "m1",
            "output_tokens": 7,
            "content": [
                {"type": "text", "text": "Now."},
                {**tool, "result": {"output": "bad\n<shellId: 0 completed with exit code 2>", "status": "success"}},
                {
                    "type": "tool_use",
                    "id": "b",
                    "name": "view",
                    "input": {"path": "x"},
                    "result": {"output": "", "status": "error"},
                },
                {"type": "tool_use", "id": "c", "name": "view", "input": {"path": "y"}},
            ],
        },
        {
            **head,
            "type": "assistant",
            "ts": "2026-07-19T23:13:04Z",
            "id": "m2",
            "content": [{"type": "text", "text": "It fails."}],
        },
    ]
    path = tmp_path / "transcript.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"bad \\*** line"}\n')
    return path


def test_the_compact_form(tmp_path):
    found = one(compact(tmp_path))
    step = found.steps[1]
    assert (found.agent, step.message, step.metrics, step.id) == ("copilot-cli", "Now.", {"completion_tokens": 7}, "m1")
    assert (step.results["a"].exit_code, step.results["a"].output) == (2, "bad")
    assert step.results["b"].failed is True and "c" not in step.results
    assert [type(e).__name__ for e in events(found) if isinstance(e, (Prompt, Stop))] == ["Prompt", "Stop"]


def test_the_compact_copy_beside_the_full_record_counts_once(tmp_path):
    path = compact(tmp_path)
    shutil.copy(DATA / "real.jsonl", tmp_path / "full.jsonl")
    with pytest.raises(Unreadable, match="compact copy"):
        list(read(path))
    assert len(list(read(tmp_path / "full.jsonl"))) == 1


@pytest.mark.parametrize("text", ['{"type": "user"}\n{"type": "user"}\n', '{"type": "a.b", "data": 1}\n', "{}\n{}\n"])
def test_what_is_not_copilot(tmp_path, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    module = reader_of(Source(path))
    assert module is None or module.FORMAT != "copilot-cli"


@pytest.mark.corpus
def test_the_session_of_the_corpus(shared):
    folder = next((shared / "corpus/copilot-cli").glob("*/0"))
    found = one(folder / "full.jsonl")
    results = [e.result for e in events(found) if isinstance(e, After)]
    assert len(results) == 108 and sum(r.failed is True for r in results) == 3
    assert [r.exit_code for r in results if r.exit_code is not None] == [0] * 19
    assert (
        sum(isinstance(e, Prompt) for e in events(found)) == 2 and sum(isinstance(e, Stop) for e in events(found)) == 2
    )
    assert reader_of(Source(folder / "transcript.jsonl")).FORMAT == "copilot-cli"
