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
from dataclasses import dataclass, field
from typing import Any, ClassVar

from misstep.shell import Command
from misstep.trajectory import Before, Call, Event, Stop

from ._fire import (
    Memory,
    Procedure,
    base,
    code_run,
    commands,
    compares,
    compares_in_python,
    judged,
    keep,
    program_of,
    remember,
    written,
)
from ._tasks import clip, denied, first, joined, said, sentences
from .base import Misstep, Policy, Verdict

_MAP = (
    r"\b(?:replac(?:e|es|ed|ing|ement)|substitut(?:e|ed|ing|ion)|swap(?:ping)?)\b.{0,120}?\b(?:with|by|for|from|using|in|of)\b"
    r"|\b(?:allowed|permitted|listed|given|approved|provided) (?:synonyms?|replacements?|substitutions?|words?)\b"
    r"|\bplaceholders?(?: values?)?\b|\breplacement (?:map|table|list|pairs?)\b|\bredact\b"
)
_PROTECTED = (
    r"\bonly (?:edits?|changes?|modifications?|differences?) (?:that )?(?:you (?:may|can|are allowed to)|allowed|permitted)"
    r"|\b(?:the )?only (?:edits?|changes?|modifications?)\b.{0,30}\b(?:is|are)\b"
    r"|\b(?:do not|don['’]t|must not|never|may not) (?:make any |make )?(?:\w+ )?(?:change|changes|modify|alter|touch|edit|edits|reformat|rewrite)\b"
    r".{0,60}\b(?:else|other|anything|any|rest|remaining|outside|that do not|unrelated|unnecessary|surrounding)\b"
    r"|\b(?:do not|don['’]t|must not|without) (?:mak(?:e|ing) )?(?:any )?(?:(?:other|unnecessary|further|additional|unrelated) )+(?:changes?|edits?|modifications?)\b"
    r"|\bno (?:other|further|additional) (?:changes?|edits?|modifications?)\b"
    r"|\b(?:leave|keep|everything else|all other|the rest|rest of)\b.{0,60}\b(?:unchanged|untouched|intact|as (?:it|they) (?:is|are|was|were)|identical|exactly)\b"
    r"|\bbyte[- ](?:for[- ]byte|identical)\b|\bwithout (?:changing|altering|touching|modifying) (?:any|the rest|anything|other)\b"
)
_SECRETS = r"\b(?:api[ -]?keys?|credentials?|secrets?|passwords?|access keys?|access tokens?|private keys?|tokens?)\b"
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


@dataclass(eq=False, repr=False)
class Edits(Memory):
    """Event indices, -1 where there is none."""

    wrote: int = -1
    """The last call that may have changed a protected file."""
    compared: int = -1
    """The last mechanical comparison."""
    maybe: int = -1
    """The last run of a program that may have compared."""
    own: list[str] = field(default_factory=list)
    """Files that the agent created, by name."""


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
        return _writes(state, event.call)


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

    def walk(self, state: Edits, event: Before) -> Verdict | None:
        call = event.call
        if _writes(state, call):
            state.wrote = event.index
        for path, text in written(call):
            if re.search(r"\.(?:py|sh|pl|js|rb|awk|sed)$", path):
                keep(state.own, base(path))
                does = [w for w, yes in (("writes", _code_writes(text)), ("compares", compares_in_python(text))) if yes]
                remember(state.scripts, base(path), " ".join(does))
        for command in commands(call):
            program = program_of(command)
            known = state.scripts.get(program)
            if compares(command) or any(compares(Command(w)) for w in _xargs(command)):
                state.compared = event.index
            elif known is not None:
                if "compares" in known and "writes" not in known:
                    state.compared = event.index
                elif "compares" in known:
                    state.maybe = event.index
            elif (
                program and program not in {"-", "-c"} and not command.name.startswith("git") and command.stdin is None
            ):
                state.maybe = event.index
        for code in code_run(call):
            if compares_in_python(code) and not _code_writes(code):
                state.compared = event.index
            elif compares_in_python(code):
                state.maybe = event.index
        return None

    def at_stop(self, state: Edits, event: Stop) -> Verdict | None:
        if state.wrote < 0:
            return None if state.unread < 0 else Verdict(None, event.index, "a call could not be read")
        return judged(
            _holds(state),
            event.index,
            "no mechanical comparison after the last write",
            "a program whose text is not in the record, or a call that could not be read, may have compared",
            state.wrote,
        )

    def behaved(self, state: Edits) -> bool | None:
        holds = _holds(state)
        return None if state.wrote < 0 or holds is None else not holds


def _holds(state: Edits) -> bool | None:
    """Whether writes stand without a comparison after them."""
    if state.wrote < 0 or state.compared > state.wrote:
        return False
    if max(state.maybe, state.unread) >= state.wrote or state.compared == state.wrote:
        return None
    return True


def _xargs(command: Command) -> list[list[str]]:
    """The command that xargs or find -exec runs, where the scanner left it in the words."""
    for word in ("-exec", "xargs"):
        if word in command.argv:
            return [command.argv[command.argv.index(word) + 1 :]]
    return []


def _code_writes(text: str) -> bool:
    return (
        re.search(
            r"open\([^)]*,\s*(?:mode=)?['\"][wa+r]*[wa+][b+]*['\"]|\.write_(?:text|bytes)\(|\binplace\s*=|\bsed -i|\bperl -[a-z]*i|writeFile",
            text,
        )
        is not None
    )


def _writes(state: Edits, call: Call) -> bool:
    """Whether a call may change a file that the agent did not create itself."""
    if call.kind in {"write", "edit"}:
        return any(base(p) not in state.own and not _helper(call, p) for p in call.paths)
    for effect in call.effects:
        if effect.kind in {"write", "format"}:
            targets = [p for p in effect.paths if not p.startswith(("/tmp/", "/dev/")) and base(p) not in state.own]
            if targets and (
                effect.info.get("in_place") or any(not re.search(r"\.(?:py|sh|pl|js|rb|sed|awk)$", p) for p in targets)
            ):
                return True
        elif (
            effect.kind == "run"
            and effect.command is not None
            and "writes" in state.scripts.get(program_of(effect.command), "")
        ) or (effect.kind == "vcs" and effect.info.get("verb") in {"apply", "am"}):
            return True
    if any(c.name == "patch" and "--dry-run" not in c.argv for c in commands(call)):
        return True
    return any(_code_writes(code) for code in code_run(call))


def _helper(call: Call, path: str) -> bool:
    """Whether a whole-file write makes a script of the agent's own."""
    return call.kind == "write" and (path.startswith("/tmp/") or re.search(r"\.(?:py|sh|pl|js|rb)$", path) is not None)
