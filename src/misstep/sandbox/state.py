"""States: the files of a stopped sandbox, as layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from misstep.sandbox import store
from misstep.sandbox.base import Root

if TYPE_CHECKING:
    from misstep.sandbox.bubblewrap import BubblewrapSandbox


class Layers:
    """Files as layers over a root, lowest first. Layers of our own are removed with the last state that has them."""

    def __init__(self, root: Root, own: tuple[Path, ...] = ()) -> None:
        self.root = root
        self.own = own

    @property
    def paths(self) -> tuple[Path, ...]:
        return (*self.root.layers, *self.own)


class BubblewrapState:
    """The files of a stopped sandbox. Branches are cheap: a directory, and one more layer below it."""

    def __init__(self, sandbox: BubblewrapSandbox, layers: Layers) -> None:
        self._like = sandbox
        self.layers = layers

    def branch(self, count: int = 1) -> list[BubblewrapSandbox]:
        """Starts `count` sandboxes from this state, with the limits and the environment of the one it was taken of."""
        made: list[BubblewrapSandbox] = []
        try:
            for _ in range(count):
                made.append(self.sandbox())
                made[-1].start()
        except BaseException:
            for one in made:
                one.stop()
            raise
        return made

    def sandbox(self) -> BubblewrapSandbox:
        """One sandbox from this state, not yet started."""
        like = self._like
        return type(like)(
            like.root, layers=self.layers, limits=like.limits, env=like.env, workdir=like.workdir, binds=like.binds,
            network=like.network, fixed_addresses=like.fixed_addresses,
        )  # fmt: skip

    def discard(self) -> None:
        """Removes the layer that this state added; no sandbox and no state may stand on it any more."""
        if self.layers.own:
            store.remove(self.layers.own[-1].parent)
