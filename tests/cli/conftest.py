"""The command, run in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _at_home(own_home: Path) -> None:
    """Every test here has a home of its own."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]):
    """Run the command in this process: run("scan", path) -> (exit code, standard output, standard error)."""
    from misstep import cli

    def go(*args: object) -> tuple[int, str, str]:
        capsysbinary.readouterr()
        monkeypatch.setattr(sys, "argv", ["misstep", *map(str, args)])
        monkeypatch.setattr(cli, "_debug", False)
        try:
            cli.main()
            code = 0
        except SystemExit as done:
            code = int(done.code or 0)
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return go
