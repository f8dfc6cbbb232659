"""The scanner against shfmt and `bash -n`, over every recorded command and over mutations of them.

docs/shell.md shows the figures for the recorded commands; the test fails where they are no longer true, where
agreement drops, and where a kind of difference appears that nobody has explained.
"""

from __future__ import annotations

import importlib.util
import random
import re
import shutil
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from misstep.shell import parse

_spec = importlib.util.spec_from_file_location("shell_oracle", Path(__file__).with_name("oracle.py"))
oracle = importlib.util.module_from_spec(_spec)
sys.modules["shell_oracle"] = oracle
_spec.loader.exec_module(oracle)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "shell.md"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not oracle.shfmt_program() or not shutil.which("bash"), reason="needs shfmt and bash"),
]

# Kinds of difference: how a text shows it, in which aspect.
EXPLAINED = [
    ("coproc", "background", re.compile(r"\bcoproc\b")),
    ("time --", "names", re.compile(r"\btime\s+(?:-p\s+)?--")),
    ("comment", "names", re.compile(r"#[^\n]*\\\n")),
]

ODD = [
    'case "$1" in start|"sto p") nginx & ;; (b*) echo x;; *) exit 1; esac', "x=$(case a in a) echo b;; esac)", "for i in 1 2; do (sleep $i) & done; wait",
    "for ((i=0;i<3;i++)); do echo $i; done", "f() ( ls )\nf", "function g { ls; }", "function h() { ls; } > out", "if a; then b; elif c; then d; else e; fi | tee x",
    "[[ $a == (x|y) ]] && ls", '[[ "$x" =~ ^a(b|c)d$ ]] || exit', "echo $((1+2)) $(( $(ls | wc -l) * 2 ))", "((i++)) && ls", 'a=(1 2 "$(ls)") ; echo ${a[@]}',
    "declare -a x=(1 2 3)\nls", "cat <<A <<B\na\nA\nb\nB", "cat <<\"E O F\"\nx\nE O F\nls", "cat <<'A' | grep x > y && ls\nbody\nA", "$(cat <<E\nhi\nE\n)",
    'echo "$(cat <<E\nhi $(ls)\nE\n)"', "tee >(grep x > y) < z", "exec 3>&1 2>file", "ls >& f", "echo ${x#y} ${x##*/} ${#x} ${x//a/b} ${x:-\"a b\"} ${x:+$(ls)}",
    "echo \"a `ls \\`pwd\\`` b\"", "echo $'a\\'b' $\"hi\"", "{ ls; pwd; } 2>/dev/null | cat", "if (a) then b; fi", "a && b || c; d & e", "a |& b", "case x in esac",
    "foo()\n{\nls\n}", "a() if true; then ls; fi", "cat <<E\n`ls` \\$(no) \\`no\\` ${x:-$(yes)}\nE", "while read l; do echo; done <<E\na\nE\nls", "( cat <<E\nx\nE\n)",
    "ls | while read x; do a; done | b", "a & b & wait", "$(a &)", "find . \\( -name a -o -name b \\) -print", 'a[$i]=$(ls)', 'm["k v"]=1', "time -p ls", "! ls", "a 2>&1 &",
    "a |\nb", "if\na\nthen\nb\nfi", "coproc cat", "coproc N { a; }", "time -- a", "a # b \\\nc",
]  # fmt: skip


def mutations(commands: list[str], count: int) -> list[str]:
    bits = ["'", '"', "`", "$(", ")", "((", "))", "{", "}", "<<EOF\n", "\nEOF\n", "${", "$", "\\", "|", "||", "&", "&&", ";", "\n", "if ", "fi", "do",
            "done", "<(", ">", "2>&1", "#", "!", "*", " ", "( ", " & ", "; "]  # fmt: skip
    r = random.Random(7)
    pool = [c for c in commands if len(c) < 1500] + ODD * 2
    made = []
    for _ in range(count):
        text = r.choice(pool)
        for _ in range(r.randint(1, 2)):
            i, kind = r.randint(0, len(text)), r.random()
            if kind < 0.6:
                text = text[:i] + r.choice(bits) + text[i:]
            elif kind < 0.8:
                text = text[:i] + text[i + r.randint(1, 6) :]
            else:
                text = text[:i] + r.choice(pool)[:200] + text[i:]
        if "\0" not in text and "\r" not in text:
            made.append(text)
    return made


class Comparison:
    """Counts of one run over some texts."""

    def __init__(self, texts: list[str]) -> None:
        with ThreadPoolExecutor(4) as pool:
            theirs = list(pool.map(oracle.shfmt, texts))
            valid = list(pool.map(oracle.bash_accepts, texts))
        self.texts = len(texts)
        self.valid = sum(valid)
        self.compared = 0
        self.same: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.unexplained: list[tuple[str, str]] = []
        self.missed: list[str] = []  # valid, and called damaged
        self.passed: list[str] = []  # not valid, and not noticed
        for text, other, ok in zip(texts, theirs, valid, strict=True):
            damaged = parse(text).damage is not None
            if ok and damaged:
                self.missed.append(text)
            elif not ok and not damaged:
                self.passed.append(text)
            if other is None or not ok or damaged:
                continue
            self.compared += 1
            ours = oracle.scanner(text)
            for aspect in oracle.ASPECTS:
                if sorted(getattr(other, aspect)) == sorted(getattr(ours, aspect)):
                    self.same[aspect] += 1
                    continue
                kind = next((k for k, a, shows in EXPLAINED if a == aspect and shows.search(text)), None)
                if kind:
                    self.kinds[kind] += 1
                else:
                    self.unexplained.append((aspect, text))

    def table(self) -> str:
        rows = ["| aspect | agree | differ |", "|---|---:|---:|"]
        rows += [
            f"| {a} | {self.same[a]} of {self.compared} | {self.compared - self.same[a]} |" for a in oracle.ASPECTS
        ]
        rows.append(f"| valid for `bash -n`, called damaged | {len(self.missed)} of {self.valid} | |")
        rows.append(f"| not valid for `bash -n`, not noticed | {len(self.passed)} of {self.texts - self.valid} | |")
        return "\n".join(rows)


@pytest.mark.corpus
def test_recorded_commands(shared):
    found = Comparison(oracle.shell_commands(shared / "corpus"))
    assert found.texts > 300
    assert found.unexplained == []
    assert found.missed == [] and found.passed == []
    assert all(found.same[a] >= 0.99 * found.compared for a in oracle.ASPECTS)
    page = DOCS.read_text(encoding="utf-8")
    assert found.table() in page, f"docs/shell.md should show:\n{found.table()}"


@pytest.mark.corpus
def test_mutated_commands(shared):
    found = Comparison(mutations(oracle.shell_commands(shared / "corpus"), 1500))
    assert found.compared > 700
    assert found.unexplained == []
    assert all(found.same[a] >= 0.995 * found.compared for a in oracle.ASPECTS)
    assert len(found.missed) <= 0.01 * found.valid
    assert len(found.passed) <= 0.04 * (found.texts - found.valid)


def test_odd_texts():
    found = Comparison(ODD)
    assert found.unexplained == []
    assert found.missed == [] and found.passed == []
    assert set(found.kinds) == {k for k, _, _ in EXPLAINED}


def test_every_explanation_is_in_the_documentation():
    page = DOCS.read_text(encoding="utf-8")
    assert all(f"`{kind}`" in page for kind, _, _ in EXPLAINED)
