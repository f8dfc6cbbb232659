"""The design of a branch test: a small TOML, or options; the agent's and the environment's tables are those of a panel.

name = "..."; seed = 1; continuations = 4; candidates = 3; rule = "exact"
arms = ["real", "sham", "nothing"]
contrast = ["real", "sham"]
[agent]        name = "misstep-bash" | "codex" | "claude-code"; model, version, kwargs, env as in a panel
[agent.kwargs] of misstep-bash: models = "models.toml", steps = 64, seconds = 1800, command_seconds = 120
[environment]  kwargs = {root = "host", end_session = true, network = false}; concurrency = 2
[texts]        misstep = "what the agent is told at its occurrence"
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import tomllib

from misstep.experiment.branch import forms
from misstep.experiment.branch.points import NOTHING
from misstep.experiment.branch.rebuild import RULES
from misstep.experiment.branch.treatment import ARMS
from misstep.experiment.plan import design as panels
from misstep.experiment.plan.design import Agent, Contrast, DesignError, Environment

AGENTS = (forms.AGENT, "codex", "claude-code")
FILE = "branch.json"
SCHEMA, VERSION = "misstep.branch.design", 1
_OPTIONS = {"models": str, "steps": int, "seconds": (int, float), "command_seconds": (int, float), "misstep": dict}
"""What `[agent.kwargs]` of our own loop may say."""


class BranchDesignError(DesignError):
    """A design that cannot be used: one line with the file, the key and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDesign:
    """A branch test's design."""

    name: str = "branch test"
    seed: int = 1
    continuations: int = 4
    """Of each point in each arm."""
    arms: tuple[str, ...] = ("real", "sham", NOTHING)
    contrast: tuple[str, str] = ("real", "sham")
    """The primary one; it is estimated with all others, and named first."""
    rule: str = "exact"
    """What may differ in a replay: nothing, or (masked) what two replays show to be noise."""
    candidates: int = 3
    """Tries of one continuation that ends in an infrastructure fault."""
    agent: Agent = field(default_factory=lambda: Agent(forms.AGENT))
    environment: Environment = field(default_factory=lambda: Environment("bubblewrap"))
    texts: Mapping[str, str] = field(default_factory=dict)
    base: str = "."
    """The folder that paths are relative to."""

    @classmethod
    def load(cls, path: Path) -> BranchDesign:
        """Read and check a design. Raises DesignError: the file, the key, what was expected."""
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BranchDesignError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BranchDesignError(f"{path}: not TOML: {error}") from None
        return _design(panels._Table(str(path), "", given), str(path.parent.resolve()))

    def checked(self) -> BranchDesign:
        """The same. Raises BranchDesignError where it cannot be used."""
        for arm in self.arms:
            if arm not in ARMS:
                raise BranchDesignError(f"arms: expected arms, each one of {', '.join(ARMS)}, not {arm!r}")
        if len(set(self.arms)) != len(self.arms) or len(self.arms) < 2:
            raise BranchDesignError("arms: expected two arms or more, every one once")
        if len(set(self.contrast)) != 2 or not set(self.contrast) <= set(self.arms):
            raise BranchDesignError(f"contrast: expected two of the arms ({', '.join(self.arms)})")
        if self.agent.name not in AGENTS and not self.agent.import_path:
            raise BranchDesignError(f"agent.name: expected one of {', '.join(AGENTS)}, not {self.agent.name!r}")
        if self.agent.name == forms.AGENT:
            for key, value in self.agent.kwargs.items():
                kind = _OPTIONS.get(key)
                if kind is None:
                    raise BranchDesignError(f"agent.kwargs.{key}: unknown key (known: {', '.join(_OPTIONS)})")
                if not isinstance(value, kind) or isinstance(value, bool):  # type: ignore[arg-type]
                    raise BranchDesignError(f"agent.kwargs.{key}: expected another kind of value, not {value!r}")
        if set(self.arms) & {"always-verify", "reconsider", "always-real"} and not self.in_process:
            raise BranchDesignError(f"arms: {self.agent.name} can have real, sham and {NOTHING} only")
        return self

    @property
    def in_process(self) -> bool:
        """Whether the agent is our own loop."""
        return self.agent.name == forms.AGENT

    @property
    def network(self) -> bool:
        """Whether replays and continuations have this machine's network."""
        return bool(self.environment.kwargs.get("network", False))

    @property
    def simulated(self) -> str:
        """What stands for the model where there is none."""
        given = self.agent.kwargs.get("misstep")
        return str(given.get("simulated", "")) if isinstance(given, dict) else ""

    def where(self, path: str) -> Path:
        """A path of the design, as this process finds it."""
        return Path(self.base) / path

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def _design(top: panels._Table, base: str) -> BranchDesign:
    primary = top.texts("contrast", ("real", "sham"), "arms", 2)
    texts = top.free("texts")
    for key, value in texts.items():
        if not isinstance(value, str) or not value:
            raise top.fault(f"texts.{key}", "expected a text")
    made = BranchDesign(
        name=top.text("name", "branch test"),
        seed=top.whole("seed", 1, 0),
        continuations=top.whole("continuations", 4, 1),
        arms=top.texts("arms", ("real", "sham", NOTHING), "arms", 2),
        contrast=(primary[0], primary[-1]),
        rule=top.choice("rule", RULES),
        candidates=top.whole("candidates", 3, 1),
        agent=panels._agent(top.table("agent")) if top.has("agent") else Agent(forms.AGENT),
        environment=_environment(top),
        texts=texts,
        base=base,
    )
    top.known += ["agent", "environment"]
    top.end()
    try:
        return made.checked()
    except BranchDesignError as error:
        raise BranchDesignError(f"{top.file}: {error}") from None


def _environment(top: panels._Table) -> Environment:
    given = panels._environment(top.table("environment"))
    named = top.has("environment") and ("type" in top.given["environment"] or "import_path" in top.given["environment"])
    return given if named else replace(given, type="bubblewrap")


# -- the folder's copy -----------------------------------------------------------------------------------------------------


def write(folder: Path, design: BranchDesign) -> None:
    """Keep the design in the folder. Raises OSError."""
    part = folder / f"{FILE}.part"
    plain = {"schema": SCHEMA, "version": VERSION, "design": design.plain()}
    part.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(folder / FILE)


def kept(folder: Path) -> BranchDesign | None:
    """The design that a folder has, None before its first run. Raises BranchDesignError."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        if (given.get("schema"), given.get("version")) != (SCHEMA, VERSION):
            raise BranchDesignError(f"{path}: expected schema {SCHEMA!r}, version {VERSION}")
        plain = dict(given["design"])
        plain["agent"], plain["environment"] = Agent(**plain["agent"]), Environment(**plain["environment"])
        plain["arms"], plain["contrast"] = tuple(plain["arms"]), tuple(plain["contrast"])
        return BranchDesign(**plain)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, BranchDesignError):
            raise
        raise BranchDesignError(f"{path}: expected the design of a branch test: {error}") from None


def settle(old: BranchDesign | None, new: BranchDesign, where: Path) -> BranchDesign:
    """The design of a folder's next run: as before, but for more continuations, another concurrency and another place of files.

    Raises BranchDesignError where anything else changed: records of two designs do not go together.
    """
    if old is None:
        return new
    free = {"continuations": 0, "base": "", "environment": replace(old.environment, concurrency=1), "name": ""}
    one = replace(old, **free)  # type: ignore[arg-type]
    two = replace(new, **{**free, "environment": replace(new.environment, concurrency=1)})  # type: ignore[arg-type]
    for key, value in one.plain().items():
        if value != two.plain()[key]:
            raise BranchDesignError(
                f"{where / FILE}: {key} was {json.dumps(value)} before; a changed design needs a folder of its own"
            )
    return replace(new, continuations=max(old.continuations, new.continuations))


__all__ = ["AGENTS", "BranchDesign", "BranchDesignError", "Contrast", "kept", "settle", "write"]
