"""Harbor's installed agents with the guard in their hooks: Codex and Claude Code.

What an arm is stands in one small file inside the container (`settings.json` in the guard's home), which is written over
with every arm. All else that an attempt's environment is asked to do is the same, byte for byte, in every arm: commands,
paths, variables, the hooks and their order. No variable names the arm, since a model may print its environment.

For Harbor these are `import_path`s with one argument more, `misstep`: {"runtime": the runtime's folder, "arm": its name}.
"""

from __future__ import annotations

import shlex
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

try:
    from harbor.agents.installed.claude_code import ClaudeCode
    from harbor.agents.installed.codex import Codex
except ImportError as error:  # pragma: no cover
    raise ImportError("Harbor is not installed: pip install 'misstep[harbor]'") from error

from misstep.experiment.runs import runtime
from misstep.guard.hosts import host
from misstep.guard.install import SECONDS

if TYPE_CHECKING:
    from harbor.environments.base import BaseEnvironment
    from harbor.models.agent.context import AgentContext


class GuardSetupError(RuntimeError):
    """The guard could not be put into a container: a fault of the environment, never the agent's."""


class _Installed(Protocol):
    """What the guard asks of an installed agent of Harbor's."""

    async def exec_as_agent(self, environment: BaseEnvironment, command: str) -> Any: ...


def hooks(name: str) -> dict[str, list[dict[str, Any]]]:
    """The hooks of a host, in the form that its configuration has."""
    adapter = host(name)
    handler = {"type": "command", "command": runtime.command(name), "timeout": SECONDS * adapter.TIMEOUT_UNIT}
    return {event: [{"hooks": [dict(handler)]}] for event in adapter.EVENTS}


def with_hooks(config: Any, name: str) -> dict[str, Any]:
    """A configuration with our hooks after its own. Raises ValueError where it is a file: a design says it inline."""
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise ValueError(f"the agent's config: expected a table in the design, not {config!r}")
    made = deepcopy(config)
    found = made.setdefault("hooks", {})
    for event, groups in hooks(name).items():
        found[event] = [*found.get(event, ()), *groups]
    return made


async def install_guard(agent: Any, environment: BaseEnvironment, folder: Path) -> None:
    """Put the runtime into a container, and see that it starts there. Raises GuardSetupError."""
    place = runtime.PLACE
    try:
        there = await environment.exec(f"[ -x {place}/hook ]", user="root")
        if there.return_code != 0:  # it is not mounted
            await environment.exec(f"mkdir -p {place}", user="root")
            await environment.upload_dir(folder, place)
            modes = f"chmod -R a+rX {place} && chmod a+x {place}/hook {place}/bin/* {place}/lib/ld*"
            await environment.exec(modes, user="root")
        tried = await cast(_Installed, agent).exec_as_agent(environment, command=f"{place}/hook check 2>&1 || :")
    except Exception as error:
        raise GuardSetupError(f"the guard's runtime could not be put into the container: {error}") from error
    said = (tried.stdout or "").strip()
    if said != runtime.LIVES:
        raise GuardSetupError(
            f"the guard's runtime does not start in this container: {said[-300:] or 'it says nothing'}"
        )


async def set_arm(agent: Any, environment: BaseEnvironment, arm: str) -> None:
    """Write the settings of the guard. Before every run of the agent: a task of several steps begins each with an empty
    folder of logs. Raises GuardSetupError."""
    home = f"{runtime.STATE}/guard"
    try:
        # by the agent's own user: its hooks write there
        await cast(_Installed, agent).exec_as_agent(environment, command=f"umask 077; mkdir -p {shlex.quote(home)}")
        with tempfile.TemporaryDirectory(prefix="misstep-arm-") as made:
            file = Path(made, "settings.json")
            file.write_text(runtime.settings(arm), encoding="utf-8")
            file.chmod(0o644)
            await environment.upload_file(file, f"{home}/settings.json")
        await environment.exec(f"chmod 644 {home}/settings.json", user="root")
    except Exception as error:
        raise GuardSetupError(f"the guard's settings could not be put into the container: {error}") from error


class GuardedCodex(Codex):
    """Codex with our hooks, which it is told to run without asking a person for trust. Codex 0.146 and later."""

    def __init__(self, *args: Any, misstep: dict[str, Any], **kwargs: Any) -> None:
        self._misstep = misstep
        config = with_hooks(kwargs.pop("config", None), "codex")
        config.setdefault("features", {})["hooks"] = True
        super().__init__(*args, config=config, **{**kwargs, "dangerously_bypass_hook_trust": True})

    async def configure(self, environment: BaseEnvironment) -> None:
        await super().configure(environment)
        await install_guard(self, environment, Path(self._misstep["runtime"]))

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await set_arm(self, environment, self._misstep["arm"])
        await super().run(instruction, environment, context)


class GuardedClaudeCode(ClaudeCode):
    """Claude Code with our hooks in the settings of its run."""

    def __init__(self, *args: Any, misstep: dict[str, Any], **kwargs: Any) -> None:
        self._misstep = misstep
        super().__init__(*args, config=with_hooks(kwargs.pop("config", None), "claude-code"), **kwargs)

    async def configure(self, environment: BaseEnvironment) -> None:
        await super().configure(environment)
        await install_guard(self, environment, Path(self._misstep["runtime"]))

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await set_arm(self, environment, self._misstep["arm"])
        await super().run(instruction, environment, context)
