"""Replaying what was recorded in fresh sandboxes, and branching from the state that it leads to.

A recording is replayed twice before it is trusted. Each command gets a grade: *exact*, *masked* (equal but for the
noise that the two replays show), *different*, or *unknown* where the record cannot tell. By default a prefix is
trusted only if every command is exact.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from misstep.sandbox.base import Observation, Process, SandboxError, shorten
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.noise import Mask, Moment
from misstep.sandbox.record import Recorded, Recording, relative_to
from misstep.sandbox.shell import ResidentShell
from misstep.sandbox.state import LayerState

Grade = Literal["exact", "masked", "different", "unknown"]
GRADES: tuple[Grade, ...] = ("exact", "masked", "different", "unknown")

Start = Callable[[], BubblewrapSandbox]
"""Makes a fresh sandbox of the state in which the recording began; started or not."""


@dataclass(frozen=True)
class Replayed:
    """What one command showed in a replay."""

    output: str
    exit_code: int | None
    moment: Moment
    timed_out: bool = False
    problem: str = ""
    """Why it could not be replayed as recorded (an edit of a text that is not there)."""


@dataclass(frozen=True)
class Compared:
    """One command: as recorded, as replayed, and the grade."""

    recorded: Recorded
    replays: tuple[Replayed, ...]
    grade: Grade

    @property
    def reason(self) -> str:
        """What differs, in a few words; '' for exact."""
        problem = next((r.problem for r in self.replays if r.problem), "")
        if self.grade == "exact" or problem:
            return problem
        if self.grade == "unknown":
            return "the record does not tell"
        if self.grade == "masked":
            return "differs in noise only"
        codes = {r.exit_code for r in self.replays}
        if self.recorded.exit_code is not None and codes != {self.recorded.exit_code}:
            return f"exit code {self.recorded.exit_code} became {'/'.join(map(str, sorted(codes, key=str)))}"
        return "the output differs"


class Live:
    """A replay in progress: a sandbox and the shell in it that went through the recording."""

    def __init__(self, recording: Recording, start: Start) -> None:
        self.recording = recording
        self.sandbox = start()
        if not self.sandbox.alive:
            self.sandbox.start()
        self.workdir = recording.workdir or self.sandbox.workdir
        self.shell: ResidentShell | None = None
        if recording.lasting:
            self.shell = self.sandbox.shell(cwd=self.workdir)

    def step(self, recorded: Recorded) -> Replayed:
        """Does once more what was recorded."""
        began = time.time()
        if recorded.edits:
            problem = self._edit(recorded)
            return Replayed("", None, Moment(began, time.time()), problem=problem)
        seen = self._run(recorded)
        return Replayed(shorten(seen.output), seen.exit_code, Moment(began, time.time()), seen.timed_out)

    def _run(self, recorded: Recorded) -> Observation:
        if self.shell is not None:
            command = recorded.command
            if recorded.cwd and recorded.cwd != self.workdir:
                command = f"cd {shlex.quote(recorded.cwd)} && {command}" if "\n" not in command else command
            return self.shell.run(command, timeout=recorded.timeout)
        done = self.sandbox.exec(
            recorded.command, cwd=recorded.cwd or self.workdir, timeout=recorded.timeout, merge=True
        )
        return Observation(done.text, done.exit_code, done.seconds, done.timed_out, done.flooded)

    def _edit(self, recorded: Recorded) -> str:
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder, "file")
            for name, old, new in recorded.edits:
                path = relative_to(name, recorded.cwd or self.workdir)
                text = new.encode("utf-8", "surrogateescape")
                if old:
                    try:
                        self.sandbox.download(path, local)
                    except SandboxError as error:
                        return str(error)
                    there, wanted = local.read_bytes(), old.encode("utf-8", "surrogateescape")
                    if wanted not in there:
                        return f"the text to replace is not in {path}"
                    text = there.replace(wanted, text, 1)
                local.write_bytes(text)
                self.sandbox.upload(local, path)
        return ""

    def processes(self) -> list[Process]:
        """What still runs, beside the shell."""
        own = self.shell.pid if self.shell is not None else None
        return [process for process in self.sandbox.processes() if process.pid != own]

    def stop(self) -> None:
        self.sandbox.stop()


def compare(recorded: Recorded, replays: Sequence[Replayed]) -> Compared:
    """The grade of one command by its replays (two, for noise to be told)."""
    runs = tuple(replays)
    if any(run.problem for run in runs):
        return Compared(recorded, runs, "different")
    if recorded.edits:
        return Compared(recorded, runs, "exact")
    codes = {run.exit_code for run in runs}
    if recorded.exit_code is not None and codes != {recorded.exit_code}:
        return Compared(recorded, runs, "different")
    if recorded.output is None:
        return Compared(recorded, runs, "unknown")
    if len(codes) > 1:
        return Compared(recorded, runs, "different")
    ends = " \t\r\n" if recorded.trimmed else ""
    shown, *outputs = (text.strip(ends) if ends else text for text in (recorded.output, *(run.output for run in runs)))
    if all(output == shown for output in outputs):
        return Compared(recorded, runs, "exact")
    if len(runs) >= 2:
        mask = Mask(outputs[0], outputs[1], (runs[0].moment, runs[1].moment))
        ran = None
        if recorded.started is not None:
            ran = Moment(
                recorded.started, recorded.started + (recorded.seconds if recorded.seconds is not None else 60.0)
            )
        if not mask.empty and mask.covers(shown, ran):
            return Compared(recorded, runs, "masked")
    return Compared(recorded, runs, "different")


@dataclass
class Prefix:
    """A recording that has been replayed twice, and the state that it leads to."""

    recording: Recording
    start: Start
    compared: list[Compared]
    live: list[Process]
    """What still runs at its end: such a prefix is branched by replay, not by its files alone."""
    shell_state: str = ""
    """A script that brings a new shell to where the recording's shell ended."""
    state: LayerState[BubblewrapSandbox] | None = None

    @property
    def grade(self) -> Grade:
        """The worst of its commands'; unknown is worse than different only in that it cannot be helped."""
        found = {one.grade for one in self.compared}
        for grade in ("different", "unknown", "masked"):
            if grade in found:
                return grade
        return "exact"

    def trusted(self, rule: Literal["exact", "masked"] = "exact") -> bool:
        """Whether the prefix may be built on: by default every output and exit code must be reproduced exactly."""
        return self.grade == "exact" or (rule == "masked" and self.grade == "masked")

    @property
    def first_difference(self) -> Compared | None:
        """The first command that is not exact; a difference before noise, noise before the unknown."""
        for grade in ("different", "masked", "unknown"):
            for one in self.compared:
                if one.grade == grade:
                    return one
        return None

    def branch(self, count: int = 1) -> list[tuple[BubblewrapSandbox, ResidentShell]]:
        """Starts `count` sandboxes at the end of the prefix, each with a shell that stands where the recording's did.

        By layers, about 10 ms each; where processes live on, each by a replay of its own, which must show what the
        first ones did.

        Raises:
            SandboxError: a replay went another way.
        """
        if self.live or self.state is None:
            with ThreadPoolExecutor(min(8, count)) as pool:
                return list(pool.map(lambda _: self._replayed(), range(count)))
        made = []
        for box in self.state.branch(count):
            shell = box.shell(cwd=self.recording.workdir)
            if self.shell_state:
                shell.run(self.shell_state)
            made.append((box, shell))
        return made

    def _replayed(self) -> tuple[BubblewrapSandbox, ResidentShell]:
        live = Live(self.recording, self.start)
        try:
            for one in self.compared:
                again = live.step(one.recorded)
                if compare(one.recorded, (one.replays[0], again)).grade != one.grade:
                    raise SandboxError(f"a branch's replay went another way at: {one.recorded.shown[:200]}")
        except BaseException:
            live.stop()
            raise
        return live.sandbox, live.shell or live.sandbox.shell(cwd=self.recording.workdir)

    def discard(self) -> None:
        """Removes the state."""
        if self.state is not None:
            self.state.discard()
            self.state = None


def verify(recording: Recording, start: Start, *, keep: bool = False) -> Prefix:
    """Replays a recording twice, one time after the other, each in a fresh sandbox, and compares.

    Args:
        start: makes the sandbox that the recording began in.
        keep: keep the state at its end, for `Prefix.branch`.
    """
    latest = max((one.started for one in recording.commands if one.started is not None), default=0.0)
    time.sleep(
        min(1.1, max(0.0, latest + 1.1 - time.time()))
    )  # in the same second `date` would look as if it were exact
    began = time.time()
    first = Live(recording, start)
    try:
        shown = [first.step(recorded) for recorded in recording.commands]
    finally:
        first.stop()
    if any(
        compare(recorded, [run]).grade == "different" for recorded, run in zip(recording.commands, shown, strict=True)
    ):
        time.sleep(max(0.0, 1.1 - (time.time() - began)))  # what the clock does shows only in another second
    second = Live(recording, start)
    try:
        again = [second.step(recorded) for recorded in recording.commands]
        compared = [compare(*row) for row in zip(recording.commands, zip(shown, again, strict=True), strict=True)]
        prefix = Prefix(recording, start, compared, second.processes())
        if keep:
            if second.shell is not None:
                prefix.shell_state = second.shell.state()
            if not prefix.live:
                prefix.state = second.sandbox.snapshot()
        return prefix
    finally:
        second.stop()
