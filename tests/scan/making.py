"""The agent takes a step that these tests call wrong.

## What it is
A command with BAD in it. MAYBE cannot be told, BOOM breaks the detector.

## Why it matters
Sessions of a known content, judged by detectors of a known answer: nothing here depends on the catalogue.

## How it is told
By the word in the command.

## Known misses
None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from misstep.catalogue import Misstep, Policy, Verdict
from misstep.trajectory import Before


class Warn(Policy):
    id = "bad-word"
    at = "before"
    action = "deny"
    text = "Do not use that word. Choose another one, and say why you chose it, before you go on with the task."

    def fires(self, state: Any, event: Any) -> bool | None:
        return "BAD" in (event.call.command or "")


class BadWord(Misstep):
    id = "bad-word"
    name = "uses a bad word in a command"
    status = "stable"
    policies = (Warn(),)

    def on_before(self, state: Any, event: Before) -> Iterable[Verdict] | None:
        command = event.call.command or ""
        if "BOOM" in command:
            raise RuntimeError("a fault of the detector")
        if "BAD" in command:
            return [Verdict(True, event.index, f"the command has BAD in it: {command}")]
        return [Verdict(None if "MAYBE" in command else False, event.index)]


class InScope(Misstep):
    id = "scoped-word"
    name = "uses a word that this task does not allow"
    status = "stable"
    scoped = True

    def eligible(self, prompt: str) -> str | None:
        return "in scope" if "in scope" in prompt else None

    def on_before(self, state: Any, event: Before) -> Iterable[Verdict] | None:
        return [Verdict("BAD" in (event.call.command or ""), event.index, "not allowed here")]


class Preview(Misstep):
    id = "preview-word"
    name = "uses a word that is looked at only in preview"

    def on_before(self, state: Any, event: Before) -> Iterable[Verdict] | None:
        return [Verdict("PRE" in (event.call.command or ""), event.index, "PRE")]


CATALOGUE = (BadWord(), Preview(), InScope())


def session(
    path: Path,
    commands: Iterable[str | tuple[str, str, bool]],
    *,
    id: str = "",
    prompt: str = "Do the thing.",
    start: int = 0,
    uuids: str = "",
    day: str = "2026-03-01",
) -> Path:
    """Write a Claude Code session with a Bash call for each command (or (command, output, failed)); return its path.

    `uuids` names the steps: two sessions with the same name share them, from `start` on.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    name = id or f"{abs(hash(path)) % 16**8:08x}-0000-4000-8000-000000000000"
    lines = [
        _line("user", name, f"{uuids or name}-000-prompt", f"{day}T10:00:00.000Z", {"role": "user", "content": prompt})
    ]
    for number, item in enumerate(commands, start):
        command, output, failed = (item, "ok", False) if isinstance(item, str) else item
        at = f"{day}T10:{number // 60 % 60:02}:{number % 60:02}.000Z"
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
        message = {"role": "assistant", "id": f"m{number}", "model": "claude-x", "content": [call]}
        lines.append(_line("assistant", name, f"{uuids or name}-{number:03}-call", at, message))
        back = {"type": "tool_result", "tool_use_id": f"t{number}", "content": output, "is_error": failed}
        message = {"role": "user", "content": [back]}
        lines.append(_line("user", name, f"{uuids or name}-{number:03}-back", at, message))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _line(kind: str, session: str, uuid: str, at: str, message: dict[str, Any]) -> str:
    record = {
        "type": kind,
        "sessionId": session,
        "uuid": uuid,
        "parentUuid": None,
        "isSidechain": False,
        "timestamp": at,
        "cwd": "/work",
        "version": "2.1.0",
        "message": message,
    }
    return json.dumps(record) + "\n"


def trial(folder: Path, commands: Iterable[str], reward: float | None, *, task: str, fault: str = "") -> Path:
    """Write a Harbor trial folder with a trajectory of these commands."""
    (folder / "agent").mkdir(parents=True)
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": f"Solve {task}."}]
    for number, command in enumerate(commands, 2):
        call = {"tool_call_id": f"c{number}", "function_name": "exec_command", "arguments": {"cmd": command}}
        result = {"results": [{"source_call_id": f"c{number}", "content": "ok"}]}
        steps.append({"step_id": number, "source": "agent", "message": "", "tool_calls": [call], "observation": result})
    trajectory = {
        "schema_version": "ATIF-v1.6",
        "session_id": folder.name,
        "agent": {"name": "codex", "version": "1", "model_name": "m"},
        "steps": steps,
    }
    (folder / "agent" / "trajectory.json").write_text(json.dumps(trajectory), encoding="utf-8")
    result = {
        "id": f"id-{folder.name}",
        "task_name": task,
        "trial_name": folder.name,
        "trial_uri": f"file:///{folder.name}",
        "task_id": {"path": f"tasks/{task}"},
        "task_checksum": "0" * 64,
        "source": None,
        "config": {},
        "agent_info": {"name": "codex", "version": "1", "model_info": {"name": "m", "provider": "p"}},
        "agent_result": {"n_input_tokens": 1, "n_cache_tokens": 0, "n_output_tokens": 1, "cost_usd": 0.1},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": {"exception_type": fault, "exception_message": fault} if fault else None,
        "started_at": "2026-03-01T10:00:00Z",
        "finished_at": "2026-03-01T10:10:00Z",
    }
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder
