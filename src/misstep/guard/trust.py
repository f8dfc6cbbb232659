"""Policies that come with a repository are code of somebody else: they run only as a person has seen them.

`misstep policies trust` records the hashes of a portfolio file and of every policy file it names, as they are; hooks leave
the portfolio alone as soon as one of them differs.
"""

from __future__ import annotations

import os

from ._json import dumps
from ._paths import digest, guard_home
from .session import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROJECT_FILE = ".misstep/portfolio.toml"
"""Where a repository has its portfolio."""


def record_file(portfolio: str) -> str:
    return f"{guard_home()}/trusted/{digest(portfolio.encode())}.json"


def trust(portfolio: str, files: list[str]) -> None:
    """Record a portfolio and its policy files as they are. Raises OSError."""
    kept = {"portfolio": portfolio, "files": {name: sha256(name) for name in [portfolio, *files]}}
    path = record_file(portfolio)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, dumps(kept).encode())
    finally:
        os.close(fd)
    os.rename(path + ".new", path)


def doubt(portfolio: str) -> str:
    """'' where a portfolio is trusted as it is now, else why it is not. Nothing of it is run."""
    kept = read_json(record_file(portfolio))
    known: Any = kept.get("files") if isinstance(kept, dict) else None
    if not isinstance(known, dict) or portfolio not in known:
        return f"{portfolio} is not trusted (`misstep policies trust`)"
    for name, value in known.items():
        try:
            if value != sha256(name):
                return f"{name} is not as it was when it was trusted (`misstep policies trust`)"
        except OSError as error:
            return f"{name}: {error.strerror}"
    return ""


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
