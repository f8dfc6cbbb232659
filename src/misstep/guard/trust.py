"""Policies that come with a repository are code of somebody else: they run only as a person has seen them.

`misstep policies trust` records the hash of every file in the repository's folder of policies (`.misstep`), whatever it is:
a policy may import or read any of them. Hooks leave the portfolio alone as soon as one of them differs, is gone, or is new.
A policy whose file lies elsewhere, and a link that leads elsewhere, are not trusted.
Compiled code (`__pycache__`) is not hashed, because it is not used: see `use`.
"""

from __future__ import annotations

import os
import sys

from ._paths import digest, guard_home
from .session import read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROJECT_FILE = ".misstep/portfolio.toml"
"""Where a repository has its portfolio."""
MOST_FILES, MOST_BYTES = 1000, 16 << 20
"""Of a folder of policies: hooks hash it at each call."""
VERSION = 2
COMMAND = "misstep policies trust"


class TrustError(Exception):
    """A folder of policies that cannot be trusted, with the reason in one line."""


def record_file(portfolio: str) -> str:
    return f"{guard_home()}/trusted/{digest(portfolio.encode())}.json"


def trust(portfolio: str) -> list[str]:
    """Record the folder of a portfolio as it is now; its files. Raises TrustError or OSError."""
    from pathlib import Path

    from .freeze import files_of

    folder = os.path.realpath(os.path.dirname(portfolio))
    for file in files_of(Path(portfolio)):
        if not f"{file}".startswith(folder + "/"):
            raise TrustError(f"{portfolio}: {file} is outside {folder}: what is trusted is that folder, with all in it")
    found = hashes(folder)
    write_json(record_file(portfolio), {"v": VERSION, "portfolio": portfolio, "files": found})
    return [f"{folder}/{name}" for name in found]


def revoke(portfolio: str) -> bool:
    """Trust a portfolio no more; whether it was. Raises OSError."""
    try:
        os.unlink(record_file(portfolio))
    except FileNotFoundError:
        return False
    return True


def hashes(folder: str) -> dict[str, str]:
    """Path within a folder -> the hash of what is there, of every file. Raises TrustError or OSError."""
    found: dict[str, str] = {}
    size = 0
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        with os.scandir(f"{folder}/{inner}") as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            name = inner + entry.name
            if entry.is_symlink():
                if not os.path.realpath(entry.path).startswith(folder + "/"):
                    raise TrustError(f"{folder}/{name} is a link that leads out of the folder")
                found[name] = "link: " + os.readlink(entry.path)
            elif entry.is_dir():
                waiting.append(name + "/")
            elif not (inner.endswith("__pycache__/") and name.endswith(".pyc")):
                if not entry.is_file():
                    raise TrustError(f"{folder}/{name} is no file")
                size += entry.stat().st_size
                if len(found) >= MOST_FILES or size > MOST_BYTES:
                    raise TrustError(f"{folder} holds more than {MOST_FILES} files or {MOST_BYTES >> 20} MB")
                found[name] = sha256(entry.path)
    return found


def doubt(portfolio: str) -> str:
    """'' where a portfolio is trusted as it is now, else why it is not, and what to do. Nothing of it is run."""
    state, why = state_of(portfolio)
    return "" if state == "trusted" else f"{why} (`{command(portfolio)}`)"


def command(portfolio: str) -> str:
    """What a person runs to trust a repository's policies as they are now."""
    import shlex

    return f"{COMMAND} {shlex.quote(os.path.dirname(os.path.dirname(portfolio)))}"


def state_of(portfolio: str) -> tuple[str, str]:
    """(trusted | changed | untrusted, why)"""
    kept = read_json(record_file(portfolio))
    known: Any = kept.get("files") if isinstance(kept, dict) and kept.get("v") == VERSION else None
    if not isinstance(known, dict):
        return "untrusted", f"{portfolio} is not trusted"
    folder = os.path.realpath(os.path.dirname(portfolio))
    try:
        now = hashes(folder)
    except TrustError as error:
        return "changed", str(error)
    except OSError as error:
        return "changed", f"{error.filename or folder}: {error.strerror}"
    for name in sorted(known.keys() | now.keys()):
        if known.get(name) != now.get(name):
            how = "is gone" if name not in now else "is new" if name not in known else "changed"
            return "changed", f"{folder}/{name} {how} since it was trusted"
    return "trusted", ""


def use() -> None:
    """Before policies of a repository run: code that Python has compiled is neither read nor written beside them."""
    sys.pycache_prefix = guard_home() + "/pycache"


def project_portfolio(cwd: str) -> str:
    """The portfolio file of the repository that a folder is in, '' where it has none."""
    folder = cwd
    for _ in range(12):
        if not folder.startswith("/") or folder == "/":
            return ""
        path = f"{folder}/{PROJECT_FILE}"
        if os.path.isfile(path):
            return path
        folder = folder.rpartition("/")[0]
    return ""


def sha256(path: str) -> str:
    """The hash of a file's bytes."""
    try:
        from _sha2 import sha256 as hashed  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from hashlib import sha256 as hashed
    with open(path, "rb") as file:
        return hashed(file.read()).hexdigest()
