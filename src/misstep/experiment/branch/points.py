"""Decision points: where, in recorded attempts, a policy fires or a misstep occurs, and whether that can be rebuilt.

The portfolio is followed over the recorded events and only observes. Of a policy the first firing in an attempt is a point:
what comes after it would have been another attempt, had the policy acted.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.catalogue import Fold, missteps
from misstep.experiment.attempts import AttemptsError, read_attempts
from misstep.experiment.branch.cut import before, first_prompt, obstacle, recording_of
from misstep.experiment.outcomes import funnel
from misstep.experiment.outcomes.classify import GUARD_LOGS
from misstep.guard.engine import Engine
from misstep.guard.study import audit, shown
from misstep.sandbox.tasks import Task
from misstep.trajectory import Before, Stop, Trajectory, events
from misstep.trajectory.readers import Unreadable, read, units

if TYPE_CHECKING:
    from misstep.guard.portfolio import Portfolio

NOTHING = "nothing"
"""The arm in which nobody says anything; in the panel's words `baseline`."""


class PointsError(ValueError):
    """What cannot be looked through for points, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded attempt that was looked through."""

    id: str
    task: str
    """The task's name; '' where none of the known tasks is its."""
    path: str
    """Where it was read."""
    place: int = 0
    """Of several trajectories in one file, from 0."""
    agent: str = ""
    model: str = ""
    passed: bool | None = None
    steps: int = 0
    tokens: int = 0
    """Of all its calls, where recorded."""
    eligible: tuple[str, ...] = ()
    """Policies that take the task for their own."""
    left_out: str = ""
    """Why no point of it was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A decision point: a policy at an event of a recorded attempt."""

    id: str
    attempt: str
    task: str
    policy: str
    """The policy; of an occurrence, the misstep."""
    misstep: str
    kind: str = "policy"
    """policy | misstep"""
    scoped: bool = True
    """Whether the policy takes the task for its own; False only where points out of scope were asked for."""
    event: str = "stop"
    """before | stop: the event at which it acts."""
    action: str = "instruct"
    """instruct | deny"""
    at: int = 0
    """Index of the event in the attempt's stream."""
    step: int = 0
    call: str = ""
    """Id of the proposed call; '' at a stop."""
    what: str = ""
    """The call, or the last words, on one line."""
    problem: str = ""
    """Why it cannot be rebuilt, as far as the record alone tells; '' where a replay will show it."""


@dataclass(slots=True)
class Found:
    """What a search gave."""

    attempts: list[Recorded] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)
    """Files that are no attempts, by reason."""

    @property
    def rebuildable(self) -> list[Point]:
        """Points that a replay may rebuild."""
        return [point for point in self.points if not point.problem]


def find(
    paths: Iterable[Path],
    portfolio: Portfolio,
    tasks: Sequence[Task],
    *,
    arms: Sequence[str] = (),
    occurrences: bool = False,
    unscoped: bool = False,
) -> Found:
    """The decision points in recorded attempts.

    Args:
        paths: panels' folders, Harbor jobs, trajectories.
        tasks: the tasks' folders: an attempt is matched by its task's name, else by the instruction in its first prompt.
        arms: of a panel, the arms whose attempts are taken; `baseline` where the panel has it, else all, by default.
        occurrences: occurrences of missteps (of those without a policy too) are points as well.
        unscoped: also where a policy's predicate holds on a task that is not its own: for the arm always-real.

    Raises:
        PointsError, AttemptsError: what cannot be read.
    """
    found = Found()
    known = {task.name: task for task in tasks}
    for path in paths:
        if not path.exists():
            raise PointsError(f"{path}: no such file or folder")
        for name, unit in _units(path, arms, found.unread):
            _look(name, unit, portfolio, known, found, occurrences=occurrences, unscoped=unscoped)
    if not found.attempts:
        raise PointsError(f"{', '.join(map(str, paths))}: no attempt of a known agent" + _reasons(found.unread))
    return found


def _reasons(unread: Counter[str]) -> str:
    return f" ({unread.most_common(1)[0][0]})" if unread else ""


def _units(path: Path, arms: Sequence[str], unread: Counter[str]) -> Iterator[tuple[str, Path]]:
    """(name, unit) of every attempt: of a panel the kept trials of the arms, else whatever the readers know."""
    if (path / "attempts.jsonl").is_file():
        attempts = read_attempts(path / "attempts.jsonl")
        chosen = tuple(arms) or (("baseline",) if any(one.arm == "baseline" for one in attempts) else ())
        for attempt in attempts:
            if chosen and attempt.arm not in chosen:
                unread[f"of the arm {attempt.arm}"] += 1
            elif attempt.termination in ("invalid", "never-ran"):
                unread[f"{attempt.termination}: no observation of the agent"] += 1
            else:
                yield attempt.id or attempt.trial, path / attempt.trial
        return
    for unit in units([path]):
        yield "", unit


def _look(
    name: str,
    unit: Path,
    portfolio: Portfolio,
    tasks: Mapping[str, Task],
    found: Found,
    *,
    occurrences: bool,
    unscoped: bool,
) -> None:
    try:
        trajectories = list(read(unit))
    except Unreadable as error:
        found.unread[str(error).rpartition(": ")[2]] += 1
        return
    sub_agents = any(one.parent for one in trajectories)
    logs = unit / GUARD_LOGS
    acted = bool(funnel.funnel_of([], logs).fired) if logs.is_dir() else False
    for place, one in enumerate(trajectories):
        if one.parent or not one.steps:
            continue
        task = task_of(one, tasks)
        made = Recorded(
            id=_unique(name or _name(one, unit), found.attempts),
            task=task.name if task else "",
            path=str(unit.resolve()),
            place=place,
            agent=one.agent,
            model=one.model,
            passed=one.outcome.passed if one.outcome else None,
            steps=sum(step.source == "agent" and not step.copied for step in one.steps),
            tokens=round(
                sum(step.metrics.get(n, 0) for step in one.steps for n in ("prompt_tokens", "completion_tokens"))
            ),
            eligible=tuple(route.policy for route in audit(portfolio, [("", first_prompt(one))])),
            left_out=_left_out(one, task, acted, sub_agents),
        )
        found.attempts.append(made)
        if not made.left_out:
            found.points += points_of(one, made, portfolio, occurrences=occurrences, unscoped=unscoped)


def _left_out(trajectory: Trajectory, task: Task | None, acted: bool, sub_agents: bool) -> str:
    outcome = trajectory.outcome
    if outcome is not None and outcome.fault:
        return f"{outcome.fault}: no observation of the agent"
    if task is None:
        return "its task is none of the known ones"
    if acted:
        return "a policy intervened in it"
    return "it had sub-agents" if sub_agents else ""


def _name(trajectory: Trajectory, unit: Path) -> str:
    if trajectory.outcome and trajectory.outcome.attempt:
        return trajectory.outcome.attempt
    return unit.name.removesuffix(".json").removesuffix(".traj") if unit.is_file() else unit.name


def _unique(name: str, attempts: Sequence[Recorded]) -> str:
    taken = {one.id for one in attempts}
    number, made = 2, name
    while made in taken:
        made, number = f"{name}~{number}", number + 1
    return made


def task_of(trajectory: Trajectory, tasks: Mapping[str, Task]) -> Task | None:
    """The task of an attempt: by the name that its outcome has, else the only one whose instruction is in its first prompt."""
    if trajectory.outcome and trajectory.outcome.task:
        name = trajectory.outcome.task.partition("@")[0].rpartition("/")[2]
        if name in tasks:
            return tasks[name]
    prompt = " ".join(first_prompt(trajectory).split())
    fit = [task for task in tasks.values() if task.instruction and " ".join(task.instruction.split()) in prompt]
    longest = max((len(task.instruction) for task in fit), default=0)
    fit = [task for task in fit if len(task.instruction) == longest]
    return fit[0] if len(fit) == 1 else None


def points_of(
    trajectory: Trajectory,
    attempt: Recorded,
    portfolio: Portfolio,
    *,
    occurrences: bool = False,
    unscoped: bool = False,
) -> list[Point]:
    """The points of one attempt, in order."""
    found = [*_firings(trajectory, attempt, portfolio, unscoped)]
    if occurrences:
        found += _occurrences(trajectory, attempt)
    problems: dict[tuple[int, str], str] = {}
    made = []
    for point in sorted(found, key=lambda one: (one.at, one.kind, one.policy)):
        place = (point.step, point.call)
        if place not in problems:
            cut = before(trajectory, point.step, point.call)
            problems[place] = obstacle(cut, recording_of(cut))
        made.append(replace(point, problem=problems[place]))
    return made


def _firings(trajectory: Trajectory, attempt: Recorded, portfolio: Portfolio, unscoped: bool) -> Iterator[Point]:
    observed = copy(portfolio)
    observed.rules = [copy(rule) for rule in portfolio.rules]
    for rule in observed.rules:
        rule.mode = "observe"
    observed.unscoped = unscoped or portfolio.unscoped
    engine = Engine(observed)
    policies = {policy.id: (rule, policy) for rule, _, policy in engine.slots}
    seen: set[str] = set()
    for event in events(trajectory):
        if isinstance(event, Before | Stop):
            for row in engine.consider(event, str(event.step)).rows:
                name = row["policy"]
                if row["fires"] and name not in seen:
                    seen.add(name)
                    rule, policy = policies[name]
                    yield _point(
                        attempt,
                        event,
                        name,
                        rule.misstep,
                        "policy",
                        rule.action or policy.action,
                        row["eligible"] is not None,
                    )
        engine.see(event)


def _occurrences(trajectory: Trajectory, attempt: Recorded) -> Iterator[Point]:
    stream = list(events(trajectory))
    fold = Fold([one for one in missteps() if one.status != "retired"])
    for event in stream:
        fold.push(event)
    for name, verdicts in fold.finish().verdicts.items():
        first = next((v for v in verdicts if v.holds and isinstance(stream[v.at], Before | Stop)), None)
        if first is not None:
            yield _point(attempt, stream[first.at], name, name, "misstep", "instruct", True)


def _point(attempt: Recorded, event: Any, policy: str, misstep: str, kind: str, action: str, scoped: bool) -> Point:
    call = event.call.id if isinstance(event, Before) else ""
    text = json.dumps([attempt.id, attempt.task, policy, kind, event.index])
    return Point(
        id=hashlib.sha256(text.encode()).hexdigest()[:12],
        attempt=attempt.id,
        task=attempt.task,
        policy=policy,
        misstep=misstep,
        kind=kind,
        scoped=scoped,
        event="before" if call or isinstance(event, Before) else "stop",
        action=action,
        at=event.index,
        step=event.step,
        call=call,
        what=shown(event),
    )


# -- the file ------------------------------------------------------------------------------------------------------------

SCHEMA, VERSION = "misstep.branch.points", 1


def write(path: Path, found: Found) -> None:
    """Write what was found as JSON lines, whole or not at all. Raises OSError."""
    rows: list[dict[str, Any]] = [{"schema": SCHEMA, "version": VERSION, "unread": dict(found.unread)}]
    rows += [{"attempt": asdict(one)} for one in found.attempts]
    rows += [{"point": asdict(one)} for one in found.points]
    part = path.with_name(f"{path.name}.part")
    part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    part.replace(path)


def load(path: Path) -> Found:
    """What `write` wrote. Raises PointsError with the file and line."""
    found = Found()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PointsError(
            f"{path}: {error.strerror}; expected a folder of branch tests (misstep branch find --out)"
        ) from None
    for number, text in enumerate(lines, 1):
        try:
            row = json.loads(text)
            if number == 1:
                if (row.get("schema"), row.get("version")) != (SCHEMA, VERSION):
                    raise PointsError(f"{path}:1: expected schema {SCHEMA!r}, version {VERSION}")
                found.unread.update(row.get("unread", {}))
            elif "attempt" in row:
                given = row["attempt"]
                found.attempts.append(Recorded(**{**given, "eligible": tuple(given.get("eligible", ()))}))
            else:
                found.points.append(Point(**row["point"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, PointsError):
                raise
            raise PointsError(f"{path}:{number}: expected an attempt or a point: {error}") from None
    return found


__all__ = [
    "AttemptsError",
    "Found",
    "Point",
    "PointsError",
    "Recorded",
    "find",
    "load",
    "write",
]
