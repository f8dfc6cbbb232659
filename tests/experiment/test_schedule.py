"""The order of attempts: from the seed alone, balanced wherever it is cut, the same for ever."""

import hashlib
import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from misstep.experiment.plan.schedule import ScheduleError, Slot, rank, read_schedule, schedule, text_of, write_schedule

TASKS = [f"task-{n}" for n in range(6)]
ARMS = ["baseline", "real", "sham", "always-verify", "reconsider"]


def test_the_order_is_this_one_for_ever() -> None:
    slots = schedule(["a", "b", "c"], ["real", "sham"], 2, 1)
    assert [(s.task, s.arm, s.replicate) for s in slots] == GOLDEN
    assert [s.block for s in slots] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [s.at for s in slots] == list(range(12))


GOLDEN = [
    ("a", "sham", 1),
    ("a", "real", 1),
    ("b", "real", 1),
    ("b", "sham", 1),
    ("c", "real", 1),
    ("c", "sham", 1),
    ("a", "real", 2),
    ("a", "sham", 2),
    ("b", "sham", 2),
    ("b", "real", 2),
    ("c", "real", 2),
    ("c", "sham", 2),
]


def test_a_rank_is_what_its_page_says() -> None:
    assert rank(1, "arm", "ä", 2, "real") == hashlib.sha256('[1,"arm","ä",2,"real"]'.encode()).digest()


def test_it_depends_on_the_seed_and_on_nothing_else() -> None:
    slots = schedule(TASKS, ARMS, 2, 7)
    assert schedule(TASKS[::-1], ARMS[::-1], 2, 7) == slots
    assert schedule(TASKS, ARMS, 2, 8) != slots
    # a task more leaves the order of the others, and of the arms within them, as it was
    more = [s for s in schedule([*TASKS, "new"], ARMS, 2, 7) if s.task != "new"]
    assert [s.key for s in more] == [s.key for s in slots]


def test_every_slot_once_and_blocks_whole() -> None:
    slots = schedule(TASKS, ARMS, 3, 5)
    assert len({s.key for s in slots}) == len(slots) == 6 * 5 * 3
    for block in range(18):
        inside = slots[5 * block : 5 * block + 5]
        assert {s.block for s in inside} == {block}
        assert len({(s.task, s.replicate) for s in inside}) == 1
        assert sorted(s.arm for s in inside) == sorted(ARMS)
    assert [s.replicate for s in slots] == sorted(s.replicate for s in slots)


def test_an_interrupted_panel_is_balanced() -> None:
    slots = schedule(TASKS, ARMS, 3, 5)
    for cut in range(len(slots) + 1):
        ran = Counter(s.arm for s in slots[:cut])
        assert max(ran.values(), default=0) - min((ran[a] for a in ARMS), default=0) <= 1
        tasks = Counter(s.task for s in slots[: cut - cut % 5])
        assert max(tasks.values(), default=0) - min((tasks[t] for t in TASKS), default=0) <= 5


def test_every_order_of_arms_is_as_likely() -> None:
    found = Counter(tuple(s.arm for s in schedule(["t"], ["a", "b", "c"], 1, seed)) for seed in range(3000))
    assert set(found) == set(permutations("abc"))
    # chi-squared with 5 degrees of freedom: 20.5 is passed once in a thousand
    assert sum((n - 500) ** 2 / 500 for n in found.values()) < 20.5
    firsts = Counter(schedule(TASKS, ["a"], 1, seed)[0].task for seed in range(3000))
    assert sum((n - 500) ** 2 / 500 for n in firsts.values()) < 20.5


@pytest.mark.parametrize(("tasks", "arms"), [(["a", "a"], ["x"]), (["a"], ["x", "x"])])
def test_names_are_there_once(tasks: list[str], arms: list[str]) -> None:
    with pytest.raises(ValueError, match="is there twice"):
        schedule(tasks, arms, 1, 1)


def test_round_trip(tmp_path: Path) -> None:
    slots = schedule(["ä", "two\u2028lines"], ARMS, 2, 3)
    write_schedule(tmp_path / "s.jsonl", slots)
    assert read_schedule(tmp_path / "s.jsonl") == slots
    assert (tmp_path / "s.jsonl").read_text() == text_of(slots)


GOOD = {"at": 0, "block": 0, "task": "t", "arm": "real", "replicate": 1}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "1: not JSON"),
        (["{}"], "1: not a schedule"),
        (['{"schema":"misstep.schedule","version":9}'], "1: version 9; this misstep reads 1"),
        (["HEAD", "{"], "2: not JSON"),
        (["HEAD", "[]"], "2: expected an object with at, block, task, arm, replicate"),
        (["HEAD", {**GOOD, "more": 1}], "2: expected an object with"),
        *[(["HEAD", {**GOOD, k: v}], f"2: {k} is a") for k in GOOD for v in (None, 1.5, True, "" if isinstance(GOOD[k], str) else -1)],
        (["HEAD", {**GOOD, "replicate": 0}], "2: replicate is a number, not 0"),
        (["HEAD", {**GOOD, "at": 1}], "2: at is 1; expected 0"),
        (["HEAD", GOOD, {**GOOD, "at": 1}], "3: slot ['t', 'real', 1] is there twice"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_says_where(lines: list[object], says: str, tmp_path: Path) -> None:
    head = text_of([]).strip()
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(head if x == "HEAD" else x if isinstance(x, str) else json.dumps(x) for x in lines))
    with pytest.raises(ScheduleError) as caught:
        read_schedule(path)
    assert str(caught.value).startswith(f"{path}:{says}")


def test_a_slot_has_the_key_of_its_attempt() -> None:
    assert Slot(0, 0, "t", "real", 2).key == ("t", "real", 2)
