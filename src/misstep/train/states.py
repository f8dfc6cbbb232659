"""The sandboxes that rollouts start in: a task's environment is built once, a prefix replayed once, and then branched.

MiRL replays a prefix for each rollout; here one verified replay serves all of a group, and every branch takes milliseconds. A
replay that shows anything else than the record makes no state: the rollouts of that start get no reward.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from misstep.sandbox import replay
from misstep.sandbox.base import Root, SandboxError
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.shell import ResidentShell
from misstep.sandbox.tasks import Task
from misstep.train.prefixes import Prefix
from misstep.train.starts import Start

_TRIES = 2
"""Replays of a prefix that failed, before its rollouts are given up for this run."""


class ReplayLost(SandboxError):
    """A prefix's replay went another way than its record."""


@dataclass(slots=True)
class Place:
    """A sandbox at a start. Close it."""

    box: BubblewrapSandbox
    shell: ResidentShell | None
    """None: every command gets a shell of its own, as it was when the prefix was recorded."""
    workdir: str
    _close: Callable[[], None]

    def close(self) -> None:
        """Stops the sandbox."""
        self._close()


@dataclass(slots=True)
class _Kept:
    """A prefix's state, or why there is none."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    state: replay.Prefix | None = None
    failed: int = 0
    why: str = ""
    users: int = 0


class States:
    """Opens sandboxes at starts, from many threads at once.

    Args:
        root: stands for the image of the tasks' Dockerfiles.
        most: states of prefixes that are kept on disk at once; those in use do not count as spare.
    """

    def __init__(self, root: Root, *, most: int = 64) -> None:
        self.root, self.most = root, most
        self.replays = 0
        self.branches = 0
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        self._roots: dict[str, tuple[threading.Lock, list[Root]]] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def task(self, folder: str) -> Task:
        """The task of a folder, read once. Raises SandboxError where it is none."""
        if folder not in self._tasks:
            self._tasks[folder] = Task.load(Path(folder))
        return self._tasks[folder]

    def _built(self, folder: str) -> Root:
        """The task's own root. Built once, whoever asks; what failed is tried again."""
        with self._lock:
            lock, made = self._roots.setdefault(folder, (threading.Lock(), []))
        with lock:
            if not made:
                made.append(self.task(folder).environment(self.root))
            return made[0]

    def fresh(self, folder: str, workdir: str | None = None) -> BubblewrapSandbox:
        """A sandbox of a task, not yet started."""
        task = self.task(folder)
        env = task.settings.get("environment", {}).get("env", {})
        variables = {str(name): str(value) for name, value in env.items()}
        return BubblewrapSandbox(self._built(folder), limits=task.limits, env=variables, workdir=workdir)

    def open(self, start: Start) -> Place:
        """A running sandbox at a start.

        Raises:
            ReplayLost: the prefix cannot be rebuilt.
            SandboxError: the sandbox, or the task's environment, is at fault.
        """
        if start.prefix is None:
            box = self.fresh(start.folder)
            box.start()
            return Place(box, box.shell(), box.workdir, box.stop)
        return self._branch(start, start.prefix)

    def _branch(self, start: Start, prefix: Prefix) -> Place:
        with self._lock:
            kept = self._kept.setdefault(prefix.id, _Kept())
            self._kept.move_to_end(prefix.id)
            kept.users += 1
        try:
            with kept.lock:
                if kept.state is None:
                    if kept.failed >= _TRIES:
                        raise ReplayLost(kept.why)
                    self._make(kept, start, prefix)
                assert kept.state is not None
                state = kept.state
            box, shell = state.branch(1)[0]
        except BaseException:
            self._release(kept)
            raise
        with self._lock:
            self.branches += 1

        def close() -> None:
            try:
                box.stop()
            finally:
                self._release(kept)

        return Place(box, shell if prefix.lasting else None, prefix.workdir or box.workdir, close)

    def _make(self, kept: _Kept, start: Start, prefix: Prefix) -> None:
        """Replays a prefix and keeps its state. The lock of `kept` is held."""
        with self._lock:
            self.replays += 1
        try:
            kept.state = replayed(prefix, lambda: self.fresh(start.folder, prefix.workdir))
        except ReplayLost as error:
            kept.failed, kept.why = kept.failed + 1, str(error)
            raise

    def _release(self, kept: _Kept) -> None:
        with self._lock:
            kept.users -= 1
            unused = [name for name, one in self._kept.items() if not one.users and one.state is not None]
            over = max(0, sum(one.state is not None for one in self._kept.values()) - self.most)
            spare = [self._kept.pop(name) for name in unused[:over]]
        for one in spare:
            if one.state is not None:
                one.state.discard()

    def close(self) -> None:
        """Removes the states from the disk; no place may be open any more."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), OrderedDict()
        for one in kept:
            if one.state is not None:
                one.state.discard()

    def __enter__(self) -> States:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def replayed(prefix: Prefix, start: replay.Start) -> replay.Prefix:
    """The state at a prefix's end, by one replay that shows what is on record; by two where noise was allowed.

    Raises:
        ReplayLost: it shows something else.
        SandboxError: the sandbox is at fault.
    """
    recording = prefix.recording
    if prefix.grade == "masked":
        made = replay.verify(recording, start, keep=True)
        if not made.trusted("masked"):
            made.discard()
            raise _lost(made)
        return made
    live = replay.Live(recording, start)
    try:
        compared = []
        for one in recording.commands:
            compared.append(replay.compare(one, [live.step(one)]))
            if compared[-1].grade != "exact":
                raise _lost(replay.Prefix(recording, start, compared, []))
        made = replay.Prefix(recording, start, compared, live.processes())
        if live.shell is not None:
            made.shell_state = live.shell.state()
        if not made.live:
            made.state = live.sandbox.snapshot()
        return made
    finally:
        live.stop()


def _lost(made: replay.Prefix) -> ReplayLost:
    worst = made.first_difference
    assert worst is not None
    return ReplayLost(f"{worst.reason}: {worst.recorded.shown[:160]}")


__all__ = ["Place", "ReplayLost", "States", "replayed"]
