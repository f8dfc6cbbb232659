"""The agent writes a command that its shell cannot parse.

## What it is

The shell refuses the text before it runs anything of it: a quote or a bracket is not closed, a parenthesis stands where none may,
a glob that matches nothing stops zsh.

## Why it matters

Nothing ran, and what came before it in the agent's mind did. Half-quoted text is also how a command does something else than was
meant. Long one-liners of nested quotes are the usual cause: a script in a file is not.

## How it is told

The result carries the shell's own complaint (`syntax error near unexpected token`, `unexpected EOF while looking for matching`,
`parse error near`, zsh's `no matches found`), with the shell's prefix at the start of the line, and the call
did not succeed. Every shell call with a result is an opportunity.

## Known misses

Errors of fish and PowerShell; a heredoc that is never closed in a terminal that is typed into, where nothing comes back; a text that
parses, but not into what was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from misstep.trajectory import After, Before

from ._world import Opened, began, opened, short
from .base import Misstep, Verdict

_COMPLAINT = re.compile(
    r"^(?:Exit code \d+\s+)?(?:/\S*/)?(?:bash|sh|dash|zsh|ksh|-bash|\(eval\)|eval|/bin/sh)(?::? ?-c)?(?::?(?: line)? ?\d+)?: ?(?:-c: ?)?(?:line \d+: ?)?(?:eval: line \d+: ?)?"
    r"(?:syntax error(?: near unexpected token|: unexpected end of file|:? \S.*unexpected| near)|Syntax error: .*|unexpected EOF while looking for matching|"
    r"parse error near|parse error:|unmatched [\"'`]|bad substitution|no matches found: |unknown file attribute|unterminated quoted string).*",
    re.M,
)


class UnparsableCommand(Misstep):
    id = "unparsable-command"
    name = "writes a command that its shell cannot parse"
    State = Opened

    def on_before(self, state: Opened, event: Before) -> None:
        if event.call.kind == "shell":
            opened(state, event)

    def on_after(self, state: Opened, event: After) -> Iterable[Verdict] | None:
        at = began(state, event)
        if at is None or event.result.fault or event.result.shared:
            return None
        if event.result.failed is False and not _masked(event.call.command or ""):
            return [Verdict(False, at)]
        match = _COMPLAINT.search(event.result.output[:4000])
        if match is None:
            return [Verdict(False, at)]
        return [Verdict(True, at, short(match.group(), 120))]


def _masked(command: str) -> bool:
    """Whether the call can succeed although the shell complained: something else decides its exit status."""
    return "|" in command or ";" in command or "\n" in command
