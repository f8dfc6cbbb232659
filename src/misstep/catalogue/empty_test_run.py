"""The agent takes a test run that ran no test for a check.

## What it is

A test command is started with a filter, a path or a build tag that selects nothing. The runner says so (`no tests to
run`, `collected 0 items`) and often exits with 0; the agent goes on as if something had been tested.

## Why it matters

Nothing was checked, and the exit status says success. A wrong test name, a missing build tag or a wrong folder stays unseen.

## How it is told

A test call whose whole output says that no test ran. It is judged at the agent's next action of weight: a run of tests that
selects something makes it right; an edit, a commit or the end of the turn without one makes it a misstep. Every such empty run is an
opportunity, and so is every run that ran something (right).

## Known misses

Runs that are empty in one package out of several; runs whose output is filtered so that the empty ones cannot be seen; skipped tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from misstep.trajectory import After, Before, Interrupt, Prompt, Stop

from ._tests import EMPTY, outcome
from ._world import Opened, began, opened, short
from .base import Misstep, Verdict

_LOOKS = frozenset(["head", "tail", "grep", "egrep", "rg", "wc", "sort", "uniq"])


@dataclass
class Waiting(Opened):
    at: int | None = None
    """The empty run that has not been made good yet."""
    why: str = ""


class EmptyTestRun(Misstep):
    id = "empty-test-run"
    name = "takes a test run that ran no test for a check"
    State = Waiting

    def on_prompt(self, state: Waiting, event: Prompt) -> None:
        state.at = None

    def on_interrupt(self, state: Waiting, event: Interrupt) -> None:
        state.at = None

    def on_stop(self, state: Waiting, event: Stop) -> Iterable[Verdict] | None:
        return self._close(state, ())

    def on_before(self, state: Waiting, event: Before) -> Iterable[Verdict] | None:
        opened(state, event)
        commits = any(e.kind == "vcs" and e.info.get("verb") in ("commit", "push") for e in event.call.effects)
        if commits or event.call.kind == "finish":
            return self._close(state, (event.index,))
        return None

    def on_after(self, state: Waiting, event: After) -> Iterable[Verdict] | None:
        at, call, result = began(state, event), event.call, event.result
        if at is None or result.fault or result.shared or call.background or result.running:
            return None
        if not any(e.kind == "test" for e in call.effects):
            return None
        run = outcome(result.output, None, None)
        if run.status == EMPTY and not re.search(r"\[build failed\]|--- (?:PASS|FAIL)", result.output):
            first = state.at
            state.at = at if first is None else first
            state.why = (
                state.why if first is not None and state.why else short(f"{run.line}: {call.command or ''}", 140)
            )
            return None
        if run.status == "unknown":
            state.at = None
            return None
        state.at = None
        return [Verdict(False, at)]

    def _close(self, state: Waiting, also: tuple[int, ...]) -> Iterable[Verdict] | None:
        at, state.at = state.at, None
        return None if at is None else [Verdict(True, at, state.why, also)]
