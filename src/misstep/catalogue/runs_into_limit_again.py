"""The agent runs again, in the foreground, what a time limit has just killed.

## What it is

A command is killed by the harness's time limit. The agent starts the same thing once more in the same way, under the same limit, and it is
killed again.

## Why it matters

Each round costs the whole limit and leaves half-done work behind (a half-installed package, a lock, a partial file). What takes longer than
the limit belongs into the background with its output in a file, or under a larger limit where the harness grants one.

## How it is told

A call killed by the harness's limit is started again in the foreground with no larger limit and is killed again: the same command at
heart, with nothing changed in between, or the third kill of one program that is run on the same things with other options. It is an opportunity each time when a
killed program is started again; one that ends, or that is in the background, or that has a larger limit, is right.

## What the policy does

It refuses the same command once, while nothing has changed since it was killed, and names the ways out.

## Known misses

Harnesses that do not say that the limit ended the call; the same work under another program's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from misstep._record import field, record
from misstep.trajectory import After, Before, Call, Event, Prompt

from ._world import Opened, began, bound, changes, core, digest, heart, limited, opened, program, short, timed_out
from .base import Misstep, Policy, Verdict


@record
class Killed(Opened):
    same: dict[str, list] = field(default_factory=dict)
    """Digest of a killed command since the last change -> [event index, its limit]."""
    programs: dict[str, list] = field(default_factory=dict)
    """Killed programs -> [kills, event index of the last, largest limit, what they were run on]."""


class NotAgain(Policy):
    id = "runs-into-limit-again"
    at = "before"
    action = "deny"
    text = (
        "The same command was just killed by the time limit, and nothing has changed since. It was not run again. "
        "Start it in the background in a session of its own, with its output in a file, and look at the file from later calls; "
        "or give it a larger limit where the tool takes one; or make the work smaller first."
    )

    def fires(self, state: Killed, event: Event) -> bool | None:
        if not isinstance(event, Before) or event.call.background or event.call.script is None:
            return False
        call, script = event.call, event.call.script
        before = state.same.get(_key(call)) if call.kind == "shell" and not script.damage else None
        if before is None or any(c.background or limited(c) for c in script.commands):
            return False
        return not (call.timeout is not None and (before[1] is None or call.timeout > before[1]))


class RunsIntoLimitAgain(Misstep):
    id = "runs-into-limit-again"
    name = "runs again, in the foreground, what a time limit has just killed"
    State = Killed
    policies = (NotAgain(),)

    def on_prompt(self, state: Killed, event: Prompt) -> None:
        state.same.clear()
        state.programs.clear()

    def on_before(self, state: Killed, event: Before) -> None:
        opened(state, event)

    def on_after(self, state: Killed, event: After) -> Iterable[Verdict] | None:
        at, call, result = began(state, event), event.call, event.result
        if call.kind in ("write", "edit") and not result.fault:
            state.same.clear()
            return None
        script = call.script
        if at is None or call.kind != "shell" or script is None or script.damage or result.fault or result.shared:
            return None
        key, name = _key(call), _program(call)
        if not key:
            return None
        before, strikes = state.same.get(key), state.programs.get(name) if name else None
        killed = timed_out(call, result)
        about = _about(call)
        if strikes and strikes[3] and about and not set(strikes[3]) & set(about):
            strikes = None
        verdict = self._judge(at, call, killed, before, strikes)
        if not killed and changes(call) is True:
            state.same.clear()
        if killed:
            state.same[key] = [at, call.timeout]
            bound(state.same, 16)
            if not name:
                return verdict
            past = state.programs.pop(name, [0, 0, None, []])
            limit = max(past[2] or 0, call.timeout or 0) or None
            state.programs[name] = [past[0] + 1, at, limit, sorted({*past[3], *about})[:24]]
            bound(state.programs, 16)
        else:
            state.same.pop(key, None)
        return verdict

    def _judge(
        self, at: int, call: Call, killed: bool, before: list | None, strikes: list | None
    ) -> list[Verdict] | None:
        if before is None and strikes is None:
            return None
        limit = before[1] if before else strikes[2] if strikes else None
        last = before[0] if before else strikes[1] if strikes else 0
        larger = call.timeout is not None and (limit is None or call.timeout > limit)
        if not killed or call.background or larger:
            return [Verdict(False, at)]
        if before:
            return [Verdict(True, at, f"killed again: {short(call.command or '', 100)}", (last,))]
        if strikes and strikes[0] >= 2:
            return [Verdict(True, at, f"kill number {strikes[0] + 1}: {short(call.command or '', 100)}", (last,))]
        return [Verdict(None, at, "killed again, with other arguments or after a change", (last,))]


def _key(call: Call) -> str:
    text = core(call.script) if call.script else ""
    return digest(text) if text else ""


def _program(call: Call) -> str:
    """The last program of the call, which is the one that a limit cuts off most often."""
    work = heart(call.script) if call.script else []
    name = program(work[-1]) if work else ""
    return "" if name.endswith(" -c") or (work and work[-1].stdin and " " not in name) else short(name, 60)


def _about(call: Call) -> list[str]:
    """What the last program of the call is run on: packages, files, names; [] where its script says it all."""
    work = heart(call.script) if call.script else []
    if not work or work[-1].name.startswith(("python", "node", "bash", "sh", "ruby", "perl")):
        return []
    return sorted({re.split(r"[=<>\[]", w)[0][:40] for w in work[-1].argv[2:] if len(w) > 2 and not w.startswith("-")})[
        :12
    ]
