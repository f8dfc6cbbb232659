"""A shell at a pseudo-terminal, for programs that need one (an editor, a pager, `python3 -i`) and agents that type.

The terminal is the sandbox's own; init empties it into a file, so that nothing stalls while nobody reads, and tells of
it. The shell marks where a command begins and ends (OSC 133, as terminals know it); the marks are taken out of what is
shown. Without bash the shell cannot say that a command begins, and a line has at most 4,095 bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import fcntl
import os
import re
import select
import socket
import struct
import termios
import time
from collections.abc import Mapping

from misstep.sandbox import keys
from misstep.sandbox.base import Observation, SandboxError, SandboxGone
from misstep.sandbox.channel import Answer, NotStarted
from misstep.sandbox.inside import Inside
from misstep.sandbox.screen import Screen

_MARK = re.compile(rb"\x1b\]133;([BCD])(?:;(\d+))?;misstep\x07")
_PART = re.compile(rb"\x1b(?:\](?:1(?:3(?:3[^\x07]{0,24})?)?)?)?\Z")
_BASH = (
    r""" PS1='\u@\h:\w\$ \[\e]133;B;misstep\a\]' PS2='> ' PS0=$'\e]133;C;misstep\a' PROMPT_COMMAND='printf "\e]133;D;%s;misstep\a" "$?"';"""
    r""" HISTCONTROL=ignorespace; unset HISTFILE; set +H; bind 'set enable-bracketed-paste off'; history -c"""
)
_SH = r"""PS1="$(printf '\033]133;D;$?;misstep\007# \033]133;B;misstep\007')" """
_SH_BEGINS = r"printf '\033]133;C;misstep\007'; "
_PUNCH, _KEEP = 2, 1  # fallocate: a hole, of the same size
_KEPT = 1_000_000
_PATIENCE = 5.0
"""Seconds in which a terminal has to take what is typed."""
_TIOCGSID = 0x5429


class TerminalShell:
    """A shell at a terminal. Not for several threads at once.

    Args:
        rows, columns: its size; `resize` changes it.
    """

    def __init__(
        self,
        inside: Inside,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        agent: bool = True,
        rows: int = 24,
        columns: int = 80,
    ) -> None:
        if not (0 < rows < 1000 and 0 < columns < 1000):
            raise SandboxError(f"a terminal of {rows} rows and {columns} columns: expected 1 to 999 of each")
        self._inside = inside
        self._cwd, self._user, self._agent = cwd, user, agent
        self._env = {"TERM": "xterm-256color", **(env or {})}
        self._screen = Screen(rows, columns)
        self._answer: Answer | None = None
        self._keyboard = self._output = self._told = -1
        self._number = 0
        self._bash = True

    def _start(self) -> None:
        box, screen = self._inside, self._screen
        shell = box.shell_path()
        self._bash = shell.endswith("bash")
        self._number = box.number()
        self._output, self._told = box.sink(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._at = 0
        """How far the output has been read."""
        self._held = b""
        self._code: int | None = None
        """The exit code of the last command that ended."""
        self._ready = False
        """The whole prompt is shown; what is typed from then on is echoed once."""
        self._typed = False
        """Something has been typed since the shell last showed its prompt."""
        self._unread, self._shown = bytearray(), bytearray()
        self._showing = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        ours, theirs = socket.socketpair()
        try:
            with ours, theirs:
                self._answer = box.channel.execute(
                    self._number,
                    [shell, *(["--noprofile", "--norc"] if self._bash else [])],
                    box.environment(self._number, self._env, box.who(self._user)),
                    cwd=self._cwd or box.workdir,
                    user=box.who(self._user),
                    fds=(self._output, self._told),
                    stdin=theirs.fileno(),
                    file_bytes=box.file_bytes,
                    output_bytes=_KEPT + int(box.limits.output_mb * 1e6),
                    agent=self._agent,
                    terminal=(screen.rows, screen.columns),
                )
                try:
                    self._answer.started()
                except NotStarted as error:
                    raise error.about(shell, self._cwd or box.workdir) from error
                _, fds, _, _ = socket.recv_fds(ours, 1, 1)
                self._keyboard = fds[0]
            self._type((_BASH if self._bash else _SH) + "\r")
            if not self._prompt(10):
                raise SandboxError("the shell at the terminal shows no prompt")
        except BaseException:
            self._forget()
            raise
        self._unread.clear()
        self._screen = Screen(screen.rows, screen.columns)

    def _open(self) -> None:
        if self._answer is None:
            self._start()
        self._inside.channel  # noqa: B018 (the sandbox runs, or it is said that it does not)

    # ---------------------------------------------------------------- what is shown

    def _absorb(self) -> None:
        """Takes in what has been shown so far."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._told)
        while data := os.pread(self._output, 1 << 16, self._at):
            self._at += len(data)
            self._take(self._held + data)
        if self._at > _KEPT:  # what has been read takes no room any more
            ctypes.CDLL(None).fallocate(self._output, _PUNCH | _KEEP, ctypes.c_long(0), ctypes.c_long(self._at))

    def _take(self, data: bytes) -> None:
        part = _PART.search(data)
        self._held = part.group() if part else b""
        data = data[: len(data) - len(self._held)]
        at = 0
        for mark in _MARK.finditer(data):
            self._show(data[at : mark.start()])
            at = mark.end()
            if mark.group(1) == b"C":
                self._showing, self._code, self._ready = True, None, False
                self._shown.clear()
            elif mark.group(1) == b"D":
                self._showing, self._code, self._typed = False, int(mark.group(2) or 0), False
            else:
                self._ready = not self._typed
        self._show(data[at:])

    def _show(self, data: bytes) -> None:
        most = _KEPT + int(self._inside.limits.output_mb * 1e6)
        self._unread += data
        del self._unread[: max(0, len(self._unread) - most)]
        if self._showing:
            self._shown += data[: max(0, most - len(self._shown))]
        self._screen.feed(self._decoder.decode(data))

    def _wait(self, seconds: float) -> bool:
        """Waits for more to be shown, or the shell's end; False if neither came."""
        assert self._answer is not None
        poll = select.poll()
        poll.register(self._told, select.POLLIN)
        poll.register(self._answer.fileno(), select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def _prompt(self, seconds: float) -> bool:
        """Waits until the shell shows its prompt, and nothing has been typed since."""
        deadline = time.monotonic() + seconds
        while True:
            self._absorb()
            done = self._code is not None and not self._typed
            if done and self._ready:
                return True
            left = min(0.1, deadline - time.monotonic()) if done else deadline - time.monotonic()
            if left <= 0 or not self._wait(left) or self._ended():
                self._absorb()
                return self._code is not None and not self._typed  # its user may have made another prompt, of no mark

    def _ended(self) -> bool:
        """Whether the shell itself has ended."""
        assert self._answer is not None
        poll = select.poll()
        poll.register(self._answer.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    # ---------------------------------------------------------------- a person's side

    def send(self, *keys_: str, literal: bool = False) -> None:
        """Types.

        Args:
            keys_: the name of a key (Enter, Escape, Tab, Up, PageDown, F1, C-c, M-x ...: see `keys`) is that key; any
                other text is typed as it is.
            literal: all of it is text.

        Raises:
            SandboxError: the terminal takes no more: what runs in it reads nothing.
        """
        self._open()
        self._absorb()
        if self._code is not None and not self._typed:
            self._prompt(0.1)
        for text in keys_:
            key = None if literal else keys.sent(text, application=self._screen.application_keys)
            self._type(text if key is None else key)

    def _type(self, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        self._typed, self._ready = True, False
        deadline = time.monotonic() + _PATIENCE
        poll = select.poll()
        poll.register(self._keyboard, select.POLLOUT)
        while data:
            try:
                data = data[os.write(self._keyboard, data) :]
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SandboxError("the terminal takes no more input: what runs in it reads nothing") from None
                poll.poll(100)
            except OSError as error:
                raise SandboxGone("the shell at the terminal has ended") from error

    def read(self, timeout: float = 1.0, *, quiet: float = 0.05) -> str:
        """What has been shown since the last read, as it was written (with its escape sequences).

        Args:
            timeout: seconds to wait for something to be shown.
            quiet: seconds without anything more that end it.
        """
        self._open()
        deadline = time.monotonic() + timeout
        while True:
            self._absorb()
            left = deadline - time.monotonic()
            if left <= 0 or not self._wait(min(quiet, left) if self._unread else left) or self._ended():
                break
        self._absorb()
        shown = self._unread.decode("utf-8", "replace")
        self._unread.clear()
        if self._ended():
            self._forget()
        return shown

    def screen(self) -> str:
        """What is to be seen now: the lines of the screen, without trailing blanks."""
        if self._answer is not None:
            self._absorb()
        return self._screen.text

    def resize(self, rows: int, columns: int) -> None:
        """Another size of the window; programs are told."""
        self._open()
        self._absorb()
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    @property
    def busy(self) -> bool:
        """Whether a program, and not the shell, is at the terminal."""
        if self._answer is None:
            return False
        try:
            session = struct.unpack("i", fcntl.ioctl(self._keyboard, _TIOCGSID, b"\0" * 4))[0]
            return bool(os.tcgetpgrp(self._keyboard) != session)
        except OSError:
            return False

    # ---------------------------------------------------------------- a Shell

    def run(self, command: str, *, timeout: float | None = None) -> Observation:
        """Runs one command at the prompt, as `ResidentShell.run` does, but with the terminal as its input and output.

        Its output is what the terminal was sent, with \\n for its line ends; colours and the like are in it.

        Raises:
            SandboxError: a program that was started by keys is still at the terminal.
        """
        if "\0" in command:
            raise SandboxError("a command has a NUL character")
        self._open()
        box = self._inside
        if not self._prompt(1.0) and not self._ended():
            if self.busy:
                raise SandboxError('a program runs at the terminal: end it first (send("C-c"), "C-d", "q" ...)')
            self._type("\x03")  # half a line is at the prompt: away with it
            if not self._prompt(2.0) and not self._ended():
                raise SandboxError("the shell at the terminal shows no prompt")
        if self._ended():
            self._forget()
            self._start()
        box.channel.mark(self._number)
        line = f" eval {_quoted(command + chr(10) * 2)}" if self._bash else _SH_BEGINS + f"eval {_plain(command)}"
        if not self._bash and any(len(one.encode()) > 4000 for one in line.split("\n")):
            raise SandboxError("a line of more than 4,000 bytes needs bash in the sandbox")
        self._code, began, unread = None, time.monotonic(), len(self._unread)
        self._shown.clear()
        seconds = box.limits.seconds if timeout is None else timeout
        deadline = None if seconds is None else began + seconds
        limit = int(box.limits.output_mb * 1e6)
        self._type(line + "\r")
        timed_out = flooded = ended = False
        while True:
            self._absorb()
            flooded = len(self._shown) > limit
            if (self._code is not None and not self._typed) or flooded:
                break
            left = 0.2 if deadline is None else min(0.2, deadline - time.monotonic())
            if left <= 0:
                timed_out = True
                break
            if not self._wait(left):
                box.channel.sync()  # says so if what is shown could not be kept
            elif self._ended():
                ended = True
                break
        took = time.monotonic() - began
        if ended:
            box.channel.sync()
            self._absorb()
        shown, code = bytes(self._shown[:limit]), self._code
        if timed_out or flooded:
            code = 124 if timed_out else 137
            ended = not self._stop_command()
        if ended:
            code = self._exit_code() if not (timed_out or flooded) else code
            self._forget()
        else:
            self._prompt(0.1)
        del self._unread[unread:]
        text = shown.decode("utf-8", "replace").replace("\r\n", "\n")
        return Observation(text, code, took, timed_out, flooded, ended)

    def _stop_command(self) -> bool:
        """Ends what the command started; whether the shell goes on."""
        channel = self._inside.channel
        channel.kill(self._number, spare_marked=True)
        if self._prompt(0.3):
            return True
        self._type("\x03")  # the shell itself is in a loop
        if self._prompt(1.0):
            return True
        channel.kill(self._number, spare_marked=True, leader=True)
        return False

    def _exit_code(self) -> int | None:
        assert self._answer is not None
        ended = self._answer.wait(2)
        return ended.exit_code if ended else None

    def _forget(self) -> None:
        for fd in (self._keyboard, self._output, self._told):
            if fd >= 0:
                os.close(fd)
        self._keyboard = self._output = self._told = -1
        if self._answer:
            self._answer.close()
        self._answer = None

    def close(self) -> None:
        """Closes the terminal, as a person closes its window: the shell and its jobs get a hangup.

        What ignores it (nohup) or has a session of its own lives on.
        """
        if self._answer is None:
            return
        with contextlib.suppress(SandboxGone, SandboxError):
            channel = self._inside.channel
            channel.hang_up(self._number)
            os.close(self._keyboard)
            self._keyboard = -1
            if self._answer.wait(0.5) is None:
                channel.mark(self._number)
                channel.kill(self._number, spare_marked=True, leader=True)
        self._forget()

    def __enter__(self) -> TerminalShell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _quoted(text: str) -> str:
    """One word for bash on one line: nothing in it is a key for its line editor."""
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\x{ord(match.group()):02x}", plain) + "'"


def _plain(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
