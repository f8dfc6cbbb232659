"""mini-swe-agent trajectories of every age."""

import json
from pathlib import Path

import pytest

from misstep.trajectory import Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, read, reader_of
from misstep.trajectory.readers.mini_swe_agent import observation, task_of

DATA = Path(__file__).parent / "data" / "mini_swe_agent"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def written(tmp_path: Path, messages: list, **info: object) -> Trajectory:
    path = tmp_path / "any.json"
    path.write_text(
        json.dumps(
            {"info": {"mini_version": "1.17", **info}, "messages": messages, "trajectory_format": "mini-swe-agent-1"}
        )
    )
    return one(path)


def fenced(command: str) -> dict:
    return {"role": "assistant", "content": f"Now.\n\n```bash\n{command}\n```"}


def test_bare_list_in_text_mode():
    found = one(DATA / "bare.traj.json")
    agent = [s for s in found.steps if s.source == "agent"]
    assert found.format == "mini-swe-agent" and len(agent) == 10
    assert [c.command.split()[0] for s in agent for c in s.calls][:3] == ["cat", "ls", "ls"]
    results = [r for s in agent for r in s.results.values()]
    assert [r.exit_code for r in results] == [1, 0, 0, 0, 0, 0, 0, 1, 0, None]
    assert [r.failed for r in results] == [True, False, False, False, False, False, False, True, False, False]
    assert results[6].output == "8.2\n"
    stream = list(events(found))
    assert [e.text[:33] for e in stream if isinstance(e, Prompt)] == ["GitHub Issue: SyntaxError: invali"]
    assert [e.step for e in stream if isinstance(e, Stop)] == [11]
    assert found.outcome is None


def test_version_1_document():
    found = one(DATA / "v1.traj.json")
    assert (found.agent_version, found.model) == ("1.13.4", "anthropic/claude-3-5-sonnet-20241022")
    assert found.steps[1].message == 'Create a file called hello.txt with "Hello, world!" as the content.'
    assert [c.command for s in found.steps for c in s.calls] == [
        'echo "Hello, world!" > hello.txt',
        "cat hello.txt",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ]
    assert found.steps[-1].stop is True
    assert found.steps[2].metrics["completion_tokens"] > 0
    outcome = found.outcome
    assert outcome.passed is None and outcome.extra["exit_status"] == "Submitted"
    assert outcome.cost_usd == pytest.approx(0.010521) and outcome.exception == "" and outcome.fault is None


def test_version_2_tool_mode():
    found = one(DATA / "v2_tools.traj.json")
    agent = [s for s in found.steps if s.source == "agent"]
    first = agent[0]
    assert [c.id for c in first.calls] == ["c1", "c2"] and found.cwd == "/srv/app"
    assert (first.results["c1"].exit_code, first.results["c1"].output) == (0, "12 notes.txt\n")
    assert (first.results["c2"].exit_code, first.results["c2"].failed) == (1, True)
    assert first.metrics == {"prompt_tokens": 120, "completion_tokens": 30, "cached_tokens": 64, "cost_usd": 0.01}
    assert first.time == 1760000000.0
    timed_out = agent[1].results["c3"]
    assert (timed_out.exit_code, timed_out.failed, timed_out.fault) == (None, True, None)
    assert agent[2].message == "I think that we are done." and agent[2].stop is False and not agent[2].calls
    assert agent[3].results["c4"].fault == "refused"
    submitted = agent[4].results["c5"]
    assert (submitted.exit_code, submitted.failed, submitted.fault, submitted.output) == (0, False, None, "done\n")
    assert [type(e) for e in events(found) if isinstance(e, Stop)] == [Stop]


def test_an_answer_with_two_blocks_ran_nothing(tmp_path):
    two = {"role": "assistant", "content": "```bash\nls\n```\n```bash\nrm x\n```"}
    found = written(
        tmp_path,
        [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": "Please solve this issue: Do it\n\nYou can execute bash commands and edit files to",
            },
            two,
            {
                "role": "user",
                "content": "Please always provide EXACTLY ONE action in triple backticks, found 2 actions.",
            },
            fenced("ls"),
            {"role": "user", "content": "<returncode>0</returncode>\n<output>\n</output>"},
        ],
        exit_status="LimitsExceeded",
    )
    assert [len(s.calls) for s in found.steps if s.source == "agent"] == [0, 1]
    assert not [e for e in events(found) if isinstance(e, Stop)]
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["Do it"]
    assert found.outcome.exception == "LimitsExceeded" and found.outcome.fault is None


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("Command not executed. The user rejected your command with the following message: no", "refused"),
        ("Interrupted by user: wait", "interrupted"),
    ],
)
def test_a_persons_no_is_no_failure(tmp_path, said, fault):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "t"}, fenced("rm x")]
    found = written(tmp_path, [*messages, {"role": "user", "content": said}], exit_status="")
    (result,) = found.steps[2].results.values()
    assert (result.fault, result.exit_code, result.failed) == (fault, None, None)
    assert found.steps[3].interrupted is (fault == "interrupted")


def test_a_new_task_ends_the_turn_and_is_a_prompt(tmp_path):
    found = written(
        tmp_path,
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "t"},
            fenced("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
            {"role": "user", "content": "The user added a new task: also the docs"},
        ],
    )
    assert [type(e).__name__ for e in events(found)] == ["Prompt", "Say", "Before", "After", "Stop", "Prompt"]
    assert found.steps[-1].message == "also the docs"


def test_responses_api_messages(tmp_path):
    found = written(
        tmp_path,
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "t"},
            {
                "object": "response",
                "model": "m",
                "usage": {"input_tokens": 5, "output_tokens": 2},
                "output": [
                    {"type": "message", "content": [{"type": "output_text", "text": "Look."}]},
                    {"type": "function_call", "call_id": "k", "name": "bash", "arguments": '{"command": "ls"}'},
                ],
                "extra": {"actions": [{"command": "ls", "tool_call_id": "k"}], "timestamp": 1760000000.5},
            },
            {
                "type": "function_call_output",
                "call_id": "k",
                "output": "x",
                "extra": {"returncode": 2, "raw_output": "x"},
            },
        ],
    )
    step = found.steps[2]
    assert (step.message, step.calls[0].command, step.metrics["prompt_tokens"]) == ("Look.", "ls", 5)
    assert (step.results["k"].exit_code, step.results["k"].output) == (2, "x")


def test_a_persons_own_command_is_no_call(tmp_path):
    own = {"role": "user", "content": "User command: \n```bash\nls\n```", "extra": {"actions": [{"command": "ls"}]}}
    seen = {"role": "user", "content": "<returncode>0</returncode>\n<output>\n</output>", "extra": {"returncode": 0}}
    found = written(tmp_path, [{"role": "system", "content": "s"}, {"role": "user", "content": "t"}, own, seen])
    assert not any(s.calls for s in found.steps)
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["t"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<returncode>0</returncode>\n<output>\nhi\n</output>", ("hi\n", 0, False, None, False)),
        ("<returncode>-9</returncode>\n<output>\n</output>", ("", -9, True, None, False)),
        ("<returncode>1</returncode>\n<output>\na</output>b\n</output>", ("a</output>b\n", 1, True, None, False)),
        (
            (
                "<returncode>0</returncode>\n<warning>\nToo long.\n</warning><output_head>\nab\n</output_head>\n"
                "<elided_chars>\n9 characters elided\n</elided_chars>\n<output_tail>\nyz\n</output_tail>"
            ),
            ("ab\nyz\n", 0, False, None, True),
        ),
        ('{"returncode": 3, "output": "x"}', ("x", 3, True, None, False)),
        (
            '{"returncode": 0, "output_head": "a", "output_tail": "z", "elided_chars": 1}',
            ("a\nz", 0, False, None, True),
        ),
        (
            (
                "The last command <command>sleep 99</command> timed out and has been killed.\nThe output of the command was:\n"
                " <output>\nzz\n</output>\nPlease"
            ),
            ("zz\n", None, True, None, False),
        ),
        (
            (
                "<exception>An error occurred while executing the command: [Errno 7] Argument list too long</exception>\n"
                "<returncode>-1</returncode>\n<output>\n</output>"
            ),
            (
                "An error occurred while executing the command: [Errno 7] Argument list too long",
                None,
                None,
                "harness",
                False,
            ),
        ),
    ],
)
def test_observations(content, expected):
    result = observation(content)
    assert (result.output, result.exit_code, result.failed, result.fault, result.truncated) == expected


def test_what_is_no_observation():
    assert observation("Please always provide EXACTLY ONE action") is None


def test_the_task_is_cut_out_of_the_template():
    assert task_of("<pr>\nFix it\n</pr>\nNow go.", "<pr>\n{{ task }}\n</pr>\nNow go.") == "Fix it"
    assert task_of("Fix it", "") == "Fix it"
    assert task_of("Fix it", "{{task}}") == "Fix it"


def test_a_provider_fault_is_infrastructure(tmp_path):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "t"}]
    assert written(tmp_path, messages, exit_status="RateLimitError").outcome.fault == "infrastructure"


@pytest.mark.parametrize(
    "text", ["[]", "[1]", '[{"role": "user", "content": "hi"}]', '{"messages": []}', '{"info": {}}']
)
def test_what_is_not_mini_swe_agent(tmp_path, text):
    path = tmp_path / "x.traj.json"
    path.write_text(text)
    module = reader_of(Source(path))
    assert module is None or module.FORMAT != "mini-swe-agent"
