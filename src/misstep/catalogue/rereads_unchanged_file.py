"""The agent reads again what it has just read and nothing has changed.

## What it is

The same file, the same range, the same content: read a second time while the first reading still stands in the
agent's context.

## Why it matters

A long file read twice costs its length twice, in every later turn too. Agents that lose track of what they have seen do
it over and over.

## How it is told

Two reads with the same arguments gave the same text (compared by digest, at least 400 characters), with no compaction of
the context and no prompt of a person between them, at most 40 calls apart. A read after an edit of the file is none, even where the range that is read is
as it was, and neither is one after a failed edit: harnesses ask for it. Where something that may rewrite the whole tree ran in between (a formatter, a fixing linter, `git checkout`, `merge`,
`pull`, `stash`) on a file that the agent had edited, it cannot be told (unknown). Every read of a file is an opportunity, where a second read is told from a first one by its arguments.

## Known misses

Reads of an overlapping range; a file read once by a tool and once by `cat`; reads that are further apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from misstep._record import field, record
from misstep.trajectory import After, Before, Call, Compact, Interrupt, Prompt

from ._regex import Regex
from ._world import Opened, began, bound, digest, opened, same_path
from .base import Misstep, Verdict

LEAST = 400
"""Characters of output below which a second look costs nothing."""
FAR = 40
"""Calls after which a reading counts as out of sight."""
_TREE = Regex(
    r"fmt|format|fix|[Ll]int|prettier|black|goimports|codemod|generate|--write\b|\bpatch\b|"
    r"\bgit\b[^\n;&|]*\s(?:checkout|merge|stash|pull|rebase|reset|restore|switch|apply|am|cherry-pick|revert)\b"
)
"""What may rewrite files that its command does not name."""


@record
class Seen(Opened):
    calls: int = 0
    seen: dict[str, list] = field(default_factory=dict)
    """Digest of the read's arguments -> [event index, call number, digest of what came back, paths, tree rewritten since]."""
    asked: dict[str, int] = field(default_factory=dict)
    """Files that an edit failed on -> call number: reading them again is right."""
    edited: list[str] = field(default_factory=list)
    """Files that the agent edited, newest last, at most 60."""


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
                for path in call.paths:
                    state.asked.pop(path, None)
                    state.asked[path] = state.calls
                bound(state.asked, 8)
            else:
                self._edited(state, call.paths)
            return None
        key = _reading(call)
        if key is None and call.script is not None and not result.fault:
            self._ran(state, call)
        if key is None or at is None or result.fault or result.failed or result.shared:
            return None
        content = digest(result.output)
        before = state.seen.pop(key, None)
        paths = [p for e in call.effects for p in e.paths][:4]
        state.seen[key] = [at, state.calls, content, paths, False]
        bound(state.seen, 80)
        if before is None or before[2] != content or state.calls - before[1] > FAR:
            return [Verdict(False, at)]
        if any(number >= before[1] and same_path(a, p) for a, number in state.asked.items() for p in paths):
            return [Verdict(False, at)]
        if len(result.output) < LEAST or result.truncated:
            return [Verdict(False, at)]
        what = ", ".join(paths)[:80]
        if before[4]:
            return [
                Verdict(None, at, f"{what}: the same as before, but the tree may have been rewritten", (before[0],))
            ]
        return [Verdict(True, at, f"{what}: the same {len(result.output)} characters as before", (before[0],))]

    def _edited(self, state: Seen, paths: Iterable[str]) -> None:
        """Forget readings of files that the agent has changed."""
        for path in paths:
            state.edited = [*(p for p in state.edited if p != path), path][-60:]
            for key in [k for k, entry in state.seen.items() if any(_same(path, p) for p in entry[3])]:
                del state.seen[key]

    def _ran(self, state: Seen, call: Call) -> None:
        """Take note of what a command may have changed: files that it names, or the whole tree."""
        touched = [p for e in call.effects if e.kind in ("write", "move", "delete", "format") for p in e.paths]
        touched += [str(e.info["dest"]) for e in call.effects if e.kind in ("copy", "move") and e.info.get("dest")]
        self._edited(state, [p for p in touched if not p.startswith("/dev/")])
        names = {path.rsplit("/", 1)[-1] for path in state.edited}
        own = [
            entry
            for entry in state.seen.values()
            if not entry[4] and any(p.rsplit("/", 1)[-1] in names and self._is_own(state, p) for p in entry[3])
        ]
        if own and _TREE.search(call.command or ""):
            for entry in own:
                entry[4] = True

    def _is_own(self, state: Seen, path: str) -> bool:
        return any(_same(path, edited) for edited in state.edited)


def _same(one: str, other: str) -> bool:
    return one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1] and same_path(one, other)


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
