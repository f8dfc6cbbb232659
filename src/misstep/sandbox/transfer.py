"""Files in and out, always by a tar that runs inside: the host never follows a path that a sandbox controls."""

from __future__ import annotations

import os
import posixpath
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from misstep.sandbox.base import SandboxError
from misstep.sandbox.inside import Inside

_MOST_MB = 1e6
"""Of a transfer: only the disk's room limits it."""


def pack(source: Path, into: IO[bytes], name: str) -> None:
    """Writes a tar of a file under `name`, or of what a directory holds; everything belongs to root."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(fileobj=into, mode="w") as tar:
        if source.is_dir():
            for path in sorted(source.iterdir()):
                tar.add(path, path.name, filter=owned)
        else:
            tar.add(source.resolve(), name, filter=owned)


def upload(box: Inside, source: Path, target: str, user: str | int | None = None) -> None:
    """Copies a file to the path `target`, or what a directory holds into the directory `target`."""
    if not source.exists():
        raise SandboxError(f"{source} does not exist")
    into = target if source.is_dir() else posixpath.dirname(target) or "."
    # From inside the target: a directory entry of the tar then cannot replace it.
    text = 'mkdir -p -- "$1" && cd -- "$1" && tar -xf - --no-same-owner'
    with tempfile.TemporaryFile() as file:
        pack(source, file, posixpath.basename(target))
        file.seek(0)
        words = ["/bin/sh", "-c", text, "upload", into]
        running = box.begin(words, stdin=file, user=user, timeout=3600, cwd="/", agent=False)
        try:
            done = running.wait()
        finally:
            running.close()
    if done.exit_code:
        said = done.error_text.strip().splitlines()
        raise SandboxError(f"{source} could not be copied to {target}: {said[0] if said else 'tar failed'}")


def download(box: Inside, source: str, target: Path) -> None:
    """Copies a file to the path `target`, or what a directory holds into the directory `target`.

    Links that lead out of the target, devices and pipes are refused or left out, as tarfile's data filter does.
    """
    text = 'if [ -d "$1" ]; then cd -- "$1" && tar -cf - .; else tar -chf - -C "$2" -- "$3"; fi'
    parent, name = posixpath.split(source.rstrip("/"))
    words = ["/bin/sh", "-c", text, "download", source, parent or "/", name]
    running = box.begin(words, timeout=3600, cwd="/", agent=False, output_mb=_MOST_MB)
    try:
        done = running.wait(read=False)
        if done.exit_code:
            said = done.error_text.strip().splitlines()
            raise SandboxError(f"{source} could not be copied: {said[0] if said else 'tar failed'}")
        output, start = running.output
        with os.fdopen(os.dup(output), "rb") as file:
            file.seek(start)
            _unpack(file, name, target)
    finally:
        running.close()


def _unpack(file: IO[bytes], name: str, target: Path) -> None:
    with tarfile.open(fileobj=file) as tar:
        members = tar.getmembers()
        if len(members) == 1 and members[0].name == name and members[0].isreg():
            stream = tar.extractfile(members[0])
            assert stream is not None
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_symlink():
                target.unlink()
            with target.open("wb") as out:
                shutil.copyfileobj(stream, out)
            target.chmod(members[0].mode & 0o777 | 0o600)
            return
        target.mkdir(parents=True, exist_ok=True)
        kept = [member for member in members if not member.isdev() and member.name not in (".", "./")]
        for member in kept:
            try:
                tar.extract(member, target, filter="data")
            except tarfile.FilterError:
                continue  # a link that leads outside
