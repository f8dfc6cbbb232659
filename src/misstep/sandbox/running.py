"""One command that runs in a sandbox: its output files, its limits, its end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from misstep.sandbox.base import Done, SandboxError
from misstep.sandbox.channel import Answer, Channel, Ended, NotStarted

if TYPE_CHECKING:
    from misstep.sandbox.base import Limits


class Running:
    """A command that has been started.

    Args:
        number: the sandbox's own for it.
        program, folder: what runs and where: for messages.
        outputs: files of its standard output and error; the same one where they are merged.
        starts: how much was in each before it began.
        source: the file that it reads, or None.
        keep: takes back an output file that nothing writes to any more; what it holds is overlooked.
    """

    def __init__(
        self,
        channel: Channel,
        number: int,
        answer: Answer,
        program: str,
        folder: str,
        outputs: tuple[int, int],
        starts: dict[int, int],
        source: int | None,
        limits: Limits,
        timeout: float | None,
        keep: Callable[[int], None] = os.close,
    ) -> None:
        self._channel, self._number, self._answer = channel, number, answer
        self._program, self._folder = program, folder
        self._outputs, self._source, self._keep = outputs, source, keep
        self._starts = starts
        self._free = False
        self._limit = int(limits.output_mb * 1e6)
        self._timed_out = self._flooded = False
        self._began = time.monotonic()
        seconds = limits.seconds if timeout is None else timeout
        self._deadline = None if seconds is None else self._began + seconds

    @property
    def output(self) -> tuple[int, int]:
        """The file of its standard output, and where in it that begins."""
        return self._outputs[0], self._starts[self._outputs[0]]

    def _written(self) -> int:
        return sum(os.fstat(fd).st_size - start for fd, start in self._starts.items())

    def wait(self, *, read: bool = True) -> Done:
        """Waits for its end, or ends it at its limits.

        Args:
            read: whether the result has the standard output; else it stays in its file.

        Raises:
            SandboxGone: the sandbox ended first.
            SandboxError: the program or its directory is not there.
        """
        try:
            return self._wait(read)
        except NotStarted as error:
            raise error.about(self._program, self._folder) from error

    def _wait(self, read: bool) -> Done:
        pause, ended = 0.02, None
        while ended is None:
            ended = self._answer.wait(self._pause(pause))
            pause = min(pause * 2, 0.2)
            if ended is None and self._over():
                ended = self._end()
        return self._done(ended, read)

    async def finish(self, *, read: bool = True) -> Done:
        """`wait` for an event loop, without a thread of its own; closes it. Called off, the command is ended first.

        Raises: as `wait`.
        """
        loop = asyncio.get_running_loop()
        try:
            pause, ended = 0.02, None
            while ended is None:
                told = asyncio.Event()
                loop.add_reader(self._answer.fileno(), told.set)
                try:
                    async with asyncio.timeout(self._pause(pause)):
                        await told.wait()
                except TimeoutError:
                    pass
                finally:
                    loop.remove_reader(self._answer.fileno())
                ended = self._answer.wait(0)
                pause = min(pause * 2, 0.2)
                if ended is None and self._over():
                    ended = await asyncio.to_thread(self._end)
            return self._done(ended, read)
        except NotStarted as error:
            raise error.about(self._program, self._folder) from error
        except asyncio.CancelledError:
            await asyncio.to_thread(self._end)
            raise
        finally:
            self.close()

    def _pause(self, pause: float) -> float:
        return pause if self._deadline is None else max(0.0, min(pause, self._deadline - time.monotonic()))

    def _over(self) -> bool:
        """Whether it has come to one of its limits."""
        self._flooded = self._written() > self._limit
        self._timed_out = self._deadline is not None and time.monotonic() >= self._deadline
        return self._flooded or self._timed_out

    def _end(self) -> Ended:
        self.kill()
        ended = self._answer.wait(10)
        if ended is None:
            raise SandboxError("a command outlived its end: it is stuck in the kernel")
        return ended

    def _done(self, ended: Ended, read: bool) -> Done:
        out, err = self._outputs
        self._free = not ended.written_to
        flooded = self._flooded or self._written() > self._limit
        return Done(
            self._read(out) if read else b"",
            b"" if err == out else self._read(err),
            124 if self._timed_out else ended.exit_code,
            time.monotonic() - self._began,
            self._timed_out,
            flooded,
            ended.cpu_seconds,
        )

    def _read(self, fd: int) -> bytes:
        start = self._starts[fd]
        return os.pread(fd, min(self._limit, os.fstat(fd).st_size - start), start)

    def kill(self) -> None:
        """Ends everything that it started."""
        self._channel.kill(self._number)

    def close(self) -> None:
        self._answer.close()
        for fd in self._starts:
            (self._keep if self._free else os.close)(fd)
        if self._source is not None:
            os.close(self._source)
