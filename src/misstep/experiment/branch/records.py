"""The record of one continuation: what an analysis of branch tests reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from misstep.experiment.attempts import OBSERVATIONS, TERMINATIONS
from misstep.experiment.branch.points import PointsError
from misstep.experiment.branch.rebuild import append, rows_of

SCHEMA, VERSION = "misstep.branch.continuations", 1
FILE = "continuations.jsonl"


class RecordsError(PointsError):
    """A file of continuations that cannot be read: the file, the line, what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branched:
    """One continuation of a point under an arm."""

    point: str
    task: str
    policy: str
    arm: str
    number: int
    """Which of the planned continuations of this point in this arm, from 1."""
    candidate: int = 1
    """1 is the first try; another one counts only if those before it were no observations of the agent."""
    termination: str
    """As of an attempt: pass, gave-up, fail, timeout, crash, never-ran, invalid."""
    passed: bool | None = None
    reward: float | None = None
    fault: str = ""
    """Why it is no observation of the agent, in one line."""
    agent: str = ""
    model: str = ""
    answers: int = 0
    """Of the model, after the point."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    """Of the agent's part."""
    total_seconds: float = 0.0
    """With branching and verifier."""
    replayed: bool = False
    """Branched by a replay of its own, since processes lived on at the point."""
    fired: Mapping[str, int] = field(default_factory=dict)
    """Policy -> interventions, that at the point among them."""
    behaviour: bool | None = None
    """The behaviour marker of the point's misstep at the end; None where it has none or it cannot be told."""
    started: str = ""
    trajectory: str = ""
    """Its record, relative to the folder: the steps before the point and those after it."""
    simulated: str = ""
    """What stands for the model where there is none."""

    @property
    def fair(self) -> bool:
        """Whether it is an observation of the agent."""
        return self.termination in OBSERVATIONS

    @property
    def slot(self) -> tuple[str, str, int]:
        """What was planned: (point, arm, number)."""
        return self.point, self.arm, self.number

    def plain(self) -> dict[str, Any]:
        """As in the file: what is at its default is left out."""
        made: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in _ALWAYS or (value not in ("", None, {}) and value != one.default):
                made[one.name] = dict(value) if isinstance(value, Mapping) else value
        return made


_ALWAYS = ("point", "task", "policy", "arm", "number", "termination", "passed")
_NAMES = frozenset(one.name for one in fields(Branched))


def read(path: Path) -> list[Branched]:
    """All continuations of a file; [] where there is none. Raises RecordsError."""
    found = []
    try:
        rows = rows_of(path, SCHEMA, VERSION)
    except PointsError as error:
        raise RecordsError(str(error)) from None
    for number, row in rows:
        unknown = row.keys() - _NAMES
        if unknown:
            raise RecordsError(f"{path}:{number}: unknown field {min(unknown)!r}")
        try:
            one = Branched(**row)
        except TypeError as error:
            raise RecordsError(f"{path}:{number}: expected a continuation: {error}") from None
        if (
            one.termination not in TERMINATIONS
            or not isinstance(one.number, int)
            or one.passed not in (None, True, False)
        ):
            raise RecordsError(f"{path}:{number}: expected a termination, a number and a verdict")
        found.append(one)
    return found


def add(path: Path, one: Branched) -> None:
    """Append a continuation, synced to the disk. Raises OSError."""
    append(path, one.plain(), SCHEMA, VERSION)


def counted(records: list[Branched]) -> dict[tuple[str, str, int], Branched | None]:
    """The continuation that counts of every slot: the first fair one; None where no candidate was fair."""
    slots: dict[tuple[str, str, int], list[Branched]] = {}
    for one in records:
        slots.setdefault(one.slot, []).append(one)
    return {
        slot: next((one for one in sorted(found, key=lambda o: o.candidate) if one.fair), None)
        for slot, found in slots.items()
    }
