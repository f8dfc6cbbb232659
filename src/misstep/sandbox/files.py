"""Files of sandboxes on this machine: made for their users, measured, and removed whatever they left in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from misstep.sandbox import native


def own_directory(path: Path) -> None:
    """Makes a directory that belongs to the root of sandboxes."""
    path.mkdir()
    path.chmod(0o755)
    if os.geteuid() == 0:
        space = native.user_namespace()
        os.chown(path, space.outer_uid, space.outer_gid)


def as_root_inside(command: Sequence[str], *, stdin: IO[bytes] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Runs a command as the root of sandboxes, outside of any: what it makes has the owners that they see."""
    tools, space = native.tools(), native.user_namespace()
    return subprocess.run(
        [tools.helper_path, "launch", "--userns", str(space.fd), "--", *command],
        pass_fds=[tools.helper, space.fd],
        stdin=stdin or subprocess.DEVNULL,
        capture_output=True,
    )


def disk_bytes(path: Path) -> int:
    """What a tree takes on disk, in bytes."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in (".", *files):
            with contextlib.suppress(OSError):
                total += Path(folder, name).lstat().st_blocks * 512
    return total


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
        except PermissionError:  # files of users that only a sandbox has
            as_root_inside(["rm", "-rf", "--", str(path)])
            shutil.rmtree(path, ignore_errors=True)


def _open_up(path: Path) -> None:
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(inner.lstat().st_mode):
                    inner.chmod(0o700)
