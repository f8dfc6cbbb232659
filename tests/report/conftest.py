"""A headless Chromium for the HTML page."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _at_home(own_home: Path) -> None:
    """Every test here has a home of its own."""


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def _chromium() -> str | None:
    """A Chromium of this machine: MISSTEP_CHROMIUM, else one on PATH, else the one that playwright has installed."""
    named = os.environ.get("MISSTEP_CHROMIUM")
    if named:
        return named
    found = next((path for path in map(shutil.which, CHROMIUM) if path), None)
    if found:
        return found
    if sys.platform == "darwin":
        path = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
        return str(path) if path.exists() else None
    return None


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium. Skipped where there is none; MISSTEP_NEED_CHROMIUM=1 (CI) makes that a failure.

    For one module: while it is open, its event loop runs in this thread, and no other may.
    """
    need = os.environ.get("MISSTEP_NEED_CHROMIUM") == "1"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        if need:
            raise
        pytest.skip("playwright is not installed")
    path = _chromium()
    if path is None:
        (pytest.fail if need else pytest.skip)("no chromium on this machine (apt-get install chromium)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()
