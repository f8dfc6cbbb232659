"""One agent's session on disk: `log.jsonl`, only ever appended to, and `state.json`, which is derived from it.

Hooks of one session run at the same time and may be killed at any byte. So every use holds a lock on the log; a line that
was cut off is ended by the next writer and skipped by every reader; and the state says how much of the log it covers, so
that what it lacks is folded in from the log. A reader that finds no usable state starts from the log's beginning.
"""

from __future__ import annotations

import fcntl
import os

from ._json import dumps, loads
from ._paths import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

VERSION = 1
"""Of the log's records and of the state."""


class Session:
    """The log and the state of one session, locked while it is open. Raises OSError where the disk does not do."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.size = 0
        """Bytes of the log."""
        self._fd = -1

    def __enter__(self) -> Session:
        path = self.folder + "/log.jsonl"
        for _ in range(8):
            self._fd = self._open(path)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            except BaseException:  # broken off while it waited
                os.close(self._fd)
                raise
            here = os.fstat(self._fd)
            try:
                there = os.stat(path)
            except OSError:
                there = None
            if there is not None and (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev):
                self.size = here.st_size
                return self
            os.close(self._fd)  # the folder was deleted while we waited
        raise OSError(f"{path} does not stay where it is")

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._fd = -1

    def _open(self, path: str) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            make_folder(self.folder)
            return os.open(path, flags, 0o600)

    def append(self, *records: dict[str, Any]) -> None:
        """Add records, each one line. Raises OSError with what was not written left out of the log."""
        data = "".join(dumps(r) + "\n" for r in records).encode()
        if self.size and os.pread(self._fd, 1, self.size - 1) != b"\n":
            data = b"\n" + data
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:] if written else data)
        except OSError:
            if written:
                try:
                    os.ftruncate(self._fd, self.size)
                except OSError:
                    pass
            raise
        self.size += len(data)

    def records(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """The whole records from a byte offset on; damaged lines are left out."""
        return records_of(os.pread, self._fd, start, self.size)

    def load(self) -> dict[str, Any] | None:
        """The state, None where there is none that belongs to this log."""
        state = read_json(self.folder + "/state.json")
        if not isinstance(state, dict) or state.get("v") != VERSION:
            return None
        offset = state.get("offset")
        return state if isinstance(offset, int) and 0 <= offset <= self.size else None

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state by one that covers the log as it is now. Failure costs time later, nothing else."""
        state["v"], state["offset"] = VERSION, self.size
        path = self.folder + "/state.json"
        try:
            fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                data = dumps(state).encode()
                done = os.write(fd, data) == len(data)
            finally:
                os.close(fd)
            if done:
                os.rename(path + ".new", path)
            else:
                os.unlink(path + ".new")
        except OSError:
            pass


def records_of(read: Any, fd: int, start: int, end: int) -> Iterator[dict[str, Any]]:
    """JSON objects, one a line, of the bytes from start to end."""
    rest = b""
    while start < end:
        block = read(fd, min(1 << 20, end - start), start)
        if not block:
            break
        start += len(block)
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            record = _record(line)
            if record is not None:
                yield record
    record = _record(rest)
    if record is not None:
        yield record


def _record(line: bytes) -> dict[str, Any] | None:
    if line[:1] != b"{" or line[-1:] != b"}":
        return None
    try:
        value = loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_json(path: str) -> Any:
    """The value in a small JSON file, None where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        size = os.fstat(fd).st_size
        data = os.read(fd, size + 1)
        return loads(data.decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(fd)


def write_json(path: str, value: Any) -> None:
    """Replace a small JSON file of the guard's, or make it. Raises OSError."""
    make_folder(os.path.dirname(path))
    made = f"{path}.{os.getpid()}"
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            data = dumps(value).encode()
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)
        os.rename(made, path)
    except BaseException:
        os.unlink(made)
        raise
