"""The agent ends its turn on a change of code that it checked nothing after.

## What it is
In this turn the agent changed code, and after its last change it ran nothing of the project: no test, build, linter
or program.

## Why it matters
The last edit is where typing errors and half-done renames stay unnoticed, and a check that takes seconds would show
them to the agent instead of to the person.

## How it is told
Judged at the end of a turn that changed code files; edits of documents, of comments alone (at the end of a line too)
and of scratch files do not count, and neither do edits that cancel out, or that repeat one which a check has passed
after. Anything that may have run project code after the last change counts as a check, a formatter too. Where the
agent ends with a question, pauses for the person, says that it ran nothing or tells the person how to run it, the
verdict is unknown; so it is where a person refused a check after the last change, or refused a call and nothing
succeeded since, and where a turn that edits documents changes only words in quotes beside them.

## Known misses
Projects in which nothing can be run where the agent works. A check by the person, by a hook, by an editor or in CI,
which the record does not show. Changes so small that nobody would run anything for them are counted all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep.trajectory import Stop

from ._checks import KINDS, Checks, Following
from ._claims import asks
from ._regex import Regex
from .base import Verdict

_SAYS_SO = Regex(
    r"(?i)\b(?:not|n't|cannot|unable to|without|haven't|have not|didn't|did not|no)\s+(?:\w+\s+){0,3}?(?:run|ran|execute\w*|test(?:ed)?|verif\w+|check(?:ed)?|compil\w+|build|built)\b"
    r"|\b(?:you (?:can|should|may|could|might want to)|please|want me to|let me know|would you like|shall i|should i|pause|wait for|run (?:it|the|this|that|again|with|as)|to run|try (?:it|running|again|the|this|now))\b"
)


class UncheckedLastEdit(Following):
    id = "unchecked-last-edit"
    status = "stable"
    name = "ends its turn on a change of code that it checked nothing after"

    def on_stop(self, state: Checks, event: Stop) -> Iterable[Verdict]:
        if state.first_edit < 0 or state.edit < state.first_edit:
            return
        last = max(state.last(kind)[0] for kind in KINDS)
        if state.after_edit(max(last, state.ran)):
            yield Verdict(False, event.index)
        elif state.after_edit(max(state.maybe, state.open)) or state.waiting:
            yield Verdict(None, event.index, "something ran after the last change that may have been a check")
        elif max(state.refused, state.refused_check) > state.edit:
            yield Verdict(None, event.index, "a call after the last change was refused")
        elif state.documents and state.edits == state.wordings:
            yield Verdict(None, event.index, "words in quotes changed, in a turn about documents")
        elif asks(event.message) or _SAYS_SO.search(event.message):
            yield Verdict(None, event.index, "the message leaves the check to the person")
        else:
            yield Verdict(
                True,
                event.index,
                f"nothing ran after the change of {state.edited}",
                (state.edit, last) if last >= 0 else (state.edit,),
            )
