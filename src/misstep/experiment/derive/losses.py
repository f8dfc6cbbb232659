"""What a derivation finds: cases (a task with failures), what speaks for a loss in them, and clusters by misstep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from misstep.experiment.attempts import Attempt
from misstep.experiment.derive.align import Divergence, Move


@dataclass(frozen=True, slots=True)
class Sighting:
    """An occurrence of a misstep in a trial."""

    trial: str
    step: int
    why: str
    command: str

    def plain(self) -> dict[str, Any]:
        return {"trial": self.trial, "step": self.step, "why": self.why, "command": self.command}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a trial's trajectory shows, small enough to be sent between processes."""

    trial: str
    recorded: bool
    """Whether there is a step of the agent to look at: without one nothing is known, and nothing is said to be absent."""
    moves: tuple[Move, ...] = ()
    seen: Mapping[str, tuple[Sighting, ...]] = field(default_factory=dict)
    """Misstep -> its occurrences."""
    prompt: str = ""
    folder: str = ""
    """The task's own folder on this machine, where the trial names one that is there."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A failed attempt beside the passed one that has most in common with it."""

    failed: Attempt
    passed: Attempt
    divergence: Divergence

    def plain(self) -> dict[str, Any]:
        return {"failed": self.failed.trial, "passed": self.passed.trial, **self.divergence.plain()}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A misstep in the failed attempts at a task (and, where some passed, in none of those)."""

    misstep: str
    attempts: int
    """Failed attempts with it, or with the state that its policies watch."""
    sightings: tuple[Sighting, ...]
    state: tuple[str, ...]
    """Policies whose state held in a failed attempt (and in no passed one)."""

    def plain(self) -> dict[str, Any]:
        return {
            "misstep": self.misstep,
            "attempts": self.attempts,
            "sightings": [one.plain() for one in self.sightings],
            "state": list(self.state),
        }


@dataclass(frozen=True, slots=True)
class Case:
    """A task with failures of one agent."""

    task: str
    agent: str
    kind: str
    """split | never"""
    passed: int
    attempts: int
    terminations: Mapping[str, int]
    pairs: tuple[Pair, ...]
    evidence: tuple[Evidence, ...]
    unrecorded: int
    """Attempts without a step on record."""

    def plain(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "agent": self.agent,
            "kind": self.kind,
            "passed": self.passed,
            "attempts": self.attempts,
            "terminations": dict(self.terminations),
            "pairs": [one.plain() for one in self.pairs],
            "evidence": [one.plain() for one in self.evidence],
            "unrecorded": self.unrecorded,
        }


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cases with one misstep."""

    misstep: str
    name: str
    split: tuple[str, ...]
    never: tuple[str, ...]
    failed: int
    """Failed attempts of all tasks in which it occurs, whatever it did there; of `failed_of` that are on record."""
    failed_of: int
    passed: int
    """Passed attempts in which it occurs all the same."""
    passed_of: int
    policies: tuple[str, ...]
    """Policies of the catalogue against it."""
    next: tuple[str, ...]
    """Commands that come next: a draft of a policy, and which tasks it would take."""

    def plain(self) -> dict[str, Any]:
        made = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in made.items()}


@dataclass(slots=True)
class Derivation:
    """The candidates."""

    attempts: int
    solved: int
    """(task, agent) of which every attempt passed."""
    cases: list[Case]
    clusters: list[Cluster]
    left_out: dict[str, int]
    """Why an attempt, or a task, is not in it -> how many."""
    prompts: dict[str, str]
    """Task -> its description, where one is on record."""
    notes: list[str]

    @property
    def unclustered(self) -> list[Case]:
        """Split cases in which no misstep of the catalogue tells failed from passed."""
        return [one for one in self.cases if one.kind == "split" and not one.evidence]

    @property
    def unexplained(self) -> list[Case]:
        """Cases without any pass in which no omission is seen: perhaps a lack of competence."""
        return [one for one in self.cases if one.kind == "never" and not one.evidence]

    def plain(self) -> dict[str, Any]:
        return {
            "schema": "misstep.derivation",
            "version": 1,
            "attempts": self.attempts,
            "solved": self.solved,
            "left_out": dict(sorted(self.left_out.items())),
            "clusters": [one.plain() for one in self.clusters],
            "cases": [one.plain() for one in self.cases],
            "unclustered": [one.task for one in self.unclustered],
            "no_omission": [one.task for one in self.unexplained],
            "notes": self.notes,
        }
