"""The agent repeats a failed command although nothing has changed.

## What it is
A command failed, and the agent runs the same command again, having done nothing in between but look at things:
no edit, no other command that changes anything, no wait, no word of a person. It fails the same way again.

## Why it matters
The outcome is known beforehand. The repetition costs time and context, and agents that do it once tend to do it in a
loop.

## How it is told
Commands are compared as written, after spaces are evened out and without what only shortens their output at the end
(`2>&1`, `| head`, `| tail`), together with the working folder; the evidence says where the two differ in that. Only calls that the record shows as failed count, by
their exit status or, for tests, builds and linters behind a pipe, by their output; failures that may pass by themselves (network, locks, time limits), questions to other
systems (`gh`, `curl`, `git fetch` ...) and anything while a job runs in the background are left out. If the
repetition succeeds or fails in another way, something did change or the command is not deterministic: unknown. Every
failed command is an opportunity; doing something else next is right.

## Known misses
The same command in other words (another order of options, an added `cd`). Repetitions with useless changes in
between. Keystrokes to a terminal, where the record does not tell which command failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from misstep._record import field, record
from misstep.trajectory import After, Before, Call, Compact, Interrupt, Prompt, Result, Say

from ._checks import FAILED, check_run, facts
from ._regex import Regex, words
from .base import Misstep, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOOKS = words(
    "cd pwd ls ll tree cat bat head tail less wc sort uniq cut grep egrep fgrep rg ag find fd diff cmp stat file du df which type command "
    "whereis whoami id uname date env printenv echo printf true test [ realpath readlink basename dirname xxd od hexdump strings awk jq yq nl column"
)
_GIT_LOOKS = words("status diff log show blame ls-files rev-parse describe shortlog grep reflog")
_ELSEWHERE = words(
    "gh glab curl wget ssh scp rsync kubectl docker podman aws gcloud az terraform helm nc ping dig nslookup telnet psql mysql redis-cli lsof ss ps pgrep "
    "netstat tmux screen systemctl service journalctl squeue nvidia-smi"
)
_TRANSIENT = Regex(
    r"(?i)timed? ?out|connection (?:refused|reset|closed|aborted)|temporar(?:y|ily)|network|could not resolve|name resolution|unreachable|"
    r"rate limit|too many requests|\b(?:429|502|503|504)\b|index\.lock|lock file|could not get lock|is locked|database is locked|try again|"
    r"resource busy|address already in use|EAI_AGAIN|ETIMEDOUT|ECONNRESET|handshake|killed\b"
)
_AGAIN = Regex(r"(?i)\bflak\w*|\bintermittent\w*|\bnon-?determinis\w*|\brace\b|\btransient\b")
_SHORTENED = Regex(r"(?:\s*2>&1|\s*\|\s*(?:head|tail)(?:\s+-n?\s*\d+)?)+\s*$")
_NUMBERS = Regex(r"0x[0-9a-f]+|\d+")
_MOST = 12


@record
class Failures:
    failed: dict[str, list[Any]] = field(default_factory=dict)
    """Command's digest -> [index, digest of its output, digest of it as written], while nothing has changed since."""
    fresh: int = -1
    """Index of a failed command that the agent has not reacted to."""
    live: bool = False
    """Something runs in the background."""


class RepeatedFailure(Misstep):
    id = "repeated-failure"
    name = "repeats a failed command although nothing has changed"
    State = Failures

    def on_prompt(self, state: Failures, event: Prompt) -> None:
        _changed(state)

    def on_interrupt(self, state: Failures, event: Interrupt) -> None:
        _changed(state)

    def on_compact(self, state: Failures, event: Compact) -> None:
        _changed(state)

    def on_say(self, state: Failures, event: Say) -> None:
        if _AGAIN.search(event.text):
            _changed(state)

    def on_before(self, state: Failures, event: Before) -> None:
        if event.call.background or (event.call.script is not None and _in_background(event.call)):
            state.live = True

    def on_after(self, state: Failures, event: After) -> Iterable[Verdict]:
        call, result, at = event.call, event.result, event.index - 1
        state.live |= result.running
        if result.fault is not None:
            return
        if call.kind != "shell" or call.command is None or result.shared:
            if state.fresh >= 0:
                yield Verdict(False, at)
                state.fresh = -1
            if call.kind not in ("read", "search"):
                _changed(state)
            return
        written = " ".join(call.command.split())
        key = _digest(_SHORTENED.sub("", written) + "\0" + (call.cwd or ""))
        exact = _digest(written)
        failed = _failed(call, result)
        earlier = state.failed.get(key)
        if earlier is not None and earlier[2] != exact and not (failed and _shape(result.output) == earlier[1]):
            # More or less of the same output.
            earlier = None
        if earlier is not None:
            state.fresh = -1
            same = failed and _shape(result.output) == earlier[1]
            if same and not state.live:
                shown = "" if earlier[2] == exact else " (only what is shown of its output was asked for differently)"
                why = f"it failed the same way before, and nothing has changed{shown}: {call.command[:120]}"
                yield Verdict(True, at, why, (earlier[0],))
            else:
                yield Verdict(None, at, "it did not fail the same way again, or a job in the background changes things")
        elif state.fresh >= 0:
            yield Verdict(False, at)
            state.fresh = -1
        if not _looks(call):
            _changed(state)
        if (
            failed
            and not result.running
            and not result.timed_out
            and not state.live
            and _own(call)
            and not _TRANSIENT.search(result.output[-4000:])
        ):
            if earlier is None:
                state.fresh = at
            state.failed[key] = [at, _shape(result.output), exact]
            while len(state.failed) > _MOST:
                del state.failed[next(iter(state.failed))]


def _failed(call: Call, result: Result) -> bool:
    """Whether a command failed, by its exit status or, where a pipe hides it, by what a check printed."""
    return bool(result.failed) or any(
        check_run(call, kind, command, result).status == FAILED for kind, command in facts(call).checks
    )


def _changed(state: Failures) -> None:
    state.failed.clear()
    state.fresh = -1


def _digest(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return f"{crc32(data):08x}-{len(data):x}"


def _shape(output: str) -> str:
    """The output without its numbers (times, process ids, addresses)."""
    return _digest(" ".join(_NUMBERS.sub("0", output[:20_000]).split()))


def _in_background(call: Call) -> bool:
    return call.script is not None and any(c.background for c in call.script.commands)


def _looks(call: Call) -> bool:
    """Whether a shell call only looks at things."""
    script = call.script
    if script is None or script.damage:
        return False
    for command in script.commands:
        if any(
            r.op in (">", ">>", "&>", "&>>", ">|", "<>") and not r.target.startswith("/dev/") for r in command.redirects
        ):
            return False
        if command.name == "git" and command.argv[1:2] and command.argv[1] in _GIT_LOOKS:
            continue
        if command.argv and command.name not in _LOOKS:
            return False
    return True


def _own(call: Call) -> bool:
    """Whether the outcome depends on this machine's files alone, as far as the programs tell."""
    script = call.script
    if script is None or script.damage:
        return False
    for command in script.commands:
        if command.remote or command.background or command.name in _ELSEWHERE:
            return False
        if (
            command.name == "git"
            and command.argv[1:2]
            and command.argv[1] in ("push", "pull", "fetch", "clone", "ls-remote")
        ):
            return False
        if command.name in ("sleep", "wait", "watch"):
            return False
    return True
