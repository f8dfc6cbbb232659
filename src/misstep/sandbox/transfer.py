"""Files in and out, always by a tar that runs inside: the host never follows a path that a sandbox controls."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
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
    with tempfile.TemporaryFile() as file:
        try:
            pack(source, file, posixpath.basename(target))
        except OSError as error:
            raise SandboxError(f"{error.filename or source}: {error.strerror}") from error
        file.seek(0)
        unpack(box, file, into, str(source), user=user)


def unpack(
    box: Inside, tar: IO[bytes], into: str, name: str, *, user: str | int | None = None, owners: bool = False
) -> None:
    """Unpacks a tar into a directory inside, which is made where it is missing.

    Args:
        name: what it is, for messages.
        owners: keep the owners that it names; else all belongs to who unpacks it.
    """
    # From inside the target: a directory entry of the tar then cannot replace it.
    text = f'mkdir -p -- "$1" && cd -- "$1" && tar -xf - {"-p --numeric-owner" if owners else "--no-same-owner"}'
    words = ["/bin/sh", "-c", text, "unpack", into]
    running = box.begin(words, stdin=tar, user=user, timeout=3600, cwd="/", agent=False)
    try:
        done = running.wait()
    finally:
        running.close()
    if done.exit_code:
        said = done.error_text.strip().splitlines()
        raise SandboxError(f"{name} could not be copied to {into}: {said[0] if said else 'tar failed'}")


@contextlib.contextmanager
def packed(box: Inside, source: str) -> Iterator[IO[bytes]]:
    """A tar of a file inside, or of what a directory there holds; links that are named themselves are followed."""
    text = 'if [ -d "$1" ]; then cd -- "$1" && tar -cf - .; else tar -chf - -C "$2" -- "$3"; fi'
    parent, name = posixpath.split(source.rstrip("/"))
    words = ["/bin/sh", "-c", text, "pack", source, parent or "/", name]
    running = box.begin(words, user="root", timeout=3600, cwd="/", agent=False, output_mb=_MOST_MB)
    try:
        done = running.wait(read=False)
        if done.exit_code:
            said = done.error_text.strip().splitlines()
            raise SandboxError(f"{source} could not be copied: {said[0] if said else 'tar failed'}")
        output, start = running.output
        with os.fdopen(os.dup(output), "rb") as file:
            file.seek(start)
            yield file
    finally:
        running.close()


def download(box: Inside, source: str, target: Path) -> None:
    """Copies a file to the path `target`, or what a directory holds into the directory `target`.

    Links that lead out of the target, devices and pipes are refused or left out, as tarfile's data filter does.
    """
    with packed(box, source) as file:
        try:
            _unpack(file, posixpath.basename(source.rstrip("/")), target)
        except OSError as error:
            raise SandboxError(f"{error.filename or target}: {error.strerror}") from error


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
