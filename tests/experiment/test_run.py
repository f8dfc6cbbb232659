"""A panel runs: real Harbor trials in real sandboxes, with the guard's real hooks, and an agent that costs nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("harbor", reason="Harbor is not installed (misstep[harbor])")

from misstep.cli._group import group
from misstep.cli.panel.run import span
from misstep.experiment import Attempt, fair, read_attempts
from misstep.experiment.plan import lock
from misstep.experiment.plan.design import Design
from misstep.experiment.plan.schedule import read_schedule
from misstep.experiment.runs import trials
from misstep.experiment.runs.archive import Archive, ArchiveError, read_lineage
from misstep.experiment.runs.progress import status_of
from misstep.experiment.runs.replacement import decided, following, rounds, settled
from misstep.experiment.runs.run import Runner
from misstep.experiment.runs.trials import RunError, Work
from misstep.sandbox import native

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def scripted() -> Any:
    """The module of this folder, under the name that designs import it by."""
    sys.path.insert(0, str(HERE))
    import scripted as found

    problem = native.problem()
    if problem:
        pytest.skip(problem)
    yield found
    sys.path.remove(str(HERE))


class Made:
    """A locked panel in a folder."""

    def __init__(self, folder: Path, scripted: Any) -> None:
        self.base, self.scripted = folder, scripted
        (folder / "tasks").mkdir()
        self.folder = folder / "panel"

    def task(self, name: str, instruction: str, **given: Any) -> Path:
        path: Path = self.scripted.small_task(self.base / "tasks", name, instruction, **given)
        return path

    def lock(self, **given: Any) -> None:
        path = self.scripted.hand_design(self.base, **given)
        lock.write(self.folder, path, lock.plan(Design.load(path)))

    def attempts(self) -> list[Attempt]:
        return read_attempts(self.folder / "attempts.jsonl")

    def lineage(self) -> list[dict[str, Any]]:
        return list(read_lineage(self.folder / "lineage.jsonl"))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`misstep panel run` as a process of its own."""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))}
        command = [sys.executable, "-c", "import sys; from misstep.cli import main; sys.exit(main())", "panel", "run"]
        return subprocess.Popen(
            [*command, str(self.folder), *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until(self, process: subprocess.Popen[str], what: Any, seconds: float = 60) -> None:
        """Wait for something to be so while a process runs."""
        end = time.monotonic() + seconds
        while not what():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.02)


@pytest.fixture
def made(tmp_path: Path, scripted: Any) -> Made:
    tmp_path.chmod(0o755)
    return Made(tmp_path, scripted)


PASS = "Make /app/done.\n$ touch /app/done\n"


# -- the whole, and what it leaves ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_slot_is_run_once_in_the_order_of_the_schedule(made: Made) -> None:
    made.task("one", PASS)
    made.task("two", "Make nothing.\n$ true\n")
    made.lock(arms=("baseline", "real", "sham"), concurrency=1)
    outcome = Runner(made.folder).run()
    assert (outcome.end, outcome.recorded, outcome.why, outcome.warnings) == ("done", 6, "", [])
    slots = read_schedule(made.folder / "schedule.jsonl")
    assert [a.slot for a in made.attempts()] == [slot.key for slot in slots]
    assert {(a.task, a.termination, a.passed) for a in made.attempts()} == {
        ("one", "pass", True),
        ("two", "fail", False),
    }
    assert all(
        a.candidate == 1 and a.trial == f"trials/{a.id}" and a.extra["guard"]["arms"] == [a.arm]
        for a in made.attempts()
    )
    decisions = [(tuple(d["slot"]), d["decision"], d["why"], d["rule"]) for d in made.lineage()]
    assert decisions == [(a.slot, "kept", a.termination, "first-fair/2") for a in made.attempts()]
    # nothing is left to do, and what the guard derives for itself is not kept
    assert Runner(made.folder).run().recorded == 0 and len(made.attempts()) == 6
    assert not list(made.folder.glob("trials/*/agent/misstep/guard/image-*"))
    found = status_of(made.folder)
    assert (found.settled, found.observed, found.running, found.left) == (6, 6, False, 0)
    assert found.arms == {"baseline": 2, "real": 2, "sham": 2}


@pytest.mark.slow
def test_what_is_no_observation_is_replaced_after_every_original(made: Made) -> None:
    """No reward, an exception that nobody explains, an environment that cannot be built: all are the machine's faults."""
    made.task("well", PASS)
    made.task("silent", PASS, reward=False)
    made.task("raises", PASS + "! raise\n")
    with (made.task("unbuilt", PASS) / "environment/Dockerfile").open("a") as file:
        file.write("RUN false\n")
    (made.task("unreadable", PASS) / "task.toml").write_text("[agent]\ntimeout_sec = 'long'\n")
    made.lock(arms=("baseline", "real"), concurrency=1, candidates=2)
    outcome = Runner(made.folder).run()
    assert outcome.recorded == 18  # 10 originals, and one more of each of 8
    rows = made.attempts()
    assert [a.candidate for a in rows] == [1] * 10 + [2] * 8
    assert {a.termination for a in rows if a.task == "well"} == {"pass"}
    others = [a for a in rows if a.task != "well"]
    assert all(not fair(a) and a.passed is None and a.fault for a in others), [(a.task, a.termination) for a in others]
    by_slot = [(d["slot"][0] == "well", d["candidate"], d["decision"]) for d in made.lineage()]
    assert Counter(by_slot) == {(True, 1, "kept"): 2, (False, 1, "replaced"): 8, (False, 2, "exhausted"): 8}
    found = status_of(made.folder)
    assert (found.settled, found.observed, found.exhausted) == (10, 2, 8)


@pytest.mark.slow
def test_a_guard_that_did_not_live_makes_an_attempt_invalid(made: Made) -> None:
    made.task("mute", PASS + "! no hooks\n")
    made.task("other", PASS + "! other arm\n")
    made.lock(arms=("baseline", "real"), candidates=1)
    Runner(made.folder).run()
    rows = {a.slot[:2]: a for a in made.attempts()}
    assert {a.termination for a in rows.values()} == {"invalid"}
    for arm in ("baseline", "real"):
        assert rows["mute", arm].fault == "the guard did not live: no log of a session"
        expected = f"the guard did not live: expected arm {arm!r} in the log's head, not 'reconsider'"
        assert rows["other", arm].fault == expected
        assert rows["mute", arm].extra["without_liveness"] == {"termination": "pass", "passed": True}


@pytest.mark.slow
def test_the_runtime_is_uploaded_where_nothing_can_be_mounted(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.task("one", PASS)
    made.lock(arms=("baseline", "real"), concurrency=1)
    monkeypatch.setattr(trials, "mounts", lambda given: False)
    Runner(made.folder).run()
    assert {(a.termination, a.fault) for a in made.attempts()} == {("pass", "")}
    assert all(a.extra["guard"]["before"] == 1 for a in made.attempts())


@pytest.mark.slow
def test_hooks_of_an_agent_that_is_not_root(made: Made) -> None:
    made.task("one", "Make /app/done.\n$ id -u > /tmp/done\n", user="1234", test="[ $(cat /tmp/done) = 1234 ]")
    made.lock(arms=("baseline", "real"), concurrency=1)
    Runner(made.folder).run()
    assert {(a.termination, a.fault) for a in made.attempts()} == {("pass", "")}
    for log in made.folder.glob("trials/*/agent/misstep/guard/sessions/*/*/log.jsonl"):
        assert os.access(log, os.R_OK)


@pytest.mark.slow
def test_a_runtime_that_does_not_start_is_no_fault_of_the_agents(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.task("one", PASS)
    made.lock(concurrency=1, candidates=1)
    with TemporaryDirectory(prefix="misstep-test-", dir="/var/tmp") as cache:
        Path(cache).chmod(0o755)
        monkeypatch.setenv("MISSTEP_RUNTIME_DIR", cache)
        runner = Runner(made.folder)
        loader = next(path for path in (runner.runtime.path / "lib").iterdir() if path.name.startswith("ld-"))
        loader.write_bytes(b"")
        runner.run()
    for attempt in made.attempts():
        assert attempt.termination == "invalid" and attempt.exception == "GuardSetupError", attempt
        assert "does not start in this container" in attempt.extra["exception_message"]


@pytest.mark.slow
def test_a_task_of_several_steps_has_its_arm_in_each(made: Made) -> None:
    path = made.task("several", PASS)
    for name in ("one", "two"):
        shutil.copytree(path / "tests", path / f"steps/{name}/tests")
        (path / f"steps/{name}/instruction.md").write_text(PASS)
    with (path / "task.toml").open("a") as file:
        file.write('[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n')
    made.lock(arms=("baseline", "sham"), concurrency=1)
    Runner(made.folder).run()
    for attempt in made.attempts():
        assert (attempt.termination, attempt.fault) == ("pass", "")
        logs = sorted((made.folder / attempt.trial).glob("steps/*/agent/misstep/guard/sessions/*/*/log.jsonl"))
        assert [json.loads(log.read_text().splitlines()[0])["arm"] for log in logs] == [attempt.arm] * 2


@pytest.mark.slow
def test_what_changes_while_a_panel_runs_is_told_at_its_end(made: Made) -> None:
    made.task("one", PASS)
    made.lock(concurrency=1)
    runner = Runner(made.folder)
    with (made.base / "portfolio.toml").open("a") as file:
        file.write('[[policy]]\nid = "database-evidence"\n')
    outcome = runner.run()
    assert outcome.end == "changed" and outcome.why.startswith("while the panel ran: "), outcome
    assert {a.extra["guard"]["arms"][0] for a in made.attempts()} == {"baseline", "real"}  # they ran on what was locked


@pytest.mark.slow
def test_a_run_in_which_everything_breaks_ends_by_itself(made: Made) -> None:
    for number in range(5):
        made.task(f"silent-{number}", PASS, reward=False)
    made.lock(arms=("baseline", "real"), concurrency=2)
    outcome = Runner(made.folder).run()
    assert outcome.end == "broken" and outcome.recorded in (8, 9) and "in a row" in outcome.why


# -- interruptions ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost_or_repeated(made: Made) -> None:
    for number in range(3):
        made.task(f"t{number}", PASS + "! sleep 1\n")
    made.lock(arms=("baseline", "real", "sham"), concurrency=2, candidates=3)
    begun = made.folder.glob
    for pause in (0.0, 0.5, 0.95, 1.3):
        before, process = len(list(begun("trials/*/begun"))), made.start()
        made.until(process, lambda before=before: len(list(begun("trials/*/begun"))) > before)
        time.sleep(pause)
        assert process.poll() is None
        process.kill()
        process.communicate()
    process = made.start()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    rows = made.attempts()
    keys = [(a.slot, a.candidate) for a in rows]
    assert len(keys) == len(set(keys))
    states = settled(
        read_schedule(made.folder / "schedule.jsonl"), rows, Design.load(made.base / "panel.toml").replacement
    )
    assert len(states) == 9 and all(state is not None for state in states.values())
    for attempt in rows:  # a candidate is an observation, or was killed at work; its folder is there
        assert fair(attempt) or "killed" in attempt.fault, attempt
        assert (made.folder / attempt.trial).is_dir()
    # every folder is somebody's: an attempt's, or dropped with a line about it
    dropped = {d["trial"] for d in made.lineage() if d["decision"] == "dropped"}
    assert {f"trials/{p.name}" for p in (made.folder / "trials").iterdir()} == {a.trial for a in rows} | dropped
    known = Counter((tuple(d["slot"]), d["candidate"]) for d in made.lineage() if d["decision"] != "dropped")
    assert known == Counter(keys)


@pytest.mark.slow
def test_a_trial_that_ended_without_its_record_is_recorded_and_not_run_again(made: Made) -> None:
    made.task("one", PASS)
    made.lock(concurrency=1)
    Runner(made.folder).run()
    path = made.folder / "attempts.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:40])  # killed while it wrote
    lineage = made.folder / "lineage.jsonl"
    lineage.write_text("".join(lineage.read_text().splitlines(keepends=True)[:-1]))
    before = {p.name: p.stat().st_mtime_ns for p in (made.folder / "trials").glob("*/result.json")}
    outcome = Runner(made.folder).run()
    assert (outcome.recorded, outcome.recovered) == (0, 1) and "cut short" in outcome.warnings[0]
    assert [json.loads(text) for text in path.read_text().splitlines()] == [json.loads(text) for text in lines]
    assert {p.name: p.stat().st_mtime_ns for p in (made.folder / "trials").glob("*/result.json")} == before
    assert [d["decision"] for d in made.lineage()] == ["kept", "kept"]


@pytest.mark.slow
def test_interrupted_what_ran_counts_as_not_run(made: Made) -> None:
    made.task("slow", PASS + "! sleep 30\n")
    made.task("slower", PASS + "! sleep 30\n")
    made.lock(concurrency=2)
    process = made.start()
    made.until(process, lambda: len(list((made.folder / "trials").glob("*/begun"))) == 2)
    found = status_of(made.folder)
    assert found.running and len(found.at_work) == 2 and all(one.agent for one in found.at_work)
    other = made.start()
    _, err = other.communicate(timeout=60)
    assert other.returncode == 2 and f"another run is at work here (process {process.pid})" in err
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - began < 15, err
    assert "interrupted: what was running counts as not run" in err and "Traceback" not in err
    assert made.attempts() == [] and [d["decision"] for d in made.lineage()] == ["dropped", "dropped"]
    assert sorted(p.name.rpartition(".")[2] for p in (made.folder / "trials").iterdir()) == ["dropped-1", "dropped-1"]
    assert status_of(made.folder).dropped == 2


@pytest.mark.slow
def test_a_limit_ends_a_run_and_the_next_goes_on(made: Made) -> None:
    made.task("one", PASS)
    made.lock(attempts=2, concurrency=2)
    assert Runner(made.folder, limit=3).run().end == "limit" and len(made.attempts()) == 3
    assert Runner(made.folder).run().recorded == 1 and len(made.attempts()) == 4


# -- the command line --------------------------------------------------------------------------------------------------------


def test_what_the_commands_say(made: Made) -> None:
    made.task("one", PASS)
    made.lock(arms=("baseline", "real", "sham"))
    runner = CliRunner()
    said = runner.invoke(group, ["panel", "status", str(made.folder)])
    assert said.exit_code == 0 and said.output.splitlines() == [
        "hand: a test of the machine",
        "0 of 3 slots settled (0%); no run is at work",
        "observed: baseline 0, real 0, sham 0",
    ]
    found = json.loads(runner.invoke(group, ["panel", "status", str(made.folder), "--json"]).output)
    assert (found["slots"], found["settled"], found["left"], found["at_work"]) == (3, 0, None, [])
    for command in ("run", "status"):
        said = runner.invoke(group, ["panel", command, str(made.base)])
        assert said.exit_code == 2 and "expected a panel's folder (misstep panel plan --out)" in said.output
    (made.folder / "attempts.jsonl").write_text('{"schema":"other"}\n')
    said = runner.invoke(group, ["panel", "status", str(made.folder)])
    assert said.exit_code == 2 and "attempts.jsonl:1: not a file of attempts" in said.output


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3725, "1:02:05")])
def test_a_length_of_time(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


# -- refusals ----------------------------------------------------------------------------------------------------------------


def test_a_changed_task_or_source_is_refused(made: Made) -> None:
    made.task("one", PASS)
    made.lock()
    with (made.base / "tasks/one/instruction.md").open("a") as file:
        file.write("More.\n")
    with pytest.raises(RunError, match=r"tasks/one changed since the lock was made"):
        Runner(made.folder)


def test_an_agent_that_has_no_place_for_the_guard_is_refused(made: Made) -> None:
    made.task("one", PASS)
    path = made.scripted.hand_design(made.base)
    path.write_text(path.read_text().replace("scripted:Hand", "gemini-cli"))
    lock.write(made.folder, path, lock.plan(Design.load(path)))
    with pytest.raises(RunError, match=r"the guard has no place in 'gemini-cli'"):
        Runner(made.folder)


def test_one_run_at_a_time(made: Made) -> None:
    made.task("one", PASS)
    made.lock()
    with Archive(made.folder), pytest.raises(ArchiveError, match="another run is at work"):
        Archive(made.folder)


# -- the rule ------------------------------------------------------------------------------------------------------------------


def test_the_chain_of_a_slot(made: Made) -> None:
    made.task("one", PASS)
    made.lock(candidates=3)
    panel = lock.read(made.folder)
    rule, slots = panel.design.replacement, panel.slots

    def row(at: int, candidate: int, termination: str) -> Attempt:
        task, arm, replicate = slots[at].key
        return Attempt(task=task, arm=arm, replicate=replicate, candidate=candidate, termination=termination, fault="f")

    def due(*rows: Attempt) -> list[tuple[int, int]]:
        return [(slot.at, candidate) for slot, candidate in next(rounds(slots, rows, rule), [])]

    assert due() == [(0, 1), (1, 1)]
    assert due(row(0, 1, "invalid")) == [(1, 1)]  # first every original
    assert due(row(0, 1, "invalid"), row(1, 1, "never-ran")) == [(0, 2), (1, 2)]
    assert due(row(0, 1, "invalid"), row(1, 1, "fail"), row(0, 2, "invalid")) == [(0, 3)]
    assert due(row(0, 1, "timeout"), row(1, 1, "crash")) == []
    gone = [row(0, n, "invalid") for n in (1, 2, 3)]
    assert due(*gone, row(1, 1, "pass")) == [] and following(gone, rule) == 0
    assert settled(slots, [*gone, row(1, 1, "pass")], rule) == {slots[0].key: False, slots[1].key: True}
    assert [decided(one, rule, "").decision for one in gone] == ["replaced", "replaced", "exhausted"]


def test_a_trials_name_tells_no_arm(made: Made) -> None:
    made.task("one", PASS)
    made.lock(arms=("baseline", "real", "sham"))
    names = [Work(slot, 1, 3).trial for slot in lock.read(made.folder).slots]
    assert len(set(names)) == 3 and all(n.startswith("one__") and len(n) == 14 for n in names)
    assert names == [Work(slot, 1, 3).trial for slot in lock.read(made.folder).slots]
