"""How an attempt ended: every class of exception in Harbor's own policy, rewards between, last words, lost records."""

import importlib.util
import json
from pathlib import Path

import pytest

from misstep.experiment import Attempt, AttemptsError, fair
from misstep.experiment.outcomes.classify import attempt_of
from misstep.experiment.outcomes.words import said_so

_spec = importlib.util.spec_from_file_location("misstep_tests_trials", Path(__file__).with_name("trials.py"))
trials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(trials)

DID = trials.steps("Greet the world in /app/greeting.txt.", "echo hello > /app/greeting.txt")


def ended(folder: Path, recorded=DID, more=None, **fields: object) -> Attempt:
    """The attempt of a trial whose result has these fields."""
    trials.trial(folder / "greet__abc", recorded, **fields)
    return attempt_of(folder / "greet__abc", task="greet", arm="real", **(more or {}))


def test_a_pass_with_all_that_is_known(tmp_path: Path) -> None:
    found = ended(tmp_path, more={"root": tmp_path, "replicate": 2, "candidate": 3})
    assert (found.termination, found.passed, found.reward, found.fault) == ("pass", True, 1.0, "")
    assert found.slot == ("greet", "real", 2) and found.candidate == 3
    assert (found.id, found.trial) == ("greet__abc", "greet__abc")
    assert (found.agent, found.agent_version, found.model) == ("codex", "1.0", "v/m-1")
    assert (found.started, found.seconds, found.total_seconds) == ("2026-01-02T03:04:05Z", 60.0, 360.0)
    assert (found.input_tokens, found.cached_tokens, found.output_tokens, found.cost_usd) == (100, 40, 10, 0.25)
    assert found.steps == 2
    assert found.extra["checksum"] == trials.CHECKSUM
    json.dumps(found.plain())


def test_what_the_helper_writes_is_what_harbor_reads(tmp_path: Path) -> None:
    pytest.importorskip("harbor")
    from harbor.models.trial.result import TrialResult

    trials.trial(tmp_path / "t__1", DID, exception_info=trials.exception("AgentTimeoutError"))
    TrialResult.model_validate_json((tmp_path / "t__1" / "result.json").read_text())


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_harbors_error_policy(tmp_path: Path, value: float) -> None:
    """After every exception that Harbor knows, a reward counts if and only if Harbor holds it for valid."""
    pytest.importorskip("harbor")
    from harbor.models.trial.error_policy import ERROR_POLICIES

    assert len(ERROR_POLICIES) > 40
    for name, policy in ERROR_POLICIES.items():
        found = ended(tmp_path / name, exception_info=trials.exception(name), verifier_result=trials.reward(value))
        assert fair(found) == policy.has_valid_reward, name
        if not fair(found):
            assert (found.termination, found.passed) == ("invalid", None) and name in found.fault, name
        elif value:
            after = "timeout" if name == "AgentTimeoutError" else "crash"
            assert (found.termination, found.extra[f"passed_after_{after}"]) == ("pass", True)
        else:
            assert found.passed is False and found.termination in ("timeout", "crash", "gave-up"), name


@pytest.mark.parametrize(
    ("name", "termination"),
    [
        ("AgentTimeoutError", "timeout"),
        ("NonZeroAgentExitCodeError", "crash"),
        ("ContextWindowExceededError", "crash"),
        ("AgentSafetyRefusalError", "gave-up"),
    ],
)
def test_the_agents_own_ends(tmp_path: Path, name: str, termination: str) -> None:
    found = ended(tmp_path, exception_info=trials.exception(name), verifier_result=trials.reward(0.0))
    assert (found.termination, found.passed, found.exception) == (termination, False, name)


@pytest.mark.parametrize("value", [0.0, 1.0, None])
def test_an_exception_that_nobody_explains(tmp_path: Path, value: float | None) -> None:
    """A failure after it may be its doing; and a pass is not counted alone. The user may say that it is the agent's own."""
    fields = {"exception_info": trials.exception("FooError"), "verifier_result": trials.reward(value)}
    found = ended(tmp_path / "a", **fields)
    assert (found.termination, found.passed, found.reward) == ("invalid", None, value)
    assert "FooError" in found.fault
    own = ended(tmp_path / "b", more={"own": ["FooError"]}, **fields)
    expected = {0.0: ("crash", False), 1.0: ("pass", True), None: ("invalid", None)}[value]
    assert (own.termination, own.passed) == expected


def test_the_users_policy_for_an_exception_counts(tmp_path: Path) -> None:
    override = trials.exception("FooError", policy_override={"has_valid_reward": True})
    found = ended(tmp_path, exception_info=override, verifier_result=trials.reward(0.0))
    assert (found.termination, found.passed) == ("crash", False)


def test_a_timeout_with_most_of_a_reward_is_no_pass(tmp_path: Path) -> None:
    fields = {"exception_info": trials.exception("AgentTimeoutError"), "verifier_result": trials.reward(0.8)}
    found = ended(tmp_path / "a", **fields)
    assert (found.termination, found.passed, found.reward) == ("timeout", None, 0.8)
    low = ended(tmp_path / "b", more={"passes": 0.9}, **fields)
    assert (low.termination, low.passed) == ("timeout", False)
    enough = ended(tmp_path / "c", more={"passes": 0.75}, **fields)
    assert (enough.termination, enough.passed, enough.extra["passed_after_timeout"]) == ("pass", True, True)


def test_no_reward_is_the_verifiers_fault(tmp_path: Path) -> None:
    found = ended(tmp_path, verifier_result=None)
    assert (found.termination, found.passed, found.fault) == ("invalid", None, "no reward")


PROMPT_ONLY = trials.steps("Greet the world.", last="")


@pytest.mark.parametrize(
    ("recorded", "fields"),
    [
        (PROMPT_ONLY, {}),
        (None, {"agent_result": {"n_input_tokens": 0, "n_output_tokens": 0}}),
        (None, {"exception_info": trials.exception("NonZeroAgentExitCodeError", "Command failed (exit 127): codex")}),
        (None, {"exception_info": trials.exception("RuntimeError"), "agent_execution": None}),
    ],
    ids=["a session that is only a prompt", "no tokens", "no such program", "not started"],
)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_agent_never_ran(tmp_path: Path, recorded, fields: dict, value: float) -> None:
    """Whatever the verifier says: what counts does not hang on how it ended."""
    given = {"agent_result": None, "verifier_result": trials.reward(value), **fields}
    found = ended(tmp_path, recorded, **given)
    assert (found.termination, found.passed) == ("never-ran", bool(value))
    assert found.fault.startswith("the agent never ran") and found.steps is None


@pytest.mark.parametrize(("value", "termination"), [(0.0, "fail"), (1.0, "pass")])
def test_an_agent_that_leaves_no_record_is_judged_by_the_verifier(
    tmp_path: Path, value: float, termination: str
) -> None:
    found = ended(tmp_path, None, agent_result=None, verifier_result=trials.reward(value))
    assert (found.termination, found.steps) == (termination, None)


def test_a_lost_record_is_no_agent_that_never_ran(tmp_path: Path) -> None:
    found = ended(tmp_path, PROMPT_ONLY, verifier_result=trials.reward(0.0))
    assert found.output_tokens == 10 and found.termination == "fail"


def test_a_trial_that_did_not_end(tmp_path: Path) -> None:
    (tmp_path / "greet__abc").mkdir()
    found = attempt_of(tmp_path / "greet__abc", task="greet", arm="real")
    assert (found.termination, found.fault) == ("invalid", "no result.json: the trial did not end")
    (tmp_path / "greet__abc" / "result.json").write_text('{"trial_name": "gre')
    found = attempt_of(tmp_path / "greet__abc", task="greet", arm="real")
    assert (found.termination, found.fault) == ("invalid", "result.json cannot be read")
    with pytest.raises(AttemptsError, match="nowhere: no folder of a trial"):
        attempt_of(tmp_path / "nowhere", task="greet", arm="real")


def test_steps_of_a_task_with_several(tmp_path: Path) -> None:
    """A fault in one step is one of the whole trial."""
    step = {"step_name": "one", "exception_info": trials.exception("RateLimitError"), "agent_result": None}
    found = ended(tmp_path, step_results=[step], verifier_result=trials.reward(0.0))
    assert (found.termination, found.fault) == ("invalid", "infrastructure: RateLimitError")


GAVE_UP = [
    "I was unable to complete the task.",
    "I'm sorry, but I could not solve this challenge in the time.",
    "I couldn't fully complete the requested task because the network is down.",
    "All I tried failed.\n\nThe task could not be completed: there is no compiler.",
    "The task remains incomplete.",
    "The task is not complete.",
    "I have to give up.",
    "Unfortunately we were not able to finish the job",
    "I wasn\N{RIGHT SINGLE QUOTATION MARK}t able to complete the task.",
    "I have not been able to solve the puzzle.",
    "I cannot complete this request.",
    "I failed to complete the task.",
    "This task can't be done without root.",
]
DID_NOT = [
    "The task is complete.",
    "If I cannot complete the task I will say so.",
    "I could not run the commands here, but the script is there. The task is now complete.",
    "Initially I could not complete the task, then it worked.",
    "It prints `I could not complete the task` at the end.",
    "```\nI could not complete the task.\n```\nThat is what the log said; it is mended.",
    "> I could not complete the task\nwas what the former owner wrote.",
    "The parser raises NotFinished when a task was not completed.",
    "I could not find one of the files; all else is done.",
    "The script retries and then gives up after 3 attempts. Never give up!",
    "We canned the task.",
    "",
]


@pytest.mark.parametrize("message", GAVE_UP)
def test_last_words_that_give_up(message: str) -> None:
    assert said_so(message)


@pytest.mark.parametrize("message", DID_NOT)
def test_last_words_that_do_not(message: str) -> None:
    assert not said_so(message)


def test_giving_up_is_a_failure_that_was_said(tmp_path: Path) -> None:
    said = trials.steps("Greet.", "ls", last="I could not complete the task.")
    gave_up = ended(tmp_path / "a", said, verifier_result=trials.reward(0.0))
    assert (gave_up.termination, gave_up.passed) == ("gave-up", False)
    passed = ended(tmp_path / "b", said)
    assert passed.termination == "pass"
    late = ended(
        tmp_path / "c", said, verifier_result=trials.reward(0.0), exception_info=trials.exception("AgentTimeoutError")
    )
    assert late.termination == "timeout"
    # words in the middle of the work are not the last ones
    going_on = trials.steps("Greet.", last="I could not complete the task.") + trials.steps("", "ls", last="")[1:]
    for number, step in enumerate(going_on, 1):
        step["step_id"] = number
    assert ended(tmp_path / "d", going_on, verifier_result=trials.reward(0.0)).termination == "fail"


def test_the_designs_own_rule_for_giving_up(tmp_path: Path) -> None:
    said = trials.steps("Greet.", "ls", last="NO WAY")
    fields = {"recorded": said, "verifier_result": trials.reward(0.0)}
    assert ended(tmp_path / "a", **fields).termination == "fail"
    assert ended(tmp_path / "b", more={"gave_up": ["no way$"]}, **fields).termination == "gave-up"
    # in the place of ours
    ours = trials.steps("Greet.", "ls", last="I give up.")
    found = ended(tmp_path / "c", ours, more={"gave_up": ["no way"]}, verifier_result=trials.reward(0.0))
    assert found.termination == "fail"
