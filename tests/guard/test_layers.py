"""No circle among the guard's modules, wherever in them an import stands."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import misstep.guard

FOLDER = Path(misstep.guard.__file__).parent


def imports(path: Path) -> set[str]:
    """Modules of the guard that a module imports at run time, those inside functions included."""
    tree = ast.parse(path.read_text())
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in node.body
        for inner in ast.walk(part)
    }
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in typing:
            continue
        module = node.module or ""
        if node.level == 1 or module.startswith("misstep.guard"):
            inner = module.removeprefix("misstep.guard").strip(".")
            found |= {inner.split(".")[0]} if inner else {alias.name for alias in node.names}
    return {name for name in found if (FOLDER / f"{name}.py").is_file()}


def test_no_circle() -> None:
    graph = {path.stem: imports(path) for path in FOLDER.glob("*.py") if path.stem != "__init__"}
    assert {"freeze", "arms", "trust"} <= graph["choice"] and graph["arms"] == {"portfolio"}
    assert "portfolio" in graph["freeze"] and not graph["portfolio"] & {"freeze", "arms", "choice"}
    list(TopologicalSorter(graph).static_order())  # raises CycleError
