"""Files in and out, always by a tar that runs inside: the host never follows a path that a sandbox controls."""

from __future__ import annotations

import io
import posixpath
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from misstep.sandbox.base import SandboxError

if TYPE_CHECKING:
    from misstep.sandbox.bubblewrap import BubblewrapSandbox


def pack(source: Path, name: str | None = None) -> bytes:
    """A tar of a file under `name`, or of what a directory holds; everything belongs to root."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        if source.is_dir():
            for path in sorted(source.iterdir()):
                tar.add(path, path.name, filter=owned)
        else:
            tar.add(source.resolve(), name or source.name, filter=owned)
    return made.getvalue()


def upload(box: BubblewrapSandbox, source: Path, target: str, user: str | int | None = None) -> None:
    """Copies a file to the path `target`, or what a directory holds into the directory `target`."""
    if not source.exists():
        raise SandboxError(f"{source} does not exist")
    into = target if source.is_dir() else posixpath.dirname(target) or "."
    data = pack(source, posixpath.basename(target))
    # From inside the target: a directory entry of the tar then cannot replace it.
    text = 'mkdir -p -- "$1" && cd -- "$1" && tar -xf - --no-same-owner'
    done = box.exec(["/bin/sh", "-c", text, "upload", into], stdin=data, user=user, timeout=600, cwd="/", agent=False)
    if done.exit_code:
        said = done.error_text.strip().splitlines()
        raise SandboxError(f"{source} could not be copied to {target}: {said[0] if said else 'tar failed'}")


def download(box: BubblewrapSandbox, source: str, target: Path) -> None:
    """Copies a file to the path `target`, or what a directory holds into the directory `target`.

    Links that lead out of the target, devices and pipes are refused or left out, as tarfile's data filter does.
    """
    text = 'if [ -d "$1" ]; then cd -- "$1" && tar -cf - .; else tar -chf - -C "$2" -- "$3"; fi'
    parent, name = posixpath.split(source.rstrip("/"))
    words = ["/bin/sh", "-c", text, "download", source, parent or "/", name]
    done = box.exec(words, timeout=600, cwd="/", agent=False)
    if done.flooded:
        raise SandboxError(f"{source} is larger than the limit of output ({box.limits.output_mb} MB)")
    if done.exit_code:
        said = done.error_text.strip().splitlines()
        raise SandboxError(f"{source} could not be copied: {said[0] if said else 'tar failed'}")
    with tarfile.open(fileobj=io.BytesIO(done.output)) as tar:
        members = tar.getmembers()
        if len(members) == 1 and members[0].name == name and members[0].isreg():
            stream = tar.extractfile(members[0])
            assert stream is not None
            target.parent.mkdir(parents=True, exist_ok=True)
            data = stream.read()
            if target.is_symlink():
                target.unlink()
            target.write_bytes(data)
            target.chmod(members[0].mode & 0o777 | 0o600)
            return
        target.mkdir(parents=True, exist_ok=True)
        kept = [member for member in members if not member.isdev() and member.name not in (".", "./")]
        for member in kept:
            try:
                tar.extract(member, target, filter="data")
            except tarfile.FilterError:
                continue  # a link that leads outside
