"""A panel's records on disk: what has run, what was decided, and what an earlier process left unfinished.

`attempts.jsonl` is the truth: an attempt is done when its record is in it. A record is appended in one write and synced
before anything else happens. On a restart a trial's folder without a record is

* recorded, where its result.json is complete: it ended, and only its record is missing;
* recorded as an invalid candidate, where the agent had begun: it was killed at work, which is a fault of the machine's, not
  the agent's, and a second run of the same candidate would be a choice between two;
* dropped and run again under the same number, where the agent had not begun, or where a person ended the run (Ctrl-C).

A dropped folder is kept beside the others (`trials/NAME.dropped-1`), and lineage.jsonl has a line about it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from misstep.experiment.attempts import Attempt, header, line, read_attempts
from misstep.experiment.runs.replacement import Decision

ATTEMPTS, LINEAGE, TRIALS, LOCK = "attempts.jsonl", "lineage.jsonl", "trials", "run.lock"
SCHEMA, VERSION = "misstep.lineage", 1
BEGUN = "begun"
"""A file in a trial's folder: the agent was started."""
LEFT = ("image-*", "portfolio-*.json", "portfolio.json")
"""What the guard derives for itself: nothing depends on it, and a trial's archive does without."""


class ArchiveError(ValueError):
    """Records that cannot be used, or that another process is writing: one line with the file."""


def now() -> str:
    """ISO 8601, UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Archive:
    """The records of a panel's folder, open for writing by one process at a time.

    Raises:
        ArchiveError: another run has it.
        AttemptsError: attempts.jsonl cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trials = folder / TRIALS
        self.warnings: list[str] = []
        self._lock = (folder / LOCK).open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            raise ArchiveError(
                f"{folder / LOCK}: another run is at work here (process {self._lock.read().strip()})"
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        self.trials.mkdir(exist_ok=True)
        self._attempts = self._open(ATTEMPTS, header())
        self._lineage = self._open(LINEAGE, json.dumps({"schema": SCHEMA, "version": VERSION}))
        self.attempts = read_attempts(folder / ATTEMPTS)
        self.lineage = list(read_lineage(folder / LINEAGE))

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._attempts, self._lineage, self._lock):
            file.close()

    def _open(self, name: str, head: str) -> IO[str]:
        """A file of records to append to: with a head, and without a last line that was cut short."""
        path = self.folder / name
        if path.exists():
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                self.warnings.append(f"{path}: a last line that was cut short is left out")
                os.truncate(path, whole)
        file = path.open("a", encoding="utf-8")
        if not path.stat().st_size:
            _append(file, head)
        return file

    def record(self, attempt: Attempt) -> None:
        """Add an attempt. Raises OSError, with nothing added."""
        _append(self._attempts, line(attempt))
        self.attempts.append(attempt)

    def decide(self, decision: Decision) -> None:
        """Add a decision."""
        _append(self._lineage, json.dumps(decision.plain(), ensure_ascii=False, separators=(",", ":")))
        self.lineage.append(decision.plain())

    def undecided(self) -> list[Attempt]:
        """Attempts of which lineage.jsonl says nothing: the process was killed between the two."""
        known = {(tuple(one["slot"]), one["candidate"]) for one in self.lineage if one.get("decision") != "dropped"}
        return [attempt for attempt in self.attempts if (attempt.slot, attempt.candidate) not in known]

    # -- trials' folders ---------------------------------------------------------------------------------------------

    def drop(self, trial: str) -> str:
        """Put a trial's folder aside, so that it can run again; the name it has then, relative to the panel's folder."""
        number = 1
        while (to := self.trials / f"{trial}.dropped-{number}").exists():
            number += 1
        (self.trials / trial).rename(to)
        return f"{TRIALS}/{to.name}"


def _append(file: IO[str], text: str) -> None:
    file.write(text + "\n")
    file.flush()
    os.fsync(file.fileno())


def read_lineage(path: Path) -> Iterator[dict[str, Any]]:
    """The decisions of a file, without its head. Raises ArchiveError, OSError."""
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1], 1):
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArchiveError(f"{path}:{number}: not JSON: {error}") from None
        if number == 1:
            if not isinstance(given, dict) or (given.get("schema"), given.get("version")) != (SCHEMA, VERSION):
                raise ArchiveError(f"{path}:1: expected schema {SCHEMA!r}, version {VERSION}")
            continue
        if not isinstance(given, dict) or not isinstance(given.get("slot"), list):
            raise ArchiveError(f"{path}:{number}: expected a decision about a slot")
        yield given


def state_of(trial: Path) -> str:
    """How far a trial's folder is: '' (there is none), 'ended', 'begun' (the agent was at work), 'prepared'."""
    if not trial.is_dir():
        return ""
    try:
        result = json.loads((trial / "result.json").read_text(encoding="utf-8"))
        ended = isinstance(result, dict) and bool(result.get("finished_at")) and not _cancelled(result)
    except (OSError, ValueError, RecursionError):
        ended = False
    return "ended" if ended else BEGUN if (trial / BEGUN).exists() else "prepared"


def _cancelled(result: dict[str, Any]) -> bool:
    """Whether the trial was ended from outside while it ran."""
    return (result.get("exception_info") or {}).get("exception_type") == "CancelledError"


def tidy(trial: Path) -> None:
    """Take away what the guard only derived."""
    for pattern in LEFT:
        for place in ("", "steps/*/"):
            for path in trial.glob(f"{place}agent/misstep/guard/{pattern}"):
                path.unlink(missing_ok=True)
