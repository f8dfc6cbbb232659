"""The agent runs a check again only to see another part of its output.

## What it is

A test, build or lint run is piped through `tail`, `head` or `grep`; the part that matters is cut off, and the same run is
started again with another filter, with nothing changed in between. So it is where the first look had shown all there was.

## Why it matters

The second run tells nothing that the first did not know. Checks are often the slowest thing an agent does, and a flaky one may even answer
differently the second time. Writing the output to a file once (`... > check.log 2>&1; tail check.log`) costs nothing.

## How it is told

Two runs of one check, the same in everything but the filters behind the pipe, where the first one finished and nothing
that may change a file ran between them. A run whose filter broke (`grep: brackets not balanced`) has shown nothing: the one before it counts. Every run of a test, build or lint command is an opportunity.

## Known misses

Runs that also change a flag (`-v`); checks that are started through a script of the project's own; runs whose
filtered form is not behind a pipe.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep._record import field, record
from misstep.shell import Script
from misstep.trajectory import After, Before, Call, Compact, Prompt

from ._regex import Regex
from ._world import FILTERS, Opened, began, bound, changes, core, digest, heart, opened, short, timed_out
from .base import Misstep, Verdict

_CHECKS = frozenset(["test", "lint", "compile"])
_ASKS = Regex(r"(?:^| )(?:--?version|version|--?help|-h|linters|--list)(?: |$)")
"""Words that make it no run."""
_BROKE = Regex(r"(?m)^(?:\S*/)?(?:[ef]?grep|rg|ag|[gm]?awk|sed|head|tail|sort|cut|jq): ")
"""A filter that complains instead of filtering."""


@record
class Ran(Opened):
    ran: dict[str, list] = field(default_factory=dict)
    """Checks that finished since the last change: core's digest -> [event index, digest of filters, cut by the harness,
    whether it showed everything all the same]."""


class RerunsToSeeMore(Misstep):
    id = "reruns-to-see-more"
    status = "stable"
    name = "runs a check again only to see another part of its output"
    State = Ran

    def on_prompt(self, state: Ran, event: Prompt) -> None:
        state.ran.clear()

    def on_compact(self, state: Ran, event: Compact) -> None:
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
        filters = _filters(script)
        key, shown = digest(_where(script) + core(script)), digest(filters) if filters else ""
        before, output = state.ran.get(key), event.result.output
        if changes(call) is True:
            state.ran.clear()
            return [Verdict(False, at)]
        if not (filters and len(output) < 2000 and _BROKE.search(output)):
            state.ran.pop(key, None)
            state.ran[key] = [at, shown, event.result.truncated, _whole(script, output)]
            bound(state.ran, 24)
        if before is None:
            return [Verdict(False, at)]
        if before[1] == shown or not (before[1] or before[2]):
            return None
        why = "the same run with another filter" + (", though the first had shown everything" if before[3] else "")
        return [Verdict(True, at, f"{why}: {short(call.command or '', 100)}", (before[0],))]


def _is_check(call: Call) -> bool:
    """Whether all that the call does at heart is to run checks."""
    script = call.script
    if script is None or script.damage or any(c.background or "time" in c.wrappers for c in script.commands):
        return False
    checks = {id(e.command) for e in call.effects if e.kind in _CHECKS}
    work = heart(script)
    return bool(work) and all(id(c) in checks for c in work) and not any(_ASKS.search(" ".join(c.argv)) for c in work)


def _where(script: Script) -> str:
    return "\n".join(" ".join(c.argv) for c in script.commands if c.name in ("cd", "pushd")) + "\n"


def _filters(script: Script) -> str:
    return "\n".join(" ".join(c.argv) for c in script.commands if c.piped_in and c.name in FILTERS)


def _whole(script: Script, output: str) -> bool:
    """Whether filters that only cut (`head`, `tail`) had nothing to cut: fewer lines came out than they let through."""
    filters = [c for c in script.commands if c.piped_in and c.name in FILTERS]
    lines = len(output.splitlines())
    return bool(filters) and all(c.name in ("head", "tail") and lines < _lets_through(c.argv) for c in filters)


def _lets_through(argv: list[str]) -> int:
    """Lines that a `head` or `tail` lets through, 0 where it counts otherwise."""
    count = "10"
    for number, word in enumerate(argv[1:], 1):
        if word in ("-n", "--lines") and number + 1 < len(argv):
            count = argv[number + 1]
        elif word.startswith(("-n", "--lines=")) and len(word) > 2:
            count = word.removeprefix("--lines=").removeprefix("-n")
        elif word.startswith("-") and word[1:].isdigit():
            count = word[1:]
        elif word.startswith(("-c", "--bytes", "-f")):
            return 0
    return int(count) if count.isdigit() else 0
