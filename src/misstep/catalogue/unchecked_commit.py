"""The agent commits code that no check has passed since its last change.

## What it is
The agent runs `git commit` with code that it changed since its last commit, and after the last of these changes
either nothing of the project was run, or the last run of the tests, the build or the linter failed.

## Why it matters
A commit is a statement that this state is worth keeping. A broken one stops everybody who pulls it, and `git bisect`
for ever; a check before it takes seconds.

## How it is told
At a `git commit` that succeeded. Changes of code are edits of source files; documents, comments alone (at the end of
a line too) and scratch files do not count, and neither do edits that cancel out, or that repeat one which a check has
passed after. The outcome of a check is read from its output, or from its exit status where nothing hides it.
Where something ran that may have been a check, where a person spoke or refused a check between the change and the
commit (they may have checked it themselves), where hooks ran with the commit, where the message of the commit says that it is unfinished,
or where the agent explained the failure as not its own, the verdict is unknown. Commits in repositories made for the
occasion (`git init` in the same call, scratch folders) are not judged.

## Known misses
Commits made through other tools than the shell. Changes made by commands that are not seen as edits. A run of other
tests than those of the change counts as a check.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep._record import record
from misstep.trajectory import After

from ._checks import FAILED, KINDS, PASSED, Checks, Following, observe
from ._regex import Regex
from .base import Verdict

_UNFINISHED = Regex(
    r"(?i)\bwip\b|\bfail\w*|\bbroken\b|\bred\b|\bTDD\b|\bwork in progress\b|\brepro\w*|\bdraft\b|\bcheckpoint\b"
)
_ELSEWHERE = Regex(
    r"\bgit init\b|\bgit clone\b|\bcd\s+\S*/?(?:tmp|scratch)\b|\bmktemp\b|\$TMP|--allow-empty|--amend|--no-edit|\bgit (?:rebase|merge|cherry-pick|revert)\b"
)
_HOOKS = Regex(r"(?i)\bhook|husky|lint-staged|lefthook|\.{6,}\s*Passed|pre-commit")


@record
class Commits(Checks):
    commit: int = -1
    """The last commit."""


class UncheckedCommit(Following):
    id = "unchecked-commit"
    name = "commits code that no check has passed since its last change"
    State = Commits

    def on_after(self, state: Commits, event: After) -> Iterable[Verdict]:
        observe(state, event)
        script, at = event.call.script, event.index - 1
        if script is None or script.damage or event.result.fault or event.result.failed:
            return
        commits = [c for c in script.commands if c.name == "git" and c.argv[1:2] == ["commit"]]
        if not commits:
            return
        pending = state.edit > state.commit
        state.commit = at
        if not pending or _ELSEWHERE.search(script.text):
            return
        ran = {kind: state.last(kind) for kind in KINDS if state.after_edit(state.last(kind)[0])}
        failed = [(i, kind, line) for kind, (i, status, line) in ran.items() if status == FAILED]
        passed = max((i for i, status, _ in ran.values() if status == PASSED), default=-1)
        if failed and max(failed)[1] == "compile" and passed > max(failed)[0]:
            failed = []
        if not failed and (ran or state.after_edit(max(state.maybe, state.ran))):
            known = passed >= 0
            yield Verdict(False if known else None, at, "" if known else "the outcome of the last check cannot be told")
            return
        since = max(failed)[0] if failed else state.edit
        doubt = (
            max(state.prompt, state.refused_check) > since
            or (max(state.maybe, state.told) > since and failed)
            or state.waiting
        )
        if doubt or _UNFINISHED.search(script.text) or _HOOKS.search(event.result.output):
            yield Verdict(None, at, "it may have been checked in another way, or be meant as unfinished")
        elif failed:
            index, kind, line = max(failed)
            why = f"the last run of the {KINDS[kind]} failed"
            yield Verdict(True, at, f"{why}: {line}" if line else why, (index,))
        else:
            yield Verdict(True, at, f"nothing ran after the change of {state.edited}", (state.edit,))
