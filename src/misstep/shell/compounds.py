"""Reading the parts of commands and compound commands: redirections, arrays, `for`, `case`, `[[`, heredocs."""

from __future__ import annotations

import re

from .model import Block, Command, Redirect
from .words import Damage, WordReader

MAX_BLOCK_REDIRECTS = 8
"""Redirections of one compound command that its commands are told of."""

# A whole simple word, with the blanks before it: plain text, or one pair of quotes with nothing to expand.
WORD = re.compile(
    r"""[ \t]*(?:(?!\#)([^ \t\n;&|<>()'"\\$`*?\[]+|\[\[?)|'([^']*)'|"([^"$`\\]*)")(?=[ \t\n;&|<>()]|\Z)"""
)
BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
SPACE = re.compile(r"(?:[ \t\n]|\\\n|\#[^\n]*)*")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]\n]*\])?\+?=")
OPERATOR = re.compile(r"<<<|<<-|<<|<&|<>|<|&>>|&>|>>|>&|>\||>")
FUNCTION = re.compile(r"[ \t]*\([ \t]*\)")
FD_NAME = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}(?=[<>])")
COPROC_NAME = re.compile(r"[ \t]+[A-Za-z_][A-Za-z0-9_]*(?=[ \t]+(?:[{(]|while|for|if|until|case)[ \t\n(])")


class Frame:
    """An open compound command and the list that it stands in."""

    __slots__ = (
        "arms",
        "element",
        "function",
        "join",
        "kind",
        "list_start",
        "name",
        "piped",
        "pipeline",
        "start",
        "state",
        "words",
    )

    def __init__(self, kind: str, start: int, list_start: int, element: int, pipeline: int, join: str, piped: bool):
        self.kind = kind
        self.start = start
        self.list_start = list_start
        self.element = element
        self.pipeline = pipeline
        self.join = join
        self.piped = piped
        self.state = 0  # index of the first command after `do`
        self.name = ""
        self.words: tuple[str, ...] = ()
        self.function = ""
        self.arms = False  # its `then` or `do` was seen


class PartReader(WordReader):
    """Everything of a scan but the reading of lists (see Scanner)."""

    def open(
        self, at: int, pipeline: int, join: str, piped: bool, coproc: bool
    ) -> tuple[Command, int, list[str], list[int], list[int]]:
        argv: list[str] = []
        c = Command(argv)
        c.pipeline = pipeline
        c.joined_by = join
        c.start = self.base + at
        c.piped_in = piped
        c.background = coproc
        self.commands.append(c)
        return c, len(self.commands) - 1, argv, [], []

    def read_redirect(self, i: int, fd_word: str, cmd: Command | None, compound: Frame | None) -> int:
        """A redirection whose operator is at `i`, of the command or of the compound that has just ended."""
        s, n = self.s, self.n
        m = OPERATOR.match(s, i, n)
        assert m
        op = m.group()
        i = BLANKS.match(s, m.end(), n).end()  # type: ignore[union-attr]
        saved = self.dynamic, self.globbed, self.quoted
        m = WORD.match(s, i, n)
        if m and not (m.lastindex == 1 and m.end() < n and s[m.end()] in "<>("):
            target, j = m.group(m.lastindex), m.end()  # type: ignore[arg-type]
            quoted = m.lastindex != 1
        else:
            target, j = self.read_word(i)
            quoted = self.quoted
        self.dynamic, self.globbed, self.quoted = saved
        if j == i or (target.isdigit() and j < n and s[j] in "<>" and not quoted):
            self.flaw("a redirection without a target")
        if fd_word.isdigit():
            fd: int | None = int(fd_word[:6])
        elif fd_word or op in ("&>", "&>>"):
            fd = None
        else:
            fd = 0 if op[0] == "<" else 1
        r = Redirect(op, fd, target)
        if cmd is not None:
            cmd.redirects.append(r)
        if op == "<<<":
            r.body = target + "\n"
            if cmd is not None and fd == 0:
                cmd.stdin = r.body
        elif op in ("<<", "<<-") and j > i:
            self.pending.append((r, cmd, quoted, op == "<<-"))
        if cmd is None and compound is not None:
            inside = self.commands[compound.start :]
            if inside and len(inside[0].around) < MAX_BLOCK_REDIRECTS:
                out = writes_stdout(r)
                for c in inside:
                    if not c.substitution and not (out and c.piped_out):
                        c.around.append(r)
        return j

    def read_assignment(self, m: re.Match[str], cmd: Command) -> int:
        """`NAME=value` with a value that needs care (quotes, expansions, an array)."""
        i, s, n = m.end(), self.s, self.n
        if i < n and s[i] == "(":
            j = self.read_array(i)
            cmd.env[m.group(1)] = s[i:j]
            self.dynamic = True
            return j
        value, j = self.read_word(i)
        cmd.env[m.group(1)] = value
        return j

    def read_array(self, i: int) -> int:
        """The `(...)` of an array at `i`; the offset behind it."""
        s, n = self.s, self.n
        i += 1
        while True:
            i = SPACE.match(s, i, n).end()  # type: ignore[union-attr]
            if i >= n:
                raise self.stop("unclosed (")
            if s[i] == ")":
                return i + 1
            _, j = self.read_word(i)
            if j == i:
                if s[i] in "(;&|<>":
                    self.flaw("unexpected operator in an array")
                j = i + 1
            i = j

    # ------------------------------------------------------------- compound commands

    def close(self, f: Frame, start: int) -> None:
        """A compound command ended: it becomes a block, and its commands learn of the pipe into it."""
        last = len(self.commands)
        if f.piped:
            for c in self.commands[start:]:
                if not c.substitution:
                    c.piped_in = True
        if start < last:
            self.blocks.append(Block(f.kind, start, last, f.state, f.name, f.words))
            if f.function:
                self.blocks.append(Block("function", start, last, 0, f.function))

    def read_for(self, i: int, f: Frame) -> int:
        """`for` and `select` up to what stands before `do`."""
        s, n = self.s, self.n
        i = BLANKS.match(s, i, n).end()  # type: ignore[union-attr]
        if s.startswith("((", i) and i + 1 < n:
            j = self.arithmetic_end(i + 2)
            if not j:
                raise self.stop("unclosed ((")
            self.scan_quoted(i + 2, j - 2)
            f.name, f.words = "((", (s[i + 2 : j - 2],)
            i = j
        else:
            f.name, i = self.read_word(i)
            if not f.name:
                self.flaw("a for without a variable")
            j = SPACE.match(s, i, n).end()  # type: ignore[union-attr]
            m = WORD.match(s, j, n)
            if m and m.group(1) == "in":
                i = m.end()
                words: list[str] = []
                while True:
                    i = BLANKS.match(s, i, n).end()  # type: ignore[union-attr]
                    if i < n and s[i] == "#":
                        k = s.find("\n", i, n)
                        i = n if k < 0 else k
                    word, j = self.read_word(i)
                    if j == i:
                        break
                    i = j
                    words.append(word)
                f.words = tuple(words)
        i = BLANKS.match(s, i, n).end()  # type: ignore[union-attr]
        if i < n and s[i] == ";":
            i += 1
        elif i < n and s[i] == "\n" and self.pending:
            i = self.read_heredocs(i + 1)
        j = SPACE.match(s, i, n).end()  # type: ignore[union-attr]
        m = WORD.match(s, j, n)
        if not (m and m.group(1) in ("do", "{")) or m.group(1) == "{":
            self.flaw("a for without do")
        return j

    def read_case(self, i: int) -> int:
        """`case WORD in`."""
        s, n = self.s, self.n
        i = BLANKS.match(s, i, n).end()  # type: ignore[union-attr]
        _, i = self.read_word(i)
        i = SPACE.match(s, i, n).end()  # type: ignore[union-attr]
        m = WORD.match(s, i, n)
        if not (m and m.group(1) == "in"):
            raise self.stop("a case without in")
        return m.end()

    def read_pattern(self, i: int) -> tuple[int, bool]:
        """The patterns of a case arm up to behind their `)`, or (offset behind `esac`, True)."""
        s, n = self.s, self.n
        while True:
            i = SPACE.match(s, i, n).end()  # type: ignore[union-attr]
            if i < n and s[i] == "\n":
                i += 1
                continue
            m = WORD.match(s, i, n)
            if m and m.group(1) == "esac":
                return m.end(), True
            break
        if i < n and s[i] == "(":
            i += 1
        patterns = 0
        while True:
            i = SPACE.match(s, i, n).end()  # type: ignore[union-attr]
            if i >= n:
                raise self.stop("unclosed case")
            c = s[i]
            if c == ")":
                return i + 1, False
            if c == "|":
                i += 1
                patterns -= 1
                continue
            _, j = self.read_word(i)
            if j == i:
                raise self.stop("a case pattern without )")
            i = j
            patterns += 1
            if patterns > 1:
                raise self.stop("a case pattern without )")

    def read_test(self, i: int) -> int:
        """`[[ ... ]]` from behind the `[[`; the offset behind the `]]`."""
        s, n = self.s, self.n
        while True:
            i = SPACE.match(s, i, n).end()  # type: ignore[union-attr]
            if i >= n:
                raise self.stop("unclosed [[")
            word, j = self.read_word(i)
            if j == i:
                j = i + 1  # ( ) && || < >
            elif word == "]]" and s.startswith("]]", i):
                return j
            i = j

    # ------------------------------------------------------------- heredocs

    def read_heredocs(self, i: int) -> int:
        """The bodies of the heredocs announced on the line before `i`; the offset behind the last one."""
        pending, self.pending = self.pending, []
        s, n = self.s, self.n
        for r, cmd, quoted, strip in pending:
            begin = i
            end, i = heredoc_end(s, i, n, r.target, strip)
            body = s[begin:end]
            r.body = body
            r.quoted = quoted
            if cmd is not None and r.fd == 0 and last_input(cmd) is r:
                cmd.stdin = re.sub(r"(?m)^\t+", "", body) if strip else body
            if not quoted and ("$(" in body or "`" in body or "${" in body):
                try:
                    self.scan_child(body, begin, lists=False)
                except Damage:
                    pass  # noted; an odd expansion in a heredoc spoils nothing behind it
        return i

    # ------------------------------------------------------------- constants

    candidates: frozenset[str] | set[str] = frozenset()

    def learn(self, cmd: Command) -> None:
        """Bare assignments and exports at the top of the text: their values stand for the variables from here on."""
        if not cmd.argv:
            pairs = list(cmd.env.items())
        elif cmd.argv[0] == "export":
            pairs = [(a, c) for a, b, c in (w.partition("=") for w in cmd.argv[1:]) if b]
        else:
            return
        if cmd.background or cmd.piped_out:
            return
        for name, value in pairs:
            if name in self.candidates and "$" not in value and "`" not in value:
                if self.constants is None:
                    self.constants = {}
                self.constants[name] = value


def last_input(cmd: Command) -> Redirect | None:
    for r in reversed(cmd.redirects):
        if r.fd == 0:
            return r
    return None


def writes_stdout(r: Redirect) -> bool:
    return r.op[0] in ">&" and (r.fd == 1 or r.fd is None)


def heredoc_end(s: str, i: int, n: int, delimiter: str, strip: bool) -> tuple[int, int]:
    """(end of the body, offset behind the delimiter's line) of a heredoc whose body starts at `i`."""
    if not delimiter:  # <<'': up to the first empty line
        if s.startswith("\n", i) and i < n:
            return i, i + 1
        j = s.find("\n\n", i, n)
        return (n, n) if j < 0 else (j + 1, j + 2)
    j = i
    size = len(delimiter)
    while True:
        j = s.find(delimiter, j, n)
        if j < 0:
            return n, n
        k = j
        if strip:
            while k > i and s[k - 1] == "\t":
                k -= 1
        after = j + size
        if (k == i or s[k - 1] == "\n") and (after >= n or s[after] == "\n" or s[after] == ")"):
            if after < n and s[after] == ")":
                # `EOF)` ends a heredoc for no shell, but bash accepts it (with a warning) inside `$(`.
                return max(i, k), after
            return max(i, k), min(after + 1, n)
        j = after
