"""The agent reads again what it has just read and nothing has changed.

## What it is

The same file, the same range, the same content: read a second time while the first reading still stands in the
agent's context.

## Why it matters

A long file read twice costs its length twice, in every later turn too. Agents that lose track of what they have seen do
it over and over.

## How it is told

Two reads with the same arguments gave the same text (compared by digest, at least 400 characters), with no compaction of
the context and no prompt of a person between them, at most 40 calls apart. A read after a failed edit of the file is none:
harnesses ask for it. Every read of a file is an opportunity, where a second read is told from a first one by its arguments.

## Known misses

Reads of an overlapping range; a file read once by a tool and once by `cat`; reads that are further apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from misstep._record import field, record
from misstep.trajectory import After, Before, Call, Compact, Interrupt, Prompt

from ._world import Opened, began, bound, digest, opened, same_path
from .base import Misstep, Verdict

LEAST = 400
"""Characters of output below which a second look costs nothing."""
FAR = 40
"""Calls after which a reading counts as out of sight."""


@record
class Seen(Opened):
    calls: int = 0
    seen: dict[str, list] = field(default_factory=dict)
    """Digest of the read's arguments -> [event index, call number, digest of what came back]."""
    asked: list[str] = field(default_factory=list)
    """Files that an edit failed on since, newest last: reading them again is right."""


class RereadsUnchangedFile(Misstep):
    id = "rereads-unchanged-file"
    name = "reads again what it has just read and nothing has changed"
    State = Seen

    def on_prompt(self, state: Seen, event: Prompt) -> None:
        state.seen.clear()

    def on_compact(self, state: Seen, event: Compact) -> None:
        state.seen.clear()

    def on_interrupt(self, state: Seen, event: Interrupt) -> None:
        state.seen.clear()

    def on_before(self, state: Seen, event: Before) -> None:
        state.calls += 1
        opened(state, event)

    def on_after(self, state: Seen, event: After) -> Iterable[Verdict] | None:
        at, call, result = began(state, event), event.call, event.result
        if call.kind in ("edit", "write"):
            if result.failed or result.fault:
                state.asked = [*state.asked, *call.paths][-8:]
            return None
        key = _reading(call)
        if key is None or at is None or result.fault or result.failed or result.shared:
            return None
        content = digest(result.output)
        before = state.seen.pop(key, None)
        state.seen[key] = [at, state.calls, content]
        bound(state.seen, 80)
        wanted = any(same_path(a, p) for a in state.asked for e in call.effects for p in e.paths)
        if wanted:
            state.asked.clear()
        if before is None or before[2] != content or state.calls - before[1] > FAR or wanted:
            return [Verdict(False, at)]
        if len(result.output) < LEAST or result.truncated:
            return [Verdict(False, at)]
        what = ", ".join(p for e in call.effects for p in e.paths)[:80]
        return [Verdict(True, at, f"{what}: the same {len(result.output)} characters as before", (before[0],))]


def _reading(call: Call) -> str | None:
    """A digest of the arguments of a call that only reads files, None for any other call."""
    effects = call.effects
    if call.kind == "read":
        text = json.dumps(call.arguments, sort_keys=True, default=str)
    elif call.kind == "shell" and effects and all(e.kind == "read" for e in effects):
        if call.script is None or len(call.script.commands) != len(effects):
            return None
        text = call.command or ""
    else:
        return None
    return digest(f"{call.cwd}\0{text}")
