"""Harbor trial and job folders, with the result as Harbor's own models write it."""

import json
import random
import shutil
from pathlib import Path

import pytest

from misstep.trajectory import Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Unreadable, read, units

DATA = Path(__file__).parent / "data"
CHECKSUM = "c" * 64
START, END = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"
GRADED = {"rewards": {"reward": 1.0}}
RAN = {"started_at": START, "finished_at": END}


def result(**fields: object) -> dict:
    """A result.json by hand: what harbor 0.26 writes, less the config."""
    return {
        "schema_version": 1,
        "id": "11111111-2222-3333-4444-555555555555",
        "task_name": "greet",
        "trial_name": "greet__abc1234",
        "trial_uri": "file:///trials/greet__abc1234",
        "task_id": {"path": "tasks/greet"},
        "source": "made-up",
        "task_checksum": CHECKSUM,
        "agent_info": {"name": "terminus-2", "version": "2.0.0", "model_info": {"name": "m-1", "provider": "v"}},
        "agent_result": {"n_input_tokens": 0, "n_cache_tokens": 0, "n_output_tokens": 0, "cost_usd": 0.25},
        "verifier_result": GRADED,
        "exception_info": None,
        "started_at": START,
        "finished_at": "2026-01-02T03:10:05Z",
        "agent_execution": RAN,
        "step_results": None,
        **fields,
    }


def exception(name: str, message: str = "", **more: object) -> dict:
    return {"exception_type": name, "exception_message": message, "exception_traceback": "", "occurred_at": END, **more}


def trial(folder: Path, value: dict, trajectory: str | None = "summarized") -> Path:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(value))
    (folder / "config.json").write_text("{}")
    if trajectory:
        shutil.copytree(DATA / "atif" / trajectory, folder / "agent")
    return folder


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def test_a_trial_with_its_sub_agents(tmp_path):
    found = list(read(trial(tmp_path / "greet__abc1234", result())))
    main = found[0]
    assert (main.id, main.format, main.agent) == ("11111111-2222-3333-4444-555555555555", "atif", "terminus-2")
    assert [t.parent for t in found] == ["", main.id, main.id]
    assert [t.outcome is not None for t in found] == [True, False, False]
    outcome = main.outcome
    assert (outcome.passed, outcome.reward, outcome.fault, outcome.exception) == (True, 1.0, None, "")
    assert outcome.task == f"greet@{CHECKSUM}" and outcome.attempt == "greet__abc1234"
    assert (outcome.cost_usd, outcome.seconds, outcome.extra["dataset"]) == (0.25, 60.0, "made-up")
    assert [type(e) for e in events(main) if isinstance(e, (Prompt, Stop))] == [Prompt, Stop]


def test_continuations_in_a_trial_count_once(tmp_path):
    found = one(trial(tmp_path / "t", result(), "linear"))
    assert sum(len(s.calls) for s in found.steps if not s.copied) == 7


def test_a_result_alone_is_an_outcome_without_steps(tmp_path):
    found = one(trial(tmp_path / "t", result(verifier_result=None), None))
    assert (found.format, found.steps, found.agent, found.model) == ("harbor", [], "terminus-2", "m-1")
    assert (found.outcome.passed, found.outcome.reward, found.outcome.fault) == (None, None, None)


@pytest.mark.parametrize(
    ("rewards", "reward", "passed"),
    [
        ({"reward": 1}, 1.0, True),
        ({"reward": 0.0}, 0.0, False),
        ({"reward": 0.8}, 0.8, None),
        ({"accuracy": 1.0}, 1.0, True),
        ({"reward": 0, "accuracy": 1}, 0.0, False),
        ({"a": 1, "b": 0}, None, None),
        ({}, None, None),
        ({"reward": "1"}, None, None),
        ({"reward": True}, None, None),
    ],
)
def test_rewards(tmp_path, rewards, reward, passed):
    outcome = one(trial(tmp_path / "t", result(verifier_result={"rewards": rewards}), None)).outcome
    assert (outcome.reward, outcome.passed) == (reward, passed)


@pytest.mark.parametrize(
    ("name", "more", "fault", "passed"),
    [
        ("AgentTimeoutError", {}, None, True),
        ("NonZeroAgentExitCodeError", {"exception_message": "Command failed (exit 1): codex"}, None, True),
        (
            "NonZeroAgentExitCodeError",
            {"exception_message": "Command failed (exit 127): codex\nstdout: "},
            "never-ran",
            True,
        ),
        (
            "NonZeroAgentExitCodeError",
            {"exception_message": "Command failed (exit 1): x\nstdout: (exit 127)"},
            None,
            True,
        ),
        ("VerifierTimeoutError", {}, "infrastructure", None),
        ("RewardFileNotFoundError", {}, "infrastructure", None),
        ("EnvironmentStartTimeoutError", {}, "infrastructure", None),
        ("ApiRateLimitError", {}, "infrastructure", None),
        ("SomethingNewError", {}, None, True),
        ("SomethingNewError", {"policy": {"has_valid_reward": False}}, "infrastructure", None),
        ("VerifierTimeoutError", {"policy_override": {"has_valid_reward": True}}, None, True),
    ],
)
def test_exceptions(tmp_path, name, more, fault, passed):
    info = {**exception(name), **more}
    outcome = one(trial(tmp_path / "t", result(exception_info=info), None)).outcome
    assert (outcome.fault, outcome.passed, outcome.exception) == (fault, passed, name)


def test_a_failure_after_an_unknown_exception_is_unknown(tmp_path):
    failed = {"rewards": {"reward": 0}}
    for at, (info, passed) in enumerate(
        [
            (exception("SomethingNewError"), None),
            (exception("SomethingNewError", policy={"has_valid_reward": True}), None),
            (exception("SomethingNewError", policy_override={"has_valid_reward": True}), False),
            (exception("AgentTimeoutError"), False),
        ]
    ):
        outcome = one(trial(tmp_path / f"{at}", result(exception_info=info, verifier_result=failed), None)).outcome
        assert (outcome.passed, outcome.reward, outcome.fault) == (passed, 0.0, None)


def test_a_job_that_harbor_ran():
    found = {}
    for path in units([DATA / "harbor" / "job"]):
        try:
            for t in read(path):
                found[t.outcome.attempt.split("__")[0]] = t
        except Unreadable:
            continue
    got = {k: (t.outcome.passed, t.outcome.reward, t.outcome.fault, t.outcome.exception) for k, t in found.items()}
    assert got == {
        "good": (True, 1.0, None, ""),
        "bad": (False, 0.0, None, ""),
        "slow": (False, 0.0, None, "AgentTimeoutError"),
        "crash": (None, 0.0, None, "RuntimeError"),
        "noreward": (None, None, "infrastructure", "RewardFileNotFoundError"),
    }
    assert [(c.kind, c.command) for s in found["good"].steps for c in s.calls] == [
        ("shell", "printf hi > /app/greeting.txt")
    ]
    assert found["bad"].steps[1].results["c1"].exit_code == 1 and not found["slow"].steps[1].results
    assert [t.outcome.cost_usd for t in (found["good"], found["crash"])] == [0.01, None]
    assert 3.0 < found["slow"].outcome.seconds < 3.1
    assert sum(isinstance(e, Stop) for t in found.values() for e in events(t)) == 3


def test_an_agent_that_was_never_started(tmp_path):
    value = result(exception_info=exception("SomethingNewError"), agent_execution=None, verifier_result=None)
    assert one(trial(tmp_path / "t", value, None)).outcome.fault == "never-ran"


def test_a_run_that_was_not_graded_says_nothing_of_the_agent(tmp_path):
    value = result(exception_info=exception("SomethingNewError"), verifier_result=None)
    assert one(trial(tmp_path / "t", value, None)).outcome.fault == "infrastructure"
    timeout = result(exception_info=exception("AgentTimeoutError"), verifier_result=None)
    assert one(trial(tmp_path / "u", timeout, None)).outcome.fault is None


def test_a_trial_of_several_steps(tmp_path):
    parts = [
        {"step_name": "one", "agent_result": {"cost_usd": 0.1}, "verifier_result": GRADED, "exception_info": None},
        {
            "step_name": "two",
            "agent_result": {"cost_usd": 0.2},
            "verifier_result": {"rewards": {"reward": 0}},
            "exception_info": exception("AgentTimeoutError"),
        },
    ]
    folder = trial(tmp_path / "t", result(agent_result=None, verifier_result=None, step_results=parts), None)
    for name in ("one", "two"):
        (folder / "steps" / name / "agent").mkdir(parents=True)
        shutil.copy(DATA / "atif" / "timeout.json", folder / "steps" / name / "agent" / "trajectory.json")
    found = list(read(folder))
    assert [(t.outcome.task, t.outcome.passed, t.outcome.exception, t.outcome.cost_usd) for t in found] == [
        (f"greet@{CHECKSUM}:one", True, "", 0.1),
        (f"greet@{CHECKSUM}:two", False, "AgentTimeoutError", 0.2),
    ]
    assert len({t.id for t in found}) == 2


def test_session_files_serve_where_there_is_no_atif(tmp_path):
    folder = trial(tmp_path / "t", result(agent_info={"name": "mini-swe-agent", "version": "2"}), None)
    (folder / "agent" / "sessions").mkdir(parents=True)
    shutil.copy(DATA / "mini_swe_agent" / "v2_tools.traj.json", folder / "agent" / "sessions" / "x.json")
    shutil.copy(DATA / "mini_swe_agent" / "bare.traj.json", folder / "agent" / "printed.json")
    (folder / "agent" / "setup.txt").write_text("Installing\n")
    found = one(folder)
    assert found.agent_version == "2.4.6" and found.outcome.passed is True
    assert found.id == "11111111-2222-3333-4444-555555555555"


def test_a_session_of_claude_code_in_a_trial(tmp_path):
    folder = trial(tmp_path / "t", result(agent_info={"name": "claude-code", "version": "2"}), None)
    place = folder / "agent" / "sessions" / "projects" / "-app"
    place.mkdir(parents=True)
    shutil.copy(DATA / "claude" / "2.1.332.fail_then_ok.jsonl", place)
    main = next(t for t in read(folder) if not t.parent)
    assert (main.agent, main.id) == ("claude-code", "11111111-2222-3333-4444-555555555555")
    assert main.outcome.passed is True and any(s.calls for s in main.steps)


def test_atif_is_preferred_to_the_sessions_it_was_made_of(tmp_path):
    folder = trial(tmp_path / "t", result(), "linear")
    (folder / "agent" / "sessions").mkdir()
    shutil.copy(DATA / "mini_swe_agent" / "v2_tools.traj.json", folder / "agent" / "sessions" / "x.json")
    assert one(folder).format == "atif"


def test_a_job_is_walked_down_to_its_trials(tmp_path):
    job = tmp_path / "job"
    for at in range(3):
        value = result(id=f"id-{at}", trial_name=f"greet__{at}")
        trial(job / f"greet__{at}", value, "linear" if at else None)
    (job / "result.json").write_text(json.dumps({"id": "j", "stats": {"evals": {}}, "n_total_trials": 3}))
    (job / "config.json").write_text("{}")
    found = []
    for path in units([tmp_path]):
        try:
            found += list(read(path))
        except Unreadable:
            continue
    assert [t.id for t in found] == ["id-0", "id-1", "id-2"]
    assert [len(t.steps) > 0 for t in found] == [False, True, True]


def test_damaged_results_do_not_raise(tmp_path):
    value = result(
        agent_info=3,
        verifier_result=[],
        exception_info="x",
        step_results=[1, {"step_name": "../x"}],
        agent_execution="now",
    )
    assert one(trial(tmp_path / "t", value, None)).outcome.passed is None


def test_harbors_own_models_write_what_is_read(tmp_path):
    harbor = pytest.importorskip("harbor.models.trial.result")
    config = pytest.importorskip("harbor.models.trial.config")
    ids = pytest.importorskip("harbor.models.task.id")
    verifier = pytest.importorskip("harbor.models.verifier.result")
    context = pytest.importorskip("harbor.models.agent.context")
    timing = harbor.TimingInfo(started_at=START, finished_at=END)

    def build(**fields: object) -> dict:
        base: dict = {
            "task_name": "greet",
            "trial_name": "greet__abc1234",
            "trial_uri": "file:///x",
            "task_id": ids.LocalTaskId(path="tasks/greet"),
            "task_checksum": CHECKSUM,
            "config": config.TrialConfig(task=config.TaskConfig(path="tasks/greet")),
            "agent_info": harbor.AgentInfo(name="a", version="1", model_info=harbor.ModelInfo(name="m", provider="p")),
            "agent_result": context.AgentContext(n_input_tokens=7, n_output_tokens=3, cost_usd=0.5),
            "agent_execution": timing,
        }
        return json.loads(harbor.TrialResult(**{**base, **fields}).model_dump_json())

    def failed(name: str) -> object:
        return harbor.ExceptionInfo(exception_type=name, exception_message="m", exception_traceback="", occurred_at=END)

    graded = verifier.VerifierResult(rewards={"reward": 1.0})
    good = one(trial(tmp_path / "good", build(verifier_result=graded), None)).outcome
    assert (good.passed, good.reward, good.cost_usd, good.seconds, good.fault) == (True, 1.0, 0.5, 60.0, None)
    assert (good.task, good.extra["prompt_tokens"]) == (f"greet@{CHECKSUM}", 7)
    policy = pytest.importorskip("harbor.models.trial.error_policy")
    for at, (name, known) in enumerate(policy.ERROR_POLICIES.items()):
        value = build(verifier_result=graded, exception_info=failed(name))
        for key in ("with", "without"):
            if key == "without":
                value["exception_info"].pop("policy", None)
            outcome = one(trial(tmp_path / f"{at}-{key}", value, None)).outcome
            assert (outcome.fault == "infrastructure") is not known.has_valid_reward, name
            assert outcome.passed is (True if known.has_valid_reward else None), name


def test_any_damage_leaves_an_outcome(tmp_path):
    source = random.Random(5)
    junk: list = [None, 1, -1.5, True, "x", [], {}, [None], {"a": 1}, "\ud800", 10**400]

    def damaged(value: object) -> object:
        if source.random() < 0.1:
            return source.choice(junk)
        if isinstance(value, dict):
            return {k: damaged(v) for k, v in value.items() if source.random() > 0.05}
        return [damaged(v) for v in value] if isinstance(value, list) else value

    parts = [
        {
            "step_name": "one",
            "agent_result": {"cost_usd": 0.1},
            "verifier_result": GRADED,
            "exception_info": exception("X"),
        }
    ]
    whole = result(exception_info=exception("AgentTimeoutError"), step_results=parts)
    for at in range(200):
        value = {k: damaged(v) for k, v in whole.items()} | {
            "task_name": "greet",
            "trial_name": "t",
            "task_checksum": "c",
        }
        assert one(trial(tmp_path / f"{at}", value, None)).outcome.passed in (True, False, None)
