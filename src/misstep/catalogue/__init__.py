"""The catalogue: one module a misstep, found by listing this package (never a list to edit)."""

from __future__ import annotations

from .base import Misstep, NoState, Policy, Verdict
from .fold import Firing, Fold, Judgement, judge

_PARTS = {"base", "fold", "examples"}

__all__ = [
    "Firing",
    "Fold",
    "Judgement",
    "Misstep",
    "NoState",
    "Policy",
    "Verdict",
    "definition",
    "get",
    "judge",
    "missteps",
]


_found: tuple[Misstep, ...] | None = None


def missteps() -> tuple[Misstep, ...]:
    """Every misstep of the catalogue, by id."""
    # A hook loads single modules of this package: what lists them all is imported here. (Not with pkgutil, which
    # loads inspect: a third of the catalogue's own import time.)
    import os
    from importlib import import_module

    global _found
    if _found is not None:
        return _found
    found: list[Misstep] = []
    names = {file.removesuffix(".py") for folder in __path__ for file in os.listdir(folder) if file.endswith(".py")}
    for name in sorted(names - _PARTS):
        if name.startswith("_"):
            continue
        loaded = import_module(f"{__name__}.{name}")
        found += [
            value()
            for value in vars(loaded).values()
            if isinstance(value, type)
            and issubclass(value, Misstep)
            and value.id
            and value.__module__ == loaded.__name__
        ]
    _found = tuple(sorted(found, key=lambda m: m.id))
    return _found


def get(id: str) -> Misstep:
    """The misstep of that id. Raises KeyError."""
    for misstep in missteps():
        if misstep.id == id:
            return misstep
    raise KeyError(id)


def definition(misstep: Misstep) -> str:
    """What it is, by its page, on one line; its name where the page does not say."""
    import sys

    page = sys.modules[type(misstep).__module__].__doc__ or ""
    what = page.partition("## What it is")[2].partition("\n## ")[0]
    return " ".join(what.split()) or misstep.name
