"""Shared fixtures: the recorded material, sessions and detectors of known content, a home of the test's own."""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

# A job in the background ignores interrupts, and so would all that it starts: tests send some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded material beside the checkout; tests that need it are skipped where it is missing."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the checkout")
    return SHARED


_VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COLUMNS",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "MSWEA_GLOBAL_CONFIG_DIR",
    "NO_COLOR",
    "FORCE_COLOR",
    "OPENHANDS_STATE_DIR",
    "QWEN_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)


def _making() -> ModuleType:
    name = "misstep_tests_making"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "scan" / "making.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def making() -> ModuleType:
    """The module that makes sessions."""
    return _making()


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch):
    """Three missteps of known answers in the place of the catalogue."""
    import misstep.catalogue

    made = _making().CATALOGUE

    def get(id: str):
        return next(m for m in made if m.id == id) if any(m.id == id for m in made) else _raise(id)

    monkeypatch.setattr(misstep.catalogue, "missteps", lambda: made)
    monkeypatch.setattr(misstep.catalogue, "get", get)
    return made


def _raise(id: str):
    raise KeyError(id)


@pytest.fixture
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own: no test touches the user's cache or sessions."""
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MISSTEP_CACHE_DIR", str(home / "cache"))
    return home
