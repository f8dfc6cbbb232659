"""Misstep prefixes: the recorded steps before a wrong one, from which the container's state can be rebuilt (MiRL, prefixes).

prefixes.jsonl: {"schema":"misstep.prefixes","version":1,...}, then one prefix a line. `building` makes it from profiled
trajectories, `split` says which environments are held out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from misstep.profile.dialog import AGENT
from misstep.sandbox.record import Recorded, Recording
from misstep.train.episode import Action, Codec, Shown
from misstep.trajectory.model import Call, Result, Step, Trajectory

SCHEMA, VERSION = "misstep.prefixes", 1
FILE = "prefixes.jsonl"

Split = Literal["train", "held-out"]


class PrefixError(ValueError):
    """Prefixes that cannot be used: one line that names the file, the line and what was expected."""


@dataclass(frozen=True, slots=True)
class Target:
    """The misstep that a prefix leads to."""

    id: str
    kind: Literal["catalogue", "taxonomy"] = "catalogue"
    """catalogue: a detector says whether it occurs. taxonomy: only a model can."""
    name: str = ""
    """Completes 'the agent ...'."""
    definition: str = ""
    examples: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        return {**{n: getattr(self, n) for n in self.__slots__}, "examples": list(self.examples)}

    @classmethod
    def from_plain(cls, given: Mapping[str, Any]) -> Target:
        return cls(**{**given, "examples": tuple(given.get("examples", ()))})


@dataclass(frozen=True, slots=True)
class Turn:
    """One recorded turn of the agent, and what it was shown."""

    command: str | None
    """None: a turn without a command, answered by `note`."""
    output: str = ""
    """As shown: already cut by the recording harness."""
    exit_code: int | None = None
    said: str = ""
    timed_out: bool = False
    timeout: float | None = None
    cwd: str | None = None
    note: str = ""
    started: float | None = None
    seconds: float | None = None
    trimmed: bool = False
    """The harness may have cut white space off the ends of the output."""

    @property
    def action(self) -> Action:
        return Action(self.command, self.said)

    @property
    def shown(self) -> Shown:
        return Shown(self.output, self.exit_code, self.timed_out, self.note)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a prefix was recorded."""

    path: str = ""
    n: int = 0
    """Place of the trajectory in that file, from 0."""
    step: int = 0
    """Of the misstep, in `Trajectory.steps`, from 0."""
    call: int = 0
    agent: str = ""
    model: str = ""
    by: str = ""
    """What found the misstep: catalogue, or a model's label."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Recorded steps that end where a misstep began."""

    task: str
    """The task's name."""
    folder: str
    """Its folder (Harbor's format)."""
    environment: str
    """SHA-256 of the task's files: what is split into train and held-out."""
    instruction: str
    turns: tuple[Turn, ...]
    """Before the misstep, oldest first; may be empty: the very first step was wrong."""
    target: Target
    token_ids: tuple[int, ...] | None = None
    """All ids before the wrong turn as the policy had them (task, turns, outputs, thinking), if the record has them."""
    tokenizer: str = ""
    """Of `token_ids`."""
    split: Split = "train"
    lasting: bool = True
    """One shell for all commands; else each has its own."""
    workdir: str | None = None
    source: Source = field(default_factory=Source)
    grade: str = ""
    """Of the two replays at build time: exact, or masked where that was allowed; '' before."""

    @property
    def id(self) -> str:
        """16 hexadecimal digits: of the environment, what was done in it, and the target."""
        done = [(turn.command, turn.output, turn.exit_code, turn.said, turn.note) for turn in self.turns]
        text = json.dumps([self.environment, done, self.target.kind, self.target.id, self.token_ids])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.turns)

    def prompt_ids(self, codec: Codec) -> list[int]:
        """The ids before the wrong turn: the recorded ones, or the steps put into ids piece by piece."""
        if self.token_ids is not None:
            return list(self.token_ids)
        ids = list(codec.opening(self.instruction))
        for turn in self.turns:
            ids += codec.turn(turn.action)
            ids += codec.observation(turn.shown)
        return ids

    @property
    def recording(self) -> Recording:
        """What is replayed."""
        made = tuple(
            Recorded(
                turn.command, turn.output, turn.exit_code, turn.seconds, turn.timeout, turn.timed_out, turn.started,
                turn.cwd, trimmed=turn.trimmed, step=number,
            )
            for number, turn in enumerate(self.turns) if turn.command is not None
        )  # fmt: skip
        return Recording(made, self.lasting, self.workdir, self.id)

    def trajectory(self) -> Trajectory:
        """The task and the turns as steps, for detectors and judges; the rollout's own steps are appended to it."""
        return trajectory_of(self.instruction, self.turns, self.id, self.task)

    def plain(self) -> dict[str, Any]:
        """As a line of the file."""
        made = {name: getattr(self, name) for name in self.__slots__}
        made["turns"] = [_short(turn) for turn in self.turns]
        made["target"], made["source"] = self.target.plain(), _plain(self.source)
        made["token_ids"] = None if self.token_ids is None else list(self.token_ids)
        return {"id": self.id, **made}

    @classmethod
    def from_plain(cls, given: Mapping[str, Any]) -> Prefix:
        """Back from a line. Raises KeyError, TypeError, ValueError."""
        known = {name: given[name] for name in cls.__slots__ if name in given}
        ids = known.get("token_ids")
        made = cls(**{
            **known,
            "turns": tuple(Turn(**turn) for turn in given["turns"]),
            "target": Target.from_plain(given["target"]),
            "source": Source(**given.get("source", {})),
            "token_ids": None if ids is None else tuple(map(int, ids)),
        })  # fmt: skip
        if made.split not in ("train", "held-out"):
            raise ValueError(f"split: expected train or held-out, found {made.split!r}")
        if "id" in given and given["id"] != made.id:
            raise ValueError(f"its id is {given['id']!r}, and what is in it makes {made.id!r}: it was changed")
        return made


def trajectory_of(instruction: str, turns: Sequence[Turn] = (), id: str = "", task: str = "") -> Trajectory:
    """A task and turns as a trajectory of our own loop, without an end."""
    made = Trajectory(id or task, "misstep", AGENT, [Step("user", instruction, prompt=True)])
    for number, turn in enumerate(turns):
        made.steps.append(step_of(turn.action, turn.shown, f"p{number}", turn.timeout))
        if turn.note:
            made.steps.append(Step("user", turn.note))
    return made


def step_of(action: Action, shown: Shown | None, id: str, timeout: float | None = None) -> Step:
    """One turn as a step, not an end of the agent's work unless it submits."""
    step = Step("agent", action.said, stop=action.submits)
    if action.command is not None and not action.submits:
        call = Call(id, "bash", "shell", {"command": action.command}, action.command, timeout=timeout)
        step.calls.append(call)
        if shown is not None:
            failed = None if shown.exit_code is None else shown.exit_code != 0
            step.results[id] = Result(shown.output, shown.exit_code, failed, timed_out=shown.timed_out)
    return step


def _plain(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def _short(turn: Turn) -> dict[str, Any]:
    """A turn without what is as always."""
    usual = Turn(None)
    return {name: value for name, value in _plain(turn).items() if name == "command" or value != getattr(usual, name)}


def save(path: Path, prefixes: Iterable[Prefix], head: Mapping[str, Any] | None = None) -> Path:
    """Writes prefixes.jsonl, whole or not at all; `path` is the file or its folder."""
    path = path / FILE if path.is_dir() else path
    rows = [{"schema": SCHEMA, "version": VERSION, **(head or {})}, *(one.plain() for one in prefixes)]
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w", encoding="utf-8", newline="\n", errors="surrogateescape") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    fresh.replace(path)
    return path


def load(path: Path, *, split: Split | None = None) -> tuple[dict[str, Any], list[Prefix]]:
    """The header and the prefixes of a file, or of a folder's prefixes.jsonl; of one side of the split only, if asked.

    Folders of tasks that are not absolute are taken from the file's own folder.

    Raises:
        PrefixError: the file, the line and what was expected.
    """
    path = path / FILE if path.is_dir() else path
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PrefixError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PrefixError(f"{path}: expected UTF-8: {error.reason}") from None
    head: dict[str, Any] = {}
    found = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("no object")
        except ValueError as error:
            raise PrefixError(f"{path}:{number}: expected a JSON object: {error}") from None
        if number == 1:
            if (row.get("schema"), row.get("version")) != (SCHEMA, VERSION):
                raise PrefixError(f"{path}:1: expected schema {SCHEMA!r}, version {VERSION}")
            head = row
            continue
        try:
            one = Prefix.from_plain(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PrefixError(f"{path}:{number}: expected a prefix: {error}") from None
        if not Path(one.folder).is_absolute():
            one = replace(one, folder=str(path.parent / one.folder))
        if split is None or one.split == split:
            found.append(one)
    if not head:
        raise PrefixError(f"{path}:1: expected schema {SCHEMA!r}, version {VERSION}")
    _held_to_lock(path, found)
    return head, found


def _held_to_lock(path: Path, found: Iterable[Prefix]) -> None:
    """Sides are those of the lock beside the file, if there is one."""
    from misstep.train import split

    if not (path.parent / split.FILE).exists():
        return
    try:
        locked = split.load(path.parent)
    except split.SplitError as error:
        raise PrefixError(str(error)) from None
    for one in found:
        if locked.side(one.environment) != one.split:
            side = locked.side(one.environment) or "not in it"
            raise PrefixError(f"{path}: prefix {one.id} is {one.split}, and by {split.FILE} its environment is {side}")
