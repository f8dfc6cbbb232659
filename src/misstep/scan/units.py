"""The units of a scan: the files and folders below the given paths, and what identifies them.

The walk is that of `misstep.trajectory.readers.units`, and gives the same units; but it takes a memory of which
folders are a unit by themselves, so that a scan of unchanged files loads no reader.
"""

from __future__ import annotations

import os
import stat
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Protocol

_SKIPPED = {".git", "node_modules", "__pycache__", ".venv"}


State = tuple[int, int, int]
"""What tells whether a unit has changed since it was read: size in bytes, mtime in ns, inode."""


class Unit:
    """One file, or one folder of a folder format."""

    __slots__ = ("name", "path", "state")

    def __init__(self, path: str, name: str, state: State | None) -> None:
        self.path = path
        """As reached from the path that was given: what a person sees and what orders the result."""
        self.name = name
        """Relative to the path that was given: what decides its shard."""
        self.state = state
        """None where it cannot be looked at."""


if TYPE_CHECKING:

    class Folders(Protocol):
        """Remembers which folders are a unit by themselves."""

        def folder(self, path: str, sign: str) -> bool | None:
            """Whether the folder is one, None where that is not known for this sign of its entries."""

        def keep_folder(self, path: str, sign: str, whole: bool) -> None:
            """Remember it."""


def find(
    roots: Iterable[str | os.PathLike[str]], shard: tuple[int, int] | None = None, memory: Folders | None = None
) -> Iterator[Unit]:
    """The units below the paths, each once, in sorted order; links to folders are not followed.

    A shard (i of n, from 1) gets those whose name hashes to it: the name is relative to the path that was given, so
    that machines which mount the sessions at different places cut them alike, and every unit falls into
    exactly one shard.
    """
    seen: set[tuple[int, int]] = set()
    for root in roots:
        top = os.path.normpath(os.fspath(root))
        for path, state in _below(top, seen, memory):
            name = path[len(top) :].strip(os.sep) or os.path.basename(path)  # noqa: PTH119
            path = path.removeprefix("./")
            if shard is None or shard_of(name, shard[1]) == shard[0]:
                yield Unit(path, name, state)


def shard_of(name: str, count: int) -> int:
    """The shard, from 1, in which a unit of that name is read."""
    return zlib.crc32(name.replace(os.sep, "/").encode("utf-8", "surrogateescape")) % count + 1


def _below(path: str, seen: set[tuple[int, int]], memory: Folders | None) -> Iterator[tuple[str, State | None]]:
    try:
        info = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        yield path, None
        return
    if (info.st_dev, info.st_ino) in seen:
        return
    seen.add((info.st_dev, info.st_ino))
    if not stat.S_ISDIR(info.st_mode):
        yield path, _of_file(path, info)
        return
    # A stack, so that neither a deep tree nor a chain of folders can exhaust the interpreter's own.
    stack: list[Iterator[os.DirEntry[str]]] = []
    opened = _open(path, memory)
    if opened is None:
        yield path, state_of(path)
        return
    stack.append(opened)
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            continue
        try:
            info = entry.stat()
            folder = stat.S_ISDIR(info.st_mode)
        except (OSError, ValueError):
            if entry.name not in _SKIPPED:
                yield entry.path, None
            continue
        if entry.name in _SKIPPED or (folder and entry.is_symlink()) or (info.st_dev, info.st_ino) in seen:
            continue
        seen.add((info.st_dev, info.st_ino))
        if not folder:
            yield entry.path, _of_file(entry.path, info)
            continue
        opened = _open(entry.path, memory)
        if opened is None:
            yield entry.path, state_of(entry.path)
        else:
            stack.append(opened)


def _open(path: str, memory: Folders | None) -> Iterator[os.DirEntry[str]] | None:
    """The entries of a folder in order, None where the folder is a unit by itself (or cannot be listed)."""
    try:
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda e: e.name)
    except OSError:
        return None
    sign = _sign(entries)
    whole = memory.folder(path, sign) if memory is not None else None
    if whole is None:
        from misstep.trajectory.readers import Source, Unreadable, reader_of

        try:
            whole = reader_of(Source(path)) is not None
        except Unreadable:
            return None
        if memory is not None:
            memory.keep_folder(path, sign, whole)
    return None if whole else iter(entries)


def _sign(entries: list[os.DirEntry[str]]) -> str:
    """A digest of the names, sizes and times of a folder's own files: whether it is a unit is told by these."""
    known = []
    for entry in entries:
        try:
            info = entry.stat()
            own = "/" if stat.S_ISDIR(info.st_mode) else f"{info.st_size}\0{info.st_mtime_ns}"
        except (OSError, ValueError):
            own = "?"
        known.append(f"{entry.name}\0{own}")
    text = "\n".join(known).encode("utf-8", "surrogateescape")
    return f"{len(entries)} {zlib.crc32(text):08x}{zlib.adler32(text):08x}"


def _of_file(path: str, info: os.stat_result) -> State:
    """The state of a file; what is new in a database may stand in the log beside it only."""
    size, changed = info.st_size, info.st_mtime_ns
    if path.endswith((".db", ".sqlite", ".sqlite3")):
        try:
            log = os.stat(f"{path}-wal")  # noqa: PTH116
            size, changed = size + log.st_size, max(changed, log.st_mtime_ns)
        except OSError:
            pass
    return (size, changed, info.st_ino)


def state_of(path: str) -> State | None:
    """The state of a file, or of all files of a folder; None where it cannot be looked at."""
    try:
        info = os.stat(path)  # noqa: PTH116
        if not stat.S_ISDIR(info.st_mode):
            return _of_file(path, info)
        size, newest, seen = 0, info.st_mtime_ns, 0
        os.scandir(path).close()  # os.walk says nothing of a folder that it may not list
        for folder, folders, files in os.walk(path):
            folders.sort()
            for name in sorted(files):
                one = os.lstat(f"{folder}/{name}")
                size += one.st_size
                newest = max(newest, one.st_mtime_ns)
                known = f"{folder}/{name}\0{one.st_size}\0{one.st_mtime_ns}\0{one.st_ino}\n"
                seen = zlib.crc32(known.encode("utf-8", "surrogateescape"), seen)
        return (size, newest, seen)
    except (OSError, ValueError):
        return None
