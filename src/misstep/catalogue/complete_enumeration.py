"""The agent stops with a list of answers that no program enumerated and tested.

## What it is
The task wants every valid answer: all winning moves, all solutions, each matching value, one per line. The agent wrote
its answers down by hand and ends its turn; no program went through the candidates and tested each.

## Why it matters
The first answer found is usually right and rarely the only one. A list that was thought up instead of
enumerated misses answers, repeats some, and keeps false ones, and nothing in it shows that.

## How it is told
Only for tasks that ask for all valid, winning, correct, matching ... answers, as a list or one per line: "one per
line" alone is not enough. An occurrence is a stop after literal answers were written (echo, printf, a heredoc, the editor
tool) when nothing that could have enumerated ran in the whole session. A program that loops over candidates and tests them, in the text that was
run or in a script that the agent wrote and ran, makes it right when it ran without an error. Everything between is unknown: a solver, a search tool, a program whose text is not in the record.

## What the policy does
At the stop, once: asks to enumerate the candidates, test each, drop repetitions, write all, and check that none
is missing.

## Known misses
Whether the loop covers all candidates, and whether its test is the right one.
"""

from __future__ import annotations

import re

from misstep._record import record
from misstep.trajectory import After, Before, Call, Event, Stop

from ._fire import SEARCHES, Memory, Procedure, base, code_run, commands, judged, program_of, remember, written
from ._tasks import code_work, joined, said, sentences
from .base import Policy, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_RIGHT = (
    r"(?:valid|winning|correct|legal|possible|matching|satisfying|optimal|acceptable|feasible|distinct|different|qualifying|"
    r"best|mating|non-?attacking|equivalent|admissible)"
)
_THING = (
    r"(?:moves?|answers?|solutions?|assignments?|arrangements?|placements?|combinations?|permutations?|passwords?|candidates?|words?|"
    r"numbers?|values?|paths?|routes?|sequences?|strings?|configurations?|colou?rings?|schedules?|pairs?|triples?|sets?|subsets?|"
    r"matches|keys?|codes?|plans?|partitions?|tilings?|roots?|anagrams?|cliques?|models?|schemes?|decompositions?)"
)
_ALL = (
    rf"\b(?:all|every|each|any and all)(?: of)?(?: the| possible| such)* {_RIGHT}(?: [\w-]+){{0,2}} {_THING}\b"
    rf"|\b(?:multiple|several|more than one|other)(?: of the)? {_RIGHT}(?: [\w-]+){{0,2}} {_THING}\b"
    r"|\b(?:all|every|each)(?: of)?(?: the| possible)* (?:solutions|solution)\b"
    rf"|\b(?:all|every)(?: the| possible)? {_THING} (?:that|which) (?:satisf\w+|solves?|wins?|are valid|is valid|are correct|is correct|work|fulfil\w*|win|meets?|mates?|leads?)\b"
)
_LIST = (
    r"\b(?:one|each)(?: \w+)?(?: per| on (?:a|its|their) (?:own )?(?:separate )?| to a| on each) ?(?:own )?(?:separate )?line\b|\bon (?:a )?separate lines?\b"
    r"|\b(?:print|list|write|output|report|give|include|enumerate|return|name|put)\b.{0,20}\b(?:them all|all of them|every one|each (?:one )?of them)\b"
    r"|\b(?:print|list|write|output|enumerate)\b.{0,20}\b(?:all (?:the )?\w+|every|each)\b|\bline by line\b|\bcomplete list\b"
)
_LOOP = (
    r"\bfor\b[^\n]*\b(?:in|;;|;)|\bwhile\b|\bitertools\b|permutations\(|product\(|combinations\(|legal_moves|\.filter\("
)
_TEST = r"\bif\b|\bassert\b|\bfilter\(|\ball\(|\bany\(|is_valid|check\("


def _task(prompt: str) -> str | None:
    everything = sentences(prompt)
    for number, sentence in enumerate(everything):
        if code_work(sentence):
            continue
        every = said(sentence, _ALL)
        if every:
            around = "\n".join(everything[number : number + 3])
            listed = said(around, _LIST)
            if listed:
                return joined(every, listed)
    return None


@record
class Answers(Memory):
    """Event indices, -1 where there is none."""

    wrote: int = -1
    """The last write of literal answers."""
    enumerated: int = -1
    """The last program that loops over candidates and tests them, and did not fail."""
    maybe: int = -1
    """The last program that may have enumerated."""


class EnumerationPolicy(Policy):
    id = "complete-enumeration"
    at = "stop"
    text = (
        "Before you stop: the task wants every valid answer, and so far no program has enumerated them. Write down exactly what makes an "
        "answer valid. Generate the whole set of candidates systematically, by a program, wide enough that no valid "
        "answer can lie outside it. Test each candidate against all conditions. Remove repetitions, keep the format that was "
        "asked for, and write all that passed. Then read the file back: each line must pass the test once more, and the number "
        "of lines must be the number of candidates that passed. If this has been done already, change nothing."
    )

    def fires(self, state: Any, event: Event) -> bool | None:
        return _holds(state)


class CompleteEnumeration(Procedure):
    id = "complete-enumeration"
    name = "stops with a list of answers that no program enumerated and tested"
    State = Answers
    policies: ClassVar[tuple[Policy, ...]] = (EnumerationPolicy(),)

    def eligible(self, prompt: str) -> str | None:
        return _task(prompt)

    def walk(self, state: Answers, event: Before) -> Verdict | None:
        call = event.call
        for path, text in written(call):
            if re.search(r"\.(?:py|sh|js|c|cpp|cc|rs|go|rb|pl|java|lp|mzn|pl)$", path):
                remember(state.scripts, base(path), "enumerates" if _enumerates(text) else "")
            else:
                state.wrote = event.index
        if any(
            _literal(c.name) and any(r.op in {">", ">>"} and not r.target.startswith("/dev/") for r in c.redirects)
            for c in commands(call)
        ):
            state.wrote = event.index
        does = _does(state, call)
        if does == "enumerates":
            state.enumerated = event.index
        elif does:
            state.maybe = event.index
        return None

    def saw(self, state: Answers, event: After) -> None:
        if event.result.failed and state.enumerated >= 0 and _does(state, event.call) == "enumerates":
            state.enumerated, state.maybe = -1, event.index

    def at_stop(self, state: Answers, event: Stop) -> Verdict | None:
        if state.wrote < 0 and state.enumerated < 0:
            return (
                None
                if state.unread < 0 and state.maybe < 0
                else Verdict(None, event.index, "what ran may have enumerated the answers")
            )
        return judged(
            _holds(state),
            event.index,
            "the answers were written by hand, and nothing enumerated them",
            "a program whose text is not in the record, or a call that could not be read, may have enumerated",
            state.wrote,
        )

    def behaved(self, state: Answers) -> bool | None:
        return True if state.enumerated >= 0 else (False if _holds(state) else None)


def _holds(state: Answers) -> bool | None:
    """Whether answers were written and nothing enumerated."""
    if state.enumerated >= 0:
        return False
    if state.maybe >= 0 or state.unread >= 0:
        return None
    return state.wrote >= 0


def _literal(name: str) -> bool:
    return name in {"echo", "printf", "cat", "tee"}


def _enumerates(text: str) -> bool:
    return re.search(_LOOP, text) is not None and re.search(_TEST, text) is not None


def _does(state: Answers, call: Call) -> str:
    """'enumerates', 'maybe' (something ran that may have), or ''."""
    codes = code_run(call)
    if any(_enumerates(code) for code in codes):
        return "enumerates"
    found = "maybe" if codes else ""
    for command in commands(call):
        program = program_of(command)
        known = state.scripts.get(program)
        if known is None and program and "." not in program:
            known = next((v for k, v in state.scripts.items() if k.rsplit(".", 1)[0] == program), None)
        if known == "enumerates":
            return known
        if (
            program
            or command.name in SEARCHES
            or command.name
            in {
                "find",
                "awk",
                "strings",
                "clingo",
                "minizinc",
                "z3",
                "glpsol",
                "seq",
                "jq",
                "comm",
                "sort",
                "stockfish",
                "make",
                "go",
                "cargo",
            }
        ):
            found = "maybe"
    return found
