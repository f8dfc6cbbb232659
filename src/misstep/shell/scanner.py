"""The tolerant shell scanner: every simple command of a text, in one pass, never raising.

It reads what agents write for bash, sh and zsh: lists, pipelines, compound commands, functions,
substitutions, heredocs. It is no validator: what it cannot read marks the script as *damaged*, with
a reason, and the commands read so far are kept.
"""

from __future__ import annotations

import re

from .constants import assigned_once
from .model import Block, Command, Redirect, Script
from .words import Damage, WordReader

MAX_BLOCKS = 150
"""Compound commands within compound commands."""
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

OPENERS = {"if": "if", "while": "while", "until": "until", "{": "group"}
MIDDLES = {"then": ("if",), "elif": ("if",), "else": ("if",), "do": ("while", "until", "for", "select")}
CLOSERS = {"fi": ("if",), "done": ("while", "until", "for", "select"), "esac": ("case",), "}": ("group",)}
RESERVED = frozenset([*OPENERS, *MIDDLES, *CLOSERS, "for", "select", "case", "function", "!", "time", "coproc", "[["])
NO_POSITIONS: frozenset[int] = frozenset()


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


class Scanner(WordReader):
    """One scan. `run` reads a list of commands; see WordReader for what it shares."""

    def run(self, i: int, closer: str) -> int:
        """Reads commands from `i` to the end of the text, or behind `closer` (a `)`); returns that offset."""
        s, n = self.s, self.n
        commands = self.commands
        word_match = WORD.match
        stack: list[Frame] = []
        cmd: Command | None = None  # the simple command being read
        cmd_at = 0
        argv: list[str] = []
        dynamic: list[int] = []
        globbed: list[int] = []
        # The list being read. An element is one part of a pipeline.
        list_start = element = len(commands)
        self.pipelines += 1
        pipeline = self.pipelines
        join = ""
        piped = False  # the next element reads a pipe
        filled = False  # the element has something (a command, a compound, a test)
        compound: Frame | None = None  # the element is this closed compound: only redirections may follow
        awaited = False  # an operator asks for a command
        function = ""
        coproc = False
        try:
            while True:
                m = word_match(s, i, n)
                if m:
                    kind = m.lastindex
                    word = m.group(kind)  # type: ignore[arg-type]
                    begin = m.start(kind)  # type: ignore[arg-type]
                    i = m.end()
                    if kind == 1:
                        c = s[i] if i < n else ""
                        if c and c in "<>" and (word.isdigit() or (word[0] == "{" and FD_NAME.match(s, begin, n))):
                            if cmd is None and compound is None:
                                cmd, cmd_at, argv, dynamic, globbed = self.open(begin, pipeline, join, piped, coproc)
                                filled, awaited = True, False
                            i = self.read_redirect(i, word, cmd, compound)
                            continue
                        if (c == "(" and s[i - 1] in "?*+@!=") or (c and c in "<>" and i + 1 < n and s[i + 1] == "("):
                            m = None  # an array, an extended glob or a process substitution goes on: the slow way
                            i = begin
                    else:
                        begin -= 1
                if m:
                    if cmd is not None and argv:
                        argv.append(word)
                        continue
                    if cmd is None and kind == 1 and word in RESERVED:
                        if compound is not None and word not in MIDDLES and word not in CLOSERS:
                            self.flaw("unexpected word after a compound command")
                        if word in OPENERS:
                            if len(stack) >= MAX_BLOCKS:
                                raise self.stop("nesting too deep")
                            f = Frame(OPENERS[word], len(commands), list_start, element, pipeline, join, piped)
                            f.function, function = function, ""
                            stack.append(f)
                            list_start = element = len(commands)
                            self.pipelines += 1
                            pipeline = self.pipelines
                            piped, filled, compound, awaited = False, False, None, True
                            continue
                        if word in MIDDLES:
                            if not stack or stack[-1].kind not in MIDDLES[word]:
                                self.flaw(f"unexpected {word}")
                                continue
                            f = stack[-1]
                            # `if; then` lacks a command, `if a then` a separator; `(a) then` needs none.
                            if (awaited or filled) and compound is None and f.kind not in ("for", "select"):
                                self.flaw(f"unexpected {word}")
                            if word == "do":
                                f.state = len(commands)
                            if word != "else":
                                f.arms = word != "elif"
                            list_start = element = len(commands)
                            self.pipelines += 1
                            pipeline = self.pipelines
                            join, piped, filled, compound, awaited = ";", False, False, None, True
                            continue
                        if word in CLOSERS:
                            if not stack or stack[-1].kind not in CLOSERS[word]:
                                self.flaw(f"unexpected {word}")
                                continue
                            f = stack.pop()
                            if (awaited and word != "esac") or (f.kind in ("if", "while", "until") and not f.arms):
                                self.flaw(f"unexpected {word}")
                            self.close(f, f.start)
                            list_start, element, pipeline, join = f.list_start, f.element, f.pipeline, f.join
                            piped, compound, filled, awaited = f.piped, f, True, False
                            continue
                        if word == "for" or word == "select":
                            f = Frame(word, len(commands), list_start, element, pipeline, join, piped)
                            if len(stack) >= MAX_BLOCKS:
                                raise self.stop("nesting too deep")
                            f.function, function = function, ""
                            i = self.read_for(i, f)
                            stack.append(f)
                            list_start = element = len(commands)
                            piped, filled, compound, awaited = False, False, None, False
                            join = ";"
                            continue
                        if word == "case":
                            if len(stack) >= MAX_BLOCKS:
                                raise self.stop("nesting too deep")
                            f = Frame("case", len(commands), list_start, element, pipeline, join, piped)
                            f.function, function = function, ""
                            i = self.read_case(i)
                            i, ended = self.read_pattern(i)
                            if ended:
                                self.close(f, f.start)
                                filled, compound, awaited = True, f, False
                                continue
                            stack.append(f)
                            list_start = element = len(commands)
                            self.pipelines += 1
                            pipeline = self.pipelines
                            join, piped, filled, compound, awaited = ";", False, False, None, False
                            continue
                        if word == "[[":
                            i = self.read_test(i)
                            filled, awaited = True, False
                            compound = Frame("test", len(commands), list_start, element, pipeline, join, piped)
                            function = ""
                            continue
                        if word == "function":
                            name, i = self.read_word(BLANKS.match(s, i, n).end())  # type: ignore[union-attr]
                            p = FUNCTION.match(s, i, n)
                            i = SPACE.match(s, p.end() if p else i, n).end()  # type: ignore[union-attr]
                            function = name or "?"
                            awaited = True
                            continue
                        if word == "coproc":
                            coproc = True
                            p = COPROC_NAME.match(s, i, n)
                            if p:
                                i = p.end()
                            awaited = True
                            continue
                        if word == "time":
                            while True:
                                p = word_match(s, i, n)
                                if not (p and p.group(1) in ("-p", "--")):
                                    break
                                i = p.end()
                        filled = True  # `!` and `time`: a bare one is a command of its own
                        continue
                    if compound is not None:
                        self.flaw("unexpected word after a compound command")
                        compound = None
                    if function:
                        self.flaw("a function without a body")
                        function = ""
                    if kind == 1 and "=" in word:
                        p = ASSIGNMENT.match(word)
                        if p:
                            if cmd is None:
                                cmd, cmd_at, argv, dynamic, globbed = self.open(begin, pipeline, join, piped, coproc)
                                filled, awaited = True, False
                            cmd.env[p.group(1)] = word[p.end() :]
                            continue
                    if kind == 1 and cmd is None:
                        p = FUNCTION.match(s, i, n)
                        if p:
                            i = SPACE.match(s, p.end(), n).end()  # type: ignore[union-attr]
                            function = word
                            awaited = True
                            continue
                    if cmd is None:
                        cmd, cmd_at, argv, dynamic, globbed = self.open(begin, pipeline, join, piped, coproc)
                        filled, awaited = True, False
                    argv.append(word)
                    continue

                # ------------------------------------------------ operators and words that need care
                i = BLANKS.match(s, i, n).end()  # type: ignore[union-attr]
                c = s[i] if i < n else ""
                if c == "#" and (i == 0 or s[i - 1] in " \t\n;&|()"):
                    j = s.find("\n", i, n)
                    i = n if j < 0 else j
                    continue
                if c and (c not in "\n;&|()<>" or (c in "<>" and i + 1 < n and s[i + 1] == "(")):
                    if compound is not None:
                        self.flaw("unexpected word after a compound command")
                        compound = None
                    if function:
                        self.flaw("a function without a body")
                        function = ""
                    if cmd is None:
                        cmd, cmd_at, argv, dynamic, globbed = self.open(i, pipeline, join, piped, coproc)
                        filled, awaited = True, False
                    if not argv:
                        p = ASSIGNMENT.match(s, i, n)
                        if p:
                            i = self.read_assignment(p, cmd)
                            continue
                    word, j = self.read_word(i)
                    if j == i:  # cannot be: every character is a word's or an operator's
                        raise self.stop("unreadable text")
                    i = j
                    if self.dynamic:
                        dynamic.append(len(argv))
                    if self.globbed and word != "[":
                        globbed.append(len(argv))
                    argv.append(word)
                    if j < n and s[j] == "(" and s[j - 1] == "=":
                        i = self.read_array(j)  # declare -a x=(...)
                    continue
                if c == "(" and cmd is not None and not (len(argv) == 1 and FUNCTION.match(s, i, n)):
                    self.flaw("unexpected (")
                if (c in "<>" and c) or (s.startswith("&>", i) and i < n):
                    if cmd is None and compound is None:
                        cmd, cmd_at, argv, dynamic, globbed = self.open(i, pipeline, join, piped, coproc)
                        filled, awaited = True, False
                    i = self.read_redirect(i, "", cmd, compound)
                    continue

                # ------------------------------------------------ the simple command ends here
                if cmd is not None:
                    if dynamic:
                        cmd.dynamic = frozenset(dynamic)
                    if globbed:
                        cmd.globbed = frozenset(globbed)
                    if self.candidates and self.depth == 0 and not stack and not piped and join in ("", ";", "&"):
                        self.learn(cmd)
                    cmd = None
                    coproc = False
                if c == "\n":
                    i += 1
                    if self.pending:
                        i = self.read_heredocs(i)
                    if not filled and not compound:
                        continue  # an empty line, or the line goes on after an operator
                    c = ";"
                    awaited_after = False
                elif c == ";":
                    if i + 1 < n and s[i + 1] in ";&":
                        i += 3 if s.startswith(";;&", i) else 2
                        if not stack or stack[-1].kind != "case":
                            self.flaw("unexpected ;;")
                        else:
                            i, ended = self.read_pattern(i)
                            if ended:
                                f = stack.pop()
                                self.close(f, f.start)
                                list_start, element, pipeline, join = f.list_start, f.element, f.pipeline, f.join
                                piped, compound, filled, awaited = f.piped, f, True, False
                                continue
                        list_start = element = len(commands)
                        self.pipelines += 1
                        pipeline = self.pipelines
                        join, piped, filled, compound, awaited = ";", False, False, None, False
                        continue
                    i += 1
                    if not filled:
                        self.flaw("unexpected ;")
                    awaited_after = False
                elif c == "&":
                    if not filled:
                        self.flaw("unexpected &")
                    if s.startswith("&&", i) and i + 1 < n:
                        i += 2
                        c = "&&"
                        awaited_after = True
                    else:
                        i += 1
                        for x in commands[list_start:]:
                            x.background = True
                        awaited_after = False
                elif c == "|":
                    if not filled:
                        self.flaw("unexpected |")
                    if s.startswith("||", i) and i + 1 < n:
                        i += 2
                        c = "||"
                        awaited_after = True
                    else:
                        i += 2 if s.startswith("|&", i) and i + 1 < n else 1
                        if compound is None:
                            if element < len(commands):
                                commands[element].piped_out = True
                        else:
                            for x in commands[element:]:
                                if not x.substitution and not any(writes_stdout(r) for r in x.around):
                                    x.piped_out = True
                        element = len(commands)
                        piped, filled, compound, awaited = True, False, None, True
                        continue
                elif c == "(":
                    if filled and not function and compound is not None:
                        self.flaw("unexpected (")
                    if s.startswith("((", i) and i + 1 < n:
                        j = self.arithmetic_end(i + 2)
                        if j:
                            self.scan_quoted(i + 2, j - 2)
                            i = j
                            filled, awaited, function = True, False, ""
                            compound = Frame("arithmetic", len(commands), list_start, element, pipeline, join, piped)
                            continue
                    if len(stack) >= MAX_BLOCKS:
                        raise self.stop("nesting too deep")
                    f = Frame("subshell", len(commands), list_start, element, pipeline, join, piped)
                    f.function, function = function, ""
                    stack.append(f)
                    i += 1
                    list_start = element = len(commands)
                    self.pipelines += 1
                    pipeline = self.pipelines
                    piped, filled, compound, awaited = False, False, None, True
                    continue
                elif c == ")":
                    i += 1
                    if awaited and (stack or not closer):
                        self.flaw("unexpected )")
                    if stack and stack[-1].kind == "subshell":
                        f = stack.pop()
                        self.close(f, f.start)
                        list_start, element, pipeline, join = f.list_start, f.element, f.pipeline, f.join
                        piped, compound, filled, awaited = f.piped, f, True, False
                        continue
                    if closer:
                        if stack:
                            self.flaw("unexpected )")
                        return i
                    self.flaw("unexpected )")
                    continue
                else:  # the end of the text
                    if self.pending:
                        self.read_heredocs(n)
                    if stack:
                        self.flaw(f"unclosed {stack[-1].kind}")
                    elif closer:
                        raise self.stop("unclosed substitution")
                    elif awaited:
                        self.flaw("a command is missing at the end")
                    while stack:
                        f = stack.pop()
                        self.close(f, f.start)
                    return n

                # ------------------------------------------------ a new element of the and-or list, or a new list
                join = c
                if c == ";" or c == "&":
                    list_start = len(commands)
                element = len(commands)
                self.pipelines += 1
                pipeline = self.pipelines
                piped, filled, compound, awaited = False, False, None, awaited_after
        except Damage:
            if cmd is not None and cmd_at < len(commands) and commands[cmd_at] is cmd:
                del commands[cmd_at]  # half a command is none
            raise

    # ------------------------------------------------------------- simple commands

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


def parse(text: str, constants: bool = False) -> Script:
    """Every simple command of `text` as it is written, wrappers (`sudo`, `bash -c "..."`) left in place.

    With `constants`, variables of one certain literal value are replaced by it. Never raises.
    """
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    scanner = Scanner(text)
    if constants:
        scanner.candidates = assigned_once(text)
    try:
        scanner.run(0, "")
    except Damage:
        pass
    size = len(scanner.commands)
    blocks = [b for b in scanner.blocks if b.last <= size] if scanner.damage else scanner.blocks
    return Script(text, scanner.commands, scanner.damage, blocks)


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
