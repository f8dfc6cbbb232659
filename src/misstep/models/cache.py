"""Every answer that was paid for, by a hash of its request: one SQLite file.

The questions are not kept: they are long, say what is in the transcripts, and are made anew from what they were made of.

An answer and what it cost are written in one transaction before anybody sees the answer, so that a process killed at
any moment pays for no call twice but those that were in flight.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path

from misstep.models.budget import Spent
from misstep.models.errors import ModelError
from misstep.models.request import Answered, Request

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, answer TEXT NOT NULL, time REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, role TEXT NOT NULL, model TEXT NOT NULL, key TEXT NOT NULL,
    outcome TEXT NOT NULL, tokens INTEGER NOT NULL, usd REAL, seconds REAL NOT NULL
);
"""
VERSION = 2


class CacheError(ModelError):
    """A file that is no cache of ours, or cannot be written."""


class Cache:
    """Answers by request. Safe for several processes at once."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it.

        Raises:
            CacheError: it is no cache, or cannot be written.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise CacheError(f"{path}: version {version}; this misstep reads {VERSION}")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version={VERSION}")
        except OSError as error:
            raise CacheError(f"{path}: {error.strerror}") from None
        except sqlite3.Error as error:
            raise CacheError(f"{path}: {error}") from None

    def get(self, key: str) -> Answered | None:
        """The answer to the request of this key. Raises CacheError."""
        try:
            row = self._db.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise CacheError(f"{self.path}: {error}") from None
        return None if row is None else Answered.from_plain(json.loads(row[0]))

    def put(self, role: str, request: Request, key: str, answer: Answered) -> None:
        """Keep an answer and what it cost, both or neither. Raises CacheError."""
        now = time.time()
        kept = json.dumps(answer.plain(), ensure_ascii=False)
        tokens = answer.input_tokens + answer.output_tokens
        try:
            with self._transaction():
                self._db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", (key, request.model, kept, now))
                self._db.execute(
                    "INSERT INTO calls (time, role, model, key, outcome, tokens, usd, seconds) VALUES (?,?,?,?,?,?,?,?)",
                    (now, role, request.model, key, "ok", tokens, answer.usd, answer.seconds),
                )
        except sqlite3.Error as error:
            raise CacheError(f"{self.path}: {error}") from None

    def failed(
        self, role: str, model: str, key: str, outcome: str, tokens: int, usd: float | None, seconds: float
    ) -> None:
        """Keep that a call failed, and what it may have cost. Raises CacheError."""
        try:
            self._db.execute(
                "INSERT INTO calls (time, role, model, key, outcome, tokens, usd, seconds) VALUES (?,?,?,?,?,?,?,?)",
                (time.time(), role, model, key, outcome, tokens, usd, seconds),
            )
        except sqlite3.Error as error:
            raise CacheError(f"{self.path}: {error}") from None

    def spent(self) -> Spent:
        """What all calls so far have cost. Raises CacheError."""
        try:
            row = self._db.execute(
                "SELECT count(*), coalesce(sum(tokens), 0), coalesce(sum(usd), 0.0), coalesce(sum(usd IS NULL), 0) FROM calls"
            ).fetchone()
        except sqlite3.Error as error:
            raise CacheError(f"{self.path}: {error}") from None
        return Spent(*row)

    def close(self) -> None:
        """Nothing may be asked of it afterwards."""
        self._db.close()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._db)


class _Transaction:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")
