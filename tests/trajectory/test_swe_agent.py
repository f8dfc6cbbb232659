"""SWE-agent .traj files."""

import json
import shutil
from pathlib import Path

import pytest

from misstep.trajectory import Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, read, reader_of

DATA = Path(__file__).parent / "data" / "swe_agent"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def calls(found: Trajectory) -> list:
    return [call for step in found.steps for call in step.calls]


def made(tmp_path: Path, steps: list[dict], **more: object) -> Trajectory:
    path = tmp_path / "repo__name-1.traj"
    given = [{"action": "", "observation": "", "response": "", "thought": "t", "state": "{}", **step} for step in steps]
    history = [
        {"role": "system", "content": "s", "agent": "main"},
        {"role": "user", "content": "ISSUE:\nFix it\n\n\nINSTRUCTIONS:\nNow", "agent": "main"},
    ]
    path.write_text(json.dumps({"environment": "e", "trajectory": given, "history": history, "info": {}, **more}))
    return one(path)


def test_function_calling():
    found = one(DATA / "6e44b9__sweagenttestrepo-1c2844.traj")
    assert (found.id, found.model, found.cwd) == ("6e44b9__sweagenttestrepo-1c2844", "gpt-4o", "/SWE-agent__test-repo")
    assert [(c.tool, c.kind) for c in calls(found)] == [
        ("find_file", "search"),
        ("open", "read"),
        ("edit", "edit"),
        ("bash", "shell"),
        ("submit", "finish"),
    ]
    file = "/SWE-agent__test-repo/tests/missing_colon.py"
    assert calls(found)[1].paths == calls(found)[2].paths == (file,)
    assert calls(found)[2].edits == (
        (file, "def division(a: float, b: float) -> float", "def division(a: float, b: float) -> float:"),
    )
    assert calls(found)[3].command == "python3 /SWE-agent__test-repo/tests/missing_colon.py"
    results = [r for s in found.steps for r in s.results.values()]
    assert all(r.exit_code is None and r.failed is None for r in results) and len(results) == 5
    assert results[3].output == "8.2" and round(results[3].seconds, 2) == 0.29
    assert [type(e).__name__ for e in events(found) if isinstance(e, (Prompt, Stop))] == ["Prompt", "Stop"]
    assert found.steps[1].message.startswith("SyntaxError: invalid syntax\nI'm running")
    assert (found.outcome.passed, found.outcome.extra["exit_status"]) == (None, "submitted")
    assert found.outcome.cost_usd == pytest.approx(0.01952)


def test_text_commands_with_a_demonstration_and_a_state_in_text():
    found = one(DATA / "pydicom__pydicom-1458.traj")
    prompts = [e.text for e in events(found) if isinstance(e, Prompt)]
    assert len(prompts) == 1 and prompts[0].startswith("Pixel Representation attribute should be optional")
    assert [c.kind for c in calls(found)] == [
        "write",
        "edit",
        "shell",
        "search",
        "read",
        "edit",
        "edit",
        "edit",
        "edit",
        "shell",
        "shell",
        "finish",
    ]
    assert calls(found)[1].paths == ("/pydicom__pydicom/reproduce_bug.py",)
    failed = [r.failed for s in found.steps for r in s.results.values()]
    # the linter took three edits back; nothing is known of the rest
    assert [at for at, f in enumerate(failed) if f] == [5, 6, 7] and set(failed) == {True, None}
    assert [e.step for e in events(found) if isinstance(e, Stop)] == [len(found.steps) - 1]


def test_a_history_alone():
    found = one(DATA / "history_only.traj")
    assert [c.kind for c in calls(found)] == ["search", "read", "edit", "shell", "finish"]
    assert calls(found)[3].command == "python tests/missing_colon.py"
    results = [r for s in found.steps for r in s.results.values()]
    # the prompt lines of the interface are no output
    assert results[3].output == "8.2" and results[3].exit_code is None
    assert found.steps[-1].stop is True and found.outcome is None


@pytest.mark.parametrize(
    "state", ['{"open_file": "/w/a.py", "working_dir": "/w"}\n', {"open_file": "/w/a.py", "working_dir": "/w"}]
)
def test_state_in_text_and_as_an_object(tmp_path, state):
    found = made(tmp_path, [{"action": "edit 1:2\nx\nend_of_edit", "state": state}])
    assert (calls(found)[0].paths, calls(found)[0].cwd) == (("/w/a.py",), "/w")


def test_a_damaged_state_is_none(tmp_path):
    assert calls(made(tmp_path, [{"action": "edit 1:2\nx\nend_of_edit", "state": "{"}]))[0].paths == ()


def test_contents_in_parts(tmp_path):
    history = [
        {"role": "user", "content": [{"type": "text", "text": "ISSUE:\nParts\n\nINSTRUCTIONS:"}], "agent": "main"}
    ]
    assert made(tmp_path, [{"action": "ls"}], history=history).steps[0].message == "Parts"


@pytest.mark.parametrize(
    "observation",
    ["\nEXECUTION TIMED OUT", "The command 'x' was cancelled because it took more than 30 seconds. Please"],
)
def test_time_limits(tmp_path, observation):
    (result,) = made(tmp_path, [{"action": "./x", "observation": observation}]).steps[2].results.values()
    assert (result.failed, result.timed_out, result.exit_code) == (True, True, None)


def test_exits_are_no_calls(tmp_path):
    found = made(tmp_path, [{"action": "ls"}, {"action": "exit_cost"}], info={"exit_status": "submitted (exit_cost)"})
    assert [c.command for c in calls(found)] == ["ls"]
    assert found.outcome.exception == "submitted (exit_cost)" and not [e for e in events(found) if isinstance(e, Stop)]


def test_an_earlier_submission_is_no_stop(tmp_path):
    found = made(
        tmp_path,
        [{"action": "submit a", "observation": "Wrong"}, {"action": "submit b"}],
        info={"exit_status": "submitted"},
    )
    assert [e.step for e in events(found) if isinstance(e, Stop)] == [3]


def test_the_editor_tool_as_a_shell_line(tmp_path):
    action = "str_replace_editor str_replace /w/a.py --old_str 'x = 1' --new_str 'x = 2'"
    (call,) = calls(made(tmp_path, [{"action": action}]))
    assert (call.kind, call.edits) == ("edit", (("/w/a.py", "x = 1", "x = 2"),))
    (call,) = calls(made(tmp_path, [{"action": "str_replace_editor view /w/a.py"}]))
    assert (call.kind, call.paths) == ("read", ("/w/a.py",))
    (call,) = calls(made(tmp_path, [{"action": "str_replace_editor 'broken"}]))
    assert call.kind == "other"


@pytest.mark.parametrize(
    ("report", "passed"),
    [
        ({"repo__name-1": {"resolved": True, "tests_status": {"FAIL_TO_PASS": {"success": ["t"]}}}}, True),
        ({"repo__name-1": {"resolved": False}}, False),
        ({"resolved_ids": ["other"], "unresolved_ids": ["repo__name-1"]}, False),
        ({"resolved_ids": ["repo__name-1"]}, True),
        ({"other": {"resolved": True}}, None),
        ([], None),
    ],
)
def test_the_outcome_is_in_the_report_beside_it(tmp_path, report, passed):
    (tmp_path / "report.json").write_text(json.dumps(report))
    outcome = made(tmp_path, [{"action": "submit"}], info={"exit_status": "submitted"}).outcome
    assert (outcome.passed, outcome.task) == (passed, "repo__name-1")
    assert outcome.reward == (None if passed is None else float(passed))


def test_the_report_of_the_run_above(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps({"resolved_ids": ["history_only"]}))
    (tmp_path / "history_only").mkdir()
    shutil.copy(DATA / "history_only.traj", tmp_path / "history_only")
    assert one(tmp_path / "history_only" / "history_only.traj").outcome.passed is True


@pytest.mark.parametrize(
    "value",
    [{"trajectory": [{"action": "x"}]}, {"history": [{"role": "a", "content": "b", "name": "c"}]}, {"history": []}],
)
def test_what_is_not_swe_agent(tmp_path, value):
    path = tmp_path / "x.traj"
    path.write_text(json.dumps(value))
    module = reader_of(Source(path))
    assert module is None or module.FORMAT != "swe-agent"


@pytest.mark.corpus
def test_the_files_of_the_corpus(shared):
    found = [one(path) for path in sorted((shared / "corpus/swe-agent-traj").glob("**/*.traj"))]
    assert len(found) == 12 and all(len([e for e in events(t) if isinstance(e, Prompt)]) == 1 for t in found)
    assert all(r.exit_code is None for t in found for s in t.steps for r in s.results.values())
    assert sum(isinstance(e, Stop) for t in found for e in events(t)) == 12
