"""The agent stops with a re-implementation that it never compared with the original program and measured.

## What it is
The task is to write a program that behaves exactly like an existing compiled one, on its own, within a size. The
agent built a candidate and ends its turn although no mechanical comparison of the outputs, or no measurement of the
size, followed the last build.

## Why it matters
"Looks the same" is not identical: a last digit, a missing newline, something on standard error or another exit
status decides. A candidate that was equal before the last edit, or that grew past the bar, is lost
without anyone having noticed.

## How it is told
Only for tasks that name a compiled program, ask for one with identical behaviour, and set a size or forbid the
use of the original. A candidate is what a compiler of the agent wrote (`-o`, else a.out). A comparison is cmp, diff,
a checksum of both, or a Python text that compares two outputs, in a call at or after the last build; a measurement is wc -c, stat, ls -l, du or
gzip piped into wc. Where a program of the agent's own ran after the last build and may have compared, the verdict is
unknown.

## What the policy does
Before the first run of a candidate it gives the procedure of the comparison. At the stop, if the comparison or the
size is missing, it asks for them and to keep the best measured candidate.

## Known misses
Comparisons of only some outputs count. Candidates in interpreted languages are seen by their comparison only.
"""

from __future__ import annotations

import re

from misstep._record import field, record
from misstep.shell import Command
from misstep.trajectory import Before, Event, Stop

from ._fire import (
    Memory,
    Procedure,
    base,
    code_run,
    commands,
    compares,
    comparison,
    judged,
    keep,
    program_of,
    remember,
    written,
)
from ._tasks import code_work, joined, said, sentences
from .base import Policy, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_COMPILERS = {
    "gcc",
    "g++",
    "cc",
    "c++",
    "clang",
    "clang++",
    "tcc",
    "rustc",
    "ghc",
    "gfortran",
    "fpc",
    "nasm",
    "zig",
    "ldc2",
    "dmd",
    "ld",
}
_BINARY = r"\b(?:binary|executable|compiled (?:program|binary|version|file|executable|\w+ program)|(?:i['’]ve|i have|has been|was) compiled|elf|object file|disassembl\w+|decompil\w+|reverse[- ]engineer\w*)\b"
_REMAKE = (
    r"\b(?:re-?implement\w*|rewrite|re-?create|reproduce|replicate|clone|reverse[- ]engineer\w*|decompile|equivalent (?:program|source|implementation)"
    r"|(?:write|create|produce|make|give|provide|build)\b.{0,50}\b(?:program|source|implementation|replacement|\w+\.(?:c|cpp|rs|go|py|cc)))\b"
)
_SAME = (
    r"\b(?:identical(?:ly)?|same (?:output|behaviou?r|result|operation|bytes|thing)|exactly (?:the same|like|as|what|match\w*)|byte[- ]for[- ]byte|"
    r"bit[- ]for[- ]bit|indistinguishable|(?:outputs?|results?|behaviou?r) (?:must|should|has to|have to|needs? to) (?:be (?:the same|identical|equal)|match|agree)|"
    r"match(?:es|ing)? (?:the|its|that of the)? ?(?:original|output))\b"
)
_SIZE = (
    r"(?:<|≤|<=|\b(?:at most|under|less than|smaller than|below|no more than|not exceed(?:ing)?|up to|within|max(?:imum)?(?: of)?|fewer than|limit(?:ed)? (?:to|of)))"
    r"\s*\d[\d,. ]*\s?(?:k|kb|kib|bytes?|b|m|mb|mib|characters?|kilobytes?)\b"
)
_ALONE = (
    r"\b(?:must not|should not|may not|do not|don['’]t|cannot|can['’]t|without|never)\b.{0,40}\b(?:call\w*|invok\w+|run(?:ning)?|execut\w+|us(?:e|ing)|depend\w*|embed\w*|link\w*|read\w*|includ\w*)\b"
    r".{0,40}\b(?:original|binary|executable|it|mystery|program)\b|\bindependent(?:ly)? (?:of|from)\b|\bself-contained\b|\bstand-?alone\b"
)


def _task(prompt: str) -> str | None:
    everything = sentences(prompt)
    text = "\n".join(s for s in everything if not code_work(s) or re.search(r"\breverse|\bport\b", s, re.I))
    binary, remake, same = said(text, _BINARY), said(text, _REMAKE), said(text, _SAME)
    if not (binary and remake and same):
        return None
    bar = re.search(_SIZE, text, re.I) or re.search(_ALONE, text, re.I)
    return joined(binary, remake, same, bar.group()) if bar else None


@record
class Candidates(Memory):
    """Event indices, -1 where there is none."""

    built: int = -1
    """The last build of a candidate."""
    ran: int = -1
    compared: int = -1
    measured: int = -1
    maybe: int = -1
    """The last run of a program of the agent's own that may have compared."""
    candidates: list[str] = field(default_factory=list)
    """Names of programs that the agent built."""


class FirstRun(Policy):
    id = "binary-equivalence/first-run"
    at = "before"
    text = (
        "Before running this first candidate, set up a comparison that you can repeat. Run the original and the candidate in two "
        "fresh, separate folders with the same arguments and input, so that neither sees files of the other. Capture "
        "everything each of them gives: standard output, standard error, exit status and every file it writes. Compare them byte by byte "
        "(cmp), over all inputs that matter, and record the size of the candidate in the same run. If it misses "
        "the bar, change the method rather than the tolerance. Keep the best measured candidate under its own name."
    )

    def fires(self, state: Any, event: Event) -> bool | None:
        if not isinstance(event, Before) or state.ran >= 0:
            return False
        candidates = list(state.candidates)
        for command in commands(event.call):
            if _runs(candidates, command):
                return True
            candidates += _built(command)
        return False


class Measured(Policy):
    id = "binary-equivalence/measured"
    at = "stop"
    text = (
        "Before you stop: since the last build there is no complete measurement of this candidate. Build it exactly as the task says, from a clean "
        "folder that does not hold the original. Run both programs in isolation, and compare all outputs, both "
        "streams, exit status and written files mechanically. Measure its size in the way the task counts it. Check that it does not "
        "need the original to be there. If anything differs or the size is over the bar, go on; if you cannot do better, "
        "deliver the candidate with the best measurement, not the latest one."
    )

    def fires(self, state: Any, event: Event) -> bool | None:
        return _holds(state)


class BinaryEquivalence(Procedure):
    id = "binary-equivalence"
    name = "stops with a re-implementation that it never compared with the original program and measured"
    State = Candidates
    policies: ClassVar[tuple[Policy, ...]] = (FirstRun(), Measured())

    def eligible(self, prompt: str) -> str | None:
        return _task(prompt)

    def walk(self, state: Candidates, event: Before) -> Verdict | None:
        call = event.call
        for path, text in written(call):
            if re.search(r"\.(?:py|sh|pl)$", path):
                remember(state.scripts, base(path), _script(text))
        sums = 0
        for command in commands(call):
            built = _built(command)
            if built:
                keep(state.candidates, *built)
                state.built = event.index
            if _runs(state.candidates, command):
                state.ran = event.index
            sums += _sums(command)
            if compares(command) or sums >= 2:
                state.compared = event.index
            if _measures(command):
                state.measured = event.index
            self._own_program(state, command, event.index)
        for code in code_run(call):
            self._apply(state, _script(code), event.index)
        return None

    def _own_program(self, state: Candidates, command: Command, index: int) -> None:
        program = program_of(command)
        if not program or program in state.candidates:
            return
        if program in state.scripts:
            self._apply(state, state.scripts[program], index)
        elif command.stdin is None and command.argv[0] != program and not command.argv[0].startswith("./"):
            state.maybe = index

    @staticmethod
    def _apply(state: Candidates, does: str, index: int) -> None:
        if "compares" in does:
            state.compared = index
        if "measures" in does:
            state.measured = index
        if "builds" in does:
            state.built = max(state.built, index)

    def at_stop(self, state: Candidates, event: Stop) -> Verdict | None:
        if state.built < 0:
            return None if state.unread < 0 else Verdict(None, event.index, "a call could not be read")
        missing = [w for w, at in (("comparison", state.compared), ("size", state.measured)) if at < state.built]
        return judged(
            _holds(state),
            event.index,
            f"after the last build: no {' and no '.join(missing)}",
            "a program whose text is not in the record, or a call that could not be read, may have compared",
            state.built,
        )

    def behaved(self, state: Candidates) -> bool | None:
        holds = _holds(state)
        return None if state.built < 0 or holds is None else not holds


def _holds(state: Candidates) -> bool | None:
    """Whether the last build stands without comparison or size."""
    if state.built < 0 or min(state.compared, state.measured) >= state.built:
        return False
    return None if max(state.maybe, state.unread) >= state.built else True


def _built(command: Command) -> list[str]:
    """Names of the programs that a compiler call writes."""
    words = command.argv
    if re.sub(r"-[\d.]+$", "", command.name) not in _COMPILERS or {
        "-c",
        "-S",
        "-E",
        "--version",
        "-fsyntax-only",
    } & set(words):
        return []
    for number, word in enumerate(words):
        if word == "-o" and number + 1 < len(words):
            return [base(words[number + 1])]
        if word.startswith("-o") and len(word) > 2 and not word.startswith("-O"):
            return [base(word[2:])]
    return ["a.out"] if len(words) > 1 else []


def _runs(candidates: list[str], command: Command) -> bool:
    return bool(command.argv) and "/" in command.argv[0] and command.name in candidates


def _sums(command: Command) -> int:
    """How many checksums a command prints."""
    if command.name not in {"md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "b2sum", "shasum", "md5"}:
        return 0
    return max(1, sum(not a.startswith("-") for a in command.argv[1:]))


def _measures(command: Command) -> bool:
    words = command.argv[1:]
    if command.name == "wc":
        return not any(a.startswith("-") for a in words) or any(
            re.fullmatch(r"-\w*[cm]\w*|--bytes|--chars", a) for a in words
        )
    if command.name == "ls":
        return any(re.fullmatch(r"-\w*[ls]\w*", a) for a in words)
    return command.name in {"stat", "du", "size"}


def _script(text: str) -> str:
    """What a script does, as far as its text tells: compares, measures, builds."""
    shell = re.search(r"^\s*(?:cmp|diff)\b|\b(?:cmp|diff) (?:-\w+ )?\S+ \S+|<\(.*<\(", text, re.M) is not None
    twice = (
        len(re.findall(r"subprocess\.\w+\(|check_output\(|\brun\(", text)) >= 2
        and re.search(r"[!=]=", text) is not None
    )
    found = (
        ("compares", shell or twice or comparison(text) == "compares"),
        (
            "measures",
            re.search(r"\bgetsize\(|st_size|\bwc -\w*c|\bstat\b|len\(", text) is not None and "size" in text.lower(),
        ),
        ("builds", re.search(r"\b(?:gcc|clang|cc|g\+\+|rustc)\b", text) is not None),
    )
    return " ".join(w for w, yes in found if yes)
