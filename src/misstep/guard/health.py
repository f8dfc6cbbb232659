"""What a person must know about the guard beside its mode: what it leaves alone, what it refuses, what went wrong."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from . import choice, trust
from ._paths import home
from .journal import faults
from .session import read_json


@dataclass(frozen=True)
class Note:
    """One thing to know. ok: False where something is wrong, None where it may be meant so."""

    ok: bool | None
    what: str

    def __str__(self) -> str:
        return f"Warning: {self.what}" if self.ok is False else self.what


def notes(cwd: str) -> list[Note]:
    """All that is to be known, for agents that work in a folder."""
    given = choice.settings()
    found = []
    found += [Note(False, odd) for odd in (choice.odd_settings(), choice.odd_mode(given)) if odd]
    said = os.environ.get("MISSTEP_HOME", "")
    if said and not said.startswith("/"):
        found.append(
            Note(False, f"$MISSTEP_HOME is relative ({said}): it is taken below your home folder, as {home()}")
        )
    found += [*_arm(given), *_lock(given), *project(cwd, given), *_faults(), *_logs(given)]
    return found


def _arm(given: dict[str, object]) -> list[Note]:
    arm = choice.arm_of(given)
    return [] if arm == "real" else [Note(None, f"Arm: {arm}")]


def _lock(given: dict[str, object]) -> list[Note]:
    """A scored run's lock, and a lock that is used though it is stale."""
    path = choice.chosen(given)
    locked = read_json(path) if path and not path.endswith(".toml") else None
    if choice.scored(given):
        from .scored import unlocked

        wrong = unlocked(path, True)
        if wrong:
            return [Note(False, f"Scored: every session is refused, no policy acts: {wrong}")]
        return [Note(True, f"Scored: the lock {path} holds")]
    if not isinstance(locked, dict) or "lock" not in locked:
        return []
    from .freeze import verify

    try:
        wrong = verify(locked)
    except (KeyError, TypeError, AttributeError) as error:
        wrong = f"it is not a lock ({type(error).__name__}: {error})"
    if not wrong:
        return [Note(True, f"The lock {path} holds")]
    return [Note(False, f"the lock {path} is stale, and used all the same outside scored runs: {wrong}")]


def project(cwd: str, given: dict[str, object]) -> list[Note]:
    """The policies that come with the repository of a folder: which file, in which state, and what changes that."""
    path = trust.project_portfolio(os.path.abspath(cwd))
    if not path:
        return []
    head = f"Repository's policies: {path}"
    mine = choice.chosen(given)
    if mine:
        return [Note(None, f"{head}: not run: your own choice comes first, {mine} (`misstep guard use` takes it back)")]
    state, why = trust.state_of(path)
    command = trust.command(path)
    if state == "trusted":
        return [Note(True, f"{head}: trusted, and run here (`{command} --revoke` ends that)")]
    if state == "changed":
        return [Note(False, f"{head}: not run: {why} (read it, then `{command}`)")]
    return [Note(None, f"{head}: not trusted, not run (read it, then `{command}`)")]


def _faults() -> list[Note]:
    found = faults()
    if not found:
        return []
    said = " ".join(str(found[-1].get("error")).split())
    since = f"{when(found[-1])}, the first {when(found[0])}" if len(found) > 1 else when(found[-1])
    return [Note(None, f"{len(found)} hook runs gave no answer; the last: {said} ({since})")]


def _logs(given: dict[str, object]) -> list[Note]:
    from .prune import bounds, sessions

    known = sessions()
    days, megabytes = bounds(given)
    kept = [f"for {days:g} days"] * bool(days) + [f"up to {megabytes:g} MB"] * bool(megabytes)
    size = sum(size for _, size, _ in known) / 1e6
    return [Note(True, f"Logs: {len(known)} sessions, {size:.1f} MB; kept {', '.join(kept) or 'without bound'}")]


def told_faults(most: int = 10) -> list[str]:
    """Why hooks gave no answer: how often in all, then each reason once, the latest last."""
    found = faults()
    told: dict[str, list[dict[str, object]]] = {}
    for fault in found:
        said = f"{fault.get('host') or 'a hook'}: {' '.join(str(fault.get('error')).split())}"
        told[said] = [*told.pop(said, []), fault]
    lines = [f"{when(known[-1])}, {len(known)} times: {said}" for said, known in told.items()]
    return [str(note) for note in _faults()] + lines[-most:]


def when(record: dict[str, object]) -> str:
    """The time of a record, for people."""
    at = record.get("t")
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if isinstance(at, (int, float)) else "an unknown time"
