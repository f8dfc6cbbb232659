"""Real agents, run without a screen and without a network against a scripted model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .model_server import ModelServer

ROOT = Path(__file__).resolve().parents[2]
CLIS = ROOT / ".clis"
SECRETS = (
    "OPENAI",
    "ANTHROPIC",
    "CLAUDE",
    "CODEX",
    "GEMINI",
    "GOOGLE",
    "QWEN",
    "OPENCODE",
    "PI_",
    "MISSTEP",
    "IS_SANDBOX",
)


def program(name: str, *candidates: str) -> Path:
    """The installed program of an agent, else the test is skipped."""
    for candidate in candidates:
        for found in sorted((CLIS / name).glob(candidate)):
            return found
    reason = CLIS / f"{name}.skipped"
    why = reason.read_text().strip()[-200:] if reason.is_file() else "scripts/install-clis has not run"
    pytest.skip(f"{name} is not installed: {why}")


@dataclass
class Agent:
    """One agent with a home and a work folder of its own."""

    host: str
    version: str
    root: Path
    model: str = ""
    env: dict[str, str] = field(default_factory=dict)
    trust: bool = True

    def __post_init__(self) -> None:
        # Not below /tmp: policies take what is there for the agent's own.
        self.home, self.work = self.root / "home", CLIS / "work" / f"w{uuid.uuid4().hex[:12]}"
        self.state = self.root / "state"
        for folder in (self.home, self.work):
            folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", self.work], check=True)
        getattr(self, "_prepare_" + self.host.replace("-", "_"))()

    # -- configuration -------------------------------------------------------------------------------------------------

    def _prepare_codex(self) -> None:
        self.program = program(
            self.version, "node_modules/@openai/codex-linux-*/vendor/*/bin/codex", "node_modules/.bin/codex"
        )
        self.folder = self.home / ".codex"
        self.folder.mkdir(exist_ok=True)

    def _prepare_claude_code(self) -> None:
        self.program = program(
            self.version, "node_modules/@anthropic-ai/claude-code-*/claude", "node_modules/.bin/claude"
        )
        self.folder = self.home / ".claude"
        self.folder.mkdir(exist_ok=True)

    def _prepare_qwen_code(self) -> None:
        self.program = program(self.version, "node_modules/.bin/qwen")
        self.folder = self.home / ".qwen"
        self.folder.mkdir(exist_ok=True)

    def _prepare_gemini_cli(self) -> None:
        self.program = program(self.version, "node_modules/.bin/gemini")
        self.folder = self.home / ".gemini"
        self.folder.mkdir(exist_ok=True)
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        }
        (self.folder / "settings.json").write_text(json.dumps(settings, indent=2))

    def _prepare_opencode(self) -> None:
        self.program = program(self.version, "node_modules/.bin/opencode")
        self.folder = self.home / ".config" / "opencode"
        self.folder.mkdir(parents=True, exist_ok=True)

    def _prepare_pi(self) -> None:
        self.program = program(self.version, "node_modules/.bin/pi")
        self.folder = self.home / ".pi" / "agent"
        self.folder.mkdir(parents=True, exist_ok=True)

    def environment(self, port: int) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(SECRETS)}
        env.update(
            PWD=str(self.work),
            HOME=str(self.home),
            MISSTEP_HOME=str(self.state),
            XDG_CONFIG_HOME=str(self.home / ".config"),
        )
        url = f"http://127.0.0.1:{port}"
        if self.host == "codex":
            env.update(CODEX_HOME=str(self.folder), FAKE_KEY="dummy", RUST_LOG="error")
        elif self.host == "claude-code":
            env.update(
                CLAUDE_CONFIG_DIR=str(self.folder),
                ANTHROPIC_BASE_URL=url,
                ANTHROPIC_API_KEY="dummy",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                DISABLE_AUTOUPDATER="1",
                IS_SANDBOX="1",
            )
        elif self.host == "qwen-code":
            env.update(OPENAI_BASE_URL=url + "/v1", OPENAI_API_KEY="dummy", OPENAI_MODEL="qwen3-coder", NO_BROWSER="1")
        elif self.host == "pi":
            model = {"id": "fake-model", "name": "Fake", "contextWindow": 100000, "maxTokens": 1000}
            provider = {"baseUrl": url + "/v1", "api": "openai-completions", "apiKey": "dummy", "models": [model]}
            (self.folder / "models.json").write_text(json.dumps({"providers": {"fake": provider}}))
            env.update(PI_CODING_AGENT_DIR=str(self.folder), PI_OFFLINE="1")
            # it needs a newer node than others, which is installed beside it
            env["PATH"] = f"{CLIS / self.version / 'node_modules/.bin'}:{env['PATH']}"
        elif self.host == "opencode":
            model = {"fake-model": {"name": "Fake", "tool_call": True, "limit": {"context": 100000, "output": 1000}}}
            provider = {"npm": "@ai-sdk/openai-compatible", "name": "Fake", "models": model}
            provider["options"] = {"baseURL": url + "/v1", "apiKey": "dummy"}
            config = {
                "provider": {"fake": provider},
                "permission": {"bash": "allow", "edit": "allow"},
                "autoupdate": False,
            }
            (self.folder / "opencode.json").write_text(json.dumps(config))
            env.update(OPENCODE_DISABLE_AUTOUPDATE="1", XDG_DATA_HOME=str(self.home / "data"), NO_BROWSER="1")
        else:
            env.update(
                GEMINI_API_KEY="dummy",
                GOOGLE_GEMINI_BASE_URL=url,
                GEMINI_CLI_NO_RELAUNCH="true",
                GEMINI_CLI_TRUST_WORKSPACE="true",
                NO_BROWSER="1",
            )
        return env | self.env

    def guard(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`misstep guard ...` as the user of this agent."""
        return subprocess.run(
            [sys.executable, "-c", "from misstep.cli import main; main()", "guard", *words],
            cwd=self.work,
            env=self.environment(9),
            capture_output=True,
            text=True,
            check=check,
        )

    def close(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def install(self) -> None:
        self.guard("install", self.host, *(["--trust"] if self.host == "codex" and self.trust else []))

    # -- runs ------------------------------------------------------------------------------------------------------------

    def run(self, prompt: str, script: list[dict[str, Any]], *extra: str, timeout: float = 90) -> ModelServer:
        """Let the agent work on a prompt with a scripted model. `self.done` is the finished process."""
        with ModelServer(script) as server:
            self.done = subprocess.run(
                [str(self.program), *self._words(prompt, list(extra), server.port)],
                cwd=self.work,
                env=self.environment(server.port),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        return server

    def _words(self, prompt: str, extra: list[str], port: int) -> list[str]:
        if self.host == "codex":
            settings = {
                "model": self.model or "gpt-5.5",
                "model_provider": "fake",
                "sandbox_mode": "danger-full-access",
                "approval_policy": "never",
                "check_for_update_on_startup": False,
                "features.plugins": False,
                "features.apps": False,
                "analytics.enabled": False,
                "model_providers.fake.name": "fake",
                "model_providers.fake.base_url": f"http://127.0.0.1:{port}/v1",
                "model_providers.fake.env_key": "FAKE_KEY",
                "model_providers.fake.wire_api": "responses",
                "model_providers.fake.request_max_retries": 0,
                "model_providers.fake.stream_max_retries": 0,
                "model_providers.fake.supports_websockets": False,
            }
            flags = [w for key, value in settings.items() for w in ("-c", f"{key}={json.dumps(value)}")]
            return ["exec", *extra, "--json", "--skip-git-repo-check", *flags, prompt]
        if self.host == "claude-code":
            words = ["-p", prompt, "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
            return [*words, "--model", self.model or "claude-sonnet-4-5", *extra]
        if self.host == "qwen-code":
            return ["-p", prompt, "--yolo", "--auth-type", "openai", *extra]
        if self.host == "pi":
            return ["--print", "--model", "fake/fake-model", *extra, prompt]
        if self.host == "opencode":
            return ["run", "--model", "fake/fake-model", *extra, prompt]
        return ["-p", prompt, "--yolo", "--output-format", "stream-json", "-m", self.model or "gemini-2.5-pro", *extra]

    # -- what the guard wrote ------------------------------------------------------------------------------------------

    def logs(self) -> dict[str, list[dict[str, Any]]]:
        """The guard's logs by folder below `sessions/<host>`."""
        root = self.state / "guard" / "sessions" / self.host
        return {
            str(path.parent.relative_to(root)): [json.loads(line) for line in path.read_text().splitlines()]
            for path in sorted(root.rglob("log.jsonl"))
        }

    def log(self) -> list[dict[str, Any]]:
        """The one session's log."""
        (only,) = self.logs().values()
        return only

    def fired(self) -> list[tuple[str, str, bool]]:
        """(policy, what was done, fired) of every would-be intervention of all sessions, in order."""
        return [
            (row["policy"], line.get("action", ""), row["fired"])
            for log in self.logs().values()
            for line in log
            if line.get("e") == "decision"
            for row in line["rows"]
            if row["fires"]
        ]
