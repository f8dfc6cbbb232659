"""One attempt as Harbor's trial: its name, its configuration, and the agents that carry the guard.

Nothing in a trial that the agent may see tells arms apart: the trial's name is a hash, as Harbor's own names end in random
characters, and the arm is an argument of the agent's class on this side (see `agents`).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.experiment.plan.lock import PORTFOLIO
from misstep.experiment.plan.tasks import tasks_of
from misstep.experiment.runs import runtime as runtimes
from misstep.experiment.runs.runtime import Runtime

if TYPE_CHECKING:
    from harbor.models.trial.config import TrialConfig

    from misstep.experiment.plan.design import Design, Environment
    from misstep.experiment.plan.lock import Panel
    from misstep.experiment.plan.schedule import Slot

AGENTS = {
    "codex": "misstep.experiment.runs.agents:GuardedCodex",
    "claude-code": "misstep.experiment.runs.agents:GuardedClaudeCode",
    "terminus-2": "misstep.experiment.runs.agents_in_process:GuardedTerminus2",
    "mini-swe-agent": "misstep.experiment.runs.agents_in_process:GuardedMiniSweAgent",
}
"""Harbor's agents by name -> the same agent with the guard. An import path in a design must name such a class itself: one
that takes `misstep` (see `agents`)."""
MOUNTS = frozenset({"docker", "podman"})
"""Harbor's environments into which a folder of this machine can be mounted; into others the runtime is uploaded."""
NOT_TO_GRADE = {"GuardSetupError": {"should_retry": False, "should_grade": False, "has_valid_reward": False}}
"""Harbor takes an exception that it does not know for the agent's own failure."""


class RunError(ValueError):
    """A panel that cannot be run, in one line."""


@dataclass(frozen=True, slots=True)
class Work:
    """One candidate of a slot: a trial to run."""

    slot: Slot
    candidate: int
    seed: int

    @property
    def trial(self) -> str:
        """The trial's name. It says nothing of the arm, and is the same whenever it is asked for."""
        text = json.dumps([self.seed, *self.slot.key, self.candidate], ensure_ascii=False)
        end = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:9]
        return f"{self.slot.task.rpartition('/')[2][:32].rstrip('_-')}__{end}"


OWN: dict[str, tuple[str, ...]] = {"simulated": (), "completion_confirmation": ("on", "off")}
"""What `[agent.kwargs.misstep]` of a design may say: what stands for the model where there is none (every report says it),
and whether terminus-2 asks by itself if the task is really complete. () is any text."""


def ours_of(design: Design) -> dict[str, Any]:
    """What a design says to the guard's part of the agent. Raises RunError."""
    found = design.agent.kwargs.get("misstep", {})
    if not isinstance(found, dict):
        raise RunError("agent.kwargs.misstep: expected a table")
    for key, value in found.items():
        if key not in OWN:
            raise RunError(f"agent.kwargs.misstep.{key}: unknown key (known: {', '.join(OWN)})")
        if not isinstance(value, str) or (OWN[key] and value not in OWN[key]):
            raise RunError(f"agent.kwargs.misstep.{key}: expected {' or '.join(OWN[key]) or 'a text'}")
    return found


def doubt(design: Design) -> str:
    """Why `panel run` will refuse a design's agent, '' where nothing is known against it: what can be told without
    importing anything. Raises RunError for what no panel can mean."""
    ours_of(design)
    try:
        agent_path(design.agent.name)
    except RunError as error:
        return str(error)
    return ""


def agent_path(name: str) -> str:
    """The import path of an agent with the guard. Raises RunError where there is none."""
    if ":" in name:
        return name
    if name not in AGENTS:
        raise RunError(
            f"agent.name: the guard has no place in {name!r}; it is one of {', '.join(AGENTS)}, or a class of yours"
        )
    return AGENTS[name]


def config(panel: Panel, work: Work, task: Path, runtime: Runtime | None) -> TrialConfig:
    """Harbor's configuration of one attempt.

    In the values of `agent.env`, `{task}`, `{replicate}` and `{candidate}` stand for the attempt's own (a gateway that
    counts costs by its path, say); there is none for the arm.

    runtime: None for an agent that runs on this side.
    """
    from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig

    design = panel.design
    own = {
        **ours_of(design),
        "runtime": str(runtime.path) if runtime else "",
        "arm": work.slot.arm,
        "portfolio": str((panel.folder / PORTFOLIO).resolve()),
    }
    kwargs: dict[str, Any] = {**design.agent.kwargs, "misstep": own}
    if design.agent.version:
        kwargs["version"] = design.agent.version
    return TrialConfig(
        task=TaskConfig(path=task),
        trial_name=work.trial,
        trials_dir=(panel.folder / "trials").resolve(),
        agent=AgentConfig(
            import_path=agent_path(design.agent.name),
            model_name=design.agent.model or None,
            kwargs=kwargs,
            env={name: _filled(value, work) for name, value in design.agent.env.items()},
        ),
        environment=EnvironmentConfig(**environment(design.environment, runtime)),
        override_error_policy=NOT_TO_GRADE,
    )


def environment(given: Environment, runtime: Runtime | None) -> dict[str, Any]:
    """The arguments of Harbor's EnvironmentConfig: what of a design's kwargs are its fields, and the runtime's mount."""
    from harbor.models.trial.config import EnvironmentConfig

    made: dict[str, Any] = {"import_path": given.import_path} if given.import_path else {"type": given.type}
    fields = set(EnvironmentConfig.model_fields) - {"type", "import_path", "kwargs"}
    made.update({key: value for key, value in given.kwargs.items() if key in fields})
    made["kwargs"] = {key: value for key, value in given.kwargs.items() if key not in fields}
    if runtime is not None and mounts(given):
        mount = {"type": "bind", "source": str(runtime.path), "target": runtimes.PLACE, "read_only": True}
        made["mounts"] = [*(made.get("mounts") or ()), mount]
    return made


def mounts(given: Environment) -> bool:
    """Whether a folder of this machine can be mounted into an environment."""
    return ours(given) is not None or given.type in MOUNTS


def ours(given: Environment) -> type | None:
    """The class of an environment of our sandboxes, None for another. Raises RunError where it cannot be imported."""
    if not given.import_path:
        return None
    from harbor.utils.import_path import import_class

    from misstep.sandbox.harbor import BubblewrapEnvironment

    try:
        found = import_class(given.import_path, label="environment")
    except (ImportError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"environment.import_path: {' '.join(str(error).split())}") from error
    return found if issubclass(found, BubblewrapEnvironment) else None


def shares_network(panel: Panel) -> bool:
    """Whether attempts that run at the same time could reach each other: in our sandboxes a public network is this
    machine's. A class that gives each sandbox a network of its own says `own_network = True`."""
    class_ = ours(panel.design.environment)
    if class_ is None or getattr(class_, "own_network", False):
        return False
    return any(_public(task.path / "task.toml") for task in tasks_of(panel.design))


def _public(settings: Path) -> bool:
    """Whether a task may reach the network. One whose settings cannot be read does not run at all."""
    from harbor.models.task.config import NetworkMode, TaskConfig

    try:
        found = TaskConfig.model_validate_toml(settings.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return found.environment.network_mode != NetworkMode.NO_NETWORK


def _filled(value: str, work: Work) -> str:
    known: Mapping[str, object] = {
        "task": work.slot.task,
        "replicate": work.slot.replicate,
        "candidate": work.candidate,
    }
    for name, found in known.items():
        value = value.replace("{" + name + "}", str(found))
    return value


def in_process(panel: Panel) -> bool:
    """Whether the agent runs on this side, and needs nothing in the container. Raises RunError where there is no such class."""
    from harbor.utils.import_path import import_class

    path = agent_path(panel.design.agent.name)
    try:
        found = import_class(path, label="agent")
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise RunError(f"agent.name: {' '.join(str(error).split())}") from error
    return bool(getattr(found, "misstep_in_process", False))


def preflight(panel: Panel, runtime: Runtime | None) -> None:
    """Harbor's own checks of agent, credentials and environment, before anything runs. Raises RunError."""
    from harbor.agents.factory import AgentFactory
    from harbor.environments.factory import EnvironmentFactory

    if not panel.slots:
        return
    made = config(panel, Work(panel.slots[0], 1, panel.design.seed), Path("task"), runtime)
    plain = {key: value for key, value in made.agent.kwargs.items() if key != "misstep"}
    try:
        EnvironmentFactory.run_preflight(
            type=made.environment.type, import_path=made.environment.import_path, kwargs=made.environment.kwargs
        )
        AgentFactory.run_preflight(made.agent.model_copy(update={"kwargs": plain}))
    except (Exception, SystemExit) as error:
        raise RunError(" ".join(str(error).split()) or type(error).__name__) from error
