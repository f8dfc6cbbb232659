"""Making the questions in a process of its own: reading and rendering trajectories never keeps an answer waiting.

The process is started here and ends with this one: it writes what it makes into a pipe, and its next write fails when nobody
reads there any more.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_CHUNK, _LEAST = 16, 32
"""Items that are sent together; below how many the next are fetched."""


class Apart(Generic[T]):
    """The items of an iterator that another process runs through, in order."""

    def __init__(self, make: Callable[..., Iterator[T]], *args: Any, result: Any = None) -> None:
        """make(*args) is called there; result: one of the args, handed back as it is there at the end."""
        # fork starts at once, and is safe where nothing else runs in this process.
        alone = sys.platform.startswith("linux") and threading.active_count() == 1
        context: Any = multiprocessing.get_context("fork" if alone else "spawn")
        self._pipe, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(theirs, alone, make, args, result), daemon=True)
        self._process.start()
        theirs.close()
        self._items: deque[T] = deque()
        self._fetching: asyncio.Future[Any] | None = None
        self._ended = False
        self.result: Any = None
        """Known when `take` has given None."""

    async def take(self) -> T | None:
        """The next item, None at the end.

        Raises:
            RuntimeError: what went wrong there.
        """
        while not self._items:
            if self._ended:
                return None
            self._fetch()
            assert self._fetching is not None
            await asyncio.wait([self._fetching])
            self._fetched()
        item = self._items.popleft()
        if len(self._items) < _LEAST and not self._ended:
            self._fetched()
            self._fetch()
        return item

    def _fetch(self) -> None:
        if self._fetching is None and not self._ended:
            self._fetching = asyncio.get_running_loop().run_in_executor(None, self._pipe.recv_bytes)

    def _fetched(self) -> None:
        if self._fetching is None or not self._fetching.done():
            return
        done, self._fetching = self._fetching, None
        try:
            items, error, ended, result = pickle.loads(done.result())
        except (EOFError, OSError):
            self._ended = True
            raise RuntimeError("the process that reads trajectories was ended (out of memory?)") from None
        self._items += items
        if ended:
            self._ended, self.result = True, result
        if error:
            raise RuntimeError(error)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._ended = True
        with suppress(OSError):
            self._process.kill()
        self._process.join()
        if self._fetching is None or self._fetching.done():
            self._pipe.close()


def _work(
    pipe: Connection, forked: bool, make: Callable[..., Iterator[Any]], args: tuple[Any, ...], result: Any
) -> None:
    if forked:  # what the other process has open, and locked, is its own
        os.closerange(3, pipe.fileno())
        os.closerange(pipe.fileno() + 1, os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 4096)
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is the other process's to answer
    chunk: list[Any] = []

    def send(error: str = "", ended: bool = False) -> None:
        pipe.send_bytes(pickle.dumps((chunk, error, ended, result if ended else None), pickle.HIGHEST_PROTOCOL))
        chunk.clear()

    try:
        for item in make(*args):
            chunk.append(item)
            if len(chunk) >= _CHUNK:
                send()
        send(ended=True)
    except BrokenPipeError:
        return
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        with suppress(OSError):
            send(text + (f"\n{traceback.format_exc()}" if os.environ.get("MISSTEP_DEBUG") else ""), ended=True)
