"""Candidates for policies: alignment against a slow oracle, cases and clusters of known content, real pairs through Harbor."""

import importlib.util
import itertools
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from misstep.cli import group
from misstep.experiment import AttemptsError
from misstep.experiment.derive import align as aligning
from misstep.experiment.derive.align import align, diverge, key_of, moves
from misstep.experiment.derive.derivation import derive, write
from misstep.trajectory import Call
from misstep.trajectory.readers import read

_spec = importlib.util.spec_from_file_location("misstep_tests_trials", Path(__file__).with_name("trials.py"))
trials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(trials)

CHECKOUT = Path(__file__).resolve().parents[2]
SERVE = "Start a web server on port 8077. It must be running, and reachable on that port, when your session has ended."
LOOK = ("ls /app", 0, "app.py")
WRITE = "cat > /app/app.py <<'EOF'\nprint(1)\nEOF"
ATTACHED = "python3 -m http.server 8077 &"
DETACHED = "setsid python3 -m http.server 8077 > /tmp/log 2>&1 < /dev/null &"
PROBE = ("curl -s http://127.0.0.1:8077/", 0, "<html>")


# -- alignment -----------------------------------------------------------------------------------------------------------


def longest(a: list[int], b: list[int]) -> int:
    """By trying every subsequence of a."""
    for size in range(len(a), 0, -1):
        for places in itertools.combinations(range(len(a)), size):
            rest = iter(b)
            if all(a[at] in rest for at in places):
                return size
    return 0


def test_alignment_is_a_longest_common_subsequence() -> None:
    draw = random.Random(1)
    for _ in range(300):
        a = [draw.randrange(4) for _ in range(draw.randrange(9))]
        b = [draw.randrange(4) for _ in range(draw.randrange(9))]
        pairs = align(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert all(i < k and j < m for (i, j), (k, m) in itertools.pairwise(pairs))
        assert len(pairs) == longest(a, b), (a, b)


def test_alignment_of_long_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the table would be too large the pairs still rise in both, and are alike."""
    monkeypatch.setattr(aligning, "_TABLE", 10)
    a, b = list("abcabcabxyz"), list("zabcxabcaby")
    pairs = align(a, b)
    assert pairs and all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in itertools.pairwise(pairs))


def shell(command: str, cwd: str | None = None) -> Call:
    return Call("c", "bash", "shell", {"command": command}, command, cwd=cwd)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rm -rf build", "rm  -r -f  build"),
        ("cat > a.py <<'EOF'\nx = 1\nEOF", "cat > ./a.py <<'EOF'\nx = 2\nEOF"),
        ("ls -la; echo hi; rm x", "rm x"),
        ("rm x 2>/dev/null", "sudo rm x"),
        ("./tool a", "bash -c './tool a'"),
    ],
)
def test_steps_that_are_alike(one: str, other: str) -> None:
    assert key_of(shell(one)) == key_of(shell(other)) and key_of(shell(one))[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rm x", "rm y"),
        ("rm x", "touch x"),
        (ATTACHED, DETACHED),
        ("git reset --hard", "git reset"),
        ("pip install a", "pip install b"),
        ("./tool --first", "./tool --second"),
        ("python3 app.py &", "setsid python3 app.py &"),
        ("python3 app.py", "python3 app.py &"),
        ("./tool", "timeout 5 ./tool"),
        ("unknown-tool a || true", "unknown-tool b || true"),
    ],
)
def test_steps_that_are_not(one: str, other: str) -> None:
    assert key_of(shell(one)) != key_of(shell(other))


@pytest.mark.parametrize(
    "command", ["ls -la", "cat a | head -3", "grep -rn x .", "cd /app && pwd", "curl -s localhost:80"]
)
def test_looking(command: str) -> None:
    assert not key_of(shell(command))[1]


@pytest.mark.parametrize("command", ["rm x", "./run.sh", "make", "sed -i s/a/b/ x", "echo a > x", "rm 'x"])
def test_acting(command: str) -> None:
    assert key_of(shell(command))[1]


def parted(tmp_path: Path, failed: list, passed: list):
    made = []
    for name, did in (("f", failed), ("p", passed)):
        folder = trials.trial(tmp_path / f"{name}__1", trials.steps("Do it.", *did))
        (trajectory,) = read(folder)
        made.append(moves(trajectory))
    return diverge(*made)


def test_where_they_part(tmp_path: Path) -> None:
    found = parted(
        tmp_path,
        ["ls", ("mkdir /app/x", 0, ""), ("rm -rf /app/data", 1, "no"), "ls -l"],
        [("cd /app; mkdir /app/x", 0, ""), "cat /etc/hosts", "cp -r /app/data /tmp/data", ("rm -rf /app/data", 0, "")],
    )
    assert found.parted
    # looking around is no difference; the passed one copies first
    assert found.failed.text == "rm -rf /app/data" and found.failed.result == "exit 1"
    assert found.passed.text == "cp -r /app/data /tmp/data"
    assert (found.last[0].text, found.last[1].text) == ("mkdir /app/x", "cd /app; mkdir /app/x")
    assert (found.last[0].step, found.last[1].step) == (2, 1)
    assert found.common == 3 and (found.failed_moves, found.passed_moves) == (5, 5)


def test_one_stops_and_the_other_goes_on(tmp_path: Path) -> None:
    found = parted(tmp_path, ["touch a"], ["touch a", "touch b"])
    assert found.failed.text == "stops: Done." and found.passed.text == "touch b"


def test_they_part_at_the_prompt(tmp_path: Path) -> None:
    found = parted(tmp_path, ["touch a"], ["touch b"])
    assert found.last is None and (found.failed.text, found.passed.text) == ("touch a", "touch b")


def test_the_same_to_the_end(tmp_path: Path) -> None:
    found = parted(tmp_path, ["ls", WRITE], [WRITE.replace("print(1)", "print(2)")])
    assert not found.parted and found.common == 2
    assert "print(1)" in found.variant[0].text and "print(2)" in found.variant[1].text


# -- cases and clusters --------------------------------------------------------------------------------------------------


def attempts(folder: Path, task: str, prompt: str, *runs: tuple[float | None, list], **fields: object) -> None:
    """So many attempts at a task: (reward, commands)."""
    for number, (value, did) in enumerate(runs):
        started = f"2026-01-02T03:0{number}:00Z"
        given = {"verifier_result": trials.reward(value), "started_at": started, **fields}
        recorded = None if did is None else trials.steps(prompt, *did, last="The server runs.")
        trials.trial(folder / f"{task}__{number}", recorded, task=task, **given)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    attempts(folder, "serve", SERVE, (0.0, [LOOK, WRITE, ATTACHED, PROBE]), (1.0, [LOOK, WRITE, DETACHED, PROBE]))
    attempts(folder, "never", SERVE, (0.0, [ATTACHED]), (0.0, [LOOK, ATTACHED]))
    attempts(folder, "solved", SERVE, (1.0, [DETACHED, PROBE]), (1.0, [DETACHED, PROBE]))
    attempts(folder, "sums", "Add the numbers.", (0.0, ["touch a"]), (1.0, ["touch b"]))
    attempts(folder, "hard", "Add the numbers.", (0.0, ["touch a"]), (0.0, ["touch b"]))
    attempts(folder, "alone", "Add the numbers.", (0.0, ["touch a"]))
    attempts(folder, "faults", SERVE, (1.0, [DETACHED]), (None, [ATTACHED]))
    attempts(folder, "limits", SERVE, (0.0, [ATTACHED]), exception_info=trials.exception("RateLimitError"))
    attempts(folder, "empty", SERVE, (0.0, []), agent_result=None)
    (folder / "empty__0" / "agent" / "trajectory.json").write_text(
        json.dumps({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "told", "version": "1"},
                    "steps": trials.steps(SERVE, last="")})
    )  # fmt: skip
    return folder


def test_cases(job: Path) -> None:
    found = derive([job])
    assert found.attempts == 15 and found.solved == 1
    assert found.left_out == {"infrastructure faults": 2, "never ran": 1, "tasks with one attempt that counts": 2}
    cases = {case.task: case for case in found.cases}
    assert {name: (case.kind, case.passed, case.attempts) for name, case in cases.items()} == {
        "serve": ("split", 1, 2),
        "never": ("never", 0, 2),
        "sums": ("split", 1, 2),
        "hard": ("never", 0, 2),
    }
    (pair,) = cases["serve"].pairs
    assert (Path(pair.failed.trial).name, Path(pair.passed.trial).name) == ("serve__0", "serve__1")
    assert pair.divergence.last[0].text.startswith("cat > /app/app.py")
    assert (pair.divergence.failed.text, pair.divergence.passed.text) == (ATTACHED, DETACHED)
    (evidence,) = cases["serve"].evidence
    assert evidence.misstep == "service-persistence" and evidence.attempts == 1
    assert [(Path(s.trial).name, s.step) for s in evidence.sightings] == [("serve__0", 5)]
    assert [case.task for case in found.unclustered] == ["sums"]
    assert [case.task for case in found.unexplained] == ["hard"]
    json.dumps(found.plain())


def test_clusters(job: Path) -> None:
    (cluster,) = derive([job]).clusters
    assert (cluster.misstep, cluster.split, cluster.never) == ("service-persistence", ("serve",), ("never",))
    # failed: serve, never twice, sums, hard twice, alone; passed: serve, solved twice, sums, faults
    assert (cluster.failed, cluster.failed_of, cluster.passed, cluster.passed_of) == (3, 7, 1, 5)
    assert cluster.policies == ("service-persistence",)


def test_a_misstep_of_a_passed_attempt_explains_nothing(tmp_path: Path) -> None:
    attempts(tmp_path / "j", "serve", SERVE, (0.0, [ATTACHED]), (1.0, [ATTACHED, PROBE]), (1.0, [DETACHED, PROBE]))
    found = derive([tmp_path / "j"])
    assert found.clusters == [] and [case.task for case in found.unclustered] == ["serve"]
    # the partner is the one with most in common
    (pair,) = found.cases[0].pairs
    assert Path(pair.passed.trial).name == "serve__1"


def test_what_is_not_on_record_is_not_absent(tmp_path: Path) -> None:
    attempts(tmp_path / "j", "serve", SERVE, (0.0, [ATTACHED]), (1.0, None))
    (case,) = derive([tmp_path / "j"]).cases
    assert (case.kind, case.evidence, case.pairs, case.unrecorded) == ("split", (), (), 1)


def test_attempts_under_policies_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from misstep.guard.adapters import Guard

    attempts(tmp_path / "j", "serve", SERVE, *[(0.0, [ATTACHED])] * 4)
    for number, arm in enumerate(("baseline", "baseline", "real", "sham")):
        monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "j" / f"serve__{number}" / "agent" / "misstep"))
        monkeypatch.setenv("MISSTEP_ARM", arm)
        guard = Guard("s")
        guard.prompt(SERVE)
        guard.before("c", "bash", {"command": "ls"}, "/app")
    found = derive([tmp_path / "j"])
    assert found.left_out == {"attempts under policies": 2} and found.cases[0].attempts == 2


def test_jobs_of_one_agent_belong_together(tmp_path: Path) -> None:
    attempts(tmp_path / "first", "serve", SERVE, (0.0, [ATTACHED]))
    attempts(tmp_path / "second", "serve", SERVE, (1.0, [DETACHED, PROBE]))
    assert [case.kind for case in derive([tmp_path]).cases] == ["split"]
    assert derive([tmp_path], by="job").left_out == {"tasks with one attempt that counts": 2}


def test_tables_have_no_steps(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,arm,passed\na,b,1\n")
    with pytest.raises(AttemptsError, match=r"a.csv: trials are expected, with the agent's steps"):
        derive([tmp_path / "a.csv"])


# -- the command, and those that it prints -------------------------------------------------------------------------------


def printed(output: str) -> list[str]:
    return [line.split("next: ", 1)[1] for line in output.splitlines() if "next: " in line and "misstep" in line]


def test_the_command_leads_on(job: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed commands run as they are: a draft of a policy, and which tasks it takes."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(group, ["derive", "job", "--write", "next one"])
    assert done.exit_code == 0, done.output
    assert "15 attempts: 1 task always passed, 2 sometimes, 2 never" in done.output
    assert "left out: infrastructure faults: 2" in done.output
    assert f"failed next  step 3: {ATTACHED}" in done.output and f"passed next  step 3: {DETACHED}" in done.output
    assert "Sometimes passed, and no misstep of the catalogue tells why: sums" in done.output
    commands = printed(done.output)
    assert commands == [
        "misstep policies propose service-persistence job --folder 'next one'",
        "misstep policies audit 'next one/tasks' --portfolio 'next one/service-persistence.toml'",
    ]
    for text in commands:
        ran = CliRunner().invoke(group, shlex.split(text)[1:])
        assert ran.exit_code == 0, ran.output
    assert Path("next one/service_persistence_reminder.py").is_file()
    assert "service-persistence-reminder: " in ran.output and "serve" in ran.output
    replayed = done.output.partition("would have acted: ")[2].splitlines()[0]
    ran = CliRunner().invoke(group, shlex.split(replayed)[1:])
    assert ran.exit_code == 0 and "service-persistence (instruct): " in ran.output


def test_without_a_place_for_the_texts(job: Path) -> None:
    done = CliRunner().invoke(group, ["derive", str(job)])
    assert printed(done.output) == [f"misstep policies propose service-persistence {job}"]
    assert "--write DIR keeps the task texts" in done.output


def test_what_is_there_is_left_as_it_is(job: Path, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "service-persistence.toml").write_text("mine")
    made = write(derive([job]), tmp_path / "w")
    assert (tmp_path / "w" / "service-persistence.toml").read_text() == "mine"
    assert (tmp_path / "w" / "tasks" / "serve.md").read_text() == SERVE and len(made) == 8


def test_json(job: Path) -> None:
    done = CliRunner().invoke(group, ["derive", str(job), "--json"])
    found = json.loads(done.output)
    assert (found["schema"], found["version"], found["solved"]) == ("misstep.derivation", 1, 1)
    assert found["clusters"][0]["split"] == ["serve"]
    assert found["cases"][2]["pairs"][0]["next"]["failed"]["text"] == ATTACHED


@pytest.mark.parametrize(("path", "said"), [("nosuch", "no such file or folder"), (".", "no trial of Harbor")])
def test_requests_that_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(group, ["derive", path])
    assert done.exit_code == 2 and said in done.output and done.output.count("\n") == 1


# -- real pairs ----------------------------------------------------------------------------------------------------------

RESCUE = """python3 - <<'EOF'
import json, sqlite3
rows = sqlite3.connect("{place}/orders.db").execute("SELECT id, item, cents FROM orders ORDER BY id").fetchall()
json.dump([dict(zip(("id", "item", "cents"), row)) for row in rows], open("/app/orders.json", "w"))
EOF"""
MEND = "printf '\\x37\\x7f\\x06\\x82' | dd of={place}/orders.db-wal conv=notrunc status=none"
COUNTER = (CHECKOUT / "tasks/hit-counter/solution/counter.py").read_text()
PUT = f"cat > /app/server.py <<'EOF'\n{COUNTER}EOF"
SEE = "sleep 1; curl -s http://127.0.0.1:8077/hits || python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8077/hits\").read())'"
RUN = "setsid python3 /app/server.py > /app/server.log 2>&1 < /dev/null &"
COPY = ["mkdir /tmp/copy", "cp -p /app/data/orders.db /app/data/orders.db-wal /tmp/copy/"]
TOLD = {
    "passed": {
        "orders-rescue": ["ls /app/data", *COPY, MEND.format(place="/tmp/copy"), RESCUE.format(place="/tmp/copy")],
        "hit-counter": ["cat /app/SPEC.md", PUT, RUN, SEE],
    },
    "failed": {
        "orders-rescue": ["ls -la /app/data", MEND.format(place="/app/data"), RESCUE.format(place="/app/data")],
        "hit-counter": ["cat /app/SPEC.md", PUT, "python3 /app/server.py > /app/server.log 2>&1 &", SEE],
    },
}


@pytest.mark.slow
def test_real_pairs(tmp_path: Path) -> None:
    """Two of our tasks twice through Harbor in a sandbox, once carefully and once not: the verifier tells them apart."""
    pytest.importorskip("harbor")
    from misstep.sandbox.harbor import BubblewrapEnvironment

    assert BubblewrapEnvironment
    for task in ("orders-rescue", "hit-counter"):
        shutil.copytree(CHECKOUT / "tasks" / task, tmp_path / "tasks" / task)
    for name, told in TOLD.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(told))
        done = subprocess.run(
            [str(Path(sys.executable).with_name("harbor")), "run", "--path", str(tmp_path / "tasks"),
             "--agent-import-path", "trials:ToldAgent",
             "--ak", f"told={tmp_path / name}.json", "--env", "misstep.sandbox.harbor:BubblewrapEnvironment",
             "--ek", "root=host", "--ek", "end_session=true", "--jobs-dir", str(tmp_path / "jobs"), "--job-name", name],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "HARBOR_TELEMETRY": "0",
                 "LITELLM_LOCAL_MODEL_COST_MAP": "True", "MISSTEP_PYTHON": sys.executable},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 77:
            pytest.skip(done.stderr.strip().splitlines()[-1])
        assert done.returncode == 0, done.stdout + done.stderr
    found = derive([tmp_path / "jobs"])
    counter, rescue = found.cases
    assert [(c.task, c.kind, c.passed, c.attempts) for c in found.cases] == [
        ("hit-counter", "split", 1, 2),
        ("orders-rescue", "split", 1, 2),
    ]
    assert Path(counter.pairs[0].failed.trial).parent.name == "failed"
    assert counter.pairs[0].divergence.last[0].text.startswith("cat > /app/server.py")
    assert (counter.pairs[0].divergence.failed.text, counter.pairs[0].divergence.passed.text) == (
        TOLD["failed"]["hit-counter"][2],
        RUN,
    )
    assert "dd of=/app/data/orders.db-wal" in rescue.pairs[0].divergence.failed.text
    assert rescue.pairs[0].divergence.passed.text == "mkdir /tmp/copy"
    assert [(c.misstep, c.split) for c in found.clusters] == [
        ("database-evidence", ("orders-rescue",)),
        ("service-persistence", ("hit-counter",)),
    ]
    # the tasks are on this machine: they are what is audited
    assert found.clusters[0].next[-1] == shlex.join(["misstep", "policies", "audit", str(tmp_path / "tasks")])
