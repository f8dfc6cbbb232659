"""What shfmt says about a piece of shell text, in the aspects in which the scanner is compared with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from misstep.shell import parse
from misstep.shell.words import ansi_c


@dataclass
class Aspects:
    """One parser's reading of one text."""

    names: list[str] = field(default_factory=list)
    background: list[str] = field(default_factory=list)
    heredocs: list[tuple[str, str]] = field(default_factory=list)
    redirects: list[tuple[str, str]] = field(default_factory=list)


ASPECTS = ("names", "background", "heredocs", "redirects")


def shfmt_program() -> str | None:
    """shfmt beside the running Python, or on the path."""
    beside = Path(sys.executable).parent / "shfmt"
    return str(beside) if beside.exists() else shutil.which("shfmt")


def shfmt(text: str) -> Aspects | None:
    """shfmt's reading; None where it rejects the text."""
    program = shfmt_program()
    assert program
    done = subprocess.run(
        [program, "-ln", "bash", "--to-json"],
        input=text.encode("utf-8", "replace"),
        capture_output=True,
        timeout=30,
        check=False,
    )
    if done.returncode:
        return None
    return _Tree(text.encode("utf-8", "replace"), json.loads(done.stdout)).aspects


def bash_accepts(text: str) -> bool:
    """`bash -n` finds no fault."""
    done = subprocess.run(
        ["bash", "-n"], input=text.encode("utf-8", "replace"), capture_output=True, timeout=30, check=False
    )
    return done.returncode == 0


class _Tree:
    """Walks shfmt's typed syntax tree."""

    def __init__(self, text: bytes, tree: dict[str, Any]) -> None:
        self.text = text
        self.aspects = Aspects()
        self.walk(tree, False)

    def source(self, node: dict[str, Any]) -> str:
        return self.text[node["Pos"]["Offset"] : node["End"]["Offset"]].decode("utf-8", "replace")

    def word(self, node: dict[str, Any]) -> str:
        """A word with its quotes removed, expansions as they are written."""
        return "".join(self.part(p, False) for p in node.get("Parts", ()))

    def part(self, p: dict[str, Any], double: bool) -> str:
        kind = p["Type"]
        if kind == "Lit":
            value = p.get("Value", "")
            out, k = [], 0
            while k < len(value):
                c = value[k]
                if c == "\\" and k + 1 < len(value):
                    d = value[k + 1]
                    if d != "\n":
                        out.append(d if not double or d in '"\\$`' else c + d)
                    k += 2
                else:
                    out.append(c)
                    k += 1
            return "".join(out)
        if kind == "SglQuoted":
            return ansi_c(p.get("Value", "")) if p.get("Dollar") else p.get("Value", "")
        if kind == "DblQuoted":
            return "".join(self.part(q, True) for q in p.get("Parts", ()))
        return self.source(p)

    def walk(self, node: Any, background: bool) -> None:
        if isinstance(node, list):
            for n in node:
                self.walk(n, background)
        elif isinstance(node, dict):
            if "Cmd" in node or "Redirs" in node:
                self.statement(node, background)
                return
            kind = node.get("Type")
            if kind == "CallExpr":
                self.call(node, "", background)
                return
            for key, child in node.items():
                if key not in ("Pos", "End", "Position") and isinstance(child, (dict, list)):
                    self.walk(child, background)

    def statement(self, node: dict[str, Any], background: bool) -> None:
        background = background or bool(node.get("Background")) or bool(node.get("Coprocess"))
        cmd = node.get("Cmd")
        simple = cmd is None or cmd.get("Type") in ("CallExpr", "DeclClause", "LetClause")
        name = ""
        if cmd is not None and simple:
            name = self.call(cmd, "", background)
        for r in node.get("Redirs") or ():
            target = self.word(r["Word"]) if r.get("Word") else ""
            if r["Op"] in ("<<", "<<-"):
                if simple:
                    body = self.source(r["Hdoc"]).split("\n")[0] if r.get("Hdoc") and r["Hdoc"].get("Parts") else ""
                    self.aspects.heredocs.append((name, body))
                if r.get("Hdoc"):
                    self.walk(r["Hdoc"], background)
            else:
                if simple:
                    self.aspects.redirects.append((name, target))
                self.walk(r.get("Word"), background)
        if cmd is not None and not simple:
            self.walk(cmd, background)

    def call(self, node: dict[str, Any], name: str, background: bool) -> str:
        kind = node.get("Type")
        if kind == "CallExpr":
            args = node.get("Args") or []
            if args:
                name = self.word(args[0])
        elif kind == "DeclClause":
            name = node["Variant"]["Value"]
        elif kind == "LetClause":
            name = "let"
        if name:
            self.aspects.names.append(name)
            if background:
                self.aspects.background.append(name)
        for key, child in node.items():
            if key not in ("Pos", "End", "Position", "Variant") and isinstance(child, (dict, list)):
                self.walk(child, background)
        return name


def scanner(text: str) -> Aspects:
    """The scanner's reading in the same aspects."""
    a = Aspects()
    for c in parse(text).commands:
        name = c.argv[0] if c.argv else ""
        if name:
            a.names.append(name)
            if c.background:
                a.background.append(name)
        for r in c.redirects:
            if r.op in ("<<", "<<-"):
                a.heredocs.append((name, (r.body or "").split("\n")[0]))
            else:
                a.redirects.append((name, r.target))
    return a


def shell_commands(root: Path) -> list[str]:
    """Every distinct shell command in the tool calls of the recorded trajectories under `root`, in a stable order."""
    found: dict[str, None] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in (".json", ".jsonl", ".traj"):
            for document in _documents(path):
                for command in _commands(document):
                    found.setdefault(command)
    return list(found)


def _documents(path: Path) -> Iterator[Any]:
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        yield json.loads(text)
        return
    except ValueError:
        pass
    for line in text.split("\n"):
        if line[:1] == "{":
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _commands(node: Any) -> Iterator[str]:
    """Commands of the tool calls of every known agent, wherever they stand in a record."""
    if isinstance(node, list):
        for n in node:
            yield from _commands(n)
        return
    if not isinstance(node, dict):
        return
    arguments = node.get("arguments")
    if isinstance(arguments, str) and arguments[:1] == "{":
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    for holder in (node.get("input"), arguments, node.get("args"), node.get("action")):
        if isinstance(holder, dict):
            for key in ("command", "cmd", "keystrokes"):
                value = holder.get(key)
                if isinstance(value, str):
                    yield value
                elif isinstance(value, list) and value and all(isinstance(v, str) for v in value):
                    yield value[-1]  # ["bash", "-lc", text]
    if isinstance(node.get("action"), str) and "thought" in node:
        yield node["action"]
    actions = node.get("actions")
    if isinstance(actions, list):
        for a in actions:
            if isinstance(a, dict) and isinstance(a.get("command"), str):
                yield a["command"]
    for value in node.values():
        if isinstance(value, (dict, list)):
            yield from _commands(value)
