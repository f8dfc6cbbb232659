"""The embedded backend: bubblewrap around an overlay of layers, with an init of our own as PID 1."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from misstep.sandbox import files, native, store, transfer
from misstep.sandbox.base import Bind, Limits, Process, Root, SandboxError
from misstep.sandbox.channel import Channel
from misstep.sandbox.inside import Inside
from misstep.sandbox.launcher import Launched, Plan
from misstep.sandbox.owner import living, owner
from misstep.sandbox.shell import ResidentShell
from misstep.sandbox.state import Layers, LayerState
from misstep.sandbox.terminal import TerminalShell

_MUCH = 16_000_000
"""Bytes of a state that are written to disk at once: else every branch would wait for them."""


class BubblewrapSandbox(Inside):
    """One sandbox; start() it, or use it as a context manager.

    Args:
        root: the file system that it starts from.
        layers: more layers over the root (a state's).
        limits: what it may use.
        env: added to the environment of every command.
        workdir: where commands run that do not say; made where it is missing.
        binds: files and directories of this machine to show inside.
        network: none (only its own loopback), or this machine's.
        fixed_addresses: no randomised addresses, so that what prints them does not vary.
    """

    def __init__(
        self,
        root: Root,
        *,
        layers: Layers | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        binds: Sequence[Bind] = (),
        network: Literal["none", "host"] = "none",
        fixed_addresses: bool = True,
    ) -> None:
        super().__init__(root, limits or Limits(), env or {}, workdir or root.workdir, binds)
        self.layers = layers or Layers(root)
        self.network = network
        self.fixed_addresses = fixed_addresses
        self.enforced: dict[str, str] = {}
        """How memory (cgroup | not at all), processes (cgroup | rlimit) and cpu (cgroup | cores) are held."""
        self._launched: Launched | None = None
        self._stopping = threading.Lock()

    def __enter__(self) -> BubblewrapSandbox:
        if self._launched is None:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it; returns once its init answers.

        Raises:
            Unavailable: no sandbox can run on this machine.
            SandboxError: this one could not be started.
        """
        if self._launched is not None:
            raise SandboxError("the sandbox has been started already")
        native.tools()
        self.single_user = native.user_namespace().kind == "single"
        mine = owner()
        self._folder = mine.fresh("s")
        living.add(self)
        binds = [*self.root.binds, *self.binds]
        plan = Plan(self.layers.paths, binds, self.workdir, self.limits, self.network == "host", self.fixed_addresses)
        channel = Channel()
        try:
            self._launched = Launched(plan, channel, mine, self._folder)
        except BaseException:
            channel.close()
            self.stop()
            raise
        self._channel, self.enforced = channel, self._launched.enforced

    @property
    def alive(self) -> bool:
        return self._launched is not None and self._launched.alive

    def shell(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        agent: bool = True,
    ) -> ResidentShell:
        """A shell that lasts from command to command."""
        return ResidentShell(self, cwd=cwd, env=env, user=user, agent=agent)

    def terminal(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        agent: bool = True,
        rows: int = 24,
        columns: int = 80,
    ) -> TerminalShell:
        """A shell at a terminal of its own, for programs that need one and agents that type."""
        return TerminalShell(self, cwd=cwd, env=env, user=user, agent=agent, rows=rows, columns=columns)

    def end_session(self) -> list[Process]:
        """Ends what is attached to the agent, as a harness does when its agent stops; returns what stays.

        The shells get a hangup, and what of their sessions does not ignore it is killed 0.2 s later. What has a session
        of its own (setsid, a daemon) or ignores hangups (nohup) stays until the sandbox stops.
        """
        self.channel.end_session()
        return self.processes()

    def upload(self, source: Path, target: str, *, user: str | int | None = None) -> None:
        """Copies a file to the path `target`, or what a directory holds into the directory `target`."""
        transfer.upload(self, Path(source), target, user)

    def download(self, source: str, target: Path) -> None:
        """Copies a file to the path `target`, or what a directory holds into the directory `target`."""
        transfer.download(self, source, Path(target))

    def snapshot(self) -> LayerState[BubblewrapSandbox]:
        """Stops the sandbox and keeps its files as one more layer."""
        self.channel  # noqa: B018 (it runs, or it is said that it does not)
        assert self._folder is not None
        upper = owner().fresh("l") / "u"
        if self.limits.disk_mb is None:
            self._end()
            (self._folder / "upper").rename(upper)
            if files.disk_bytes(upper) > _MUCH:
                store.sync(upper)
        else:
            self._copy_tmpfs(upper)
        layers = Layers(self.root, (*self.layers.own, upper))
        self.stop()
        return LayerState(self._on, layers)

    def _on(self, layers: Layers) -> BubblewrapSandbox:
        """A sandbox like this one on other layers, not yet started."""
        return type(self)(
            self.root, layers=layers, limits=self.limits, env=self.env, workdir=self.workdir, binds=self.binds,
            network=self.network, fixed_addresses=self.fixed_addresses,
        )  # fmt: skip

    def _copy_tmpfs(self, upper: Path) -> None:
        """What a bounded tmpfs holds, copied out: it is seen only from bubblewrap's own process, held still for that."""
        assert self._launched is not None and self._folder is not None
        files.own_directory(upper)
        pid = self._launched.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            self.channel.close()
            run = files.as_root_inside(["cp", "-a", f"/proc/{pid}/root{self._folder}/t/upper/.", str(upper)])
            if run.returncode:
                said = run.stderr.decode("utf-8", "replace").strip().splitlines()
                raise SandboxError(f"the files could not be kept: {said[0] if said else 'cp failed'}")
        finally:
            os.kill(pid, signal.SIGCONT)

    def disk_bytes(self) -> int:
        """What has been written, in bytes on disk; 0 for a bounded tmpfs."""
        assert self._folder is not None
        return files.disk_bytes(self._folder / "upper")

    @property
    def memory_kills(self) -> int:
        """How many processes were killed because the memory limit was reached."""
        return self._launched.memory_kills if self._launched else 0

    def _end(self) -> None:
        """Ends all processes; returns when they are gone."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._close_sinks()
        if self._launched is not None:
            self._launched.gone()

    def stop(self) -> None:
        """Ends everything inside and removes the sandbox's files. May be called again."""
        with self._stopping:  # at the process's exit, a thread of its own may be about to
            self._end()
            if self._launched is not None:
                self._launched.end()
                self._launched = None
            if self._folder is not None:
                files.remove(self._folder)
                self._folder = None
            living.discard(self)
