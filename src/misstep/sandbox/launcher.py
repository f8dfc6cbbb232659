"""Starts the process of a sandbox: its cgroups, the launcher's words, bubblewrap's, and the first word of init."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import select
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from misstep.sandbox import cgroups, layout, native, seccomp, store
from misstep.sandbox.base import Bind, Limits, SandboxError
from misstep.sandbox.channel import Channel
from misstep.sandbox.owner import Owner

_turn = itertools.count()


@dataclass(frozen=True)
class Plan:
    """What is to be started."""

    layers: Sequence[Path]
    """Lowest first."""
    binds: Sequence[Bind]
    workdir: str
    limits: Limits
    network: bool
    fixed_addresses: bool


class Launched:
    """The processes of one sandbox, seen from outside.

    Args:
        mine: this process's part of the store.
        folder: the sandbox's own directory.

    Raises:
        Unavailable: no sandbox can run on this machine.
        SandboxError: this one could not be started.
    """

    def __init__(self, plan: Plan, channel: Channel, mine: Owner, folder: Path) -> None:
        self._said = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._process: subprocess.Popen[bytes] | None = None
        self._group = cgroups.open_group(f"{mine.path.name}.{folder.name}", _wanted(plan.limits))
        held = self._group.held if self._group else frozenset()
        limits = plan.limits
        self.enforced = {
            "memory": "cgroup" if "memory" in held else "not at all",
            "processes": "cgroup" if "pids" in held else "rlimit" if limits.processes is not None else "not at all",
            "cpu": "cgroup" if "cpu" in held else "cores" if limits.cpus is not None else "not at all",
        }
        try:
            self._start(plan, channel, mine.base, folder)
        except BaseException:
            channel.close()
            self.end()
            raise

    def _start(self, plan: Plan, channel: Channel, base: Path, folder: Path) -> None:
        tools, space, limits = native.tools(), native.user_namespace(), plan.limits
        pinned = self.enforced["cpu"] == "cores"
        with contextlib.ExitStack() as open_files:

            def keep(fd: int) -> int:
                open_files.callback(os.close, fd)
                return fd

            ready, their_ready = os.pipe2(os.O_CLOEXEC)
            keep(ready)
            with os.fdopen(their_ready, "wb", 0):
                host = keep(os.pidfd_open(os.getpid()))
                rules = keep(os.memfd_create("rules", os.MFD_CLOEXEC))
                os.write(rules, seccomp.program(pinned=True) if pinned else tools.filter)
                os.lseek(rules, 0, os.SEEK_SET)
                joined = [keep(fd) for fd in self._group.join_fds()] if self._group else []
                launch = [tools.helper_path, "launch"]
                for fd in joined:
                    launch += ["--cgroup", str(fd)]
                if pinned and limits.cpus is not None:
                    launch += ["--cores", _cores(limits.cpus)]
                launch += ["--userns", str(space.fd)]
                if self.enforced["processes"] == "rlimit":
                    launch += ["--nproc", str((limits.processes or 0) + 2), space.inner_map]
                launch += layout.mounts(base, folder, plan.layers, limits.disk_mb)
                given = f"{channel.theirs.fileno()} {their_ready} {host} {int(plan.fixed_addresses)}"
                inside = ["--setenv", "MISSTEP_INIT", given, "--argv0", "misstep-init", "--", tools.helper_path]
                isolation = layout.isolation(folder / "root", plan.binds, plan.workdir, rules, network=plan.network)
                self._process = subprocess.Popen(
                    [*launch, "--", tools.bubblewrap, *isolation, *inside],
                    stdin=subprocess.DEVNULL,
                    stdout=self._said,
                    stderr=self._said,
                    pass_fds=[tools.helper, space.fd, channel.theirs.fileno(), their_ready, host, rules, *joined],
                    env={},
                    cwd=base,
                    start_new_session=True,  # Ctrl-C is for the host; and no terminal of the host's is theirs
                )
            channel.theirs.close()
            if os.read(ready, 1) != b"r":
                raise SandboxError(f"the sandbox did not start: {self._complaint()}")

    def _complaint(self) -> str:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
        lines = os.pread(self._said, 2000, 0).decode("utf-8", "replace").strip().splitlines()
        said = lines[-1] if lines else "no reason given"
        if "cannot mount the layers: Invalid argument" in said:
            said += (
                f" ({store.directory()} may be on an overlay itself: set MISSTEP_SANDBOX_DIR to a directory of a disk)"
            )
        return said

    @property
    def pid(self) -> int:
        """bubblewrap's own process, as this machine counts."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def memory_kills(self) -> int:
        """How many processes were killed because the memory limit was reached."""
        return self._group.out_of_memory() if self._group else 0

    def kill(self) -> None:
        """Ends bubblewrap's process, and with it all others, at once."""
        if self._process is not None:
            self._process.kill()

    def gone(self) -> None:
        """Returns when all processes are gone; its channel has been closed."""
        if self._process is not None:
            if not _ended(self._process, 5):
                self._process.kill()
            self._process.wait()
            self._process = None

    def end(self) -> None:
        """The same, and gives back the cgroups."""
        self.gone()
        if self._said >= 0:
            os.close(self._said)
            self._said = -1
        if self._group is not None:
            self._group.remove()
            self._group = None


def _wanted(limits: Limits) -> cgroups.Wanted:
    bytes_ = None if limits.memory_mb is None else limits.memory_mb * 1024 * 1024
    tasks = None if limits.processes is None else limits.processes + 2  # bubblewrap's own two
    return cgroups.Wanted(bytes_, tasks, limits.cpus)


def _cores(cpus: float) -> str:
    """As many whole cores as that needs, another sandbox's turn beginning at the next."""
    mine = sorted(os.sched_getaffinity(0))
    count, first = min(math.ceil(cpus), len(mine)), next(_turn)
    return ",".join(str(mine[(first + i) % len(mine)]) for i in range(count))


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits for the end of a process; unlike Popen.wait with a time limit it does not sleep meanwhile."""
    if process.returncode is not None:
        return True
    fd = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(fd)
