"""What the readers share."""

import pytest

from misstep.trajectory.readers._common import (
    exit_codex,
    exit_gemini,
    is_cut,
    said,
    shell_text,
    text_of,
    time_of,
    unwrapped,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T00:00:01", 1.0),
        ("1970-01-01T01:00:01.5+01:00", 1.5),
        ("1970-01-01T00:00:01.123456789Z", 1.123456),
        (1_770_091_501, 1_770_091_501.0),
        (1_770_091_501_500, 1_770_091_501.5),
        ("yesterday", None),
        ("9999-99-99T00:00:00Z", None),
        (True, None),
        (None, None),
        (-5, None),
        ([], None),
    ],
)
def test_times(value, expected):
    assert time_of(value) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls | wc", "ls | wc"),
        (["bash", "-lc", "ls | wc"], "ls | wc"),
        (["/bin/zsh", "-c", "ls"], "ls"),
        (["ls", "a b"], "ls 'a b'"),
        (["bash", "-lc", "echo $1", "x", "y"], "bash -lc 'echo $1' x y"),
        ([], None),
        (["ls", 1], None),
        (None, None),
    ],
)
def test_shell_text(command, expected):
    assert shell_text(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/bin/bash -lc 'echo a; exit 3'", "echo a; exit 3"),
        ("bash -lc ls", "ls"),
        ("""/usr/bin/zsh -c 'echo '"'"'a'"'"''""", "echo 'a'"),
        ("bash -lc 'x' y", "bash -lc 'x' y"),
        ("bash -lc 'unclosed", "bash -lc 'unclosed"),
        ("bash script.sh", "bash script.sh"),
    ],
)
def test_unwrapped(command, expected):
    assert unwrapped(command) == expected


def test_exit_codes_are_read_where_the_harness_writes_them():
    assert exit_codex("Wall time: 1 seconds\nProcess exited with code 7\nOutput:\nProcess exited with code 0") == 7
    assert exit_codex("Wall time: 1 seconds\nOutput:\nProcess exited with code 0") is None
    assert exit_gemini("Output: Exit Code: 1\nExit Code: 0\nExit Code: 2") == 2
    assert exit_gemini("Output: x") is None


def test_text_of_any_content():
    assert (
        text_of([{"text": "a"}, "b", {"type": "image"}, {"content": [{"text": "c"}]}, {"x": 1}, 3])
        == "a\nb\n[image]\nc"
    )
    assert text_of({"text": "a"}) == "a" and text_of(None) == "" and text_of(5) == ""


def test_what_a_person_said():
    assert said("<system-reminder>x</system-reminder>\nFix <b>it</b>") == "Fix <b>it</b>"
    assert said("<hook_prompt hook_run_id='1'>x</hook_prompt>") == ""
    assert said("  ") == "" and said("<command-name>/x</command-name>") == ""


def test_marks_of_a_cut():
    assert is_cut("x" * 300_000 + "\n... [output truncated]\n") and not is_cut("truncated")
