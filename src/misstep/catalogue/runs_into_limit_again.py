"""The agent runs again, in the foreground, what a time limit has just killed.

## What it is

A command is killed by the harness's time limit. The agent starts the same thing once more in the same way, under the same limit, and it is
killed again.

## Why it matters

Each round costs the whole limit and leaves half-done work behind (a half-installed package, a lock, a partial file). What takes longer than
the limit belongs into the background with its output in a file, or under a larger limit where the harness grants one.

## How it is told

A call killed by the harness's limit is started again in the foreground with no larger limit and is killed again: the same command at
heart with nothing changed in between, or the third kill of one program on the same things with no less to do. The same things are an
installer's packages and requirement files, counted package by package, or a program's input files. A part of the packages, or an option for the
amount of work (`-epoch`, `--steps`) that went down, is less to do, and another input file is another thing: for these it cannot be told (unknown). A killed
run whose output breaks off at the very place where an earlier one did has got no further, whatever it was run on. Kills are forgotten when the program has ended
well on the same input, or the installer on a part of those packages. It is an opportunity each time when a
killed program is started again; one that ends, or that is in the background, or that has a larger limit, is right.

## What the policy does

It refuses the same command once, while nothing has changed since it was killed, and names the ways out.

## Known misses

Harnesses that do not say that the limit ended the call; the same work under another program's name, or on an input of another name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from misstep._record import field, record
from misstep.shell import Command
from misstep.trajectory import After, Before, Call, Event, Prompt, Result

from ._regex import Regex
from ._world import Opened, began, bound, changes, core, digest, heart, limited, opened, program, short, timed_out
from .base import Misstep, Policy, Verdict

_WORK = Regex(
    r"^-{1,2}(?:\w*[-_])?(?:epochs?|iter\w*|n?steps?|rounds?|trials?|samples?|dim\w*|size|limit|depth|layers?|hidden\w*|units|"
    r"(?:word)?n?grams?|estimators|generations?|population|count|repeats?)$",
    re.IGNORECASE,
)
"""Options whose number is an amount of work."""
_OUTPUT = Regex(r"^-{1,2}(?:o|out|output\w*|save\w*|log\w*|dest\w*|target|prefix|name|n|p)$", re.IGNORECASE)
_INPUT = Regex(r"/|\.[A-Za-z]\w{0,7}$")
_TAIL = 300
"""Characters at the end of a killed run's output that say where it broke off."""
_KEPT = 6
"""Kills of one program that are remembered."""


@record
class Killed(Opened):
    same: dict[str, list] = field(default_factory=dict)
    """Digest of a killed command since the last change -> [event index, its limit]."""
    programs: dict[str, list] = field(default_factory=dict)
    """Killed programs -> their last kills as [event index, limit, things, amounts of work, digest of where it broke off]."""


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
        killed = timed_out(call, result)
        if not killed and not state.same and not state.programs:
            return None
        key, run = _key(call), _run(call)
        if not key:
            return None
        past = state.programs.get(run.program, []) if run.program else []
        broke = _broke_off(result) if killed else ""
        verdict = _judge(at, call, run, killed, broke, state.same.get(key), past)
        if killed:
            state.same[key] = [at, call.timeout]
            bound(state.same, 16)
            if run.program:
                state.programs.pop(run.program, None)
                state.programs[run.program] = [*past, [at, call.timeout, run.things, run.amounts, broke]][-_KEPT:]
                bound(state.programs, 16)
            return verdict
        if changes(call) is True:
            state.same.clear()
        state.same.pop(key, None)
        if past and result.failed is not True:
            left = [kill for kill in past if not _touches(run.things, kill[2])]
            if left:
                state.programs[run.program] = left
            else:
                del state.programs[run.program]
        return verdict


def _judge(
    at: int, call: Call, run: _Run, killed: bool, broke: str, before: list | None, past: list[list]
) -> list[Verdict] | None:
    related = [k for k in past if _touches(run.things, k[2]) or (broke and k[4] == broke)]
    others = [k for k in past if k not in related and not _less(run.amounts, k[3])]
    known = [before] if before else related or (others if killed else [])
    if not known:
        return None
    limit = max((k[1] or 0 for k in known), default=0)
    larger = call.timeout is not None and call.timeout > limit
    if not killed or call.background or larger:
        return [Verdict(False, at)]
    last = max(k[0] for k in known)
    if before:
        return [Verdict(True, at, f"killed again: {short(call.command or '', 100)}", (last,))]
    again = [k for k in related if (broke and k[4] == broke) or _no_less(run, k)]
    if len(again) >= 2 or (again and len(past) >= 2 and not run.installs):
        why = f"kill number {(len(again) if run.installs else len(past)) + 1}: {short(call.command or '', 100)}"
        return [Verdict(True, at, why, tuple(k[0] for k in again))]
    return [Verdict(None, at, "killed again, with less to do, on other things or for the second time", (last,))]


@record(slots=True)
class _Run:
    """What the last program of a call is run on; it is the one that a limit cuts off most often."""

    program: str = ""
    things: list[str] = field(default_factory=list)
    """An installer's packages and requirement files, else the input files; [] where the program's name says it all."""
    amounts: dict[str, float] = field(default_factory=dict)
    installs: bool = False


def _key(call: Call) -> str:
    text = core(call.script) if call.script else ""
    return digest(text) if text else ""


def _run(call: Call) -> _Run:
    work = heart(call.script) if call.script else []
    if not work:
        return _Run()
    last = work[-1]
    installs = [e for e in call.effects if e.kind == "install" and e.command is not None]
    own = next((e for e in installs if e.command is last), None)
    if own is not None and own.info.get("manager"):
        manager = str(own.info["manager"])
        things = {
            re.split(r"[=<>!~\[;]|(?<=.)@", w, maxsplit=1)[0].lower().replace("_", "-")[:60]
            for e in installs
            if e.info.get("manager") == manager
            for w in (*(e.info.get("packages") or ()), *e.paths)
        }
        name = f"{manager} install" if manager == "pip" else short(program(last), 60)
        return _Run(name, sorted(things)[:16], {}, True)
    name = program(last)
    if name.endswith(" -c") or (last.stdin and " " not in name):
        return _Run()
    inputs, amounts = _words(last, name)
    return _Run(short(name, 60), inputs, amounts)


def _words(command: Command, name: str) -> tuple[list[str], dict[str, float]]:
    """The input files of a command, and the numbers of its options for an amount of work."""
    inputs: set[str] = set()
    amounts: dict[str, float] = {}
    own = name.partition(" ")[2]
    option = ""
    for word in command.argv[1:]:
        if word.startswith("-") and len(word) > 1:
            option, _, word = word.partition("=")
            if not word:
                continue
        if re.fullmatch(r"\d+(?:\.\d+)?", word):
            if _WORK.match(option):
                amounts[option.lstrip("-")[:30]] = float(word)
        elif (
            posixpath.normpath(word) != own and not _OUTPUT.match(option) and _INPUT.search(word) and "://" not in word
        ):
            inputs.add(word[:60])
        option = ""
    return sorted(inputs)[:12], dict(list(amounts.items())[:8])


def _broke_off(result: Result) -> str:
    """A digest of the end of a killed run's output, '' where it said nothing."""
    end = result.output[-_TAIL:].split()
    return digest(" ".join(end)) if len(end) >= 4 else ""


def _touches(things: list[str], killed: list[str]) -> bool:
    """Whether a run is about something that a killed one was about."""
    return bool(set(things) & set(killed)) or not (things or killed)


def _less(amounts: dict[str, float], killed: dict[str, float]) -> bool:
    return any(killed[option] > amount for option, amount in amounts.items() if option in killed)


def _no_less(run: _Run, kill: list) -> bool:
    """Whether a run has at least as much to do as a killed one: the same things or more, and no amount that went down."""
    return set(kill[2]) <= set(run.things) and not _less(run.amounts, kill[3])
