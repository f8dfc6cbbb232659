"""Sandboxes for tests: on this machine's /usr, skipped with the reason where none can run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from misstep.sandbox import Limits, Root, native, roots
from misstep.sandbox.bubblewrap import BubblewrapSandbox

LIMITS = Limits(memory_mb=512, processes=128, file_mb=256, output_mb=4, seconds=30)


@pytest.fixture(scope="session")
def root() -> Root:
    problem = native.problem()
    if problem:
        if os.environ.get("MISSTEP_NEED_SANDBOX"):
            pytest.fail(problem)
        pytest.skip(problem)
    return roots.host()


@pytest.fixture
def make(root: Root) -> Iterator[Callable[..., BubblewrapSandbox]]:
    """Starts sandboxes, and stops them when the test ends."""
    made: list[BubblewrapSandbox] = []

    def start(**options: object) -> BubblewrapSandbox:
        box = BubblewrapSandbox(root, **{"limits": LIMITS, **options})  # type: ignore[arg-type]
        made.append(box)
        box.start()
        return box

    yield start
    for box in made:
        box.stop()


@pytest.fixture
def box(make: Callable[..., BubblewrapSandbox]) -> BubblewrapSandbox:
    return make()
