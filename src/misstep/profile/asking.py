"""Many questions at once, each with its own failure; what another run may yet answer ends this one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from misstep.models import BudgetExceeded, InvalidAnswer, ModelError, NotCached, Rejected, Unreachable

T = TypeVar("T")
R = TypeVar("R")
KINDS: dict[type[BaseException], str] = {
    InvalidAnswer: "invalid",
    Unreachable: "unreachable",
    Rejected: "rejected",
    BudgetExceeded: "budget",
    NotCached: "offline",
}
"""Failures that are a question's own; any other error ends the run."""
FINAL = ("invalid", "rejected")
"""Those that another run would meet again: they are counted, and the work goes on without an answer."""
IN_A_ROW = 20
"""Questions that a server refuses, or leaves unanswered, one after the other: it would do so with all."""

Watch = Callable[[str, int, int | None], None]
"""Told (what is asked, questions answered, how many there are) as it goes on."""


class Stopped(Exception):
    """Not all was answered: nothing follows from a part. The same command goes on with it. The text is one line."""


class Asker(Generic[T]):
    """Asks, counts what failed, and says how far it is."""

    def __init__(self, at_once: int, watch: Watch | None = None) -> None:
        self.failures: dict[str, Counter[str]] = {}
        """What was asked -> kind of failure -> how often."""
        self.asked: Counter[str] = Counter()
        self._at_once, self._watch = at_once, watch

    async def all(
        self,
        what: str,
        items: Iterable[T],
        ask: Callable[[T], Awaitable[R]],
        keep: Callable[[T, R | None, str], Any],
        count: int | None = None,
    ) -> None:
        """Asks about every item; `keep(item, answer, failure)` is told each answer, or None and `kind: message`.

        Raises:
            Stopped: the budget is used up, or a server does not answer: after all that could be answered was kept.
        """
        todo = iter(items)
        waiting: list[str] = []
        done = row = 0
        used_up = ""

        async def worker() -> None:
            nonlocal done, row, used_up
            for item in todo:
                answer: R | None = None
                failure = ""
                try:
                    answer = await ask(item)
                except ModelError as error:
                    if type(error) not in KINDS:
                        raise
                    failure = f"{KINDS[type(error)]}: {' '.join(str(error).split())[:300]}"
                kind = failure.partition(":")[0]
                row = row + 1 if kind in ("unreachable", "rejected") else 0
                self.asked[what] += 1
                if failure:
                    self.failures.setdefault(what, Counter())[kind] += 1
                if failure and kind not in FINAL:
                    waiting.append(failure)
                else:
                    keep(item, answer, failure)
                done += 1
                if self._watch is not None:
                    self._watch(what, done, count)
                if row >= IN_A_ROW:
                    raise Stopped(f"{what}: {failure}")
                if kind == "budget":
                    used_up = failure
                if used_up:  # what the others have asked is paid for: they wait for it, and ask no more
                    return
                await asyncio.sleep(0)  # answers from the cache come without a pause

        workers = [asyncio.ensure_future(worker()) for _ in range(self._at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            with contextlib.suppress(BaseException):
                await asyncio.gather(*workers, return_exceptions=True)
        if used_up:
            raise Stopped(f"{what}: {used_up}")
        if waiting:
            raise Stopped(f"{what}: {len(waiting)} of {done} questions have no answer; the first: {waiting[0]}")

    def counted(self) -> dict[str, dict[str, int]]:
        """For a file: what was asked -> {asked, and kind of failure -> how often}."""
        return {
            what: {"asked": n, **dict(sorted(self.failures.get(what, Counter()).items()))}
            for what, n in sorted(self.asked.items())
        }
