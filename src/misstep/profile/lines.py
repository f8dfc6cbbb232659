"""A file of results that only grows: a header, then one JSON record a line. Interrupted work goes on where it stopped.

A line is written and flushed whole. A half-written last line (the process was killed) is dropped with a note. One process
writes at a time. When the work is done the lines are put in order, so that a run that was interrupted leaves the very
bytes of one that was not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

Record = dict[str, Any]


class LinesError(ValueError):
    """A file that cannot be gone on with: one line that names it."""


class Lines:
    """An open file of results. Use as a context manager."""

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        key: Callable[[Record], Any],
        final: Callable[[Record], bool] = lambda record: True,
    ) -> None:
        """Opens or makes it.

        header: must equal that of the file; its first entry is `schema`. key: what a record is about; the last line of a key
        counts. final: whether a record stands; those that do not are left out on opening, and their work is done again.

        Raises:
            LinesError: it is another kind of file, was made in another way, or another process writes it.
        """
        self.path, self.header, self._key = path, dict(header), key
        self.notes: list[str] = []
        """What was dropped on opening."""
        self.records: dict[Any, Record] = {}
        """By key, all that stands."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path)
        try:
            if path.exists() and path.stat().st_size:
                found, dropped = read(path)
                self._same(found[0])
                for record in found[1:]:
                    self.records[key(record)] = record
                if dropped:
                    self.notes.append(f"{path}: the last line was half written, and is dropped")
                self.records = {k: r for k, r in self.records.items() if final(r)}
                if dropped or len(self.records) != len(found) - 1:
                    self._rewrite(self.records.values())
            else:
                self._rewrite(())
            self._file: IO[str] = path.open("a", encoding="utf-8", newline="\n")
        except BaseException:
            self._lock.close()
            raise

    def _same(self, found: Record) -> None:
        wanted = json.loads(dump(self.header))
        if found == wanted:
            return
        for name in [*wanted, *found]:
            if found.get(name) != wanted.get(name):
                was, now = (dump(one.get(name)) for one in (found, wanted))
                raise LinesError(f"{self.path}: was made with {name} {was[:200]}, not {now[:200]}: name another folder")

    def __contains__(self, key: object) -> bool:
        return key in self.records

    def add(self, record: Record) -> None:
        """One more record, on disk (of the system) when this returns."""
        self.records[self._key(record)] = record
        self._file.write(dump(record) + "\n")
        self._file.flush()

    def finish(self) -> None:
        """The work is done: the lines are put in the order of their keys."""
        self._file.close()
        self._rewrite(record for _, record in sorted(self.records.items(), key=lambda item: item[0]))
        self._file = self.path.open("a", encoding="utf-8", newline="\n")

    def _rewrite(self, records: Any) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        with suppress(FileNotFoundError):
            fresh.unlink()
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="\n",
                       encoding="utf-8") as file:  # fmt: skip
            file.write(dump(self.header) + "\n")
            file.writelines(dump(record) + "\n" for record in records)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: Path) -> tuple[list[Record], bool]:
    """The header and the records of a file, and whether a half-written last line was dropped. Raises LinesError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LinesError(f"{path}: {error.strerror}") from None
    *whole, last = data.split(b"\n")
    found = list(_parsed(path, whole))
    if not found or not isinstance(found[0].get("schema"), str):
        raise LinesError(f'{path}:1: the first line is a header with "schema"')
    return found, bool(last)


def _parsed(path: Path, lines: list[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise LinesError(f"{path}:{number}: a line is a JSON object")
        yield record


def dump(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace").decode()


def _locked(path: Path) -> IO[bytes]:
    file = os.fdopen(os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # Windows
        pass
    except OSError:
        file.close()
        raise LinesError(f"{path}: another process writes it") from None
    return file
