"""Every test of the scan has a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _at_home(own_home: Path) -> None:
    """Every test here has a home of its own."""


@pytest.fixture(autouse=True)
def _fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes that know what a test has put in the place of something. (pytest-xdist has a thread that sleeps.)"""
    import misstep.scan.read

    monkeypatch.setattr(misstep.scan.read, "METHOD", "fork")
