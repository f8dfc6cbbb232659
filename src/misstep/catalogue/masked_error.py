"""The agent throws away the error output of a command that then fails, and learns nothing of why.

## What it is
A command is run with its error output sent to `/dev/null` (or all its output), it fails, and nothing is shown that
says why.

## Why it matters
The one line that names the cause is gone. The agent guesses, or runs it all again to see what it could have seen at
once.

## How it is told
Every shell call that ran and failed is an opportunity, where its last command decides the exit status. It is an
occurrence if that command's standard error was discarded and the call printed nothing at all. Programs that are asked
a yes-or-no question by their exit status (`test`, `grep -q`, `which`, `command -v`, `git rev-parse` ...), and those
that look for files that may be missing (`ls`, `cat`, `find`), are right to be silent. Where `|| true` or a fallback
hides the status, or the exit status or the harness tells the reason itself (a time limit, a signal, no such command),
nothing is judged.

## Known misses
Errors hidden by `|| true` or `|| echo ...`: whether the command failed cannot be told then. Programs that report
errors on standard output.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep.shell import Command
from misstep.trajectory import After

from ._regex import Regex, words
from .base import Misstep, NoState, Verdict

_QUESTIONS = words(
    "ls ll stat test [ [[ which command type hash whereis cat head tail find fd grep egrep fgrep rg ag zgrep git rm rmdir kill pkill pgrep killall fuser "
    "lsof readlink realpath cd pushd file wc ps cmp diff id locate unset umount tput getent crontab nc ping source . true false less tree du df cp mv mkdir "
    "exit return docker podman tmux screen systemctl service pidof timeout wait"
)
_NOTHING = Regex(r"^(?:Exit code \d+\s*)?(?:\(?no output\)?|\(Bash completed with no output\))?\s*$")
_IMPORT_ONLY = Regex(r"^\s*(?:import|from)\s[^\n]*$")


class MaskedError(Misstep):
    id = "masked-error"
    name = "throws away the error output of a command that then fails, and learns nothing of why"

    def on_after(self, state: NoState, event: After) -> Iterable[Verdict]:
        call, result, at = event.call, event.result, event.index - 1
        script = call.script
        if (
            call.kind != "shell"
            or script is None
            or script.damage
            or not result.failed
            or result.fault
            or result.running
            or result.shared
        ):
            return
        if result.timed_out or result.exit_code in (124, 126, 127, 130, 137, 143):
            return
        own = [c for c in script.commands if not c.substitution]
        if not own:
            return
        last = own[-1]
        if last.name in _QUESTIONS or last.piped_in or last.joined_by == "||" or not last.argv or _only_asks(last):
            return
        silent = bool(_NOTHING.match(result.output[:200]))
        if not silent:
            yield Verdict(False, at)
        elif discards_errors(last):
            chained = [c for c in own[:-1] if c.joined_by == "&&" or c.pipeline != last.pipeline]
            if last.joined_by == "&&" and any(c.name not in ("cd", "export", "set") for c in chained):
                yield Verdict(None, at, "an earlier command of the chain may be the one that failed")
            else:
                yield Verdict(True, at, f"{last.name} failed, and its error output was discarded")


def _only_asks(command: Command) -> bool:
    """A one-line import, to see whether a module is there."""
    return "-c" in command.argv and any(_IMPORT_ONLY.match(a) for a in command.argv)


def discards_errors(command: Command) -> bool:
    """Whether a command's standard error goes to /dev/null."""
    out = err = False
    for redirect in command.redirects:
        null = redirect.target == "/dev/null"
        if redirect.op in ("&>", "&>>"):
            out = err = null
        elif redirect.op in (">", ">>", ">|") and redirect.fd == 2:
            err = null
        elif redirect.op in (">", ">>", ">|") and redirect.fd == 1:
            out = null
        elif redirect.op == ">&" and redirect.fd == 2 and redirect.target == "1":
            err = out
    return err
