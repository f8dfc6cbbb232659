"""The agent asks to replace text that the file does not hold exactly once.

## What it is

An edit names the text to replace, and the file does not hold it (or holds it more than once, where it must be unique), or a
patch's context does not match. The agent wrote from memory what it had not looked at, or what an earlier step had changed.

## Why it matters

The edit does nothing and a turn is lost. It is also a sign that the agent's picture of the file is wrong: the next edit, adjusted until
it applies, may land in the wrong place.

## How it is told

The edit tool's or `patch`'s own refusal. Every edit with a result is an opportunity. An edit that a person refused, or that the harness
stopped for another reason (the file was changed by somebody else), is none.

## Known misses

Edits through `sed` and scripts that match nothing and say nothing; tools that apply an edit to the nearest similar text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from misstep.trajectory import After, Before, Call

from ._regex import Regex
from ._world import Opened, began, opened, short
from .base import Misstep, Verdict

_NOT_THERE = Regex(
    r"String to replace not found|Found \d+ matches of the string to replace|No replacement was performed|"
    r"Failed to find (?:expected lines|context)|could not find the string to replace|old_?[sS]tring (?:was )?not found|oldString not found|"
    r"Found multiple matches for old_?[sS]tring|Could not find old_?[sS]tring|Failed to edit, (?:could not find|0 occurrences)|"
    r"Failed to edit, [Ee]xpected \d+ occurrences? but found \d+|No match found for (?:the )?(?:search|old)|"
    r"apply_patch verification failed: (?:Error: )?Failed to find|Context not found in|old_str .{0,200}did not appear verbatim|"
    r"No occurrences of .{0,80} found|SEARCH block .{0,40}(?:not found|failed to match|does not match)",
    re.S,
)
_PATCH_FAILED = Regex(
    r"^(?:Hunk #\d+ FAILED at|\d+ out of \d+ hunks? FAILED|error: patch failed: |error: .*: patch does not apply)", re.M
)


class EditsTextNotThere(Misstep):
    id = "edits-text-not-there"
    status = "stable"
    name = "asks to replace text that the file does not hold exactly once"
    State = Opened

    def on_before(self, state: Opened, event: Before) -> None:
        if event.call.kind == "edit" or _patches(event.call):
            opened(state, event)

    def on_after(self, state: Opened, event: After) -> Iterable[Verdict] | None:
        at, result = began(state, event), event.result
        if at is None or result.fault not in (None, "malformed"):
            return None
        text = result.output[:6000]
        match = _NOT_THERE.search(text) if event.call.kind == "edit" else _PATCH_FAILED.search(text)
        if match and (result.failed is not False or event.call.kind != "edit"):
            where = event.call.paths[0] if event.call.paths else short(event.call.command or "", 60)
            return [Verdict(True, at, f"{short(match.group(), 80)}: {where}")]
        if result.fault:
            return None
        return [Verdict(False, at)]


def _patches(call: Call) -> bool:
    if call.script is None or call.script.damage:
        return False
    return any(
        c.name == "patch"
        or (c.name == "git" and "apply" in c.argv[1:3] and "--check" not in c.argv)
        or c.name == "apply_patch"
        for c in call.script.commands
    )
