"""Old logs are deleted: by age, then by size, the oldest first.

`settings.json` sets the bounds: `keep_days` (90) and `keep_megabytes` (500); 0 is no bound. Hooks see to it once a day, when a
session begins, in a process that nobody waits for; `misstep guard prune` does at once. In scored runs nothing is deleted.
"""

from __future__ import annotations

import os
import time

from ._paths import faults_file, guard_home
from .choice import scored, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DAYS, MEGABYTES = 90, 500
DAY = 86400.0
LIVE = DAY
"""Seconds since its last event in which a session is never deleted for its size."""
FAULTS = 1 << 20
"""Bytes of faults.jsonl that are kept, its latest."""


def bounds(given: dict[str, Any]) -> tuple[float, float]:
    """(days, megabytes) by the settings; 0 is no bound. What is no number is the default."""
    found = []
    for name, default in (("keep_days", DAYS), ("keep_megabytes", MEGABYTES)):
        value = given.get(name, default)
        fine = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        found.append(float(value if fine else default))
    return found[0], found[1]


def sessions() -> list[tuple[float, int, str]]:
    """(time of the last event, bytes, folder) of every session, the oldest first; sub-agents count for their session."""
    found = []
    for host in _folders(f"{guard_home()}/sessions"):
        for folder in _folders(host):
            last, size = 0.0, 0
            for path in _files(folder):
                try:
                    about = os.stat(path, follow_symlinks=False)
                except OSError:
                    continue
                last, size = max(last, about.st_mtime), size + about.st_size
            found.append((last or os.stat(folder).st_mtime, size, folder))
    return sorted(found)


def due(given: dict[str, Any], now: float) -> bool:
    """Whether hooks are to see to it; if so, they have said that they do."""
    if scored(given) or bounds(given) == (0.0, 0.0):
        return False
    path = guard_home() + "/pruned"
    try:
        if abs(now - os.stat(path).st_mtime) < DAY:  # a clock may have been ahead
            return False
    except OSError:
        pass
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        os.utime(path, (now, now))
    except OSError:
        return False
    return True


def prune(days: float, megabytes: float, now: float, dry: bool = False) -> list[tuple[float, int, str]]:
    """Delete what is too old or too much; what was deleted, as `sessions` gives it. dry: only say it."""
    gone = []
    known = sessions()
    total = sum(size for _, size, _ in known)
    for last, size, folder in known:
        too_old = days and now - last > days * DAY
        too_much = megabytes and total > megabytes * 1e6 and now - last > LIVE
        if (too_old or too_much) and (dry or _delete(folder)):
            gone.append((last, size, folder))
            total -= size
    if not dry:
        _shorten(days, now)
        _sweep(now)
    return gone


def in_background() -> None:
    """See to it if it is due, in a process that nobody waits for. The caller has only one thread."""
    given = settings()
    if not due(given, time.time()):
        return
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)  # who started the hook waits for the end of its output
            for _ in range(3):
                os.open(os.devnull, os.O_RDWR)
            prune(*bounds(given), time.time())
    finally:
        os._exit(0)


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _files(folder: str) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        yield from (f"{where}/{name}" for name in names)


def _delete(folder: str) -> bool:
    """Delete a session, unless a hook is in it."""
    import fcntl

    held = []
    try:
        for path in [p for p in _files(folder) if p.endswith("/log.jsonl")]:
            held.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        for where, folders, names in os.walk(folder, topdown=False):
            for name in names:
                os.unlink(f"{where}/{name}")
            for name in folders:
                path = f"{where}/{name}"
                os.unlink(path) if os.path.islink(path) else os.rmdir(path)
        os.rmdir(folder)
        return True
    except OSError:
        return False
    finally:
        for fd in held:
            os.close(fd)


def _shorten(days: float, now: float) -> None:
    """Faults that are too old, or too many, go."""
    from .session import records_of

    path = faults_file()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        size = os.fstat(fd).st_size
        kept = records_of(os.pread, fd, max(0, size - FAULTS), size)
        young = [r for r in kept if not days or now - _time(r, now) <= days * DAY]
        whole = size <= FAULTS and len(young) == sum(1 for _ in records_of(os.pread, fd, 0, size))
    finally:
        os.close(fd)
    if whole:
        return
    from ._json import dumps

    made = f"{path}.{os.getpid()}"
    try:
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.writelines(dumps(record) + "\n" for record in young)
        os.rename(made, path)
    except OSError:
        _remove(made)


def _sweep(now: float) -> None:
    """What processes that were killed while they wrote a file have left, NAME.PID, goes."""
    for folder in (guard_home(), guard_home() + "/trusted"):
        try:
            with os.scandir(folder) as entries:
                left = [e.path for e in entries if e.name.rpartition(".")[2].isdigit()]
        except OSError:
            continue
        for path in left:
            try:
                old = now - os.stat(path, follow_symlinks=False).st_mtime > DAY
            except OSError:
                continue
            if old and not os.path.isdir(path):
                _remove(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _time(record: dict[str, Any], now: float) -> float:
    at = record.get("t")
    return float(at) if isinstance(at, (int, float)) else now
