"""Agents that run on this side, with the guard beside them: terminus-2 and mini-swe-agent.

Several attempts in several arms run in one process, and a guard has one arm for a process. So each event is given to a hook
process of its own, the very one that a coding agent would start, with its home in the trial's folder and the arm in its
environment: same code, same log, same limits of time.

terminus-2 asks by itself whether the task is really complete, which is an always-verify nudge in every arm. `[agent.kwargs.misstep]
completion_confirmation = "off"` of a design takes that question away, in every arm alike; a policy's text at a stop is then
all that the model is told.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from harbor.agents.installed.mini_swe_agent import MiniSweAgent
    from harbor.agents.terminus_2.terminus_2 import Terminus2
except ImportError as error:  # pragma: no cover
    raise ImportError("Harbor is not installed: pip install 'misstep[harbor]'") from error

from misstep.experiment.outcomes.classify import GUARD_LOGS
from misstep.guard._json import dumps, loads
from misstep.guard.adapters import Answer, Guard, terminus_2
from misstep.guard.install import HOOK

if TYPE_CHECKING:
    from harbor.environments.base import BaseEnvironment
    from harbor.models.agent.context import AgentContext

PATIENCE = 60.0
"""Seconds that a hook process may take; it ends itself long before."""


class TrialGuard(Guard):
    """The guard of one attempt: each event in a hook process. Nothing here ever raises, but what fails is on record."""

    def __init__(self, logs: Path, own: dict[str, Any], cwd: str) -> None:
        super().__init__()
        self.home = logs.resolve() / GUARD_LOGS.name
        self.cwd = cwd
        self.own = own

    def environment(self) -> dict[str, str]:
        """Of a hook process: nothing of this one's but where programs are."""
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "MISSTEP_HOME": str(self.home),
            "MISSTEP_ARM": self.own["arm"],
            "MISSTEP_PORTFOLIO": self.own["portfolio"],
            "MISSTEP_SCORED": "1",
        }

    def _send(self, record: dict[str, Any]) -> Answer:
        payload = {"session_id": self.session, "agent_id": self.agent, "turn": str(self.turns), "records": [record]}
        python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        words = [python, "-I", "-S", str(HOOK), "in-process"]
        try:
            run = subprocess.run(
                words,
                input=dumps(payload).encode(),
                capture_output=True,
                timeout=PATIENCE,
                env=self.environment(),
                check=False,
            )
            found = loads(run.stdout.decode()) if run.stdout else {}
            return Answer(found.get("action", ""), found.get("text", ""))
        except (OSError, ValueError, subprocess.SubprocessError):
            return Answer()  # the log lacks the event, and liveness looks for it


async def _cwd(environment: BaseEnvironment) -> str:
    """Where commands of the agent run inside."""
    return ((await environment.exec("pwd")).stdout or "/").strip()


class GuardedTerminus2(terminus_2.Guarded, Terminus2):
    """terminus-2 with the guard beside it."""

    misstep_in_process = True

    def __init__(self, *args: Any, misstep: dict[str, Any], **kwargs: Any) -> None:
        self._misstep = misstep
        self._asks_itself = misstep.get("completion_confirmation", "on") == "on"
        self._inside = "/"
        self._completing = False
        self._told = ""
        super().__init__(*args, **kwargs)

    def new_guard(self) -> Guard:
        return TrialGuard(self.logs_dir, self._misstep, self._inside)

    async def setup(self, environment: BaseEnvironment) -> None:
        await super().setup(environment)
        self._inside = await _cwd(environment)

    async def _handle_llm_interaction(self, *args: Any, **kwargs: Any) -> Any:
        made = await super()._handle_llm_interaction(*args, **kwargs)
        self._completing = bool(made[1])
        return made

    async def _execute_commands(self, commands: list[Any], session: Any) -> tuple[bool, str]:
        done = await super()._execute_commands(commands, session)
        if self._completing and not self._asks_itself:
            # The loop ends where a confirmation was pending already, and asks where none was.
            self._told = self.guard.stop(done[1][-2000:])
            self._pending_completion = not self._told
        return done

    def _get_completion_confirmation_message(self, terminal_output: str) -> str:
        if self._asks_itself:
            return super()._get_completion_confirmation_message(terminal_output)
        return f"{self._limit_output_length(terminal_output)}\n\n{self._told}"


class GuardedMiniSweAgent(MiniSweAgent):
    """mini-swe-agent on this side, its commands run in the container; Harbor's own class runs it inside."""

    misstep_in_process = True

    def __init__(self, *args: Any, misstep: dict[str, Any], **kwargs: Any) -> None:
        self._misstep = misstep
        self._given: dict[str, Any] = dict(kwargs.get("config") or {})
        super().__init__(*args, **kwargs)

    async def install(self, environment: BaseEnvironment) -> None:
        """Nothing goes inside."""

    def version(self) -> str | None:
        import minisweagent

        return str(minisweagent.__version__)

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        from harbor.llms.litellm_config import litellm_api_base, litellm_model_name

        from misstep.experiment.runs.mini_swe_agent import Agent, Inside, Model

        access = self.model_connection
        name = litellm_model_name(
            str(self.model_name), model_api_format=self._model_api_format, skip_model_parsing=self.skip_model_parsing
        )
        given = _settings(self._given)
        keys = {
            "api_base": litellm_api_base(access, model_api_format=self._model_api_format),
            "api_key": access.api_key,
        }
        model_kwargs = {**given["model"].pop("model_kwargs", {}), **{k: v for k, v in keys.items() if v}}
        model = Model(
            **{**given["model"], "model_name": name, "model_kwargs": model_kwargs, "cost_tracking": "ignore_errors"}
        )
        inside = Inside(environment, await _cwd(environment), asyncio.get_running_loop(), given["environment"])
        guard = TrialGuard(self.logs_dir, self._misstep, inside.config.cwd)
        agent = Agent(
            model, inside, guard, **{**given["agent"], "output_path": self.logs_dir / "mini-swe-agent.trajectory.json"}
        )
        try:
            await asyncio.to_thread(agent.run, instruction)
        finally:
            inside.ended.set()  # a thread cannot be ended: its next command does it


def _settings(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """mini-swe-agent's own settings, with a design's over them."""
    import yaml
    from minisweagent.config import builtin_config_dir

    known = yaml.safe_load((Path(builtin_config_dir) / "mini.yaml").read_text(encoding="utf-8"))
    made = {part: {**known.get(part, {}), **given.get(part, {})} for part in ("agent", "model", "environment")}
    for key in ("mode", "confirm_exit", "whitelist_actions", "output_path"):
        made["agent"].pop(key, None)  # of its interactive form
    for key in ("model_name", "model_class"):
        made["model"].pop(key, None)
    return made
