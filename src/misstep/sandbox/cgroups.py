"""Limits of memory, processes and CPU by cgroups, version 1 or 2, wherever this user may make some.

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
_PERIOD = 100_000
"""Microseconds in which a quota of CPU time is counted: the kernel's default."""
_CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True)
class Wanted:
    """What a group is to hold; None: not limited."""

    memory_bytes: int | None = None
    tasks: int | None = None
    cpus: float | None = None

    def files(self, controllers: frozenset[str], version: int) -> dict[str, dict[str, str]]:
        """{controller: {file: what is written to it}} of those that are limited."""
        first, found = version == 1, {}
        if self.memory_bytes is not None:
            found["memory"] = {"memory.limit_in_bytes" if first else "memory.max": str(self.memory_bytes)}
        if self.tasks is not None:
            found["pids"] = {"pids.max": str(self.tasks)}
        if self.cpus is not None:
            quota = max(1000, round(self.cpus * _PERIOD))  # the kernel takes no less
            both = {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
            found["cpu"] = both if first else {"cpu.max": f"{quota} {_PERIOD}"}
        return {name: files for name, files in found.items() if name in controllers}


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
    return find_places(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())


def find_places(mounts: str, own: str) -> tuple[_Place, ...]:
    """Where groups can be made.

    Args:
        mounts, own: what /proc/self/mounts and /proc/self/cgroup say.
    """
    found: list[_Place] = []
    missing = set(_CONTROLLERS)
    paths = {name: path for _, name, path in (line.split(":", 2) for line in own.splitlines())}
    for _, at, kind, options, *_ in (line.split() for line in mounts.splitlines()):
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
                (above / "cgroup.procs").open("r+").close()  # who moves a process writes to the common ancestor's too
                (probe / "cgroup.procs").open("r+").close()
            finally:
                probe.rmdir()
            return _Place(above / _NAME, 2, frozenset(offered))
    return None


class Group:
    """The cgroups of one sandbox."""

    def __init__(self, name: str, wanted: Wanted) -> None:
        self.paths: list[tuple[Path, _Place]] = []
        held: set[str] = set()
        try:
            for place in places():
                path = place.path / name
                controllers = wanted.files(place.controllers, place.version)
                if not controllers:
                    continue
                path.mkdir()
                self.paths.append((path, place))
                for files in controllers.values():
                    for file, value in files.items():
                        (path / file).write_text(value)
                if place.version == 2 and "memory" in controllers:
                    with contextlib.suppress(OSError):
                        (path / "memory.swap.max").write_text("0")
                held |= set(controllers)
        except OSError:
            self.remove()
            raise
        self.held = frozenset(held)
        """The controllers that hold something here."""

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


def open_group(name: str, wanted: Wanted) -> Group | None:
    """A new group of that name; None where this user may make none, or nothing is to be held."""
    if not places() or wanted == Wanted():
        return None
    try:
        return Group(name, wanted)
    except OSError:
        return None


def collect() -> None:
    """Removes the groups of processes that no longer live (a group's name begins with its maker's process number)."""
    for place in places():
        for path in place.path.iterdir():
            maker = path.name.partition("-")[0]
            if maker.isdigit() and not Path("/proc", maker).exists() and path.is_dir():
                _remove(path)
