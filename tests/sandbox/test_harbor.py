"""Harbor's own runs in our sandboxes, and Harbor's environments as ours."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from misstep.sandbox import Root, Sandbox, SandboxError, Unavailable

pytest.importorskip("harbor", reason="Harbor is not installed (misstep[harbor])")

TASKS = Path(__file__).resolve().parents[2] / "tasks"
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
OURS = ["--env", "misstep.sandbox.harbor:BubblewrapEnvironment"]
ENV = {**os.environ, "HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def job(folder: Path, tasks: Path, arguments: list[str], before: list[str] | None = None) -> dict[str, dict]:
    """Runs Harbor's oracle over tasks; the trials' results by task."""
    harbor = Path(sys.executable).with_name("harbor")
    command = [
        *(before or []),
        str(harbor),
        "run",
        "--path",
        str(tasks),
        "--agent",
        "oracle",
        "--jobs-dir",
        str(folder),
    ]
    run = subprocess.run(
        [*command, "-n", "2", *arguments], capture_output=True, text=True, env={**ENV, "MISSTEP_PYTHON": sys.executable}
    )
    if run.returncode == 77:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    rows = [json.loads(path.read_text()) for path in folder.glob("*/*/result.json")]
    assert rows, run.stdout[-2000:] + run.stderr[-2000:]
    return {row["task_name"].rpartition("/")[2]: row for row in rows}


def rewards(rows: dict[str, dict]) -> dict[str, object]:
    return {
        name: (row["verifier_result"] or {}).get("rewards") or (row["exception_info"] or {}).get("exception_message")
        for name, row in rows.items()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where Harbor may be read by the sandbox's root too: nothing of it is bound, so the usual place does."""
    return tmp_path / "jobs"


@pytest.mark.slow
def test_oracle_trials(root: Root, folder: Path) -> None:
    rows = job(folder, TASKS, [*OURS, "--ek", "root=host"])
    assert rewards(rows) == {path.parent.name: {"reward": 1.0} for path in TASKS.glob("*/task.toml")}
    trial = next(folder.glob("*/dial-codes__*"))
    assert "all codes are there" in (trial / "verifier" / "test-stdout.txt").read_text()
    assert (trial / "agent" / "oracle.txt").exists()


def variant(tmp_path: Path, script: str, *, name: str = "hit-counter", settings: str = "", test: str = "") -> Path:
    """A copy of a task with another oracle."""
    task = tmp_path / "tasks" / name
    shutil.copytree(TASKS / name, task)
    (task / "solution" / "solve.sh").write_text(script)
    if settings:
        text = (task / "task.toml").read_text()
        old, new = settings.split(" -> ")
        assert old in text
        (task / "task.toml").write_text(text.replace(old, new))
    if test:
        (task / "tests" / "test.sh").write_text(test)
    return task.parent


@pytest.mark.slow
def test_the_end_of_the_session_is_an_option(root: Root, tmp_path: Path) -> None:
    """As in Docker an attached server outlives its session; asked for, the session's end takes it along."""
    tasks = variant(tmp_path, (TASKS / "hit-counter/wrong/attached.sh").read_text())
    assert rewards(job(tmp_path / "a", tasks, [*OURS, "--ek", "root=host"])) == {"hit-counter": {"reward": 1.0}}
    ended = job(tmp_path / "b", tasks, [*OURS, "--ek", "root=host", "--ek", "end_session=true"])
    assert rewards(ended) == {"hit-counter": {"reward": 0.0}}


@pytest.mark.slow
def test_no_network_and_the_tasks_settings(root: Root, tmp_path: Path) -> None:
    script = "#!/bin/bash\nip=$(cat /proc/net/dev | grep -vc -e lo: -e face -e Inter); echo interfaces=$ip memory=$(( $(head -c 700M /dev/zero | tail | wc -c) )) > /app/seen\n"
    test = "#!/bin/bash\ncat /app/seen\ngrep -q 'interfaces=0 memory=0' /app/seen && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    tasks = variant(tmp_path, script, test=test)
    rows = job(tmp_path / "jobs", tasks, [*OURS, "--ek", "root=host"])
    shown = next((tmp_path / "jobs").glob("*/*/verifier/test-stdout.txt")).read_text()
    from misstep.sandbox import cgroups

    if not cgroups.places():
        assert "interfaces=0" in shown
    else:
        assert rewards(rows) == {"hit-counter": {"reward": 1.0}}, shown


@pytest.mark.slow
def test_an_agent_that_runs_out_of_time_is_ended(root: Root, tmp_path: Path) -> None:
    """The trial goes on to the verifier, and what the agent was doing is gone by then."""
    script = "#!/bin/bash\nsleep 4242\n"
    test = "#!/bin/bash\npgrep -f 'sleep 4242' && echo 0 > /logs/verifier/reward.txt || echo 1 > /logs/verifier/reward.txt\n"
    tasks = variant(
        tmp_path, script, settings="timeout_sec = 60\n\n[verifier] -> timeout_sec = 2\n\n[verifier]", test=test
    )
    began = time.monotonic()
    (row,) = job(tmp_path / "jobs", tasks, [*OURS, "--ek", "root=host"]).values()
    assert time.monotonic() - began < 20
    assert row["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert row["verifier_result"]["rewards"] == {"reward": 1.0}


@pytest.mark.slow
def test_an_image_that_is_not_ours_is_refused(root: Root, tmp_path: Path) -> None:
    tasks = variant(tmp_path, "#!/bin/bash\ntrue\n")
    (tasks / "hit-counter/environment/Dockerfile").write_text("FROM python:3.13\n")
    (row,) = job(tmp_path / "jobs", tasks, OURS).values()
    assert "no root stands for the image python:3.13" in row["exception_info"]["exception_message"]
    assert row["verifier_result"] is None


@pytest.mark.slow
def test_several_containers_are_refused(root: Root, tmp_path: Path) -> None:
    tasks = variant(tmp_path, "#!/bin/bash\ntrue\n")
    (tasks / "hit-counter/environment/docker-compose.yaml").write_text("services: {main: {}, db: {image: postgres}}\n")
    shown = subprocess.run(
        [Path(sys.executable).with_name("harbor"), "run", "--path", tasks, "--agent", "oracle", "--jobs-dir", tmp_path / "jobs", *OURS],
        capture_output=True, text=True, env={**ENV, "COLUMNS": "500"},
    )  # fmt: skip
    rows = [json.loads(path.read_text()) for path in (tmp_path / "jobs").glob("*/*/result.json")]
    said = shown.stdout + shown.stderr + json.dumps(rows)
    assert "a task of several containers needs Docker" in said


@pytest.mark.slow
def test_docker_gives_the_same_rewards(root: Root, tmp_path: Path) -> None:
    """The same tasks and deliveries, right and wrong ones, under a Docker engine of our own."""
    tasks = tmp_path / "tasks"
    for name, script in {
        "dial-codes": "solution/solve.sh",
        "orders-rescue": "solution/solve.sh",
        "price-list": "wrong/as-text.sh",
        "sensor-dump": "solution/solve.sh",
        "hit-counter": "solution/solve.sh",
    }.items():
        shutil.copytree(TASKS / name, tasks / name)
        if script.startswith("wrong"):
            shutil.copy(TASKS / name / script, tasks / name / "solution" / "solve.sh")
    ours = job(tmp_path / "ours", tasks, [*OURS, "--ek", "root=base"] if _base() else [*OURS, "--ek", "root=host"])
    for settings in tasks.glob("*/task.toml"):  # Harbor's own no-network needs an image of the Hub: compose closes it
        settings.write_text(settings.read_text().replace('"no-network"', '"public"'))
    compose = tmp_path / "compose.yaml"
    compose.write_text("services: {main: {network_mode: none, stop_grace_period: 0s, build: {network: none}}}\n")
    docker = job(tmp_path / "docker", tasks, ["--extra-docker-compose", str(compose)], [str(SCRIPTS / "with-dockerd")])
    assert rewards(docker) == rewards(ours)
    assert rewards(ours)["price-list"] == {"reward": 0.0}


def _base() -> bool:
    from misstep.sandbox import roots

    return roots.base_tar().exists()


class TestHarborsAsOurs:
    """Harbor's interface as a sandbox; over our own environment, so that no engine is needed."""

    @pytest.fixture
    def box(self, root: Root, tmp_path: Path):  # type: ignore[no-untyped-def]
        from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
        from harbor.models.trial.paths import TrialPaths

        from misstep.sandbox.harbor import BubblewrapEnvironment, HarborSandbox

        (tmp_path / "environment").mkdir()
        (tmp_path / "environment" / "Dockerfile").write_text("FROM misstep-base\nWORKDIR /app\n")
        environment = BubblewrapEnvironment(
            tmp_path / "environment", "test", "test__1", TrialPaths(tmp_path / "trial"), EnvironmentConfig(),
            root="host", network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
        )  # fmt: skip
        box = HarborSandbox(environment, workdir="/app")
        box.start()
        yield box
        box.stop()

    def test_commands_and_files(self, box, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        assert isinstance(box, Sandbox)
        done = box.exec("pwd; echo err >&2; exit 3", env={"A": "1"})
        assert (done.output, done.errors, done.exit_code) == (b"/app\n", b"err\n", 3)
        assert box.exec("echo 1; echo 2 >&2", merge=True).text == "1\n2\n"
        assert box.exec(["printf", "%s", "a b"]).text == "a b"
        assert box.exec("sleep 20", timeout=1).timed_out
        (tmp_path / "file").write_text("there")
        box.upload(tmp_path / "file", "/app/d/file")
        box.download("/app/d", tmp_path / "back")
        box.download("/app/d/file", tmp_path / "one")
        assert (tmp_path / "back" / "file").read_text() == (tmp_path / "one").read_text() == "there"

    def test_a_shell(self, box) -> None:  # type: ignore[no-untyped-def]
        shell = box.shell()
        shell.run("cd /tmp; export A='x y'")
        seen = shell.run('pwd; echo "$A"; (exit 4)')
        assert (seen.output, seen.exit_code) == ("/tmp\nx y\n", 4)
        shell.close()

    def test_what_it_cannot_do_is_said(self, box) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(Unavailable, match="branch by replay"):
            box.snapshot()
        with pytest.raises(Unavailable, match="session"):
            box.end_session()
        with pytest.raises(Unavailable, match="tmux"):
            box.terminal()
        with pytest.raises(SandboxError, match="no input"):
            box.exec("cat", stdin=b"x")


OVER_DOCKER = """
import json, sys, time
from pathlib import Path
from harbor.environments.docker.docker import DockerEnvironment
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.paths import TrialPaths
from misstep.sandbox import SandboxError, Unavailable
from misstep.sandbox.harbor import HarborSandbox
from misstep.sandbox.record import Recorder

folder = Path(sys.argv[1])
(folder / "environment").mkdir()
(folder / "environment" / "Dockerfile").write_text("FROM misstep-base:bookworm\\nWORKDIR /app\\nRUN useradd agent\\n")
compose = folder / "compose.yaml"
compose.write_text("services: {main: {network_mode: none, stop_grace_period: 0s, build: {network: none}}}\\n")
paths = TrialPaths(folder / "trial")
paths.mkdir()
environment = DockerEnvironment(
    folder / "environment", "misstep-test", "misstep-test__1", paths, EnvironmentConfig(), extra_docker_compose=[compose]
)
box = HarborSandbox(environment, workdir="/app")
box.start()
said = {}
try:
    def told(name, done):
        said[name] = [done.text, done.error_text, done.exit_code]
    told("streams", box.exec("pwd; echo err >&2; exit 3", env={"A": "1"}))
    told("merged", box.exec("echo 1; echo 2 >&2; echo 3", merge=True))
    told("words", box.exec(["printf", "%s|", "a b", "$HOME", "*"]))
    told("user", box.exec("id -un", user="agent"))
    told("variable", box.exec("echo $A", env={"A": "x y"}))
    done = box.exec("echo begun; sleep 60", timeout=1)
    said["limit"] = [done.timed_out, done.exit_code, done.seconds < 20]
    told("after", box.exec("echo alive"))
    (folder / "file").write_text("there")
    (folder / "tree" / "sub").mkdir(parents=True)
    (folder / "tree" / "sub" / "f").write_text("deep")
    box.upload(folder / "file", "/app/d/file")
    box.upload(folder / "tree", "/app/tree")
    box.download("/app/d", folder / "back")
    box.download("/app/tree/sub/f", folder / "one")
    said["files"] = [(folder / "back" / "file").read_text(), (folder / "one").read_text()]
    shell = box.shell()
    recorder = Recorder(shell, folder / "recording.jsonl", workdir="/app")
    for command in ("cd /tmp; export V='x y'; echo in > f", "pwd; echo $V; cat f; (exit 4)", "tail -n 1 /etc/group | cut -d: -f1"):
        recorder.run(command)
    recorder.close()
    shell.close()
    for name, work in {"snapshot": box.snapshot, "session": box.end_session, "terminal": box.terminal}.items():
        try:
            work()
        except Unavailable as error:
            said[name] = str(error)
finally:
    box.stop()
try:
    box.exec("true")
except SandboxError as error:
    said["stopped"] = str(error)
print("RESULT " + json.dumps(said))
"""


@pytest.mark.slow
def test_harbors_docker_as_ours(root: Root, tmp_path: Path) -> None:
    """HarborSandbox over Harbor's real Docker environment; and what is recorded there is replayed in ours, exactly."""
    from misstep.sandbox import replay, roots
    from misstep.sandbox.bubblewrap import BubblewrapSandbox
    from misstep.sandbox.record import read

    command = [SCRIPTS / "with-dockerd", sys.executable, "-c", OVER_DOCKER, tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, env={**ENV, "MISSTEP_PYTHON": sys.executable})
    if run.returncode == 77:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, run.stdout[-2000:] + run.stderr[-3000:]
    said = json.loads(lines[0][7:])
    assert said == {
        "streams": ["/app\n", "err\n", 3], "merged": ["1\n2\n3\n", "", 0], "words": ["a b|$HOME|*|", "", 0],
        "user": ["agent\n", "", 0], "variable": ["x y\n", "", 0], "limit": [True, 124, True], "after": ["alive\n", "", 0],
        "files": ["there", "deep"],
        "snapshot": said["snapshot"], "session": said["session"], "terminal": said["terminal"],
        "stopped": "the sandbox is not running",
    }  # fmt: skip
    assert "branch by replay" in said["snapshot"] and "session" in said["session"] and "tmux" in said["terminal"]
    from misstep.sandbox import image

    made = image.build(tmp_path / "environment" / "Dockerfile", roots.find("base"))
    prefix = replay.verify(read(tmp_path / "recording.jsonl"), lambda: BubblewrapSandbox(made))
    assert [one.grade for one in prefix.compared] == ["exact"] * 3


def test_a_called_off_wait_ends_the_command(root: Root, tmp_path: Path) -> None:
    from misstep.sandbox.bubblewrap import BubblewrapSandbox

    async def work(box: BubblewrapSandbox) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.exec_async("sleep 60 & setsid sleep 61 & sleep 62"), 0.3)

    with BubblewrapSandbox(root) as box:
        asyncio.run(work(box))
        assert box.processes() == []
