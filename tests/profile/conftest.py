"""Model servers for the tests of profiling: a scripted one, and a real language model on the CPU."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="misstep[models] is not installed")


def _beside(name: str) -> ModuleType:
    """A module of tests/models."""
    full = f"misstep_tests_models_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).parents[1] / "models" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def scripted() -> ModuleType:
    """tests/models/server.py: `Server(rule)`, `Fault`."""
    return _beside("server")


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """tests/profile/making.py: sessions of known content, and an oracle that judges them."""
    full = "misstep_tests_profile_making"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name("making.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def local_model() -> Iterator[Any]:
    """A real language model: a `LocalModel` of tests/models/local.py, running. Only for slow tests."""
    local = _beside("local")
    if local.missing():
        pytest.skip(local.missing())
    with local.LocalModel() as model:
        yield model
