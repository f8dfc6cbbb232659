"""A call as hooks describe it is the one that the readers of recorded sessions give."""

from __future__ import annotations

from typing import Any

import pytest

from misstep.guard.calls import call_of
from misstep.trajectory.readers import _calls, _claude


@pytest.mark.parametrize(
    ("tool", "given", "seconds"),
    [
        ("shell", {"command": ["bash", "-lc", "make"], "timeout_ms": 120000}, 120.0),
        ("shell_command", {"command": "make", "timeout_ms": 500}, 0.5),
        ("shell_command", {"command": "make", "timeout_ms": 0, "timeout": 30}, 30.0),
        ("local_shell", {"command": ["make"], "timeout_ms": 2000, "timeout": 7}, 2.0),
        ("bash", {"command": "make", "timeout": 60}, 60.0),
        ("bash", {"command": "make", "timeout": 60000}, 60.0),
        ("run_shell_command", {"command": "make", "timeout_sec": 90}, 90.0),
        ("bash", {"command": "make", "timeout": True}, None),
        ("bash", {"command": "make", "timeout_ms": "9"}, None),
        ("bash", {"command": "make", "timeout": float("inf")}, None),
        ("bash", {"command": "make", "timeout": -1}, None),
    ],
)
def test_a_limit_is_in_seconds(tool: str, given: dict[str, Any], seconds: float | None) -> None:
    made = call_of("1", tool, given)
    assert made.timeout == seconds
    assert made == _calls.call_of("1", tool, given)


@pytest.mark.parametrize(("limit", "seconds"), [(500, 0.5), (5000, 5.0), (None, None)])
def test_claude_code_counts_in_milliseconds(limit: int | None, seconds: float | None) -> None:
    given = {"command": "make", "timeout": limit}
    made = call_of("1", "Bash", given, "/w")
    assert made.timeout == seconds
    assert made == _claude.call_of({"id": "1", "name": "Bash", "input": given}, "/w")


@pytest.mark.parametrize(
    "given",
    [
        {"command": "make", "workdir": "/a", "directory": "/b"},
        {"command": "make", "cwd": "/a"},
        {"command": "make", "dir_path": "/a", "workdir": 3},
        {"command": "make", "mode": "async"},
        {"command": "make", "is_background": True},
    ],
)
def test_the_folder_and_the_background(given: dict[str, Any]) -> None:
    assert call_of("1", "bash", given) == _calls.call_of("1", "bash", given)
