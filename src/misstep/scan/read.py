"""Read and judge units: one at a time here, or many in worker processes."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .encode import encode
from .units import Unit

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

Found = dict[str, Any]
"""What a unit gave: {"records": [record], "reason": why nothing or not all could be read (or null)}; a record's
`path` is relative to the unit, '' where it is the unit itself."""

IN_LINE = 16 << 20
"""Bytes up to which worker processes cost more than they save."""
METHOD = ""
"""How worker processes are started; '' for what is safe."""
_BATCH_BYTES, _BATCH_UNITS = 2 << 20, 16
_COLLECT_AFTER = 64 << 20

_read_since_collect = 0


def read_unit(path: str, strict: bool = False) -> Found:
    """Read one unit and judge its trajectories. Raises nothing but what `strict` lets through (for debugging)."""
    from misstep.catalogue import missteps
    from misstep.trajectory.readers import Unreadable, read

    from .record import record_of
    from .run import READER_FAILED

    records: list[dict[str, Any]] = []
    reason = None
    chosen = [m for m in missteps() if m.status != "retired"]
    # Transcripts are large trees without cycles: the collector finds nothing in them and costs a fifth of the time.
    was_on = gc.isenabled()
    gc.disable()
    try:
        for number, trajectory in enumerate(read(path)):
            record = record_of(trajectory, chosen, strict)
            records.append({"kind": "trajectory", "path": _below(path, trajectory.path), "n": number, **record})
    except Unreadable as error:
        reason = str(error).removeprefix(f"{path}: ")
    except MemoryError:
        reason = "too large for this machine's memory"
    except Exception as error:
        if strict:
            raise
        reason = f"{READER_FAILED}: {type(error).__name__}: {error}"[:300]
    finally:
        if was_on:
            gc.enable()
    _collect(path)
    return {"records": records, "reason": reason}


def _below(unit: str, path: str) -> str:
    if path == unit or not path:
        return ""
    return path[len(unit) + 1 :] if path.startswith(unit + os.sep) else path


def _collect(path: str) -> None:
    """Now and then, collect by hand: what cycles there are must not grow over many files."""
    global _read_since_collect
    try:
        _read_since_collect += os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return
    if _read_since_collect > _COLLECT_AFTER:
        _read_since_collect = 0
        gc.collect()


def read_all(units: Sequence[Unit], workers: int, strict: bool = False) -> Iterator[tuple[Unit, Found]]:
    """The findings of the units, in any order.

    With one worker, or little to read, this process reads them. A worker that dies (out of memory) costs the one
    unit it was reading; that one is reported.
    """
    if workers <= 1 or len(units) < 2 or sum(map(_size, units)) <= IN_LINE:
        for unit in units:
            yield unit, read_unit(unit.path, strict)
        return
    todo = deque(_batches(units))
    while todo:
        left: list[list[Unit]] = []
        yield from _pooled(todo, min(workers, len(todo)), strict, left)
        if not left:
            return
        for batch in left:
            for unit in batch:
                yield unit, _alone(unit, strict)


def _size(unit: Unit) -> int:
    return unit.state[0] if unit.state else 0


def _batches(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """The largest first, so that no worker is left alone with one at the end; small ones together."""
    batch: list[Unit] = []
    size = 0
    for unit in sorted(units, key=_size, reverse=True):
        batch.append(unit)
        size += _size(unit)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_UNITS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _pool(workers: int) -> ProcessPoolExecutor:
    import multiprocessing
    import threading
    from concurrent.futures import ProcessPoolExecutor

    # fork starts at once, and is safe where nothing else runs in this process.
    alone = sys.platform.startswith("linux") and threading.active_count() == 1
    context = multiprocessing.get_context(METHOD or ("fork" if alone else "spawn"))
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)


def _begin_worker() -> None:
    """An interruption is the main process's to answer; so are the signals that it cleans up after."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_workers() -> None:
    """Nobody waits for what they read."""
    import multiprocessing

    for child in multiprocessing.active_children():
        child.terminate()


def _read_batch(paths: list[str], strict: bool) -> list[bytes]:
    return [encode(read_unit(path, strict)) for path in paths]


def _pooled(
    todo: deque[list[Unit]], workers: int, strict: bool, left: list[list[Unit]]
) -> Iterator[tuple[Unit, Found]]:
    """Work on batches until there are none; those that a dying pool leaves go to `left`."""
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    waiting: dict[Future[list[bytes]], list[Unit]] = {}
    pool = _pool(workers)
    try:
        while todo or waiting:
            while todo and len(waiting) < workers * 3:
                batch = todo.popleft()
                try:
                    waiting[pool.submit(_read_batch, [unit.path for unit in batch], strict)] = batch
                except BrokenProcessPool:
                    todo.appendleft(batch)
                    break
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            broken = not done
            for future in done:
                batch = waiting.pop(future)
                try:
                    results = future.result()
                except BrokenProcessPool:
                    left.append(batch)
                    broken = True
                    continue
                for unit, found in zip(batch, results, strict=True):
                    yield unit, json.loads(found)
            if broken:
                left += waiting.values()
                return
    except BaseException:  # interrupted, ended, or the consumer goes away
        _end_workers()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _alone(unit: Unit, strict: bool) -> Found:
    """Read one unit in a process of its own."""
    from concurrent.futures.process import BrokenProcessPool

    with _pool(1) as pool:
        try:
            return json.loads(pool.submit(_read_batch, [unit.path], strict).result()[0])
        except BrokenProcessPool:
            return {"records": [], "reason": "the process that read it was ended (out of memory?)"}
