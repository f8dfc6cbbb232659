"""Building prefixes: from profiled trajectories to states that two replays in fresh sandboxes reproduced (MiRL, prefixes).

    prefixes.jsonl   those that are kept
    dropped.jsonl    every other occurrence, with the reason
    split.json       which environments are held out; locked
    checks.jsonl     what replays said: a build that was killed goes on from there

An environment gives at most so many prefixes. Which ones is drawn by seed, types in turn; one that a replay refuses makes room
for the next.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from misstep.profile.lines import Lines
from misstep.sandbox import replay
from misstep.sandbox.base import Root, SandboxError
from misstep.sandbox.record import from_trajectory
from misstep.sandbox.tasks import Task
from misstep.train.prefixes import Prefix, PrefixError, Source, Target, save
from misstep.train.sources import Occurrence
from misstep.train.split import Locked, SplitError, environment_of
from misstep.train.states import States
from misstep.train.turns import Unfit, turns_before

DROPPED, CHECKS = "dropped.jsonl", "checks.jsonl"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is kept (MiRL; where it is silent the values are ours)."""

    per_environment: int = 4
    seed: int = 0
    rule: Literal["exact", "masked"] = "exact"
    """exact: every output and exit code is reproduced (the paper's). masked: what two replays show to be noise may differ."""
    most_steps: int = 48
    """A longer one leaves less than 16 of the 64 steps."""
    most_seconds: float = 600.0
    """Of its recorded commands together."""
    processes: bool = False
    """Keep prefixes at whose end processes live on: each branch is then a replay of its own."""
    repeated: bool = False
    """Keep those in whose steps the same misstep has happened before: what it broke may be broken for good."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Built:
    """What became of the occurrences."""

    prefixes: list[Prefix] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    occurrences: int = 0
    replays: int = 0
    """In this run; those of an earlier one that was killed are not done again."""
    seconds: float = 0.0

    @property
    def reasons(self) -> Counter[str]:
        """Reason -> occurrences."""
        return Counter(one["reason"] for one in self.dropped)


class Tasks:
    """Tasks by name and by instruction: which one a trajectory was about."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._names: dict[str, list[Task]] = defaultdict(list)
        self._asked: dict[str, list[Task]] = defaultdict(list)
        self.environments: dict[str, str] = {}
        """The folder -> SHA-256 of the environment."""
        for task in tasks:
            self._names[task.name].append(task)
            self._asked[_words(task.instruction)].append(task)
            self.environments[str(task.path)] = environment_of(task.path)

    def find(self, name: str, asked: str) -> Task | None:
        """By the instruction, then by the recorded name; None where that does not tell one task."""
        found = self._asked.get(_words(asked), []) if asked.strip() else []
        if len({self.environments[str(one.path)] for one in found}) > 1:
            found = [one for one in found if one.name == _plain_name(name)]
        found = found or self._names.get(_plain_name(name), [])
        different = {self.environments[str(one.path)] for one in found}
        return found[0] if len(different) == 1 else None


def _words(text: str) -> str:
    return " ".join(text.split())


def _plain_name(name: str) -> str:
    """Of a recorded name: without the checksum after it and the data set before it."""
    return name.partition("@")[0].rpartition("/")[2]


Watch = Callable[[int, int], None]
"""Told (environments done, environments) as it goes on."""


def build(
    occurrences: Iterable[Occurrence],
    tasks: Tasks,
    locked: Locked,
    out: Path,
    root: Root,
    settings: Settings | None = None,
    *,
    jobs: int = 2,
    watch: Watch | None = None,
) -> Built:
    """Builds prefixes.jsonl and dropped.jsonl in the folder `out`; checks.jsonl is gone on with.

    Raises:
        LinesError: checks.jsonl was made with other settings.
        OSError: a file cannot be written.
    """
    settings = settings or Settings()
    began = time.monotonic()
    built = Built()
    found: dict[str, list[Prefix]] = defaultdict(list)
    known: set[str] = set()
    for one in occurrences:
        built.occurrences += 1
        try:
            made = _candidate(one, tasks, locked, settings)
            if made.id in known:
                raise Unfit("the same as another")
            known.add(made.id)
            found[made.environment].append(made)
        except Unfit as error:
            _drop(built, Source(one.path, one.n, one.step, one.call), one.target, str(error))
    head = {"schema": "misstep.prefixes.checks", "version": 1, "root": root.name, "rule": settings.rule}
    with (
        Lines(out / CHECKS, head, key=lambda row: row["id"], final=lambda row: not row["fault"]) as lines,
        States(root) as states,
        ThreadPoolExecutor(max(1, jobs)) as pool,
    ):
        checks = _Checks(lines, states)
        work = [found[name] for name in sorted(found)]
        for number, (kept, dropped) in enumerate(pool.map(lambda many: _environment(many, settings, checks), work), 1):
            built.prefixes += kept
            for prefix, why in dropped:
                _drop(built, prefix.source, prefix.target, why)
            if watch is not None:
                watch(number, len(work))
        built.replays = checks.made
    built.prefixes.sort(key=lambda one: (one.target.id, one.environment, one.id))
    built.dropped.sort(key=lambda row: (row["path"], row["n"], row["step"], row["call"], row["target"]))
    built.seconds = time.monotonic() - began
    _write(out, built, settings, root)
    return built


def _candidate(one: Occurrence, tasks: Tasks, locked: Locked, settings: Settings) -> Prefix:
    trajectory = one.trajectory
    if one.again and not settings.repeated:
        raise Unfit("it had happened before")
    name = trajectory.outcome.task if trajectory.outcome is not None else ""
    task = tasks.find(name, one.asked)
    if task is None:
        raise Unfit(f"no task: {name or one.asked[:80]}")
    environment = tasks.environments[str(task.path)]
    side = locked.side(environment)
    if side is None:
        raise Unfit(f"its environment is not in the locked split: {task.name}")
    turns = turns_before(trajectory, one.step, one.call)
    if len(turns) > settings.most_steps:
        raise Unfit(f"too long: {len(turns)} steps")
    seconds = sum(turn.seconds or 0.0 for turn in turns)
    if seconds > settings.most_seconds:
        raise Unfit(f"too long: its commands took {seconds:.0f} s")
    source = Source(one.path, one.n, one.step, one.call, trajectory.agent, trajectory.model, one.by)
    workdir = trajectory.cwd if trajectory.cwd.startswith("/") else None
    return Prefix(
        task.name, str(task.path.resolve()), environment, task.instruction, turns, one.target, one.token_ids or None,
        trajectory.model if one.token_ids else "", side, from_trajectory(trajectory).lasting, workdir, source,
    )  # fmt: skip


def order(candidates: Sequence[Prefix], seed: int) -> list[Prefix]:
    """The order in which an environment's candidates are tried: types in turn, drawn by seed."""
    by_type: dict[str, list[Prefix]] = defaultdict(list)
    for one in sorted(candidates, key=lambda p: p.id):
        by_type[f"{one.target.kind}:{one.target.id}"].append(one)
    key = f"{seed}|{candidates[0].environment}" if candidates else ""
    dice = random.Random(hashlib.sha256(key.encode()).hexdigest())
    queues = [by_type[name] for name in sorted(by_type)]
    for queue in queues:
        dice.shuffle(queue)
    dice.shuffle(queues)
    longest = max(map(len, queues), default=0)
    return [queue[n] for n in range(longest) for queue in queues if n < len(queue)]


class _Checks:
    """Replays, each done once and written down; from several threads."""

    def __init__(self, lines: Lines, states: States) -> None:
        self.lines, self.states, self.made = lines, states, 0
        self._lock = threading.Lock()

    def of(self, prefix: Prefix) -> Mapping[str, Any]:
        """What its two replays said, in this run or in one before."""
        with self._lock:
            known = self.lines.records.get(prefix.id)
        if known is not None:
            return known
        row = check(prefix, self.states)
        with self._lock:
            self.lines.add(row)
            self.made += 1
        return row


def _environment(
    candidates: list[Prefix], settings: Settings, checks: _Checks
) -> tuple[list[Prefix], list[tuple[Prefix, str]]]:
    """One environment: candidates are replayed until enough are kept."""
    kept: list[Prefix] = []
    dropped: list[tuple[Prefix, str]] = []
    for one in order(candidates, settings.seed):
        if len(kept) >= settings.per_environment:
            dropped.append((one, f"more than {settings.per_environment} of its environment"))
            continue
        row = checks.of(one)
        why = refused(row, settings)
        if why:
            dropped.append((one, why))
        else:
            kept.append(replace(one, grade=row["grade"]))
    return kept, dropped


def check(prefix: Prefix, states: States) -> dict[str, Any]:
    """What two replays in fresh sandboxes say: {id, grade, why, live, seconds, fault}."""
    began = time.monotonic()
    row: dict[str, Any] = {"id": prefix.id, "grade": "", "why": "", "live": [], "fault": ""}
    try:
        seen = replay.verify(prefix.recording, lambda: states.fresh(prefix.folder, prefix.workdir))
    except SandboxError as error:
        row["fault"] = str(error)[:300]
    else:
        worst = seen.first_difference
        row["grade"] = seen.grade
        row["why"] = "" if worst is None else f"{worst.reason}: {worst.recorded.shown[:160]}"
        row["live"] = [process.command[:200] for process in seen.live]
    row["seconds"] = round(time.monotonic() - began, 3)
    return row


def refused(row: Mapping[str, Any], settings: Settings) -> str:
    """Why a prefix is not kept after its replays, `reason: detail`; '' where it is."""
    if row["fault"]:
        return f"the sandbox failed: {row['fault']}"
    if row["grade"] == "unknown":
        return f"the record does not tell an output: {row['why']}"
    if row["grade"] == "different":
        return f"not reproduced: {row['why']}"
    if row["grade"] == "masked" and settings.rule != "masked":
        return f"not deterministic: {row['why']}"
    if row["live"] and not settings.processes:
        return f"background processes: {row['live'][0]}"
    return ""


def _drop(built: Built, source: Source, target: Target, why: str) -> None:
    reason, _, detail = why.partition(": ")
    place = {"path": source.path, "n": source.n, "step": source.step, "call": source.call}
    built.dropped.append({**place, "target": target.id, "reason": reason, "detail": detail[:300]})


def _write(out: Path, built: Built, settings: Settings, root: Root) -> None:
    head = {"settings": settings.plain(), "root": root.name, "occurrences": built.occurrences}
    save(out, built.prefixes, head)
    fresh = out / f"{DROPPED}.new"
    with fresh.open("w", encoding="utf-8", newline="\n", errors="surrogateescape") as file:
        file.write(json.dumps({"schema": "misstep.prefixes.dropped", "version": 1}) + "\n")
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in built.dropped)
    fresh.replace(out / DROPPED)


def recheck(prefixes: Sequence[Prefix], root: Root, *, jobs: int = 2) -> Iterator[tuple[Prefix, str]]:
    """Each prefix, and why it can no longer be trusted ('' where it can): replayed twice again, its task held against its hash."""

    def one(prefix: Prefix) -> str:
        try:
            if environment_of(Path(prefix.folder)) != prefix.environment:
                return f"the task was changed: {prefix.folder}"
        except SplitError as error:
            return f"the task is gone: {error}"
        rule: Literal["exact", "masked"] = "masked" if prefix.grade == "masked" else "exact"
        return refused(check(prefix, states), Settings(rule=rule, processes=True))

    with States(root) as states, ThreadPoolExecutor(max(1, jobs)) as pool:
        yield from zip(prefixes, pool.map(one, prefixes), strict=True)


__all__ = ["Built", "PrefixError", "Settings", "Target", "Tasks", "build", "check", "order", "recheck", "refused"]
