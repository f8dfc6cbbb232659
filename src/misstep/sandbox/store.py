"""Where sandboxes keep their files, and what collects those of a host process that was killed.

    DIR/bin/      the helper and bubblewrap, copied where every user of a sandbox may run them
    DIR/roots/    unpacked root file systems, by the hash of what they were made from
    DIR/run/PID-START/   one host process's: `lock` (held as long as it lives), layers and sandboxes

DIR is `$MISSTEP_SANDBOX_DIR`, else /var/lib/misstep for root (a sandbox's root is not this machine's root and cannot
enter /root) and the user's cache directory for others.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
import stat
import subprocess
import time
from pathlib import Path

from misstep.sandbox import cgroups
from misstep.sandbox.base import Unavailable


def directory() -> Path:
    """The directory of all sandboxes of this user; made where it is missing."""
    named = os.environ.get("MISSTEP_SANDBOX_DIR")
    if named:
        path = Path(named)
    elif os.geteuid() == 0:
        path = Path("/var/lib/misstep")
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "misstep" / "sandbox"
    try:
        for folder in (path, path / "bin", path / "roots", path / "run"):
            folder.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                folder.chmod(0o711)
    except OSError as error:
        raise Unavailable(f"sandboxes cannot be kept in {path} ({error.strerror}): set MISSTEP_SANDBOX_DIR") from error
    if os.geteuid() == 0:
        closed = next((above for above in path.resolve().parents if not above.stat().st_mode & 0o001), None)
        if closed is not None:  # root inside is nobody here
            raise Unavailable(
                f"{path} cannot be entered by a sandbox ({closed} is closed to others): set MISSTEP_SANDBOX_DIR"
            )
    return path


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


def sync(path: Path) -> None:
    """Writes to disk what is on the file system of a directory: what lasts must not be cut short by a crash."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)


_as_mapped_root: list[tuple[list[str], list[int]]] = []


def remove_with(command: list[str], fds: list[int]) -> None:
    """Sets the start of a command that can remove what this user cannot: files of users that only a sandbox has."""
    _as_mapped_root[:] = [(command, fds)]


def remove(path: Path) -> None:
    """Removes a tree, whatever modes and owners a sandbox left in it."""
    with contextlib.suppress(FileNotFoundError):
        work = path / "work" / "work"  # overlayfs leaves it without any permission
        with contextlib.suppress(OSError):
            work.rmdir()
        try:
            shutil.rmtree(path)
            return
        except NotADirectoryError:
            path.unlink()
            return
        except PermissionError:
            pass
        _open_up(path)
        try:
            shutil.rmtree(path)
        except PermissionError:
            if not _as_mapped_root:
                raise
            command, fds = _as_mapped_root[0]
            subprocess.run([*command, "rm", "-rf", "--", str(path)], check=False, pass_fds=fds, capture_output=True)
            shutil.rmtree(path, ignore_errors=True)


def _open_up(path: Path) -> None:
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(inner.lstat().st_mode):
                    inner.chmod(0o700)
