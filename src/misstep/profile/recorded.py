"""Recorded profiling: the localizer over recorded trajectories of any agent.

Each call that an agent proposed is judged from the task and the steps before it, and written at once with what the catalogue's
detectors say of it. A run that was killed goes on where it stopped: steps that are judged are not judged again, and
answers that were paid for are in the cache.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from misstep.profile.apart import Apart
from misstep.profile.beside import Place, beside, chosen
from misstep.profile.labels import Key, Labels, StepLabel, header
from misstep.profile.view import Room, View, Views, proposals, task_of
from misstep.scan.copies import ID_BYTES
from misstep.scan.record import cut, describe, fingerprints
from misstep.scan.run import READER_FAILED
from misstep.scan.units import find, shard_of
from misstep.trajectory import Trajectory
from misstep.trajectory.readers import Unreadable, read

if TYPE_CHECKING:
    from misstep.models import Client, Role
    from misstep.profile.localizer import Localizer, Opinion

COMMAND = 600
"""Characters of a call that a label keeps."""


@dataclass(frozen=True)
class Options:
    """What to judge, and how."""

    paths: Sequence[str]
    votes: int = 1
    batch: int = 1
    """Calls of a trajectory that are judged in one question."""
    steps: int | None = None
    """Of each trajectory, only so many calls, the first ones."""
    sample: int | None = None
    """Of all calls, only so many, drawn at random by `seed`."""
    seed: int = 0
    room: Room = field(default_factory=Room)

    def header(self, role: Role) -> dict[str, Any]:
        """All that decides the labels, for the first line of their file."""
        from misstep.profile.localizer import Localizer

        return header(
            Localizer.prompts(self.batch),
            {"localizer": role.model},
            sampling=role.sampling(),
            structured=role.structured,
            votes=self.votes,
            batch=self.batch,
            room=self.room.identity,
        )


@dataclass
class Found:
    """What there was to judge."""

    units: int = 0
    trajectories: int = 0
    calls: int = 0
    """Chosen for judging."""
    copies: int = 0
    """Calls recorded more than once (a resumed session is written again): judged where they come first."""
    unreadable: Counter[str] = field(default_factory=Counter)
    """Reason -> units that could not be read."""
    stopped: str = ""
    """Why not all was judged, and not all counted here."""


@dataclass(frozen=True)
class Work:
    """Some calls of one trajectory that are judged together."""

    first: View
    more: tuple[str, ...]
    """The calls after the first, in words."""
    labels: tuple[StepLabel, ...]
    """As far as they are known without a model."""


Take = Callable[[], Awaitable[Work | None]]
"""Gives what is to be judged next, None at the end."""
Watch = Callable[[int, int], None]
"""Told (calls judged in this run, those without a verdict among them) as it goes on."""
IN_A_ROW = 20
"""Steps that a server refuses, or leaves unanswered, one after the other: it would do so with all."""


class Stopped(Exception):
    """The rest was not judged: another run goes on with it. The text is one line."""


async def profile(
    options: Options, client: Client, labels: Labels, watch: Watch | None = None, apart: bool = False
) -> Found:
    """Judges what is not yet in `labels`, several calls at once, and puts the file in order at the end.

    apart: trajectories are read, and questions made, in another process.

    Raises:
        CacheError, SettingsError, OSError, RuntimeError: nothing more can be judged; what was judged is kept.
    """
    from misstep.profile.localizer import Localizer

    found = Found()
    localizer = Localizer(client)

    def keep(label: StepLabel) -> None:
        if label.key not in labels:  # one of a group that was judged in part
            labels.add(label)

    judged = frozenset(one.key for one in labels.all())
    away = Apart(_works, options, judged, found, result=found) if apart else None
    todo = works(options, judged.__contains__, found)
    stopped = ""
    try:
        take = away.take if away is not None else _taken(todo)
        await judge_all(take, localizer, options.votes, keep, watch)
    except Stopped as why:
        stopped = str(why)
    finally:
        if away is not None:
            away.close()
            found = away.result or found
    found.stopped = stopped
    labels.finish()
    return found


def _works(options: Options, judged: frozenset[Key], found: Found) -> Iterator[Work]:
    return works(options, judged.__contains__, found)


def _taken(todo: Iterator[Work]) -> Take:
    async def take() -> Work | None:
        return next(todo, None)

    return take


async def judge_all(
    take: Take,
    localizer: Localizer,
    votes: int,
    keep: Callable[[StepLabel], None],
    watch: Watch | None = None,
) -> None:
    """Judges all, as many at once as the role's concurrency has use for.

    Raises:
        Stopped: the budget is used up, or the server answers nothing.
    """
    role = localizer.client.settings.role(localizer.role)
    done = failed = row = 0
    poor = ""

    async def worker() -> None:
        nonlocal done, failed, row, poor
        while not poor and (work := await take()) is not None:
            opinions = await localizer.judge_run(work.first, work.more, votes)
            for label in joined(work, opinions):
                keep(label)
                done += 1
                failed += label.verdict is None
            if watch is not None:
                watch(done, failed)
            kind, _, why = opinions[0].failure.partition(": ")
            row = row + 1 if kind in ("unreachable", "rejected") else 0
            if row >= IN_A_ROW:
                raise Stopped(f"{row} steps in a row had no answer; the last: {why}")
            if kind == "budget":
                poor = why  # what is under way is paid for, and finished
            await asyncio.sleep(0)  # answers from the cache come without a pause

    # Twice as many as can be asked at once: a question is ready whenever an answer comes.
    workers = [asyncio.ensure_future(worker()) for _ in range(2 * role.concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for one in workers:
            one.cancel()
        with contextlib.suppress(BaseException):
            await asyncio.gather(*workers, return_exceptions=True)
    if poor:
        raise Stopped(poor)


def joined(work: Work, opinions: Sequence[Opinion]) -> Iterator[StepLabel]:
    """The labels with the model's opinions in them."""
    from dataclasses import replace

    for label, one in zip(work.labels, opinions, strict=True):
        yield replace(
            label,
            verdict=one.verdict,
            reason=one.reason,
            confidence=None if one.confidence is None else round(one.confidence, 6),
            votes=one.votes,
            failure=one.failure,
        )


def works(
    options: Options, judged: Callable[[Key], bool], found: Found, shard: tuple[int, int] | None = None
) -> Iterator[Work]:
    """What is to be judged, in order of the paths. `shard` (i of n, from 1) keeps every n-th trajectory, by a hash of its place."""
    wanted = _drawn(options) if options.sample is not None else None
    from misstep.profile.localizer import run_of

    detectors = chosen()
    for path, n, trajectory, places in _chosen(options, found):
        if wanted is not None:
            places = [place for place in places if (path, n, *place) in wanted]
        if shard is not None and shard_of(f"{path}\0{n}", shard[1]) != shard[0]:
            continue
        found.trajectories += 1
        found.calls += len(places)
        groups = [
            group
            for group in _groups(trajectory, places, options.batch)
            if not all(judged((path, n, *place)) for place in group)
        ]
        if not groups:
            continue
        views, said = Views(trajectory, options.room), beside(trajectory, detectors)
        for group in groups:
            labels = tuple(_label(trajectory, path, n, place, said.get(place, {})) for place in group)
            yield Work(*run_of(views, group), labels)


def _label(trajectory: Trajectory, path: str, n: int, place: Place, said: dict[str, bool | None]) -> StepLabel:
    step, call = place
    command = cut(describe(trajectory.steps[step].calls[call]), COMMAND)
    return StepLabel(trajectory.id, path, n, task_of(trajectory), step, call, command, catalogue=said)


def _chosen(options: Options, found: Found) -> Iterator[tuple[str, int, Trajectory, list[Place]]]:
    """(path, place in the file, trajectory, its calls without copies and beyond the limit)."""
    seen: set[str] = set()
    for unit in find(options.paths):
        found.units += 1
        try:
            for n, trajectory in enumerate(read(unit.path)):
                copied = _copied(trajectory, seen)
                places = list(proposals(trajectory))
                fresh = [place for place in places if place[0] not in copied]
                found.copies += len(places) - len(fresh)
                yield unit.path, n, trajectory, fresh[: options.steps]
        except Unreadable as error:
            found.unreadable[str(error).removeprefix(f"{unit.path}: ")] += 1
        except Exception as error:  # a fault of a reader costs one file, as in a scan
            found.unreadable[f"{READER_FAILED}: {type(error).__name__}: {error}"[:300]] += 1


def _copied(trajectory: Trajectory, seen: set[str]) -> set[int]:
    """The steps of which another record was read before."""
    ids, width = fingerprints(trajectory), 2 * ID_BYTES
    own = [number for number, step in enumerate(trajectory.steps) if not step.copied]
    here = {number: ids[width * k : width * (k + 1)] for k, number in enumerate(own)}
    copied = {number for number, mark in here.items() if mark in seen}
    seen.update(here.values())
    return copied


def _drawn(options: Options) -> set[Key]:
    """The sample: those whose hash with the seed is smallest, so that it does not hang on the order of the paths."""

    def rank(key: Key) -> bytes:
        return blake2b(repr((options.seed, key)).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    keys = ((path, n, *place) for path, n, _, places in _chosen(options, Found()) for place in places)
    return set(nsmallest(options.sample or 0, keys, key=rank))


def _groups(trajectory: Trajectory, places: Sequence[Place], size: int) -> Iterator[list[Place]]:
    """Runs of at most `size` calls that follow one another with nothing but the agent's own steps between them."""
    order = {place: number for number, place in enumerate(proposals(trajectory))}
    group: list[Place] = []
    for place in places:
        if group and (len(group) == size or not _follows(trajectory, order, group[-1], place)):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _follows(trajectory: Trajectory, order: dict[Place, int], last: Place, place: Place) -> bool:
    between = trajectory.steps[last[0] + 1 : place[0]]
    return order[place] == order[last] + 1 and all(step.source == "agent" or not step.message for step in between)
