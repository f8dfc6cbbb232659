"""What a wrapper runs, and the helpers of those that tell it."""

from __future__ import annotations

import re
from collections.abc import Callable

from misstep._record import field, record

from .model import Command


@record
class Inner:
    """What a wrapper runs: `command.argv[at:]` (up to `end`), other words (`argv`), or shell text."""

    label: str
    """Goes into Command.wrappers."""
    at: int = 0
    end: int | None = None
    argv: list[str] | None = None
    text: str | None = None
    literal: bool = True
    """False: the outer shell has expanded the text, so its substitutions were found already."""
    env: dict[str, str] = field(default_factory=dict)
    remote: bool = False
    background: bool = False
    keep: bool = False
    """The wrapper is a command worth seeing as well (find -exec)."""
    typed: bool = False
    """Keys sent to a terminal: perhaps no shell text at all."""
    eats_stdin: bool = False
    """The text came from standard input."""


Unwrap = Callable[[Command], list[Inner]]
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def skip(argv: list[str], k: int, short: str = "", long: tuple[str, ...] = (), positional: int = 0) -> int:
    """Index behind the options that start at `k` and `positional` words. `short` and `long` options take a value."""
    n = len(argv)
    while k < n:
        a = argv[k]
        if a == "--":
            k += 1
            break
        if len(a) < 2 or a[0] != "-":
            break
        if a[1] == "-":
            k += 2 if a in long else 1
            continue
        k += 1
        for at, c in enumerate(a[1:], 1):
            if c in short:
                if at == len(a) - 1:
                    k += 1
                break
    return k + positional


def shell(c: Command) -> list[Inner]:
    """bash, sh, ...: `-c TEXT`, or a script on standard input."""
    k, n = 1, len(c.argv)
    text_follows = False
    stdin = True
    while k < n:
        a = c.argv[k]
        if a in ("--", "-"):
            k += 1
            break
        if a in ("--rcfile", "--init-file", "-o", "+o", "-O", "+O"):
            k += 2
            continue
        if a.startswith("--"):
            k += 1
        elif len(a) > 1 and a[0] in "-+":
            if "c" in a and a[0] == "-":
                text_follows = True
            k += 2 if a.endswith("o") else 1
        else:
            break
    if text_follows:
        if k >= n:
            return []
        text = c.argv[k]
        if k in c.dynamic and re.fullmatch(r"\s*\$\{?\w+\}?\s*", text):
            return []
        return [Inner(f"{c.name} -c", text=text, literal=k not in c.dynamic)]
    if k < n and "-s" not in c.argv[1:k]:
        stdin = False
    if stdin and c.stdin is not None:
        return [Inner(f"{c.name} <<", text=c.stdin, literal=literal_stdin(c), eats_stdin=True)]
    return []


def literal_stdin(c: Command) -> bool:
    """The text on standard input reached it as it is written: a quoted heredoc."""
    for r in reversed(c.redirects):
        if r.fd == 0:
            return r.quoted
    return True
