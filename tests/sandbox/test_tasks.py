"""Our own tasks: the oracle passes, each plausible wrong delivery fails, and the folders are Harbor's."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from misstep.sandbox import Root, SandboxError, checking, native, replay, tasks
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.record import Recorder, read

FOLDER = Path(__file__).resolve().parents[2] / "tasks"
ALL = tasks.find(FOLDER)
WRONG = [(task, script) for task in ALL for script in task.wrong]
WORDS = {
    "attached": "not running",
    "without-the-log": "missing ids: [181",
    "in-place": "evidence is not as it was",
    "as-text": "first difference at byte",
    "everywhere": "first difference at byte",
    "special-cases": "parse_cents",
    "weaker-tests": "tests were changed",
    "no-leading-zero": "missing ['0",
    "read-as-text": "'version': '2.7'",
    "big-endian": "'highest'",
    "equal-rows": "payments are not the 430",
    "receipts-lost": "receipts are not those",
    "log-of-before": "page.txt is not that of the final text",
    "wider-page": "typeset.py was changed",
    "a-new-file": "can no longer read",
    "shipped-over-it": "not as it should be",
    "clock-time": "first difference in line",
    "text-only": "1 bytes b'\\x80'",
    "all-versions": "counted",
    "split-at-spaces": "counted",
}
"""What the verifier says of each wrong delivery: it fails for its own fault and no other."""


@pytest.fixture(scope="session")
def tools(root: Root) -> Root:
    """The root, if this machine has what the tasks need."""
    with BubblewrapSandbox(root) as box:
        missing = box.exec(
            "for p in bash python3 strings xxd; do command -v $p >/dev/null || echo $p; done"
        ).text.split()
    if native.user_namespace().kind == "single":
        pytest.skip("some tasks give files to other users: this user has no /etc/subuid entry")
    if missing:
        pytest.skip(f"this machine's /usr has no {', '.join(missing)}")
    return root


def test_there_are_tasks() -> None:
    assert len(ALL) >= 12
    assert {task.settings["metadata"]["family"] for task in ALL} >= {
        "service", "database", "replacement", "tests", "enumeration", "binary", "typesetting", "counting",
        "deployment", "equivalence", "merging",
    }  # fmt: skip


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_the_folder(task: tasks.Task) -> None:
    assert task.wrong, "no wrong delivery"
    assert len(task.instruction) > 100
    for path in [task.path / "solution/solve.sh", task.path / "tests/test.sh", *task.wrong]:
        assert os.access(path, os.X_OK), path
    # An instruction names the absolute paths that the verifier reads: nobody has to guess.
    named = set(re.findall(r"/app/[\w.-]+", (task.path / "tests/check.py").read_text()))
    said = task.instruction + "".join(p.read_text() for p in (task.path / "environment").rglob("*.md"))
    for path in named - {"/app/tests", "/app/ledger"}:
        assert path in said or f"`{Path(path).name}`" in said, path


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_the_oracle_passes(task: tasks.Task, tools: Root) -> None:
    attempt = task.attempt(tools)
    assert attempt.verdict.passed, attempt.verdict.output + attempt.output
    assert attempt.exit_code == 0


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_nothing_done_fails(task: tasks.Task, tools: Root) -> None:
    with task.sandbox(tools) as box:
        assert not task.verify(box).passed


@pytest.mark.parametrize(("task", "script"), WRONG, ids=lambda value: getattr(value, "stem", None) or value.name)
def test_a_wrong_delivery_fails(task: tasks.Task, script: Path, tools: Root) -> None:
    attempt = task.attempt(tools, script)
    assert attempt.exit_code == 0, "the delivery itself must look right"
    assert attempt.verdict.rewards == {"reward": 0.0}
    assert WORDS[script.stem] in attempt.verdict.output


def test_the_attached_server_is_right_until_its_session_ends(tools: Root) -> None:
    task = next(task for task in ALL if task.name == "hit-counter")
    script = task.path / "wrong" / "attached.sh"
    assert task.attempt(tools, script, end_session=False).verdict.passed
    assert not task.attempt(tools, script, end_session=True).verdict.passed


def test_a_verifier_without_a_reward_says_nothing_of_the_attempt(tools: Root, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text("echo broken; exit 3\n")
    (tmp_path / "task.toml").write_text("")
    task = tasks.Task.load(tmp_path)
    with BubblewrapSandbox(tools) as box, pytest.raises(tasks.NoReward, match="ended with 3 and no reward: broken"):
        task.verify(box)
    (tmp_path / "tests" / "test.sh").write_text("echo nan > /logs/verifier/reward.txt\n")
    with BubblewrapSandbox(tools) as box, pytest.raises(tasks.NoReward):
        task.verify(box)
    (tmp_path / "tests" / "test.sh").write_text(
        'echo 0 > /logs/verifier/reward.txt; echo \'{"a": 1, "b": 0.5}\' > /logs/verifier/reward.json\n'
    )
    with BubblewrapSandbox(tools) as box:
        assert task.verify(box).rewards == {"a": 1.0, "b": 0.5}


@pytest.mark.parametrize(
    "line",
    [
        "head -c 100000 /dev/zero | tr '\\0' '[' > /logs/verifier/reward.json",
        "echo '{\"a\": 1'$(printf %0400d)'}' > /logs/verifier/reward.json",
        "head -c 2000000 /dev/zero | tr '\\0' ' ' > /logs/verifier/reward.txt; echo 1 >> /logs/verifier/reward.txt",
    ],
    ids=["deep", "large", "long"],
)
def test_what_cannot_be_a_reward_is_none(tools: Root, tmp_path: Path, line: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text(line + "\n")
    (tmp_path / "task.toml").write_text("")
    with BubblewrapSandbox(tools) as box, pytest.raises(tasks.NoReward, match="ended with 0 and no reward"):
        tasks.Task.load(tmp_path).verify(box)


def test_a_bad_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no task folder"):
        tasks.Task.load(tmp_path)
    (tmp_path / "task.toml").write_text("= 1")
    with pytest.raises(SandboxError, match=r"task\.toml: "):
        tasks.Task.load(tmp_path)
    (tmp_path / "task.toml").write_bytes(b'a = "\xff"')
    with pytest.raises(SandboxError, match=r"task\.toml: expected text in UTF-8"):
        tasks.Task.load(tmp_path)
    (tmp_path / "task.toml").unlink()
    (tmp_path / "task.toml").mkdir()
    with pytest.raises(SandboxError, match=r"no task folder: expected a file: task\.toml"):
        tasks.Task.load(tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('[environment]\nenv = "x"', "[environment] env: expected a table of names and values, found 'x'"),
        ('[solution.env]\n"A=B" = "x"', "[solution] env: 'A=B' cannot be a variable"),
        ('[verifier.env]\nA = "a\\u0000"', "[verifier] env: 'A' cannot be a variable"),
        ("[environment]\nworkdir = 3", "[environment] workdir: expected a path, found 3"),
        ("[environment]\nmemory_mb = -5", "[environment] memory_mb: expected a number above 0, found -5"),
    ],
)
def test_a_bad_setting_is_said_once_and_nothing_is_run(tools: Root, tmp_path: Path, line: str, said: str) -> None:
    folder = _made(tmp_path, line)
    report = checking.check(tasks.Task.load(folder), tools)
    assert (report.verdict, report.deliveries) == ("unknown", [])
    assert report.why == (f"{folder / 'task.toml'}: {said}",)


def test_an_instruction_that_cannot_be_read_is_named(tools: Root, tmp_path: Path) -> None:
    folder = _made(tmp_path, "")
    for make, said in (
        (lambda path: path.write_bytes(b"\xff"), "expected text in UTF-8"),
        (os.mkfifo, "expected a file"),  # which would be waited for
        (lambda path: None, "No such file or directory"),
    ):
        (folder / "instruction.md").unlink(missing_ok=True)
        make(folder / "instruction.md")
        assert checking.check(tasks.Task.load(folder), tools).why == (f"{folder / 'instruction.md'}: {said}",)


def _made(folder: Path, settings: str) -> Path:
    for name, text in {
        "environment/Dockerfile": "FROM misstep-base\n",
        "tests/test.sh": "true\n",
        "task.toml": settings,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "instruction.md").write_text("Do it.\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_every_oracle_replays_exactly(task: tasks.Task, tools: Root, tmp_path: Path) -> None:
    """Commands around and of the oracle, all deterministic: each must be exact in two fresh sandboxes."""

    def start() -> BubblewrapSandbox:
        box = task.sandbox(tools)
        box.start()
        box.upload(task.path / "solution", "/solution")
        return box

    commands = [
        "pwd; ls", "find . -type f | sort | xargs -r sha256sum", "cat /solution/solve.sh | head -n 30", "bash /solution/solve.sh",
        "ls -A | sort", "find . -type f -not -name '*.pyc' -not -name '*.log' | sort | xargs -r wc -c",
        "find . -type f -not -name '*.pyc' -not -name '*.log' | sort | xargs -r sha256sum",
        "[ -e ledger ] && python3 -B -m unittest discover -s tests 2>&1 | sed 's/ in .*//'", "cat nothing", "echo $$ $PPID; id",
    ]  # fmt: skip
    path = tmp_path / "recording.jsonl"
    with start() as box, box.shell() as shell:
        recorder = Recorder(shell, path)
        for command in commands:
            recorder.run(command)
        recorder.close()
    prefix = replay.verify(read(path), start)
    assert [(one.grade, one.recorded.command) for one in prefix.compared if one.grade != "exact"] == []
    assert prefix.trusted()
    assert [p.command for p in prefix.live] == (["python3 /app/counter.py"] if task.name == "hit-counter" else [])
