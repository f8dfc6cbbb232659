"""Recording commands, so that they can be replayed; and taking them from a trajectory of any agent.

A recording is a file of JSON lines: a header, then one line a command, flushed as it ends.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from misstep.sandbox.base import Observation, SandboxError, Shell, shorten
from misstep.trajectory.model import Call, Result, Trajectory

SCHEMA = "misstep.recording/1"

_FRESH = {"codex", "gemini-cli", "qwen-code", "mini-swe-agent", "opencode", "copilot-cli"}
"""Agents of whom every command gets a shell of its own; the others' shells last."""


_NUMBER = (int, float)
_MOST = 1e12  # seconds; more is no time
_KINDS: dict[str, type | tuple[type, ...]] = {
    "exit_code": int, "seconds": _NUMBER, "timeout": _NUMBER, "started": _NUMBER, "step": int, "cwd": str, "timed_out": bool,
    "trimmed": bool,
}  # fmt: skip
_WORDS: dict[type | tuple[type, ...], str] = {
    int: "a whole number",
    _NUMBER: "a number",
    str: "a text",
    bool: "true or false",
}


@dataclass(frozen=True)
class Recorded:
    """One thing that an agent did: a command, or edits by a tool of its harness."""

    command: str = ""
    output: str | None = None
    """What the agent was shown; None where the record cannot tell (cut, shared with others, still running)."""
    exit_code: int | None = None
    seconds: float | None = None
    timeout: float | None = None
    timed_out: bool = False
    started: float | None = None
    """Seconds since the epoch."""
    cwd: str | None = None
    """Where it ran, if the record says so."""
    edits: tuple[tuple[str, str, str], ...] = ()
    """(path, old text, new text); old is '' for a whole file."""
    trimmed: bool = False
    """The harness may have cut white space off the ends of the output."""
    step: int | None = None
    """Its step in the trajectory, from 0."""

    @property
    def shown(self) -> str:
        """The command, or what stands for it, on one line."""
        if self.command:
            return " ⏎ ".join(self.command.strip().splitlines())
        return "; ".join(f"{'write' if not old else 'edit'} {path}" for path, old, _ in self.edits)


@dataclass(frozen=True)
class Recording:
    """What an agent did, from a fresh root on."""

    commands: tuple[Recorded, ...] = ()
    lasting: bool = True
    """One shell for all commands; else each has its own."""
    workdir: str | None = None
    name: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Calls that cannot be replayed, by reason."""


class Recorder:
    """Runs commands in a shell and writes each down before it returns."""

    def __init__(self, shell: Shell, path: Path, *, workdir: str | None = None) -> None:
        self._shell = shell
        self._file = path.open("a", encoding="utf-8")
        if path.stat().st_size == 0:
            self._write({"schema": SCHEMA, "lasting": True, "workdir": workdir})

    def _write(self, row: Mapping[str, object]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()

    def run(self, command: str, *, timeout: float | None = None) -> Observation:
        """Runs a command; what it showed is shortened as it is for an agent."""
        started = time.time()
        seen = self._shell.run(command, timeout=timeout)
        shown = shorten(seen.output)
        row = Recorded(
            command, shown, seen.exit_code, round(seen.seconds, 4), timeout, seen.timed_out, round(started, 3)
        )
        self._write(
            {
                name: value
                for name, value in asdict(row).items()
                if value is not None and value is not False and value != ()
            }
        )
        return Observation(shown, seen.exit_code, seen.seconds, seen.timed_out, seen.flooded, seen.shell_ended)

    def close(self) -> None:
        self._file.close()


def _lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                if not line.endswith("\n"):
                    return  # the last line of a recording that was broken off
                raise SandboxError(f"{path}:{number}: expected a JSON object") from None
            if not isinstance(row, dict):
                raise SandboxError(f"{path}:{number}: expected a JSON object")
            yield number, row


def _plain(path: Path, number: int, what: str, text: object) -> None:
    """Raises where a text cannot be given to a program."""
    if isinstance(text, str) and "\0" in text:
        raise SandboxError(f"{path}:{number}: {what} has a NUL character")
    if isinstance(text, str) and re.search("[\ud800-\udc7f\udd00-\udfff]", text):  # the others stand for bytes
        raise SandboxError(f"{path}:{number}: {what} has half a character (a lone surrogate)")


def is_recording(path: Path) -> bool:
    """Whether a file is a recording of ours."""
    try:
        with path.open("rb") as file:
            return b'"misstep.recording/' in file.readline(400)
    except OSError:
        return False


def read(path: Path) -> Recording:
    """A recording of ours.

    Raises:
        SandboxError: naming the line that is not as it should be.
    """
    rows = _lines(path)
    _, head = next(rows, (0, {}))
    if head.get("schema") != SCHEMA:
        raise SandboxError(f"{path}:1: expected a recording of schema {SCHEMA}")
    lasting, workdir = head.get("lasting", True), head.get("workdir")
    if not isinstance(lasting, bool):
        raise SandboxError(f"{path}:1: expected true or false for lasting, found {str(lasting)[:40]!r}")
    if workdir is not None and not (isinstance(workdir, str) and workdir.startswith("/")):
        raise SandboxError(f"{path}:1: expected an absolute path for workdir, found {str(workdir)[:40]!r}")
    _plain(path, 1, "workdir", workdir)
    commands = []
    for number, row in rows:
        command, output = row.get("command"), row.get("output")  # none: it is not known
        if not isinstance(command, str) or not isinstance(output, str | None):
            raise SandboxError(f"{path}:{number}: expected the texts command and output")
        _plain(path, number, "the command", command)
        known: dict[str, object] = {
            name: value for name, value in row.items() if name in Recorded.__match_args__ and name != "edits"
        }
        for name, kinds in _KINDS.items():
            value = known.get(name)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) is not (kinds is bool)):
                raise SandboxError(f"{path}:{number}: expected {_WORDS[kinds]} for {name}, found {str(value)[:40]!r}")
            if kinds is _NUMBER and value is not None and not 0 <= value <= _MOST:  # type: ignore[operator]
                raise SandboxError(f"{path}:{number}: expected 0 to {_MOST:g} for {name}, found {str(value)[:40]}")
        _plain(path, number, "cwd", known.get("cwd"))
        commands.append(Recorded(**{**known, "output": output}))  # type: ignore[arg-type]
    return Recording(tuple(commands), lasting, workdir, str(path))


def _comparable(call: Call, result: Result | None) -> tuple[str | None, int | None]:
    if result is None or result.fault or result.shared or result.running or call.background:
        return None, None
    return None if result.truncated else result.output, result.exit_code


def from_trajectory(trajectory: Trajectory) -> Recording:
    """What an agent did that changes or shows its machine, in order. Reads and searches by tools change nothing."""
    commands: list[Recorded] = []
    skipped: dict[str, int] = {}

    def skip(reason: str) -> None:
        skipped[reason] = skipped.get(reason, 0) + 1

    for number, step in enumerate(trajectory.steps):
        if step.copied:
            continue
        for call in step.calls:
            result = step.results.get(call.id)
            if result is not None and result.fault:
                skip(f"{result.fault}: it had no effect")
            elif call.kind == "shell" and call.command is not None:
                output, code = _comparable(call, result)
                timed_out = bool(result and result.timed_out)
                seconds = result.seconds if result else None
                commands.append(
                    Recorded(
                        call.command,
                        output,
                        code,
                        seconds,
                        call.timeout,
                        timed_out,
                        step.time,
                        call.cwd,
                        trimmed=True,
                        step=number,
                    )
                )
            elif call.kind == "keys":
                skip("keystrokes to a terminal")
            elif call.kind in ("write", "edit") and call.edits:
                commands.append(Recorded(edits=call.edits, started=step.time, step=number))
            elif call.kind in ("write", "edit"):
                skip("an edit whose text is not recorded")
            elif call.kind == "other":
                skip("a tool that is not known")
    lasting = trajectory.agent not in _FRESH
    return Recording(tuple(commands), lasting, trajectory.cwd or None, trajectory.id, skipped)


def relative_to(path: str, workdir: str) -> str:
    """A path of a tool, as the sandbox sees it."""
    return posixpath.normpath(posixpath.join(workdir, path))


def kept_environment(names: Sequence[str]) -> dict[str, str]:
    """Variables of this process that the user asked to pass on."""
    return {name: os.environ[name] for name in names if name in os.environ}
