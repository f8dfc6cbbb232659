"""The embedded backend: bubblewrap around an overlay of layers, with an init of our own as PID 1."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Literal

from misstep.sandbox import cgroups, layout, native, store, transfer
from misstep.sandbox.base import (
    BASE_ENV,
    Bind,
    Done,
    Limits,
    Process,
    Root,
    SandboxError,
    SandboxGone,
)
from misstep.sandbox.channel import Channel
from misstep.sandbox.running import Running
from misstep.sandbox.shell import ResidentShell
from misstep.sandbox.state import BubblewrapState, Layers
from misstep.sandbox.users import User, look_up

_MUCH = 16_000_000
"""Bytes of a state that are written to disk at once: else every branch would wait for them."""

_owner: store.Owner | None = None
_owner_lock = threading.Lock()
_living: weakref.WeakSet[BubblewrapSandbox] = weakref.WeakSet()


def owner() -> store.Owner:
    """This process's part of the store. The first call collects what killed processes left."""
    global _owner
    with _owner_lock:
        if _owner is None or _owner.pid != os.getpid():
            base = store.directory()
            native.user_namespace()
            store.collect(base)
            _owner = store.Owner(base)
            atexit.register(_at_exit, _owner)
        return _owner


def _at_exit(mine: store.Owner) -> None:
    if mine.pid == os.getpid():
        for sandbox in list(_living):
            sandbox.stop()
        mine.close()


class BubblewrapSandbox:
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
        self.root = root
        self.layers = layers or Layers(root)
        self.limits = limits or Limits()
        self.env = dict(env or {})
        self.workdir = workdir or root.workdir
        self.binds = tuple(binds)
        self.network = network
        self.fixed_addresses = fixed_addresses
        self.enforced: dict[str, str] = {}
        """How memory and processes are held: cgroup | rlimit | not at all."""
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._group: cgroups.Group | None = None
        self._folder: Path | None = None
        self._count = 0
        self._count_lock = threading.Lock()
        self._users: dict[str, User] = {}
        self._said: int | None = None

    def __enter__(self) -> BubblewrapSandbox:
        if self._channel is None:
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
        if self._channel is not None:
            raise SandboxError("the sandbox has been started already")
        tools, space, mine = native.tools(), native.user_namespace(), owner()
        folder = self._folder = mine.fresh("s")
        self._channel = channel = Channel()
        _living.add(self)
        ready, their_ready = os.pipe2(os.O_CLOEXEC)
        host = os.pidfd_open(os.getpid())
        rules = os.memfd_create("rules", os.MFD_CLOEXEC)
        os.write(rules, tools.filter)
        os.lseek(rules, 0, os.SEEK_SET)
        self._said = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        joined: list[int] = []
        try:
            self._group = cgroups.open_group(
                f"{mine.path.name}.{folder.name}", self.limits.memory_mb, self.limits.processes
            )
            held = self._group.held if self._group else set()
            self.enforced = {
                "memory": "cgroup" if "memory" in held else "not at all",
                "processes": "cgroup" if "pids" in held else "rlimit",
            }
            launch = [tools.helper_path, "launch"]
            if self._group:
                joined = self._group.join_fds()
                for fd in joined:
                    launch += ["--cgroup", str(fd)]
            launch += ["--userns", str(space.fd)]
            if self.limits.processes is not None and "pids" not in held:
                launch += ["--nproc", str(self.limits.processes + 2), space.inner_map]
            launch += layout.mounts(mine.base, folder, self.layers.paths, self.limits.disk_mb)
            given = f"{channel.theirs.fileno()} {their_ready} {host} {int(self.fixed_addresses)}"
            inside = ["--setenv", "MISSTEP_INIT", given, "--argv0", "misstep-init", "--", tools.helper_path]
            command = [*launch, "--", tools.bubblewrap, *self._isolation(folder / "root", rules), *inside]
            passed = [tools.helper, space.fd, channel.theirs.fileno(), their_ready, host, rules, *joined]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=passed,
                env={},
                cwd=mine.base,
                start_new_session=True,  # Ctrl-C is for the host; and no terminal of the host's is theirs
            )
            os.close(their_ready)
            their_ready = -1
            channel.theirs.close()
            if os.read(ready, 1) != b"r":
                raise SandboxError(f"the sandbox did not start: {self._complaint()}")
        except BaseException:
            self.stop()
            raise
        finally:
            for fd in (ready, their_ready, host, rules, *joined):
                if fd >= 0:
                    os.close(fd)

    def _isolation(self, merged: Path, rules: int) -> list[str]:
        binds = [*self.root.binds, *self.binds]
        return layout.isolation(merged, binds, self.workdir, rules, network=self.network == "host")

    def _complaint(self) -> str:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
        text = b"" if self._said is None else os.pread(self._said, 2000, 0)
        lines = text.decode("utf-8", "replace").strip().splitlines()
        said = lines[-1] if lines else "no reason given"
        if "cannot mount the layers: Invalid argument" in said:
            said += (
                f" ({store.directory()} may be on an overlay itself: set MISSTEP_SANDBOX_DIR to a directory of a disk)"
            )
        return said

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _open(self) -> Channel:
        if self._channel is None:
            raise SandboxGone("the sandbox is not running")
        return self._channel

    def _sink(self) -> int:
        """A file that has no name, only appended to: what a daemon still holds of it blocks nobody."""
        assert self._folder is not None
        return os.open(self._folder, os.O_TMPFILE | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _next(self) -> int:
        with self._count_lock:
            self._count += 1
            return self._count

    def environment(self, number: int, more: Mapping[str, str] | None) -> dict[str, str]:
        """All variables of one command."""
        return {**BASE_ENV, **self.root.env, **self.env, **(more or {}), "MISSTEP_EXEC": str(number)}

    def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        merge: bool = False,
        agent: bool = True,
    ) -> Done:
        """Runs a command to its end. What it leaves in the background lives on; a time limit ends all of it.

        Args:
            command: text for the shell (bash where there is one), or a program and its arguments.
            user: name or number inside; root by default.
            timeout: seconds; None for the limits' own.
            stdin: what it reads; nothing by default.
            merge: put standard error into the output.
            agent: it belongs to the agent's session, which `end_session` ends.
        """
        running = self.begin(
            command, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin, merge=merge, agent=agent
        )
        try:
            return running.wait()
        finally:
            running.close()

    def begin(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout: float | None = None,
        stdin: bytes | IO[bytes] | None = None,
        merge: bool = False,
        agent: bool = True,
        output_mb: float | None = None,
    ) -> Running:
        """Starts a command, as `exec` does, and returns. Close what it returns.

        Args:
            stdin: bytes, or an open file that the command reads from where it stands.
            output_mb: instead of the limits' own.
        """
        channel, number, who = self._open(), self._next(), self._user(user)
        folder = cwd or self.workdir
        limits = self.limits if output_mb is None else replace(self.limits, output_mb=output_mb)
        argv = [self.shell_path(), "-c", command] if isinstance(command, str) else list(command)
        out = self._sink()
        outputs = (out, out if merge else self._sink())
        source = None
        try:
            if isinstance(stdin, bytes):
                source = self._sink()
                _write_all(source, stdin)
                os.lseek(source, 0, os.SEEK_SET)
            elif stdin is not None:
                source = os.dup(stdin.fileno())
            answer = channel.execute(
                number,
                argv,
                self.environment(number, env),
                cwd=folder,
                user=who,
                fds=outputs,
                stdin=source,
                file_bytes=(self.limits.file_mb or 0) * 1024 * 1024,
                output_bytes=int(limits.output_mb * 1e6) + 1,
                agent=agent,
            )
            return Running(channel, number, answer, argv[0], folder, outputs, source, limits, timeout)
        except BaseException:
            self._close({*outputs, source})
            raise

    @staticmethod
    def _close(fds: set[int | None]) -> None:
        for fd in fds:
            if fd is not None:
                os.close(fd)

    def _user(self, user: str | int | None) -> User:
        user = self.root.user if user is None else user
        if user is None or user in ("root", 0, "0"):
            return User()
        key = str(user)
        if key not in self._users:
            self._users[key] = self._look_up(key)
        return self._users[key]

    def _look_up(self, key: str) -> User:
        files = self.exec(["cat", "/etc/passwd", "/etc/group"], user=0, timeout=10, agent=False).text
        user = look_up(key, files)
        if native.user_namespace().kind == "single" and (user.uid or user.gid):
            raise SandboxError(
                f"only root can run commands here: this user has no /etc/subuid entry (user {key} was asked for)"
            )
        return user

    def shell_path(self) -> str:
        """bash where the root has it, else sh. Told from outside: asking inside would use up a process number."""
        shown = [*self.root.layers, *(b.source.parent for b in self.root.binds if b.target == "/" + b.source.name)]
        found = any(os.path.lexists(path / name) for path in shown for name in ("bin/bash", "usr/bin/bash"))
        return "/bin/bash" if found else "/bin/sh"

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

    def processes(self) -> list[Process]:
        """Everything that lives inside but init."""
        return [Process(*row) for row in self._open().processes()]

    def end_session(self) -> list[Process]:
        """Ends what is attached to the agent, as a harness does when its agent stops; returns what stays.

        The shells get a hangup, and what of their sessions does not ignore it is killed 0.2 s later. What has a session
        of its own (setsid, a daemon) or ignores hangups (nohup) stays until the sandbox stops.
        """
        channel = self._open()
        channel.end_session()
        return self.processes()

    def upload(self, source: Path, target: str, *, user: str | int | None = None) -> None:
        """Copies a file to the path `target`, or what a directory holds into the directory `target`."""
        transfer.upload(self, Path(source), target, user)

    def download(self, source: str, target: Path) -> None:
        """Copies a file to the path `target`, or what a directory holds into the directory `target`."""
        transfer.download(self, source, Path(target))

    def snapshot(self) -> BubblewrapState:
        """Stops the sandbox and keeps its files as one more layer."""
        self._open()
        assert self._folder is not None
        kept = owner().fresh("l")
        upper = kept / "u"
        if self.limits.disk_mb is None:
            self._end()
            (self._folder / "upper").rename(upper)
            if self._bytes(upper) > _MUCH:
                store.sync(upper)
        else:
            self._copy_tmpfs(upper)
        state = BubblewrapState(self, Layers(self.root, (*self.layers.own, upper)))
        self.stop()
        return state

    def _copy_tmpfs(self, upper: Path) -> None:
        """What a bounded tmpfs holds, copied out: it is seen only from bubblewrap's own process, held still for that."""
        assert self._process is not None and self._folder is not None
        tools, space = native.tools(), native.user_namespace()
        layout.own_directory(upper)
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            assert self._channel is not None
            self._channel.close()
            source = f"/proc/{self._process.pid}/root{self._folder}/t/upper/."
            run = subprocess.run(
                [tools.helper_path, "launch", "--userns", str(space.fd), "--", "cp", "-a", source, str(upper)],
                pass_fds=[tools.helper, space.fd],
                capture_output=True,
                text=True,
            )
            if run.returncode:
                raise SandboxError(
                    f"the files could not be kept: {(run.stderr.strip().splitlines() or ['cp failed'])[0]}"
                )
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def disk_bytes(self) -> int:
        """What has been written, in bytes on disk; 0 for a bounded tmpfs."""
        assert self._folder is not None
        return self._bytes(self._folder / "upper")

    @staticmethod
    def _bytes(path: Path) -> int:
        total = 0
        for folder, _, files in os.walk(path):
            for name in (".", *files):
                with contextlib.suppress(OSError):
                    total += Path(folder, name).lstat().st_blocks * 512
        return total

    @property
    def memory_kills(self) -> int:
        """How many processes were killed because the memory limit was reached."""
        return self._group.out_of_memory() if self._group else 0

    def _end(self) -> None:
        """Ends all processes; returns when they are gone."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            if not _gone(self._process, 5):
                self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ends everything inside and removes the sandbox's files. May be called again."""
        self._end()
        if self._said is not None:
            os.close(self._said)
            self._said = None
        if self._group is not None:
            self._group.remove()
            self._group = None
        if self._folder is not None:
            store.remove(self._folder)
            self._folder = None
        _living.discard(self)


def _gone(process: subprocess.Popen[bytes], seconds: float) -> bool:
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


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
