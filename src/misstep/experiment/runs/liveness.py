"""Whether the guard lived in an attempt. An attempt in which it did not is invalid, never a failure (FIRE's runner does the same).

Every arm runs the same hooks, the baseline too (they observe there), so every arm has to show the same:

1. a log of the session, wherever a step of the agent is on record;
2. in the head of every log the arm that was planned and the SHA-256 of the portfolio that was locked, as the hooks read it,
   and in the state that the engine left the key of that portfolio;
3. at least one call that was asked about, wherever the agent's record has a call;
4. no policy that could not be loaded or that raised, no refusal, no hook that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from misstep.experiment.attempts import Attempt, fair
from misstep.experiment.outcomes.classify import guard_logs, trajectories_of
from misstep.guard import journal


@dataclass(frozen=True, slots=True)
class Marker:
    """What has to stand in an attempt's logs."""

    arm: str
    lock: str
    """SHA-256 of the portfolio's lock, as the hooks find it."""
    portfolio: str
    """The key of the portfolio (`Portfolio.key`)."""


def checked(attempt: Attempt, trial: Path, marker: Marker) -> Attempt:
    """The attempt, invalid with its reason where the guard did not live in it. What is no observation stays as it is."""
    if not fair(attempt):
        return attempt
    why = dead(trial, marker, attempt)
    if not why:
        return attempt
    was = {"termination": attempt.termination, "passed": attempt.passed}
    return replace(
        attempt,
        termination="invalid",
        passed=None,
        fault=f"the guard did not live: {why}",
        extra={**attempt.extra, "without_liveness": was},
    )


def dead(trial: Path, marker: Marker, attempt: Attempt) -> str:
    """Why the guard did not live in a trial, '' where it did."""
    homes = [folder / "guard" for folder in guard_logs(trial)]
    for home in homes:
        faults = [str(line.get("error")) for line in _records(home / "faults.jsonl")]
        if faults:
            return f"a hook failed: {faults[0]}"
    logs = [path for home in homes for path in sorted((home / "sessions").glob("**/log.jsonl"))]
    if not logs:
        return "no log of a session" if attempt.steps else ""
    before = 0
    for path in logs:
        why, calls = _log(path, marker)
        if why:
            return why
        before += calls
    if not before and _called(trial):
        return "the agent made calls, and none was asked about"
    return ""


def _log(path: Path, marker: Marker) -> tuple[str, int]:
    """What is wrong with the log of one session, and its calls."""
    head: dict[str, Any] | None = None
    before = 0
    for line in _records(path):
        kind = line.get("e")
        if head is None:
            if kind is not None:
                return "a log without a head", 0
            head = line
        elif kind == "before":
            before += 1
        elif kind == "refused":
            return f"the portfolio was refused: {line.get('error')}", before
        elif kind == "fault":
            return f"a policy failed: {line.get('misstep') or line.get('file')}: {line.get('error')}", before
    if head is None:
        return "an empty log", 0
    for name, wanted in (("arm", marker.arm), ("lock", marker.lock)):
        if head.get(name) != wanted:
            return f"expected {name} {wanted!r} in the log's head, not {head.get(name)!r}", before
    try:
        key = json.loads((path.parent / "state.json").read_text(encoding="utf-8")).get("key")
    except (OSError, ValueError, AttributeError, RecursionError):
        key = None  # killed between two writes: the log has all that counts
    if key is not None and key != marker.portfolio:
        return f"expected the portfolio {marker.portfolio}, not {key}", before
    return "", before


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        yield from journal.records(path)


def _called(trial: Path) -> bool:
    return any(
        step.calls for one in trajectories_of(trial) for step in one.steps if step.source == "agent" and not step.copied
    )
