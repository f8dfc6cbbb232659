"""Codex's code mode: which commands a script ran, as far as its text and its output settle it.

The model writes JavaScript that calls `tools.exec_command({cmd: "..."})` and prints with `text(...)`. Only a
script without branches, loops and functions, whose arguments are literals, tells for sure what ran. For any other
nothing is returned: unknown is not a guess.
"""

from __future__ import annotations

import json
import re

from misstep._record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX = 100_000
"""Longest script that is looked at."""
_BRANCH = re.compile(r"=>|&&|\|\||\?|\b(?:if|for|while|do|switch|function|catch|try|return|throw|class|yield|eval)\b")
_CALL = re.compile(r"\btools\s*\.\s*(\w+)\s*\(")
_NAME = re.compile(r"\b(?:const|let|var)\s+(\w+)\s*=\s*await\s*$")
_NAMES = re.compile(r"\b(?:const|let|var)\s*\[([\w\s,]+)\]\s*=\s*await\s+Promise\s*\.\s*all\s*\(\s*\[")
_TEXT = re.compile(r"\btext\s*\(\s*(?:(\w+)(\s*\.\s*output)?\s*\)|(await\s+)(?=tools\b))?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


@record
class Nested:
    """One call that a script makes for sure, in order."""

    tool: str
    argument: Any
    """What it is called with: a str, or an object of literals."""
    printed: int | None = None
    """Position among the script's printed texts of its whole result, None where it is not printed whole."""
    output: int | None = None
    """Position of its bare output, where the script prints only that."""


@record
class Script:
    calls: list[Nested] = field(default_factory=list)
    texts: int = 0
    """How many texts it prints."""


def script_of(source: str) -> Script | None:
    """What a script does, None where that depends on what it sees or cannot be read."""
    if len(source) > _MAX:
        return None
    code = _blanked(source)
    if code is None or _BRANCH.search(code):
        return None
    found = Script()
    names: dict[str, int] = {}
    starts: dict[int, int] = {}
    for match in _CALL.finditer(code):
        argument = _literal(source, match.end())
        if argument is None or not re.match(r"\s*\)", code[argument[1] :]):
            return None
        name = _NAME.search(code[: match.start()])
        if name:
            names[name[1]] = len(found.calls)
        starts[match.start()] = len(found.calls)
        found.calls.append(Nested(match[1], argument[0]))
    for group in _NAMES.finditer(code):
        end = code.find("]", group.end())
        inside = [at for at in sorted(starts) if group.end() <= at < end]
        given = [n.strip() for n in group[1].split(",") if n.strip()]
        if end < 0 or len(inside) != len(given):
            return None
        names.update({n: starts[at] for n, at in zip(given, inside, strict=True)})
    for match in _TEXT.finditer(code):
        position, found.texts = found.texts, found.texts + 1
        if match[1] in names:
            call = found.calls[names[match[1]]]
            if match[2]:
                call.output = position
            else:
                call.printed = position
        elif match[3] and match.end() in starts:
            found.calls[starts[match.end()]].printed = position
    # A second use of `tools` or `text` under another name cannot be followed.
    if len(re.findall(r"\btools\b", code)) != len(found.calls) or len(re.findall(r"\btext\b", code)) != found.texts:
        return None
    return found


def _blanked(source: str) -> str | None:
    """The script with the inside of strings and comments blanked, same length; None where it cannot be told."""
    out = list(source)
    at, end = 0, len(source)
    while at < end:
        two = source[at : at + 2]
        if two == "//":
            stop = source.find("\n", at)
            stop = end if stop < 0 else stop
        elif two == "/*":
            stop = source.find("*/", at + 2)
            if stop < 0:
                return None
            stop += 2
        elif source[at] in "\"'`":
            closing = _string_end(source, at)
            if closing is None:
                return None
            out[at + 1 : closing - 1] = " " * (closing - at - 2)
            at = closing
            continue
        elif source[at] == "/" and re.search(r"[=(,:;!&|?{}\[]\s*\Z", source[max(0, at - 20) : at]):
            return None  # a regular expression
        else:
            at += 1
            continue
        out[at:stop] = " " * (stop - at)
        at = stop
    return "".join(out)


def _string_end(source: str, at: int) -> int | None:
    """Offset after a string literal that starts at `at`; None where it is not closed or a template has an expression."""
    quote = source[at]
    at += 1
    while at < len(source):
        char = source[at]
        if char == "\\":
            at += 2
            continue
        if char == quote:
            return at + 1
        if char == "\n" and quote != "`":
            return None
        if quote == "`" and source.startswith("${", at):
            return None
        at += 1
    return None


def _literal(source: str, at: int) -> tuple[Any, int] | None:
    """(value, offset after it) of a literal: string, number, true, false, null, array or object of literals."""
    at = _space(source, at)
    char = source[at : at + 1]
    if char and char in "\"'`":
        end = _string_end(source, at)
        return None if end is None else (_unescaped(source[at + 1 : end - 1]), end)
    if char in ("{", "["):
        return _container(source, at)
    match = re.compile(r"-?\d[\d_]*(?:\.\d+)?|true\b|false\b|null\b").match(source, at)
    if not match:
        return None
    return json.loads(match[0].replace("_", "")), match.end()


def _container(source: str, at: int) -> tuple[Any, int] | None:
    opening = source[at]
    closing = "}" if opening == "{" else "]"
    found: dict[str, Any] = {}
    items: list[Any] = []
    at = _space(source, at + 1)
    while source[at : at + 1] != closing:
        key = ""
        if opening == "{":
            match = re.compile(r"([A-Za-z_$][\w$]*)|\"([^\"\\\n]*)\"|'([^'\\\n]*)'").match(source, at)
            if not match:
                return None
            key = match[1] or match[2] or match[3] or ""
            at = _space(source, match.end())
            if source[at : at + 1] != ":":
                return None
            at += 1
        value = _literal(source, at)
        if value is None:
            return None
        found[key] = value[0]
        items.append(value[0])
        at = _space(source, value[1])
        if source[at : at + 1] == ",":
            at = _space(source, at + 1)
        elif source[at : at + 1] != closing:
            return None
    return (found if opening == "{" else items), at + 1


def _space(source: str, at: int) -> int:
    while at < len(source) and source[at] in " \t\r\n":
        at += 1
    return at


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "ux" and len(code) > 1:
            value = int(code[1:].strip("{}"), 16)
            return chr(value) if value < 0x110000 else "\ufffd"
        return "" if code == "\n" else _ESCAPES.get(code, code)

    text = re.sub(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S])", one, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
