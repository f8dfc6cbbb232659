"""Trial folders of known content, as Harbor 0.26 writes them; and an agent for Harbor that does what it is told.

The agent (`trials:ToldAgent`, with `--ak told=FILE`) runs the commands that a JSON file gives for a task, each in a shell of
its own, and leaves an ATIF trajectory of what it ran and what came back.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

START, END = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z"
CHECKSUM = "c" * 64


def result(folder: Path, **fields: Any) -> dict[str, Any]:
    """A trial's result: passed, after a run of a minute, unless told otherwise."""
    task = fields.pop("task", "greet")
    return {
        "schema_version": 1,
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, str(folder))),
        "task_name": task,
        "trial_name": folder.name,
        "trial_uri": f"file:///trials/{folder.name}",
        "task_id": {"path": f"tasks/{task}"},
        "source": "made-up",
        "task_checksum": CHECKSUM,
        "config": {"task": {"path": f"tasks/{task}"}, "trial_name": folder.name, "agent": {"name": "codex"}},
        "agent_info": {"name": "codex", "version": "1.0", "model_info": {"name": "m-1", "provider": "v"}},
        "agent_result": {"n_input_tokens": 100, "n_cache_tokens": 40, "n_output_tokens": 10, "cost_usd": 0.25},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "started_at": START,
        "finished_at": "2026-01-02T03:10:05Z",
        "agent_execution": {"started_at": START, "finished_at": END},
        "step_results": None,
        **fields,
    }


def exception(name: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {"exception_type": name, "exception_message": message, "exception_traceback": "", "occurred_at": END, **more}


def reward(value: float | None) -> dict[str, Any] | None:
    return None if value is None else {"rewards": {"reward": value}}


def steps(prompt: str, *did: Any, last: str = "Done.") -> list[dict[str, Any]]:
    """ATIF steps: a prompt, commands as (command, exit code, output) or texts alone, and the last words ('' for none)."""
    made: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": prompt}]
    for number, one in enumerate(did, 2):
        command, code, output = (one, 0, "") if isinstance(one, str) else one
        call = f"call-{number}"
        made.append(
            {
                "step_id": number,
                "source": "agent",
                "message": "",
                "tool_calls": [{"tool_call_id": call, "function_name": "bash", "arguments": {"command": command}}],
                "observation": {"results": [{"source_call_id": call, "content": output, "extra": {"exit_code": code}}]},
            }
        )
    if last:
        made.append({"step_id": len(made) + 1, "source": "agent", "message": last})
    return made


def trial(folder: Path, recorded: list[dict[str, Any]] | None = None, **fields: Any) -> Path:
    """A trial's folder, with the agent's trajectory where there is one."""
    (folder / "agent").mkdir(parents=True, exist_ok=True)
    made = result(folder, **fields)
    (folder / "result.json").write_text(json.dumps(made))
    (folder / "config.json").write_text(json.dumps(made["config"]))
    if recorded is not None:
        trajectory = {
            "schema_version": "ATIF-v1.6",
            "session_id": made["id"],
            "agent": {"name": "told", "version": "1", "model_name": "m-1"},
            "steps": recorded,
        }
        (folder / "agent" / "trajectory.json").write_text(json.dumps(trajectory))
    return folder


def __getattr__(name: str) -> Any:
    """ToldAgent, made when Harbor asks for it: the other tests do without Harbor."""
    if name != "ToldAgent":
        raise AttributeError(name)
    from harbor.agents.base import BaseAgent

    class ToldAgent(BaseAgent):
        SUPPORTS_ATIF = True

        def __init__(self, *args: Any, told: str, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.told = json.loads(Path(told).read_text())

        @staticmethod
        def name() -> str:
            return "told"

        def version(self) -> str:
            return "1"

        async def setup(self, environment: Any) -> None: ...

        async def run(self, instruction: str, environment: Any, context: Any) -> None:
            name = self.logs_dir.parent.name.rpartition("__")[0]
            did = []
            for command in self.told[name]:
                done = await environment.exec(command)
                did.append((command, done.return_code, (done.stdout or "") + (done.stderr or "")))
            document = {
                "schema_version": "ATIF-v1.6",
                "session_id": str(uuid.uuid4()),
                "agent": {"name": "told", "version": "1"},
                "steps": steps(instruction, *did, last="It is done as asked."),
            }
            (self.logs_dir / "trajectory.json").write_text(json.dumps(document))

    return ToldAgent
