"""The order of starts: exact shares, uniform types and environments, and the same after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from misstep.train.prefixes import Prefix, Target, Turn
from misstep.train.starts import Start, Starts, StartsError


def prefix(kind: str, environment: str, n: int = 0) -> Prefix:
    return Prefix(environment, f"/tasks/{environment}", environment, "do", (Turn(f"echo {n}"),), Target(kind))


PREFIXES = [prefix("a", f"e{e}", n) for e in range(5) for n in range(3)] + [prefix("b", "e0"), prefix("b", "e7")]
TASKS = [Start.of_task(Path(f"/tasks/t{n}")) for n in range(4)]


@pytest.mark.parametrize("share, wanted", [(0.5, 60), (0.25, 30), (0.0, 0), (1.0, 120), (0.1, 12)])
def test_the_share_of_prefixes_is_exact(share, wanted):
    drawn = Starts(PREFIXES, TASKS, share=share).draw(120)
    assert sum(one.kind == "prefix" for one in drawn) == wanted
    if share:
        window = round(1 / share)
        assert (
            all(sum(one.kind == "prefix" for one in drawn[n : n + window]) == 1 for n in range(0, 120 - window, window))
            or share > 0.5
        )


def test_types_are_uniform_then_environments_then_the_prefixes_of_one():
    drawn = Starts(PREFIXES, (), share=1.0, seed=3).draw(2 * 5 * 3 * 2)
    kinds = Counter(one.targets[0].id for one in drawn)
    assert kinds == {"a": 30, "b": 30}
    assert Counter(one.environment for one in drawn if one.targets[0].id == "a") == {f"e{n}": 6 for n in range(5)}
    assert Counter(one.environment for one in drawn if one.targets[0].id == "b") == {"e0": 15, "e7": 15}
    assert set(Counter(one.id for one in drawn if one.targets[0].id == "a").values()) == {2}


def test_tasks_come_once_each_before_any_comes_again():
    drawn = Starts([], TASKS, share=0.0, seed=1).draw(12)
    for n in range(0, 12, 4):
        assert {one.task for one in drawn[n : n + 4]} == {"t0", "t1", "t2", "t3"}


def test_the_order_is_the_seed_s_alone():
    one = [s.id for s in Starts(PREFIXES, TASKS, seed=5).draw(40)]
    assert one == [s.id for s in Starts(PREFIXES[::-1], TASKS[::-1], seed=5).draw(40)]
    assert one != [s.id for s in Starts(PREFIXES, TASKS, seed=6).draw(40)]
    other = Starts(PREFIXES, TASKS, seed=5)
    assert [s.id for n in (1, 7, 30, 2) for s in other.draw(n)] == one


def test_a_held_out_prefix_is_never_drawn():
    with pytest.raises(StartsError, match="held-out environment"):
        Starts([*PREFIXES, replace(prefix("a", "x"), split="held-out")], TASKS)


@pytest.mark.parametrize("given, words", [(([], TASKS), "there is no prefix"), ((PREFIXES, []), "there is no task")])
def test_nothing_to_draw_from_is_told(given, words):
    with pytest.raises(StartsError, match=words):
        Starts(*given)
    with pytest.raises(StartsError, match="share"):
        Starts(PREFIXES, TASKS, share=1.5)


def test_a_position_of_other_starts_is_refused(tmp_path):
    path = tmp_path / "starts.json"
    kept = Starts(PREFIXES, TASKS, path=path)
    kept.draw(5)
    kept.commit()
    assert Starts(PREFIXES, TASKS, path=path).position == 5
    with pytest.raises(StartsError, match="is of other starts"):
        Starts(PREFIXES, TASKS, share=0.4, path=path)
    path.write_text("{")
    with pytest.raises(StartsError, match="expected a position"):
        Starts(PREFIXES, TASKS, path=path)


_RUN = """
import sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
from test_starts import PREFIXES, TASKS
from misstep.train.starts import Starts

starts = Starts(PREFIXES, TASKS, seed=9, path=Path({path!r}))
for step in range(50):
    drawn = starts.draw(3)
    with open({log!r}, "a") as log:
        log.write(" ".join(one.id for one in drawn) + "\\n")
        log.flush()
    time.sleep(0.002)
    starts.commit()
    time.sleep(0.002)
"""


def test_the_order_goes_on_bit_identical_after_kill_9(tmp_path):
    """Steps that were committed are never drawn again, those that were not are drawn again, whatever the moment."""
    path, log = tmp_path / "starts.json", tmp_path / "log"
    code = _RUN.format(folder=str(Path(__file__).parent), path=str(path), log=str(log))
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", code])
        want = len(log.read_text().splitlines()) + 4 if log.exists() else 4
        while not log.exists() or len(log.read_text().splitlines()) < want:
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    lines = log.read_text().splitlines()
    whole = [" ".join(s.id for s in Starts(PREFIXES, TASKS, seed=9).draw(3 * (n + 1))[-3:]) for n in range(len(lines))]
    made = [one for n, one in enumerate(lines) if n == 0 or one != lines[n - 1]]  # a step that was drawn again
    assert made == whole[: len(made)] and len(lines) - len(made) <= 3
    assert Starts(PREFIXES, TASKS, seed=9, path=path).position in (3 * len(made), 3 * (len(made) - 1))
