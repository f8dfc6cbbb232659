"""What is noise, and what only looks like it."""

from __future__ import annotations

import pytest

from misstep.sandbox.noise import Mask, Moment

FIRST, SECOND = Moment(1_796_070_854, 1_796_070_855), Moment(1_796_070_900, 1_796_070_901)  # 30 Nov 2026, 20:34 UTC
RECORDED = Moment(1_795_900_000, 1_795_900_002)  # 28 Nov 2026, 21:06:40 UTC


@pytest.mark.parametrize(
    ("one", "other", "recorded"),
    [
        ("5123\n", "17\n", "30999\n"),
        ("/tmp/tmp.Ab3dEf\n", "/tmp/tmp.Zz9yXw\n", "/tmp/tmp.Qq1111\n"),
        ("built in 12ms\n", "built in 7ms\n", "built in 133ms\n"),
        ("[main 3b1bc78] x\n", "[main 94a6af5] x\n", "[main 0123456] x\n"),
        ("12 a4 2e\n", "13 9c 7e\n", "fe 00 1c\n"),
        ("Mon Nov 30 20:34:14 UTC 2026\n", "Mon Nov 30 20:35:00 UTC 2026\n", "Sat Nov 28 21:06:41 UTC 2026\n"),
        ("2026-11-30\n", "2026-11-30\n", "2026-11-28\n"),
        ("1796070854\n", "1796070900\n", "1795900001\n"),
        ("1796070854123456789\n", "1796070900000000000\n", "1795900001999999999\n"),
        ("-rw-r--r-- 1 root root 3 Nov 30 20:34 f\n", "-rw-r--r-- 1 root root 3 Nov 30 20:35 f\n", "-rw-r--r-- 1 root root 3 Nov 28 21:06 f\n"),
        ("at 20:34\n", "at 20:34\n".replace("34", "35"), "at 21:06\n"),
        ("[30/Nov/2026:20:34:14 +0000] GET\n", "[30/Nov/2026:20:35:00 +0000] GET\n", "[28/Nov/2026:21:06:41 +0000] GET\n"),
        ("Mon, 30 Nov 2026 20:34:14 GMT\n", "Mon, 30 Nov 2026 20:35:00 GMT\n", "Sat, 28 Nov 2026 21:06:41 GMT\n"),
        ("2026-11-30T20:34:14.123Z x\n", "2026-11-30T20:35:00.001Z x\n", "2026-11-28T21:06:41.999Z x\n"),
        ("a\nwaiting\nb\n", "a\nb\n", "a\nwaiting\nwaiting\nb\n"),
        ("Used   12  rest\n", "Used 1234  rest\n", "Used  123  rest\n"),
    ],
)  # fmt: skip
def test_noise(one: str, other: str, recorded: str) -> None:
    mask = Mask(one, other, (FIRST, SECOND))
    assert not mask.empty
    assert mask.covers(recorded, RECORDED)
    assert mask.covers(one, FIRST)
    assert mask.covers(other, SECOND)


@pytest.mark.parametrize(
    ("one", "other", "recorded"),
    [
        ("5123\n", "17\n", "none\n"),
        ("5123 rows\n", "17 rows\n", "17 lines\n"),
        ("total 4\n", "total 4\n", "total 8\n"),
        ("2026-11-30\n", "2026-11-30\n", "2026-11-27\n"),  # another day than that of the recording
        ("released 2020-01-01\n", "released 2020-01-01\n", "released 2026-11-28\n"),
        ("port 1796\n", "port 1796\n", "port 1795\n"),
        ("/tmp/tmp.Ab3dEf\n", "/tmp/tmp.Zz9yXw\n", "/tmp/tmp.Qq1111 extra\n"),
        ("ok in 12ms\n", "ok in 7ms\n", "failed in 12ms\n"),
        ("a\n", "a\n", "a"),
        ("at 20:34\n", "at 20:35\n", "at 09:00\n"),
    ],
)
def test_no_noise(one: str, other: str, recorded: str) -> None:
    mask = Mask(one, other, (FIRST, SECOND))
    assert not mask.covers(recorded, RECORDED)


def test_a_moment_needs_a_known_time() -> None:
    mask = Mask("2026-11-30\n", "2026-11-30\n", (FIRST, SECOND))
    assert not mask.covers("2026-11-28\n", None)


def test_nothing_differs() -> None:
    assert Mask("same 4\n", "same 4\n", (FIRST, SECOND)).empty
    assert Mask("", "", (FIRST, SECOND)).covers("", None)


@pytest.mark.parametrize("text", ["", "\n", "a", "\0\x1b[31m", "é\u2028x\r\n", "12:34:56:78", "1" * 3000, "(" * 500])
def test_any_text_covers_itself(text: str) -> None:
    assert Mask(text, text, (FIRST, SECOND)).covers(text, FIRST)
    Mask(text, "7" + text, (FIRST, SECOND)).covers(text + "x", FIRST)
