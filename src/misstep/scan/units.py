"""The units of a scan: the files and folders below the given paths, and what identifies them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from misstep.trajectory.readers import units as below


@dataclass(frozen=True, slots=True)
class Unit:
    """One file, or one folder of a folder format."""

    path: str
    """As reached from the path that was given: what a person sees and what orders the result."""
    name: str
    """Relative to the path that was given: what decides its shard."""


@dataclass(frozen=True, slots=True)
class State:
    """What tells whether a unit has changed since it was read."""

    size: int
    mtime_ns: int
    inode: int


def find(roots: Iterable[str | os.PathLike[str]], shard: tuple[int, int] | None = None) -> Iterator[Unit]:
    """The units below the paths, each once.

    A shard (i of n, from 1) gets those whose name hashes to it: the name is relative to the path that was given, so
    that machines which mount the sessions at different places cut them alike, and every unit falls into
    exactly one shard.
    """
    seen: set[tuple[int, int]] = set()
    for root in roots:
        for path in below([root]):
            try:
                info = path.stat()
            except OSError:
                pass
            else:
                if (info.st_dev, info.st_ino) in seen:
                    continue
                seen.add((info.st_dev, info.st_ino))
            name = os.path.relpath(path, root)
            if name == ".":
                name = path.name
            if shard is None or shard_of(name, shard[1]) == shard[0]:
                yield Unit(str(path), name)


def shard_of(name: str, count: int) -> int:
    """The shard, from 1, in which a unit of that name is read."""
    digest = blake2b(Path(name).as_posix().encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count + 1


def state_of(path: str) -> State | None:
    """The state of a file, or of all files of a folder; None where it cannot be looked at."""
    try:
        info = Path(path).stat()
        if not stat.S_ISDIR(info.st_mode):
            return State(info.st_size, info.st_mtime_ns, info.st_ino)
        size, newest, seen = 0, info.st_mtime_ns, blake2b(digest_size=7)
        for folder, folders, files in os.walk(path):
            folders.sort()
            for name in sorted(files):
                one = os.lstat(f"{folder}/{name}")
                size += one.st_size
                newest = max(newest, one.st_mtime_ns)
                seen.update(
                    f"{folder}/{name}\0{one.st_size}\0{one.st_mtime_ns}\0{one.st_ino}\n".encode(
                        "utf-8", "surrogateescape"
                    )
                )
        return State(size, newest, int.from_bytes(seen.digest(), "big"))
    except OSError:
        return None
