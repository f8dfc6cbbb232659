"""One host process's part of the store, and what collects the parts of those that were killed."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import secrets
import threading
import time
import weakref
from pathlib import Path
from typing import Protocol

from misstep.sandbox import cgroups, store
from misstep.sandbox.files import remove


class Stoppable(Protocol):
    """What has to be stopped before this process ends."""

    def stop(self) -> None: ...


living: weakref.WeakSet[Stoppable] = weakref.WeakSet()
"""The sandboxes of this process that run."""


class Owner:
    """The part of one host process: a locked directory; the lock goes with the process, however it ends."""

    def __init__(self, base: Path) -> None:
        self.pid = os.getpid()
        self.base = base
        self.path = base / "run" / f"{self.pid}-{secrets.token_hex(3)}"
        self.path.mkdir()
        self.path.chmod(0o711)
        made = self.path / "new"
        self._lock = os.open(made, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.path / "lock")  # it appears locked: nobody can take this for a dead process's

    def fresh(self, kind: str) -> Path:
        """A new, empty directory; short, since all layers of a mount share one page for their names."""
        while True:
            path = self.path / (kind + secrets.token_hex(4))
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                path.chmod(0o711)
                return path

    def close(self) -> None:
        """Removes the directory, if this is still the process that made it."""
        if self.pid == os.getpid():
            remove(self.path)
            os.close(self._lock)


_owner: Owner | None = None
_lock = threading.Lock()


def owner() -> Owner:
    """This process's part of the store. The first call collects what killed processes left."""
    global _owner
    with _lock:
        if _owner is None or _owner.pid != os.getpid():
            base = store.directory()
            collect(base)
            _owner = Owner(base)
            atexit.register(_at_exit, _owner)
        return _owner


def _at_exit(mine: Owner) -> None:
    if mine.pid == os.getpid():
        for sandbox in list(living):
            sandbox.stop()
        mine.close()


def collect(base: Path) -> int:
    """Removes what host processes left that no longer live: their directories and cgroups. Returns how many did."""
    found = 0
    for path in (base / "run").iterdir():
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            if not _recent(path):
                remove(path)
            continue  # just being made, or being removed by another
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)  # its process lives
            continue
        try:
            remove(path)
            found += 1
        finally:
            os.close(lock)
    cgroups.collect()
    return found


def _recent(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < 600
    except OSError:
        return True
