"""Every test of the scan has a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _at_home(own_home: Path) -> None:
    """Every test here has a home of its own."""
