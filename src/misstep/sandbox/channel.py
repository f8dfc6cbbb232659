"""The protocol with init, PID 1 of a sandbox: requests over one socket, each answered on a pipe of its own."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from misstep.sandbox.base import SandboxError, SandboxGone
from misstep.sandbox.users import User

_HEADER = struct.Struct("=10IQQ")
_REPLY = struct.Struct("=iiqq")
_EXEC, _KILL, _LIST, _END, _SYNC = 1, 2, 3, 4, 5
_STARTED, _EXITED, _FAILED = 1, 2, 3
_AGENT, _HAS_STDIN, _PUMP_OUT, _PUMP_ERR, _MERGED = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Ended:
    status: int
    """As wait() gives it."""
    cpu_seconds: float

    @property
    def exit_code(self) -> int:
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code


class Answer:
    """The pipe on which one request is answered."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe2(os.O_CLOEXEC)
        self.pid = 0

    def sent(self) -> None:
        """Drops our copy of the writing end: with init gone, reading then ends."""
        os.close(self.write)
        self.write = -1

    def wait(self, seconds: float | None) -> Ended | None:
        """The end of the command; None if `seconds` passed first.

        Raises:
            SandboxGone, SandboxError (it could not be started).
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not poll.poll(left):
                return None
            data = os.read(self._read, _REPLY.size)
            if len(data) < _REPLY.size:
                raise SandboxGone("the sandbox ended while a command ran in it")
            kind, value, cpu, _ = _REPLY.unpack(data)
            if kind == _FAILED:
                raise NotStarted(value)
            if kind == _EXITED:
                return Ended(value, cpu / 1e6)
            self.pid = value

    def started(self) -> int:
        """Waits until the command has its process; its pid inside. That it is the right program shows later."""
        while not self.pid:
            data = os.read(self._read, _REPLY.size)
            if len(data) < _REPLY.size:
                raise SandboxGone("the sandbox ended while a command was started in it")
            kind, value, _, _ = _REPLY.unpack(data)
            if kind == _FAILED:
                raise NotStarted(value)
            self.pid = value
        return self.pid

    def close(self) -> None:
        for fd in (self._read, self.write):
            if fd >= 0:
                os.close(fd)
        self._read = self.write = -1


class NotStarted(SandboxError):
    """A command whose process never became what was asked for."""

    def __init__(self, value: int) -> None:
        self.number, self.what = value & 0xFFFF, value >> 16
        super().__init__(f"the command could not be started: {os.strerror(self.number)}")

    def about(self, program: str, folder: str) -> SandboxError:
        """The same, naming what is missing."""
        if self.what == 1:
            return SandboxError(f"{folder}: {os.strerror(self.number)} (the directory to run in)")
        return SandboxError(f"{program}: {os.strerror(self.number)}")

    @property
    def no_program(self) -> bool:
        return self.what == 2 and self.number == errno.ENOENT


class Channel:
    """The host's end of init's socket. Safe to use from several threads."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()

    def _send(self, header: bytes, body: bytes, fds: Sequence[int]) -> None:
        try:
            with self._lock:
                socket.send_fds(self._ours, [header], fds)
                if body:
                    self._ours.sendall(body)
        except OSError as error:
            raise SandboxGone("the sandbox has ended") from error

    def execute(
        self,
        number: int,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str,
        user: User,
        fds: Sequence[int],
        stdin: int | None,
        file_bytes: int,
        output_bytes: int,
        agent: bool,
        errors_direct: bool = False,
    ) -> Answer:
        """Starts a command.

        Args:
            fds: files for its standard output and error; the same one twice where they are merged.
            output_bytes: how large such a file may become; what is written beyond is dropped.
            errors_direct: its standard error is the second descriptor itself (a pipe), not a pipe that init empties.
        """
        words = [cwd, *argv, *(f"{name}={value}" for name, value in env.items())]
        if any("\0" in word for word in words):
            raise SandboxError("a command, a variable or a path has a NUL character")
        groups = struct.pack(f"={len(user.groups)}I", *user.groups)
        body = groups + b"".join(os.fsencode(word) + b"\0" for word in words)
        flags = (_AGENT if agent else 0) | (_HAS_STDIN if stdin is not None else 0) | _PUMP_OUT
        if fds[0] == fds[1]:
            flags |= _MERGED
        elif not errors_direct:
            flags |= _PUMP_ERR
        header = _HEADER.pack(
            _EXEC,
            number,
            flags,
            len(body),
            user.uid,
            user.gid,
            len(user.groups),
            len(argv),
            len(env),
            0,
            file_bytes,
            output_bytes,
        )
        answer = Answer()
        try:
            self._send(header, body, [*fds, *([] if stdin is None else [stdin]), answer.write])
        except BaseException:
            answer.close()
            raise
        answer.sent()
        return answer

    def _ask(
        self, operation: int, number: int = 0, *, signal: int = 0, spare: Sequence[int] = (), fds: Sequence[int] = ()
    ) -> int:
        answer = Answer()
        try:
            body = struct.pack(f"={len(spare)}I", *spare)
            header = _HEADER.pack(operation, number, 0, len(body), 0, 0, len(spare), 0, 0, signal, 0, 0)
            self._send(header, body, [*fds, answer.write])
            answer.sent()
            ended = answer.wait(30)
            if ended is None:
                raise SandboxError("the sandbox's init does not answer")
            return ended.status
        finally:
            answer.close()

    def kill(self, number: int, *, signal: int = 9, spare: Sequence[int] = ()) -> int:
        """Signals everything of one command but the processes in `spare`; returns how many."""
        return self._ask(_KILL, number, signal=signal, spare=spare)

    def sync(self) -> None:
        """Returns when all that has been written so far is in the files of its outputs."""
        self._ask(_SYNC)

    def end_session(self) -> int:
        """Ends what is attached to the agent; returns how many processes that were."""
        return self._ask(_END)

    def processes(self) -> list[tuple[int, int, str]]:
        """(pid, session, command line) of everything that lives inside."""
        fd = os.memfd_create("processes", os.MFD_CLOEXEC)
        try:
            self._ask(_LIST, fds=[fd])
            text = os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")
        finally:
            os.close(fd)
        rows = (line.split(" ", 3) for line in text.splitlines())
        return [(int(pid), int(session), words.strip()) for pid, session, _, words in rows]

    def close(self) -> None:
        for end in (self._ours, self.theirs):
            with contextlib.suppress(OSError):
                end.close()
