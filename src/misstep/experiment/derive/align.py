"""Two trajectories side by side: what they did alike, and where they first part.

Calls are alike where they have the same effects on the same paths, however they are written; looking around (reading,
listing, searching) is no parting of ways.
"""

from __future__ import annotations

import posixpath
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from misstep.scan.record import cut, describe
from misstep.shell import Command
from misstep.trajectory import After, Before, Call, Result, Stop, Trajectory, events

LOOKING = frozenset(["read", "search", "probe", "compare", "lint", "sleep", "interactive", "endless", "mask"])
"""Effects that change nothing that is judged."""
_PROGRAMS = """
[ alias basename cat cd clear cut date df dirname du echo env expr export false file free getent grep head hexdump history
hostname id jobs jq ls lscpu lsof md5sum netstat nl nproc od printenv printf ps pwd readlink realpath seq set sha256sum
sleep sort ss stat strings tail test top tr tree true type ulimit uname uniq wait wc which whoami xxd
"""
_LOOKERS = frozenset(_PROGRAMS.split())
"""Programs that change nothing when no effect is told of them."""
_TRANSPARENT = frozenset(["sudo", "env", "command", "exec", "nice", "bash -c", "sh -c"])
"""Wrappers that make a program do nothing else."""
_INCIDENTAL = frozenset(["cwd", "to", "partial", "raw", "through"])
_TABLE = 4_000_000
"""Cells of the table up to which the longest common subsequence is exact; beyond it, blocks are matched."""

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A call or a stop of one trajectory, small enough to be sent between processes."""

    key: Key
    acts: bool
    """It may change something: not only looking."""
    step: int
    """In the record, from 0."""
    text: str
    """For a person: cut and redacted."""
    result: str = ""
    """'ok', 'failed', 'exit 3', ...; '' where the record does not tell."""

    def plain(self) -> dict[str, Any]:
        return {"step": self.step, "text": self.text, "result": self.result}


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a failed and a passed attempt part."""

    common: int
    """Moves that are alike in the best alignment."""
    failed_moves: int
    passed_moves: int
    last: tuple[Move, Move] | None
    """The last moves that are alike before they part, (failed, passed); None where they part at the prompt."""
    failed: Move | None
    """What the failed attempt does next; None where its record ends."""
    passed: Move | None
    variant: tuple[Move, Move] | None = None
    """The first step before that which both take, in other words (another file content, another option)."""

    @property
    def parted(self) -> bool:
        """Whether they part at all: with the same steps taken, chance or time made the difference."""
        return self.failed is not None or self.passed is not None

    def plain(self) -> dict[str, Any]:
        def both(pair: tuple[Move, Move] | None) -> Any:
            return None if pair is None else {"failed": pair[0].plain(), "passed": pair[1].plain()}

        return {
            "common": self.common,
            "moves": {"failed": self.failed_moves, "passed": self.passed_moves},
            "last_common": both(self.last),
            "next": {
                "failed": self.failed.plain() if self.failed else None,
                "passed": self.passed.plain() if self.passed else None,
            },
            "same_step_other_words": both(self.variant),
        }


def moves(trajectory: Trajectory) -> list[Move]:
    """The calls and stops of a trajectory, in order."""
    made: list[Move] = []
    open_calls: dict[str, int] = {}
    for event in events(trajectory):
        if isinstance(event, Before):
            open_calls[event.call.id] = len(made)
            key, acts = key_of(event.call)
            made.append(Move(key, acts, event.step, " ".join(cut(describe(event.call, brief=True), 200).split())))
        elif isinstance(event, After):
            at = open_calls.get(event.call.id)
            if at is not None:
                old = made[at]
                made[at] = Move(old.key, old.acts, old.step, old.text, told(event.result))
        elif isinstance(event, Stop):
            text = " ".join(cut(event.message, 160).split())
            made.append(Move(("stop",), True, event.step, f"stops: {text}" if text else "stops"))
    return made


def told(result: Result) -> str:
    """How a call ended, '' where the record does not tell."""
    if result.fault:
        return result.fault
    if result.timed_out:
        return "timed out"
    if result.running:
        return "running"
    if result.exit_code is not None:
        return "ok" if result.exit_code == 0 else f"exit {result.exit_code}"
    return "" if result.failed is None else "failed" if result.failed else "ok"


def key_of(call: Call) -> tuple[Key, bool]:
    """(what makes two calls alike, whether the call acts)."""
    script = call.script
    if script is None:
        paths = tuple(_path(path, call.cwd) for path in call.paths)
        acts = call.kind not in ("read", "search")
        if paths:
            return (call.kind, *paths), acts
        return (call.kind, call.tool, describe(call)), acts
    if script.damage:
        return ("text", " ".join(script.text.split())), True
    looks: list[Key] = []
    does: list[Key] = []
    explained = set()
    for effect in call.effects:
        if effect.command is not None and effect.kind != "mask":
            explained.add(id(effect.command))
        cwd = effect.info.get("cwd") or call.cwd
        info = sorted((name, _plain(value)) for name, value in effect.info.items() if name not in _INCIDENTAL)
        paths = tuple(_path(path, cwd) for path in effect.paths)
        if effect.kind not in LOOKING:
            # a program of the user's own does what its arguments say, for as long as it is let
            own = effect.command if effect.kind == "run" else None
            does.append((effect.kind, paths, *info, *(() if own is None else _started(own))))
        else:
            looks.append((effect.kind, paths))
    for command in script.commands:
        if id(command) in explained or not command.argv:
            continue
        looking = posixpath.basename(command.argv[0]) in _LOOKERS
        (looks if looking else does).append(("run", *_started(command)))
    if does:
        return ("does", *does), True
    if looks:
        return ("looks", *looks), False
    return ("text", " ".join(script.text.split())), False


def _started(command: Command) -> Key:
    """How a program is started: its words, whether the shell waits, and what is around it (`setsid`, `timeout`)."""
    around = tuple(one for one in command.wrappers if one.rpartition("/")[2] not in _TRANSPARENT)
    return (*command.argv, command.background, *around)


def _path(path: str, cwd: Any) -> str:
    """A path as it is written, in its plain form; joined with its folder where that is known to be absolute."""
    if isinstance(cwd, str) and cwd.startswith("/") and not path.startswith(("/", "~", "$")):
        path = posixpath.join(cwd, path)
    return posixpath.normpath(path) if path else path


def _plain(value: Any) -> Hashable:
    return value if isinstance(value, Hashable) else repr(value)


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence, rising in both; the earliest in a where there are several.

    Beyond 4 million pairs of elements, matching blocks in its place: rising too, and perhaps not longest.
    """
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    pairs = [(at, at) for at in range(start)]
    rows, columns = len(a) - start, len(b) - start
    if not rows or not columns:
        return pairs
    if rows * columns > _TABLE:
        blocks = SequenceMatcher(None, list(a[start:]), list(b[start:]), autojunk=False).get_matching_blocks()
        return pairs + [(start + m.a + n, start + m.b + n) for m in blocks for n in range(m.size)]
    # best[i][j]: the length for a[i:], b[j:]
    best = [[0] * (columns + 1)]
    for i in range(rows - 1, -1, -1):
        below, row, one = best[-1], [0] * (columns + 1), a[start + i]
        for j in range(columns - 1, -1, -1):
            if one == b[start + j]:
                row[j] = below[j + 1] + 1
            else:
                row[j] = below[j] if below[j] >= row[j + 1] else row[j + 1]
        best.append(row)
    best.reverse()
    i = j = 0
    while i < rows and j < columns:
        if a[start + i] == b[start + j]:
            pairs.append((start + i, start + j))
            i, j = i + 1, j + 1
        elif best[i][j + 1] >= best[i + 1][j]:
            j += 1
        else:
            i += 1
    return pairs


def diverge(failed: Sequence[Move], passed: Sequence[Move]) -> Divergence:
    """Where two attempts at one task first part in what they do."""
    pairs = align([move.key for move in failed], [move.key for move in passed])
    i = j = 0
    last: tuple[Move, Move] | None = None
    variant: tuple[Move, Move] | None = None
    for a, b in [*pairs, (len(failed), len(passed))]:
        theirs, ours = _acting(failed[i:a]), _acting(passed[j:b])
        if theirs is not None or ours is not None:
            # where one side has nothing of its own here, it goes on with what comes next in both
            after = failed[a] if a < len(failed) else None, passed[b] if b < len(passed) else None
            return Divergence(len(pairs), len(failed), len(passed), last, theirs or after[0], ours or after[1], variant)
        if a < len(failed):
            last = failed[a], passed[b]
            if variant is None and last[0].acts and last[0].text != last[1].text and last[0].key != ("stop",):
                variant = last
        i, j = a + 1, b + 1
    return Divergence(len(pairs), len(failed), len(passed), last, None, None, variant)


def _acting(found: Sequence[Move]) -> Move | None:
    return next((move for move in found if move.acts), None)
