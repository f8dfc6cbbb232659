"""The guard inside agents that are Python programs: no hook process, the same engine, log and portfolio.

`Guard` is what an adapter talks to; one module each knows how its framework calls things:
`mini_swe_agent`, `terminus_2`, `langchain`, `claude_agent_sdk`.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import Any

from .. import run
from .._json import dumps, loads


@dataclass(frozen=True)
class Answer:
    """What is to be done at a call or a stop."""

    action: str = ""
    """'' (nothing), 'deny' (do not run the call; at a stop: go on) or 'instruct'."""
    text: str = ""
    """What the model is told."""

    def __bool__(self) -> bool:
        return bool(self.action)


class Guard:
    """One session of one agent. Nothing here ever raises: where the guard fails, the agent goes on."""

    def __init__(self, session: str = "", agent: str = "") -> None:
        self.session = session or uuid.uuid4().hex
        self.agent = agent
        self.cwd = ""
        """Where calls run that do not say; '' is this process's own folder."""
        self.turns = 0

    def prompt(self, text: str) -> None:
        """A person's prompt (or the task). The first one decides which policies the session is eligible for."""
        self.turns += 1
        self._send({"e": "prompt", "text": text})

    def before(self, id: str, tool: str, given: dict[str, Any], cwd: str = "") -> Answer:
        """A call is about to run."""
        return self._send(
            {"e": "before", "id": id, "tool": tool, "input": given, "cwd": cwd or self.cwd or os.getcwd()}
        )

    def after(
        self,
        id: str,
        tool: str,
        given: dict[str, Any],
        output: str,
        exit: int | None = None,
        failed: bool | None = None,
        fault: str | None = None,
        cwd: str = "",
    ) -> None:
        """A call's result is there. fault: one of `misstep.trajectory.FAULTS` where the result is not the agent's doing."""
        result = {"output": output, "exit": exit, "failed": failed, "fault": fault}
        record = {
            "e": "after",
            "id": id,
            "tool": tool,
            "input": given,
            "cwd": cwd or self.cwd or os.getcwd(),
            "result": result,
        }
        self._send(record)

    def stop(self, message: str) -> str:
        """The agent wants to stop: the text with which it has to go on, '' where it may."""
        return self._send({"e": "stop", "message": message, "turn": str(self.turns)}).text

    def _send(self, record: dict[str, Any]) -> Answer:
        try:
            payload = {"session_id": self.session, "agent_id": self.agent, "turn": str(self.turns), "records": [record]}
            said = run.answer("in-process", dumps(payload).encode())
            found = loads(said) if said else {}
            return Answer(found.get("action", ""), found.get("text", ""))
        except Exception:
            return Answer()
