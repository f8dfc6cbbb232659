"""The record of a judged step, and its file profile.jsonl.

{"schema":"misstep.profile","version":1,"prompts":[{name,version,sha256}],"models":{"localizer":"openai:m"}, ...}
{"trajectory","path","n","task","step","call","command","verdict","reason","confidence","votes","catalogue","failure","corrected"}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from misstep.profile.lines import Lines, LinesError, Record, read
from misstep.profile.prompts import Prompt

SCHEMA, VERSION = "misstep.profile", 1
FILE = "profile.jsonl"
PASSING = ("unreachable", "rejected", "budget", "offline")
"""Kinds of failure that another run may not meet: such steps are judged again. A model that gave no valid answer would again."""

Key = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class StepLabel:
    """What is known of one proposed call."""

    trajectory: str
    path: str
    """Where its record was read, as the paths were given."""
    n: int
    """Place of the trajectory in that file, from 0."""
    task: str
    """What groups trajectories of one task: see `view.task_of`."""
    step: int
    """Position in `Trajectory.steps`, from 0."""
    call: int
    """Position in the step's calls, from 0."""
    command: str = ""
    """The call in one text, cut and redacted."""
    verdict: str | None = None
    """good | bad; None: unknown."""
    reason: str = ""
    """The model's, of a vote for the verdict."""
    confidence: float | None = None
    """Share of the votes asked for that agree with the verdict; None where one was asked for."""
    votes: tuple[str | None, ...] = ()
    """good | bad | None (no valid answer), in order of the samples."""
    catalogue: Mapping[str, bool | None] = field(default_factory=dict)
    """What the catalogue's detectors say of this call: misstep id -> occurred, did not, unknown. The model never changes it."""
    failure: str = ""
    """Why there is no verdict: `kind: message` with kind invalid | unreachable | rejected | budget | offline | split."""
    corrected: Mapping[str, Any] | None = None
    """What took its place in a live rollout, None where nothing did."""

    @property
    def key(self) -> Key:
        """What it is about."""
        return (self.path, self.n, self.step, self.call)

    @property
    def failure_kind(self) -> str:
        """The part of `failure` before its message; '' where there is none."""
        return self.failure.partition(":")[0]

    @property
    def final(self) -> bool:
        """Whether judging it again could give nothing else."""
        return self.failure_kind not in PASSING

    @property
    def missteps(self) -> tuple[str, ...]:
        """Those of the catalogue that occurred in it."""
        return tuple(sorted(name for name, holds in self.catalogue.items() if holds))

    def plain(self) -> Record:
        """As kept in the file."""
        made: Record = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**made, "votes": list(self.votes), "catalogue": dict(self.catalogue)}

    @classmethod
    def from_plain(cls, given: Mapping[str, Any]) -> StepLabel:
        """Back from the file; fields that a later version added are left out. Raises KeyError, TypeError."""
        known = {one.name: given[one.name] for one in fields(cls) if one.name in given}
        return cls(**{**known, "votes": tuple(given.get("votes", ()))})


def header(prompts: Iterable[Prompt], models: Mapping[str, str], **more: Any) -> Record:
    """The first line of a file: all that decides what is in it."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "prompts": [one.identity for one in sorted(prompts, key=lambda p: p.name)],
        "models": dict(sorted(models.items())),
        **more,
    }


class Labels:
    """profile.jsonl, open for going on with it. Use as a context manager."""

    def __init__(self, folder: Path, head: Mapping[str, Any]) -> None:
        """Raises LinesError where the folder holds the results of another way of judging."""
        self._lines = Lines(
            folder / FILE,
            head,
            key=lambda record: StepLabel.from_plain(record).key,
            final=lambda record: StepLabel.from_plain(record).final,
        )
        self.notes = self._lines.notes

    def __contains__(self, key: Key) -> bool:
        return key in self._lines

    def __len__(self) -> int:
        return len(self._lines.records)

    def add(self, label: StepLabel) -> None:
        """One more judged step, written and flushed."""
        self._lines.add(label.plain())

    def all(self) -> list[StepLabel]:
        """In order of their keys."""
        return sorted((StepLabel.from_plain(r) for r in self._lines.records.values()), key=lambda one: one.key)

    def finish(self) -> None:
        """All is judged: the lines are put in order."""
        self._lines.finish()

    def __enter__(self) -> Labels:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()


def load(path: Path) -> tuple[Record, list[StepLabel]]:
    """The header and the labels of a file, or of a run's folder; the last line of a step counts.

    Raises:
        LinesError: the file, the line and what was expected.
    """
    path = path / FILE if path.is_dir() else path
    found, _ = read(path)
    head = found[0]
    if head.get("schema") != SCHEMA or head.get("version") != VERSION:
        raise LinesError(f"{path}:1: schema {SCHEMA} of version {VERSION} was expected, not {head.get('schema')!r}")
    labels: dict[Key, StepLabel] = {}
    for number, record in enumerate(found[1:], 2):
        try:
            one = StepLabel.from_plain(record)
        except (KeyError, TypeError, ValueError):
            raise LinesError(f"{path}:{number}: no judged step") from None
        labels[one.key] = one
    return head, [labels[key] for key in sorted(labels)]
