"""Dialogs for fine-tuning: scripts that run in real sandboxes, with the missteps that the policy is to learn.

What was shown is what really was. Scripts are run once a task, in a sandbox of the task's own; a share of them has the misstep.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from misstep.sandbox.base import Root
from misstep.sandbox.generators._dice import Dice
from misstep.train.episode import Action, Codec, Shown
from misstep.train.tiny.tasks import TinyTask, load

Regime = Literal["common", "rare"]
COMMON = 60
"""Percent of dialogs with the misstep where it is common."""
RARE = 85
"""Percent where it is rare: of the tasks with a slow test, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Dialog:
    """A script that ran."""

    task: TinyTask
    turns: tuple[tuple[Action, Shown | None], ...]
    """What was done and shown; the last submits and was shown nothing."""
    misstep: bool

    def ids(self, codec: Codec) -> tuple[list[int], list[int]]:
        """Ids, and a mask with 1 at the agent's own."""
        ids = list(codec.opening(self.task.instruction))
        mask = [0] * len(ids)
        for action, shown in self.turns:
            own = list(codec.turn(action))
            told = list(codec.observation(shown)) if shown is not None else []
            ids += own + told
            mask += [1] * len(own) + [0] * len(told)
        return ids, mask


def script(task: TinyTask, regime: Regime) -> tuple[tuple[Action, ...], bool]:
    """What the scripted agent does in a task, and whether that has the misstep."""
    dice = Dice(__name__, regime, task.seed, task.slow)
    wrong = dice.chance(COMMON) if regime == "common" else task.slow and dice.chance(RARE)
    turns = task.wrong if wrong else task.right
    return ((task.opening, *turns) if task.opening and dice.chance(30) else turns), wrong


def run(task: TinyTask, actions: Sequence[Action], root: Root, folder: Path) -> tuple[tuple[Action, Shown | None], ...]:
    """Runs turns in a fresh sandbox of the task.

    Raises:
        SandboxError: the sandbox is at fault.
    """
    with load(task.folder.write(folder)).sandbox(root) as box, box.shell() as shell:
        made: list[tuple[Action, Shown | None]] = []
        for action in actions:
            if action.command is None:
                made.append((action, None))
                continue
            seen = shell.run(action.command, timeout=20)
            made.append((action, Shown(seen.output, seen.exit_code, seen.timed_out)))
        return tuple(made)


def make(tasks: Sequence[TinyTask], regime: Regime, root: Root, folder: Path, *, threads: int = 4) -> list[Dialog]:
    """A dialog a task, in their order."""

    def one(task: TinyTask) -> Dialog:
        actions, wrong = script(task, regime)
        return Dialog(task, run(task, actions, root, folder), wrong)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, tasks))
