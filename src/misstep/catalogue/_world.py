"""Shared by the missteps about commands and their surroundings: limits, what a call changes, what it runs at heart."""

from __future__ import annotations

import posixpath

from misstep._record import field, record
from misstep.shell import Command, Script
from misstep.trajectory import After, Before, Call, Result

from ._regex import Regex

FILTERS = frozenset(
    [
        "head",
        "tail",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "sed",
        "awk",
        "gawk",
        "wc",
        "sort",
        "uniq",
        "cut",
        "tr",
        "cat",
        "tee",
        "less",
        "more",
        "nl",
        "column",
        "jq",
        "fold",
        "rev",
        "tac",
    ]
)
"""Programs that only choose or reshape what is seen of another's output."""
_TRIVIAL = frozenset(["echo", "printf", "true", ":", "set", "export", "pwd", "date"])
_READ_ONLY = FILTERS | frozenset(
    [
        "echo",
        "printf",
        "cd",
        "pushd",
        "popd",
        "pwd",
        "true",
        "false",
        ":",
        "test",
        "[",
        "[[",
        "which",
        "type",
        "command",
        "whereis",
        "whoami",
        "date",
        "uname",
        "id",
        "hostname",
        "export",
        "set",
        "unset",
        "alias",
        "ls",
        "find",
        "fd",
        "tree",
        "stat",
        "file",
        "diff",
        "cmp",
        "comm",
        "md5sum",
        "sha1sum",
        "sha256sum",
        "shasum",
        "cksum",
        "du",
        "df",
        "ps",
        "pgrep",
        "top",
        "free",
        "uptime",
        "xxd",
        "od",
        "hexdump",
        "strings",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "seq",
        "sleep",
        "wait",
        "git",
        "gh",
        "go",
        "printenv",
        "env",
        "man",
        "tput",
        "lsof",
        "ss",
        "netstat",
        "nproc",
        "lscpu",
        "ldd",
        "nm",
        "objdump",
        "readelf",
        "local",
        "declare",
        "return",
        "break",
        "continue",
        "read",
        "shift",
        "let",
        "jobs",
        "yq",
        "column",
        "exit",
    ]
)
_QUIET_TOOLS = Regex(
    r"(?i)todo|think|plan|skill|websearch|web_search|webfetch|web_fetch|taskoutput|bashoutput|tasklist|taskget|taskupdate|taskcreate|askuser|lsp|toolsearch"
)
_CHANGING = frozenset(["write", "move", "copy", "delete", "format", "install", "download", "vcs"])
_TIMED_OUT = Regex(
    r"\b[Cc]ommand timed out\b|timed out (?:after [\d.]+ ?(?:m\b|s\b|ms\b|sec|min)|and has been killed)"
    r"|\bcommand (?:exceeded|reached) (?:the|its) (?:time ?out|time limit)|terminated after (?:the )?time ?out"
)
_SIGNALS = frozenset([124, 137, 143, -9, -15])
_LIMITS = {
    "Bash": 120.0,
    "bash": 120.0,
    "run_shell_command": 120.0,
    "shell": 10.0,
    "local_shell": 10.0,
    "shell_command": 10.0,
}
"""Seconds after which a tool ends a command whose call says nothing of time, where agents may say it."""
_YIELDING = ("yield_time_ms", "initial_wait")
"""Arguments that say how long the agent wants to wait for a command that goes on by itself."""


@record
class Opened:
    """State that remembers where calls were proposed, so that a result can be told of its Before."""

    opened: dict[str, int] = field(default_factory=dict)
    """Event index of the Before by call id; at most 16 that wait for a result."""


def opened(state: Opened, event: Before) -> None:
    """Note where a call was proposed."""
    state.opened[event.call.id] = event.index
    bound(state.opened, 16)


def began(state: Opened, event: After) -> int | None:
    """Where the call of this result was proposed, None where that was not seen."""
    return state.opened.pop(event.call.id, None)


def bound(kept: dict[str, object] | dict[str, int] | dict[str, list[int]] | dict, most: int) -> None:
    """Drop the oldest entries beyond `most`."""
    while len(kept) > most:
        del kept[next(iter(kept))]


def timed_out(call: Call, result: Result) -> bool:
    """Whether a time limit of the harness ended the call (a limit that the agent set with `timeout` is none)."""
    if result.fault or call.background:
        return False
    if result.timed_out:
        return True
    if result.failed is False and not result.running:
        return False
    return bool(_TIMED_OUT.search(result.output[:400]) or _TIMED_OUT.search(result.output[-400:])) and (
        result.exit_code is None or result.exit_code in _SIGNALS
    )


def limited(command: Command) -> bool:
    """Whether the agent itself bounds the command in time (`timeout 10 ...`)."""
    return any(w.rsplit("/", 1)[-1] in ("timeout", "gtimeout") for w in command.wrappers)


def own_limit(call: Call) -> bool:
    """Whether the agent itself bounds the call in time, with a limit below the one that the tool has anyway."""
    return call.timeout is not None and call.timeout < _LIMITS.get(call.tool, 30.0)


def yields(call: Call) -> bool:
    """Whether the tool gives the call back while its command runs, and the agent can go on with it (type into it, wait, end it)."""
    return call.background or call.tool.endswith("exec_command") or any(key in call.arguments for key in _YIELDING)


def outputs_redirected(command: Command) -> bool:
    """Whether output and error both leave the shell's own streams. A background job's input is /dev/null already."""
    out = error = False
    for redirect in [*command.around, *command.redirects]:
        if redirect.op in ("&>", "&>>"):
            out = error = True
        elif redirect.op == ">&" and redirect.target.isdigit():
            if redirect.fd == 2 and redirect.target == "1":
                error = out
            elif redirect.fd in (1, None) and redirect.target == "2":
                out = error
        elif redirect.op in (">", ">>", ">|", ">&"):
            out, error = out or redirect.fd in (1, None), error or redirect.fd == 2
    return out and error


def heart(script: Script) -> list[Command]:
    """The commands that do the work: no filters behind a pipe, no `echo`, no `cd`."""
    return [
        c
        for c in script.commands
        if c.argv and c.name not in _TRIVIAL and c.name != "cd" and not (c.piped_in and c.name in FILTERS)
    ]


def core(script: Script) -> str:
    """What a script runs at heart, as text that is the same for the same work; '' where there is none."""
    return "\n".join(
        " ".join([*(f"{k}={v}" for k, v in sorted(c.env.items())), *c.argv, *([c.stdin] if c.stdin else [])])
        for c in heart(script)
    )


def program(command: Command) -> str:
    """The program and, where its first plain word names one, its script or subcommand: `python3 train.py`, `pip install`."""
    for word in command.argv[1:]:
        if word == "-c":
            return f"{command.name} -c"
        if word == "-m":
            continue
        if not word.startswith("-"):
            return f"{command.name} {posixpath.normpath(word)}"
    return command.name


def changes(call: Call) -> bool | None:
    """Whether the call may change files or services: True, False, or None where it runs something unknown."""
    if call.kind in ("read", "search", "finish"):
        return False
    if call.kind in ("write", "edit"):
        return True
    if call.script is None:
        return False if _QUIET_TOOLS.search(call.tool) else None
    if call.script.damage:
        return None
    effects = call.effects
    for effect in effects:
        if effect.kind in _CHANGING and not _only_sinks(effect.paths):
            return True
        if effect.kind == "database" and effect.info.get("mutates") is not False:
            return effect.info.get("mutates")
    if any(effect.kind in ("run", "serve", "kill") for effect in effects):
        return None
    known = {id(e.command) for e in effects}
    for command in call.script.commands:
        if command.argv and id(command) not in known and command.name not in _READ_ONLY:
            return None
    return False


def _only_sinks(paths: tuple[str, ...]) -> bool:
    return bool(paths) and all(p.startswith(("/dev/", "/tmp/")) for p in paths)


def short(text: str, most: int = 80) -> str:
    """One line of at most `most` characters, for evidence."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def same_path(one: str, other: str) -> bool:
    """Whether two paths as written can only mean one file: equal, or one ends with the other's components."""
    a, b = _plain(one), _plain(other)
    if a == b:
        return True
    if len(a) < len(b):
        a, b = b, a
    return bool(b) and not b.startswith("/") and a.endswith("/" + b)


def _plain(path: str) -> str:
    path = posixpath.normpath(path.strip().rstrip("/") or "/")
    return path[2:] if path.startswith("./") else path


def digest(text: str) -> str:
    """What stands for a text in a state: its length and two checksums."""
    import zlib

    data = text.encode("utf-8", "replace")
    return f"{len(data):x}-{zlib.crc32(data):08x}{zlib.adler32(data):08x}"
