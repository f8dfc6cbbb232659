"""The resident daemon: one process that does the hooks' work, so that each hook is little more than a bare interpreter.

It is optional, and nothing is lost with it: a hook that cannot reach it does the work itself. It holds no state of its own,
and ends when a source has changed, when nobody has asked for half an hour, or when another daemon has taken its place.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress

from . import run
from ._paths import guard_home, make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IDLE = 1800.0
"""Seconds without a question after which it ends."""
_KEPT = ("MISSTEP_", "XDG_STATE_HOME", "HOME")


def socket_path() -> str:
    return guard_home() + "/daemon"


def serve(idle: float = IDLE) -> None:
    """Answer hooks until there is a reason to end. Raises OSError where the socket cannot be made."""
    from . import choice, engine, hosts, portfolio, trust, watch

    os.umask(0o077)
    for name in hosts.NAMES:
        hosts.host(name)
    with suppress(portfolio.PortfolioError):
        for rule in choice.load_from(choice.Source(), {}).rules:  # the catalogue's: a user's own may do anything
            with suppress(Exception):
                portfolio.module_of(rule.module)
    assert engine and trust and watch  # loaded, so that no question waits for them
    path = socket_path()
    make_folder(guard_home())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"{path}.{os.getpid()}")
        listener.listen(512)
        os.rename(f"{path}.{os.getpid()}", path)
        mine = os.stat(path).st_ino
        listener.settimeout(10.0)
        sources, last = _stamps(), time.monotonic()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(null, fd)
        while True:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if time.monotonic() - last > idle or not _is(path, mine):
                    break
                continue
            with connection:
                if _changed(sources):
                    break  # unanswered: the hook does it, with what is there now
                with suppress(OSError, ValueError):
                    _answer(connection)
            with suppress(OSError):
                run.tidy()
                sources.update(_stamps(sources))
            last = time.monotonic()
        if _is(path, mine):
            os.unlink(path)


def _answer(connection: socket.socket) -> None:
    connection.settimeout(5.0)
    with connection.makefile("rb") as given:
        head, size = map(int, given.readline(64).split())
        if head > 1 << 20 or size > run.LARGEST:
            return
        words = given.read(head).split(b"\0")
        data = given.read(size)
    if len(data) != size:
        return
    for name in [n for n in os.environ if n.startswith(_KEPT)]:
        del os.environ[name]
    for word in words[1:]:
        variable, _, value = word.partition(b"=")
        os.environ[os.fsdecode(variable)] = os.fsdecode(value)
    done = []

    def logged() -> None:
        done.append(True)
        with suppress(OSError):
            connection.sendall(b"L")

    said = run.answer(words[0].decode("ascii", "replace"), data, logged, alone=True)
    connection.sendall((b"" if done else b"L") + said.encode() + b"E")


def _is(path: str, inode: int) -> bool:
    try:
        return os.stat(path).st_ino == inode
    except OSError:
        return False


def _stamps(known: dict[str, Any] | None = None) -> dict[str, tuple[int, int]]:
    """(time, size) of the sources of what is loaded, those that are not known yet."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.startswith("misstep") and path not in (known or ()):
            with suppress(OSError):
                about = os.stat(path)
                found[path] = (about.st_mtime_ns, about.st_size)
    return found


def _changed(sources: dict[str, tuple[int, int]]) -> bool:
    for path, stamp in sources.items():
        try:
            about = os.stat(path)
        except OSError:
            return True
        if (about.st_mtime_ns, about.st_size) != stamp:
            return True
    return False


def start() -> int:
    """Start a daemon that outlives this process; its process id."""
    import subprocess

    code = f"import sys; sys.path.append({str(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))!r}); from misstep.guard.daemon import serve; serve()"
    return subprocess.Popen(
        [getattr(sys, "_base_executable", None) or sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    ).pid


__all__ = ["serve", "socket_path", "start"]
