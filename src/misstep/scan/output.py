"""The files that a scan writes: complete or not at all, and never over something that misstep did not write."""

# ruff: noqa: PTH105, PTH108, PTH110, PTH113, PTH116, PTH118, PTH123
# (pathlib takes as long to load as a tenth of a second scan)
from __future__ import annotations

import contextlib
import os
import stat
import sys

from .result import SCHEMA, BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

MARKS = {
    "--json": f'{{"kind":"header","schema":"{SCHEMA.split("/")[0]}/'.encode(),
    "--html": b'<!doctype html>\n<html lang="en">\n<head>\n<meta name="generator" content="misstep scan ',
}
"""What a file that misstep wrote with this option begins with."""
_OWN = {f"{name}{n}": n for n in (1, 2) for name in ("/dev/fd/", "/proc/self/fd/")} | {
    "/dev/stdout": 1,
    "/dev/stderr": 2,
}


def is_stdout(name: str | None) -> bool:
    """Whether the name means standard output."""
    return name is not None and _own(name) == 1


def check(targets: Iterable[tuple[str, str | None]], inputs: Iterable[str]) -> None:
    """Refuse (option, file name) pairs that would destroy something, or could not be written. Raises BadInput."""
    inputs = list(inputs)
    known: list[tuple[str, str]] = []
    for option, name in targets:
        if name is None:
            continue
        if not name:
            raise BadInput(f"{option} needs a file's name")
        for other, earlier in known:
            if _same(name, earlier):
                raise BadInput(f"{name}: given for both {other} and {option}: name two files")
        known.append((option, name))
        if _own(name):
            continue
        for path in inputs:
            if _same(name, path):
                raise BadInput(f"{name}: is one of the inputs, {option} would destroy it: name another file")
        try:
            _refuse(option, name)
        except OSError as error:
            raise unwritable(name, error) from error


def _own(name: str) -> int | None:
    """The descriptor of this process that the name means: 1, 2, or None."""
    return 1 if name == "-" else _OWN.get(name)


def _same(one: str, other: str) -> bool:
    """Whether two names lead to one file, existing or not. Devices may be named twice."""
    if _own(one) or _own(other):
        return _own(one) == _own(other)
    try:
        info = os.stat(one)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
    try:
        return stat.S_ISREG(info.st_mode) and os.path.samestat(info, os.stat(other))
    except OSError:
        return False


def _refuse(option: str, name: str) -> None:
    try:
        info = os.stat(name)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(info.st_mode):
        return
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(info, os.fstat(number)):
                raise BadInput(f"{name}: the terminal's output goes there too: {option} needs a file of its own")
    if not info.st_mode & 0o222 or not os.access(name, os.W_OK):
        raise BadInput(f"{name}: cannot be written: it is read-only")
    with open(name, "rb") as file:
        if info.st_size and not file.read(200).startswith(MARKS[option]):
            raise BadInput(f"{name}: is there already, and not from {option}: name another file, or remove it first")


def unwritable(name: str, error: OSError) -> BadInput:
    """What to say of a file that could not be written."""
    return BadInput(f"{name}: cannot be written: {error.strerror or error}")


@contextlib.contextmanager
def output(name: str | None) -> Iterator[IO[bytes] | None]:
    """A file that appears only when it is complete, readable by its owner alone; links are followed. Fails before the scan,
    not after it."""
    if name is None:
        yield None
        return
    if _own(name):
        stream = sys.stderr if _own(name) == 2 else sys.stdout
        stream.flush()
        yield stream.buffer
        stream.buffer.flush()
        return
    real = os.path.realpath(name)
    try:
        if os.path.exists(real) and not os.path.isfile(real):
            file = open(name, "wb")  # noqa: SIM115 (closed below)
            beside = ""
        else:
            folder, base = os.path.split(real)
            beside = os.path.join(folder, f".{base[:200]}.{os.getpid()}.part")
            file = os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb")
    except OSError as error:
        raise unwritable(name, error) from error
    try:
        yield file
        try:
            file.close()
            if beside:
                os.replace(beside, real)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(name, error) from error
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        if beside:
            with contextlib.suppress(OSError):
                os.unlink(beside)
        raise
