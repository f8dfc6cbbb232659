"""A file or folder to be read: its bytes, its JSON, and which reader it belongs to."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from ..model import Trajectory

MAX_LINE = 64 << 20
"""Longest line, in bytes, that is parsed: a longer one is skipped and counted."""
MAX_DOCUMENT = 128 << 20
"""Largest file, in bytes, that is parsed as one JSON value."""
HEAD = 1 << 16
"""Bytes that are looked at to tell what a file is."""
_SKIP_DIRS = {".git", "node_modules", "__pycache__", ".venv"}
_BLANK = b" \t\r\n\0"
_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_decode = json.JSONDecoder().raw_decode


class Unreadable(Exception):
    """The unit is no trajectory of a known format, or cannot be opened; the message says why in one line."""


class Source:
    """One unit to read: a file, or a folder of a folder format."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.skipped: Counter[str] = Counter()
        """What could not be used, by reason. Filled while `lines`, `records` or `document` are read."""
        self.cut = False
        """The last line that was read is no whole JSON value: the writer died, or the file was cut there."""

    @cached_property
    def data(self) -> bytes:
        """The file's bytes. Raises Unreadable."""
        return self._read()

    @cached_property
    def edges(self) -> bytes:
        """The first 64 KiB and the last 4 KiB of the file, for telling its format without reading it whole."""
        try:
            with self._open() as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                head = file.read(HEAD)
                file.seek(max(len(head), size - 4096))
                return head + file.read(4096)
        except OSError as error:
            raise Unreadable(f"{self.path}: {error.strerror or error}") from error

    @cached_property
    def head(self) -> list[dict[str, Any]]:
        """The first JSON objects (up to 8) of a JSONL file, for telling its format; [] for any other file."""
        found: list[dict[str, Any]] = []
        if self._is_lines:
            for _, line in self._raw_lines(64):
                found += self._objects(line, None)
                if len(found) >= 8:
                    break
        return found

    @cached_property
    def document(self) -> Any:
        """The file as one JSON value, or None where it is not one (a JSONL file has `records` instead)."""
        return None if self._is_lines else self._whole

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The JSON objects of a JSONL file, in order; several on one line are several records. Bad lines are counted."""
        return [r for _, r in self.numbered]

    @cached_property
    def numbered(self) -> list[tuple[int, dict[str, Any]]]:
        """(line number from 1, record)."""
        return list(self.stream())

    def stream(self, skip: Callable[[bytes], bool] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line number from 1, record) of a JSONL file, without holding it in memory.

        skip tells by its bytes that a line need not be parsed; it is not asked where two objects share a line.
        """
        if not self._is_lines:
            return
        self.skipped.clear()
        for number, line in self._raw_lines():
            self.cut = line is None
            if line is None:
                self.skipped["line too long"] += 1
                continue
            if skip is not None and skip(line) and b"}{" not in line:
                continue
            for record in self._objects(line, self.skipped):
                yield number, record

    def _open(self) -> Any:
        # A pipe or a device must never be opened: it could block for ever.
        try:
            mode = self.path.stat().st_mode
            if not stat.S_ISREG(mode):
                raise Unreadable(f"{self.path}: {_NOT_FILES.get(stat.S_IFMT(mode), 'no regular file')}, not a file")
            return self.path.open("rb")
        except (OSError, ValueError) as error:
            raise Unreadable(f"{self.path}: {getattr(error, 'strerror', None) or error}") from error

    def _read(self) -> bytes:
        try:
            with self._open() as file:
                return file.read()
        except OSError as error:
            raise Unreadable(f"{self.path}: {error.strerror or error}") from error

    def _raw_lines(self, limit: int | None = None) -> Iterator[tuple[int, bytes | None]]:
        """(number, line) of lines that are not blank; None in place of a line that is longer than MAX_LINE."""
        number = 0
        try:
            with self._open() as file:
                while limit is None or number < limit:
                    line = file.readline(MAX_LINE + 1)
                    if not line:
                        return
                    number += 1
                    if len(line) > MAX_LINE:
                        rest = line
                        while rest and not rest.endswith(b"\n"):
                            rest = file.readline(1 << 20)
                        yield number, None
                        continue
                    if number == 1 and line.startswith(_BOM):
                        line = line[3:]
                    line = line.strip(_BLANK)
                    if line:
                        yield number, line
        except OSError as error:
            raise Unreadable(f"{self.path}: {error.strerror or error}") from error

    @cached_property
    def _head_bytes(self) -> bytes:
        head = self.edges[:HEAD]
        return (head[3:] if head.startswith(_BOM) else head).lstrip(_BLANK)

    @cached_property
    def _whole(self) -> Any:
        if self._head_bytes[:1] not in (b"{", b"["):
            return None
        try:
            if self.path.stat().st_size > MAX_DOCUMENT:
                self.skipped["document too large"] += 1
                return None
            data = self.data.strip(_BLANK)
            value = json.loads(data.decode("utf-8-sig", "replace"))
            return _mended(value) if _SURROGATE.search(data) else value
        except (ValueError, RecursionError, OSError):
            return None

    @cached_property
    def _is_lines(self) -> bool:
        """Whether the file is a record a line. A file of one line is both; it counts as a record where it has a type."""
        head = self._head_bytes
        if head[:1] == b"[":
            return False
        if head[:1] != b"{":
            # Output of a program that printed something else first; a binary file has no such line.
            return b"\0" not in head and b'\n{"' in head
        lines = self._raw_lines(64)
        _, first = next(lines, (0, None))
        if first is None:
            return True
        objects = list(self._objects(first, None))
        if len(objects) > 1:
            return True
        if next(lines, None) is not None:
            return bool(objects) or self._whole is None
        return not objects or "type" in objects[0]

    def _objects(self, line: bytes | None, skipped: Counter[str] | None) -> list[dict[str, Any]]:
        if line is None:
            return []
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = line.decode("utf-8", "replace")
            if skipped is not None:
                skipped["invalid UTF-8 replaced"] += 1
        found: list[dict[str, Any]] = []
        at, end = 0, len(text)
        while at < end:
            try:
                value, at = _decode(text, at)
            except (ValueError, RecursionError) as error:
                if skipped is not None:
                    self.cut = True
                    skipped["nested too deep" if isinstance(error, RecursionError) else "not JSON"] += 1
                return found
            if isinstance(value, dict):
                found.append(_mended(value) if _SURROGATE.search(line) else value)
            elif skipped is not None:
                skipped["not an object"] += 1
            while at < end and text[at] in " \t\r\0":
                at += 1
        return found


def _mended(value: Any) -> Any:
    """The value with lone surrogates replaced, so that every text in it can be written out."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(v) for v in value]
    if isinstance(value, dict):
        return {_mended(k): _mended(v) for k, v in value.items()}
    return value


@cache
def readers() -> tuple[ModuleType, ...]:
    """All reader modules, by name."""
    import misstep.trajectory.readers as package

    found = []
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        if hasattr(loaded, "FORMAT"):
            found.append(loaded)
    return tuple(found)


def reader_of(source: Source) -> ModuleType | None:
    """The reader whose format this is, None where it is none that is known. Raises Unreadable where it cannot be opened."""
    if source.path.is_dir():
        try:
            names = frozenset(os.listdir(source.path))
        except OSError as error:
            raise Unreadable(f"{source.path}: {error.strerror or error}") from error
        return _folder_reader(source.path, names)
    if not source._head_bytes:
        return None
    for module in readers():
        if hasattr(module, "matches") and module.matches(source):
            return module
    return None


def _folder_reader(path: Path, names: frozenset[str]) -> ModuleType | None:
    for module in readers():
        if hasattr(module, "matches_folder") and module.matches_folder(path, names):
            return module
    return None


def read(path: str | os.PathLike[str] | Source) -> Iterator[Trajectory]:
    """The trajectories of one unit. Raises Unreadable where it is no trajectory or cannot be opened."""
    source = path if isinstance(path, Source) else Source(path)
    module = reader_of(source)
    if module is None:
        raise Unreadable(f"{source.path}: {_why_not(source)}")
    found = 0
    for trajectory in module.read(source):
        found += 1
        trajectory.path = trajectory.path or str(source.path)
        yield trajectory
    if not found:
        reason = ", ".join(source.skipped) or "no conversation in it"
        raise Unreadable(f"{source.path}: {module.FORMAT}: {reason}")


def _why_not(source: Source) -> str:
    if source.path.is_dir():
        return "no known trajectory folder"
    if not source._head_bytes:
        return "empty"
    if source._is_lines or source.document is not None:
        if source._is_lines and not source.head:
            return "no known trajectory format (no JSON object in its first lines)"
        return "JSON, but no known trajectory format"
    if source.skipped:
        return ", ".join(source.skipped)
    return "no known trajectory format"


def units(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """The files and folders to read below the given paths, in sorted order, each once; links to folders are not followed."""
    seen: set[tuple[int, int]] = set()
    for root in paths:
        yield from _units(Path(root), seen)


def _units(path: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        info = path.stat()
    except (OSError, ValueError):
        yield path
        return
    if (info.st_dev, info.st_ino) in seen:
        return
    seen.add((info.st_dev, info.st_ino))
    if not stat.S_ISDIR(info.st_mode):
        yield path
        return
    try:
        names = sorted(os.listdir(path))
    except OSError:
        yield path
        return
    if _folder_reader(path, frozenset(names)) is not None:
        yield path
        return
    for name in names:
        child = path / name
        if name in _SKIP_DIRS or (child.is_symlink() and child.is_dir()):
            continue
        yield from _units(child, seen)
