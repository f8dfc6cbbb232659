"""The story of the demo, in a real process tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "guard" / "demo.py"


@pytest.mark.skipif(shutil.which("setsid") is None, reason="no setsid on this machine")
def test_the_server_is_lost_without_the_guard_and_kept_with_it() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    without, with_it = done.stdout.split("With the guard")
    assert "hello" in without and "nobody answers: failed" in without and "guard:" not in without
    assert "guard: Before you stop" in with_it and "the page is served: passed" in with_it
