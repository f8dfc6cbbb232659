"""mini-swe-agent (2.4): `class MyAgent(Guarded, DefaultAgent)`.

An action is refused by giving its reason as the observation. A text at a call stands below its output. The agent submits
with a command; that command is not run while a policy wants another turn.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from . import Guard

SUBMITS = re.compile(r"""\b(?:echo|printf)\s+['"]?COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\b""")
"""The command that submits; one that only looks for these words does not."""


class Guarded:
    """Mix this in before the agent's class."""

    guard: Guard

    def new_guard(self) -> Guard:
        """The guard of a run; override it for one with a home or an arm of its own."""
        return Guard()

    def run(self, task: str = "", **kwargs: Any) -> Any:
        self.guard = self.new_guard()
        self._calls = itertools.count(1)
        self.guard.prompt(task)
        return super().run(task, **kwargs)  # type: ignore[misc]

    def execute_actions(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        outputs = [
            self._execute(action, str(message.get("content") or ""))
            for action in message.get("extra", {}).get("actions", [])
        ]
        agent: Any = self
        observations = agent.model.format_observation_messages(message, outputs, agent.get_template_vars())
        added: list[dict[str, Any]] = agent.add_messages(*observations)
        return added

    def _execute(self, action: dict[str, Any], said: str) -> dict[str, Any]:
        agent: Any = self
        command = str(action.get("command", ""))
        call = str(action.get("tool_call_id") or f"call-{next(self._calls)}")
        cwd = str(getattr(agent.env.config, "cwd", "") or "")
        if SUBMITS.search(command):
            told = self.guard.stop(said)
            if told:
                return {"output": told, "returncode": 1, "exception_info": ""}
            done: dict[str, Any] = agent.env.execute(action)
            return done
        answer = self.guard.before(call, "bash", {"command": command}, cwd)
        if answer.action == "deny":
            return {"output": answer.text, "returncode": 1, "exception_info": ""}
        output: dict[str, Any] = agent.env.execute(action)
        code = output.get("returncode")
        timed_out = bool(output.get("exception_info"))
        self.guard.after(
            call, "bash", {"command": command}, str(output.get("output", "")), None if timed_out else code, cwd=cwd
        )
        if answer.text:
            output = {**output, "output": f"{output.get('output', '')}\n\n{answer.text}"}
        return output
