"""COPY and ADD of a Dockerfile: from its directory, or from another stage, always as a tar that is unpacked inside."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import lzma
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from misstep.sandbox import dockerfile, transfer
from misstep.sandbox.base import Root, SandboxError
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.dockerfile import Ignored, Instruction
from misstep.sandbox.users import User

_OPTIONS = {"COPY": {"from", "chown", "chmod", "link"}, "ADD": {"chown", "chmod", "link"}}
_MAGIC: list[tuple[bytes, Any]] = [(b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open)]
_MAKE_OWN = """\
p=$1 new=
while [ ! -e "$p" ] && [ "$p" != . ]; do new=$p; p=$(dirname "$p"); done
mkdir -p -- "$1" && { [ -z "$new" ] || chown -R "$2" -- "$new"; }
"""
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


class Context:
    """The directory of a Dockerfile, without what .dockerignore leaves out."""

    def __init__(self, path: Path, ignored: Ignored) -> None:
        self.path = path
        self.ignored = ignored
        self._digest = ""

    def below(self, path: Path) -> Iterator[Path]:
        """All files and directories below one, in order."""
        for one in sorted(path.iterdir()):
            name = one.relative_to(self.path).as_posix()
            if one.is_dir() and not one.is_symlink():
                if name not in self.ignored:
                    yield one
                yield from self.below(one)
            elif name not in self.ignored:
                yield one

    def digest(self) -> str:
        """Of all that could be copied."""
        if not self._digest:
            made = hashlib.sha256()
            for path in self.below(self.path):
                made.update(path.relative_to(self.path).as_posix().encode() + b"\0")
                if path.is_symlink():
                    made.update(str(path.readlink()).encode())
                elif path.is_file():
                    made.update(f"{path.stat().st_mode:o}".encode() + hashlib.sha256(path.read_bytes()).digest())
            self._digest = made.hexdigest()
        return self._digest

    def find(self, step: Instruction, name: str) -> list[Path]:
        """What a source names: a path or a pattern, within this directory."""
        clean = posixpath.normpath(name.lstrip("/")) if name.lstrip("/") else "."
        if clean.startswith(".."):
            raise step.fault(f"{name} is outside of the build's directory")
        matches = sorted(self.path.glob(clean)) if any(c in clean for c in "*?[") else [self.path / clean]
        matches = [path for path in matches if path.relative_to(self.path).as_posix() not in self.ignored]
        for path in matches:
            if not path.resolve().is_relative_to(self.path.resolve()):
                raise step.fault(f"{name} leads outside of the build's directory")
        if not matches or not all(path.exists() for path in matches):
            raise step.fault(f"{name} does not exist")
        return matches


class _Bundle:
    """A tar in the making: what is copied, with the owner and modes that the instruction gives."""

    def __init__(self, owner: User, mode: int | None) -> None:
        self._owner, self._mode = owner, mode
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the bundle)
        self._tar = tarfile.open(fileobj=self.file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def add(self, entry: tarfile.TarInfo, name: str, content: IO[bytes] | None) -> None:
        entry.name, entry.pax_headers = name, {}
        entry.uid, entry.gid, entry.uname, entry.gname = self._owner.uid, self._owner.gid, "", ""
        if self._mode is not None and not entry.issym():
            entry.mode = self._mode
        self._tar.addfile(entry, content)

    def add_path(self, path: Path, name: str) -> None:
        entry = self._tar.gettarinfo(path, name)
        if entry is None:
            return  # a socket
        if entry.islnk():  # the same file twice: each is copied
            entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
        with path.open("rb") if entry.isreg() else contextlib.nullcontext() as content:
            self.add(entry, name, content)

    def add_text(self, text: str, name: str) -> None:
        with tempfile.TemporaryFile() as content:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = content.write(text.encode("utf-8", "surrogateescape")), 0o644
            content.seek(0)
            self.add(entry, name, content)

    def add_tar(self, tar: IO[bytes], name: str | None) -> None:
        """What another tar holds; its only file under `name`, if one is given."""
        with tarfile.open(fileobj=tar, mode="r:") as other:
            for entry in other:
                shown = entry.name.removeprefix("./") if name is None else name
                if shown in ("", "."):
                    continue
                content = other.extractfile(entry) if entry.isreg() else None
                self.add(entry, shown, content)

    def finished(self) -> IO[bytes]:
        self._tar.close()
        self.file.seek(0)
        return self.file


def copy(
    box: BubblewrapSandbox,
    step: Instruction,
    context: Context,
    source: Root | None,
    workdir: str,
    values: Mapping[str, str],
    escape: str,
) -> None:
    """Does what a COPY or ADD says.

    Args:
        source: the root that it copies from (--from); None: the context.
        values: of variables.

    Raises:
        SandboxError: naming file and line.
    """

    def text(value: str) -> str:
        return dockerfile.expand(value, values, escape, step)

    options = {name: text(value) for name, value in step.options}
    for name in options:
        if name not in _OPTIONS[step.name]:
            raise step.fault(f"--{name} is not read here")
    array = dockerfile.array(step)
    written = array or dockerfile.split(step.rest, escape)
    words = [word if word.startswith("<<") and not array else text(word) for word in written]
    if len(words) < 2:
        raise step.fault("needs a source and a target")
    *names, target = words
    if any(name.startswith(("http://", "https://", "git@", "git://", "ssh://")) for name in names):
        raise step.fault("of an address: only files of the task can be added")
    whole = posixpath.join(workdir, target)
    owner, mode = _owner(box, step, options.get("chown", "")), _mode(step, options.get("chmod", ""))
    bundle = _Bundle(owner, mode)
    with contextlib.closing(bundle.file):
        documents = {document.name: document for document in step.documents} if not array else {}
        several = len(names) > 1 or target.endswith("/") or target in (".", "..", "")
        renamed = posixpath.basename(whole)
        if not several and box.exec(["test", "-d", whole], cwd="/", user="root").exit_code == 0:
            several = True
        into, file_name = (whole, None) if several else (posixpath.dirname(whole) or "/", renamed)
        with contextlib.ExitStack() as stack:
            other = stack.enter_context(BubblewrapSandbox(source)) if source is not None else None
            for name in names:
                if name.startswith("<<"):
                    document = documents[name.lstrip("<-").strip("\"'")]
                    body = document.body if document.literal else _in_document(document.body, values, escape, step)
                    bundle.add_text(body, file_name or document.name)
                elif other is not None:
                    if _from_stage(bundle, other, step, name, file_name):
                        into = whole
                elif _from_context(bundle, box, step, context, name, file_name, whole):
                    into = whole
        if owner.uid or owner.gid:  # directories that are made for it are given away as well
            given = f"{owner.uid}:{owner.gid}"
            box.exec(["/bin/sh", "-c", _MAKE_OWN, "make", into, given], cwd="/", user="root")
        try:
            transfer.unpack(box, bundle.finished(), into, " ".join(names), user="root", owners=True)
        except SandboxError as error:
            raise step.fault(str(error)) from error


def _in_document(body: str, values: Mapping[str, str], escape: str, step: Instruction) -> str:
    """Variables of a here-document; its quotes are text."""
    kept = body.replace("'", "\0s").replace('"', "\0d").replace(escape, "\0e")
    kept = kept.replace("\0e$", escape + "$")
    made = dockerfile.expand(kept, values, escape, step)
    return made.replace("\0s", "'").replace("\0d", '"').replace("\0e", escape)


def _owner(box: BubblewrapSandbox, step: Instruction, named: str) -> User:
    if not named:
        return User()
    name, _, group = named.partition(":")
    try:
        return box.who(named if group or not name.isdecimal() else f"{name}:{name}")
    except SandboxError as error:
        raise step.fault(f"--chown={named}: {error}") from error


def _mode(step: Instruction, named: str) -> int | None:
    if not named:
        return None
    try:
        return int(named, 8)
    except ValueError:
        raise step.fault(f"--chmod={named}: expected an octal number") from None


def _from_context(
    bundle: _Bundle,
    box: BubblewrapSandbox,
    step: Instruction,
    context: Context,
    name: str,
    file_name: str | None,
    whole: str,
) -> bool:
    """Adds a source; whether it is a directory's content, which goes into the target itself."""
    folder = False
    for path in context.find(step, name):
        if path.is_dir():
            folder = True
            for one in context.below(path):
                bundle.add_path(one, one.relative_to(path).as_posix())
        elif step.name == "ADD" and (archive := _archive(step, path)) is not None:
            with archive:
                transfer.unpack(box, archive, whole, path.name, user="root", owners=True)
        else:
            bundle.add_path(path.resolve(), file_name or path.name)
    return folder


def _archive(step: Instruction, path: Path) -> IO[bytes] | None:
    """A local tar, no longer compressed: ADD unpacks it. None for other files."""
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(_ZSTANDARD):
        raise step.fault(f"{path.name}: an archive compressed by zstd is not read here")
    opened = next((way(path) for magic, way in _MAGIC if start.startswith(magic)), None) or path.open("rb")
    plain = tempfile.TemporaryFile()  # noqa: SIM115 (the caller's)
    with opened:
        try:
            head = opened.read(512)
            plain.write(head)
            plain.seek(0)
            if len(head) < 512 or head[257:262] != b"ustar":
                plain.close()
                return None
            plain.seek(0, 2)
            shutil.copyfileobj(opened, plain)
        except (OSError, EOFError, lzma.LZMAError) as error:
            plain.close()
            raise step.fault(f"{path.name}: {error}") from error
    plain.seek(0)
    return plain


def _from_stage(bundle: _Bundle, other: BubblewrapSandbox, step: Instruction, name: str, file_name: str | None) -> bool:
    """As `_from_context`, from another root. The tar of its making is never unpacked on this machine."""
    pattern = "".join(c if c.isalnum() or c in "*?[]-/._" else f"\\{c}" for c in posixpath.join("/", name))
    listing = f'for p in {pattern}; do if [ -d "$p" ]; then printf "d%s\\0" "$p"; elif [ -e "$p" ]; then printf "f%s\\0" "$p"; fi; done'
    found = [row for row in other.exec(["/bin/sh", "-c", listing], cwd="/", user="root").text.split("\0") if row]
    if not found:
        raise step.fault(f"--from: {name} does not exist there")
    for row in found:
        kind, path = row[0], row[1:]
        with transfer.packed(other, path) as tar:
            bundle.add_tar(tar, None if kind == "d" else file_name or posixpath.basename(path))
    return any(row[0] == "d" for row in found)
