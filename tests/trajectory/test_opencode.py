"""OpenCode session exports."""

import json
from collections import Counter
from pathlib import Path

import pytest

from misstep.trajectory import After, Interrupt, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, read, reader_of

DATA = Path(__file__).parent / "data" / "opencode"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def export(tmp_path: Path, *messages: tuple, **info: object) -> Trajectory:
    """An export of (role, head fields, parts) messages."""
    head = {"id": "ses_1", "directory": "/w", "projectID": "p", "version": "1.2.5", **info}
    given = [
        {"info": {"role": role, "id": f"msg_{at}", **more}, "parts": parts}
        for at, (role, more, parts) in enumerate(messages)
    ]
    path = tmp_path / "any"
    path.write_text(json.dumps({"info": head, "messages": given}))
    return one(path)


def said(text: str, **more: object) -> dict:
    return {"type": "text", "text": text, **more}


def tool(name: str, status: str, given: dict | None = None, **state: object) -> dict:
    return {
        "type": "tool",
        "callID": "c1",
        "tool": name,
        "state": {"status": status, "input": given or {"command": "x"}, **state},
    }


ASK = ("user", {}, [said("Do it")])


def test_a_recorded_session():
    found = one(DATA / "real.json")
    assert (found.id, found.agent_version, found.model) == ("ses_39b5d713cffeRgAoxPIwS3Plus", "1.2.5", "gpt-5.3-codex")
    assert [c.tool for s in found.steps for c in s.calls] == ["skill", "task"]
    assert [type(e).__name__ for e in events(found) if isinstance(e, (Prompt, Stop))] == ["Prompt", "Stop"]
    assert found.steps[0].time == pytest.approx(1771214900, abs=5)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (tool("bash", "completed", output="x", metadata={"exit": 0}), (0, False, None, False)),
        (tool("bash", "completed", output="x", metadata={"exit": 2}), (2, True, None, False)),
        (
            tool(
                "bash",
                "completed",
                output="x\n<bash_metadata>\nbash tool terminated command after exceeding timeout 4000 ms\n</bash_metadata>",
                metadata={"exit": None},
            ),
            (None, True, None, True),
        ),
        (
            tool(
                "bash",
                "completed",
                output="x\n\n<shell_metadata>\nshell tool terminated command after exceeding timeout 1000 ms. If this",
                metadata={"exit": None},
            ),
            (None, True, None, True),
        ),
        (
            tool(
                "bash",
                "completed",
                output="x\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>",
                metadata={"exit": None},
            ),
            (None, None, "interrupted", False),
        ),
        (
            tool("bash", "completed", output="User aborted the command", metadata={"exit": None}),
            (None, None, None, False),
        ),
        (tool("bash", "completed", output="x", metadata={"exit": None}), (None, None, None, False)),
        (tool("bash", "completed", output="x"), (None, None, None, False)),
        (tool("bash", "running", metadata={"output": "half"}), (None, None, "interrupted", False)),
        (tool("bash", "error", error="Tool execution aborted"), (None, None, "interrupted", False)),
        (
            tool("bash", "error", error="Error: The user rejected permission to use this specific tool call."),
            (None, None, "refused", False),
        ),
        (
            tool("bash", "error", error="The bash tool was called with invalid arguments: []"),
            (None, None, "malformed", False),
        ),
        (
            tool(
                "apply_patch",
                "error",
                {"patchText": "*** Begin Patch"},
                error="apply_patch verification failed: no such line",
            ),
            (None, True, None, False),
        ),
        (
            tool("glob", "error", {"pattern": "*"}, error="Error: No such file or directory: '/x'"),
            (None, True, None, False),
        ),
        (tool("read", "completed", {"filePath": "/x"}, output="1: a"), (None, False, None, False)),
    ],
)
def test_results(tmp_path, part, expected):
    result = export(tmp_path, ASK, ("assistant", {}, [part])).steps[1].results["c1"]
    assert (result.exit_code, result.failed, result.fault, result.timed_out) == expected


def test_the_words_for_no_output(tmp_path):
    part = tool("bash", "completed", output="(no output)", metadata={"exit": 0})
    assert export(tmp_path, ASK, ("assistant", {}, [part])).steps[1].results["c1"].output == ""


def test_a_pending_part_has_no_result(tmp_path):
    step = export(tmp_path, ASK, ("assistant", {}, [tool("bash", "pending")])).steps[1]
    assert len(step.calls) == 1 and not step.results


def test_what_the_tools_are(tmp_path):
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
    parts = [
        tool("bash", "completed", {"command": "ls", "timeout": 4000}, output=""),
        tool("read", "completed", {"filePath": "/r"}),
        tool("edit", "completed", {"filePath": "/e", "oldString": "a", "newString": "b"}),
        tool("write", "completed", {"filePath": "/w", "content": "c"}),
        tool("apply_patch", "completed", {"patchText": patch}),
        tool("grep", "completed", {"path": "/g", "pattern": "x"}),
        tool("webfetch", "completed", {"url": "u"}),
    ]
    for at, part in enumerate(parts):
        part["callID"] = f"c{at}"
    calls = export(tmp_path, ASK, ("assistant", {}, parts)).steps[1].calls
    assert [c.kind for c in calls] == ["shell", "read", "edit", "write", "edit", "search", "other"]
    assert [c.paths for c in calls[1:6]] == [("/r",), ("/e",), ("/w",), ("a.py",), ("/g",)]
    assert [c.edits for c in calls[2:5]] == [(("/e", "a", "b"),), (("/w", "", "c"),), (("a.py", "x", "y"),)]
    assert (calls[0].command, calls[0].timeout) == ("ls", 4.0)


def test_only_a_persons_words_are_prompts(tmp_path):
    synthetic = said("Called the Read tool with ...", synthetic=True)
    found = export(
        tmp_path, ("user", {}, [synthetic]), ("user", {}, [said("Look at"), synthetic]), ("assistant", {}, [said("ok")])
    )
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["Look at"]
    assert [type(e).__name__ for e in events(found)] == ["Prompt", "Stop"]


def test_an_aborted_message_is_an_interruption(tmp_path):
    aborted = {"error": {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}}
    found = export(
        tmp_path,
        ASK,
        ("assistant", aborted, [said("Half")]),
        ("user", {}, [said("No, this")]),
        ("assistant", {}, [said("Done")]),
    )
    assert [type(e).__name__ for e in events(found)] == ["Prompt", "Say", "Interrupt", "Prompt", "Stop"]


def test_tokens_and_cost(tmp_path):
    head = {
        "tokens": {"input": 100, "output": 9, "cache": {"read": 40}},
        "cost": 0.5,
        "modelID": "m",
        "time": {"created": 1771214901000},
    }
    step = export(tmp_path, ASK, ("assistant", head, [said("a"), {"type": "reasoning", "text": "hm"}])).steps[1]
    assert step.metrics == {"prompt_tokens": 140, "completion_tokens": 9, "cached_tokens": 40, "cost_usd": 0.5}
    assert (step.model, step.time, step.reasoning) == ("m", 1771214901.0, "hm")


def test_a_sub_agent_names_its_parent(tmp_path):
    assert export(tmp_path, ASK, parentID="ses_0").parent == "ses_0"


def test_compaction(tmp_path):
    found = export(
        tmp_path, ASK, ("user", {}, [{"type": "compaction"}]), ("assistant", {"summary": True}, [said("We did")])
    )
    assert [s.compacted for s in found.steps] == [False, True, True]
    assert sum(isinstance(e, Prompt) for e in events(found)) == 1


@pytest.mark.parametrize(
    "value",
    [{"info": {"id": "x"}, "messages": []}, {"info": {}, "messages": [{"info": {"role": "user"}, "parts": []}]}],
)
def test_what_is_not_opencode(tmp_path, value):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    module = reader_of(Source(path))
    assert module is None or module.FORMAT != "opencode"


@pytest.mark.corpus
def test_the_exports_of_the_corpus(shared):
    found = [one(path) for path in sorted((shared / "corpus/opencode-export").glob("*/*.json"))]
    results = [e.result for t in found for e in events(t) if isinstance(e, After) and e.call.kind == "shell"]
    assert Counter(r.exit_code for r in results) == {0: 17, 2: 8, None: 6, 1: 2}
    assert sum(r.timed_out for r in results) == 4 and sum(r.fault == "interrupted" for r in results) == 2
    assert sum(isinstance(e, Interrupt) for t in found for e in events(t)) == 6
