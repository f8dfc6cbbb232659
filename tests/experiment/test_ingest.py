"""Attempts of what people have: published outcomes, Harbor jobs, terminal-bench runs, tables of any kind."""

import importlib.util
import json
import random
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from misstep.cli import group
from misstep.experiment import AttemptsError, observed, read_attempts
from misstep.experiment.outcomes.ingest import Ingested, Options, ingest
from misstep.experiment.outcomes.places import Place
from misstep.stats import mean_pass_at_k

_spec = importlib.util.spec_from_file_location("misstep_tests_trials", Path(__file__).with_name("trials.py"))
trials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(trials)

DID = trials.steps("Greet the world.", "echo hello > /app/greeting.txt")


def read(*places: object, **options: object) -> Ingested:
    return ingest([p if isinstance(p, Place) else Place(Path(str(p))) for p in places], Options(**options))


def table(folder: Path, text: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# -- published outcomes --------------------------------------------------------------------------------------------------

PUBLISHED = {
    "20250902_orchestrator_qwen-3-coder-480B": (0.2725, 0.3575, 0.3875),
    "20250902_orchestrator_claude-4-sonnet": (0.4625, 0.5475, 0.575),
    "20250906_orchestrator_claude-4.1-opus": (0.48625, 0.56, 0.575),
}


@pytest.fixture(scope="module")
def outcomes(shared: Path) -> Ingested:
    return read(shared / "corpus/terminal-bench-v1/derived/outcomes.csv")


@pytest.mark.corpus
@pytest.mark.parametrize("arm", PUBLISHED)
def test_published_pass_at_k(outcomes: Ingested, arm: str) -> None:
    tasks = defaultdict(list)
    for (task, _, _), one in observed(a for a in outcomes.attempts if a.arm == arm).items():
        tasks[task].append(one is not None and bool(one.passed))
    counts = [(sum(passed), len(passed)) for passed in tasks.values()]
    assert len(counts) == 80 and {n for _, n in counts} == {5}
    for k, value in zip((2, 4, 5), PUBLISHED[arm], strict=True):
        assert mean_pass_at_k(counts, k) == pytest.approx(value, abs=1e-12)


@pytest.mark.corpus
def test_all_published_outcomes(outcomes: Ingested) -> None:
    found = outcomes.attempts
    assert len(found) == 5200 and len({a.arm for a in found}) == 13 and len({a.task for a in found}) == 80
    assert {a.replicate for a in found} == {1, 2, 3, 4, 5}
    assert len({a.slot for a in found}) == 5200
    # is_resolved is True 2,118 times, and never where the agent did not run
    assert sum(a.termination == "pass" for a in found) == sum(bool(a.passed) for a in found) == 2118
    assert sum(a.termination == "never-ran" for a in found) == 160
    assert not any(a.termination == "invalid" for a in found)
    # 418 rows have no verdict; 43 of those are of agents that never ran
    assert sum(a.passed is None for a in found) == 418
    assert sum(a.extra.get("no_verdict", False) for a in found) == 418 - 43
    assert outcomes.notes == ["375 attempts have no clear verdict; an analysis counts them as failures"]


@pytest.mark.corpus
def test_no_verdict_may_be_missing_instead(shared: Path) -> None:
    found = read(shared / "corpus/terminal-bench-v1/derived/outcomes.csv", ungraded="missing").attempts
    missing = [a for a in found if a.termination == "invalid"]
    assert len(missing) == 375 and all(a.passed is None and a.fault.startswith("no verdict: ") for a in missing)
    assert sum(a.termination == "never-ran" for a in found) == 160


# -- tables --------------------------------------------------------------------------------------------------------------


def test_any_table(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "task,arm,passed,seconds,cost_usd,output_tokens,model\n"
        "a,x,true,1.5,0.25,10,m\n"
        "a,x,0,,,,\n"
        "b,x,no,,,,\n"
        "a,y,Yes,,,,\n"
        "b,y,,,,,\n",
    )
    found = read(path)
    assert [(a.task, a.arm, a.replicate, a.termination, a.passed) for a in found.attempts] == [
        ("a", "x", 1, "pass", True),
        ("a", "x", 2, "fail", False),
        ("b", "x", 1, "fail", False),
        ("a", "y", 1, "pass", True),
        ("b", "y", 1, "invalid", None),
    ]
    first = found.attempts[0]
    assert (first.seconds, first.cost_usd, first.output_tokens, first.model) == (1.5, 0.25, 10, "m")
    assert found.attempts[-1].fault == "no verdict"
    assert found.notes == ["1 of 4 (task, arm) have another number of attempts than 1"]
    assert read(path, ungraded="failure").attempts[-1].termination == "fail"


def test_columns_by_other_names(tmp_path: Path) -> None:
    path = table(tmp_path, "Problem;x,setting,score\np,s,0.8\nq,s,1\n")
    with pytest.raises(AttemptsError, match=r"a.csv:1: no column for the task \(say which: --column task=NAME"):
        read(path)
    columns = {"task": "Problem;x", "arm": "setting", "reward": "score"}
    found = read(path, columns=columns).attempts
    assert [(a.task, a.termination, a.passed, a.reward) for a in found] == [
        ("p", "fail", None, 0.8),
        ("q", "pass", True, 1.0),
    ]
    assert [a.passed for a in read(path, columns=columns, passes=0.5).attempts] == [True, True]
    with pytest.raises(AttemptsError, match=r"a.csv:1: no column 'nope' \(there are Problem;x, setting, score\)"):
        read(path, columns={"task": "nope"})


def test_replicates_of_the_table_and_candidates(tmp_path: Path) -> None:
    text = "task,arm,passed,replicate,candidate,exception\na,x,,2,1,RateLimitError\na,x,1,2,2,\na,x,0,1,1,\n"
    found = read(table(tmp_path, text)).attempts
    assert [(a.replicate, a.candidate, a.termination) for a in found] == [
        (1, 1, "fail"),
        (2, 1, "invalid"),
        (2, 2, "pass"),
    ]
    with pytest.raises(AttemptsError, match="task 'a' in arm 'x' has two attempts with replicate 2, candidate 1"):
        read(table(tmp_path, text.replace("2,2,", "2,1,")))


def test_order_of_start(tmp_path: Path) -> None:
    text = "task,arm,passed,id,started\na,x,1,late,2026-01-02T00:00:00+01:00\na,x,1,early,2026-01-01T22:30:00Z\n"
    found = read(table(tmp_path, text)).attempts
    assert [(a.id, a.replicate, a.started) for a in found] == [
        ("early", 1, "2026-01-01T22:30:00Z"),
        ("late", 2, "2026-01-01T23:00:00Z"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.csv:1: an empty file; expected a header with task, arm and passed"),
        ("task,arm,passed\n", "a.csv: no row below the header"),
        ("task,arm,x\na,b,1\n", "a.csv:1: no column says what passed (--column passed=NAME; there are task, arm, x)"),
        ("task,passed\na,1\n", "a.csv:1: no column for the arm (say which: --column arm=NAME; there are task, passed)"),
        ("task,arm,passed\na,b,1\na,b,maybe\n", "a.csv:3: passed is true, false or empty, not 'maybe'"),
        ("task,arm,passed\na,b\n", "a.csv:2: 2 fields where the header has 3"),
        ("task,arm,passed\n,b,1\n", "a.csv:2: the task is empty"),
        ("task,arm,reward\na,b,inf\n", "a.csv:2: reward is a number, not 'inf'"),
        ("task,arm,passed,steps\na,b,1,2.5\n", "a.csv:2: steps is a whole number, not '2.5'"),
        ("task,arm,passed,replicate\na,b,1,0\n", "a.csv:2: replicate is a number from 1, not 0"),
        (
            "task,arm,termination\na,b,lost\n",
            "a.csv:2: termination 'lost' is none of pass, gave-up, fail, timeout, crash",
        ),
        (
            "task,arm,termination,passed\na,b,pass,0\n",
            "a.csv:2: termination 'pass', and it did not pass: they contradict each other",
        ),
        ("task,arm,task\na,b,c\n", "a.csv:1: two columns are named 'task'"),
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, text: str, said: str) -> None:
    table(tmp_path, text)
    done = CliRunner().invoke(group, ["panel", "ingest", str(tmp_path / "a.csv"), "--out", "-"])
    assert done.exit_code == 2 and done.output.count("\n") == 1, done.output
    assert said in done.output


@pytest.mark.slow
def test_a_hundred_thousand_rows(tmp_path: Path) -> None:
    rows = "".join(f"t{n % 500},arm{n % 5},{n % 3 == 0}\n" for n in range(100_000))
    table(tmp_path, f"task,arm,passed\n{rows}")
    began = time.process_time()
    done = CliRunner().invoke(group, ["panel", "ingest", str(tmp_path / "a.csv"), "--out", str(tmp_path / "o.jsonl")])
    assert done.exit_code == 0, done.output
    assert time.process_time() - began < 10
    assert len(read_attempts(tmp_path / "o.jsonl")) == 100_000


# -- jobs of Harbor ------------------------------------------------------------------------------------------------------


def job(folder: Path, count: int = 2, **fields: object) -> Path:
    """A job in which each of two tasks was tried so many times; the first attempt at `b` failed."""
    (folder / "job.log").parent.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"id": "j", "n_total_trials": 2 * count, "stats": {}}))
    (folder / "config.json").write_text(json.dumps({"job_name": folder.name}))
    for task in "ab":
        for n in range(count):
            value = 0.0 if (task, n) == ("b", 0) else 1.0
            started = f"2026-01-02T03:0{9 - n}:00Z"  # the last in the alphabet began first
            given = {"verifier_result": trials.reward(value), "started_at": started, **fields}
            trials.trial(folder / f"{task}__{n}", DID, task=task, **given)
    return folder


def config(**agent: object) -> dict:
    return {"task": {"path": "tasks/a"}, "trial_name": "x", "agent": {"name": "codex", **agent}}


def test_two_jobs_are_two_arms(tmp_path: Path) -> None:
    job(tmp_path / "jobs" / "before")
    job(tmp_path / "jobs" / "after")
    found = read(tmp_path / "jobs")
    assert [(a.arm, a.task, a.replicate, a.id, a.passed) for a in found.attempts if a.arm == "after"] == [
        ("after", "a", 1, "a__1", True),
        ("after", "a", 2, "a__0", True),
        ("after", "b", 1, "b__1", True),
        ("after", "b", 2, "b__0", False),
    ]
    assert {a.arm for a in found.attempts} == {"before", "after"} and len(found.attempts) == 8
    assert not found.notes
    assert found.attempts[0].trial == str(tmp_path / "jobs" / "after" / "a__1")
    # given one by one, and by names
    assert {a.arm for a in read(tmp_path / "jobs" / "before", tmp_path / "jobs" / "after").attempts} == {
        "before",
        "after",
    }
    named = read(Place(tmp_path / "jobs" / "before", "old"), tmp_path / "jobs" / "after")
    assert {a.arm for a in named.attempts} == {"old", "after"}


def test_the_arm_in_the_environment(tmp_path: Path) -> None:
    one = tmp_path / "one"
    job(one, config=config(env={"MISSTEP_ARM": "sham"}))
    trials.trial(one / "a__9", DID, task="a", config=config() | {"environment": {"env": {"MISSTEP_ARM": "real"}}})
    trials.trial(one / "b__9", DID, task="b", config=config())
    found = read(one)
    assert {a.id: a.arm for a in found.attempts if a.id.endswith("9")} == {"a__9": "real", "b__9": "one"}
    assert sum(a.arm == "sham" for a in found.attempts) == 4
    assert {a.arm for a in read(one, arm_from="job").attempts} == {"one"}
    assert {a.arm for a in read(one, arm_from="agent").attempts} == {"codex+v/m-1"}
    with pytest.raises(AttemptsError, match="b__9: no MISSTEP_ARM in its environment"):
        read(one, arm_from="env")
    assert "arm real lacks 1 of 2 tasks (b)" in found.notes


def test_the_arm_of_a_panels_own_trials(tmp_path: Path) -> None:
    """A panel says the arm to its agent's class, and not in the environment, which an agent may print."""
    for n, arm in enumerate(("real", "sham")):
        made = config(kwargs={"misstep": {"arm": arm, "runtime": "", "simulated": "a script"}})
        trials.trial(tmp_path / "panel" / "trials" / f"greet__{n}", config=made)
    assert [a.arm for a in read(tmp_path / "panel").attempts] == ["real", "sham"]
    assert {a.extra["simulated"] for a in read(tmp_path / "panel").attempts} == {"a script"}
    assert [a.arm for a in read(tmp_path / "panel", arm_from="env").attempts] == ["real", "sham"]
    assert {a.arm for a in read(tmp_path / "panel", arm_from="job").attempts} == {"trials"}


def test_a_table_tells_outcomes_and_no_more(tmp_path: Path) -> None:
    (found,) = read(table(tmp_path, "task,arm,passed\nt,a,1\n")).attempts
    assert found.extra == {"unrecorded": True}


def test_a_job_of_several_agents(tmp_path: Path) -> None:
    folder = job(tmp_path / "mixed")
    other = {"name": "claude-code", "version": "2", "model_info": None}
    trials.trial(folder / "a__8", DID, task="a", agent_info=other)
    assert {a.arm for a in read(folder).attempts} == {"codex+v/m-1", "claude-code"}


def test_versions_of_a_task_are_not_paired(tmp_path: Path) -> None:
    job(tmp_path / "before")
    job(tmp_path / "after", task_checksum="d" * 64)
    found = read(tmp_path)
    assert {(a.arm, a.task) for a in found.attempts} == {
        ("before", "a@cccccccc"), ("before", "b@cccccccc"), ("after", "a@dddddddd"), ("after", "b@dddddddd"),
    }  # fmt: skip
    assert found.notes[0].startswith("2 tasks have several versions (a, b); each version is a task of its own")
    assert {a.task for a in read(tmp_path, versions="together").attempts} == {"a", "b"}


def test_tasks_of_attempts_without_a_record(tmp_path: Path) -> None:
    """Who takes a task is told by its text, where that is on this machine; what state there was is not."""
    (tmp_path / "task").mkdir()
    text = "Start a web server. It must be running, and reachable on port 8077, when your session has ended."
    (tmp_path / "task" / "instruction.md").write_text(text)
    given = {"task": {"path": str(tmp_path / "task")}, "trial_name": "a__1"}
    trials.trial(tmp_path / "one" / "a__1", None, config=given)
    (found,) = read(tmp_path / "one").attempts
    assert "service-persistence" in found.eligible and found.extra["unrecorded"] is True
    run(tmp_path / "run", [row("a.1-of-1", True, instruction=text)], True)
    (found,) = read(tmp_path / "run").attempts
    assert "service-persistence" in found.eligible and found.extra["unrecorded"] is True


def test_what_did_not_end_and_what_never_ran(tmp_path: Path) -> None:
    folder = job(tmp_path / "jobs" / "one", exception_info=trials.exception("RateLimitError"))
    (folder / "b__0" / "result.json").unlink()
    found = {a.id: a for a in read(folder).attempts}
    assert {a.termination for a in found.values()} == {"invalid"} and len(found) == 4
    assert found["b__0"].task == "b" and found["b__0"].fault == "no result.json: the trial did not end"
    assert found["a__0"].fault == "infrastructure: RateLimitError"


def test_a_portfolio_of_ones_own(tmp_path: Path) -> None:
    folder = job(tmp_path / "one")
    (tmp_path / "p.toml").write_text('[[policy]]\nid = "service-persistence"\n')
    assert {a.eligible for a in read(folder).attempts} == {("blocking-foreground",)}
    assert {a.eligible for a in read(folder, portfolio=str(tmp_path / "p.toml")).attempts} == {()}
    (tmp_path / "p.json").write_text("{}")
    words = ["panel", "ingest", str(folder), "--out", "-", "--portfolio", str(tmp_path / "p.json")]
    done = CliRunner().invoke(group, words)
    assert done.exit_code == 2 and "p.json: " in done.output and done.output.count("\n") == 1


def test_many_trials_in_several_processes(tmp_path: Path) -> None:
    folder = job(tmp_path / "one", count=9)
    for n in range(9, 20):
        trials.trial(folder / f"a__{n}", DID, task="a")
    one, several = read(folder, workers=1), read(folder, workers=2)
    assert one.attempts == several.attempts and len(one.attempts) == 29


def test_a_file_of_attempts_and_more(tmp_path: Path) -> None:
    folder = job(tmp_path / "one")
    from misstep.experiment import write_attempts

    write_attempts(tmp_path / "old.jsonl", read(folder).attempts)
    again = read(tmp_path / "old.jsonl")
    assert again.attempts == read(folder).attempts
    renamed = read(Place(tmp_path / "old.jsonl", "x")).attempts
    assert renamed == [replace(a, arm="x") for a in again.attempts]
    # added to what is there, replicates count on
    both = read(tmp_path / "old.jsonl", folder).attempts
    assert [a.replicate for a in both if a.task == "a"] == [1, 2, 3, 4]
    # a panel's own order of candidates stays
    with pytest.raises(AttemptsError, match="has two attempts with replicate 1, candidate 1"):
        read(tmp_path / "old.jsonl", tmp_path / "old.jsonl")


def changed(draw: random.Random, value: Any) -> Any:
    """The value with some of its parts replaced by others or left out."""
    if draw.random() < 0.12:
        return draw.choice(
            [None, 1, -1, 0.5, True, "x", "", [], {}, [1], {"a": 1}, [{"exception_type": 3}], float("inf")]
        )
    if isinstance(value, dict):
        return {key: changed(draw, one) for key, one in value.items() if draw.random() > 0.03}
    return [changed(draw, one) for one in value] if isinstance(value, list) else value


def test_damaged_results_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    draw = random.Random(3)
    several = [{"step_name": "one", "agent_result": {"n_output_tokens": 3}}]
    for number in range(150):
        folder = trials.trial(
            tmp_path / f"{number}" / "a__1",
            DID,
            step_results=several if number % 3 else None,
            exception_info=trials.exception("FooError") if number % 2 else None,
        )
        for name in ("result.json", "agent/trajectory.json"):
            whole = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps(changed(draw, whole)))
        try:
            found = read(folder.parent, workers=1)
        except AttemptsError as error:
            assert "no trial of Harbor" in str(error)
            continue
        json.dumps([one.plain() for one in found.attempts])


# -- runs of terminal-bench v1 -------------------------------------------------------------------------------------------


def run(folder: Path, rows: list[dict], folders: bool) -> Path:
    """A run with its metadata; trials in folders of their own or in the run's results.json alone."""
    folder.mkdir(parents=True)
    (folder / "run_metadata.json").write_text(json.dumps({"run_id": folder.name, "agent_name": "x", "model_name": "m"}))
    (folder / "results.json").write_text(json.dumps({"results": rows}))
    for row in rows if folders else ():
        own = folder / row["task_id"] / row["trial_name"]
        own.mkdir(parents=True)
        (own / "results.json").write_text(json.dumps(row))
    return folder


def row(name: str, resolved: bool | None, mode: str = "unset", **more: object) -> dict:
    task = name.partition(".")[0]
    given = {"trial_name": name, "task_id": task, "instruction": f"Do {task}.", "is_resolved": resolved}
    return {"uuid": name, "failure_mode": mode, "parser_results": None, **given} | more


ROWS = [
    row("a.1-of-2", True, total_input_tokens=100, total_output_tokens=7),
    row("a.2-of-2", False, "agent_timeout"),
    row("b.1-of-2", True, "agent_timeout"),
    row("b.2-of-2", None, "test_timeout"),
    row("c.1-of-2", None, "unknown_agent_error"),
    row("c.2-of-2", None, "agent_installation_failed"),
]
ENDS = {
    "a.1-of-2": ("pass", True),
    "a.2-of-2": ("timeout", False),
    "b.1-of-2": ("pass", True),
    "b.2-of-2": ("fail", None),
    "c.1-of-2": ("crash", None),
    "c.2-of-2": ("never-ran", None),
}


@pytest.mark.parametrize("folders", [True, False])
def test_a_run_of_terminal_bench(tmp_path: Path, folders: bool) -> None:
    found = read(run(tmp_path / "run-1", ROWS, folders)).attempts
    assert {a.id: (a.termination, a.passed) for a in found} == ENDS
    assert {(a.arm, a.agent, a.model) for a in found} == {("run-1", "x", "m")}
    assert {a.task: a.replicate for a in found} == {"a": 2, "b": 2, "c": 2}
    by_id = {a.id: a for a in found}
    assert by_id["b.1-of-2"].extra["passed_after_timeout"] is True
    assert (by_id["a.1-of-2"].input_tokens, by_id["a.1-of-2"].output_tokens) == (100, 7)
    missing = {a.id: a.termination for a in read(tmp_path, ungraded="missing").attempts}
    assert (missing["b.2-of-2"], missing["c.1-of-2"], missing["c.2-of-2"]) == ("invalid", "invalid", "never-ran")


def test_the_same_from_the_folder_and_from_the_table(tmp_path: Path) -> None:
    run(tmp_path / "run-1", ROWS, True)
    lines = [f"run-1,{r['task_id']},{r['trial_name']},{'' if r['is_resolved'] is None else r['is_resolved']},{r['failure_mode']}" for r in ROWS]  # fmt: skip
    path = table(tmp_path, "\n".join(["config,task_id,trial_name,is_resolved,failure_mode", *lines]) + "\n")
    told = {(a.id, a.arm, a.task, a.replicate, a.termination, a.passed) for a in read(path).attempts}
    assert told == {
        (a.id, a.arm, a.task, a.replicate, a.termination, a.passed) for a in read(tmp_path / "run-1").attempts
    }


# -- the command ---------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    job(tmp_path / "before")
    job(tmp_path / "after")
    out = tmp_path / "attempts.jsonl"
    words = ["panel", "ingest", str(tmp_path / "before"), "--arm", f"new={tmp_path / 'after'}", "--out", str(out)]
    done = CliRunner().invoke(group, words)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "arm     tasks  attempts  pass  fail",
        "before      2         4     3     1",
        "new         2         4     3     1",
        f"8 attempts are in {out}",
    ]
    assert {a.arm for a in read_attempts(out)} == {"before", "new"}
    again = CliRunner().invoke(group, words)
    assert (again.exit_code, again.output) == (2, f"Error: {out} is there already (--force replaces it)\n")
    assert CliRunner().invoke(group, [*words, "--force"]).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to read: give PATHS, or --arm NAME=PATH"),
        (["nosuch"], "nosuch: no such file or folder"),
        (["."], ".: no trial of Harbor and no run of terminal-bench in it"),
        (["--arm", "x"], "'x' is not of the form --arm NAME=PATH"),
        (["nosuch", "--column", "x=y"], "--column x=...: it is one of task, arm, passed"),
        (["nosuch", "--gave-up", "("], "'(' is no regular expression: "),
        (["a.json"], "a.json: expected a result of Harbor or of terminal-bench v1"),
        (["a.jsonl"], "a.jsonl:1: not a file of attempts"),
    ],
)
def test_requests_that_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    done = CliRunner().invoke(group, ["panel", "ingest", *words, "--out", "-"])
    assert done.exit_code == 2 and said in done.output and done.output.count("\n") == 1, done.output


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    file = table(tmp_path, "task,arm,passed\nt,a,1\n")
    (tmp_path / "out").mkdir()  # a file cannot take the place of a folder
    done = CliRunner().invoke(group, ["panel", "ingest", str(file), "--force", "--out", str(tmp_path / "out")])
    assert (done.exit_code, done.output) == (2, f"Error: {tmp_path}/out: Is a directory\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "out"]
    done = CliRunner().invoke(group, ["panel", "ingest", str(file), "--pass-at", "nan", "--out", "-"])
    assert (done.exit_code, done.output) == (2, "Error: --pass-at nan: expected a finite number\n")
