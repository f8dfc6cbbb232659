"""The agent runs a check again only to see another part of its output.

## What it is

A test, build or lint run is piped through `tail`, `head` or `grep`; the part that matters is cut off, and the same run is
started again with another filter, with nothing changed in between.

## Why it matters

The second run tells nothing that the first did not know. Checks are often the slowest thing an agent does, and a flaky one may even answer
differently the second time. Writing the output to a file once (`... > check.log 2>&1; tail check.log`) costs nothing.

## How it is told

Two runs of one check, the same in everything but the filters behind the pipe, where the first one finished and nothing
that may change a file ran between them. Every run of a test, build or lint command is an opportunity.

## Known misses

Runs that also change a flag (`-v`); checks that are started through a script of the project's own; runs whose
filtered form is not behind a pipe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from misstep.shell import Script
from misstep.trajectory import After, Before, Call, Prompt

from ._world import FILTERS, Opened, began, bound, changes, core, opened, short, timed_out
from .base import Misstep, Verdict

_CHECKS = frozenset(["test", "lint", "compile"])


@dataclass
class Ran(Opened):
    ran: dict[str, list] = field(default_factory=dict)
    """Checks that finished since the last change: core's digest -> [event index, digest of filters]."""


class RerunsToSeeMore(Misstep):
    id = "reruns-to-see-more"
    name = "runs a check again only to see another part of its output"
    State = Ran

    def on_prompt(self, state: Ran, event: Prompt) -> None:
        state.ran.clear()

    def on_before(self, state: Ran, event: Before) -> None:
        opened(state, event)

    def on_after(self, state: Ran, event: After) -> Iterable[Verdict] | None:
        at, call = began(state, event), event.call
        script = call.script
        check = script is not None and _is_check(call)
        if not check or script is None:
            if changes(call) is not False and event.result.fault not in ("refused", "never-ran"):
                state.ran.clear()
            return None
        if at is None or event.result.fault or event.result.running or call.background or timed_out(call, event.result):
            return None
        key, shown = _digest(core(script)), _digest(_filters(script))
        before = state.ran.get(key)
        if changes(call) is True:
            state.ran.clear()
            return [Verdict(False, at)]
        state.ran.pop(key, None)
        state.ran[key] = [at, shown]
        bound(state.ran, 24)
        if before is None:
            return [Verdict(False, at)]
        if before[1] == shown:
            return None
        return [Verdict(True, at, f"the same run with another filter: {short(call.command or '', 100)}", (before[0],))]


def _is_check(call: Call) -> bool:
    return any(e.kind in _CHECKS and e.command is not None and not e.command.background for e in call.effects)


def _filters(script: Script) -> str:
    return "\n".join(" ".join(c.argv) for c in script.commands if c.piped_in and c.name in FILTERS)


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8", "replace")).hexdigest()[:12]
