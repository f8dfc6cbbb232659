"""Hooks run as a host runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import misstep.guard
from misstep.guard.portfolio import Portfolio, from_plain

HOOK = Path(misstep.guard.__file__).with_name("hook.py")
POLICIES = Path(__file__).parent / "policies"
PYTHON = os.path.realpath(sys.executable)
PLAIN = ["deny-first", "deny-second", "tell-one", "tell-two", "at-stop"]


def plain_rules(*names: str, **given: Any) -> list[dict[str, Any]]:
    """Rules for the policies of policies/plain.py."""
    module = str(POLICIES / "plain.py")
    return [{"policy": f"plain/{name}", "misstep": "plain", "module": module, **given} for name in names or PLAIN]


def bad_rules(*names: str) -> list[dict[str, Any]]:
    return [{"policy": name, "misstep": name, "module": str(POLICIES / "bad.py")} for name in names]


def portfolio_of(rules: list[dict[str, Any]], mode: str = "enforce", **given: Any) -> Portfolio:
    return from_plain({"v": 1, "rules": rules, **given}, mode)


class Hooks:
    """One user's home, in which hooks run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "MISSTEP_HOME": str(home / "state")}
        self.python = PYTHON
        self.host = "claude-code"

    def use(self, rules: list[dict[str, Any]], **given: Any) -> None:
        path = self.home / "portfolio.json"
        path.write_text(json.dumps({"v": 1, "rules": rules, **given}))
        self.env["MISSTEP_PORTFOLIO"] = str(path)

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.python, "-I", "-S", str(HOOK), self.host],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
        )

    def raw(self, data: bytes) -> str:
        """What a hook prints for these bytes. It always exits with 0."""
        process = self.start()
        out, err = process.communicate(data, timeout=60)
        assert process.returncode == 0, err
        self.stderr = err.decode(errors="replace")
        return out.decode()

    def send(self, event: str, session: str = "s", **given: Any) -> dict[str, Any]:
        """What a hook answers to an event, {} for nothing."""
        payload = {"session_id": session, "hook_event_name": event, "cwd": "/w", **given}
        said = self.raw(json.dumps(payload).encode())
        return json.loads(said) if said else {}

    def prompt(self, text: str, **given: Any) -> dict[str, Any]:
        return self.send("UserPromptSubmit", prompt=text, **given)

    def call(self, command: str, id: str = "t", **given: Any) -> dict[str, Any]:
        answer = self.send("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id=id, **given)
        return answer.get("hookSpecificOutput", answer)

    def result(self, command: str, id: str = "t", output: str = "", **given: Any) -> dict[str, Any]:
        shown = {"stdout": output, "stderr": "", "interrupted": False}
        return self.send(
            "PostToolUse",
            tool_name="Bash",
            tool_input={"command": command},
            tool_use_id=id,
            tool_response=shown,
            **given,
        )

    def stop(self, message: str = "Done.", **given: Any) -> dict[str, Any]:
        return self.send("Stop", last_assistant_message=message, **given)

    def folder(self, session: str = "s") -> Path:
        return self.home / "state" / "guard" / "sessions" / self.host / session

    def log(self, session: str = "s") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder(session) / "log.jsonl").read_text().splitlines()]

    def state(self, session: str = "s") -> dict[str, Any]:
        return json.loads((self.folder(session) / "state.json").read_text())

    def faults(self) -> list[str]:
        path = self.home / "state" / "guard" / "faults.jsonl"
        return [json.loads(line)["error"] for line in path.read_text().splitlines()] if path.is_file() else []


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)
