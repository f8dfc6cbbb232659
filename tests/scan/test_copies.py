"""Copies of one session in several files are counted once, in whatever order they come."""

from __future__ import annotations

import itertools
import random

from misstep.scan.copies import ID_BYTES, Steps, copies


def steps(name: str, *numbers: int, started: float = 0.0) -> Steps:
    return Steps((name, 0), b"".join(n.to_bytes(ID_BYTES, "big") for n in numbers), started)


def test_growing_prefixes_leave_the_longest():
    made = [steps("a", *range(10)), steps("b", *range(14)), steps("c", *range(83)), steps("d", *range(111))]
    for order in itertools.permutations(made):
        assert copies(order) == {("a", 0): ("d", 0), ("b", 0): ("d", 0), ("c", 0): ("d", 0)}


def test_parts_without_common_steps_stay():
    assert copies([steps("a", *range(50)), steps("b", *range(50, 80))]) == {}


def test_equal_copies_leave_one_by_name():
    made = [steps("z", 1, 2, 3), steps("a", 1, 2, 3), steps("m", 1, 2, 3)]
    for order in itertools.permutations(made):
        assert copies(order) == {("z", 0): ("a", 0), ("m", 0): ("a", 0)}


def test_a_fork_that_goes_its_own_way_stays():
    assert copies([steps("a", *range(100)), steps("b", *range(50), *range(200, 230))]) == {}


def test_a_last_step_that_was_cut_off_is_still_a_copy():
    assert copies([steps("a", *range(40), 999), steps("b", *range(100))]) == {("a", 0): ("b", 0)}


def test_records_without_steps_are_nobodys_copy():
    assert copies([steps("a"), steps("b"), steps("c", 1)]) == {}


def test_any_order_gives_the_same():
    rng = random.Random(7)
    made = []
    for family in range(12):
        base = [family * 1000 + n for n in range(60)]
        made += [steps(f"{family}-{n}", *base[: rng.randint(1, 60)]) for n in range(5)]
        made.append(steps(f"{family}-fork", *base[:30], *(family * 1000 + 500 + n for n in range(20))))
    first = copies(made)
    assert len(first) >= 12
    for _ in range(20):
        rng.shuffle(made)
        assert copies(made) == first
    assert not set(first.values()) & set(first), "what is kept is no copy itself"
