"""The agent passes an option that the program does not have.

## What it is

A command is refused because a flag in it does not exist: `unknown option`, `unrecognized argument`, `unknown
flag`. The agent wrote the flag from memory; nothing ran.

## Why it matters

Each guess costs a turn, and agents tend to guess again. In a chain (`a --flag && b`) the steps behind it are lost
too, and behind a pipe the refusal can pass for an empty answer. `PROGRAM --help` costs the same turn and settles it.

## How it is told

The result says that an option is unknown, the option that it names stands in the command's own words, and the command did not
run fine otherwise. An option that the tool has on other systems (`grep -P`, `cat -A`, `date -d` are GNU's and not BSD's) is not invented: unknown. Where the refused command stands before a `||` with the same program behind it, and that one succeeded, the guess was a way to
ask, and right. Every shell call with a result is an opportunity.

## Known misses

Programs that print only their usage; messages in other languages; an option that exists but means something else; subcommands and
values that do not exist; refusals that a redirection hid.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep.shell import Command
from misstep.trajectory import After, Before, Call, Result

from ._portability import only_elsewhere
from ._regex import Regex
from ._world import Opened, began, opened, short
from .base import Misstep, Verdict

_HINT = Regex(
    r"(?i)unknown|unrecogni[sz]ed|invalid|illegal|no such option|unexpected argument|unexpected option|bad option"
)
_MESSAGES = (
    Regex(
        r"(?i)\b(?:unknown|unrecogni[sz]ed|invalid|illegal|unexpected|unsupported|bad) (?:command[- ]line )?"
        r"(?:options?|flags?|arguments?|switch|shorthand flag|long option|parameter)\b(?: --)?(?: found)?"
        r"[:,]?\s*(?:provided: *)?[`'\"\u2018\u201c]?(?P<option>--?[\w][\w.-]*|[A-Za-z]\b|[a-z][\w-]{2,})(?:=\S*)?[`'\"\u2019\u201d]?"
        r"(?: in (?P<shorthand>-\w+))?"
    ),
    Regex(r"(?i)\bno such option:? [`'\"\u2018]?(?P<option>--?[\w][\w-]*)"),
    Regex(
        r"(?i)\b(?:option|flag|argument) [`'\"\u2018\u201c]?(?P<option>--?[\w][\w-]*)[`'\"\u2019\u201d]? (?:is )?(?:not recognized|unknown|not defined|does not exist|is not a (?:valid|known))"
    ),
)


class InventsAnOption(Misstep):
    id = "invents-an-option"
    status = "stable"
    name = "passes an option that the program does not have"
    State = Opened

    def on_before(self, state: Opened, event: Before) -> None:
        if event.call.kind == "shell":
            opened(state, event)

    def on_after(self, state: Opened, event: After) -> Iterable[Verdict] | None:
        at = began(state, event)
        if at is None or event.result.fault or event.result.shared:
            return None
        told = _refused(event.call, event.result) if event.result.failed is not False or _piped(event.call) else None
        if told is None:
            return [Verdict(False, at)]
        line, elsewhere = told
        return [Verdict(None, at, f"{line} (other systems have it)") if elsewhere else Verdict(True, at, line)]


def _piped(call: Call) -> bool:
    """Whether the exit status may be another command's, so that success of the call says nothing."""
    return call.script is not None and len(call.script.commands) > 1


def _refused(call: Call, result: Result) -> tuple[str, bool] | None:
    """The line that refuses an option which stands in the command, and whether the tool has it on other systems.

    A refusal of an invented option goes before one that is a matter of the system.
    """
    found: tuple[str, bool] | None = None
    output = result.output
    if call.script is None or call.script.damage or not _HINT.search(output):
        return None
    if not any(_options(c) for c in call.script.commands):
        return None
    for line in output[:20_000].splitlines()[:200]:
        if len(line) > 300 or not _HINT.search(line):
            continue
        for pattern in _MESSAGES:
            match = pattern.search(line)
            option = (match.groupdict().get("shorthand") or match["option"]) if match else ""
            if not option:
                continue
            guilty = [c for c in call.script.commands if any(_is(word, option) for word in _options(c))]
            if not guilty:
                continue
            if result.failed is False and all(_hedged(c, call.script.commands) for c in guilty):
                return None
            found = short(line, 120), all(only_elsewhere(c.name, option, line) for c in guilty)
            if not found[1]:
                return found
    return found


def _options(command: Command) -> list[str]:
    return [w for w in command.argv[1:] if w.startswith("-") and len(w) > 1]


def _hedged(command: Command, commands: list[Command]) -> bool:
    """Whether another try of the same program stands behind a `||`."""
    return any(
        c.joined_by == "||" and c.name == command.name and c.pipeline > command.pipeline
        for c in commands
        if c is not command
    )


def _is(word: str, option: str) -> bool:
    """Whether a word of the command is the option that a message names (`x`, `-x`, `--long`, `long`)."""
    word = word.split("=", 1)[0]
    if option.startswith("-"):
        return word == option
    if len(option) == 1:
        return not word.startswith("--") and option in word[1:]
    return word == "--" + option or word == "-" + option
