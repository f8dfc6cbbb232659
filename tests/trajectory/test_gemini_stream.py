"""`gemini --output-format stream-json`."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from misstep.trajectory import Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, Unreadable, read, reader_of

REAL = Path(__file__).parent / "data" / "gemini" / "0.61.0.stream.jsonl"
AT = "2026-01-02T03:04:05.000Z"
INIT = {"type": "init", "timestamp": AT, "session_id": "s1", "model": "m"}
ASK = {"type": "message", "timestamp": AT, "role": "user", "content": "Do it"}
END = {"type": "result", "timestamp": AT, "status": "success", "stats": {}}


def says(text: str) -> dict[str, Any]:
    return {"type": "message", "timestamp": AT, "role": "assistant", "content": text, "delta": True}


def use(tool: str = "run_shell_command", identity: str = "t1", **given: Any) -> dict[str, Any]:
    given = given or {"command": "x"}
    return {"type": "tool_use", "timestamp": AT, "tool_name": tool, "tool_id": identity, "parameters": given}


def gave(status: str = "success", identity: str = "t1", **more: Any) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "timestamp": "2026-01-02T03:04:07.500Z",
        "tool_id": identity,
        "status": status,
        **more,
    }


def stream(tmp_path: Path, *records: dict[str, Any] | str) -> list[Trajectory]:
    path = tmp_path / "any"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return list(read(path))


def one(tmp_path: Path, *records: dict[str, Any] | str) -> Trajectory:
    (found,) = stream(tmp_path, INIT, ASK, *records)
    return found


def kinds(found: Trajectory) -> list[str]:
    return [type(e).__name__ for e in events(found)]


def test_a_recorded_run():
    (found,) = read(REAL)
    assert (found.id, found.agent, found.model) == (
        "0a340722-6546-4f81-8586-f12b385745b1",
        "gemini-cli",
        "gemini-2.5-pro",
    )
    told = list(events(found))
    assert [e.text for e in told if isinstance(e, Prompt)] == ["Please change the file"]
    assert [e.message for e in told if isinstance(e, Stop)] == ["All done."]
    rows = [(c, s.results[c.id]) for s in found.steps for c in s.calls]
    assert [(c.kind, c.command or c.paths) for c, _ in rows] == [
        ("shell", "ls; echo hi"),
        ("shell", "sh -c 'echo oops; exit 3'"),
        ("write", ("/work/a.txt",)),
        ("shell", "echo two"),
        ("read", ("/work/missing.txt",)),
        ("read", ("/work/a.txt",)),
        ("edit", ("/work/a.txt",)),
        ("other", ()),
        ("shell", "true"),
    ]
    # `exit 3` is a "success" with the text "oops": nothing tells it from a command that succeeded
    assert [r.exit_code for _, r in rows] == [None] * 8 + [0]
    assert [r.failed for _, r in rows] == [None, None, False, None, True, False, False, None, False]
    assert rows[7][1].fault == "malformed"
    assert [len(s.calls) for s in found.steps] == [0, 1, 1, 2, 1, 1, 1, 1, 1, 0]
    assert not found.skipped


def test_the_session_file_tells_the_same_but_knows_more():
    (shown,), (kept,) = read(REAL), read(REAL.with_name("0.61.0.session.jsonl"))
    assert shown.id == kept.id
    assert [c.command for s in shown.steps for c in s.calls] == [c.command for s in kept.steps for c in s.calls]
    for mine, other in zip(shown.steps, (s for s in kept.steps if s.source != "user" or s.prompt), strict=True):
        for a, b in zip(mine.results.values(), other.results.values(), strict=True):
            assert a.exit_code in (None, b.exit_code)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Command exited with code: 2", (2, True, None, False, "")),
        ("", (0, False, None, False, "")),
        ("said\nCommand exited with code: 2", (None, None, None, False, "said\nCommand exited with code: 2")),
        ("Exit Code: 1", (None, None, None, False, "Exit Code: 1")),
        ("Output: x\nExit Code: 1\nProcess Group PGID: 7", (1, True, None, False, "x")),
        ("Command terminated by signal: 9", (None, True, None, False, "Command terminated by signal: 9")),
        ("Command failed: spawn", (None, True, None, False, "Command failed: spawn")),
        ("Command cancelled by user.", (None, None, "interrupted", False, "Command cancelled by user.")),
        (
            "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes without output.",
            (None, True, None, True, None),
        ),
    ],
)
def test_commands(tmp_path, output, expected):
    result = one(tmp_path, use(), gave(output=output)).steps[1].results["t1"]
    text = result.output if expected[4] is not None else None
    assert (result.exit_code, result.failed, result.fault, result.timed_out, text) == expected
    assert result.seconds == 2.5


def test_a_command_in_the_background(tmp_path):
    output = "Command moved to background (PID: 7). Output hidden. Press Ctrl+B to view."
    result = one(tmp_path, use(), gave(output=output)).steps[1].results["t1"]
    assert result.running and result.failed is None


def test_an_output_that_is_not_recorded_is_not_an_empty_one(tmp_path):
    result = one(tmp_path, use(), gave()).steps[1].results["t1"]
    assert (result.exit_code, result.failed, result.truncated) == (None, None, True)
    read_ = one(tmp_path, use("read_file", file_path="/a"), gave(output="")).steps[1].results["t1"]
    assert (read_.failed, read_.truncated) == (False, True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "policy_violation", "message": "x"}, (None, "refused")),
        ({"type": "invalid_tool_params", "message": "params must have x"}, (None, "malformed")),
        ({"type": "unhandled_exception", "message": "x"}, (None, "harness")),
        ({"type": "shell_execute_error", "message": "x"}, (True, None)),
        (None, (True, None)),
    ],
)
def test_errors(tmp_path, error, expected):
    result = one(tmp_path, use(), gave("error", output="x", error=error)).steps[1].results["t1"]
    assert (result.failed, result.fault) == expected


def test_pieces_of_an_answer_are_one_step(tmp_path):
    found = one(tmp_path, says("a"), says("b"), use(), use(identity="t2"), gave(), gave(identity="t2"), says("c"), END)
    assert [(s.message, len(s.calls), s.stop) for s in found.steps[1:]] == [("ab", 2, False), ("c", 0, True)]


@pytest.mark.parametrize("last", [[], [{**END, "status": "error"}], ['{"type": "res']])
def test_a_run_that_did_not_end_well_has_no_stop(tmp_path, last):
    assert kinds(one(tmp_path, says("I will"), *last)) == ["Prompt", "Say"]


def test_an_error_of_the_harness(tmp_path):
    error = {"type": "error", "timestamp": AT, "severity": "error", "message": "Maximum session turns exceeded"}
    found = one(tmp_path, says("I will"), error, END)
    assert kinds(found) == ["Prompt", "Say"] and found.steps[-1].extra["harness"] == "error"
    warning = {**error, "severity": "warning"}
    assert kinds(one(tmp_path, says("I will"), warning, END)) == ["Prompt", "Stop"]


def test_several_runs_in_one_file(tmp_path):
    found = stream(tmp_path, INIT, ASK, says("a"), END, {**INIT, "session_id": "s2"}, ASK, says("b"), END)
    assert [(t.id, kinds(t)) for t in found] == [("s1", ["Prompt", "Stop"]), ("s2", ["Prompt", "Stop"])]


def test_other_lines_between(tmp_path):
    found = stream(tmp_path, "YOLO mode is enabled.", INIT, ASK, "warning: x", {"type": "new"}, says("a"), END)
    assert kinds(found[0]) == ["Prompt", "Stop"]
    assert dict(found[0].skipped) == {"not JSON": 2, "unknown event: new": 1}


def test_nothing_was_said(tmp_path):
    with pytest.raises(Unreadable, match="no message"):
        stream(tmp_path, INIT, END)


@pytest.mark.parametrize(
    "record", [{"type": "init"}, {"type": "system", "subtype": "init", "session_id": "s"}, ASK, END]
)
def test_what_is_not_this_stream(tmp_path, record):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps(record) + "\n")
    module = reader_of(Source(path))
    assert module is None or module.FORMAT != "gemini-cli-stream"


def test_odd_values_anywhere(tmp_path):
    chance = random.Random(1)
    records = [json.loads(line) for line in REAL.read_text().splitlines()]
    for _ in range(150):
        changed = json.loads(json.dumps(records))
        at = chance.randrange(1, len(records))
        key = chance.choice(list(changed[at]))
        changed[at][key] = chance.choice([None, 1, [], {}, "x", True, [None]])
        for found in stream(tmp_path, *changed):
            assert all(isinstance(r.output, str) for s in found.steps for r in s.results.values())
            assert list(events(found))
