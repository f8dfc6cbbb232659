"""The client: from a question to a validated answer, paid for once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from misstep.models import structured
from misstep.models.budget import Budget, Hold
from misstep.models.cache import Cache
from misstep.models.errors import Busy, InvalidAnswer, NotCached, Rejected, Unreachable
from misstep.models.prices import estimate, price_known
from misstep.models.request import CHARACTERS_PER_TOKEN, Answered, Message, Request, conversation
from misstep.models.settings import Role, Settings, SettingsError

if TYPE_CHECKING:
    from types import TracebackType

    from pydantic import BaseModel

    from misstep.models.direct import Direct
    from misstep.models.provider import Provider

T = TypeVar("T")
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the first further try, doubled at each; and what it never goes beyond."""


_NOTHING = Hold(0, 0.0)


@dataclass(frozen=True)
class Reply(Generic[T]):
    """An answer that counts."""

    value: T
    """The validated answer; the text itself where no form was asked for."""
    text: str
    answers: tuple[Answered, ...]
    """All calls that led to it: the first, and each repair."""
    cached: bool
    """Every one of them came from the cache."""

    @property
    def last(self) -> Answered:
        """The call that gave the answer."""
        return self.answers[-1]

    @property
    def usd(self) -> float:
        """What it cost when it was paid for."""
        return sum(answer.usd or 0.0 for answer in self.answers)


class Client:
    """All model calls of a run. Use it in one event loop."""

    def __init__(
        self, settings: Settings, cache: Cache, *, offline: bool = False, first_wait: float = FIRST_WAIT
    ) -> None:
        """Raises SettingsError where a budget in money meets a model without a price, CacheError, ImportError."""
        self.settings, self.cache, self.offline = settings, cache, offline
        self._first_wait, self._spread = first_wait, random.Random()
        self.budget = Budget(settings.usd, settings.tokens, cache.spent())
        self.hits = 0
        """Calls answered by the cache."""
        self._providers: dict[str, Provider | Direct] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._flying: dict[str, asyncio.Future[Answered]] = {}
        if settings.usd is not None and not offline:
            self._prices()

    def _prices(self) -> None:
        for name, role in self.settings.roles.items():
            if not price_known(role):
                raise SettingsError(f"roles.{name}: no price is known for {role.model}: a budget in usd needs price")

    @classmethod
    def open(cls, settings: Settings, folder: Path, *, offline: bool = False) -> Client:
        """A client whose cache is `models.sqlite` in that folder. Raises as the class does."""
        return cls(settings, Cache(folder / "models.sqlite"), offline=offline)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for provider in self._providers.values():
            await provider.close()
        self._providers.clear()
        self.cache.close()

    async def ask(
        self,
        role: str,
        messages: Sequence[Message],
        form: type[T] | None = None,
        *,
        check: Callable[[T], str | None] | None = None,
        sample: int = 0,
    ) -> Reply[T]:
        """Asks the model of a role.

        form: a pydantic model of the answer, None for free text. check: what is wrong with a valid form, in words for the
        model, None where nothing is. sample: another number is another draw of the same question.

        Raises:
            InvalidAnswer: not in the form asked for, after all repairs.
            Unreachable, Rejected, BudgetExceeded, NotCached, CacheError: there is no answer.
            SettingsError: the role has no model.
        """
        given = self.settings.role(role)
        schema = None if form is None else _schema(cast("type[BaseModel]", form))
        asked = list(conversation(messages))
        if schema is not None and given.structured == "text":
            asked[-1] = replace(asked[-1], text=f"{asked[-1].text}\n\n{structured.asked(schema)}")
        answers: list[Answered] = []
        hits = 0
        while True:
            request = Request(given.model, tuple(asked), schema, given.structured, given.sampling(), sample)
            answer, hit = await self._answer(role, given, request)
            answers.append(answer)
            hits += hit
            value, problem = _read(answer, form, check)
            if problem is None:
                return Reply(cast("T", value), answer.text, tuple(answers), hits == len(answers))
            if len(answers) > given.repairs:
                texts = tuple(one.text for one in answers)
                raise InvalidAnswer(f"{role} ({given.model}) gave no valid answer: {problem}", texts)
            asked += structured.repair(answer.text, problem)

    async def _answer(self, role: str, given: Role, request: Request) -> tuple[Answered, bool]:
        key = request.key
        kept = self.cache.get(key)
        if kept is not None:
            self.hits += 1
            return kept, True
        while (flying := self._flying.get(key)) is not None:  # the same question is on its way
            await asyncio.wait([flying])
            if not flying.cancelled():
                return flying.result(), True
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._flying[key] = future
        try:
            answer = await self._call(role, given, request, key)
        except BaseException as error:
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()  # nobody need wait for it
            else:
                future.cancel()
            raise
        else:
            future.set_result(answer)
            return answer, False
        finally:
            del self._flying[key]

    async def _call(self, role: str, given: Role, request: Request, key: str) -> Answered:
        if self.offline:
            raise NotCached(f"offline, and the cache has no answer of {given.model} to this question of the {role}")
        provider = self._providers.get(role)
        if provider is None:
            provider = self._providers[role] = _provider(given)
        tokens = round(request.characters() / CHARACTERS_PER_TOKEN)
        hold = Hold(tokens + given.max_tokens, estimate(given, tokens, given.max_tokens))
        charged = Hold(tokens, estimate(given, tokens, 0))
        slot = self._slots.setdefault(role, asyncio.Semaphore(given.concurrency))
        tried = 0
        while True:
            tried += 1
            answer, spent = None, _NOTHING
            await slot.acquire()
            try:
                await self.budget.hold(hold)
            except BaseException:
                slot.release()
                raise
            try:
                try:
                    answer = await provider.call(request)
                finally:
                    slot.release()
                return await self._paid(role, request, key, answer)
            except Busy as error:
                if error.sent:
                    spent = charged
                self.cache.failed(role, given.model, key, str(error)[:200], spent.tokens, spent.usd, 0.0)
                busy = error
            except Rejected as error:
                self.cache.failed(role, given.model, key, str(error)[:200], 0, 0.0, 0.0)
                raise
            except asyncio.CancelledError:
                if answer is None:
                    spent = charged
                    with contextlib.suppress(Exception):
                        self.cache.failed(role, given.model, key, "called off", spent.tokens, spent.usd, 0.0)
                raise
            finally:
                if answer is not None:
                    spent = Hold(answer.input_tokens + answer.output_tokens, answer.usd)
                self.budget.settle(hold, spent.tokens, spent.usd)
            if tried > given.retries:
                raise Unreachable(f"{role} ({given.model}): {busy} ({tried} tries)")
            await asyncio.sleep(self._wait(tried, busy.after))

    async def _paid(self, role: str, request: Request, key: str, answer: Answered) -> Answered:
        """Keeps an answer. The questions that waited for its slot are sent first: many answers may come at once."""
        try:
            for _ in range(2):  # who waits wakes in the next round of the loop, and sends in it
                await asyncio.sleep(0)
        finally:
            self.cache.put(role, request, key, answer)
        return answer

    def _wait(self, tried: int, asked: float | None) -> float:
        """Seconds before the next try: what the server asks for, else doubling; spread, so that callers do not come at once."""
        grown = min(LONGEST_WAIT, self._first_wait * 2.0 ** (tried - 1)) * self._spread.uniform(0.5, 1.0)
        return grown if asked is None else min(LONGEST_WAIT, max(asked, 0.0)) + grown / 10


def _provider(role: Role) -> Provider | Direct:
    if role.provider == "openai" and role.base_url and not role.sdk:
        from misstep.models.direct import Direct

        return Direct(role)
    from misstep.models.provider import Provider

    return Provider(role)


@cache
def _schema(form: type[BaseModel]) -> dict[str, Any]:
    return form.model_json_schema()


def _read(answer: Answered, form: type[T] | None, check: Callable[[T], str | None] | None) -> tuple[Any, str | None]:
    value: Any = answer.text
    if form is not None:
        try:
            value = structured.parse(answer.text, cast("type[BaseModel]", form))
        except ValueError as error:
            cut = "it was cut off at the limit of tokens; be shorter. " if answer.finish == "length" else ""
            return None, cut + str(error)
    problem = check(value) if check is not None else None
    return value, problem
