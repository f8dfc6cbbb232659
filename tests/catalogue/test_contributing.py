"""The misstep that CONTRIBUTING.md shows is one: its examples hold, and there are enough of them."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from misstep.catalogue import Fold
from misstep.catalogue.examples import load

TEXT = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _fence(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)
    return found


def test_the_misstep_that_is_shown_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "misstep.catalogue.force_push"
    file = tmp_path / "force_push.py"
    file.write_text(_fence("python"), encoding="utf-8")
    file.with_suffix(".yaml").write_text(_fence("yaml"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    item = module.ForcePush()
    assert item.id == "force-push" and module.__doc__.splitlines()[0] == f"The agent {item.name}."
    fires, silent = load(item)
    assert len(fires) >= 2 and len(silent) >= 3
    assert {e.near for e in silent} <= {e.name for e in fires}
    for example in fires + silent:
        fold = Fold([item])
        for event in example.events:
            fold.push(event)
        found = [v.at for v in fold.finish().verdicts.get(item.id, []) if v.holds]
        assert found == example.occurrences and bool(found) == (example in fires), example.name
