"""Many rollouts, one batch: a policy that answers several at once, asked by rollouts one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from misstep.train.episode import BatchPolicy, Generated


@runtime_checkable
class Gathering(Protocol):
    """A policy that wants to know how many rollouts are under way: it need not wait for more of them than there are."""

    def enter(self) -> None: ...

    def leave(self) -> None: ...


@dataclass(slots=True, eq=False)
class _Asked:
    prompt: list[int]
    max_tokens: int
    stop: tuple[int, ...]
    answer: asyncio.Future[Generated]


class Batched:
    """A `Policy` over a `BatchPolicy`.

    A batch goes off when it is full, when every rollout under way waits for it, or `wait` seconds after its first question.
    With `wait` None it always waits for all: batches are then the same in every run, whatever commands take. Prompts are
    put in an order of their own, so that who asked first decides nothing.
    """

    def __init__(self, inner: BatchPolicy, *, most: int = 64, wait: float | None = 0.02) -> None:
        self.inner, self.most, self.wait = inner, most, wait
        self.batches = self.answers = 0
        self._live = 0
        self._asked: list[_Asked] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker = ThreadPoolExecutor(1, "policy")

    def enter(self) -> None:
        """A rollout begins to ask."""
        self._live += 1

    def leave(self) -> None:
        """A rollout asks no more."""
        self._live -= 1
        self._look()

    async def generate(self, prompt_ids: Sequence[int], *, max_tokens: int, stop: Sequence[int] = ()) -> Generated:
        """Its part of a batch."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what a loop that broke off left behind belongs to nobody
            self._loop, self._asked, self._timer = loop, [], None
        asked = _Asked(list(prompt_ids), max_tokens, tuple(stop), loop.create_future())
        self._asked.append(asked)
        if self._timer is None and self.wait is not None:
            self._timer = loop.call_later(self.wait, self._go)
        self._look()
        try:
            return await asked.answer
        except asyncio.CancelledError:
            if asked in self._asked:
                self._asked.remove(asked)
            raise

    def _look(self) -> None:
        if self._asked and (len(self._asked) >= self.most or len(self._asked) >= self._live > 0):
            self._go()
        elif self._asked and self._live == 0 and self.wait is None:
            self._go()  # nobody said that rollouts are under way

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ready = sorted(self._asked[: self.most], key=lambda one: one.prompt)
        self._asked = self._asked[self.most :]
        for stop in sorted({one.stop for one in ready}):
            batch = [one for one in ready if one.stop == stop]
            task = asyncio.get_running_loop().create_task(self._answer(batch, stop))
            self._tasks.add(task)  # the loop itself would not keep it
            task.add_done_callback(self._tasks.discard)
        if self._asked and self.wait is not None:
            self._timer = asyncio.get_running_loop().call_later(self.wait, self._go)

    async def _answer(self, batch: list[_Asked], stop: tuple[int, ...]) -> None:
        loop = asyncio.get_running_loop()
        self.batches += 1
        self.answers += len(batch)

        def work() -> Sequence[Generated]:
            return self.inner.generate_batch(
                [one.prompt for one in batch], max_tokens=[one.max_tokens for one in batch], stop=stop
            )

        try:
            made = await loop.run_in_executor(self._worker, work)
            if len(made) != len(batch):
                raise ValueError(f"{len(made)} answers to {len(batch)} prompts")
        except Exception as error:
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        for one, answer in zip(batch, made, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)

    def close(self) -> None:
        """Ends its thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)
