"""What an agent checked and what it changed since: the state that the missteps about tests and claims share.

`Checks` follows the last run of each kind of check (tests, build, linter), the last change of code, and the last call
that may have been a check for all the record tells.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep._record import field, record
from misstep.trajectory import After, Before, Call, Compact, Event, Interrupt, Prompt, Result, Say

from ._edits import file_of, undoing
from ._facts import KINDS, Facts, check_run, facts, is_code, is_test_file, own_status
from ._regex import Regex
from ._tests import EMPTY, FAILED, PASSED, UNKNOWN, Run, read
from .base import Misstep, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_LATE_TOOL = Regex(r"(?i)output|write_stdin|read_bash|process|poll|await|wait|shell|bash")
_EXPLAINED = Regex(
    r"(?i)\bpre-?existing\b|\bunrelated\b|\bnot related\b|\bflak(?:y|iness|es?)\b|\bintermittent\b|\bknown (?:issue|failure|problem)|"
    r"\b(?:already|also) (?:fail\w*|broken)\b|\bbefore (?:my|our|these|the) changes?\b|\bnot (?:caused|due)\b|\benvironment\w*\b|\bexpected\b[^.\n]{0,40}\bfail|\bfail\w*\b[^.\n]{0,40}\bexpected\b"
)


@record
class Checks:
    """The state: event indices, -1 where there was none."""

    edit: int = -1
    """The last change of code."""
    edited: str = ""
    """The file it changed."""
    edit_ran: bool = False
    """The call that changed it ran something of the project after that."""
    first_edit: int = -1
    """The first change of code since the last prompt."""
    maybe: int = -1
    """The last call that may have been a check."""
    ran: int = -1
    """The last call that ran something of the project."""
    open: int = -1
    """A call that is proposed and has no result yet."""
    runs: dict[str, list[Any]] = field(default_factory=dict)
    """Kind -> [index, status, line that tells it] of its last run."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Kind -> index of a run in the background whose outcome has not been seen."""
    late: bool = False
    """The record begins in the middle of a session."""
    prompt: int = -1
    """The last prompt."""
    asked: str = ""
    """Its text, shortened."""
    said: int = -1
    """The step of the last text beside a call: a Stop of the same step repeats it."""
    told: int = -1
    """The last time the agent explained a failure as not its own (known before, unrelated, flaky)."""
    refused: int = -1
    """The last call that was refused, while no call has succeeded since."""
    refused_check: int = -1
    """The last check that was refused."""
    edits: int = 0
    """Calls that changed code since the last prompt."""
    wordings: int = 0
    """Those of them that changed words in quotes in one line."""
    documents: bool = False
    """A document was changed since the last prompt."""
    pending: list[Any] = field(default_factory=list)
    """[mark, index, file, ran] of the edits since the last check that passed."""
    base: list[Any] = field(default_factory=lambda: [-1, "", False])
    """`edit`, `edited` and `edit_ran` at that check; [] where it cannot be gone back to."""
    green: list[str] = field(default_factory=list)
    """Marks of edits that a check passed after."""

    def after_edit(self, at: int) -> bool:
        """Whether a call at this index ran after the last change of code."""
        return at >= 0 and (at > self.edit or (at == self.edit and self.edit_ran))

    def last(self, kind: str) -> tuple[int, str, str]:
        """(index, status, line) of the last run of a kind of check; index -1 where there was none."""
        at, status, line = self.runs.get(kind, (-1, UNKNOWN, ""))
        return at, status, line


def observe(state: Checks, event: Event) -> None:
    """Fold one event in. Call it after a Say or a Stop was judged, and before a call's After is."""
    if isinstance(event, Before):
        if state.open >= 0:
            state.maybe = state.open
        found = facts(event.call)
        state.open = event.index if found.maybe or found.checks else -1
    elif isinstance(event, After):
        state.open = -1
        _after(state, event)
    elif isinstance(event, Say):
        state.said = event.step
        if _EXPLAINED.search(event.text):
            state.told = event.index
    elif isinstance(event, Prompt):
        state.prompt, state.first_edit, state.asked = event.index, -1, event.text[:2000]
        state.edits = state.wordings = 0
        state.documents = False
        state.refused = -1
        state.late |= event.late
    elif isinstance(event, Compact):
        if not state.runs and state.edit < 0:
            state.late = True
    elif isinstance(event, Interrupt) and state.open >= 0:
        state.maybe = state.open
        state.open = -1


class Following(Misstep):
    """Handlers that keep `Checks` up to date, for missteps whose state it is."""

    State: ClassVar[type] = Checks

    def on_before(self, state: Any, event: Before) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_after(self, state: Any, event: After) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_prompt(self, state: Any, event: Prompt) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_say(self, state: Any, event: Say) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_compact(self, state: Any, event: Compact) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_interrupt(self, state: Any, event: Interrupt) -> Iterable[Verdict] | None:
        observe(state, event)
        return None


def _after(state: Checks, event: After) -> None:
    call, result = event.call, event.result
    at = event.index - 1
    found = facts(call)
    if result.fault is not None:
        if result.fault == "interrupted" and (found.checks or found.maybe):
            state.maybe = at
        elif result.fault == "refused":
            state.refused = at
            if found.checks or found.maybe:
                state.refused_check = at
        return
    if not result.failed:
        state.refused = -1
        state.documents |= found.documents
    if found.edits and not (result.failed and call.kind in ("write", "edit")):
        _changed(state, found, at)
    if found.runs:
        state.ran = at
    if found.maybe:
        state.maybe = at
    running = result.running or call.background
    for kind, command in found.checks:
        run = Run(UNKNOWN) if running else check_run(call, kind, command, result)
        before = state.runs.get(kind)
        if before and before[0] == at and before[1] == FAILED and run.status != FAILED:
            continue
        state.runs[kind] = [at, run.status, run.line]
        if running:
            state.waiting[kind] = at
        else:
            state.waiting.pop(kind, None)
        if run.status == PASSED and state.after_edit(at):
            _passed(state)
    if not found.checks and (state.waiting or found.maybe) and call.kind not in ("write", "edit", "search"):
        _late(state, call, result, at)


_MOST = 24


def _changed(state: Checks, found: Facts, at: int) -> None:
    """Note a change of code, unless it only takes back or repeats what is known."""
    state.edits += 1
    state.wordings += found.wording
    if state.first_edit < 0:
        state.first_edit = at
    files = {file_of(p[0]) for p in state.pending}
    if found.marks and all(m in state.green and file_of(m) not in files for m in found.marks):
        # Something had undone it; in this state the code has passed.
        return
    left = list(state.pending)
    since = at
    for mark in found.marks:
        opposite = undoing(mark)
        taken = next((p for p in reversed(left) if p[0] == opposite), None) if opposite else None
        if taken is None:
            left.append([mark, at, found.edits[-1], found.edits_first])
        else:
            left.remove(taken)
            since = min(since, taken[1])
    if since < at and state.base and (not left or not _ran_since(state, since)):
        # The code is what it was before: at the last check that passed, or after the last edit that still stands.
        state.pending = left
        state.edit, state.edited, state.edit_ran = left[-1][1:] if left else state.base
        return
    state.edit, state.edited, state.edit_ran = at, found.edits[-1], found.edits_first
    state.pending += [[mark, at, found.edits[-1], found.edits_first] for mark in found.marks or ("",)]
    if len(state.pending) > _MOST:
        del state.pending[:-_MOST]
        state.base = []


def _ran_since(state: Checks, at: int) -> bool:
    return max(state.ran, state.maybe, *(run[0] for run in state.runs.values()), -1) >= at


def _passed(state: Checks) -> None:
    """A check passed on the code as it is."""
    state.green = (state.green + [p[0] for p in state.pending if p[0] and p[0][-1] != "+"])[-_MOST:]
    state.pending = []
    state.base = [state.edit, state.edited, state.edit_ran]


def _late(state: Checks, call: Call, result: Result, at: int) -> None:
    """The outcome of a run in the background, or of a program that turns out to have run tests."""
    if call.kind != "read" and call.command is None and not _LATE_TOOL.search(call.tool):
        return
    run = read(result.output)
    if run.status == UNKNOWN:
        return
    started = state.waiting.pop("test", None)
    if started is not None:
        state.runs["test"] = [max(started, state.runs.get("test", [-1])[0]), run.status, run.line]
    elif call.kind == "shell":
        state.runs["test"] = [at, run.status, run.line]


ANSWERS = {
    "tests": ("test",),
    "lint": ("lint",),
    "build": ("compile", "test", "lint"),
    "all": ("test", "compile", "lint"),
}
"""Kind of claim -> kinds of checks that answer it."""


def checked_since_edit(state: Checks, claim: str) -> bool | None:
    """Whether a check that answers such a claim ran after the last change of code.

    None: something ran that may have been one, or the record is cut.
    """
    at = max(state.last(kind)[0] for kind in ANSWERS[claim])
    if state.after_edit(at):
        return True
    if (state.after_edit(max(state.maybe, state.open)) and state.edit >= 0) or state.waiting:
        return None
    if state.edit < 0 and (state.late or (at < 0 and state.maybe >= 0)):
        return None
    return False


__all__ = [
    "ANSWERS",
    "EMPTY",
    "FAILED",
    "KINDS",
    "PASSED",
    "UNKNOWN",
    "Checks",
    "Facts",
    "Following",
    "check_run",
    "facts",
    "is_code",
    "is_test_file",
    "observe",
    "own_status",
    "checked_since_edit",
]
