"""Scored runs use a lock, and only while every source is as it was locked.

At a session's first event every source is hashed. At later events their times and sizes are looked at, and they are hashed
again only where one has changed.
"""

from __future__ import annotations

import os

from ._paths import digest, guard_home
from .session import read_json, write_json


def unlocked(path: str, thorough: bool) -> str:
    """Why a portfolio is not one that a scored run may use, '' where it is.

    thorough: hash every source, whatever is known of it.
    """
    locked = read_json(path) if path and not path.endswith(".toml") else None
    if not isinstance(locked, dict) or "lock" not in locked:
        return f"a scored run needs a lock, not {path or 'the catalogue as it is'}"
    kept = f"{guard_home()}/lock-{digest(path.encode())}.json"
    if not thorough:
        known = read_json(kept)
        if isinstance(known, dict) and known and all(_stamp(name) == stamp for name, stamp in known.items()):
            return ""
    from .freeze import sources, verify

    try:
        names = [path, *map(str, sources(locked).values())]
        stamps = {
            name: _stamp(name) for name in names
        }  # before they are hashed: what changes meanwhile is seen next time
        wrong = verify(locked)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return f"{path}: not a lock ({type(error).__name__}: {error})"
    if not wrong:
        try:
            write_json(kept, stamps)
        except OSError:
            pass
    return wrong


def _stamp(path: str) -> list[int]:
    try:
        about = os.stat(path)
    except OSError:
        return []
    return [about.st_mtime_ns, about.st_ctime_ns, about.st_size]


def fingerprint(path: str) -> str:
    """SHA-256 of a lock's bytes, '' where it cannot be read: by this a panel knows which portfolio its hooks had."""
    from pathlib import Path

    from .freeze import sha256

    try:
        return sha256(Path(path)) if path else ""
    except OSError:
        return ""
