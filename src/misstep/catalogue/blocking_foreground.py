"""The agent holds its own call with a command that waits for a person or never ends.

## What it is

A server, a watcher, an editor, a pager or a prompt is started so that the call waits for it: in the foreground (`python -m http.server`, `tail -f log`,
`vim file`, `git rebase -i`, a program that asks and reads the answer), or in the background with its output still on the pipe that
the harness reads (`server &`): the shell is done, and the call hangs all the same. Nobody is there to type, and nothing will end it.

## Why it matters

The call hangs until a time limit kills it, and takes with it whatever it had started. In a terminal that the agent types into, the
next commands go to the program that is still running.

## How it is told

The command is one that never ends or waits for input, in the foreground or on the harness's pipe; or the harness killed the call while the
last line of its output was a prompt. It is a misstep when the record shows that it hung or that the program had no terminal. Where the call
came back by itself, or has no result, the record cannot tell (unknown); nor can it where the harness gave the call back and left the program
running. Every start of such a program is an opportunity: in the background
with its output redirected, under `timeout`, or in a call with a limit of the agent's own that is shorter than the tool's, it is right. So it is through a
tool that gives the call back while the command runs and lets the agent go on with it (a background task, a yield time, a terminal to type into), and so is a server that
a program text starts in a thread or a child process with its output thrown away: what overruns then is the rest of that text.

## What the policy does

It refuses the first such call and says how to start the program so that the shell gets the call back.

## Known misses

Programs of the user's own that wait without a prompt; servers that are not recognised as such; keystroke harnesses, where running an
editor in the foreground may be what was meant.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep.shell import Effect
from misstep.trajectory import After, Before, Call, Event

from ._regex import Regex
from ._world import Opened, began, limited, opened, outputs_redirected, own_limit, short, timed_out, yields
from .base import Misstep, Policy, Verdict

_KINDS = frozenset(["serve", "interactive", "endless"])
_QUICK = frozenset(
    ["--help", "--version", "-V", "--generate-config", "--show-config", "--list", "--check", "--dry-run"]
)
_PRINTS = frozenset(["man", "info", "less", "more", "most", "git", "cat", "top", "sudo", "su"])
_APART = Regex(r"\b(?:Thread|Process|fork|spawn|ThreadPoolExecutor|ProcessPoolExecutor|create_task|to_thread)\b")
"""What starts work beside the rest of a program text."""
_NO_TERMINAL = Regex(
    r"(?i)cannot run editor|unable to start editor|output is not to a terminal|input is not (?:from )?a terminal|not a terminal\b|"
    r"the input device is not a tty|stdin is not a (?:tty|terminal)|TERM environment variable not set|Error opening terminal|"
    r"terminal is (?:dumb|not functional)|must be (?:run|connected to) (?:in|from)? ?a (?:tty|terminal)"
)
_PROMPT = Regex(
    r"(?:^|\n)(?:[^\n]{0,80}(?:\[[Yy]/[Nn]\]|\([Yy](?:es)?/[Nn]o?\)|\(yes/no(?:/\[fingerprint\])?\))[:?]?|[^\n]{0,40}[Pp]ass(?:word|phrase)[^\n]{0,40}:|"
    r"(?:>>>|\.\.\.|>|\w{2,12}>|\w{2,12}[=-][#>]|\(\w{2,12}\)|In \[\d+\]:)|[^\n]{0,60}(?:[Ee]nter|[Cc]hoose|[Ss]elect|[Pp]ress)\b[^\n]{0,60}[:?>]|"
    r"[^\n]{0,60}[Ww]hat is [^\n]{0,40}\?)[ \t]*\Z"
)


class LetGo(Policy):
    id = "blocking-foreground"
    at = "before"
    action = "deny"
    text = (
        "This waits for a person, or never ends by itself, and would hold the call until a time limit kills it. It was not run. "
        "A server belongs into a session of its own in the background with its input and both outputs redirected to files; a watcher under a time bound; "
        "an editor, a pager or a question replaced by the form that needs no terminal (an option that answers, a file that is written, output that is piped)."
    )

    def fires(self, state: Opened, event: Event) -> bool | None:
        call = event.call if isinstance(event, Before) else None
        if call is None or call.kind != "shell" or call.script is None or call.script.damage:
            return False
        return any(not _lets_go(e, call) and not _often_harmless(e) for e in _starts(call))


class BlockingForeground(Misstep):
    id = "blocking-foreground"
    name = "holds its own call with a command that waits for a person or never ends"
    status = "stable"
    State = Opened
    policies = (LetGo(),)

    def on_before(self, state: Opened, event: Before) -> None:
        if event.call.kind == "shell":
            opened(state, event)

    def on_after(self, state: Opened, event: After) -> Iterable[Verdict] | None:
        at, call, result = began(state, event), event.call, event.result
        if at is None or call.script is None or call.script.damage or result.fault or result.shared:
            return None
        starts = _starts(call)
        waits = [e for e in starts if not _lets_go(e, call)]
        if timed_out(call, result):
            prompt = _PROMPT.search(result.output[-400:].rstrip("\n"))
            held = [e for e in waits if not _may_ask(e)]
            if held:
                return [Verdict(True, at, f"hung until the time limit: {_words(held[-1], call)}")]
            piped = [e for e in starts if _holds_the_pipe(e) and not own_limit(call)]
            if piped:
                why = f"in the background, but on the pipe that the harness reads until the time limit: {_words(piped[-1], call)}"
                return [Verdict(True, at, why)]
            if prompt and not call.background and not own_limit(call):
                return [Verdict(True, at, f"killed while it asked {short(prompt.group(), 60)!r}")]
            return [Verdict(False, at)] if own_limit(call) and any(not _may_ask(e) for e in starts) else None
        starts = [e for e in starts if not _may_ask(e)]
        waits = [e for e in waits if not _may_ask(e)]
        if not starts:
            return None
        asks = [e for e in starts if e.kind == "interactive" and not call.background and not _apart(e, call)]
        told = _NO_TERMINAL.search(result.output[:3000]) if asks and not own_limit(call) else None
        if told:
            return [Verdict(True, at, f"{short(told.group(), 60)}: {_words(asks[-1], call)}")]
        if not waits:
            return [Verdict(False, at)]
        how = "the harness left it running and gave the call back" if result.running else "it came back"
        return [Verdict(None, at, f"{how}: {_words(waits[-1], call)}")]


def _may_ask(effect: Effect) -> bool:
    """An installer that asks only now and then: what it was killed at may be the work itself."""
    return effect.kind == "interactive" and "confirm" in str(effect.info.get("why") or "")


def _starts(call: Call) -> list[Effect]:
    """What the call starts here that waits or never ends by itself."""
    return [
        e
        for e in call.effects
        if e.kind in _KINDS and not (e.command and (e.command.remote or _QUICK & set(e.command.argv)))
    ]


def _often_harmless(effect: Effect) -> bool:
    """What comes back by itself where there is no terminal (a pager prints, git takes its text from elsewhere)."""
    command = effect.command
    if effect.kind != "interactive" or command is None:
        return False
    return _may_ask(effect) or command.stdin is not None or command.piped_in or command.name in _PRINTS


def _lets_go(effect: Effect, call: Call) -> bool:
    """Whether the shell, the tool or the agent's own limit gets the call back."""
    return yields(call) or own_limit(call) or _apart(effect, call)


def _apart(effect: Effect, call: Call) -> bool:
    """Whether the shell does not wait for it."""
    command = effect.command
    if command is None:
        return True
    if command.background or effect.info.get("background") or limited(command):
        return True
    return _in_a_text(effect) and outputs_redirected(command) and _APART.search(call.command or "") is not None


def _in_a_text(effect: Effect) -> bool:
    """Whether a program text of the call (`python -c`) starts it, and not the shell."""
    return effect.command is not None and any(w in ("python", "node") for w in effect.command.wrappers)


def _holds_the_pipe(effect: Effect) -> bool:
    """A server in the background whose output still goes to the pipe that the harness reads."""
    if effect.kind != "serve" or effect.command is None or effect.info.get("own_session") != "no":
        return False
    return not (effect.info.get("redirected") or outputs_redirected(effect.command))


def _words(effect: Effect, call: Call) -> str:
    return short(" ".join(effect.command.argv) if effect.command else call.command or "", 80)
