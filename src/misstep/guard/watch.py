"""Whose code a hook process was running when it ended.

A policy of the user's own may end the process (`os._exit`, a crash), and with it all the others, without a word. So its name
is written down while it runs. A name that is found by the next hook has ended a process; at the second time after one another
it is put aside. (Once may be chance: a host ends a hook, a machine is switched off.)
"""

from __future__ import annotations

import os
import posix
import sys

from .portfolio import Watch

STRIKES = 2
"""Processes that may end in a policy's code before it is put aside."""
_EXIT = posix._exit


class Left(BaseException):
    """A policy wanted to end the process. Not an Exception: its own handlers shall not swallow it."""


class Marked(Watch):
    """A watch that outlives the process, in one file of a session's folder. To be used under the session's lock."""

    __slots__ = ("_fd", "_modules", "_path", "_pid", "_strikes")

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._fd = -1
        self._strikes: dict[str, int] = {}
        self._pid = os.getpid()
        self._modules: set[str] | None = None
        self._path: list[str] = []
        try:
            self._fd = os.open(folder + "/asking", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            count, _, name = os.pread(self._fd, 4096, 0).decode("utf-8", "replace").partition(" ")
        except OSError:
            return
        if name and count.isdigit():
            self._strikes[name] = int(count)
            if int(count) >= STRIKES:
                self.aside[name] = f"{name}: the process ended in its code, {count} times after one another"

    def alone(self) -> None:
        """The process is ours: `os._exit` in a policy's code is an error of that policy, and what it imports stays its own."""
        self._modules, self._path = set(sys.modules), list(sys.path)
        os._exit = posix._exit = self._leave  # type: ignore[assignment]

    def _leave(self, status: int = 0) -> None:
        if self.asking and os.getpid() == self._pid:  # not in a child of the policy's
            raise Left(f"it ends the process (status {status})")
        _EXIT(status)

    def begin(self, name: str, file: str) -> None:
        self.asking = name
        if file and self._fd >= 0:
            try:
                os.pwrite(self._fd, f"{self._strikes.get(name, 0) + 1} {name}".encode("utf-8", "replace"), 0)
            except OSError:
                pass

    def end(self) -> None:
        if os.getpid() != self._pid:  # a child that the policy left behind: what it would do is done by its parent
            _EXIT(0)
        self.asking = ""
        if self._fd >= 0:
            try:
                os.ftruncate(self._fd, 0)
            except OSError:
                pass

    def condemn(self) -> None:
        if self._fd >= 0:
            self._strikes[self.asking] = STRIKES - 1
            self.begin(self.asking, self.asking)

    def close(self) -> None:
        """Everybody whose code ran came back."""
        os._exit = posix._exit = _EXIT
        if self._modules is not None:
            _forget(self._modules)
            sys.path[:] = self._path
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _forget(known: set[str]) -> None:
    """Forget modules that are neither the standard library's nor ours.

    The next question may be about policies of another repository, with other modules of the same names; and an image must
    not hold what was trusted once.
    """
    library = os.path.dirname(os.__file__) + "/"
    for name in [n for n in sys.modules if n not in known and not n.startswith("misstep.")]:
        path = getattr(sys.modules[name], "__file__", None)
        if isinstance(path, str) and not path.startswith(library):
            del sys.modules[name]
