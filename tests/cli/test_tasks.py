"""`misstep tasks`: families, generated folders, and what the check says of verifiers that cannot be trusted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from misstep.sandbox import native

Run = Callable[..., tuple[int, str, str]]
RIGHT = 'grep -qx 42 /app/answer && r=1 || { r=0; echo "the answer is not 42"; }; echo $r > /logs/verifier/reward.txt\n'


@pytest.fixture
def sandboxes() -> None:
    problem = native.problem()
    if problem:
        pytest.skip(problem)


@pytest.fixture
def task(sandboxes: None, tmp_path: Path) -> Callable[..., Path]:
    """Writes a task's folder: an answer that is to be 42."""

    def make(
        name: str = "answer",
        test: str = RIGHT,
        solve: str | None = "echo 42 > /app/answer\n",
        settings: str = "",
        instruction: str = "Write 42 to /app/answer.",
        **wrong: str,
    ) -> Path:
        path = tmp_path / "tasks" / name
        files = {
            "task.toml": settings, "instruction.md": f"{instruction}\n", "tests/test.sh": test,
            "environment/Dockerfile": "FROM debian:12\nWORKDIR /app\n", **{f"wrong/{one}.sh": text for one, text in wrong.items()},
        }  # fmt: skip
        if solve is not None:
            files["solution/solve.sh"] = solve
        for file, text in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(text)
        return path

    return make


def test_the_families(run: Run) -> None:
    code, out, _ = run("tasks", "list")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()][:3] == [
        ["all-routes", "enumeration"],
        ["binary-report", "binary"],
        ["damaged-wal", "database"],
    ]
    rows = [json.loads(line) for line in run("tasks", "list", "--json")[1].splitlines()]
    assert len(rows) == len(out.splitlines())
    assert next(row for row in rows if row["family"] == "git-deploy")["needs"] == ["python3", "git"]


def test_generate(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "made"
    words = ("tasks", "generate", "lock-codes", "tidy-folder", "--count", 2, "--seed", 5, "--out", out)
    code, said, _ = run(*words)
    assert code == 0
    assert said.split() == [
        str(out / name) for name in ("lock-codes-5", "lock-codes-6", "tidy-folder-5", "tidy-folder-6")
    ]
    assert run(*words)[:2] == (0, said), "the same again is the same"
    (out / "tidy-folder-6" / "instruction.md").write_text("mine\n")
    code, _, error = run(*words)
    assert code == 2
    assert error == f"misstep: {out}/tidy-folder-6 is there and is another one: give another directory, or remove it\n"


def test_bad_requests_are_one_line(run: Run, sandboxes: None, tmp_path: Path) -> None:
    for words, why in [
        (["generate", "nonesuch", "--out", tmp_path], "no family is named 'nonesuch'; there are all-routes,"),
        (["generate"], "Missing option '--out'"),
        (["check", tmp_path / "nowhere"], "does not exist"),
        (["check", tmp_path], "is no task folder and holds none"),
        (["check", tmp_path, "--root", "/nowhere"], "/nowhere is no root"),
    ]:
        code, _, error = run("tasks", *words)
        assert (code, error.count("\n")) == (2, 1), error
        assert why in error


def test_a_generated_task_is_ok(run: Run, sandboxes: None, tmp_path: Path) -> None:
    run("tasks", "generate", "exact-replacement", "--seed", 12, "--out", tmp_path)
    code, out, _ = run("tasks", "check", tmp_path, "--root", "host")
    first, last = out.splitlines()
    assert code == 0
    assert first.startswith(
        "ok       exact-replacement-12  oracle 1 1  nothing 0  as-text 0  everywhere 0  newline-at-the-end 0  one-after-another 0  "
    )
    assert last == "1 task on the root host: 1 ok"


def test_any_task_folder(run: Run, task: Callable[..., Path]) -> None:
    """Without wrong deliveries: the oracle and nothing done. A folder of tasks, in the order of their names."""
    task("b")
    path = task("a").parent
    code, out, _ = run("tasks", "check", path, "--root", "host", "--jobs", 2)
    assert code == 0
    assert [line.rsplit("  ", 1)[0] for line in out.splitlines()[:2]] == [
        "ok       a  oracle 1 1  nothing 0",
        "ok       b  oracle 1 1  nothing 0",
    ]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"test": "echo 1 > /logs/verifier/reward.txt\n"}, "the verifier accepts nothing done: it says nothing"),
        ({"solve": "echo 41 > /app/answer\n"}, "the verifier refuses the oracle: the answer is not 42"),
        ({"nearly": "echo 42 > /app/answer; echo 43 >> /app/answer\n"}, "the verifier accepts wrong/nearly.sh: it says nothing"),
        ({"oracle": "echo 42 > /app/answer\n"}, "the verifier accepts wrong/oracle.sh: it says nothing"),
        ({"broken": "exit 3\n"}, "wrong/broken.sh itself ends with 3: that the verifier refuses it proves little"),
        ({"test": "grep -qx 42 /app/answer && echo 1 > /logs/verifier/reward.txt\n"},
         "the verifier leaves no reward for nothing done, which is an error and not a 0: ended with 2 and no reward: grep: /app/answer: No such file or directory"),
        ({"test": "[ -e /app/out.txt ] && r=1 || r=0; echo $r > /logs/verifier/reward.txt\n", "solve": "echo 42 > /app/out.txt\n",
          "instruction": "Write 42 to `/app/out.txt`."}, "the verifier accepts empty files: it says nothing"),
        ({"test": "echo no; exit 1\n"}, "the verifier leaves no reward for the oracle: ended with 1 and no reward: no"),
    ],
)  # fmt: skip
def test_faults(run: Run, task: Callable[..., Path], options: dict[str, str], why: str) -> None:
    code, out, _ = run("tasks", "check", task(**options), "--root", "host", "--json")
    report = json.loads(out)
    assert code == 1
    assert report["verdict"] == "fault"
    assert why in report["why"]


def test_a_flaky_verifier_is_named(run: Run, task: Callable[..., Path]) -> None:
    """A verifier that accepts the right answer at every second time: twenty runs are enough to see it."""
    path = task(test='[ -s /app/answer ] && r=$((RANDOM % 2)) || r=0; echo "$r"; echo $r > /logs/verifier/reward.txt\n')
    code, out, _ = run("tasks", "check", path, "--root", "host", "--repeat", 20)
    first, second, last = out.splitlines()
    assert code == 1
    assert first.startswith("FLAKY    answer  oracle ")
    assert second.strip().startswith("the oracle's reward varies: ") and second.endswith(" (0)")
    assert last == "1 task on the root host: 1 flaky"


def test_what_cannot_be_known(run: Run, task: Callable[..., Path]) -> None:
    """The check's own limits are not the task's faults."""
    broken = task("broken")
    (broken / "environment/Dockerfile").write_text("FROM debian:12\nRUN echo no such thing; exit 5\n")
    composed = task("composed")
    (composed / "environment/docker-compose.yaml").write_text("services: {}\n")
    task("unsolved", solve=None)
    task("needing", settings='[metadata]\nneeds = ["no-such-program"]\n')
    code, out, _ = run("tasks", "check", broken.parent, "--root", "host")
    lines = [line.strip() for line in out.splitlines()]
    assert code == 1
    assert [line.split()[:2] for line in lines[0::2][:4]] == [
        ["unknown", name] for name in ("broken", "composed", "needing", "unsolved")
    ]
    assert lines[1].startswith("its environment could not be built: ") and lines[1].endswith(
        "Dockerfile:2: RUN ended with 5: no such thing"
    )
    assert lines[3] == "environment/docker-compose.yaml is not read here"
    assert lines[5] == "the root host has no no-such-program"
    assert lines[7] == "there is no solution/solve.sh: nothing shows that the verifier can be satisfied"
    assert lines[8] == "4 tasks on the root host: 4 unknown"


def test_an_oracle_that_is_attached_to_its_session(run: Run, task: Callable[..., Path]) -> None:
    """What Docker would let live on is told apart from a verifier that refuses the right thing."""
    test = 'pgrep -f "sleep [4]2" && r=1 || { r=0; echo "nobody sleeps"; }; echo $r > /logs/verifier/reward.txt\n'
    path = task(test=test, solve="sleep 42 &\n")
    code, out, _ = run("tasks", "check", path, "--root", "host")
    assert code == 1
    assert out.splitlines()[1].strip() == (
        "the verifier refuses the oracle: nobody sleeps (it passes if what is attached to the oracle's session lives on: --keep-session)"
    )
    assert run("tasks", "check", path, "--root", "host", "--keep-session")[0] == 0


def test_settings_that_are_read(run: Run, task: Callable[..., Path]) -> None:
    path = task(
        settings='[environment]\nworkdir = "/srv/work"\n[solution.env]\nANSWER = "42"\n',
        solve='[ "$PWD" = /srv/work ] && echo "$ANSWER" > /app/answer\n',
    )
    assert run("tasks", "check", path, "--root", "host")[0] == 0


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            '[verifier]\nenvironment_mode = "separate"\n',
            "its verifier has an environment of its own, which is not read here",
        ),
        ('[agent]\nuser = "agent"\n', "the user of [agent] is not read here"),
        ("[environment]\ngpus = 1\n", "gpus of [environment] is not read here"),
        (
            '[verifier.env]\nKEY = "${SOME_KEY}"\n',
            "KEY of [verifier.env] is taken from this machine, which is not done here",
        ),
    ],
)
def test_settings_that_are_not_read(run: Run, task: Callable[..., Path], settings: str, why: str) -> None:
    code, out, _ = run("tasks", "check", task(settings=settings), "--root", "host", "--json")
    assert (code, json.loads(out)["verdict"], json.loads(out)["why"]) == (1, "unknown", [why])


def test_an_interrupt_waits_for_nothing(task: Callable[..., Path]) -> None:
    for name in "abc":
        task(name, solve="sleep 47.11\n")
    # SIGINT may be ignored where the tests run in the background.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from misstep.cli import main; main()"
    )
    words = [sys.executable, "-c", program, "tasks", "check", str(task("d").parent), "--root", "host", "--jobs", "3"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        until(lambda: sleeping() == 3)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=10) == 130
        assert run.stderr is not None
        assert run.stderr.read().strip() == b"misstep: interrupted"
    until(lambda: sleeping() == 0)


def sleeping() -> int:
    """How many processes of this machine are the oracles' sleep."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes() == b"sleep\x0047.11\0"
        except OSError:  # gone meanwhile
            continue
    return found


def until(holds: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
