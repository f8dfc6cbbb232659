"""An attempt counts only where the guard lived in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from misstep.experiment import Attempt
from misstep.experiment.runs.liveness import Marker, checked, dead

MARKER = Marker("real", "c0ffee", "key")
HEAD = {"v": 1, "host": "codex", "session": "s", "arm": "real", "lock": "c0ffee"}
CALL = {"e": "before", "id": "a", "tool": "bash", "input": {"command": "ls"}}


def trial(
    folder: Path, *records: dict[str, Any], key: str = "key", calls: int = 1, faults: tuple[str, ...] = ()
) -> Path:
    """A trial's folder with a log of the guard's, and a trajectory of the agent's with so many calls."""
    home = folder / "agent/misstep/guard"
    if records:
        session = home / "sessions/codex/s"
        session.mkdir(parents=True)
        (session / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        (session / "state.json").write_text(json.dumps({"v": 1, "key": key}))
    home.mkdir(parents=True, exist_ok=True)
    if faults:
        (home / "faults.jsonl").write_text("".join(json.dumps({"e": "fault", "error": f}) + "\n" for f in faults))
    asked = [{"tool_call_id": f"c{n}", "function_name": "bash", "arguments": {"command": "ls"}} for n in range(calls)]
    steps = [{"step_id": 1, "source": "user", "message": "Go"}, {"step_id": 2, "source": "agent", "message": "Done."}]
    steps[1] |= {"tool_calls": asked} if calls else {}
    whole = {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": steps}
    (folder / "result.json").write_text(
        json.dumps({"trial_name": "t__1", "task_name": "t", "agent_info": {"name": "a"}})
    )
    (folder / "agent/trajectory.json").write_text(json.dumps(whole))
    return folder


def attempt(**given: Any) -> Attempt:
    return Attempt(**{"task": "t", "arm": "real", "termination": "fail", "passed": False, "steps": 1, **given})


def test_a_guard_that_lived(tmp_path: Path) -> None:
    assert dead(trial(tmp_path, HEAD, CALL), MARKER, attempt()) == ""
    assert checked(attempt(), tmp_path, MARKER) == attempt()


def test_an_agent_without_calls_needs_none_to_be_asked_about(tmp_path: Path) -> None:
    assert dead(trial(tmp_path, HEAD, calls=0), MARKER, attempt()) == ""


def test_an_agent_without_steps_needs_no_log(tmp_path: Path) -> None:
    assert dead(trial(tmp_path, calls=0), MARKER, attempt(steps=None)) == ""


@pytest.mark.parametrize(
    ("records", "given", "why"),
    [
        ([], {}, "no log of a session"),
        ([HEAD], {}, "the agent made calls, and none was asked about"),
        ([{**HEAD, "arm": "sham"}, CALL], {}, "expected arm 'real' in the log's head, not 'sham'"),
        (
            [{k: v for k, v in HEAD.items() if k != "lock"}, CALL],
            {},
            "expected lock 'c0ffee' in the log's head, not None",
        ),
        ([HEAD, CALL], {"key": "other"}, "expected the portfolio key, not other"),
        ([CALL], {}, "a log without a head"),
        ([HEAD, {"e": "refused", "error": "x changed"}, CALL], {}, "the portfolio was refused: x changed"),
        ([HEAD, CALL, {"e": "fault", "misstep": "m", "error": "KeyError: 1"}], {}, "a policy failed: m: KeyError: 1"),
        ([HEAD, CALL], {"faults": ("OSError: full",)}, "a hook failed: OSError: full"),
    ],
    ids=["no-log", "not-asked", "arm", "lock", "key", "no-head", "refused", "policy", "hook"],
)
def test_a_guard_that_did_not(tmp_path: Path, records: list[dict[str, Any]], given: dict[str, Any], why: str) -> None:
    found = checked(attempt(), trial(tmp_path, *records, **given), MARKER)
    assert (found.termination, found.passed, found.fault) == ("invalid", None, f"the guard did not live: {why}")
    assert found.extra["without_liveness"] == {"termination": "fail", "passed": False}


def test_what_is_no_observation_keeps_its_own_reason(tmp_path: Path) -> None:
    found = attempt(termination="invalid", passed=None, fault="no reward")
    assert checked(found, trial(tmp_path), MARKER) is found
