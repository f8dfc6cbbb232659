"""A file or folder to be read: its bytes, its JSON, and which reader it belongs to."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from ..model import Trajectory

MAX_LINE = 64 << 20
"""Longest line, in bytes, that is parsed: a longer one is skipped and counted."""
_SKIP_DIRS = {".git", "node_modules", "__pycache__", ".venv"}


class Unreadable(Exception):
    """The unit is no trajectory of a known format, or cannot be opened; the message says why in one line."""


class Source:
    """One unit to read: a file, or a folder of a folder format."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.skipped: Counter[str] = Counter()
        """What could not be used, by reason."""

    @cached_property
    def data(self) -> bytes:
        """The file's bytes. Raises Unreadable."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise Unreadable(f"{self.path}: {error.strerror or error}") from error

    @cached_property
    def document(self) -> Any:
        """The file as one JSON value, or None where it is not one (a JSONL file has `records` instead)."""
        return None if self._is_lines else self._whole

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The JSON objects of a JSONL file, in order; several on one line are several records. Bad lines are counted."""
        if not self._is_lines:
            return []
        return [r for _, r in self.numbered]

    @cached_property
    def numbered(self) -> list[tuple[int, dict[str, Any]]]:
        """(line number from 1, record)."""
        found: list[tuple[int, dict[str, Any]]] = []
        if not self._is_lines:
            return found
        for number, line in enumerate(self.data.split(b"\n"), 1):
            found += [(number, record) for record in self._objects(line)]
        return found

    @cached_property
    def _text_head(self) -> str:
        return self.data[:4096].decode("utf-8", "replace").lstrip("\ufeff \t\r\n\0")

    @cached_property
    def _whole(self) -> Any:
        if self._text_head[:1] not in ("{", "["):
            return None
        try:
            return json.loads(self.data.decode("utf-8", "replace").lstrip("\ufeff"))
        except (ValueError, RecursionError):
            return None

    @cached_property
    def _is_lines(self) -> bool:
        """Whether the file is a record a line. A file of one line is both; it counts as a record where it has a type."""
        if self._text_head[:1] != "{":
            return False
        first = self.data.lstrip(b"\xef\xbb\xbf \t\r\n\0").split(b"\n", 1)
        if len(first) == 2 and first[1].strip():
            return bool(next(iter(self._objects(first[0], count=False)), None)) or self._whole is None
        return isinstance(self._whole, dict) and "type" in self._whole or self._whole is None

    def _objects(self, line: bytes, count: bool = True) -> Iterator[dict[str, Any]]:
        line = line.strip(b" \t\r\0")
        if not line:
            return
        if len(line) > MAX_LINE:
            if count:
                self.skipped["line too long"] += 1
            return
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("utf-8", "replace")
            if count:
                self.skipped["invalid UTF-8 replaced"] += 1
        decoder, at = json.JSONDecoder(), 0
        while at < len(text):
            try:
                value, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                if count:
                    self.skipped["nested too deep" if isinstance(error, RecursionError) else "not JSON"] += 1
                return
            if isinstance(value, dict):
                yield value
            elif count:
                self.skipped["not an object"] += 1
            while at < len(text) and text[at] in " \t\r\0":
                at += 1


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
    """The reader whose format this is, None where it is none that is known."""
    for module in readers():
        if source.path.is_dir():
            names = frozenset(os.listdir(source.path))
            if hasattr(module, "matches_folder") and module.matches_folder(source.path, names):
                return module
        elif hasattr(module, "matches") and module.matches(source):
            return module
    return None


def read(path: str | os.PathLike[str] | Source) -> Iterator[Trajectory]:
    """The trajectories of one unit. Raises Unreadable where it is no trajectory or cannot be opened."""
    source = path if isinstance(path, Source) else Source(path)
    module = reader_of(source)
    if module is None:
        raise Unreadable(f"{source.path}: no known trajectory format")
    found = 0
    for trajectory in module.read(source):
        found += 1
        trajectory.path = trajectory.path or str(source.path)
        yield trajectory
    if not found:
        reason = ", ".join(source.skipped) or "no conversation in it"
        raise Unreadable(f"{source.path}: {module.FORMAT}: {reason}")


def units(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """The files and folders to read below the given paths, in sorted order, each once; links to folders are not followed."""
    seen: set[tuple[int, int]] = set()
    for root in paths:
        yield from _units(Path(root), seen)


def _units(path: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        info = path.stat()
    except OSError:
        yield path
        return
    if (info.st_dev, info.st_ino) in seen:
        return
    seen.add((info.st_dev, info.st_ino))
    if not path.is_dir():
        yield path
        return
    try:
        names = sorted(os.listdir(path))
    except OSError:
        yield path
        return
    kept = frozenset(names)
    if any(hasattr(m, "matches_folder") and m.matches_folder(path, kept) for m in readers()):
        yield path
        return
    for name in names:
        child = path / name
        if name in _SKIP_DIRS or (child.is_symlink() and child.is_dir()):
            continue
        yield from _units(child, seen)
