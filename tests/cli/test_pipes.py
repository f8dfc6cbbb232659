"""A reader that goes away (`misstep ... | head -1`) ends every command as it ends other programs: 141, and not a word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MAIN = "from misstep.cli import main; main()"


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("--version",),
        ("guard", "--help"),
        ("guard", "log"),
        ("guard", "status"),
        ("guard", "install", "claude-code", "--dry-run"),
        ("policies", "test"),
        ("catalogue",),
        ("catalogue", "service-persistence"),
    ],
    ids=" ".join,
)
def test_a_reader_that_goes_away(args: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAIN, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b"" and running.wait(60) == 141


def test_a_reader_that_has_read_all_changes_nothing(tmp_path: Path) -> None:
    line = f'set -o pipefail; {sys.executable} -c "{MAIN}" guard log | cat'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "No session was guarded yet.\n", "")
