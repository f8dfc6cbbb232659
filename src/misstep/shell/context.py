"""What the readers of effects share: one command in its surroundings, and helpers for its words."""

from __future__ import annotations

import re

from .model import Command, Effect, Redirect
from .wrapper_tables import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOWHERE = frozenset(["/dev/null", "NUL", "nul"])
DEVICES = ("/dev/std", "/dev/fd/", "/dev/tty", "/dev/pts", "/dev/tcp/", "/dev/udp/", "/proc/self/fd")
OWN_TERMINAL = frozenset(
    ["tmux", "tmux send-keys", "screen", "screen -X stuff", "docker exec -d", "docker run -d", "systemd-run"]
)
DETACHING = OWN_TERMINAL | {"setsid", "daemonize", "start-stop-daemon -b"}
DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)$")
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Context:
    """One command, its words (loop variables filled in) and where its effects go."""

    __slots__ = ("argv", "command", "cwd", "depth", "downstream", "in_loop", "name", "out", "upstream", "written")

    def __init__(self, command: Command, argv: list[str], out: list[Effect], depth: int) -> None:
        self.command = command
        self.argv = argv
        self.name = program(argv[0]) if argv else ""
        self.out = out
        self.depth = depth
        self.cwd: str | None = ""
        self.in_loop = False
        self.upstream: list[Command] = []
        self.downstream: list[Command] = []
        self.written: dict[str, str] = {}
        """Files that the same text wrote before, with what it wrote (`cat > x.py <<'EOF'`)."""

    def add(self, kind: str, paths: tuple[str, ...] | list[str] = (), **info: Any) -> Effect:
        """Notes an effect of the command. `cwd` is added where a literal `cd` came before it."""
        if self.cwd != "":
            info["cwd"] = self.cwd
        e = Effect(kind, tuple(paths), self.command, info)
        self.out.append(e)
        return e

    def wrapped(self, *names: str) -> bool:
        """One of these wrappers was peeled off around the command."""
        wrappers = self.command.wrappers
        return bool(wrappers) and any(w in names for w in wrappers)

    @property
    def fed(self) -> bool:
        """Its standard input is something other than the terminal."""
        c = self.command
        return (
            c.piped_in
            or c.stdin is not None
            or any(r.fd == 0 for r in c.redirects)
            or any(r.fd == 0 for r in c.around)
            or (c.substitution and False)
        )

    @property
    def waits(self) -> bool:
        """A person or nobody would have to end it: in the foreground, on the shell's own terminal, with no time limit."""
        c = self.command
        return not (
            c.background
            or (
                c.wrappers
                and any(w in OWN_TERMINAL or w in ("timeout", "gtimeout", "script -c", "expect") for w in c.wrappers)
            )
        )

    def flags(self) -> set[str]:
        """Every option as written, up to `--`: {'-la', '--color'}; the value behind `=` is left out."""
        found = set()
        for a in self.argv[1:]:
            if a == "--":
                break
            if len(a) > 1 and a[0] == "-":
                found.add(a.partition("=")[0] if a[1] == "-" else a)
        return found

    def has(self, *options: str) -> bool:
        """One of these options is given. One-letter options are found in clusters (`-rf`)."""
        letters = {o[1] for o in options if len(o) == 2 and o[0] == "-"}
        for a in self.argv[1:]:
            if a == "--":
                return False
            if len(a) < 2 or a[0] != "-":
                continue
            name, sign, value = a.partition("=")
            if a in options or (name in options and value != "false"):
                return True
            if sign:
                continue
            if letters and a[1] != "-" and (a[1] in letters or (not letters.isdisjoint(a[1:]) and a[1:].isalpha())):
                return True
        return False

    def value(self, *options: str) -> str | None:
        """The value of the first of these options that is given (`-o x`, `-ox`, `--out x`, `--out=x`)."""
        argv = self.argv
        for k in range(1, len(argv)):
            a = argv[k]
            if a[:1] != "-":
                continue
            if a in options:
                return argv[k + 1] if k + 1 < len(argv) else ""
            name, sign, value = a.partition("=")
            if sign and name in options:
                return value
            if len(a) > 2 and a[1] != "-" and a[:2] in options:
                return a[2:]
        return None

    def operands(self, short: str = "", long: tuple[str, ...] = (), at: int = 1) -> list[str]:
        """Words that are no options; `short` and `long` options take the next word as their value."""
        found: list[str] = []
        argv = self.argv
        k, n = at, len(argv)
        while k < n:
            a = argv[k]
            k += 1
            if a == "--":
                found.extend(argv[k:])
                break
            if len(a) < 2 or a[0] != "-":
                found.append(a)
            elif a in long:
                k += 1
            elif short and a[1] != "-":
                for j in range(1, len(a)):
                    if a[j] in short:
                        if j == len(a) - 1:
                            k += 1
                        break
        return found


if TYPE_CHECKING:
    Reader = Callable[[Context], None]
else:
    Reader = object


def program(word: str) -> str:
    """`/usr/bin/python3.11` is python, `pip3` is pip, `gcc-12` is gcc; other names stay."""
    name = word.rsplit("/", 1)[-1]
    if name in PROGRAMS:
        return PROGRAMS[name]
    if name[-1:].isdigit() or name.endswith(".exe"):
        m = VERSIONED.fullmatch(name)
        if m:
            name = m.group(1)
        return PROGRAMS.get(name, name)
    return name


VERSIONED = re.compile(
    r"(python|pip|pypy|gcc|g\+\+|clang|clang\+\+|node|ruby|perl|php|psql|lua|clang-format|[A-Za-z-]+(?=\.exe))(?:-?\d[\d.]*)?(?:\.exe)?"
)
PROGRAMS = {"python3": "python", "python2": "python", "pypy3": "python", "pypy": "python", "py": "python", "pip3": "pip",
            "nodejs": "node", "batcat": "bat", "egrep": "grep", "fgrep": "grep", "zgrep": "grep", "ugrep": "grep",
            "gsed": "sed", "gawk": "awk", "mawk": "awk", "gfind": "find", "fdfind": "fd", "gmake": "make",
            "mariadb": "mysql", "gls": "ls", "gcp": "cp", "gtar": "tar", "bsdtar": "tar", "apt-get": "apt",
            "vi": "vim", "nvim": "vim", "view": "vim"}  # fmt: skip


def path_words(words: list[str]) -> list[str]:
    """Words that name files: no `-`, no empty ones, no `<(...)`."""
    return [w for w in words if w and w != "-" and w[:2] not in ("<(", ">(")]


def is_file(target: str) -> bool:
    """A redirection's target is a file (no device, no descriptor)."""
    return bool(target) and target not in NOWHERE and not target.startswith(DEVICES)


def stdout_goes(c: Command) -> str:
    """'tty', 'pipe' (a substitution's text as well) or 'file' (/dev/null as well)."""
    goes = ""
    for r in c.redirects:
        if writes(r, 1):
            goes = "tty" if r.op == ">&" and r.target == "2" else "file"
    if goes:
        return goes
    if c.piped_out or c.substitution:
        return "pipe"
    if any(writes(r, 1) for r in c.around):
        return "file"
    return "tty"


def writes(r: Redirect, fd: int) -> bool:
    """The redirection takes over this output."""
    op = r.op
    if op in ("&>", "&>>") or (op == ">&" and r.fd == 1 and not (r.target.isdigit() or r.target == "-")):
        return True
    return op[0] == ">" and r.fd == fd


def streams(c: Command) -> tuple[bool, bool, bool]:
    """Which of stdin, stdout and stderr are redirected or piped somewhere."""
    every = list(c.around) + c.redirects if c.around else c.redirects
    stdin = c.piped_in or c.stdin is not None or any(r.fd == 0 and r.op[0] == "<" for r in every)
    stdout = c.piped_out or c.substitution
    stderr = False
    for r in every:
        if r.op in ("&>", "&>>") or (r.op == ">&" and not (r.target.isdigit() or r.target == "-")):
            stdout = stderr = True
        elif r.op == ">&" and r.target == "1" and r.fd == 2:
            stderr = stdout
        elif r.op == ">&" and r.target == "2" and r.fd == 1:
            stdout = stderr
        elif r.op[0] == ">" and r.fd == 1:
            stdout = True
        elif r.op[0] == ">" and r.fd == 2:
            stderr = True
    return stdin, stdout, stderr


def seconds(words: list[str]) -> float | None:
    """The sum of `sleep`'s operands in seconds; None where one is no number."""
    total = 0.0
    for w in words:
        m = DURATION.match(w)
        if not m:
            return float("inf") if w in ("inf", "infinity") else None
        total += float(m.group(1)) * UNITS[m.group(2)]
    return total if words else None


def is_shell(name: str) -> bool:
    return name in SHELLS
