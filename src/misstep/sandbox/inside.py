"""What is done in a sandbox that runs: commands, and what they need of it. Transfers, shells and terminals stand on it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from misstep.sandbox.base import BASE_ENV, Bind, Done, Limits, Process, Root, SandboxError, SandboxGone
from misstep.sandbox.channel import Channel
from misstep.sandbox.running import Running
from misstep.sandbox.users import User, look_up

_LARGE = 1_000_000
_SPARE = 4
"""Output files that are kept for later commands."""


class Inside:
    """The inside of one sandbox; what starts and ends it is BubblewrapSandbox's.

    Args:
        root: the file system that it starts from.
        limits: what it may use.
        env: added to the environment of every command.
        workdir: where commands run that do not say.
        binds: files and directories of this machine shown inside.
    """

    def __init__(self, root: Root, limits: Limits, env: Mapping[str, str], workdir: str, binds: Sequence[Bind]) -> None:
        self.root, self.limits = root, limits
        self.env, self.workdir, self.binds = dict(env), workdir, tuple(binds)
        self.single_user = False
        """Only root exists inside."""
        self._channel: Channel | None = None
        self._folder: Path | None = None
        self._count = 0
        self._lock = threading.Lock()
        self._users: dict[str, User] = {}
        self._sinks: list[int] = []

    @property
    def channel(self) -> Channel:
        """The way to init.

        Raises:
            SandboxGone: the sandbox does not run.
        """
        if self._channel is None:
            raise SandboxGone("the sandbox is not running")
        return self._channel

    def sink(self) -> int:
        """A file that has no name, only appended to: what a daemon still holds of it blocks nobody."""
        if self._folder is None:
            raise SandboxGone("the sandbox is not running")
        return os.open(self._folder, os.O_TMPFILE | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _output(self) -> int:
        """A sink that another command is done with, or a new one: making a file takes half as long as a command."""
        with self._lock:
            if self._sinks:
                return self._sinks.pop()
        return self.sink()

    def _keep_sink(self, fd: int) -> None:
        if os.fstat(fd).st_size > _LARGE:
            os.ftruncate(fd, 0)
        with self._lock:
            if self._channel is not None and len(self._sinks) < _SPARE:
                self._sinks.append(fd)
                return
        os.close(fd)

    def _close_sinks(self) -> None:
        with self._lock:
            spare, self._sinks = self._sinks, []
        for fd in spare:
            os.close(fd)

    def number(self) -> int:
        """A new number for a command; all that it starts carries it."""
        with self._lock:
            self._count += 1
            return self._count

    def environment(self, number: int, more: Mapping[str, str] | None, who: User) -> dict[str, str]:
        """All variables of one command."""
        own = {"HOME": who.home, "USER": who.name} if who.uid else {}
        return {**BASE_ENV, **own, **self.root.env, **self.env, **(more or {}), "MISSTEP_EXEC": str(number)}

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

    async def exec_async(
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
        """`exec` for an event loop: it waits without a thread; called off, the command is ended first."""
        running = self.begin(
            command, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin, merge=merge, agent=agent
        )
        return await running.finish()

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
        channel, number, who = self.channel, self.number(), self.who(user)
        folder = cwd or self.workdir
        limits = self.limits if output_mb is None else replace(self.limits, output_mb=output_mb)
        argv = [self.shell_path(), "-c", command] if isinstance(command, str) else list(command)
        if not argv:
            raise SandboxError("there is no command to run")
        out = self._output()
        outputs = (out, out if merge else self._output())
        starts = {fd: os.fstat(fd).st_size for fd in outputs}
        source = None
        try:
            if isinstance(stdin, bytes):
                source = os.memfd_create("stdin", os.MFD_CLOEXEC) if len(stdin) < _LARGE else self.sink()
                _write_all(source, stdin)
                os.lseek(source, 0, os.SEEK_SET)
            elif stdin is not None:
                source = os.dup(stdin.fileno())
            answer = channel.execute(
                number,
                argv,
                self.environment(number, env, who),
                cwd=folder,
                user=who,
                fds=outputs,
                stdin=source,
                file_bytes=self.file_bytes,
                output_bytes=max(starts.values()) + int(limits.output_mb * 1e6) + 1,
                agent=agent,
            )
            return Running(
                channel, number, answer, argv[0], folder, outputs, starts, source, limits, timeout, self._keep_sink
            )
        except BaseException:
            for fd in {*outputs, *([] if source is None else [source])}:
                os.close(fd)
            raise

    @property
    def file_bytes(self) -> int:
        """The largest file, in bytes; 0: no limit."""
        return (self.limits.file_mb or 0) * 1024 * 1024

    def who(self, user: str | int | None) -> User:
        """Who a command runs as; the root's own user by default.

        Raises:
            SandboxError: there is no such user.
        """
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
        if self.single_user and (user.uid or user.gid):
            raise SandboxError(
                f"only root can run commands here, not {key}: there is no second user (misstep sandbox check says why)"
            )
        return user

    def shell_path(self) -> str:
        """bash where the root has it, else sh. Told from outside: asking inside would use up a process number."""
        shown = [*self.root.layers, *(b.source.parent for b in self.root.binds if b.target == "/" + b.source.name)]
        found = any(os.path.lexists(path / name) for path in shown for name in ("bin/bash", "usr/bin/bash"))
        return "/bin/bash" if found else "/bin/sh"

    def processes(self) -> list[Process]:
        """Everything that lives inside but init."""
        return [Process(*row) for row in self.channel.processes()]


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
