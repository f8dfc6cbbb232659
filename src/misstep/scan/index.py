"""The derived index: what was found in each unit, so that unchanged files are not read again.

It holds nothing that a scan cannot make anew; delete it at any time. Where it cannot be used (a home that is read-only,
a damaged file, a lock that is not released) a scan works without it, only slower.
"""

# ruff: noqa: PTH100, PTH103, PTH108, PTH111, PTH120
# (pathlib takes as long to load as a tenth of a second scan)
from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import zlib

from .units import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unit (path TEXT PRIMARY KEY, size INT, mtime_ns INT, inode INT, found BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS folder (path TEXT PRIMARY KEY, sign TEXT, whole INT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS session (id TEXT, path TEXT, n INT, length INT);
CREATE INDEX IF NOT EXISTS session_id ON session (id);
CREATE INDEX IF NOT EXISTS session_path ON session (path);
"""
_WRITTEN_AT_ONCE = 32
_PATIENCE = 5.0
"""Seconds to wait for another scan that writes."""


def cache_dir() -> str:
    """The user's cache folder for misstep: MISSTEP_CACHE_DIR, else the platform's."""
    named = os.environ.get("MISSTEP_CACHE_DIR")
    if named:
        return named
    home = os.path.expanduser("~")
    if sys.platform == "darwin" and not os.environ.get("XDG_CACHE_HOME"):
        return f"{home}/Library/Caches/misstep"
    return f"{os.environ.get('XDG_CACHE_HOME') or home + '/.cache'}/misstep"


def code_state() -> str:
    """What tells one version of the code that makes records: another version of any detector or reader makes every entry stale.

    Told by the files' sizes and times: reading them all would take as long as the rest of a second scan.
    """
    import misstep

    root = os.path.dirname(os.path.abspath(misstep.__file__))
    known = [f"{root} {misstep.__version__} {sys.version_info[:2]}"]
    for room in ("shell", "trajectory", "trajectory/readers", "catalogue", "scan"):
        with os.scandir(f"{root}/{room}") as listing:
            for entry in sorted(listing, key=lambda e: e.name):
                if entry.name.endswith(".py"):
                    info = entry.stat()
                    known.append(f"{room}/{entry.name} {info.st_size} {info.st_mtime_ns}")
    return "\n".join(known)


class Index:
    """The index file, opened. Every method is safe to call when it is not usable: nothing is known, nothing is kept."""

    def __init__(self, path: str | os.PathLike[str] | None = None, code: str | None = None) -> None:
        self.problem = ""
        """Why the index is not used, '' where it is."""
        self._db: sqlite3.Connection | None = None
        self._waiting: list[tuple[str, State, bytes, list[tuple[str, int, int]]]] = []
        self._folders: list[tuple[str, str, bool]] = []
        try:
            self.path = os.fspath(path) if path else f"{cache_dir()}/scan.sqlite"
            self._code = code or code_state()
            try:
                self._open()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:  # not a database, or a damaged one: it is derived, so make it anew
                self._discard()
                self._open()
        except (OSError, RuntimeError, sqlite3.Error) as error:
            self._fail(error)

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        db = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        self._db = db
        db.execute("PRAGMA synchronous=OFF")
        row = None
        with contextlib.suppress(sqlite3.OperationalError):
            row = db.execute("SELECT value FROM meta WHERE name='code'").fetchone()
        if row is None or row[0] != self._code:
            db.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA}"
                "DELETE FROM session WHERE path NOT IN (SELECT path FROM unit);"
                "DELETE FROM unit; DELETE FROM folder; DELETE FROM meta; COMMIT;"
            )
            db.execute("INSERT OR REPLACE INTO meta VALUES ('code', ?)", (self._code,))

    def _discard(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}{suffix}")

    def _fail(self, error: Exception) -> None:
        self.problem = str(error)
        self._waiting.clear()
        self._folders.clear()
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            with contextlib.suppress(OSError):
                self._discard()

    def get(self, path: str, state: State | None) -> bytes | None:
        """What was kept for a unit in this state: the JSON of its findings. None where it is not known."""
        if self._db is None or state is None:
            return None
        try:
            row = self._db.execute(
                "SELECT size, mtime_ns, inode, found FROM unit WHERE path=?", (_key(path),)
            ).fetchone()
            if row is None or row[:3] != state:
                return None
            return zlib.decompress(row[3])
        except (sqlite3.Error, zlib.error, TypeError) as error:
            self._fail(error)
            return None

    def put(self, path: str, state: State | None, found: bytes, sessions: list[tuple[str, int, int]]) -> None:
        """Keep the findings of a unit, and the (id, n, length) of its trajectories."""
        if self._db is None or state is None:
            return
        self._waiting.append((_key(path), state, zlib.compress(found, 1), sessions))
        if len(self._waiting) >= _WRITTEN_AT_ONCE:
            self.flush()

    def folder(self, path: str, sign: str) -> bool | None:
        """Whether a folder with this sign is a unit by itself; None where that is not known."""
        if self._db is None:
            return None
        try:
            row = self._db.execute("SELECT sign, whole FROM folder WHERE path=?", (_key(path),)).fetchone()
        except sqlite3.Error as error:
            self._fail(error)
            return None
        return bool(row[1]) if row is not None and row[0] == sign else None

    def keep_folder(self, path: str, sign: str, whole: bool) -> None:
        """Keep whether a folder is a unit by itself."""
        if self._db is not None:
            self._folders.append((_key(path), sign, whole))

    def flush(self) -> None:
        """Write what is waiting, as one transaction."""
        if self._db is None or not (self._waiting or self._folders):
            return
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            for path, state, found, sessions in self._waiting:
                row = (path, *state, found)
                db.execute("INSERT OR REPLACE INTO unit VALUES (?,?,?,?,?)", row)
                db.execute("DELETE FROM session WHERE path=?", (path,))
                db.executemany(
                    "INSERT INTO session VALUES (?,?,?,?)", [(name, path, n, length) for name, n, length in sessions]
                )
            db.executemany("INSERT OR REPLACE INTO folder VALUES (?,?,?)", self._folders)
            db.execute("COMMIT")
            self._waiting.clear()
            self._folders.clear()
        except sqlite3.Error as error:
            self._fail(error)

    def sessions(self, prefix: str) -> list[tuple[str, str, int, int]]:
        """(id, absolute path, n, length) of the trajectories whose id starts so, the longest first."""
        if self._db is None or not prefix:
            return []
        try:
            rows = self._db.execute(
                "SELECT id, path, n, length FROM session WHERE substr(id, 1, ?) = ? ORDER BY length DESC, path, n",
                (len(prefix), prefix),
            ).fetchall()
        except sqlite3.Error as error:
            self._fail(error)
            return []
        return [tuple(row) for row in rows]

    def info(self) -> dict[str, Any] | None:
        """What was kept with `keep_info`."""
        if self._db is None:
            return None
        try:
            row = self._db.execute("SELECT value FROM meta WHERE name='info'").fetchone()
            return json.loads(row[0]) if row else None
        except (sqlite3.Error, ValueError) as error:
            self._fail(error)
            return None

    def keep_info(self, info: dict[str, Any]) -> None:
        """Keep something small that depends on nothing but the code."""
        if self._db is None:
            return
        try:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('info', ?)", (json.dumps(info),))
        except sqlite3.Error as error:
            self._fail(error)

    def close(self) -> None:
        """Write what is waiting and close."""
        self.flush()
        if self._db is not None:
            self._db.close()
            self._db = None

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _key(path: str) -> str:
    return os.path.abspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
