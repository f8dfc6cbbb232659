"""Reading what hooks have logged: sessions, what fired in them, and what the agent did next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._paths import faults_file, guard_home
from .session import records_of


@dataclass
class Firing:
    """An event at which at least one policy would intervene."""

    record: dict[str, Any]
    """The decision's record."""
    event: dict[str, Any]
    """The call or stop that it is about."""
    next: list[dict[str, Any]] = field(default_factory=list)
    """The calls, results and stops after it, at most three."""

    @property
    def policies(self) -> list[dict[str, Any]]:
        """The rows of the policies that would intervene."""
        return [row for row in self.record.get("rows", ()) if row.get("fires")]


@dataclass
class Log:
    """One agent's log."""

    path: Path
    host: str = ""
    session: str = ""
    agent: str = ""
    started: float | None = None
    ended: float | None = None
    counts: dict[str, int] = field(default_factory=dict)
    eligible: dict[str, str] = field(default_factory=dict)
    """Policy -> the words of the prompt that put the task in its scope."""
    firings: list[Firing] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    refused: str = ""
    """Why no policy acts in it."""
    portfolio: str = ""
    """The portfolio file or lock whose policies are asked, '' for the catalogue's own."""
    left: str = ""
    """Why a repository's own policies are left alone."""
    past: int = 0
    """Events from before the guard was there."""
    unseen: str = ""
    """Why events from before the guard was there are not known."""

    @property
    def notes(self) -> list[str]:
        """What kept policies from acting, and whose policies they are, for people."""
        found = [f"refused, no policy acts: {self.refused}"] if self.refused else []
        began = "began before the guard"
        found += [f"{began}: {self.past} earlier events are from its transcript"] if self.past else []
        found += [f"{began}, and what was before is not known: {self.unseen}"] if self.unseen else []
        found += [f"policies of {self.portfolio}"] if self.portfolio else []
        found += [f"a repository's policies are left alone: {self.left}"] if self.left else []
        return found + [f"put aside for this session: {f.get('misstep')}: {f.get('error')}" for f in self.faults]


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The whole records of a log file."""
    fd = os.open(path, os.O_RDONLY)
    try:
        yield from records_of(os.pread, fd, 0, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def read(path: Path) -> Log:
    """What a log tells. Raises OSError."""
    log = Log(path)
    event: dict[str, Any] = {}
    for line in records(path):
        kind = line.get("e")
        time = line.get("t")
        if isinstance(time, float):
            log.started, log.ended = log.started or time, time
        if kind is None:
            log.host, log.session, log.agent = (
                str(line.get(k) or log.__dict__[k]) for k in ("host", "session", "agent")
            )
            log.portfolio, log.left = str(line.get("portfolio") or ""), str(line.get("left") or "")
            continue
        if line.get("past"):
            log.past += 1
            continue
        if not (log.counts or log.past or log.agent) and kind in ("before", "after", "stop"):
            log.unseen = "its host tells nothing of it"
        log.counts[kind] = log.counts.get(kind, 0) + 1
        if kind in ("before", "stop", "after", "prompt"):
            for firing in log.firings[-3:]:
                same_call = kind == "after" and line.get("id") == firing.event.get("id")
                if len(firing.next) < 3 and not same_call:
                    firing.next.append(line)
        if kind in ("before", "stop"):
            event = line
        elif kind == "decision":
            for row in line.get("rows", ()):
                if row.get("eligible"):
                    log.eligible.setdefault(row["policy"], row["eligible"])
            if any(row.get("fires") for row in line.get("rows", ())):
                log.firings.append(Firing(line, event))
            log.refused = ""
        elif kind == "fault":
            log.faults.append(line)
        elif kind == "unseen":
            log.unseen = str(line.get("error") or "")
        elif kind == "refused":
            log.refused = str(line.get("error") or "")
        elif kind == "portfolio":
            log.portfolio, log.left = str(line.get("path") or ""), str(line.get("left") or "")
    return log


def paths() -> list[Path]:
    """The logs of all sessions, the latest first."""
    root = Path(guard_home()) / "sessions"
    found = [p for p in root.rglob("log.jsonl") if p.is_file()]
    return sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)


def find(session: str) -> list[Path]:
    """The logs of the session whose id begins so, its sub-agents' included."""
    root = Path(guard_home()) / "sessions"
    return [p for p in paths() if p.relative_to(root).parts[1].startswith(session)]


def faults() -> list[dict[str, Any]]:
    """Why hooks gave no answer, outside any session; the latest last."""
    path = Path(faults_file())
    return list(records(path)) if path.is_file() else []
