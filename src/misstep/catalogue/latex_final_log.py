"""The agent stops after a LaTeX build without searching the final log for overfull boxes.

## What it is
The task forbids overfull boxes. The agent compiles the document and ends its turn; the log of that last build
was never searched for the literal warning.

## Why it matters
LaTeX reports an overfull box as a warning among hundreds of lines and exits with 0. A build that "works" says
nothing about the one condition that is judged, and the last edit may have brought a new one.

## How it is told
Only for tasks that say that there must be no overfull boxes. A build is pdflatex, xelatex, lualatex, latex, latexmk,
tectonic, rubber or arara (make and scripts of the agent where they name one). The search is a grep, rg, awk or
Python text that contains "overfull", over a log or over the output of the build itself, in the same call
behind the build or in a later one. Where the log was only printed, in whole or in part, the agent may have seen the
warning: the verdict is unknown.

## What the policy does
At the stop, once: asks for a literal search in the log of the final build.

## Known misses
A search whose result the agent ignores. Builds by a program that the text does not name.
"""

from __future__ import annotations

import re

from misstep._record import record
from misstep.shell import Command
from misstep.trajectory import Before, Event, Stop

from ._fire import SEARCHES, Memory, Procedure, base, commands, judged, program_of, python_code, remember, written
from ._tasks import denied, joined, said, sentences
from .base import Policy, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_BUILDERS = {"pdflatex", "xelatex", "lualatex", "latex", "latexmk", "tectonic", "rubber", "arara", "pdftex", "luatex"}
_LATEX = r"\b(?:la)?tex\b|\bpdflatex\b|\w\.tex\b|\b(?:xe|lua)latex\b|\\?hbox(?:es)?\b"
_FORBID = (
    r"\b(?:no|without(?: any)?|free of|zero|not (?:contain|have|produce|give|cause|report|any)|never|eliminate|remove|get rid of|avoid|"
    r"fix|resolve|clear|prevent|must not|should not|none of|any)\b.{0,60}\boverfull\b"
    r"|\boverfull\b.{0,80}\b(?:must not|should not|not allowed|forbidden|disappear|go away|be (?:removed|fixed|eliminated|gone|resolved)|are gone|not acceptable|unacceptable)\b"
)
_ALLOWED = r"\boverfull\b.{0,50}\b(?:fine|acceptable|ok|okay|allowed|can be ignored|do not matter|don['’]t matter|may (?:stay|remain))\b|\bignore\b.{0,30}\boverfull\b"


@record
class Builds(Memory):
    """Event indices, -1 where there is none."""

    built: int = -1
    searched: int = -1
    printed: int = -1
    """The last time that a log was printed."""


class LogPolicy(Policy):
    id = "latex-final-log"
    at = "stop"
    text = (
        "Before you stop: the log of the final build has not been searched. An exit status of 0 and a finished PDF say nothing "
        "about overfull boxes. Build once more from the final sources if anything changed, as often as references need. "
        "Then search the log file which that build wrote for the literal word of the warning (grep -n Overfull on the log). "
        "If there is a hit, correct it within what the task allows, build, and search again. Stop only when the search "
        "of the final log finds nothing."
    )

    def fires(self, state: Any, event: Event) -> bool | None:
        return _holds(state)


class LatexFinalLog(Procedure):
    id = "latex-final-log"
    name = "stops after a LaTeX build without searching the final log for overfull boxes"
    State = Builds
    policies: ClassVar[tuple[Policy, ...]] = (LogPolicy(),)

    def eligible(self, prompt: str) -> str | None:
        everything = sentences(prompt)
        text = "\n".join(everything)
        latex = said(text, _LATEX)
        if not latex or re.search(_ALLOWED, text, re.I):
            return None
        for sentence in everything:
            match = re.search(_FORBID, sentence, re.I)
            if match and not denied(sentence, match.start()):
                return joined(latex, match.group())
        return None

    def walk(self, state: Builds, event: Before) -> Verdict | None:
        call = event.call
        for path, text in written(call):
            names = [
                w for w, yes in (("builds", _names_builder(text)), ("searches", "overfull" in text.lower())) if yes
            ]
            if re.search(r"\.(?:sh|py)$|(?:^|/)[Mm]akefile$|latexmkrc$", path):
                remember(state.scripts, base(path), " ".join(names))
        for command in commands(call):
            kind = _kind(state, command)
            if "builds" in kind:
                state.built = event.index
                state.searched = state.printed = -1
            if "searches" in kind:
                state.searched = event.index
            elif kind == "prints":
                state.printed = event.index
        if call.kind == "read" and any(p.endswith(".log") for p in call.paths):
            state.printed = event.index
        if call.kind == "search" and re.search("overfull", str(call.arguments), re.I):
            state.searched = event.index
        return None

    def at_stop(self, state: Builds, event: Stop) -> Verdict | None:
        if state.built < 0:
            return None if state.unread < 0 else Verdict(None, event.index, "a call could not be read")
        return judged(
            _holds(state),
            event.index,
            "no search of the log after the last build",
            "the log was printed, or a later call could not be read",
            state.built,
        )

    def behaved(self, state: Builds) -> bool | None:
        if state.built < 0:
            return None
        return True if state.searched >= state.built else (None if state.unread > state.built else False)


def _holds(state: Builds) -> bool | None:
    """Whether the last build stands unsearched."""
    if state.built < 0 or state.searched >= state.built:
        return False
    return None if max(state.printed, state.unread) >= state.built else True


def _names_builder(text: str) -> bool:
    return re.search(r"\b(?:pdf|xe|lua)?latex(?:mk)?\b|\btectonic\b", text) is not None


def _kind(state: Builds, command: Command) -> str:
    """'builds', 'searches', 'prints' (a log), several of them, or ''."""
    name, words = command.name, command.argv[1:]
    if name in _BUILDERS:
        return "" if {"-c", "-C", "--version", "-v", "--help"} & set(words) else "builds"
    if name == "make":
        return state.scripts.get("Makefile", state.scripts.get("makefile", "builds")) if "clean" not in words else ""
    text = " ".join(words).lower()
    if name in SEARCHES | {"awk", "gawk", "sed", "perl", "texloganalyser", "texlogsieve", "texfot"}:
        return "searches" if "overfull" in text or name.startswith("tex") else ("prints" if ".log" in text else "")
    code = python_code(command)
    if code is not None:
        found = [w for w, yes in (("builds", _names_builder(code)), ("searches", "overfull" in code.lower())) if yes]
        return " ".join(found)
    if name in {"cat", "less", "tail", "head", "more", "bat", "strings"}:
        return "prints" if ".log" in text else ""
    return state.scripts.get(program_of(command), "")
