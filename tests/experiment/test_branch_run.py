"""Branch tests from end to end, real parts only but for the model: sandboxes, replays, servers, verifiers, policies.

The model is a script with a stated stochastic rule (see `branching`): this is a test of the machine, and says nothing about
any model. Since the rule is known, so is the effect at a point.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from misstep.experiment.branch import BranchDesign, analyse, find, forms
from misstep.experiment.branch import records as records_
from misstep.experiment.branch import run as runs
from misstep.experiment.branch.points import PointsError
from misstep.experiment.branch.rebuild import append, rows_of
from misstep.experiment.branch.run import Folder, RunError
from misstep.experiment.plan.design import Agent, Environment
from misstep.guard.portfolio import from_plain
from misstep.sandbox import native, roots
from misstep.sandbox.tasks import Task
from misstep.trajectory import atif_out
from misstep.trajectory.model import Call, Outcome, Result, Step, Trajectory
from misstep.trajectory.readers import read

HERE = Path(__file__).resolve().parent
MISSTEP = Path(sys.executable).with_name("misstep")


@pytest.fixture(scope="module")
def branching() -> Any:
    problem = native.problem()
    if problem:
        pytest.skip(problem)
    spec = importlib.util.spec_from_file_location("branching", HERE / "branching.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["branching"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCH_TEST_KEY", "none")


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="misstep-test-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        (Path(made) / "tasks").mkdir()
        (Path(made) / "recorded").mkdir()
        yield Path(made)


def design(settings: Path, **given: Any) -> BranchDesign:
    kwargs = {"models": str(settings), "steps": 30, "misstep": {"simulated": "a scripted model: a test of the machine"}}
    return BranchDesign(
        agent=Agent(forms.AGENT, kwargs=kwargs),
        environment=Environment("bubblewrap", kwargs={"root": "host", "end_session": True}, concurrency=2),
        **given,
    )


def recorded(branching: Any, folder: Path, settings: Path, tasks: list[Task], policy: str, each: int) -> Any:
    """Record attempts without a word, and find the points in them."""
    work = [(task, "baseline", number) for task in tasks for number in range(each)]
    asyncio.run(
        branching.attempts(settings, folder / "cache", roots.host(), work, policy, folder / "recorded", width=2)
    )
    plain = branching.plain_of(policy)
    found = find([folder / "recorded"], from_plain(plain), tasks)
    runs.save(folder / "branch", found, plain, {task.name: task.path for task in tasks})
    return found


def analysis(folder: Path, made: BranchDesign) -> Any:
    tests = Folder.read(folder / "branch")
    return analyse(
        tests.found,
        tests.records,
        tests.verdicts.known,
        arms=made.arms,
        contrast=made.contrast,
        continuations=made.continuations,
    )


@pytest.mark.slow
def test_the_known_effect_at_a_stop_with_live_processes(branching: Any, folder: Path) -> None:
    """Service persistence: what the policy is about lives in processes, so every branch is a replay of its own."""
    scripts = branching.service_tasks(folder / "tasks", 3)
    rule = branching.Rule(able=1.0, own=0.25, obeys=0.75, looks=0.4)
    with branching.model_for(folder / "tasks", scripts, rule, seed=5) as model:
        settings = model.settings(folder)
        tasks = [Task.load(folder / "tasks" / name) for name in scripts]
        found = recorded(branching, folder, settings, tasks, "service-persistence", 2)
        made = design(settings, continuations=4)
        outcome = asyncio.run(runs.run(folder / "branch", made))
    tests = Folder.read(folder / "branch")
    points = found.rebuildable
    assert 3 <= len(points) < 6  # with probability 1/4 an attempt detaches and probes by itself
    assert (outcome.end, outcome.recorded) == ("done", len(points) * 3 * 4)
    for verdict in tests.verdicts.known.values():
        assert verdict.grade == "exact" and verdict.verbatim and len(verdict.live) == 1
    assert all(one.replayed and one.fair for one in tests.records)
    said = analysis(folder, made)
    real, sham, less = (said.effect(*pair) for pair in (("real", "sham"), ("sham", "nothing"), ("real", "nothing")))
    print(f"rule {rule.at_point}; found {real.at_point}; within {real.p_within}")
    assert real.at_point.low <= rule.obeys <= real.at_point.high and real.p_within < 1e-3
    assert (sham.at_point.mean, sham.at_point.low, sham.at_point.high, sham.p_within) == (0, 0, 0, 1)
    assert less.at_point.mean == real.at_point.mean
    whole = said.effect("real", "sham", "service-persistence").per_attempt
    assert (
        whole.mean == pytest.approx(real.at_point.mean * len(points) / 6, abs=0.12) and whole.mean < real.at_point.mean
    )
    assert said.replayed == len(points) and said.simulated
    # the model was told what the arms say, and nothing else
    texts = Counter("real" if branching.REMEDY.search(text) else "sham" for text in model.texts)
    assert texts == {"real": len(points) * 4, "sham": len(points) * 4}
    assert said.arms["nothing"]["answers"] == 0
    obeyed = sum(one.behaviour is True for one in tests.records if one.arm == "real")
    assert obeyed == said.arms["real"]["passed"] == said.arms["real"]["behaviour"][0]
    one = next(record for record in tests.records if record.arm == "real" and record.passed)
    (trajectory,) = read(folder / "branch" / one.trajectory)
    assert trajectory.outcome.passed and branching.REMEDY.search("\n".join(step.message for step in trajectory.steps))


@pytest.mark.slow
def test_the_known_effect_at_a_denied_call_by_layers(branching: Any, folder: Path) -> None:
    """Database evidence: files only, so a branch is one more layer; the call is refused in one arm and runs in the others."""
    scripts: dict[str, Any] = {}
    for seed in (1, 2, 3):
        scripts |= branching.rescue_task(folder / "tasks", seed)
    rule = branching.Rule(obeys=0.7)
    with branching.model_for(folder / "tasks", scripts, rule, seed=4) as model:
        settings = model.settings(folder)
        tasks = [Task.load(folder / "tasks" / name) for name in scripts]
        found = recorded(branching, folder, settings, tasks, "database-evidence", 2)
        assert [(point.event, point.action) for point in found.points] == [("before", "deny")] * 6
        made = design(settings, continuations=5, arms=("real", "sham", "nothing", "always-real"))
        asyncio.run(runs.run(folder / "branch", made))
    tests = Folder.read(folder / "branch")
    assert not any(one.replayed for one in tests.records)
    assert {one.arm for one in tests.records} == {"real", "sham", "nothing"}  # always-real is real, in scope
    said = analysis(folder, made)
    real = said.effect("real", "sham").at_point
    print(f"rule {rule.obeys}; found {real}")
    assert real.low <= rule.obeys <= real.high and said.effect("real", "sham").p_within < 1e-4
    assert said.effect("sham", "nothing").at_point.mean == 0
    assert said.effect("real", "always-real").at_point.mean == 0
    nothing = next(one for one in tests.records if one.arm == "nothing")
    (trajectory,) = read(folder / "branch" / nothing.trajectory)
    shown = next(
        r for step in trajectory.steps for c in step.calls if "sqlite3" in c.command for r in step.results.values()
    )
    assert shown.exit_code == 0  # it ran
    refused = next(one for one in tests.records if one.arm == "real")
    (trajectory,) = read(folder / "branch" / refused.trajectory)
    shown = next(
        r for step in trajectory.steps for c in step.calls if "sqlite3" in c.command for r in step.results.values()
    )
    assert shown.fault == "refused" and "copy" in shown.output


def small(folder: Path, name: str = "serve") -> Task:
    """A task about a server whose verifier looks for a file."""
    path = folder / "tasks" / name
    for part in ("environment", "tests"):
        (path / part).mkdir(parents=True)
    (path / "instruction.md").write_text(f"Start a web server on port 8080 ({name}). It must be running at the end.")
    (path / "task.toml").write_text('schema_version = "1.4"\n[environment]\nmemory_mb = 512\n')
    (path / "environment/Dockerfile").write_text("FROM misstep-base:bookworm\nWORKDIR /app\n")
    (path / "tests/test.sh").write_text(
        "[ -e /app/done ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    )
    return Task.load(path)


def written(folder: Path, task: Task, *commands: tuple[str, str], name: str = "") -> None:
    """A record of our own loop: commands with what they showed, and a stop."""
    made = Trajectory(name or task.name, "atif", forms.AGENT, cwd="/app")
    made.steps = [Step("system", forms.SYSTEM), Step("user", task.instruction, prompt=True)]
    for number, (command, output) in enumerate(commands):
        call = Call(f"c{number}", "bash", "shell", {"command": command}, command)
        step = Step("agent", forms.proposed("Next.", command), calls=[call], stop=False, time=time.time() - 100)
        step.results = {call.id: Result(output, 0, False)}
        made.steps.append(step)
    made.steps.append(Step("agent", forms.proposed("", f"echo {forms.SUBMIT}"), stop=True))
    made.outcome = Outcome(False, 0.0, task.name, made.id)
    atif_out.write_file(made, folder / "recorded" / f"{made.id}.json")


SERVE = "python3 -m http.server 8080 > /dev/null 2>&1 &"


def saved(branching: Any, folder: Path, *tasks: Task) -> Any:
    plain = branching.plain_of("service-persistence")
    found = find([folder / "recorded"], from_plain(plain), list(tasks))
    runs.save(folder / "branch", found, plain, {task.name: task.path for task in tasks})
    return found


class Canned:
    """A chat model that answers every request with the same command, and counts."""

    def __init__(self, branching: Any, command: str = f"echo {forms.SUBMIT}", delay: float = 0.0) -> None:
        class Model(branching.ScriptedModel):
            def answer(self, messages: list[dict[str, str]]) -> str:
                with self.lock:
                    self.asked["all"] += 1
                time.sleep(delay)
                return f"Next.\n\n```bash\n{command}\n```"

        self.model = Model({}, branching.Rule())

    def __enter__(self) -> Any:
        return self.model.__enter__()

    def __exit__(self, *given: object) -> None:
        self.model.__exit__(*given)


def test_a_point_that_cannot_be_rebuilt_is_dropped_with_the_reason(branching: Any, folder: Path) -> None:
    task = small(folder)
    written(folder, task, ("date +%s%N", "1790000000000000000\n"), (SERVE, ""), name="clock")
    written(folder, task, ("echo 1; true", "2\n"), (SERVE, ""), name="lie")
    written(folder, task, (SERVE, ""), name="fine")
    saved(branching, folder, task)
    with Canned(branching, "touch /app/done; echo hello") as model:
        settings = model.settings(folder)
        made = design(settings, continuations=1, arms=("real", "nothing"), contrast=("real", "nothing"))
        made = replace(made, agent=Agent(forms.AGENT, kwargs={**made.agent.kwargs, "steps": 2}))
        outcome = asyncio.run(runs.run(folder / "branch", made))
        assert (outcome.recorded, outcome.end) == (2, "done")
    tests = Folder.read(folder / "branch")
    grades = {tests.attempt(p).id: tests.verdicts.known[p.id] for p in tests.found.points}
    assert grades["clock"].grade in ("different", "masked") and "date +%s%N" in grades["clock"].why
    assert grades["lie"].grade == "different" and grades["lie"].why.startswith("the output differs: echo 1")
    assert grades["fine"].grade == "exact" and grades["fine"].why == ""
    said = analysis(folder, made)
    assert sum(said.lost.values()) == 2 and said.funnel["rebuilt"] == 1
    ends = {one.arm: (one.termination, one.passed) for one in tests.records}
    assert ends == {"real": ("pass", True), "nothing": ("fail", False)}


def test_a_fault_of_the_model_is_replaced_and_never_a_failure(branching: Any, folder: Path) -> None:
    task = small(folder)
    written(folder, task, (SERVE, ""))
    saved(branching, folder, task)
    with Canned(branching) as model:
        made = design(model.settings(folder), continuations=1, arms=("real", "sham"))
        made = replace(made, environment=replace(made.environment, concurrency=1))
        model.broken = 2  # a try and its retry
        outcome = asyncio.run(runs.run(folder / "branch", made))
    assert (outcome.recorded, outcome.end) == (3, "done")
    tests = Folder.read(folder / "branch")
    bad = [one for one in tests.records if not one.fair]
    assert len(bad) == 1 and bad[0].termination == "invalid" and bad[0].passed is None and "the model" in bad[0].fault
    again = [one for one in tests.records if one.slot == bad[0].slot and one.fair]
    assert [one.candidate for one in again] == [2]
    said = analysis(folder, made)
    assert said.missing == 0 and said.faults == {"the model": 1}


def test_everything_broken_ends_the_run(branching: Any, folder: Path) -> None:
    task = small(folder)
    written(folder, task, (SERVE, ""))
    (task.path / "tests/test.sh").write_text("echo the verifier is broken\n")
    saved(branching, folder, task)
    with Canned(branching) as model:
        made = design(model.settings(folder), continuations=6)
        outcome = asyncio.run(runs.run(folder / "branch", made))
    assert outcome.end == "broken" and "the verifier of serve ended with 0 and no reward" in outcome.why
    assert 8 <= outcome.recorded <= 9


def test_a_changed_design_or_policy_is_refused(branching: Any, folder: Path) -> None:
    task = small(folder)
    written(folder, task, (SERVE, ""))
    saved(branching, folder, task)
    lock = folder / "branch" / runs.PORTFOLIO
    given = json.loads(lock.read_text())
    given["sources"][next(iter(given["sources"]))] = "0" * 64
    lock.write_text(json.dumps(given))
    with Canned(branching) as model, pytest.raises(RunError, match="changed since the points were found"):
        asyncio.run(runs.run(folder / "branch", design(model.settings(folder))))
    (folder / "branch" / records_.FILE).write_text("")
    with pytest.raises(PointsError, match="name a new folder"):
        saved(branching, folder, task)


def test_records_survive_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    append(path, {"a": 1}, "s", 1)
    append(path, {"a": 2}, "s", 1)
    whole = path.read_bytes()
    for cut in range(len(whole) - 8, len(whole)):
        path.write_bytes(whole[:cut])
        assert [row["a"] for _, row in rows_of(path, "s", 1)] == [1]
        append(path, {"a": 3}, "s", 1)
        assert [row["a"] for _, row in rows_of(path, "s", 1)] == [1, 3]
    path.write_text('{"schema":"s","version":1}\nnot json\n')
    with pytest.raises(PointsError, match=r"x.jsonl:2: expected a JSON object"):
        rows_of(path, "s", 1)


@pytest.mark.slow
def test_kill_9_and_go_on(branching: Any, folder: Path) -> None:
    """Killed again and again, at any moment: every continuation is there once at the end, none is made twice."""
    task = small(folder)
    written(folder, task, ("echo a", "a\n"), (SERVE, ""), name="one")
    written(folder, task, (SERVE, ""), name="two")
    saved(branching, folder, task)
    with Canned(branching, delay=0.15) as model:
        settings = model.settings(folder)
        command = [str(MISSTEP), "branch", "run", str(folder / "branch"), "--models", str(settings), "--root", "host",
                   "--continuations", "5", "--concurrency", "2", "--end-session"]  # fmt: skip
        killed = 0
        for number in range(40):
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
            )
            try:
                process.wait(timeout=2.5 + 0.37 * (number % 4))
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
        said, errors = process.communicate()
        assert process.returncode == 0, said + errors
        asked = model.asked["all"]
        again = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert again.returncode == 0 and again.stdout.startswith("0 continuations recorded")
        six = [*command[:8], "--continuations", "6", *command[10:]]
        other = subprocess.run([*command, "--arms", "real,sham"], capture_output=True, text=True, timeout=120)
        assert other.returncode == 2 and "arms was" in other.stderr
        tests = Folder.read(folder / "branch")
        more = subprocess.run(six, capture_output=True, text=True, timeout=120)
        assert more.returncode == 0 and more.stdout.startswith("6 continuations recorded"), more.stdout + more.stderr
    slots = Counter(one.slot for one in tests.records)
    assert killed >= 1 and len(slots) == 2 * 3 * 5 and set(slots.values()) == {1}
    assert all(one.fair and one.candidate == 1 for one in tests.records)
    # an answer is asked once for each continuation of the arms that say something, and what was in flight at a kill
    assert 20 <= asked <= 20 + 2 * killed
    print(f"killed {killed} times; {asked} answers for 20 continuations")


@pytest.mark.slow
def test_the_command_line(branching: Any, folder: Path) -> None:
    task = small(folder)
    written(folder, task, ("echo a", "a\n"), (SERVE, ""), name="one")
    (folder / "p.toml").write_text('[[policy]]\nid = "service-persistence"\n')

    def call(*words: object, code: int = 0) -> str:
        run = subprocess.run([str(MISSTEP), "branch", *map(str, words)], capture_output=True, text=True, timeout=120)
        assert run.returncode == code, run.stdout + run.stderr
        return run.stdout if not code else run.stderr

    tasks = ("--tasks", folder / "tasks", "--portfolio", folder / "p.toml")
    said = call("find", folder / "recorded", *tasks, "--out", folder / "branch")
    assert "1 points in 1 of 1 attempts" in said and "service-persistence" in said and "maybe" in said
    told = json.loads(call("find", folder / "recorded", *tasks, "--json"))
    assert told["points"][0]["event"] == "stop"
    said = call("verify", folder / "branch", "--root", "host")
    assert "branched by replay each time" in said and "1 of 1 points can be rebuilt" in said
    assert "agent.kwargs.models: missing" in call("run", folder / "branch", "--root", "host", code=2)
    with Canned(branching) as model:
        given = ("--models", model.settings(folder), "--root", "host", "--continuations", 2)
        (folder / "branch" / "branch.json").unlink()
        assert call("run", folder / "branch", *given, "--limit", 2).startswith("2 continuations recorded")
        assert call("run", folder / "branch", *given).startswith("4 continuations recorded")
    page = folder / "report.html"
    said = call("report", folder / "branch", "--html", page, "--json", folder / "a.json")
    assert "At 1 decision points of 1 tasks, real passes 0.0 points more than sham" in said
    assert "branched by" not in said and "What this cannot say" in said
    assert "misstep branch report" in page.read_text() and json.loads((folder / "a.json").read_text())["effects"]
    call("report", folder / "branch", "--html", page, "-q")
    (folder / "mine.html").write_text("<p>mine</p>")
    assert "is there already" in call("report", folder / "branch", "--html", folder / "mine.html", code=2)
    assert "no task in it" in call("find", folder / "recorded", "--tasks", folder / "recorded", code=2)
    assert "expected a folder of branch tests" in call("report", folder / "recorded", code=2)
