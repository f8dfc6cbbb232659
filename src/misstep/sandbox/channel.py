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
_REPLY = struct.Struct("=iiqii")
_EXEC, _KILL, _LIST, _END, _MARK, _HANG_UP = 1, 2, 3, 4, 5, 6
_STARTED, _EXITED, _FAILED = 1, 2, 3
_AGENT, _HAS_STDIN, _PUMP_OUT, _PUMP_ERR, _MERGED, _TERMINAL, _SPARE_MARKED = 1, 2, 4, 8, 16, 32, 64
_LEADER = 128


@dataclass(frozen=True)
class Ended:
    status: int
    """As wait() gives it."""
    cpu_seconds: float
    written_to: bool = False
    """Something that it left behind still holds its output: the file is written to later on."""

    @property
    def exit_code(self) -> int:
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code


class Answer:
    """The pipe on which one request is answered."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe2(os.O_CLOEXEC)
        self.pid = 0

    def fileno(self) -> int:
        """Readable when there is an answer."""
        return self._read

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
            kind, value, cpu, held, lost = _REPLY.unpack(data)
            if kind == _FAILED:
                raise NotStarted(value)
            if lost:
                raise SandboxError(
                    f"the output of a command could not be kept: {os.strerror(lost)} (where sandboxes are kept)"
                )
            if kind == _EXITED:
                return Ended(value, cpu / 1e6, held > 0)
            self.pid = value

    def started(self) -> int:
        """Waits until the command has its process; its pid inside. That it is the right program shows later."""
        while not self.pid:
            data = os.read(self._read, _REPLY.size)
            if len(data) < _REPLY.size:
                raise SandboxGone("the sandbox ended while a command was started in it")
            kind, value, *_ = _REPLY.unpack(data)
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
                sent = socket.send_fds(self._ours, [header, body], fds) - len(header)
                if sent < len(body):
                    self._ours.sendall(memoryview(body)[max(sent, 0) :])
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
        terminal: tuple[int, int] | None = None,
    ) -> Answer:
        """Starts a command.

        Args:
            fds: files for its standard output and error; the same one twice where they are merged. With a terminal: the
                file of what it shows, and an eventfd that is told of it.
            stdin: what it reads, or None. With a terminal: a socket on which the terminal is sent back.
            output_bytes: how large such a file may become; what is written beyond is dropped.
            errors_direct: its standard error is the second descriptor itself (a pipe), not a pipe that init empties.
            terminal: rows and columns of a terminal for it.
        """
        words = [cwd, *argv, *(f"{name}={value}" for name, value in env.items())]
        if any("\0" in word for word in words):
            raise SandboxError("a command, a variable or a path has a NUL character")
        groups = struct.pack(f"={len(user.groups)}I", *user.groups)
        body = groups + b"".join(os.fsencode(word) + b"\0" for word in words)
        flags = (_AGENT if agent else 0) | (_HAS_STDIN if stdin is not None else 0) | _PUMP_OUT
        if terminal:
            flags = (_AGENT if agent else 0) | _TERMINAL
        elif fds[0] == fds[1]:
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
            terminal[0] << 16 | terminal[1] if terminal else 0,
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
        self,
        operation: int,
        number: int = 0,
        *,
        flags: int = 0,
        fds: Sequence[int] = (),
    ) -> int:
        answer = Answer()
        try:
            header = _HEADER.pack(operation, number, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0)
            self._send(header, b"", [*fds, answer.write])
            answer.sent()
            ended = answer.wait(30)
            if ended is None:
                raise SandboxError("the sandbox's init does not answer")
            return ended.status
        finally:
            answer.close()

    def kill(self, number: int, *, spare_marked: bool = False, leader: bool = False) -> int:
        """Kills everything of one command; returns how many processes.

        Args:
            spare_marked: but those marked, of which the command itself (a shell) is one,
            leader: unless this is said.
        """
        return self._ask(_KILL, number, flags=(_SPARE_MARKED if spare_marked else 0) | (_LEADER if leader else 0))

    def sync(self) -> None:
        """Returns when all that has been written so far is in the files of its outputs."""
        self._ask(_MARK)

    def mark(self, number: int) -> None:
        """`sync`, and remembers for a shell what lives now: what comes later is of its next command."""
        self._ask(_MARK, number)

    def hang_up(self, number: int) -> None:
        """Closes init's end of the terminal of a command; with the host's closed too, it is hung up."""
        self._ask(_HANG_UP, number)

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
