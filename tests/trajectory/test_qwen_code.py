"""Qwen Code's sessions."""

import json
from pathlib import Path
from typing import Any

import pytest

from misstep.trajectory import Compact, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import read

DATA = Path(__file__).parent / "data" / "qwen"


def session(folder: Path, *records: dict) -> Trajectory:
    path = folder / "any.jsonl"
    with path.open("w") as file:
        for number, record in enumerate(records):
            given = {"uuid": f"u{number}", "sessionId": "q1", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/w"}
            file.write(json.dumps({**given, **record}) + "\n")
    (found,) = read(path)
    return found


def user(*texts: str, **more: Any) -> dict:
    return {"type": "user", "message": {"role": "user", "parts": [{"text": t} for t in texts]}, **more}


def model(*parts: dict, **more: Any) -> dict:
    return {"type": "assistant", "model": "qwen3", "message": {"role": "model", "parts": list(parts)}, **more}


def called(id: str, name: str = "run_shell_command", **args: Any) -> dict:
    return {"functionCall": {"id": id, "name": name, "args": args}}


def result(id: str, response: dict, **detail: Any) -> dict:
    part = {"functionResponse": {"id": id, "name": "x", "response": response}}
    return {
        "type": "tool_result",
        "message": {"role": "user", "parts": [part]},
        "toolCallResult": {"callId": id, **detail},
    }


def test_recorded_run():
    (found,) = read(DATA / "0.24.4.jsonl")
    assert (found.format, found.agent, found.agent_version, found.model) == (
        "qwen-code",
        "qwen-code",
        "0.24.4",
        "qwen3-coder",
    )
    # the hook's text that was put behind the prompt is none of the person's
    assert [s.message for s in found.steps if s.prompt] == ["Please do the task"]
    calls = [(c.command, c.cwd, s.results[c.id]) for s in found.steps for c in s.calls]
    assert [(c, w, r.exit_code, r.failed, r.output) for c, w, r in calls] == [
        ("echo hello; exit 3", "/home/dev/project", 3, True, "hello"),
        ("echo ok", "/home/dev/project", 0, False, "ok"),
    ]
    assert found.steps[1].metrics == {"prompt_tokens": 10, "cached_tokens": 0, "completion_tokens": 5}
    assert [e.message for e in events(found) if isinstance(e, Stop)][-1] == "Really done."


def test_exit_code_from_the_text_alone(tmp_path):
    text = "Command: x\nDirectory: (root)\nOutput: a\nb\nError: (none)\nExit Code: 4\nSignal: (none)\nProcess Group PGID: (none)\n\nFrom a hook"
    found = session(
        tmp_path,
        user("Go"),
        model(called("a", command="x", is_background=False)),
        result("a", {"error": text}, status="error"),
    )
    given = found.steps[1].results["a"]
    assert (given.exit_code, given.failed, given.output) == (4, True, "a\nb")


def test_faults_and_files(tmp_path):
    found = session(
        tmp_path,
        user("Go"),
        model(called("a", "edit", file_path="/a", old_string="x", new_string="y"), called("b", command="rm x")),
        result("a", {"error": "Failed to edit, could not find the string to replace."}, status="error"),
        result("b", {"error": "[Operation Cancelled] Reason: User did not allow tool call"}, status="cancelled"),
        result("gone", {"output": "x"}),
    )
    step = found.steps[1]
    assert [(c.kind, c.edits) for c in step.calls] == [("edit", (("/a", "x", "y"),)), ("shell", ())]
    assert [step.results[i].fault for i in "ab"] == ["malformed", "refused"]
    assert found.skipped == {"result without a call": 1}


def test_stop_reason_that_comes_as_a_user_message(tmp_path):
    found = session(
        tmp_path,
        user("Go", provenance="real_user"),
        model({"text": "Done."}),
        user("Run a probe", provenance="hook"),
        model({"text": "Really."}),
    )
    assert [type(e) for e in events(found)] == [Prompt, Stop, Stop]


def test_other_records(tmp_path):
    record = {"type": "system", "subtype": "chat_compression"}
    thought = {"text": "Hm.", "thought": True}
    found = session(
        tmp_path,
        user("Go"),
        record,
        {"type": "system", "subtype": "ui_telemetry"},
        {"type": "new"},
        model(thought, {"text": "On."}),
    )
    assert [type(e) for e in events(found)] == [Prompt, Compact, Stop]
    assert found.steps[-1].reasoning == "Hm." and found.skipped == {"unknown record: new": 1}


def test_copies_of_a_record(tmp_path):
    found = session(tmp_path, user("Go", uuid="same"), user("Go", uuid="same"))
    assert len(found.steps) == 1 and found.skipped == {"duplicate record": 1}


@pytest.mark.parametrize("truncated", [True, False])
def test_truncated(tmp_path, truncated):
    shown = {"type": "shell_result", "exitCode": 0, "output": "x", "truncated": truncated}
    found = session(
        tmp_path,
        user("Go"),
        model(called("a", command="x")),
        result("a", {"output": "x"}, status="success", resultDisplay=shown),
    )
    assert found.steps[1].results["a"].truncated is truncated
