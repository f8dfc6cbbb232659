"""An iterator in another process: its items in order, its errors, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from misstep.profile.apart import Apart


def counting(upto: int, found: dict[str, int]) -> Iterator[int]:
    for n in range(upto):
        found["made"] = n + 1
        yield n


def breaking(upto: int) -> Iterator[int]:
    yield from range(upto)
    raise ValueError("no more")


def endless() -> Iterator[bytes]:
    while True:
        yield b"x" * 50_000


def all_of(apart: Apart[int]) -> list[int]:
    async def work() -> list[int]:
        items = []
        while (item := await apart.take()) is not None:
            items.append(item)
        assert await apart.take() is None
        return items

    try:
        return asyncio.run(work())
    finally:
        apart.close()


@pytest.mark.parametrize("upto", [0, 1, 15, 16, 17, 500])
def test_all_items_in_order_and_what_was_found_there(upto: int) -> None:
    found: dict[str, int] = {"made": 0}
    apart: Apart[int] = Apart(counting, upto, found, result=found)
    assert all_of(apart) == list(range(upto))
    assert apart.result == {"made": upto}
    assert found == {"made": 0}  # there, not here


def test_several_takers_share_them() -> None:
    async def work() -> list[list[int]]:
        async def taker() -> list[int]:
            items = []
            while (item := await apart.take()) is not None:
                items.append(item)
                await asyncio.sleep(0)
            return items

        return await asyncio.gather(*[taker() for _ in range(7)])

    apart: Apart[int] = Apart(counting, 300, {})
    found = asyncio.run(work())
    apart.close()
    assert sorted(sum(found, [])) == list(range(300))  # noqa: RUF017


def test_an_error_there_is_told_here() -> None:
    with pytest.raises(RuntimeError, match="ValueError: no more"):
        all_of(Apart(breaking, 40))


def test_a_process_that_is_killed() -> None:
    async def work() -> None:
        while await apart.take() is not None:
            os.kill(apart._process.pid or 0, signal.SIGKILL)

    apart = Apart(endless)
    with pytest.raises(RuntimeError, match="the process that reads trajectories was ended"):
        asyncio.run(work())
    apart.close()


def test_it_ends_while_it_is_busy() -> None:
    async def work() -> None:
        await apart.take()

    began = time.monotonic()
    apart = Apart(endless)
    asyncio.run(work())
    apart.close()
    assert not apart._process.is_alive()
    assert time.monotonic() - began < 10


KILLED = """
import asyncio, sys
sys.path.insert(0, {folder!r})
from test_apart import Apart, endless

async def work():
    apart = Apart(endless)
    await apart.take()
    print(apart._process.pid, flush=True)
    await asyncio.sleep(60)

if __name__ == "__main__":
    asyncio.run(work())
"""


def test_nothing_is_left_when_this_process_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED.format(folder=str(Path(__file__).parent)))
    run = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    there = int(run.stdout.readline())
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    for _ in range(200):
        try:
            os.kill(there, 0)
        except ProcessLookupError:
            break
        state = Path(f"/proc/{there}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("it goes on for nobody")
