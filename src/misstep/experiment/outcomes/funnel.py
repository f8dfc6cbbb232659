"""The funnel of an attempt: eligible, state, fired, behaviour (FIRE, Table 4 and figure 3).

Where the guard ran in the attempt, its log says which policies took the task for their own, whose predicate held and which
intervened. Where none ran (another's job, an arm without hooks) the portfolio is followed over the recorded events: the
states are the same, and nothing fired. The behaviour marker is read off the recorded trajectory in every arm, by the same
fold, and never off the log: so it is blind to the arm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.catalogue import Fold, Misstep, missteps
from misstep.guard import journal
from misstep.guard.arms import ARMS
from misstep.guard.engine import Engine
from misstep.guard.portfolio import default, from_plain
from misstep.trajectory import Before, Event, Prompt, Stop, Trajectory, events

if TYPE_CHECKING:
    from misstep.guard.portfolio import Portfolio

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Funnel:
    """What of an attempt's funnel is known. Names of policies in order of the alphabet."""

    eligible: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    """Eligible policies whose predicate held at some event where they had not let go."""
    fired: dict[str, int] = field(default_factory=dict)
    behaviour: dict[str, bool | None] = field(default_factory=dict)
    guard: dict[str, Any] = field(default_factory=dict)
    """What the log says of the guard itself, {} where none ran: see `Live.plain`."""


@dataclass(slots=True)
class Live:
    """What the logs of the guard in one attempt say of the guard: whether it lived, under which arm, with what faults."""

    logs: int = 0
    arms: set[str] = field(default_factory=set)
    """As the first record of each log says."""
    before: int = 0
    """Calls that were asked about."""
    stops: int = 0
    decisions: int = 0
    refused: str = ""
    """Why a scored run did not load its portfolio."""
    faults: list[str] = field(default_factory=list)
    """Missteps that were put aside, and hooks that failed."""

    def plain(self) -> dict[str, Any]:
        """As it stands in `Attempt.extra["guard"]`; {} without a log."""
        if not self.logs:
            return {}
        made: dict[str, Any] = {"arms": sorted(self.arms), "before": self.before, "stops": self.stops}
        if self.refused:
            made["refused"] = self.refused
        if self.faults:
            made["faults"] = self.faults[:20]
        return made


def funnel_of(
    trajectories: Sequence[Trajectory],
    logs: Path | Sequence[Path] | None = None,
    portfolio: Portfolio | None = None,
    instruction: str = "",
) -> Funnel:
    """The funnel of one attempt.

    Args:
        trajectories: all that its folder holds, sub-agents' too.
        logs: folders with the guard's logs somewhere below them (a task of several steps has one a step); they may be missing.
        portfolio: what is followed over the trajectories where the logs have no decision; the catalogue's without it.
        instruction: the task's text, for E where nothing of the attempt is on record.
    """
    rows: list[Mapping[str, Any]] = []
    live = Live()
    for folder in [logs] if isinstance(logs, Path) else logs or ():
        if folder.is_dir():
            _read(folder, rows, live)
    eligible: set[str] = set()
    if not live.decisions:
        for stream in _streams(trajectories, instruction):
            found, took = replayed(stream, portfolio)
            rows += found
            eligible |= took
    told, state, fired = counted(rows)
    return Funnel(
        tuple(sorted(eligible.union(told))), state, dict(sorted(fired.items())), behaviour(trajectories), live.plain()
    )


def _streams(trajectories: Sequence[Trajectory], instruction: str) -> Iterator[Iterable[Event]]:
    """The events of the agent's own trajectories; the task's text comes first where a record has no prompt."""
    asked = [Prompt(0, 0, instruction)] if instruction else []
    roots = [one for one in trajectories if not one.parent and one.steps]
    for one in roots:
        yield events(one) if any(step.prompt for step in one.steps) else chain(asked, events(one))
    if not roots:
        yield asked


def live_of(logs: Path) -> Live:
    """What the logs below a folder say of the guard: a run's proof that its hooks lived."""
    live = Live()
    if logs.is_dir():
        _read(logs, [], live)
    return live


def _read(folder: Path, rows: list[Mapping[str, Any]], live: Live) -> None:
    for path in sorted(folder.rglob("log.jsonl")):
        try:
            records = list(journal.records(path))
        except OSError as error:
            live.faults.append(f"{path.name}: {error.strerror}")
            continue
        live.logs += 1
        for line in records:
            kind = line.get("e")
            if kind is None and "arm" in line:
                live.arms.add(str(line["arm"]))
            elif kind == "before":
                live.before += 1
            elif kind == "stop":
                live.stops += 1
            elif kind == "decision":
                live.decisions += 1
                rows.extend(row for row in line.get("rows", ()) if isinstance(row, dict) and "policy" in row)
            elif kind == "refused":
                live.refused = str(line.get("error") or "refused")
            elif kind == "fault":
                live.faults.append(f"{line.get('misstep')}: {line.get('error')}")
    for path in sorted(folder.rglob("faults.jsonl")):
        try:
            live.faults += [str(line.get("error")) for line in journal.records(path)]
        except OSError as error:
            live.faults.append(f"{path.name}: {error.strerror}")


def replayed(stream: Iterable[Event], portfolio: Portfolio | None = None) -> tuple[list[Mapping[str, Any]], set[str]]:
    """(the rows that a guard would have logged that only observes, the policies that took the task) of recorded events."""
    observed = copy(portfolio or from_plain(default()))
    observed.rules = [copy(rule) for rule in observed.rules]
    for rule in observed.rules:
        rule.mode = "observe"
    engine = Engine(observed)
    rows: list[Mapping[str, Any]] = []
    for event in stream:
        if isinstance(event, (Before, Stop)):
            rows += engine.consider(event, str(event.step)).rows
        engine.see(event)
    return rows, {policy.id for _, run, policy in engine.slots if policy.id in run.eligible_policies}


def counted(rows: Rows) -> tuple[tuple[str, ...], tuple[str, ...], Counter[str]]:
    """(eligible, state, fired) of a log's rows. The arms that act on every task at every stop watch no state."""
    eligible: set[str] = set()
    state: set[str] = set()
    fired: Counter[str] = Counter()
    for row in rows:
        policy = str(row["policy"])
        if row.get("fired"):
            fired[policy] += 1
        if policy in ARMS:
            continue
        scoped = row.get("eligible") is not None
        if scoped:
            eligible.add(policy)
        if row.get("holds") is True and not row.get("released") and (scoped or row.get("fires")):
            state.add(policy)
    return tuple(sorted(eligible)), tuple(sorted(state)), fired


def marked() -> list[Misstep]:
    """The missteps of the catalogue that define a behaviour marker."""
    base = Misstep.behaved
    return [one for one in missteps() if one.status != "retired" and one.scoped and type(one).behaved is not base]


def behaviour(trajectories: Sequence[Trajectory]) -> dict[str, bool | None]:
    """Misstep -> whether its marker holds in the attempt, for those that took the task for their own.

    Shown in one of the agent's trajectories is shown. Not shown in its own is unknown where it had sub-agents: the
    behaviour may have been theirs.
    """
    chosen = marked()
    found: dict[str, list[bool | None]] = {}
    sub_agents = False
    for one in trajectories:
        if one.parent:
            sub_agents = True
            continue
        fold = Fold(chosen)
        for event in events(one):
            fold.push(event)
        for name, shown in fold.finish().behaved.items():
            found.setdefault(name, []).append(shown)
    return {name: _joined(shown, sub_agents) for name, shown in sorted(found.items())}


def _joined(shown: list[bool | None], sub_agents: bool) -> bool | None:
    if True in shown:
        return True
    return None if sub_agents or None in shown else False
