"""A trajectory: what an agent was asked, said, did and saw, whatever program recorded it.

The content follows ATIF 1.8 (steps with tool calls, an observation and metrics); the classes are
plain records because hooks and scans load them thousands of times a day.
"""

from __future__ import annotations

from misstep._record import field, record
from misstep.shell import Effect, Script, effects_of, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter
    from functools import cached_property
    from typing import Any
else:

    class cached_property:  # noqa: N801
        """functools' own, without its import: a hook cannot afford it."""

        def __init__(self, work):
            self.work, self.__doc__ = work, work.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.work(instance)
            return value


FAULTS = ("interrupted", "refused", "harness", "malformed", "never-ran")
"""Why a call has no result that counts: a person interrupted it, a person or a rule refused it, the
harness broke, the call itself was malformed (unknown tool, bad arguments), it was never started."""


@record
class Call:
    """One tool call that an agent proposed."""

    id: str
    tool: str
    """The agent's own name for the tool: `Bash`, `exec_command`, `run_shell_command` ..."""
    kind: str
    """What the tool is: shell | keys (keystrokes to a terminal) | read | write | edit | search | finish | other."""
    arguments: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    """The shell text, where the call runs one."""
    paths: tuple[str, ...] = ()
    """Files that a read, write or edit tool names."""
    edits: tuple[tuple[str, str, str], ...] = ()
    """(path, old text, new text) of a write or edit; old is '' where the tool does not say it (a whole-file write)."""
    background: bool = False
    """The harness runs it in the background (`run_in_background`)."""
    timeout: float | None = None
    """Seconds after which the harness ends it, where the call says so."""
    cwd: str | None = None

    @cached_property
    def script(self) -> Script | None:
        """The parsed command, None where the call runs none."""
        return None if self.command is None else scan(self.command)

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What the call does, shell commands and editor tools alike; () where the command is damaged."""
        if self.script is not None:
            return () if self.script.damage else tuple(effects_of(self.script))
        if self.kind == "read":
            return (Effect("read", self.paths, None, {"to": "tool", "partial": False}),)
        if self.kind == "write":
            return (Effect("write", self.paths, None, {"append": False, "in_place": False}),)
        if self.kind == "edit":
            return (Effect("write", self.paths, None, {"append": False, "in_place": True}),)
        if self.kind == "search":
            return (Effect("search", self.paths),)
        return ()


@record
class Result:
    """What came back from a call."""

    output: str
    """What the program or tool gave, without the header in which the harness says the exit code."""
    exit_code: int | None = None
    failed: bool | None = None
    """True, False, or None where the record does not tell."""
    fault: str | None = None
    """One of FAULTS where the result is not the agent's doing, else None."""
    truncated: bool = False
    """The harness cut the output (and said so)."""
    shared: bool = False
    """One observation for a whole batch of calls: it cannot be split between them."""
    running: bool = False
    """The command was still running when the harness returned."""
    timed_out: bool = False
    """The harness ended it at its time limit (and said so)."""
    seconds: float | None = None


@record
class Step:
    """One turn of the record: a prompt, or a model's answer with its calls and what they gave."""

    source: str
    """system | user | agent"""
    message: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    """By call id. A call with no entry has no recorded result."""
    time: float | None = None
    """Seconds since the epoch, UTC."""
    id: str = ""
    """The record's own id (uuid), for finding copies of one session in several files: a resumed session is written
    again as a growing prefix, and a sub-agent's steps may be in the parent's file and in its own."""
    model: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    """prompt_tokens, completion_tokens, cached_tokens, cost_usd: those that are known."""
    prompt: bool = False
    """A real prompt of a person (or the task): not a reminder, a hook's text or a compaction summary."""
    interrupted: bool = False
    """A person broke the agent off here: what was under way has no stop."""
    compacted: bool = False
    """The context was summarised here."""
    copied: bool = False
    """A copy of an earlier step (ATIF is_copied_context): never counted twice."""
    stop: bool | None = None
    """True: the agent ended its turn with this step; False: it did not; None: told from what follows."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What a reader adds: `line` (in the file, from 1), `harness` (a system step that reports the harness's own error),
    `continues` ({call id: the earlier call whose process this one asks about}), `ended` ({call id: exit_code, seconds}
    of a command that outlived its call), `rewritten` ({call id: the input that a hook put in the place of the agent's})."""


@record
class Outcome:
    """How the attempt was judged, where that is recorded."""

    passed: bool | None = None
    reward: float | None = None
    task: str = ""
    """What groups attempts of one task: name and checksum."""
    attempt: str = ""
    fault: str | None = None
    """'infrastructure' or 'never-ran': the attempt says nothing about the agent."""
    exception: str = ""
    cost_usd: float | None = None
    seconds: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def _counter() -> Counter[str]:
    from collections import Counter

    return Counter()


@record
class Trajectory:
    """One agent's record of one session; sub-agents have their own."""

    id: str
    format: str
    agent: str
    """codex | claude-code | gemini-cli | qwen-code | copilot-cli | opencode | mini-swe-agent | swe-agent | openhands | terminus-2 | ..."""
    steps: list[Step] = field(default_factory=list)
    path: str = ""
    agent_version: str = ""
    model: str = ""
    cwd: str = ""
    parent: str = ""
    """The trajectory that started this one (a sub-agent), '' otherwise."""
    outcome: Outcome | None = None
    skipped: Counter[str] = field(default_factory=_counter)
    """Records that could not be used, by reason."""
    extra: dict[str, Any] = field(default_factory=dict)
    late: bool = False
    """The record begins in the middle of a session: what came before is not in it."""

    @property
    def started(self) -> float | None:
        """Seconds since the epoch of the first step that has a time."""
        return next((s.time for s in self.steps if s.time is not None), None)
