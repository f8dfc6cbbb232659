"""What OpenCode keeps itself: a SQLite database (1.2 and later), before that a folder of JSON files.

Both hold what an export holds, cut into rows or files: a session, its messages, the parts of each message. The ids are
those of the rows and of the file names: OpenCode moved files about without changing what is in them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._fields import mapping, number, string
from .source import Unreadable, _mended

if TYPE_CHECKING:
    import sqlite3

MAX_FILE = 64 << 20
"""Largest file of a storage folder, in bytes, that is read."""
_MAGIC = b"SQLite format 3\0"
_BESIDE = ("-wal", "-journal")
"""Files that hold what is committed but not in the database's own file, or what must be taken back from it."""
_COLUMNS = {"session": {"id", "directory"}, "message": {"id", "session_id", "data"}}
_COLUMNS["part"] = _COLUMNS["message"] | {"message_id"}


class Session:
    """One session: its head, and its messages as an export has them ({info, parts})."""

    def __init__(self, info: dict[str, Any], path: str = "") -> None:
        self.info = info
        self.path = path
        self.messages: list[dict[str, Any]] = []
        self.skipped: Counter[str] = Counter()

    def take(self, what: str, data: str | bytes | None, **known: str) -> dict[str, Any] | None:
        """The object that a row or file holds, with what its place says of it; None, counted, where it holds none."""
        value = None if data is None else json_of(data)
        if isinstance(value, dict):
            return {**value, **known}
        self.skipped[f"{what}: no JSON object"] += 1
        return None


def json_of(data: str | bytes) -> Any:
    """The value of a JSON text with lone surrogates replaced; None where it is none."""
    try:
        value = json.loads(data.decode("utf-8-sig", "replace") if isinstance(data, bytes) else data)
    except (ValueError, RecursionError):
        return None
    escaped = b"\\u" if isinstance(data, bytes) else "\\u"
    return _mended(value) if escaped in data else value  # type: ignore[operator]


# ---------------------------------------------------------------- the database


def is_database(path: Path, head: bytes) -> bool:
    """Whether the file, which starts with head, is a SQLite database with OpenCode's tables."""
    if not head.startswith(_MAGIC):
        return False
    import sqlite3

    try:
        with closing(_untouched(path)) as base:
            if base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return _has_tables(base)
        # Nothing was moved into the file yet: all there is stands beside it.
        if not _beside(path):
            return False
        with opened(path) as base:
            return _has_tables(base)
    except (sqlite3.Error, OSError, Unreadable):
        return False


def _has_tables(base: sqlite3.Connection) -> bool:
    return all(
        wanted <= {row[1] for row in base.execute(f"PRAGMA table_info({table})")} for table, wanted in _COLUMNS.items()
    )


def _beside(path: Path) -> list[str]:
    """The ends of the names of those files beside the database without which it is not whole."""
    found = []
    for end in _BESIDE:
        try:
            if os.stat(f"{path}{end}").st_size:  # noqa: PTH116
                found.append(end)
        except OSError:
            continue
    return found


def _untouched(path: Path) -> sqlite3.Connection:
    """A connection that takes no lock and makes no file; it sees nothing of what stands beside the file."""
    import sqlite3

    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database as it stands, without a lock on it or a change to it or to the folder it is in.

    While the agent runs, and often long after, the newest sessions are in the log beside the file only. SQLite reads
    that log under locks and writes to a third file, so it is a copy that is read then. Raises Unreadable.
    """
    import sqlite3

    path = Path(os.path.realpath(path))
    if not _beside(path):
        with closing(_untouched(path)) as base:
            yield base
        return
    with tempfile.TemporaryDirectory(prefix="misstep-") as folder:
        copy = Path(folder) / "copy.db"
        _copy(path, copy)
        with closing(sqlite3.connect(copy)) as base:
            yield base


def _copy(path: Path, copy: Path) -> None:
    for _ in range(4):
        for end in _BESIDE:
            Path(f"{copy}{end}").unlink(missing_ok=True)
        try:
            before = _state(path)
            for end in ("", *_beside(path)):
                shutil.copyfile(f"{path}{end}", f"{copy}{end}")
            # A log only grows, and its torn end does not count, until it is moved into the file and begun anew.
            if _state(path) == before:
                return
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Unreadable(f"{path}: cannot be copied for reading: {error.strerror or error}") from error
    raise Unreadable(f"{path}: it is being written to: try again")


def _state(path: Path) -> tuple[object, ...]:
    info = path.stat()
    found: list[object] = [info.st_size, info.st_mtime_ns]
    for end in _beside(path):
        with Path(f"{path}{end}").open("rb") as file:
            found += [end, file.read(32)]
    return tuple(found)


def of_database(path: Path) -> Iterator[Session]:
    """The sessions of a database, by id. One that is damaged costs what it damaged; Unreadable tells of it in the end."""
    import sqlite3

    broken: list[str] = []
    try:
        with opened(path) as base:
            base.text_factory = lambda data: data.decode("utf-8", "replace")
            known = {row[1] for row in base.execute("PRAGMA table_info(session)")}
            names = {"id": "id", "directory": "directory", "version": "version", "parentID": "parent_id"}
            names = {name: column for name, column in names.items() if column in known}
            for row in base.execute(f"SELECT {', '.join(names.values())} FROM session ORDER BY id"):
                session = Session({name: string(value) for name, value in zip(names, row, strict=True)})
                try:
                    _fill(session, base)
                except sqlite3.Error as error:
                    broken.append(f"{error}")
                    continue
                yield session
    except sqlite3.Error as error:
        raise Unreadable(f"{path}: {error}") from error
    if broken:
        raise Unreadable(f"{path}: sessions that cannot be read: {len(broken)} ({broken[0]})")


def _fill(session: Session, base: sqlite3.Connection) -> None:
    identity = session.info["id"]
    parts: dict[str, list[dict[str, Any]]] = {}
    for key, owner, data in base.execute(
        "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id", (identity,)
    ):
        part = session.take("part", data, id=string(key))
        if part is not None:
            parts.setdefault(owner, []).append(part)
    heads = []
    for key, data in base.execute("SELECT id, data FROM message WHERE session_id = ? ORDER BY id", (identity,)):
        head = session.take("message", data, id=string(key))
        if head is not None:
            heads.append(head)
    _order(session, heads, parts)


def _order(session: Session, heads: list[dict[str, Any]], parts: dict[str, list[dict[str, Any]]]) -> None:
    """Messages by time, then by id, which grows with time too."""
    heads.sort(key=lambda head: (number(mapping(head.get("time")).get("created")) or 0.0, head["id"]))
    session.messages = [{"info": head, "parts": parts.pop(head["id"], [])} for head in heads]
    lost = sum(map(len, parts.values()))
    if lost:
        session.skipped["part of no message"] += lost


# ---------------------------------------------------------------- the folder


def is_folder(folder: Path, names: frozenset[str]) -> bool:
    """Whether the folder is a storage folder: sessions by project, and messages by session."""
    if not {"session", "message"} <= names:
        return False
    return any(is_session(_load(path)) for path in islice(_sessions(folder), 3))


def is_session(value: Any) -> bool:
    """Whether the value is a session's head."""
    head = mapping(value)
    return (
        isinstance(head.get("id"), str)
        and isinstance(head.get("time"), dict)
        and ("projectID" in head or "directory" in head)
        and "messages" not in head
        and "role" not in head
    )


def storage_of(path: Path) -> Path | None:
    """The storage folder to which a session's file belongs, None where it stands in none."""
    try:
        folder = path.resolve().parents[2]
        return folder if path.resolve().parents[1].name == "session" and (folder / "message").is_dir() else None
    except (IndexError, OSError):
        return None


def of_folder(folder: Path, only: Path | None = None) -> Iterator[Session]:
    """The sessions of a storage folder, or the one whose file is named, in the order of their names."""
    for path in _sessions(folder) if only is None else [only]:
        head = mapping(_load(path))
        session = Session({**head, "id": path.stem}, str(path))
        if not head:
            session.skipped["session: no JSON object"] += 1
        heads: list[dict[str, Any]] = []
        parts: dict[str, list[dict[str, Any]]] = {}
        for message in _files(folder / "message" / path.stem):
            info = session.take("message", _bytes(message), id=message.stem)
            if info is not None:
                heads.append(info)
            for file in _files(folder / "part" / message.stem):
                part = session.take("part", _bytes(file), id=file.stem)
                if part is not None:
                    parts.setdefault(message.stem, []).append(part)
        _order(session, heads, parts)
        yield session


def _sessions(folder: Path) -> Iterator[Path]:
    try:
        projects = sorted(os.listdir(folder / "session"))
    except OSError:
        return
    for project in projects:
        yield from _files(folder / "session" / project)


def _files(folder: Path) -> list[Path]:
    """The JSON files of a folder by name; a name that starts with a dot is a file that is still being written."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.endswith(".json") and not name.startswith(".")]


def _bytes(path: Path) -> bytes | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _load(path: Path) -> Any:
    data = _bytes(path)
    return None if data is None else json_of(data)
