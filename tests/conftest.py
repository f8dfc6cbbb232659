"""Shared fixtures."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded material beside the checkout; tests that need it are skipped where it is missing."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the checkout")
    return SHARED
