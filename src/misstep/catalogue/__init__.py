"""The catalogue: one module a misstep, found by listing this package (never a list to edit)."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from .base import Misstep, NoState, Policy, Verdict
from .fold import Firing, Fold, Judgement, judge

_PARTS = {"base", "fold", "examples"}

__all__ = ["Firing", "Fold", "Judgement", "Misstep", "NoState", "Policy", "Verdict", "get", "judge", "missteps"]


@cache
def missteps() -> tuple[Misstep, ...]:
    """Every misstep of the catalogue, by id."""
    found: list[Misstep] = []
    for module in pkgutil.iter_modules(__path__):
        if module.name in _PARTS or module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        found += [
            value()
            for value in vars(loaded).values()
            if isinstance(value, type)
            and issubclass(value, Misstep)
            and value.id
            and value.__module__ == loaded.__name__
        ]
    return tuple(sorted(found, key=lambda m: m.id))


def get(id: str) -> Misstep:
    """The misstep of that id. Raises KeyError."""
    for misstep in missteps():
        if misstep.id == id:
            return misstep
    raise KeyError(id)
