"""Reading one word of shell text: quotes, expansions and substitutions.

`WordReader` holds what a scan shares between its parts (the text, the commands found so far, the
pending heredocs). Its `run` (in scanner.py) reads a list of commands; a substitution inside a word
calls it again, so nesting is bounded by `MAX_DEPTH` and everything else is one pass over the text.
"""

from __future__ import annotations

import re

from .model import Block, Command, Redirect

MAX_DEPTH = 40
"""Substitutions within substitutions. Agents write three or four; each level costs one Python call or two."""


MAX_ARITHMETIC = 4000
"""Characters of one `(( ... ))`. The search for its end may be in vain, so it has to be short."""


class Damage(Exception):
    """The rest of the text cannot be read (an unclosed quote, nesting too deep). Never leaves the package."""


RUN = re.compile(r"""[^ \t\n;&|<>()'"\\$`*?\[]+""")
DQ_RUN = re.compile(r"""[^"\\$`]+""")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SIMPLE_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
ANSI_C = re.compile(r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.S)
ANSI_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3}))"
)
ANSI_VALUES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
ARITH_STEP = re.compile(r"[()'\"\\]")
BRACE_STEP = re.compile(r"[}'\"\\$`]")
DQ_BRACE_STEP = re.compile(r"[}\"\\$`]")
SPECIAL_PARAMETERS = frozenset("@*#?$!-0123456789")


class WordReader:
    """Shared state of one scan and the readers of words. Positions are offsets in `self.s`."""

    def __init__(self, text: str, base: int = 0, depth: int = 0) -> None:
        self.s = text
        self.n = len(text)
        self.base = base
        self.depth = depth
        self.commands: list[Command] = []
        self.blocks: list[Block] = []
        self.damage: str | None = None
        self.pending: list[tuple[Redirect, Command | None, bool, bool]] = []
        self.pipelines = 0
        self.constants: dict[str, str] | None = None
        # What the last read_word found besides its text.
        self.dynamic = False
        self.globbed = False
        self.quoted = False

    def run(self, i: int, closer: str) -> int:
        raise NotImplementedError

    def stop(self, why: str) -> Damage:
        """The exception that ends the scan; the first reason is the one that is kept."""
        if self.damage is None:
            self.damage = why
        return Damage(why)

    def flaw(self, why: str) -> None:
        """Marks the text as damaged and goes on."""
        if self.damage is None:
            self.damage = why

    # ------------------------------------------------------------------ words

    def read_word(self, i: int) -> tuple[str, int]:
        """The word at `i` with its quotes removed, and the offset behind it. Empty where no word starts there."""
        s, n = self.s, self.n
        parts: list[str] = []
        self.dynamic = self.globbed = self.quoted = False
        begin = i
        while i < n:
            m = RUN.match(s, i, n)
            if m:
                parts.append(m.group())
                i = m.end()
                if i >= n:
                    break
            c = s[i]
            if c in " \t\n;&|)":
                break
            if c == "'":
                j = s.find("'", i + 1, n)
                if j < 0:
                    raise self.stop("unclosed single quote")
                parts.append(s[i + 1 : j])
                self.quoted = True
                i = j + 1
            elif c == '"':
                i = self.read_double(i + 1, parts)
                self.quoted = True
            elif c == "$":
                i = self.read_dollar(i, parts, False)
            elif c == "\\":
                if i + 1 >= n:
                    parts.append("\\")
                    i += 1
                elif s[i + 1] == "\n":
                    i += 2
                else:
                    parts.append(s[i + 1])
                    self.quoted = True
                    i += 2
            elif c == "`":
                i = self.read_backtick(i, parts)
            elif c in "*?[":
                parts.append(c)
                self.globbed = True
                i += 1
            elif c == "(":
                if i > begin and s[i - 1] in "?*+@!":
                    i = self.read_extglob(i, parts)
                else:
                    break
            else:  # < or >
                if i + 1 < n and s[i + 1] == "(":
                    i = self.read_substitution(i, i + 2, parts, c)
                else:
                    break
        return "".join(parts), i

    def read_double(self, i: int, parts: list[str]) -> int:
        """Inside double quotes from `i`; the offset behind the closing one."""
        s, n = self.s, self.n
        while True:
            m = DQ_RUN.match(s, i, n)
            if m:
                parts.append(m.group())
                i = m.end()
            if i >= n:
                raise self.stop("unclosed double quote")
            c = s[i]
            if c == '"':
                return i + 1
            if c == "\\":
                if i + 1 >= n:
                    raise self.stop("unclosed double quote")
                d = s[i + 1]
                if d in '"\\$`':
                    parts.append(d)
                elif d != "\n":
                    parts.append(c + d)
                i += 2
            elif c == "$":
                i = self.read_dollar(i, parts, True)
            else:
                i = self.read_backtick(i, parts)

    def read_dollar(self, i: int, parts: list[str], double: bool) -> int:
        """An expansion at the `$` at `i`. Its text stays as written; a constant's value may stand for it."""
        s, n = self.s, self.n
        c = s[i + 1] if i + 1 < n else ""
        m = NAME.match(s, i + 1, n)
        if m is None and c == "{":
            m = SIMPLE_BRACED.match(s, i + 1, n)
        if m:
            if self.constants:
                value = self.constants.get(m.group(1) if c == "{" else m.group())
                # Unquoted, a value is split at blanks and globbed: then it is no longer one known word.
                if value is not None and (double or not re.search(r"[\s*?\[]", value)):
                    parts.append(value)
                    return m.end()
            self.dynamic = True
            parts.append(s[i : m.end()])
            return m.end()
        if c == "(":
            if s.startswith("((", i + 1):
                j = self.arithmetic_end(i + 3)
                if j:
                    self.dynamic = True
                    parts.append(s[i:j])
                    self.scan_quoted(i + 3, j - 2)
                    return j
            self.dynamic = True
            return self.read_substitution(i, i + 2, parts, "$")
        if c == "{":
            self.dynamic = True
            j = self.read_braced(i + 2, double)
            parts.append(s[i:j])
            return j
        if c == "'" and not double:
            m = ANSI_C.match(s, i + 1, n)
            if not m:
                raise self.stop("unclosed single quote")
            parts.append(ansi_c(m.group(1)))
            self.quoted = True
            return m.end()
        if c == '"' and not double:
            self.quoted = True
            return self.read_double(i + 2, parts)
        if c and c in SPECIAL_PARAMETERS:
            self.dynamic = True
            parts.append(s[i : i + 2])
            return i + 2
        if c == "[":  # the old $[ ... ]
            j = s.find("]", i, min(n, i + MAX_ARITHMETIC))
            if j > 0:
                self.dynamic = True
                parts.append(s[i : j + 1])
                return j + 1
        parts.append("$")
        return i + 1

    # ---------------------------------------------------------- substitutions

    def read_substitution(self, i: int, inside: int, parts: list[str], sign: str) -> int:
        """`$(`, `<(` or `>(` at `i`, whose commands start at `inside`; the offset behind the `)`."""
        if self.depth >= MAX_DEPTH:
            raise self.stop("nesting too deep")
        first = len(self.commands)
        saved = self.dynamic, self.globbed, self.quoted
        self.depth += 1
        j = self.run(inside, ")")
        self.depth -= 1
        self.dynamic, self.globbed, self.quoted = saved
        self.dynamic = True
        self.close_substitution(first, sign)
        parts.append(self.s[i:j])
        return j

    def close_substitution(self, first: int, sign: str) -> None:
        if len(self.commands) == first:
            return
        for c in self.commands[first:]:
            if sign == ">":
                c.piped_in = True
            else:
                c.substitution = True
        self.blocks.append(Block("substitution", first, len(self.commands)))

    def read_backtick(self, i: int, parts: list[str]) -> int:
        s, n = self.s, self.n
        j = i + 1
        while True:
            j = s.find("`", j, n)
            if j < 0:
                raise self.stop("unclosed backtick")
            k = j
            while s[k - 1] == "\\":
                k -= 1
            if (j - k) % 2 == 0:
                break
            j += 1
        body = s[i + 1 : j]
        if "\\" in body:
            body = re.sub(r"\\([`\\$])", r"\1", body)
        self.scan_child(body, i + 1, lists=True)
        self.dynamic = True
        parts.append(s[i : j + 1])
        return j + 1

    def scan_child(self, body: str, offset: int, lists: bool) -> None:
        """Commands of a text of its own: a backtick's list, or (lists False) the substitutions of a heredoc."""
        if self.depth >= MAX_DEPTH:
            raise self.stop("nesting too deep")
        child = type(self)(body, self.base + offset, self.depth + 1)
        child.constants = self.constants
        child.pipelines = self.pipelines
        try:
            if lists:
                child.run(0, "")
                child.close_substitution(0, "$")
            else:
                child.scan_quoted(0, child.n)
        except Damage:
            pass
        self.pipelines = child.pipelines
        shift = len(self.commands)
        for b in child.blocks:
            self.blocks.append(Block(b.kind, b.first + shift, b.last + shift, b.body + shift, b.name, b.words))
        self.commands.extend(child.commands)
        if child.damage:
            raise self.stop(child.damage)

    def scan_quoted(self, i: int, end: int) -> None:
        """Finds the substitutions of a stretch in which only `$`, backticks and backslashes mean something."""
        s = self.s
        saved_n, self.n = self.n, end
        saved = self.dynamic, self.globbed, self.quoted
        sink: list[str] = []
        while i < end:
            m = QUOTED_STEP.search(s, i, end)
            if not m:
                break
            i = m.start()
            c = s[i]
            if c == "\\":
                i += 2
            elif c == "`":
                i = self.read_backtick(i, sink)
            elif i + 1 < end and s[i + 1] in "({":
                i = self.read_dollar(i, sink, True)
            else:
                i += 1
        self.dynamic, self.globbed, self.quoted = saved
        self.n = saved_n

    def read_braced(self, i: int, double: bool) -> int:
        """Inside `${` from `i`; the offset behind its `}`."""
        if self.depth >= MAX_DEPTH:
            raise self.stop("nesting too deep")
        self.depth += 1
        s, n = self.s, self.n
        sink: list[str] = []
        step = DQ_BRACE_STEP if double else BRACE_STEP
        if s.startswith("#", i) or s.startswith("!", i):
            i += 1
        while True:
            m = step.search(s, i, n)
            if not m:
                raise self.stop("unclosed ${")
            i = m.start()
            c = s[i]
            if c == "}":
                self.depth -= 1
                return i + 1
            if c == "\\":
                i += 2
            elif c == "'":
                j = s.find("'", i + 1, n)
                if j < 0:
                    raise self.stop("unclosed single quote")
                i = j + 1
            elif c == '"':
                i = self.read_double(i + 1, sink)
            elif c == "$":
                i = self.read_dollar(i, sink, double)
            else:
                i = self.read_backtick(i, sink)

    def arithmetic_end(self, i: int) -> int:
        """The offset behind the `))` that closes the `((` whose inside starts at `i`; 0 where it is no arithmetic."""
        s = self.s
        n = min(self.n, i + MAX_ARITHMETIC)
        level = 0
        while True:
            m = ARITH_STEP.search(s, i, n)
            if not m:
                return 0
            i = m.end()
            c = m.group()
            if c == "(":
                level += 1
            elif c == ")":
                if level == 0:
                    return i + 1 if s.startswith(")", i) and i < self.n else 0
                level -= 1
            elif c == "\\":
                i += 1
            else:
                j = s.find(c, i, n)
                if j < 0:
                    return 0
                i = j + 1

    def read_extglob(self, i: int, parts: list[str]) -> int:
        """The `(a|b)` of an extended glob at `i`."""
        s, n = self.s, self.n
        level, j = 1, i + 1
        while level:
            m = ARITH_STEP.search(s, j, n)
            if not m:
                raise self.stop("unclosed (")
            j = m.end()
            c = m.group()
            if c == "(":
                level += 1
            elif c == ")":
                level -= 1
            elif c == "\\":
                j += 1
            else:
                k = s.find(c, j, n)
                if k < 0:
                    raise self.stop("unclosed quote")
                j = k + 1
        parts.append(s[i:j])
        self.globbed = True
        return j


QUOTED_STEP = re.compile(r"[\\$`]")


def ansi_c(body: str) -> str:
    """The value of a `$'...'` body."""
    if "\\" not in body:
        return body

    def value(m: re.Match[str]) -> str:
        simple, x, u, big, octal = m.groups()
        if simple:
            return ANSI_VALUES.get(simple, simple)
        code = int(octal, 8) & 0xFF if octal else int(x or u or big, 16)
        return chr(code) if code < 0x110000 else "\ufffd"

    return ANSI_ESCAPE.sub(value, body)
