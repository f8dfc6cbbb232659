"""A shell that lasts: its directory, variables, functions and background jobs are there for the next command.

The shell reads its commands from standard input, one complete `eval` after the other, so that what a command does to
itself (an open quote, a `here` document) cannot put it out of step. A command reads nothing (/dev/null), writes to one
file for both streams, and its exit code comes back on a pipe.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import time
from collections.abc import Mapping

from misstep.sandbox.base import Observation, SandboxError, SandboxGone
from misstep.sandbox.channel import Answer, NotStarted
from misstep.sandbox.inside import Inside

_PRELUDE = "exec 8>&1 9>&2 2>&1\n"
_LARGE = 8_000_000
_END = "\n\n"
"""Ends every command: a backslash at its end would else reach into what follows."""
_BASH_STATE = """printf 'cd %q\n' "$PWD"; umask -p; shopt -p; declare -p; declare -f; alias -p; set +o"""
_SH_STATE = """printf "cd '%s'\n" "$(pwd | sed "s/'/'\\\\''/g")"; export -p; umask | sed 's/^/umask /'"""
_NOT_RESTORED = re.compile(
    r"declare -[a-zA-Z-]*r|declare -\S+ (?:BASH\w*|DIRSTACK|FUNCNAME|GROUPS|PIPESTATUS|RANDOM|SRANDOM|SECONDS|EPOCH\w+|LINENO|"
    r"HISTCMD|OPTIND|OPTERR|COMP_\w+|SHLVL|PPID|_|MISSTEP_EXEC)(?:=|$)|shopt -\S+ (?:login_shell|restricted_shell)|"
    r"set [-+]o (?:interactive-comments|errexit|history|monitor)$|export MISSTEP_EXEC="
)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class ResidentShell:
    """A shell in a sandbox. Not for several threads at once."""

    def __init__(
        self,
        sandbox: Inside,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        agent: bool = True,
    ) -> None:
        self._sandbox = sandbox
        self._cwd, self._env, self._user, self._agent = cwd, dict(env or {}), user, agent
        self._answer: Answer | None = None
        self._input = self._replies = self._output = -1
        self._number = self._pid = 0

    @property
    def pid(self) -> int | None:
        """Its process number inside; None while none runs."""
        return self._pid if self._answer is not None else None

    def _start(self) -> None:
        box = self._sandbox
        channel = box.channel
        shell = box.shell_path()
        self._number = box.number()
        read_in, self._input = os.pipe2(os.O_CLOEXEC)
        self._replies, write_reply = os.pipe2(os.O_CLOEXEC)
        self._output = box.sink()
        try:
            self._answer = channel.execute(
                self._number,
                [shell, *(["--noprofile", "--norc"] if shell.endswith("bash") else [])],
                box.environment(self._number, self._env, box.who(self._user)),
                cwd=self._cwd or box.workdir,
                user=box.who(self._user),
                fds=(self._output, write_reply),
                stdin=read_in,
                file_bytes=box.file_bytes,
                output_bytes=_LARGE + int(box.limits.output_mb * 1e6) + 1,
                agent=self._agent,
                errors_direct=True,
            )
            self._pid = self._answer.started()
            os.write(self._input, _PRELUDE.encode())
        except BaseException:
            self._forget()
            raise
        finally:
            os.close(read_in)
            os.close(write_reply)

    def run(self, command: str, *, timeout: float | None = None) -> Observation:
        """Runs one command.

        At its time limit everything that it started is killed and the shell goes on; what earlier commands left running
        is spared. A shell that cannot go on is replaced by a new one at the next command.

        Args:
            command: any text; its exit code is that of its last command.
            timeout: seconds; None for the limits' own.
        """
        if "\0" in command:
            raise SandboxError("a command has a NUL character")
        if self._answer is None:
            self._start()
        box = self._sandbox
        channel = box.channel
        channel.mark(self._number)  # what came between two commands (a shell's word of what it saw killed) is neither's
        if os.fstat(self._output).st_size > _LARGE:
            os.ftruncate(self._output, 0)
        start = os.fstat(self._output).st_size
        limit = int(box.limits.output_mb * 1e6)
        seconds = box.limits.seconds if timeout is None else timeout
        began = time.monotonic()
        text = f'eval {_quote(command + _END)} </dev/null >&8 2>&8 8>&- 9>&-\n{{ echo "$?" >&9; }} 2>/dev/null\n'
        code, ended = self._feed(text.encode("utf-8", "surrogateescape"), seconds, start + limit)
        timed_out = code is None and not ended and seconds is not None and time.monotonic() - began >= seconds
        flooded = code is None and not ended and not timed_out
        took = time.monotonic() - began
        if ended:
            code = self._exit_code()
        else:
            channel.sync()
        shown_to = os.fstat(self._output).st_size  # not what the shell says of the killing
        if code is None and not ended:
            channel.kill(self._number, spare_marked=True)  # the shell itself is among them
            again, ended = self._feed(b"", 1.0, None)
            if again is None and not ended:
                channel.kill(self._number, spare_marked=True, leader=True)
                ended = True
            code = 124 if timed_out else 137
        shown = os.pread(self._output, min(limit, shown_to - start), start).decode("utf-8", "replace")
        if ended:
            self._forget()
        return Observation(shown, code, took, timed_out, flooded, ended)

    def _exit_code(self) -> int | None:
        """How the shell itself ended; all that it wrote is in the file by then."""
        assert self._answer is not None
        try:
            status = self._answer.wait(2)
        except NotStarted as error:
            raise error.about(self._sandbox.shell_path(), self._cwd or self._sandbox.workdir) from error
        return status.exit_code if status else None

    def _feed(self, data: bytes, seconds: float | None, most: int | None) -> tuple[int | None, bool]:
        """Writes to the shell and waits for its reply: (exit code or None, whether the shell ended)."""
        assert self._answer is not None
        deadline = None if seconds is None else time.monotonic() + seconds
        os.set_blocking(self._input, False)
        poll = select.poll()
        poll.register(self._replies, select.POLLIN)
        if data:
            poll.register(self._input, select.POLLOUT)
        reply, pause = b"", 20.0
        while True:
            left = pause if deadline is None else min(pause, max(0.0, deadline - time.monotonic()) * 1000)
            events = dict(poll.poll(left))
            if self._input in events:
                try:
                    data = data[os.write(self._input, data) :]
                except BrokenPipeError:
                    return None, True
                if not data:
                    poll.unregister(self._input)
            if self._replies in events:
                got = os.read(self._replies, 64)
                if not got:
                    return None, True
                reply += got
                if reply.endswith(b"\n"):
                    with contextlib.suppress(ValueError):
                        return int(reply.split()[-1]), False
                    return None, True
            if not events:
                pause = min(pause * 2, 200.0)
            if deadline is not None and time.monotonic() >= deadline:
                return None, False
            if most is not None and os.fstat(self._output).st_size > most:
                return None, False

    def state(self) -> str:
        """A script that brings a new shell to where this one is: directory, variables, functions, aliases, options."""
        if self._answer is None:
            return ""
        bash = self.run('[ -n "$BASH_VERSION" ]').exit_code == 0
        seen = self.run(_BASH_STATE if bash else _SH_STATE, timeout=10)
        lines = seen.output.split("\n")
        return "\n".join(line for line in lines if not _NOT_RESTORED.match(line)) if seen.exit_code == 0 else ""

    def _forget(self) -> None:
        for fd in (self._input, self._replies, self._output):
            if fd >= 0:
                os.close(fd)
        self._input = self._replies = self._output = -1
        if self._answer:
            self._answer.close()
        self._answer = None

    def close(self) -> None:
        """Ends the shell; what it left in the background lives on."""
        if self._answer is not None:
            with contextlib.suppress(SandboxGone, SandboxError):
                channel = self._sandbox.channel
                channel.mark(self._number)
                channel.kill(self._number, spare_marked=True, leader=True)
            self._forget()

    def __enter__(self) -> ResidentShell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
