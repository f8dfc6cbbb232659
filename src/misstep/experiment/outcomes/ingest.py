"""Attempts of what people have already: Harbor jobs, runs of terminal-bench v1, tables, files of attempts.

Several jobs are several arms. Replicates are numbered per task and arm in the order in which they started. What cannot be
paired is told (`Ingested.notes`), never mended in silence: tasks that an arm lacks, unequal numbers of attempts, one name
for several versions of a task.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from misstep.experiment.attempts import Attempt, AttemptsError, fair, read_attempts
from misstep.experiment.outcomes import classify, columns, funnel
from misstep.experiment.outcomes.places import Place, Trial, document, instruction, of_file, task_folder, task_of, walk

if TYPE_CHECKING:
    from misstep.trajectory import Trajectory

Job = TypeVar("Job")
Made = TypeVar("Made")

ARM_FROM = ("auto", "job", "agent", "env")
ARM_VARIABLE = "MISSTEP_ARM"
_FEW = 24
"""Trials that one process reads sooner than several are started."""


@dataclass(frozen=True, slots=True)
class Options:
    """How attempts are made of what is read."""

    arm_from: str = "auto"
    """env: as the trial says it (MISSTEP_ARM in its environment, or a panel's own); job: the job's name; agent: agent and model. auto: env where it is
    set, else the job, with agent and model where a job has several."""
    gave_up: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    passes: float = classify.PASSES
    ungraded: str = ""
    """What an attempt without a verdict is: "failure" or "missing"; '' by format (terminal-bench v1: failure)."""
    funnel: bool = True
    portfolio: str = ""
    """A portfolio file or lock that is replayed where no guard ran, '' for the catalogue's."""
    columns: Mapping[str, str] = field(default_factory=dict)
    versions: str = "apart"
    """apart: tasks of one name with several checksums are several tasks. together: they are one."""
    workers: int = 0
    """0: one for each core."""


@dataclass(slots=True)
class Ingested:
    """The attempts, and what a person has to know about them."""

    attempts: list[Attempt]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Read:
    attempt: Attempt
    job: str
    arm: str
    """As given, or by the environment; '' for neither."""
    numbered: bool = False
    """Its replicate is as it was read."""


def ingest(places: Iterable[Place], options: Options = Options()) -> Ingested:
    """The attempts of all places, numbered.

    Raises:
        AttemptsError: something that is none of the formats, or a bad line in it; nothing is left out in silence.
        OSError: a file cannot be read.
    """
    _check(options)
    read: list[_Read] = []
    trials: list[Trial] = []
    for place in places:
        path = place.path
        if path.is_dir():
            found = list(walk(path, place.arm))
            if not found:
                raise AttemptsError(f"{path}: no trial of Harbor and no run of terminal-bench in it")
            trials += found
        elif not path.exists():
            raise AttemptsError(f"{path}: no such file or folder")
        elif path.suffix == ".jsonl":
            read += [_Read(one, path.stem, place.arm or one.arm, True) for one in read_attempts(path)]
        elif path.suffix == ".json":
            trials += of_file(path, place.arm)
        else:
            rows = columns.rows(
                path, columns=options.columns, arm=place.arm, ungraded=options.ungraded, passes=options.passes
            )
            own = list(rows)
            if not own:
                raise AttemptsError(f"{path}: no row below the header")
            numbered = any(one.replicate > 1 or one.candidate > 1 for one in own)
            read += [_Read(one, path.stem, one.arm, numbered) for one in own]
    read += _read_all(trials, options)
    if not read:
        raise AttemptsError("nothing to read")
    notes: list[str] = []
    attempts = _versions(_armed(read, options), options.versions, notes)
    kept = [one for one, known in zip(attempts, read, strict=True) if known.numbered]
    attempts = number([one for one, known in zip(attempts, read, strict=True) if not known.numbered], _checked(kept))
    return Ingested(attempts, notes + remarks(attempts))


def _check(options: Options) -> None:
    if options.arm_from not in ARM_FROM:
        raise AttemptsError(f"arm_from is one of {', '.join(ARM_FROM)}, not {options.arm_from!r}")
    for pattern in options.gave_up:
        try:
            re.compile(pattern)
        except re.error as error:
            raise AttemptsError(f"{pattern!r} is no regular expression: {error}") from None


# -- reading them --------------------------------------------------------------------------------------------------------


def _read_all(trials: Sequence[Trial], options: Options) -> Iterator[_Read]:
    for found in each(_read_one, [(trial, options) for trial in trials], options.workers):
        yield from found


def each(work: Callable[[Job], Made], jobs: Sequence[Job], workers: int = 0) -> Iterator[Made]:
    """What a function of a module makes of each job, in order; in several processes where there are many."""
    workers = workers or os.cpu_count() or 1
    if workers < 2 or len(jobs) < _FEW:
        yield from map(work, jobs)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, jobs, chunksize=8)


def _read_one(job: tuple[Trial, Options]) -> list[_Read]:
    trial, options = job
    return _harbor(trial, options) if trial.kind == "harbor" else _v1(trial, options)


def _harbor(trial: Trial, options: Options) -> list[_Read]:
    folder = trial.path
    result = document(folder / "result.json") or {"config": document(folder / "config.json")}
    attempt = classify.attempt_of(
        folder,
        task=task_of(result, folder),
        arm="?",
        gave_up=options.gave_up,
        own=options.own,
        passes=options.passes,
        funnel=options.funnel,
        portfolio=_portfolio(options.portfolio),
        instruction=instruction(task_folder(result)),
    )
    attempt = replace(attempt, trial=str(folder))
    simulated = _own(result).get("simulated")
    if simulated and isinstance(simulated, str):  # a panel's own trial: what stood for the model stays on record
        attempt = replace(attempt, extra={**attempt.extra, "simulated": simulated})
    return [_Read(attempt, trial.job, trial.arm or _by_environment(result, options.arm_from))]


def _by_environment(result: Mapping[str, Any], arm_from: str) -> str:
    """The arm in the environment of the agent, or of its container; of a panel's own trial, as its agent was given it."""
    if arm_from not in ("auto", "env"):
        return ""
    config = result.get("config")
    own = _own(result).get("arm")
    if isinstance(own, str) and own:
        return own
    for part in ("agent", "environment"):
        given = config.get(part) if isinstance(config, dict) else None
        env = given.get("env") if isinstance(given, dict) else None
        if isinstance(env, dict) and isinstance(env.get(ARM_VARIABLE), str) and env[ARM_VARIABLE]:
            return str(env[ARM_VARIABLE])
    return ""


def _own(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a panel gave the guard's part of the agent in a trial of its own; {} in others."""
    found: Any = result
    for key in ("config", "agent", "kwargs", "misstep"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


_loaded: dict[str, Any] = {}


def _portfolio(path: str) -> Any:
    """The portfolio that is replayed, loaded once a process."""
    if not path:
        return None
    if path not in _loaded:
        from misstep.guard.portfolio import PortfolioError, from_plain

        try:
            if path.endswith(".toml"):
                from misstep.guard.freeze import read

                plain = read(Path(path))
            else:
                plain = document(Path(path))
            _loaded[path] = from_plain(plain)
        except PortfolioError as error:
            raise AttemptsError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    return _loaded[path]


def _v1(trial: Trial, options: Options) -> list[_Read]:
    """The attempts of a trial of terminal-bench v1, or of a run; none of a folder that is a copy inside another run."""
    told = document(trial.path / "results.json" if trial.path.is_dir() else trial.path)
    rows = [row for row in told.get("results", [told]) if isinstance(row, dict)]
    by_path = {f"{trial.path}#{row.get('trial_name')}": row for row in rows}
    groups: dict[str, list[Trajectory]] = defaultdict(list)
    for one in classify.trajectories_of(trial.path):
        groups[one.path if one.path in by_path else ""].append(one)
    found = []
    for at, trajectories in groups.items():
        attempt = _of_v1(trajectories, by_path.get(at, told), options, at or str(trial.path))
        if attempt is not None:
            found.append(_Read(attempt, trial.job, trial.arm))
    return found


def _of_v1(trajectories: Sequence[Trajectory], row: Mapping[str, Any], options: Options, place: str) -> Attempt | None:
    main = next((one for one in trajectories if one.outcome is not None), None)
    if main is None or main.outcome is None:
        return None
    outcome = main.outcome
    steps = classify.steps_of(trajectories)
    ended = classify.ending_v1(
        outcome,
        ran=True if steps else None,
        message=classify.last_words(trajectories),
        gave_up=options.gave_up,
        ungraded=options.ungraded or "failure",
    )
    seen = funnel.Funnel()
    if options.funnel:
        seen = funnel.funnel_of(trajectories, None, _portfolio(options.portfolio), str(row.get("instruction") or ""))
    task, _, version = outcome.task.partition("@")
    tokens = outcome.extra
    return Attempt(
        task=task,
        arm="?",
        id=outcome.attempt,
        agent=main.agent,
        agent_version=main.agent_version,
        model=main.model,
        termination=ended.termination,
        passed=ended.passed,
        reward=outcome.reward,
        fault=ended.fault,
        exception=outcome.exception,
        started=classify.utc(row.get("trial_started_at") or row.get("agent_started_at")),
        seconds=outcome.seconds,
        total_seconds=classify.between(row.get("trial_started_at"), row.get("trial_ended_at")),
        input_tokens=_whole(tokens.get("prompt_tokens")),
        output_tokens=_whole(tokens.get("completion_tokens")),
        cost_usd=outcome.cost_usd,
        steps=steps,
        eligible=seen.eligible,
        state=seen.state,
        fired=seen.fired,
        behaviour=seen.behaviour,
        trial=place,
        extra={
            **({"checksum": version} if version else {}),
            **({} if steps else {"unrecorded": True}),
            **ended.extra,
        },
    )


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


# -- arms, replicates ----------------------------------------------------------------------------------------------------


def _armed(read: Sequence[_Read], options: Options) -> list[Attempt]:
    """Each attempt in its arm."""
    jobs: dict[str, set[str]] = defaultdict(set)
    for one in read:
        if not one.arm:
            jobs[one.job].add(_agent(one.attempt))
    several = len(jobs) > 1
    attempts = []
    for one in read:
        arm = one.arm
        if not arm and options.arm_from == "env":
            raise AttemptsError(f"{one.attempt.trial}: no {ARM_VARIABLE} in its environment")
        if not arm and options.arm_from == "agent":
            arm = _agent(one.attempt)
        if not arm:
            arm = one.job
            known = jobs[one.job] - {""}
            if options.arm_from == "auto" and len(known) > 1:
                arm = f"{arm}/{_agent(one.attempt)}" if several else _agent(one.attempt)
        arm = arm or one.job
        attempts.append(one.attempt if one.attempt.arm == arm else replace(one.attempt, arm=arm))
    return attempts


def _agent(attempt: Attempt) -> str:
    return "+".join(part for part in (attempt.agent, attempt.model) if part)


def _versions(attempts: list[Attempt], versions: str, notes: list[str]) -> list[Attempt]:
    """Keep what has one name and several checksums apart, or say that it is taken together."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in attempts:
        if one.extra.get("checksum"):
            found[one.task].add(str(one.extra["checksum"]))
    mixed = {task for task, checksums in found.items() if len(checksums) > 1}
    if not mixed:
        return attempts
    told = f"{len(mixed)} tasks have several versions ({_some(mixed)})"
    if versions == "together":
        notes.append(f"{told}; they are taken for the same")
        return attempts
    notes.append(f"{told}; each version is a task of its own (--versions together takes them for one)")
    return [
        replace(one, task=f"{one.task}@{str(one.extra.get('checksum', ''))[:8] or 'unknown'}")
        if one.task in mixed
        else one
        for one in attempts
    ]


def number(attempts: Iterable[Attempt], known: Iterable[Attempt] = ()) -> list[Attempt]:
    """Replicates counted per (task, arm) in the order of their start (of the file, where none is known), from 1 or on
    from those that are known; these and those, by arm, task and replicate."""
    made = list(known)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for one in made:
        counts[one.task, one.arm] = max(counts[one.task, one.arm], one.replicate)
    for one in sorted(attempts, key=lambda a: a.started):
        counts[one.task, one.arm] += 1
        count = counts[one.task, one.arm]
        made.append(one if one.replicate == count else replace(one, replicate=count))
    return sorted(made, key=lambda a: (a.arm, a.task, a.replicate, a.candidate))


def _checked(attempts: list[Attempt]) -> list[Attempt]:
    """Attempts that come with numbers: no two are the same candidate."""
    seen = set()
    for one in attempts:
        key = (*one.slot, one.candidate)
        if key in seen:
            raise AttemptsError(
                f"task {one.task!r} in arm {one.arm!r} has two attempts with replicate {one.replicate}, "
                f"candidate {one.candidate}"
            )
        seen.add(key)
    return attempts


def remarks(attempts: Sequence[Attempt]) -> list[str]:
    """What makes arms hard to compare, each in one line."""
    notes = []
    per: dict[str, Counter[str]] = defaultdict(Counter)
    for one in attempts:
        per[one.arm][one.task] += 1
    everything = {task for tasks in per.values() for task in tasks}
    for arm, tasks in sorted(per.items()):
        lacks = everything - tasks.keys()
        if lacks:
            notes.append(f"arm {arm} lacks {len(lacks)} of {len(everything)} tasks ({_some(lacks)})")
    sizes = Counter(count for tasks in per.values() for count in tasks.values())
    if len(sizes) > 1:
        usual = sizes.most_common(1)[0][0]
        other = sum(count for size, count in sizes.items() if size != usual)
        notes.append(f"{other} of {sum(sizes.values())} (task, arm) have another number of attempts than {usual}")
    unjudged = sum(one.passed is None and fair(one) for one in attempts)
    if unjudged:
        notes.append(f"{unjudged} attempts have no clear verdict; an analysis counts them as failures")
    return notes


def _some(names: Iterable[str], most: int = 3) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (f" and {len(ordered) - most} more" if len(ordered) > most else "")
