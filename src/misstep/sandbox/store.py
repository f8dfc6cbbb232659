"""Where sandboxes keep their files.

    DIR/bin/      the helper and bubblewrap, copied where every user of a sandbox may run them
    DIR/roots/    unpacked root file systems, by the hash of what they were made from
    DIR/run/PID-START/   one host process's: `lock` (held as long as it lives), layers and sandboxes

DIR is `$MISSTEP_SANDBOX_DIR`, else /var/lib/misstep for root (a sandbox's root is not this machine's root and cannot
enter /root) and the user's cache directory for others.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from misstep.sandbox.base import Unavailable


def directory() -> Path:
    """The directory of all sandboxes of this user; made where it is missing."""
    named = os.environ.get("MISSTEP_SANDBOX_DIR")
    if named:
        path = Path(named).absolute()
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


def sync(path: Path) -> None:
    """Writes to disk what is on the file system of a directory: what lasts must not be cut short by a crash."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)
