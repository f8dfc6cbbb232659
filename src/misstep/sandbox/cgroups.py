"""Limits of memory and processes by cgroups, version 1 or 2, wherever this user may make some.

Every sandbox has a group `misstep/OWNER.N` in each hierarchy used. Where none can be made, `open_group` returns None
and the caller falls back to resource limits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from dataclasses import dataclass
from pathlib import Path

_NAME = "misstep"


@dataclass(frozen=True)
class _Place:
    """A directory in which groups are made, and the controllers that hold there."""

    path: Path
    version: int
    controllers: frozenset[str]


def _unescape(text: str) -> str:
    return text.replace("\\040", " ")


@functools.cache
def places() -> tuple[_Place, ...]:
    """Where groups can be made: at most one place a controller."""
    found: list[_Place] = []
    missing = {"memory", "pids"}
    with Path("/proc/self/mounts").open() as mounts, Path("/proc/self/cgroup").open() as own:
        rows = [line.split() for line in mounts]
        paths = {name: path for _, name, path in (line.rstrip("\n").split(":", 2) for line in own)}
    for _, at, kind, options, *_ in rows:
        mount = Path(_unescape(at))
        if kind == "cgroup":
            held = missing & set(options.split(","))
            if held and _make(mount / _NAME):
                found.append(_Place(mount / _NAME, 1, frozenset(held)))
                missing -= held
        elif kind == "cgroup2" and missing:
            place = _second(mount, paths.get("", "/"), missing)
            if place:
                found.append(place)
                missing -= place.controllers
    return tuple(found)


def _make(path: Path) -> bool:
    try:
        path.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK)


def _second(mount: Path, own: str, wanted: set[str]) -> _Place | None:
    """A directory of version 2 under one of our ancestors: a group that holds processes can have no limited children."""
    here = mount / own.lstrip("/")
    for above in [parent for parent in here.parents if parent == mount or mount in parent.parents] + [mount]:
        with contextlib.suppress(OSError):
            offered = set((above / "cgroup.controllers").read_text().split()) & wanted
            if not offered:
                continue
            switch = " ".join(f"+{name}" for name in sorted(offered))
            if not offered <= set((above / "cgroup.subtree_control").read_text().split()):
                (above / "cgroup.subtree_control").write_text(switch)
            if not _make(above / _NAME):
                continue
            (above / _NAME / "cgroup.subtree_control").write_text(switch)
            probe = above / _NAME / f"probe.{os.getpid()}"
            probe.mkdir()
            try:
                fd = os.open(probe / "cgroup.procs", os.O_WRONLY)
                os.close(fd)
            finally:
                probe.rmdir()
            return _Place(above / _NAME, 2, frozenset(offered))
    return None


class Group:
    """The cgroups of one sandbox."""

    def __init__(self, name: str, memory_mb: int | None, processes: int | None) -> None:
        self.paths: list[tuple[Path, _Place]] = []
        self.held: set[str] = set()
        try:
            for place in places():
                path = place.path / name
                values: list[tuple[str, int]] = []
                if "memory" in place.controllers and memory_mb is not None:
                    held = memory_mb * 1024 * 1024
                    values.append(("memory.limit_in_bytes" if place.version == 1 else "memory.max", held))
                if "pids" in place.controllers and processes is not None:
                    values.append(("pids.max", processes + 2))  # bubblewrap's own two
                if not values:
                    continue
                path.mkdir()
                self.paths.append((path, place))
                for file, value in values:
                    (path / file).write_text(str(value))
                if place.version == 2 and "memory" in place.controllers:
                    with contextlib.suppress(OSError):
                        (path / "memory.swap.max").write_text("0")
                self.held |= place.controllers
        except OSError:
            self.remove()
            raise

    def join_fds(self) -> list[int]:
        """Open files: who writes 0 to each joins the groups. The caller closes them."""
        return [os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for path, _ in self.paths]

    def out_of_memory(self) -> int:
        """How many processes the kernel has killed for memory."""
        for path, place in self.paths:
            if "memory" in place.controllers:
                file = path / ("memory.oom_control" if place.version == 1 else "memory.events")
                with contextlib.suppress(OSError, ValueError):
                    for line in file.read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0

    def remove(self) -> None:
        for path, _ in self.paths:
            _remove(path)
        self.paths.clear()


def _remove(path: Path) -> None:
    for _ in range(500):
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.001)  # its last process is still being taken down


def open_group(name: str, memory_mb: int | None, processes: int | None) -> Group | None:
    """A new group of that name; None where this user may make none."""
    if not places() or (memory_mb is None and processes is None):
        return None
    try:
        return Group(name, memory_mb, processes)
    except OSError:
        return None


def collect() -> None:
    """Removes the groups of processes that no longer live (a group's name begins with its maker's process number)."""
    for place in places():
        for path in place.path.iterdir():
            maker = path.name.partition("-")[0]
            if maker.isdigit() and not Path("/proc", maker).exists() and path.is_dir():
                _remove(path)
