"""Harbor's agents at work in our sandboxes: the real programs, against a scripted model on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from misstep.sandbox import Root

pytest.importorskip("harbor", reason="Harbor is not installed (misstep[harbor])")

CHECKOUT = Path(__file__).resolve().parents[2]
SOLUTION = (CHECKOUT / "tasks/dial-codes/solution/solve.sh").read_text().split("set -e\n", 1)[1]


@contextmanager
def plain_model(turns: list[str]) -> Iterator[int]:
    """A chat model that offers no tools: one text after the other, the last again and again."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["content-length"])))
            message = {"role": "assistant", "content": turns[min(len(asked), len(turns)) - 1]}
            answer = {
                "id": "1", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }  # fmt: skip
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@contextmanager
def tool_model(turns: list[dict[str, str]]) -> Iterator[int]:
    """The scripted model of the guard's tests, which speaks each agent's protocol."""
    path = CHECKOUT / "tests/guard/model_server.py"
    spec = importlib.util.spec_from_file_location("model_server", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with module.ModelServer(turns) as server:
        yield server.port


def trial(tmp_path: Path, arguments: list[str], env: dict[str, str], dockerfile: str = "") -> dict:
    task = tmp_path / "tasks" / "dial-codes"
    shutil.copytree(CHECKOUT / "tasks/dial-codes", task)
    settings = (task / "task.toml").read_text()
    # The model is on this machine's loopback: these trials share its network.
    (task / "task.toml").write_text(
        settings.replace('"no-network"', '"public"').replace("memory_mb = 512", "memory_mb = 3072")
    )
    if dockerfile:
        (task / "environment/Dockerfile").write_text(f"FROM misstep-base:bookworm\nWORKDIR /app\n{dockerfile}\n")
    harbor = Path(sys.executable).with_name("harbor")
    command = [str(harbor), "run", "--path", str(task.parent), "--jobs-dir", str(tmp_path / "jobs"), "--env",
               "misstep.sandbox.harbor:BubblewrapEnvironment", "--ek", "root=host", *arguments]  # fmt: skip
    whole = {**os.environ, "HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True", **env}
    run = subprocess.run(command, capture_output=True, text=True, env=whole, timeout=180)
    found = list((tmp_path / "jobs").glob("*/dial-codes__*/result.json"))
    assert len(found) == 1, run.stdout[-2000:] + run.stderr[-2000:]
    return json.loads(found[0].read_text())


def installed(pattern: str) -> Path:
    found = sorted((CHECKOUT / ".clis").glob(pattern))
    if not found:
        pytest.skip("the agent is not installed: scripts/install-clis has not run")
    return found[-1].resolve().parent


@pytest.mark.slow
def test_terminus_2(root: Root, tmp_path: Path) -> None:
    if not Path("/usr/bin/tmux").exists():
        pytest.skip("this machine's /usr has no tmux")
    turn = {
        "analysis": "",
        "plan": "",
        "commands": [{"keystrokes": SOLUTION + "\n", "duration": 1.0}],
        "task_complete": False,
    }
    end = json.dumps({"analysis": "", "plan": "", "commands": [], "task_complete": True})
    with plain_model([json.dumps(turn), end, end]) as port:
        arguments = [
            "--agent",
            "terminus-2",
            "--model",
            "openai/gpt-4o",
            "--ak",
            f"api_base=http://127.0.0.1:{port}/v1",
        ]
        row = trial(tmp_path, arguments, {"OPENAI_API_KEY": "none"})
    assert row["verifier_result"]["rewards"] == {"reward": 1.0}, row.get("exception_info")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "model", "pattern", "prefix"),
    [
        ("claude-code", "anthropic/claude-sonnet-4-5", "claude-code-2.1.3*/node_modules/@anthropic-ai/claude-code-*/claude", "ANTHROPIC"),
        ("codex", "openai/gpt-5", "codex-*/node_modules/@openai/codex-linux-*/vendor/*/bin/codex", "OPENAI"),
    ],
    ids=["claude-code", "codex"],
)  # fmt: skip
def test_installed_agents(root: Root, tmp_path: Path, agent: str, model: str, pattern: str, prefix: str) -> None:
    folder = installed(pattern)
    program = "claude" if agent == "claude-code" else agent
    dockerfile = f"RUN mkdir -p /root/.local/bin && ln -s /opt/cli/{program} /root/.local/bin/{program}\nENV PATH=/root/.local/bin:/usr/local/bin:/usr/bin:/bin"
    mounts = json.dumps([{"type": "bind", "source": str(folder), "target": "/opt/cli", "read_only": True}])
    with tool_model([{"run": SOLUTION}, {"say": "All codes are written."}]) as port:
        env = {
            f"{prefix}_API_KEY": "none",
            f"{prefix}_BASE_URL": f"http://127.0.0.1:{port}" + ("/v1" if agent == "codex" else ""),
        }
        arguments = ["--agent", agent, "--model", model, "--ak", "skip_install=true", "--mounts", mounts]
        row = trial(tmp_path, arguments, env, dockerfile)
    assert row["verifier_result"]["rewards"] == {"reward": 1.0}, row.get("exception_info")
