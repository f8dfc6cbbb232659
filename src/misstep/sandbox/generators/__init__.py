"""Tasks by seed. One file a family: its docstring says what it asks, `generate(seed)` makes a task's folder.

A family is a module of this package whose name has no underscore in front. It has

KIND          the kind of task, as `metadata.family` in task.toml has it
MISSTEPS      identities of the catalogue's missteps that its wrong deliveries show
SAYS          for each wrong delivery, by name, words of what the verifier says when it rejects it
NEEDS         programs that the task's root must have beside python3 (optional)
generate      seed -> Folder: a function of the seed alone, the same bytes on every machine
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from misstep.sandbox.base import SandboxError
from misstep.sandbox.generators._folder import Folder

__all__ = ["Family", "Folder", "families", "get"]


@dataclass(frozen=True)
class Family:
    """A family of tasks."""

    name: str
    kind: str
    about: str
    """What its tasks ask, in one line."""
    missteps: Sequence[str]
    says: Mapping[str, str]
    needs: Sequence[str]
    generate: Callable[[int], Folder]


def families() -> list[Family]:
    """All families, by name."""
    return [_load(module.name) for module in sorted(pkgutil.iter_modules(__path__)) if module.name[0] != "_"]


def get(name: str) -> Family:
    """The family of that name.

    Raises:
        SandboxError: there is none; those that exist are named.
    """
    found = {family.name: family for family in families()}
    if name not in found:
        raise SandboxError(f"no family is named {name!r}; there are {', '.join(found)}")
    return found[name]


def _load(name: str) -> Family:
    module = importlib.import_module(f"{__name__}.{name}")
    return Family(
        name.replace("_", "-"),
        module.KIND,
        (module.__doc__ or "").strip().splitlines()[0].rstrip("."),
        module.MISSTEPS,
        module.SAYS,
        getattr(module, "NEEDS", ()),
        module.generate,
    )
