"""Live profiling: the policy on tasks, in sandboxes, judged before every step and corrected where it errs (MiRL, profiling).

    DIR/rollouts.jsonl      {"schema":"misstep.rollouts", ...}, then one ended rollout a line
    DIR/profile.jsonl       every judged step of the rollouts that were kept: see `labels`
    DIR/trajectories/       their records, ATIF
    DIR/discarded/          those of discarded rollouts: no part of the profile

A rollout that ended is never made again. One that was killed, or met a fault, is made anew: what its models answered is in the
cache, and is not asked for again as long as its commands show what they showed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.profile import tokens
from misstep.profile.beside import beside, chosen
from misstep.profile.corrected import as_proposed
from misstep.profile.labels import Labels, StepLabel, header
from misstep.profile.lines import Lines, LinesError, Record, read
from misstep.profile.prompts import load
from misstep.profile.rollout import Judged, Rolled, Rollout, Rules
from misstep.profile.teacher import TRIES, Teacher
from misstep.profile.view import task_of
from misstep.sandbox.base import HEAD, TAIL
from misstep.scan.record import cut
from misstep.trajectory import atif_out

if TYPE_CHECKING:
    from misstep.models import Client, Settings
    from misstep.sandbox.base import Root
    from misstep.sandbox.tasks import Task

FILE, SCHEMA, VERSION = "rollouts.jsonl", "misstep.rollouts", 1
KEPT, DISCARDED = "trajectories", "discarded"
DISCARDS = 3
"""Of one task, after which no further rollout of it is begun."""
IN_A_ROW = 5
"""Rollouts that a server refuses, or leaves unanswered, one after the other: it would do so with all."""
COMMAND = 4_000
"""Characters of a command that a label keeps; the whole stands in the record."""

Watch = Callable[[int, int, int], None]
"""Told (rollouts that ended, discarded ones, broken ones) as it goes on."""


@dataclass(frozen=True)
class Options:
    """What to roll out, and how."""

    rules: Rules = field(default_factory=Rules)
    rollouts: int = 1
    """Wanted of each task, discarded ones not counted."""
    discards: int = DISCARDS
    tries: int = TRIES
    at_once: int = 8
    """Rollouts at a time, and so sandboxes."""

    def header(self, settings: Settings, root: Root) -> dict[str, Any]:
        """All that decides a rollout, for the first line of the files. Raises SettingsError where a role has no model."""
        from misstep.profile.localizer import Localizer

        roles = {name: settings.role(name) for name in (self.rules.role, "localizer", "teacher")}
        rules = {**asdict(self.rules), "room": self.rules.room.identity, "tries": self.tries}
        return header(
            (load("policy"), *Localizer.prompts(), *Teacher.prompts()),
            {name: role.model for name, role in roles.items()},
            live=True,
            sampling={name: role.sampling() for name, role in roles.items()},
            structured={name: roles[name].structured for name in ("localizer", "teacher")},
            rules={**rules, "observation": [HEAD, TAIL]},
            root=root.name,
        )


@dataclass
class Done:
    """What a run came to."""

    tasks: int = 0
    made: int = 0
    """Rollouts that ended in this run."""
    broken: dict[str, int] = field(default_factory=dict)
    """Fault -> rollouts that it broke: another run makes them anew."""
    stopped: str = ""
    """Why not all was rolled out."""


class Rollouts:
    """rollouts.jsonl and what stands beside it, open for going on. Use as a context manager."""

    def __init__(self, folder: Path, head: dict[str, Any]) -> None:
        """Raises LinesError where the folder holds rollouts made in another way."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name in (KEPT, DISCARDED):
            (folder / name).mkdir(exist_ok=True)
        self._labels = Labels(folder, head)
        try:
            self._lines = Lines(
                folder / FILE,
                {**head, "schema": SCHEMA, "version": VERSION},
                key=lambda one: (one["task"], one["number"]),
                final=lambda one: one["end"] != "broken",
            )
        except BaseException:
            self._labels.__exit__()
            raise
        self.notes = [*self._labels.notes, *self._lines.notes]
        self._detectors = chosen()

    def of(self, task: str, sha256: str) -> dict[int, Record]:
        """The ended rollouts of a task, by number. Raises LinesError where they were made of other files of that name."""
        found = {one["number"]: one for one in self._lines.records.values() if one["task"] == task}
        for one in found.values():
            if one["sha256"] != sha256:
                raise LinesError(
                    f"{self._lines.path}: the files of task {task} are others than when it was rolled out: name another folder"
                )
        return found

    def add(self, rolled: Rolled, sha256: str) -> Record:
        """One more that ended: its record, its labels, and last the line that makes them count."""
        name = f"{rolled.trajectory.id}.json"
        place = Path(KEPT if rolled.kept else DISCARDED, name)
        record = _record(rolled, sha256, str(place))
        if rolled.end != "broken":
            _write(rolled, self.folder / place)
            for label in self._told(rolled, str(self.folder / place)) if rolled.kept else ():
                self._labels.add(label)
        self._lines.add(record)
        return record

    def _told(self, rolled: Rolled, path: str) -> list[StepLabel]:
        said = beside(rolled.trajectory, self._detectors)
        return [self._label(rolled, path, one, said) for one in rolled.judged]

    def _label(
        self, rolled: Rolled, path: str, one: Judged, said: dict[tuple[int, int], dict[str, bool | None]]
    ) -> StepLabel:
        trajectory, opinion = rolled.trajectory, one.opinion
        corrected = None
        if one.tries:
            said = beside(as_proposed(trajectory, one.step), self._detectors)  # of the step that was not taken
            last = one.tries[-1]
            corrected = {
                "say": last.say,
                "command": last.command,
                "model": last.model,
                "tries": [asdict(tried) for tried in one.tries],
            }
        return StepLabel(
            trajectory.id, path, 0, task_of(trajectory), one.step, 0, cut(one.command, COMMAND), opinion.verdict,
            opinion.reason, None if opinion.confidence is None else round(opinion.confidence, 6), opinion.votes,
            said.get((one.step, 0), {}), opinion.failure, corrected,
        )  # fmt: skip

    def finish(self) -> None:
        """All is done: the lines are put in order."""
        self._labels.finish()
        self._lines.finish()

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._labels.__exit__()


def _record(rolled: Rolled, sha256: str, place: str) -> Record:
    outcome, verdicts = rolled.trajectory.outcome, [one.opinion.verdict for one in rolled.judged]
    answers = list(rolled.answers.values())
    return {
        "rollout": rolled.trajectory.id,
        "task": rolled.trajectory.id.rpartition("-")[0],
        "sha256": sha256,
        "number": rolled.number,
        "end": rolled.end,
        "reason": rolled.reason,
        "steps": len(answers),
        "judged": len(verdicts),
        "bad": verdicts.count("bad"),
        "unknown": verdicts.count(None),
        "malformed": rolled.malformed,
        "cut": rolled.cut,
        "passed": outcome.passed if outcome else None,
        "reward": outcome.reward if outcome else None,
        "unverified": rolled.unverified,
        "input_tokens": sum(one.input_tokens for one in answers),
        "output_tokens": sum(one.output_tokens for one in answers),
        "token_ids": bool(answers) and all(one.token_ids for one in answers),
        "trajectory": place if rolled.end != "broken" else "",
        "seconds": rolled.seconds,
    }


def _write(rolled: Rolled, path: Path) -> None:
    """The record as ATIF, whole or not at all."""
    document = atif_out.write(rolled.trajectory)
    tokens.put(document, rolled.answers)
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n")
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise


def checksum(folder: Path) -> str:
    """SHA-256 of a task's files: their paths, whether they may be run, and what is in them."""
    made = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        data = path.read_bytes()
        name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
        made.update(b"%d %d %d\n" % (len(name), os.access(path, os.X_OK), len(data)) + name + data)
    return made.hexdigest()


async def profile(
    tasks: Sequence[Task], root: Root, options: Options, client: Client, kept: Rollouts, watch: Watch | None = None
) -> Done:
    """Rolls out what is not yet in the folder, several at once, and puts its files in order at the end.

    Raises:
        LinesError: a task is another than in the folder. CacheError, OSError: nothing more can be done; what ended is kept.
    """
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise LinesError(f"two tasks have the name {name}: their rollouts could not be told apart")
    async with _Work(root, options, client, kept, watch) as work:
        known = [(task, await asyncio.to_thread(checksum, task.path)) for task in tasks]
        for task, sha256 in known:
            kept.of(task.name, sha256)
        await work.all([work.environment(task, sha256) for task, sha256 in known])
    kept.finish()
    work.done.tasks = len(tasks)
    return work.done


class _Work:
    def __init__(self, root: Root, options: Options, client: Client, kept: Rollouts, watch: Watch | None) -> None:
        from misstep.profile.localizer import Localizer

        self.root, self.options, self.client, self.kept, self.watch = root, options, client, kept, watch
        self.localizer, self.teacher = Localizer(client), Teacher(client, tries=options.tries)
        self.done, self._row, self._discarded = Done(), 0, 0
        self._slots = asyncio.Semaphore(options.at_once)
        self._threads = ThreadPoolExecutor(options.at_once, thread_name_prefix="rollout")

    async def __aenter__(self) -> _Work:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def all(self, work: Sequence[Any]) -> None:
        running = [asyncio.ensure_future(one) for one in work]
        try:
            await asyncio.gather(*running)
        finally:
            for one in running:
                one.cancel()
            with contextlib.suppress(BaseException):
                await asyncio.gather(*running, return_exceptions=True)

    async def environment(self, task: Task, sha256: str) -> None:
        """Rollouts of one task, in rounds, so that which ones are made does not hang on which end first."""
        found = self.kept.of(task.name, sha256)
        count = self.options.rollouts
        while True:
            # Those of earlier runs count as well: more may be wanted now than then.
            await self.all([self.one(task, sha256, n) for n in range(count) if n not in found])
            found = self.kept.of(task.name, sha256)
            ended = [found[n] for n in range(count) if n in found and found[n]["end"] != "broken"]
            discarded = sum(one["end"] == "discarded" for one in ended)
            missing = self.options.rollouts - (len(ended) - discarded)
            if len(ended) < count or missing <= 0 or discarded >= self.options.discards:
                return
            count += missing

    async def one(self, task: Task, sha256: str, number: int) -> None:
        async with self._slots:
            if self.done.stopped:
                return
            options = self.options
            rollout = Rollout(
                task, number, self.root, self.client, self.localizer, self.teacher, options.rules, self._threads
            )
            rolled = await rollout.run()
            self.kept.add(rolled, sha256)
            self._count(rolled)

    def _count(self, rolled: Rolled) -> None:
        done = self.done
        if rolled.end == "broken":
            fault = (
                ": ".join(rolled.reason.split(": ", 2)[:2])
                if not rolled.reason.startswith("sandbox")
                else rolled.reason
            )
            done.broken[fault] = done.broken.get(fault, 0) + 1
            refused = ": unreachable" in fault or ": rejected" in fault
            self._row = self._row + 1 if refused else 0
            # Those that are under way come to their own end: no answer that was paid for is lost.
            if ": budget" in fault:
                done.stopped = done.stopped or rolled.reason
            elif self._row >= IN_A_ROW:
                done.stopped = done.stopped or f"{self._row} rollouts in a row had no answer; the last: {rolled.reason}"
        else:
            done.made += 1
            self._row = 0
            self._discarded += rolled.end == "discarded"
        if self.watch is not None:
            self.watch(done.made, self._discarded, sum(done.broken.values()))


def load_rollouts(folder: Path) -> tuple[Record, list[Record]]:
    """The header and the ended rollouts of a folder, in order. Raises LinesError."""
    path = folder / FILE
    found, _ = read(path)
    if found[0].get("schema") != SCHEMA or found[0].get("version") != VERSION:
        raise LinesError(f"{path}:1: schema {SCHEMA} of version {VERSION} was expected, not {found[0].get('schema')!r}")
    kept: dict[tuple[str, int], Record] = {}
    for number, one in enumerate(found[1:], 2):
        try:
            kept[one["task"], one["number"]] = one
        except KeyError:
            raise LinesError(f"{path}:{number}: no rollout") from None
    return found[0], [kept[key] for key in sorted(kept)]
