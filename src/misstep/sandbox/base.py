"""What a sandbox is: the protocol that every backend keeps, its limits, results and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable


class SandboxError(RuntimeError):
    """The sandbox, not what runs in it, is at fault: never the failure of a task. The text is one line."""


class Unavailable(SandboxError):
    """No sandbox can run on this machine as it is; the text ends with what mends it."""


class SandboxGone(SandboxError):
    """The sandbox ended while something was asked of it."""


@dataclass(frozen=True)
class Limits:
    """What a sandbox may use. None: no limit of ours.

    Memory, processes and CPU are held by cgroups where this user may make some. Elsewhere processes are held by
    RLIMIT_NPROC, CPU by so many whole cores, and memory is not held: `BubblewrapSandbox.enforced` says which.
    """

    memory_mb: int | None = 2048
    processes: int | None = 512
    cpus: float | None = None
    """Cores' worth of time; 0.5 is half of one's. Without cgroups it is rounded up to whole cores, which others share."""
    disk_mb: int | None = None
    """Everything that is written outside /dev/shm and mounts: held in memory, and counted as such."""
    file_mb: int | None = 4096
    """The largest single file."""
    output_mb: float = 16.0
    """Standard output and error of one command, together; a command that writes more is killed."""
    seconds: float | None = 600.0
    """Of one command, where its call does not say."""


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    output: bytes
    """Standard output; both streams, in the order written, where they were merged."""
    errors: bytes
    exit_code: int
    """The command's own; 128 + n where signal n ended it (124 where that was its time limit)."""
    seconds: float
    timed_out: bool = False
    flooded: bool = False
    """It was killed because it wrote more than `Limits.output_mb`."""
    cpu_seconds: float = 0.0

    @property
    def text(self) -> str:
        """The output as text; bytes that are not UTF-8 are shown as the replacement character."""
        return self.output.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        return self.errors.decode("utf-8", "replace")


@dataclass(frozen=True)
class Observation:
    """What a command in a shell session showed."""

    output: str
    exit_code: int | None
    """None where the shell itself ended with the command."""
    seconds: float
    timed_out: bool = False
    flooded: bool = False
    shell_ended: bool = False
    """The shell ended (`exit`, or it was killed): the next command starts in a new one."""


@dataclass(frozen=True)
class Process:
    """A process that lives in a sandbox."""

    pid: int
    session: int
    command: str


@dataclass(frozen=True)
class Bind:
    """A file or directory of this machine that is shown inside."""

    source: Path
    target: str
    read_only: bool = True


@runtime_checkable
class Shell(Protocol):
    """A shell whose working directory, variables and functions last from one command to the next."""

    def run(self, command: str, *, timeout: float | None = None) -> Observation: ...

    def close(self) -> None: ...


@runtime_checkable
class Terminal(Shell, Protocol):
    """A shell at a terminal: as a Shell, and by keys for what runs in it."""

    def send(self, *keys: str, literal: bool = False) -> None:
        """Types: a key's name (Enter, C-c, Up, F1 ...) is that key, any other text is typed as it is."""
        ...

    def read(self, timeout: float = 1.0) -> str:
        """What has been shown since the last read, as the program wrote it."""
        ...

    def screen(self) -> str:
        """What is to be seen now: the lines of the screen, without trailing blanks."""
        ...


@runtime_checkable
class State(Protocol):
    """The files of a sandbox at one moment; what ran in it is not part of it."""

    def branch(self, count: int = 1) -> Sequence[Sandbox]:
        """Starts `count` sandboxes from this state."""
        ...

    def discard(self) -> None: ...


@runtime_checkable
class Sandbox(Protocol):
    """An isolated root in which commands run."""

    def start(self) -> None: ...

    def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        merge: bool = False,
    ) -> Done:
        """Runs a command to its end; a text is given to the shell, a sequence is run as it is.

        Raises:
            SandboxGone: the sandbox ended meanwhile.
            SandboxError: the command could not be started.
        """
        ...

    def shell(self, *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Shell: ...

    def terminal(self, *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Terminal: ...

    def upload(self, source: Path, target: str) -> None:
        """Copies a file to the path `target`, or what a directory holds into the directory `target`."""
        ...

    def download(self, source: str, target: Path) -> None: ...

    def end_session(self) -> Sequence[Process]:
        """Ends what is attached to the agent, as a harness does when its agent stops; returns what stays."""
        ...

    def snapshot(self) -> State:
        """Stops the sandbox and keeps its files."""
        ...

    def stop(self) -> None: ...


HEAD = TAIL = 5000
"""Characters of an output's start and end that an agent is shown."""


def shorten(text: str, head: int = HEAD, tail: int = TAIL) -> str:
    """The observation that an agent gets of an output: its first and last characters, and how many are left out."""
    if len(text) <= head + tail:
        return text
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[len(text) - tail :]}"


BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "SHELL": "/bin/bash",
    "HOSTNAME": "sandbox",
    "TERM": "dumb",
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PERL_HASH_SEED": "0",
    "SOURCE_DATE_EPOCH": "1700000000",
}
"""The environment of every command: what else would make outputs vary is fixed."""


@dataclass(frozen=True)
class Root:
    """A root file system: layers that are never written, lowest first, and what is shown over them."""

    name: str
    layers: tuple[Path, ...]
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str | None = None
    """Who commands run as that do not say; None: root."""
