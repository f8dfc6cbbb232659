"""The agent polls with sleeps, call after call.

## What it is

Three or more calls in a row that sleep for a while and look at the same thing: `sleep 10; tail log`, `sleep 15; tail log`, `sleep 30; tail log`.

## Why it matters

Every look costs a turn of the whole context, and the sleep is too short or too long each time. A loop that waits for the condition with a
bound (`until curl -sf URL; do sleep 1; done` under `timeout`), or `wait`, needs one call.

## How it is told

Three foreground calls, each with a plain `sleep` of at least two seconds outside a loop and a look at the same file, address, process or job, with no
other work between them (looks without a sleep do not count, and do not interrupt). The third is the occurrence, once for each series. A sleep that is
not repeated three times, or that stands in a loop on the condition, is right.

## Known misses

Polls that sleep outside the shell (a tool that waits); polls of a different thing each time; long single sleeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from misstep._record import field, record
from misstep.shell import Script
from misstep.trajectory import After, Before, Prompt, Stop

from ._world import Opened, began, changes, heart, opened, short
from .base import Misstep, Verdict

LEAST = 2.0
"""Seconds: a shorter sleep lets a program start, and waits for nothing."""
_LOOPS = frozenset(["while", "until", "for"])


@record
class Polls(Opened):
    series: list[int] = field(default_factory=list)
    """Event indices of the sleeping looks of the present series."""
    targets: list[str] = field(default_factory=list)
    told: bool = False


class SleepPolling(Misstep):
    id = "sleep-polling"
    name = "polls with sleeps, call after call"
    State = Polls

    def on_prompt(self, state: Polls, event: Prompt) -> Iterable[Verdict] | None:
        return self._end(state)

    def on_stop(self, state: Polls, event: Stop) -> Iterable[Verdict] | None:
        return self._end(state)

    def on_before(self, state: Polls, event: Before) -> None:
        opened(state, event)

    def on_after(self, state: Polls, event: After) -> Iterable[Verdict] | None:
        at, call, result = began(state, event), event.call, event.result
        if at is None or result.fault:
            return None
        script = call.script
        if script is None or script.damage or call.kind != "shell" or call.background:
            return self._end(state) if changes(call) is not False else None
        slept = _sleeps(script)
        if slept is None:
            return [*self._end(state), Verdict(False, at)]
        if not slept:
            return self._end(state) if changes(call) is not False else None
        work = heart(script)
        starts = any(e.kind in ("serve", "install", "write", "kill", "delete") for e in call.effects)
        targets = _targets(script)
        if starts or (not work and not state.targets):
            return [*self._end(state), Verdict(False, at)]
        if not state.series or (targets and state.targets and not set(targets) & set(state.targets)):
            ended = self._end(state)
            state.series, state.targets = [at], targets
            return ended
        state.series.append(at)
        state.targets = sorted(set(state.targets) | set(targets))[:12]
        state.series = state.series[-8:]
        if len(state.series) < 3 or state.told:
            return None
        state.told = True
        also = tuple(state.series[:-1])
        return [Verdict(True, at, f"the third sleep before a look: {short(call.command or '', 90)}", also)]

    def finish(self, state: Polls) -> Iterable[Verdict] | None:
        return self._end(state)

    def _end(self, state: Polls) -> list[Verdict]:
        series, told = state.series, state.told
        state.series, state.targets, state.told = [], [], False
        return [Verdict(False, series[-1])] if series and not told else []


def _sleeps(script: Script) -> bool | None:
    """Whether the script sleeps for at least LEAST seconds: None where it does so in a loop on its condition."""
    inside = {i for b in script.blocks if b.kind in _LOOPS for i in range(b.first, b.last)}
    found: bool | None = False
    for number, command in enumerate(script.commands):
        if command.name != "sleep" or len(command.argv) < 2 or command.background:
            continue
        if number in inside:
            return None
        seconds = _seconds(command.argv[1])
        if seconds is not None and seconds >= LEAST:
            found = True
    return found


def _seconds(word: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", word)
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]] if match else None


def _targets(script: Script) -> list[str]:
    """Files, addresses, names and numbers that the looks are about."""
    words = {
        w
        for c in heart(script)
        if c.name != "sleep"
        for w in ([c.name] if len(c.argv) == 1 else c.argv[1:])
        if len(w) >= 3 and not w.startswith("-") and not w.isdigit()
    }
    return sorted(words)[:12]
