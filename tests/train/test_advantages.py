"""Advantages by hand, and refilling."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from misstep.train.advantages import centred, fill, zero_signal
from misstep.train.episode import Episode


@pytest.mark.parametrize(
    "rewards, wanted",
    [
        ([1.0, 0.0], [0.5, -0.5]),
        ([1.0, 0.0, 0.0, 0.0], [0.75, -0.25, -0.25, -0.25]),
        ([1.0, None, 0.0], [0.5, 0.0, -0.5]),
        ([1.0, None, None, 0.0, 1.0, 1.0], [0.25, 0.0, 0.0, -0.75, 0.25, 0.25]),
        ([None, None], [0.0, 0.0]),
        ([1.0, None], [0.0, 0.0]),
        ([2.5, 0.5], [1.0, -1.0]),
        ([], []),
    ],
)
def test_centred_is_not_divided_and_none_leaves_the_baseline(rewards, wanted):
    np.testing.assert_allclose(centred(rewards), wanted)


@pytest.mark.parametrize(
    "rewards, holds",
    [
        ([0.0, 0.0], True),
        ([1.0, 1.0, None], True),
        ([1.0, None], True),
        ([None, None], True),
        ([], True),
        ([0.1 + 0.2, 0.3], True),
        ([1.0, 0.0, None], False),
        ([0.5, 0.7], False),
    ],
)
def test_zero_signal(rewards, holds):
    assert zero_signal(rewards) is holds


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="not a finite number"):
        centred([1.0, float("nan")])


def _group(name: str, *rewards: float | None) -> list[Episode]:
    return [Episode((1,), (2,), (1,), (), one, {"start": name}) for one in rewards]


def _drawing(*groups: list[Episode]):
    left, asked = list(groups), []

    async def draw(count: int):
        asked.append(count)
        made, left[:] = left[:count], left[count:]
        return made

    return draw, asked


def test_zero_signal_groups_are_refilled_and_counted():
    a, b, c = _group("a", 1.0, 0.0), _group("b", 1.0, None, 0.0), _group("c", 0.0, 1.0)
    zero, faults = _group("z", 1.0, 1.0), _group("f", None, None)
    draw, asked = _drawing(a, zero, faults, zero, b, c)
    filled = asyncio.run(fill(draw, 3, most=100))
    assert [g[0].extras["start"] for g in filled.groups] == ["a", "b", "c"]
    assert asked == [3, 2, 1]
    assert (filled.drawn, len(filled.dropped), filled.unknown) == (6, 3, 1)
    assert filled.zero_share == 0.5
    assert len(filled.episodes) == 7
    np.testing.assert_allclose(filled.advantages, [0.5, -0.5, 0.5, 0.0, -0.5, -0.5, 0.5])


def test_refilling_ends_at_its_bound():
    zero = _group("z", 0.0, 0.0)
    draw, asked = _drawing(*[zero] * 50)
    filled = asyncio.run(fill(draw, 4, most=10))
    assert (filled.groups, filled.drawn, asked) == ([], 10, [4, 4, 2])
    assert filled.advantages.shape == (0,)


def test_a_draw_that_gives_more_than_asked_keeps_the_rest_aside():
    groups = [_group(str(n), 1.0, 0.0) for n in range(3)]

    async def draw(count: int):
        return groups

    filled = asyncio.run(fill(draw, 1, most=9))
    assert [len(filled.groups), len(filled.surplus), filled.drawn] == [1, 2, 3]
