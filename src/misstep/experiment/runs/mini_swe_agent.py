"""mini-swe-agent's own parts as an attempt needs them: its loop on this side, its commands in the trial's container."""

from __future__ import annotations

import asyncio
import os
import platform
import threading
from typing import TYPE_CHECKING, Any

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

try:
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment, LocalEnvironmentConfig
    from minisweagent.models.litellm_model import LitellmModel as Model
except ImportError as error:  # pragma: no cover
    raise ImportError("mini-swe-agent is not installed: pip install mini-swe-agent") from error

from misstep.guard.adapters.mini_swe_agent import Guarded

if TYPE_CHECKING:
    from harbor.environments.base import BaseEnvironment

    from misstep.guard.adapters import Guard


class Agent(Guarded, DefaultAgent):
    """The agent, with the guard of its attempt."""

    def __init__(self, model: Any, env: Any, guard: Guard, **kwargs: Any) -> None:
        super().__init__(model, env, **kwargs)
        self._of_trial = guard

    def new_guard(self) -> Guard:
        return self._of_trial


class Inside(LocalEnvironment):
    """Commands in the trial's container. The agent runs in a thread; the container is reached by the event loop's.

    Args:
        given: mini-swe-agent's settings of an environment: env, timeout (seconds).
    """

    def __init__(
        self, there: BaseEnvironment, cwd: str, loop: asyncio.AbstractEventLoop, given: dict[str, Any]
    ) -> None:
        known = LocalEnvironmentConfig.model_fields
        super().__init__(**{**{key: value for key, value in given.items() if key in known}, "cwd": cwd})
        self.there, self.loop = there, loop
        self.ended = threading.Event()
        """Set where the attempt is over: the next command ends the thread."""

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        if self.ended.is_set():
            raise KeyboardInterrupt
        words = self.there.exec(
            f"{{ {action.get('command', '')}\n}} 2>&1",
            cwd=cwd or self.config.cwd or None,
            env=dict(self.config.env),
            timeout_sec=timeout or self.config.timeout,
        )
        try:
            done = asyncio.run_coroutine_threadsafe(words, self.loop).result()
            output = {"output": done.stdout or "", "returncode": done.return_code, "exception_info": ""}
        except (RuntimeError, TimeoutError) as error:
            why = f"An error occurred while executing the command: {error}"
            output = {"output": "", "returncode": -1, "exception_info": why}
        self._check_finished(output)
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        # none of this machine's variables: the model would see them
        return {**self.config.model_dump(), **platform.uname()._asdict(), **kwargs}


__all__ = ["Agent", "Inside", "Model"]
