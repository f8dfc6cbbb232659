"""The tolerant shell scanner: every simple command of a text, in one pass, never raising.

It reads what agents write for bash, sh and zsh: lists, pipelines, compound commands, functions,
substitutions, heredocs. It is no validator: what it cannot read marks the script as *damaged*, with
a reason, and the commands read so far are kept.
"""

from __future__ import annotations

from .compounds import ASSIGNMENT, BLANKS, COPROC_NAME, FD_NAME, FUNCTION, SPACE, WORD, Frame, PartReader, writes_stdout
from .constants import assigned_once
from .model import Command, Script
from .words import Damage

MAX_BLOCKS = 150
"""Compound commands within compound commands."""
OPENERS = {"if": "if", "while": "while", "until": "until", "{": "group"}
MIDDLES = {"then": ("if",), "elif": ("if",), "else": ("if",), "do": ("while", "until", "for", "select")}
CLOSERS = {"fi": ("if",), "done": ("while", "until", "for", "select"), "esac": ("case",), "}": ("group",)}
RESERVED = frozenset([*OPENERS, *MIDDLES, *CLOSERS, "for", "select", "case", "function", "!", "time", "coproc", "[["])


class Scanner(PartReader):
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
                        if (
                            c
                            and c in "<>"
                            and ((word.isdigit() and word.isascii()) or (word[0] == "{" and FD_NAME.match(s, begin, n)))
                        ):
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
