"""A host's files, read and replaced whole; and what an installation has to remember to give them back byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from . import jsonc
from ._paths import digest, guard_home, make_folder

MARK = "misstep/guard/hook.py"
"""By which our entries are known."""


class InstallError(Exception):
    """A configuration that cannot be edited, with the file's name."""


def blamed(error: OSError, path: Path) -> str:
    """What an error is about: not the file that could not be made, but what stands in the way of it."""
    place = Path(os.path.abspath(error.filename)) if isinstance(error.filename, str) else path
    for above in (place, *place.parents):
        if os.path.lexists(above):
            if above != path and not above.is_dir():
                return f"{above} is no folder"
            if above != place and not os.access(above, os.W_OK | os.X_OK):
                return f"{above}: {error.strerror or error}"
            break
    return f"{place}: {error.strerror or error}"


def read_only(path: Path) -> bool:
    """Whether a file's owner may not write it. By its mode: root may write all, and a rename asks no file."""
    try:
        return not path.stat().st_mode & 0o200 or not os.access(path, os.W_OK)
    except OSError:
        return False


def bytes_of(path: Path) -> bytes | None:
    try:
        if path.exists() and not path.is_file():
            raise InstallError(f"{path} is no file")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(blamed(error, path)) from None


def text_of(path: Path, data: bytes | None) -> str:
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        raise InstallError(f"{path}: not UTF-8") from None
    return text if text.strip("\ufeff \t\r\n") else "{}\n"


def hooks_of(text: str, odd: bool = False) -> dict[str, Any]:
    """The hooks of a settings file. Raises jsonc.JsoncError where the file is no object, or (unless odd) its hooks are none."""
    found = jsonc.parse(text).plain()
    if not isinstance(found, dict):
        raise jsonc.JsoncError("the file is no object")
    hooks = found.get("hooks", {})
    if isinstance(hooks, dict):
        return hooks
    if odd:
        return {}
    raise jsonc.JsoncError(f"hooks is {'null' if hooks is None else 'no object'}, where an object is expected")


def replace(path: Path, data: bytes | None, mode: int | None = None) -> None:
    # A settings file is often a link into a repository of dotfiles: the file it points to is the one to replace.
    path = Path(os.path.realpath(path))
    if data is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        about = path.stat()
    except OSError:
        about = None
    if mode is None:
        mode = 0o600 if about is None else about.st_mode & 0o777
    made = path.with_name(f"{path.name}.{os.getpid()}.new")
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
            if about is not None and (about.st_uid, about.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):
                    os.fchown(out.fileno(), about.st_uid, about.st_gid)
            os.fchmod(out.fileno(), mode)
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


# -- the record of an installation ---------------------------------------------------------------------------------------


def _record(path: Path) -> Path:
    return Path(guard_home()) / "installs" / f"{digest(str(path).encode())}.json"


def remember(target: Path, before: bytes | None, after: bytes | None) -> list[Callable[[], None]]:
    """Keep the file as it was, and the hash of what we make of it. A second installation keeps the first one's original.

    Makes the folders that are missing. Returns the steps that undo all this, the last one first to be taken.
    """
    record = _record(target)
    original = before
    known, exact = original_of(target, before or b"")
    had = had_of(target)
    if exact or had is None or MARK.encode() not in (before or b""):
        had = _containers(known if exact else original)
    if exact:
        original = known
    made = [*_missing(record.parent), *_missing(Path(os.path.realpath(target)).parent)]
    kept = {
        "path": str(target),
        "before": None if original is None else original.decode("latin-1"),
        "after": hashlib.sha256(after or b"").hexdigest(),
        "had": sorted(had),
        "folders": [*_folders(record), *made],
    }
    undo: list[Callable[[], None]] = [partial(_prune, made)]
    try:
        make_folder(str(record.parent))
        for folder in made:
            os.makedirs(folder, exist_ok=True)
        undo.append(partial(replace, record, bytes_of(record)))
        replace(record, json.dumps(kept).encode(), 0o600)
    except BaseException:
        for step in reversed(undo):
            with suppress(OSError):
                step()
        raise
    return undo


def _missing(folder: Path) -> list[str]:
    """The folders on a path that are not there yet, the outermost first."""
    return [str(above) for above in reversed((folder, *folder.parents)) if not os.path.lexists(above)]


def _folders(record: Path) -> list[str]:
    """The folders that the guard made for this file, and for its own state: a later record knows what an earlier one made."""
    found: list[str] = []
    for path in sorted(record.parent.glob("*.json")):
        try:
            kept = json.loads(path.read_text())["folders"]
            mine = path == record
            found += [f for f in kept if mine or str(record).startswith(f"{f}/")]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return list(dict.fromkeys(found))


def _prune(folders: list[str]) -> None:
    """Remove those of the folders that are empty."""
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(OSError):
            os.rmdir(folder)


def forget(path: Path) -> None:
    """The file is as a person wants it: what was kept for it goes, with the folders that were made for it."""
    record = _record(path)
    if record.exists():
        made = _folders(record)
        with suppress(OSError):
            record.unlink()
        _prune([*made, str(record.parent)])


def _containers(data: bytes | None) -> set[str]:
    """The keys of `hooks` in a file that no entry of ours needs, "" for `hooks` itself: what stays when it is empty."""
    try:
        found = jsonc.parse(text_of(Path(), data)).plain()
    except (jsonc.JsoncError, InstallError):
        return set()  # a file of another kind
    hooks = found.get("hooks") if isinstance(found, dict) else None
    return {"", *hooks} if isinstance(hooks, dict) else set()


def had_of(path: Path) -> set[str] | None:
    """What `_containers` said of the file before the guard; None where that is not known."""
    try:
        kept = json.loads(_record(path).read_text())
        if "had" in kept:
            return {str(key) for key in kept["had"]}
        before = kept["before"]
        return _containers(None if before is None else before.encode("latin-1"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def original_of(path: Path, now: bytes) -> tuple[bytes | None, bool]:
    """The file as it was before the guard, and whether it is as the guard left it."""
    try:
        kept = json.loads(_record(path).read_text())
        if kept["after"] != hashlib.sha256(now).hexdigest():
            return None, False
        before = kept["before"]
        return (None if before is None else before.encode("latin-1")), True
    except (OSError, ValueError, KeyError, TypeError):
        return None, False
