"""What the scanner returns: commands as an agent wrote them, and what they do.

Everything here is plain data. A `Command` is one simple command (`argv` with its redirects); a
`Script` is every simple command of one piece of shell text in the order in which it is written,
those inside loops, functions, substitutions and wrappers (`sudo`, `bash -c`, `ssh`, heredocs fed
to a shell ...) included. An `Effect` says what one command does to the world.
"""

from __future__ import annotations

from misstep._record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@record(slots=True)
class Redirect:
    """One redirection: `2>&1` is `Redirect(">&", 2, "1")`."""

    op: str
    """`>`, `>>`, `<`, `>&`, `<&`, `&>`, `&>>`, `<>`, `>|`, `<<`, `<<-` or `<<<`."""
    fd: int | None
    """The file descriptor when written, else the operator's default (0 for input, 1 for output; None for `&>`)."""
    target: str
    """The word after the operator, quotes removed; a heredoc's delimiter."""
    body: str | None = None
    """A heredoc's or here-string's text."""
    quoted: bool = False
    """A heredoc whose delimiter is quoted: the body is taken as it is, nothing in it is expanded."""


@record(slots=True)
class Command:
    """One simple command."""

    argv: list[str]
    """The words with quotes removed. Expansions stay as written (`$HOME`, `$(date)`)."""
    env: dict[str, str] = field(default_factory=dict)
    """Assignments before the command (`FLASK_APP=app.py flask run`)."""
    redirects: list[Redirect] = field(default_factory=list)
    stdin: str | None = None
    """The heredoc or here-string body that reaches its standard input."""
    background: bool = False
    """The shell does not wait for it (`&`, of the command or of anything around it)."""
    piped_in: bool = False
    piped_out: bool = False
    pipeline: int = 0
    """Commands with the same number are one pipeline."""
    joined_by: str = ""
    """What stands before its pipeline: '' (first), ';', '&&', '||' or '&'."""
    dynamic: frozenset[int] = frozenset()
    """Positions in argv whose value is not fixed by the text: an unquoted or double-quoted expansion or substitution."""
    globbed: frozenset[int] = frozenset()
    """Positions in argv with an unquoted `*`, `?` or `[`."""
    substitution: bool = False
    """Its output becomes text of another command (`$(...)`, backticks, `<(...)`)."""
    wrappers: tuple[str, ...] = ()
    """What was peeled off around it, outermost first: ('sudo', 'timeout'), ('bash -c',), ('ssh',) ..."""
    remote: bool = False
    """It runs somewhere else: ssh, docker exec, kubectl exec ..."""
    start: int = 0
    """Offset in the outermost text where the command starts."""
    around: list[Redirect] = field(default_factory=list)
    """Redirections of the loops, groups and `bash -c` around it, innermost first (`{ a; b; } > log`, `done < in.txt`)."""

    @property
    def name(self) -> str:
        """The program without its folder, '' for a bare assignment or redirect."""
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else ""


@record(slots=True)
class Block:
    """A compound command, a function or a substitution, as the range `commands[first:last]` of its script."""

    kind: str
    """'subshell' | 'group' | 'if' | 'for' | 'select' | 'while' | 'until' | 'case' | 'function' | 'substitution' |
    'shell' (a text that `bash -c`, ssh, a heredoc ... hands to another shell)."""
    first: int
    last: int
    body: int = 0
    """Index of the first command after `do`: `commands[first:body]` is the condition of a while or until."""
    name: str = ""
    """The function's name, or the variable of a for or select."""
    words: tuple[str, ...] = ()
    """What a for or select runs over, as written with quotes removed (`*.png`)."""


@record(slots=True)
class Script:
    """All commands of one shell text."""

    text: str
    commands: list[Command]
    damage: str | None = None
    """Why the text could not be read in full (unclosed quote, nesting too deep ...), else None. Policies stay silent on damaged text."""
    blocks: list[Block] = field(default_factory=list)
    """Its compound commands, inner ones before those around them."""


@record(slots=True)
class Effect:
    """What one command, or one tool call of an agent, does.

    kind, with the fields in `info` that it carries:

    =========== =================================================================================
    serve       starts a server, daemon, listener or VM. background: bool (the command returns while it runs);
                own_session: 'yes' (a new session or a daemon) | 'hangup-proof only' (nohup, disown) | 'no' |
                'unknown' (on another machine); redirected: bool (stdin, stdout and stderr); launcher: str;
                port: str ('' where none is written); bounded: bool (under `timeout`: a trial, not meant to stay)
    probe       talks to a service or looks for its listener (curl, nc -z, ss -l, HTTP client code).
                target: str; local: bool (this machine's own address)
    database    opens a database. mutates: bool | None (None: cannot tell; to open an SQLite file for reading
                and writing is to change it); engine: str; writes: bool | None (SQLite: do its statements
                change data?)
    copy        paths = sources. dest: str ('' unknown)
    move        paths = sources. dest: str
    write       replaces or creates files. append: bool; in_place: bool (sed -i, an editor tool);
                unpacks: True where paths is a folder that an archive is unpacked into
    read        reads files. to: 'tty' | 'pipe' (a substitution too) | 'file' (/dev/null too) | 'program'
                (into the memory of a Python or Node text); partial: bool; raw: bool (bytes come out as they
                are: cat, head, sed; not xxd, jq); through: tuple[str, ...] (the programs behind the pipe)
    search      grep, rg, find, ls, wc, stat: looks without reading a file in full. pattern: str
    compare     diff, cmp, checksums. how: 'diff' | 'hash'
    delete      recursive: bool
    format      a code formatter or linter that rewrites files. tool: str
    compile     a compiler or build tool. tool: str; output: str
    test        runs tests. paths = files and ids it is restricted to; runner: str; partial: bool
    lint        a checker that only reads (ruff check, tsc --noEmit, mypy). tool: str
    run         runs a program or script of the user's own (./a.out, python x.py). paths = (script,), or () with
                inline: True (python -c), module: str, or tool: str (cargo run)
    install     installs packages. manager: str; packages: tuple[str, ...]; verb: str; paths = requirement files
    kill        how: 'pid' | 'job' | 'name' | 'pattern' | 'port' | 'all'; pattern: str
    sleep       seconds: float | None; in_loop: bool
    vcs         changes a repository or its work tree. verb: str ('commit', 'stash drop'); destructive: bool;
                paths where given; amend, no_verify, remote, folder (git -C) where they apply
    interactive waits for a person (vim, less, python with no script, ssh with no command, git rebase -i). why: str
    endless     never ends by itself in the foreground (tail -f, watch, `while true` with no exit). why: str
    download    fetches from a network into a file. url: str
    mask        hides a failure of `command`. how: 'or-true' | 'discard-stderr' | 'discard-all' | 'set+e'
    =========== =================================================================================

    Any effect of a command has `cwd` in its info where a literal `cd` of the same text came before it: the folder
    it runs in, relative to where the text starts (None: cannot be told). Paths are not joined with it.
    """

    kind: str
    paths: tuple[str, ...] = ()
    """Files as written in the command (quotes removed); globs and variables stay as written."""
    command: Command | None = None
    """The command that does it; None for an agent's own tool (an editor, a file reader)."""
    info: dict[str, Any] = field(default_factory=dict)
