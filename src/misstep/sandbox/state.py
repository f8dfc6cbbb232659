"""States: the files of a stopped sandbox, as layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from misstep.sandbox import files
from misstep.sandbox.base import Root


class Layers:
    """Files as layers over a root, lowest first. Layers of our own are removed with the last state that has them."""

    def __init__(self, root: Root, own: tuple[Path, ...] = ()) -> None:
        self.root = root
        self.own = own

    @property
    def paths(self) -> tuple[Path, ...]:
        return (*self.root.layers, *self.own)


class Startable(Protocol):
    """A sandbox that can be started and stopped."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


Box = TypeVar("Box", bound=Startable)


class LayerState(Generic[Box]):
    """The files of a stopped sandbox. Branches are cheap: a directory, and one more layer below it.

    Args:
        make: makes a sandbox like the one that it was taken of on such layers, not yet started.
    """

    def __init__(self, make: Callable[[Layers], Box], layers: Layers) -> None:
        self._make = make
        self.layers = layers

    def branch(self, count: int = 1) -> list[Box]:
        """Starts `count` sandboxes from this state, with the limits and the environment of the one it was taken of."""
        made: list[Box] = []
        try:
            for _ in range(count):
                made.append(self.sandbox())
                made[-1].start()
        except BaseException:
            for one in made:
                one.stop()
            raise
        return made

    def sandbox(self) -> Box:
        """One sandbox from this state, not yet started."""
        return self._make(self.layers)

    def discard(self) -> None:
        """Removes the layer that this state added; no sandbox and no state may stand on it any more."""
        if self.layers.own:
            files.remove(self.layers.own[-1].parent)
