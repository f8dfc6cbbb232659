"""The client against a scripted server: nothing lost, nothing paid twice, nothing guessed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("pydantic_ai", reason="misstep[models] is not installed")
from pydantic import BaseModel

from misstep.models import (
    BudgetExceeded,
    Cache,
    Client,
    InvalidAnswer,
    Message,
    NotCached,
    Rejected,
    Settings,
    SettingsError,
    Unreachable,
)

from .server import Fault, Server


class Verdict(BaseModel):
    verdict: Literal["good", "bad"]
    why: str


GOOD = json.dumps({"verdict": "good", "why": "it looks first"})


SDK = False


@pytest.fixture(params=[False, True], ids=["direct", "sdk"], autouse=True)
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An OpenAI-compatible server is asked directly, or through the SDK: nobody can tell."""
    monkeypatch.setitem(globals(), "SDK", request.param)


def settings(server: Server, **more: object) -> Settings:
    role = {"model": "openai:m", "base_url": server.url, "price": {"input": 1.0, "output": 2.0}, "sdk": SDK, **more}
    budget = {name: role.pop(name) for name in ("usd", "tokens") if name in role}
    return Settings.from_plain({"roles": {"judge": role}, "budget": budget})


def client(server: Server, folder: Path, **more: object) -> Client:
    offline = bool(more.pop("offline", False))
    return Client(settings(server, **more), Cache(folder / "models.sqlite"), offline=offline, first_wait=0.005)


def said(text: str) -> list[Message]:
    return [Message("system", "You judge one step."), Message("user", text)]


async def ask(client: Client, text: str, **more: object):  # type: ignore[no-untyped-def]
    return await client.ask("judge", said(text), Verdict, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("structured", ["schema", "tool", "text"])
def test_an_answer_is_validated_and_kept(tmp_path: Path, structured: str) -> None:
    async def work() -> None:
        async with client(server, tmp_path, structured=structured) as one:
            first = await ask(one, "step 1")
            again = await ask(one, "step 1")
        assert first.value == Verdict(verdict="good", why="it looks first")
        assert not first.cached
        assert again.cached
        assert (again.value, again.text) == (first.value, first.text)
        assert first.usd == pytest.approx((first.last.input_tokens + 2 * first.last.output_tokens) / 1e6)

    with Server(lambda prompt, number: GOOD) as server:
        asyncio.run(work())
    assert sum(server.served.values()) == 1
    (body,) = server.bodies
    assert ("response_format" in body) == (structured == "schema")
    assert ("tools" in body) == (structured == "tool")
    assert ("JSON schema" in body["messages"][-1]["content"]) == (structured == "text")


@pytest.mark.parametrize("provider", ["anthropic", "google"])
def test_the_other_providers_protocols(tmp_path: Path, provider: str) -> None:
    async def work() -> None:
        url = server.url.removesuffix("/v1")
        one = Client(
            settings(server, model=f"{provider}:m", base_url=url, structured="text"), Cache(tmp_path / "c.sqlite")
        )
        async with one:
            found = await ask(one, "step 1")
        assert found.value.verdict == "good"
        assert found.last.output_tokens > 0

    with Server(lambda prompt, number: GOOD) as server:
        asyncio.run(work())


def test_a_wrong_form_is_repaired_by_what_was_wrong(tmp_path: Path) -> None:
    def rule(prompt: str, number: int) -> str:
        if prompt.startswith("That answer cannot be used"):
            return f"Here it is:\n```json\n{GOOD}\n```"
        return '{"verdict": "fine", "why": "?"}'

    async def work() -> None:
        async with client(server, tmp_path) as one:
            found = await ask(one, "step 1")
            assert found.value.verdict == "good"
            assert len(found.answers) == 2
            assert (await ask(one, "step 1")).cached

    with Server(rule) as server:
        asyncio.run(work())
    assert len(server.bodies) == 2
    repair = server.bodies[1]["messages"]
    assert [m["role"] for m in repair] == ["system", "user", "assistant", "user"]
    assert "verdict: Input should be 'good' or 'bad'" in repair[-1]["content"]


@pytest.mark.parametrize("answer", ["no idea", '{"verdict":"good"}', "[]", '{"verdict":"go', "{" * 3000, ""])
def test_an_answer_that_stays_wrong_is_a_failure(tmp_path: Path, answer: str) -> None:
    async def work() -> None:
        async with client(server, tmp_path, structured="text", repairs=2) as one:
            for _ in range(2):  # the second time from the cache
                with pytest.raises(InvalidAnswer, match=r"judge .* gave no valid answer") as caught:
                    await ask(one, "step 1")
                assert len(caught.value.texts) == 3

    with Server(lambda prompt, number: answer) as server:
        asyncio.run(work())
    assert sum(server.served.values()) == 3


def test_a_check_of_ones_own(tmp_path: Path) -> None:
    async def work() -> None:
        async with client(server, tmp_path, repairs=1) as one:
            found = await ask(one, "step", check=lambda v: None if v.why == "because" else "why is not 'because'")
            assert found.value.why == "because"

    because = GOOD.replace("it looks first", "because")
    with Server(lambda prompt, number: because if "why is not" in prompt else GOOD) as server:
        asyncio.run(work())


FAULTS = [
    Fault(status=429, after="0"), Fault(status=500), Fault(status=503), Fault(status=529), Fault("garbage"), Fault("page"),
    Fault("cut"), Fault("silent"),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.kind or str(f.status))
def test_a_fault_is_tried_again(tmp_path: Path, fault: Fault) -> None:
    async def work() -> None:
        async with client(server, tmp_path, timeout=0.3) as one:
            assert (await ask(one, "step 1")).value.verdict == "good"

    with Server(lambda prompt, number: fault if number < 2 else GOOD) as server:
        asyncio.run(work())
    assert sum(server.served.values()) == 1
    assert len(server.bodies) == 3


def test_a_server_that_stays_broken(tmp_path: Path) -> None:
    async def work() -> None:
        async with client(server, tmp_path, retries=2) as one:
            with pytest.raises(Unreachable, match=r"judge \(openai:m\): .*500.*\(3 tries\)"):
                await ask(one, "step 1")

    with Server(lambda prompt, number: Fault(status=500)) as server:
        asyncio.run(work())


@pytest.mark.parametrize("status", [400, 401, 403, 404, 402])
def test_what_would_be_refused_again_is_not_tried_again(tmp_path: Path, status: int) -> None:
    async def work() -> None:
        async with client(server, tmp_path) as one:
            with pytest.raises(Rejected, match="planted"):
                await ask(one, "step 1")

    with Server(lambda prompt, number: Fault(status=status)) as server:
        asyncio.run(work())
    assert len(server.bodies) == 1


def test_no_server(tmp_path: Path) -> None:
    async def work(one: Client) -> None:
        with pytest.raises(Unreachable):
            await ask(one, "step 1")

    with Server(lambda prompt, number: GOOD) as server:
        pass
    asyncio.run(work(client(server, tmp_path, retries=1)))


def test_a_storm_of_faults_loses_nothing_and_pays_once(tmp_path: Path) -> None:
    draw = random.Random(7)
    plan = {f"step {n}": [draw.choice(FAULTS[:7]) for _ in range(draw.choice([0, 0, 1, 2, 3]))] for n in range(200)}

    def rule(prompt: str, number: int) -> str | Fault:
        faults = plan[prompt]
        return faults[number] if number < len(faults) else GOOD.replace("it looks first", prompt)

    async def work() -> None:
        async with client(server, tmp_path, concurrency=16, timeout=5) as one:
            found = await asyncio.gather(*[ask(one, text) for text in [*plan, *plan]])
            assert [reply.value.why for reply in found] == [*plan, *plan]
            spent = one.budget.spent
            assert one.cache.spent() == spent

    with Server(rule, delay=0.002) as server:
        asyncio.run(work())
    assert set(server.served.values()) == {1}
    assert len(server.served) == 200
    assert 2 < server.busiest <= 16


def test_samples_are_other_draws(tmp_path: Path) -> None:
    async def work() -> None:
        async with client(server, tmp_path) as one:
            found = [(await ask(one, "step", sample=n)).text for n in (0, 1, 0)]
        assert found[0] == found[2] != found[1]

    with Server(lambda prompt, number: GOOD.replace("first", str(number))) as server:
        asyncio.run(work())


class TestBudget:
    def test_it_is_never_passed(self, tmp_path: Path) -> None:
        """Whatever is asked at once: what was spent stays below the limit, and a rerun does not begin anew."""

        async def work() -> int:
            async with client(server, tmp_path, usd=0.004, max_tokens=100, concurrency=16) as one:
                asked = [ask(one, f"step {n}") for n in range(200)]
                found = await asyncio.gather(*asked, return_exceptions=True)
                assert one.budget.spent.usd <= 0.004
                refused = [e for e in found if isinstance(e, BudgetExceeded)]
                assert len(refused) + sum(not isinstance(e, BaseException) for e in found) == 200
                assert "of $0.004" in str(refused[0])
                return len(refused)

        with Server(lambda prompt, number: GOOD, delay=0.001) as server:
            first = asyncio.run(work())
            paid = sum(server.served.values())
            assert 0 < first < 200
            assert asyncio.run(work()) == first
        assert sum(server.served.values()) == paid == 200 - first

    def test_tokens(self, tmp_path: Path) -> None:
        async def work() -> None:
            async with client(server, tmp_path, tokens=1000, max_tokens=100) as one:
                with pytest.raises(BudgetExceeded, match="of 1,000 tokens"):
                    for n in range(50):
                        await ask(one, f"step {n}")
                assert 500 < one.budget.spent.tokens <= 1000

        with Server(lambda prompt, number: GOOD) as server:
            asyncio.run(work())

    def test_a_call_that_may_have_been_charged_counts(self, tmp_path: Path) -> None:
        async def work() -> None:
            async with client(server, tmp_path, retries=0, timeout=0.2) as one:
                with pytest.raises(Unreachable):
                    await ask(one, "step 1")
                assert one.budget.spent.tokens > 0
                assert one.cache.spent() == one.budget.spent

        with Server(lambda prompt, number: Fault("silent")) as server:
            asyncio.run(work())

    def test_money_needs_prices(self, tmp_path: Path) -> None:
        given = {"roles": {"judge": {"model": "openai:m", "base_url": "http://127.0.0.1:9/v1"}}, "budget": {"usd": 1}}
        with pytest.raises(SettingsError, match=r"roles\.judge: no price is known for openai:m"):
            Client(Settings.from_plain(given), Cache(tmp_path / "c.sqlite"))

    def test_a_listed_price(self, tmp_path: Path) -> None:
        from misstep.models.prices import estimate, price_known

        role = Settings.from_plain({"default": {"model": "openai:gpt-4o"}}).role("judge")
        assert price_known(role)
        assert estimate(role, 1_000_000, 0) == pytest.approx(2.5)


def test_offline_takes_what_is_there_and_asks_nobody(tmp_path: Path) -> None:
    async def work() -> None:
        async with client(server, tmp_path) as one:
            await ask(one, "step 1")
        async with client(server, tmp_path, offline=True) as one:
            assert (await ask(one, "step 1")).cached
            with pytest.raises(NotCached):
                await ask(one, "step 2")

    with Server(lambda prompt, number: GOOD) as server:
        asyncio.run(work())
    assert len(server.bodies) == 1


def test_a_question_called_off_does_not_call_off_its_twin(tmp_path: Path) -> None:
    async def work() -> None:
        async with client(server, tmp_path) as one:
            first = asyncio.create_task(ask(one, "step 1"))
            await asyncio.sleep(0.05)
            twin = asyncio.create_task(ask(one, "step 1"))
            await asyncio.sleep(0.02)
            first.cancel()
            assert (await twin).value.verdict == "good"
            with pytest.raises(asyncio.CancelledError):
                await first

    with Server(lambda prompt, number: GOOD, delay=0.2) as server:
        asyncio.run(work())


KILLED = """
import asyncio, sys
from pathlib import Path
from pydantic import BaseModel
from misstep.models import Cache, Client, Message, Settings

class Verdict(BaseModel):
    verdict: str
    why: str

async def work():
    settings = Settings.from_plain({"roles": {"judge": {"model": "openai:m", "base_url": sys.argv[1], "concurrency": 4}}})
    async with Client(settings, Cache(Path(sys.argv[2]))) as one:
        async def ask(n):
            reply = await one.ask("judge", [Message("user", f"step {n}")], Verdict)
            print(n, reply.value.why, flush=True)
        await asyncio.gather(*[ask(n) for n in range(60)])
asyncio.run(work())
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    """Only what was in flight at a kill, at most four calls, may be asked again."""
    draw, seen, kills = random.Random(3), set(), 0
    with Server(lambda prompt, number: GOOD.replace("it looks first", prompt), delay=0.02) as server:
        for _ in range(12):
            run = subprocess.Popen(
                [sys.executable, "-c", KILLED, server.url, str(tmp_path / "c.sqlite")],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert run.stdout is not None
            first = run.stdout.readline()
            time.sleep(draw.random() * 0.1)
            if run.poll() is None:
                os.kill(run.pid, signal.SIGKILL)
                kills += 1
            seen |= set((first + run.stdout.read()).splitlines())
            run.wait()
            if {f"{n} step {n}" for n in range(60)} <= seen and run.returncode == 0:
                break
        done = subprocess.run(
            [sys.executable, "-c", KILLED, server.url, str(tmp_path / "c.sqlite")], capture_output=True, text=True
        )
    assert sorted(done.stdout.splitlines()) == sorted(f"{n} step {n}" for n in range(60))
    assert kills >= 2
    assert len(server.served) == 60
    assert sum(server.served.values()) <= 60 + 4 * kills


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    from misstep.models import CacheError

    (tmp_path / "c.sqlite").write_text("something else entirely, and long enough to be looked at" * 20)
    with pytest.raises(CacheError, match=r"c\.sqlite: file is not a database"):
        Cache(tmp_path / "c.sqlite")
    assert Cache(tmp_path / "new" / "c.sqlite").path.stat().st_mode & 0o777 == 0o600
