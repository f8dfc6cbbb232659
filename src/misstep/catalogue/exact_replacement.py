"""The agent makes exact replacements and stops without a mechanical comparison with the original.

## What it is
The task allows a closed set of replacements (these words for those, these placeholders for those secrets) and
protects everything else. The agent wrote the files and ends its turn with no diff after its last write, so
nothing shows that only the allowed pieces changed, and that each of them did.

## Why it matters
A regular expression that reaches too far, an editor that adds a final newline, a formatter that runs on save: each
breaks a byte that the task protects. Looking at the result does not show it; a comparison does, at no cost.

## How it is told
Only for tasks that name replacements and also forbid any other change. Writes are editor tools, in-place
programs (sed -i, perl -pi), redirections onto files, patches, and programs of the agent that write. Files that the
agent itself created, such as helper scripts, do not count. A comparison is diff, cmp, git diff with its content, or a
Python text with difflib or filecmp, after the last write. Where a program of the agent's own compares in some
other way, or might, the verdict is unknown.

## What the policy does
Before the first write it gives the procedure for edits that are exact to the byte. At the stop, if no comparison
followed the last write, it asks for one: for credentials with a search for every original value, for words with a
comparison of the token streams.

## Known misses
A comparison whose result the agent ignores. Writes by a program whose text is not in the record.
"""

from __future__ import annotations

import re

from misstep._record import field, record
from misstep.shell import Command, Effect
from misstep.trajectory import Before, Event, Prompt, Stop

from ._fire import (
    Memory,
    Procedure,
    base,
    by_command,
    compares,
    comparison,
    judged,
    keep,
    program_of,
    python_code,
    remember,
    written,
)
from ._tasks import clip, denied, first, joined, said, sentences
from .base import Misstep, Policy, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar

_MAP = (
    r"\b(?:replac(?:e|es|ed|ing|ement)|substitut(?:e|ed|ing|ion)|swap(?:ping)?)\b.{0,120}?\b(?:with|by|for|from|using|in|of)\b"
    r"|\b(?:allowed|permitted|listed|given|approved|provided) (?:synonyms?|replacements?|substitutions?|words?)\b"
    r"|[`'\"][^`'\"\n]{1,60}[`'\"] (?:becomes?|turns into) [`'\"][^`'\"\n]{0,60}[`'\"]"
    r"|\bplaceholders?(?: values?)?\b|\breplacement (?:map|table|list|pairs?)\b|\bredact\b"
)
_PROTECTED = (
    r"\bonly (?:edits?|changes?|modifications?|differences?) (?:that )?(?:you (?:may|can|are allowed to)|allowed|permitted)"
    r"|\b(?:the )?only (?:edits?|changes?|modifications?)\b.{0,30}\b(?:is|are)\b"
    r"|\b(?:do not|don['’]t|must not|never|may not) (?:make any |make )?(?:\w+ )?(?:change|changes|modify|alter|touch|edit|edits|reformat|rewrite)\b"
    r".{0,60}\b(?:else|other|anything|any|rest|remaining|outside|that (?:do not|don['’]t|hold no|contain no|have no|are not)|unrelated|unnecessary|surrounding)\b"
    r"|\b(?:do not|don['’]t|must not|without) (?:mak(?:e|ing) )?(?:any )?(?:(?:other|unnecessary|further|additional|unrelated) )+(?:changes?|edits?|modifications?)\b"
    r"|\bno (?:other|further|additional) (?:changes?|edits?|modifications?)\b"
    r"|\b(?:leave|keep|everything else|all other|the rest|rest of)\b.{0,60}\b(?:unchanged|untouched|intact|as (?:it|they) (?:is|are|was|were)|identical|exactly)\b"
    r"|\b(?:everything|all|anything) else\b.{0,60}\bas it (?:is|was)\b|\bto the byte\b"
    r"|\bbyte[- ](?:for[- ]byte|identical)\b|\bwithout (?:changing|altering|touching|modifying) (?:any|the rest|anything|other)\b"
)
_SECRETS = r"\b(?:api[ -]?keys?|credentials?|secrets?|passwords?|access keys?|access tokens?|private keys?|tokens?)\b"
_SCRIPT = r"\.(?:py|sh|pl|js|rb|awk|sed)$"
_WRITES = (
    r"open\([^)]*,\s*(?:mode=)?['\"][wa+r]*[wa+][b+]*['\"]|\.write_(?:text|bytes)\(|\binplace\s*=|\bsed -i|"
    r"\bperl -[a-z]*i|writeFile"
)
_FREE = r"\b(?:implementation|function|class|library|module|framework|dependency|component|method call|api call|logic|algorithm)\b"


def _task(prompt: str) -> str | None:
    protected = _protected(prompt)
    if protected is None:
        return None
    for sentence in sentences(prompt):
        found = said(sentence, _MAP)
        if found and not re.search(_FREE, found, re.I):
            return joined(found, protected)
    return None


def _protected(prompt: str) -> str | None:
    for sentence in sentences(prompt):
        for match in re.finditer(_PROTECTED, sentence, re.I):
            if not denied(sentence, match.start()):
                return clip(match.group())
    return None


def _credentials(prompt: str) -> bool:
    return (
        first(prompt, _SECRETS) is not None
        and first(prompt, r"\bplaceholders?\b|\bredact|\bsaniti[sz]e|\bscrub|\bremov") is not None
    )


@record
class Edits(Memory):
    """What was written, and whether it was compared since."""

    wrote: int = -1
    """Event index of the last call that may have changed a protected file, -1 before it."""
    checked: str = ""
    """Since then: 'compares' (a mechanical comparison), 'maybe', or ''."""
    seen: list[str] = field(default_factory=list)
    """Names of files that were there before the agent wrote: named by the prompt, read or copied."""
    own: list[str] = field(default_factory=list)
    """Names of files that the agent created."""


class FirstWrite(Policy):
    id = "exact-replacement/first-write"
    at = "before"
    text = (
        "Before this first write: only the named replacements are allowed, everything else has to stay the same to the byte. "
        "Keep an untouched copy of each file outside the work tree, or know its committed version. Write down the closed list "
        "of pairs, old text to new text, and apply exactly those, by literal matching on whole tokens. Do not run "
        "formatters, do not re-wrap, do not change encodings, line endings or trailing blanks; a file that ended without a "
        "final newline must still do so. After writing, compare every changed file with its original mechanically."
    )

    def fires(self, state: Any, event: Event) -> bool | None:
        if not isinstance(event, Before) or state.wrote >= 0:
            return False
        return bool(ExactReplacement().ahead(state, event).wrote >= 0)


class _AtStop(Policy):
    at = "stop"
    secrets: ClassVar[bool]

    def eligible(self, misstep: Misstep, prompt: str) -> str | None:
        found = misstep.eligible(prompt)
        return found if found is not None and _credentials(prompt) is self.secrets else None

    def fires(self, state: Any, event: Event) -> bool | None:
        return _holds(state)


class Credentials(_AtStop):
    id = "exact-replacement/credentials"
    secrets = True
    text = (
        "Before you stop: nothing has compared the files with their originals since your last write. Produce a mechanical "
        "diff of every file against its original version. Check in it that each changed line differs only by a secret that "
        "became its prescribed placeholder, and that no other file, line, blank or final newline changed; undo what did. "
        "Then search all files, not only those you edited, for every original value literally, and for the shapes of such "
        "values: none may be left. If a diff and this search already show it, change nothing."
    )


class Words(_AtStop):
    id = "exact-replacement/words"
    secrets = False
    text = (
        "Before you stop: nothing has compared the result with the original since your last write. Compare the two token "
        "streams mechanically: split both the original and the result into tokens, walk them in step, and require at each "
        "position either the same token or a pair from the allowed list, in its exact spelling. Then compare what lies "
        "between the tokens, and the final newline, byte by byte. Undo every difference that the list does not allow. If "
        "such a comparison already passed after the last write, change nothing."
    )


class ExactReplacement(Procedure):
    id = "exact-replacement"
    name = "makes exact replacements and stops without a mechanical comparison with the original"
    State = Edits
    policies: ClassVar[tuple[Policy, ...]] = (FirstWrite(), Credentials(), Words())

    def eligible(self, prompt: str) -> str | None:
        return _task(prompt)

    def on_prompt(self, state: Edits, event: Prompt) -> None:
        if not state.seen:
            keep(state.seen, *(base(p) for p in re.findall(r"[\w./-]*\w\.[A-Za-z]\w{0,7}\b", event.text[:6000])))

    def walk(self, state: Edits, event: Before) -> Verdict | None:
        call = event.call
        for path, text in written(call):
            if re.search(_SCRIPT, path):
                remember(
                    state.scripts,
                    base(path),
                    " ".join(filter(None, ("writes" if _code_writes(text) else "", comparison(text)))),
                )
        if call.kind in {"write", "edit"} and any(_protected_target(state, p, call.kind == "edit") for p in call.paths):
            self._wrote(state, event)
        for command, effects in by_command(call):
            if _writes(state, command, effects):
                self._wrote(state, event)
            does = "" if command is None else _checks(state, command)
            if does and state.checked != "compares":
                state.checked = does
            _note(state, effects)
        if call.kind == "write":
            keep(state.own, *(base(p) for p in call.paths if base(p) not in state.seen))
        return None

    @staticmethod
    def _wrote(state: Edits, event: Before) -> None:
        state.wrote, state.checked = event.index, ""

    def at_stop(self, state: Edits, event: Stop) -> Verdict | None:
        if state.wrote < 0:
            return None if state.unread < 0 else Verdict(None, event.index, "a call could not be read")
        return judged(
            _holds(state),
            event.index,
            "no mechanical comparison after the last write",
            "a check of the agent's own, or a call that could not be read, may have compared",
            state.wrote,
        )

    def behaved(self, state: Edits) -> bool | None:
        holds = _holds(state)
        return None if state.wrote < 0 or holds is None else not holds


def _holds(state: Edits) -> bool | None:
    """Whether writes stand without a comparison after them."""
    if state.wrote < 0 or state.checked == "compares":
        return False
    return None if state.checked or state.unread > state.wrote else True


def _note(state: Edits, effects: Sequence[Effect]) -> None:
    """Remember which files were there, and which the agent made."""
    for effect in effects:
        if effect.kind in {"read", "copy", "compare"}:
            keep(state.seen, *(base(p) for p in effect.paths if "." in base(p) and base(p) not in state.own))
        if effect.kind == "copy" and effect.info.get("dest"):
            keep(state.own, base(str(effect.info["dest"])))
        elif effect.kind == "write" and not effect.info.get("in_place"):
            keep(state.own, *(base(p) for p in effect.paths if base(p) not in state.seen))


def _code_writes(text: str) -> bool:
    return re.search(_WRITES, text) is not None


def _protected_target(state: Edits, path: str, in_place: bool) -> bool:
    """Whether writing to a path may change a file that the agent did not create itself."""
    name = base(path)
    if name in state.own or path.startswith(("/tmp/", "/dev/", "/var/tmp/")):
        return False
    return in_place or name in state.seen


def _writes(state: Edits, command: Command | None, effects: Sequence[Effect]) -> bool:
    """Whether a command may change a protected file."""
    if command is None:
        return False
    if command.name == "patch" and "--dry-run" not in command.argv:
        return True
    if "writes" in state.scripts.get(program_of(command), ""):
        return True
    targets = False
    reads = [base(p) for e in effects if e.kind in {"read", "copy"} for p in e.paths]
    for effect in effects:
        if effect.kind in {"write", "format"}:
            targets = True
            in_place = bool(effect.info.get("in_place")) or effect.kind == "format"
            if any(_protected_target(state, p, in_place or base(p) in reads) for p in effect.paths):
                return True
        elif (effect.kind == "move" and _protected_target(state, str(effect.info.get("dest") or ""), False)) or (
            effect.kind == "vcs" and effect.info.get("verb") in {"apply", "am"}
        ):
            return True
    code = python_code(command)
    return code is not None and not targets and _code_writes(code)


def _checks(state: Edits, command: Command) -> str:
    """'compares', 'maybe' or '': what a command does to show the difference."""
    if compares(command):
        return "compares"
    code = python_code(command)
    if code is not None:
        return comparison(code)
    program = program_of(command)
    if not program or program in {"-", "-c"}:
        return ""
    known = state.scripts.get(program)
    if known is None:
        return "maybe"
    if "writes" in known:
        return "maybe" if "compares" in known else ""
    return known
