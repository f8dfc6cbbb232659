"""Branch tests with the real Codex and Claude Code: recorded in a trial of Harbor's, and continued from the stop in others.

The model is a script: it restarts the service in a session of its own where it is told to, and else says that all is done.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("harbor", reason="Harbor is not installed (misstep[harbor])")

from misstep.experiment.branch import BranchDesign, analyse, find
from misstep.experiment.branch import run as runs
from misstep.experiment.branch.trials import GO_ON
from misstep.experiment.plan.design import Agent, Environment
from misstep.guard.portfolio import from_plain
from misstep.sandbox import native
from misstep.sandbox.tasks import Task

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
PATTERNS = {
    "codex": "codex-0.146*/node_modules/@openai/codex-linux-*/vendor/*/bin/codex",
    "claude-code": "claude-code-2.1.3*/node_modules/@anthropic-ai/claude-code-*/claude",
}
MODELS = {"codex": "openai/gpt-5", "claude-code": "anthropic/claude-sonnet-4-5"}

pytestmark = pytest.mark.slow


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def branching() -> Any:
    problem = native.problem()
    if problem:
        pytest.skip(problem)
    return _load(HERE / "branching.py")


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="misstep-test-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


def scripted(script: Any) -> Any:
    """The model's rule, for the agents' own protocols."""
    server = _load(CHECKOUT / "tests/guard/model_server.py")
    remedy = _load(HERE / "branching.py").REMEDY
    probe = f"sleep 0.1; {script.probe}"

    class Rule(server.ModelServer):
        def next(self, body: dict[str, Any]) -> dict[str, Any]:
            items = body.get("input") or body.get("messages") or []
            text = json.dumps(items, ensure_ascii=False)
            last = json.dumps(items[-1], ensure_ascii=False)
            with self._lock:
                self.requests.append(body)

            def done(command: str) -> bool:
                return json.dumps(command)[1:-1] in text or json.dumps(json.dumps(command)[1:-1])[1:-1] in text

            if done(script.again):
                return {"run": probe} if not done(probe) else {"say": "It is there now."}
            if done(script.attached):
                return {"run": script.again} if remedy.search(last) else {"say": "The service is there."}
            return {"run": script.attached} if done("cat > /app/") else {"run": script.write}

    return Rule([])


def program(agent: str) -> Path:
    found = sorted((CHECKOUT / ".clis").glob(PATTERNS[agent]))
    if not found:
        pytest.skip(f"{agent} is not installed: scripts/install-clis has not run")
    return found[-1].resolve().parent


@pytest.mark.parametrize("agent", ["codex", "claude-code"])
def test_an_agent_goes_on_from_a_stop(branching: Any, folder: Path, agent: str) -> None:
    where = program(agent)
    (folder / "tasks").mkdir()
    ((name, script),) = branching.service_tasks(folder / "tasks", 1).items()
    path = folder / "tasks" / name
    mounts = prepared(path, agent, where)
    with scripted(script) as model:
        prefix = "ANTHROPIC" if agent == "claude-code" else "OPENAI"
        env = {
            f"{prefix}_API_KEY": "none",
            f"{prefix}_BASE_URL": f"http://127.0.0.1:{model.port}" + ("/v1" if agent == "codex" else ""),
        }
        record(folder, agent, mounts, env)
        task = Task.load(path)
        plain = branching.plain_of("service-persistence")
        found = find([folder / "jobs"], from_plain(plain), [task])
        (point,) = found.points
        assert (point.event, point.problem) == ("stop", ""), point
        runs.save(folder / "branch", found, plain, {name: path})
        design = BranchDesign(
            continuations=1,
            agent=Agent(agent, model=MODELS[agent], kwargs={"skip_install": True, "misstep": {}}, env=env),
            environment=Environment(
                "bubblewrap", kwargs={"root": "host", "end_session": True, "mounts": mounts}, concurrency=1
            ),
        )
        before = len(model.requests)
        outcome = asyncio.run(runs.run(folder / "branch", design))
        if os.environ.get("KEEP_TRIALS"):
            shutil.copytree(folder / "branch", os.environ["KEEP_TRIALS"] + "/branch", dirs_exist_ok=True)
        assert (outcome.recorded, outcome.end) == (3, "done"), (outcome, (folder / "branch/verified.jsonl").read_text())
        tests = runs.Folder.read(folder / "branch")
        ends = {one.arm: one for one in tests.records}
        assert all(one.fair for one in tests.records), [one.fault for one in tests.records]
        assert {arm: one.passed for arm, one in ends.items()} == {"real": True, "sham": False, "nothing": False}
        assert ends["nothing"].answers == 0 and ends["real"].answers > ends["sham"].answers >= 1
        verified = tests.verdicts.known[point.id]
        assert verified.grade == "exact" and verified.live
        first = model.requests[before]
        said = json.dumps(first.get("input") or first.get("messages"), ensure_ascii=False)
        assert said.count(json.dumps(task.instruction[:60])[1:-1]) == 1  # the conversation, and once
        assert ends["real"].behaviour is True and ends["sham"].behaviour is False
        assert "cat > /app/" in said and "The service is there." in said
        analysis = analyse(tests.found, tests.records, tests.verdicts.known)
        assert analysis.primary is not None and analysis.primary.at_point is not None
        assert analysis.primary.at_point.mean == 1.0


def test_codex_goes_on_from_a_denied_call(branching: Any, folder: Path) -> None:
    """Files only: a trial begins on the layers of the state, after the call where it ran, before it where it was denied."""
    where = program("codex")
    (folder / "tasks").mkdir()
    ((name, script),) = branching.rescue_task(folder / "tasks").items()
    path = folder / "tasks" / name
    mounts = prepared(path, "codex", where)
    with rescuing(branching, script) as model:
        env = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{model.port}/v1"}
        record(folder, "codex", mounts, env)
        plain = branching.plain_of("database-evidence")
        found = find([folder / "jobs"], from_plain(plain), [Task.load(path)])
        (point,) = found.points
        assert (point.event, point.action, point.problem) == ("before", "deny", ""), point
        runs.save(folder / "branch", found, plain, {name: path})
        design = BranchDesign(
            continuations=1,
            arms=("real", "nothing"),
            contrast=("real", "nothing"),
            agent=Agent("codex", model=MODELS["codex"], kwargs={"skip_install": True, "misstep": {}}, env=env),
            environment=Environment("bubblewrap", kwargs={"root": "host", "mounts": mounts}, concurrency=1),
        )
        model.requests.clear()
        asyncio.run(runs.run(folder / "branch", design))
    tests = runs.Folder.read(folder / "branch")
    ends = {one.arm: one for one in tests.records if one.fair}
    assert {arm: one.passed for arm, one in ends.items()} == {"real": True, "nothing": False}, tests.records
    assert not any(one.replayed for one in tests.records)
    said = [json.dumps(body["input"], ensure_ascii=False) for body in model.requests]
    firsts = [text for text in said if text.count(GO_ON) == 1 and "cp -a" not in text]
    assert len(firsts) == 2 and sum("This call was not run" in text for text in firsts) == 1


def rescuing(branching: Any, script: Any) -> Any:
    """The model opens the database; refused, it copies it first, and else it tries its rescue on what is left."""
    server = _load(CHECKOUT / "tests/guard/model_server.py")

    class Rule(server.ModelServer):
        def next(self, body: dict[str, Any]) -> dict[str, Any]:
            text = json.dumps(body.get("input"), ensure_ascii=False)
            with self._lock:
                self.requests.append(body)
            if "cp -a" in text:
                return {"say": "It is written."}
            return {"run": script.rescue} if "sqlite3.connect" in text else {"run": script.opens}

    return Rule([])


def prepared(path: Path, agent: str, where: Path) -> list[dict[str, Any]]:
    """Make a task reach the model on this machine's loopback, and the agent's program; its mounts."""
    settings = path / "task.toml"
    settings.write_text(
        settings.read_text().replace('"no-network"', '"public"').replace("memory_mb = 512", "memory_mb = 3072")
    )
    exe = "claude" if agent == "claude-code" else agent
    docker = path / "environment/Dockerfile"
    docker.write_text(
        docker.read_text() + f"\nRUN mkdir -p /root/.local/bin && ln -s /opt/cli/{exe} /root/.local/bin/{exe}\n"
        "ENV PATH=/root/.local/bin:/usr/local/bin:/usr/bin:/bin\n"
    )
    return [{"type": "bind", "source": str(where), "target": "/opt/cli", "read_only": True}]


def record(folder: Path, agent: str, mounts: list[dict[str, Any]], env: dict[str, str]) -> None:
    """A trial of Harbor's own agent, without a word of ours."""
    harbor = Path(sys.executable).with_name("harbor")
    command = [str(harbor), "run", "--path", str(folder / "tasks"), "--jobs-dir", str(folder / "jobs"), "--env",
               "misstep.sandbox.harbor:BubblewrapEnvironment", "--ek", "root=host", "--ek", "end_session=true", "--agent", agent,
               "--model", MODELS[agent], "--ak", "skip_install=true", "--mounts", json.dumps(mounts)]  # fmt: skip
    whole = {**os.environ, "HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True", **env}
    run = subprocess.run(command, capture_output=True, text=True, env=whole, timeout=180)
    results = list((folder / "jobs").glob("*/*__*/result.json"))
    assert len(results) == 1, run.stdout[-2000:] + run.stderr[-2000:]
    if os.environ.get("KEEP_TRIALS"):  # to look at what a trial left
        shutil.copytree(folder / "jobs", os.environ["KEEP_TRIALS"], dirs_exist_ok=True)
