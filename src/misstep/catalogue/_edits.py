"""What an edit of code changes: comments alone, words in quotes alone, or code; and whether edits cancel out.

Texts are fragments of files, so nothing here parses a language: comments and strings are told by the customs of the
language that a file's name says.
"""

from __future__ import annotations

import re
from zlib import crc32

from ._regex import Regex, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from misstep.shell import Command

_SLASHES = words(
    "js jsx mjs cjs ts tsx mts go rs c h cc cpp cxx hh hpp hxx cu m mm java kt kts scala groovy swift cs fs dart vue svelte v sv zig d"
)
_HASHES = words("py pyi pyx rb sh bash zsh fish pl pm ex exs jl nim r makefile dockerfile txt")
_DASHES = words("sql lua hs vhd")
_INDENTED = words("py pyi pyx nim hs fs")
"""Languages in which the indentation says something."""

_STRING = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
# Directives to the compiler that are written as comments are code.
_SLASH = Regex(
    rf"(?s)(?P<s>{_STRING}|`[^`]*`)|/\*.*?(?:\*/|\Z)|(?<![:\\/])//(?!go:|export |line | ?\+build)[^\n]*|(?m:^[ \t]*\*(?:[ \t/][^\n]*)?$)"
)
_HASH = Regex(rf"(?s)(?P<s>\"\"\".*?\"\"\"|'''.*?'''|{_STRING})|(?<!\S)#(?!!)[^\n]*")
_DASH = Regex(rf"(?s)(?P<s>{_STRING})|(?<!\S)--[^\n]*")
_BOTH = Regex(rf"(?s)(?P<s>{_STRING})|/\*.*?(?:\*/|\Z)|(?<![:\\/])//[^\n]*|(?<!\S)#(?!\[)[^\n]*")
_OTHER = Regex(r"(?m)(?P<s>(?!))|^\s*(?:;|%|!|<!--|\(\*)[^\n]*$")
_DOCUMENT = Regex(
    r"(?i)\.(?:md|mdx|markdown|rst|adoc|org|tex)$|(?:^|/)(?:readme|changelog|license|todo|notes?)(?:\.txt)?$"
)


def _kind(path: str) -> str:
    name = path.rsplit("/", 1)[-1].lower()
    return name.rpartition(".")[2]


def _comments(kind: str) -> Regex:
    if kind in _SLASHES:
        return _SLASH
    if kind in _HASHES:
        return _HASH
    if kind in _DASHES:
        return _DASH
    return _BOTH if kind == "php" else _OTHER


def bare(path: str, text: str) -> list[str]:
    """The lines of code in a fragment, without comments, blank lines and (where it says nothing) indentation."""
    kind = _kind(path)
    code = _comments(kind).sub(lambda m: m.group("s") or "", text)
    return [line.rstrip() if kind in _INDENTED else line.strip() for line in code.split("\n") if line.strip()]


def only_comments(path: str, old: str, new: str, inserted: bool = False) -> bool:
    """Whether an edit leaves the code as it was: comments, blank lines and trailing comments alone change.

    Without an old text nothing is known of what was there, unless the edit is said to insert its text.
    """
    if not old and not inserted:
        return False
    if len(old) + len(new) > 200_000:
        return False
    if old and not _holds_comment(path, old, new):
        return False
    return bare(path, old) == bare(path, new)


def _holds_comment(path: str, old: str, new: str) -> bool:
    """Whether the lines that differ hold a comment, as far as one can tell cheaply, or nothing but spaces."""
    before, after = old.split("\n"), new.split("\n")
    first, last = 0, min(len(before), len(after))
    while first < last and before[first] == after[first]:
        first += 1
    tail = 0
    while tail < last - first and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    left, right = before[first : len(before) - tail], after[first : len(after) - tail]
    a, b = "\n".join(left), "\n".join(right)
    return any(mark in a or mark in b for mark in _marks(path)) or a.split() == b.split()


def _marks(path: str) -> tuple[str, ...]:
    kind = _kind(path)
    if kind in _SLASHES:
        return ("//", "/*", "*/", "* ")
    return ("#",) if kind in _HASHES else ("",)


def only_words(path: str, old: str, new: str) -> bool:
    """Whether an edit changes the words in quotes of one line, and nothing else."""
    if not old or len(old) + len(new) > 20_000:
        return False
    before, after = old.split("\n"), new.split("\n")
    if len(before) != len(after):
        return False
    differing = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
    if len(differing) != 1:
        return False
    pattern = _comments(_kind(path))
    left, right = (pattern.sub(lambda m: '""' if m.group("s") else "", text) for text in differing[0])
    return left == right


def is_document(path: str) -> bool:
    """Whether a path names a text for people."""
    return bool(_DOCUMENT.search(path))


# -- in-place editors ------------------------------------------------------------------------------

_SED_OPTION = Regex(r"-[nErsuz]*[i]\S*|-[nErsuz]+|--\w[\w-]*(?:=.*)?")
_ADDRESS = Regex(r"[\s;]*(?:(?:\d+|\$|/(?:\\.|[^/\\\n])*/)(?:,(?:\d+|\$|\+\d+|/(?:\\.|[^/\\\n])*/))?)?\s*!?\s*")
_ADDED = Regex(r"[ai](?:\\\n|\\)?[ \t]*((?:\\\n|[^\n])*)")
_FLAGS = Regex(r"[gpIi0-9]*[ \t]*(?=[;\n]|$)")
_ESCAPED = Regex(r"\\([^\w\s])")


def sed_comments(command: Command, path: str) -> bool:
    """Whether a `sed -i` adds, changes or removes comments alone: every one of its commands does."""
    scripts: list[str] = []
    args = command.argv[1:]
    bare_words: list[str] = []
    at = 0
    while at < len(args):
        word = args[at]
        if word in ("-e", "--expression") and at + 1 < len(args):
            scripts.append(args[at + 1])
            at += 1
        elif word.startswith("-") and len(word) > 1:
            if not _SED_OPTION.fullmatch(word):
                return False
        elif word:
            bare_words.append(word)
        at += 1
    if not scripts:
        scripts = bare_words[:1]
    return bool(scripts) and all(_sed_script(script, path) for script in scripts)


def _sed_script(script: str, path: str) -> bool:
    at = seen = 0
    while at < len(script):
        address = _ADDRESS.match(script, at)
        at = address.end() if address else at
        if at >= len(script):
            break
        added = _ADDED.match(script, at)
        if added:
            if bare(path, added.group(1).strip()):
                return False
            at = added.end()
        elif script[at] == "s" and at + 1 < len(script):
            parts = _split(script, at + 1)
            if parts is None:
                return False
            old, new, end = parts
            flags = _FLAGS.match(script, end)
            if flags is None or not _same_code(old, new, path):
                return False
            at = flags.end()
        else:
            return False
        seen += 1
    return seen > 0


def _split(script: str, at: int) -> tuple[str, str, int] | None:
    """(pattern, replacement, offset behind them) of an s command whose delimiter stands at `at`."""
    mark = script[at]
    found: list[str] = []
    start = at = at + 1
    while at < len(script):
        if script[at] == "\\":
            at += 2
        elif script[at] == mark:
            found.append(script[start:at])
            start = at = at + 1
            if len(found) == 2:
                return found[0], found[1], at
        else:
            at += 1
    return None


def _same_code(pattern: str, replacement: str, path: str) -> bool:
    if pattern.startswith("^"):
        pattern = pattern[1:]
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1]
    whole = re.fullmatch(r"\\\(((?:(?!\\[()]).)*)\\\)|\(((?:\\.|[^()\\])*)\)", pattern)
    if whole and "\\1" in replacement:
        inner = whole.group(1) or whole.group(2) or ""
        pattern, replacement = inner, replacement.replace("\\1", inner)
    replacement = re.sub(r"(?<!\\)&", lambda _: pattern, replacement)
    old, new = (_ESCAPED.sub(r"\1", text) for text in (pattern, replacement))
    return only_comments(path, old, new, inserted=True)


# -- edits that cancel out -------------------------------------------------------------------------


def mark_of_edit(path: str, old: str, new: str) -> str:
    """A short name for an edit: file, old text, new text."""
    return f"{_digest(path.rsplit('/', 1)[-1])}:{_digest(old)}:{_digest(new)}"


def mark_of_command(path: str, command: Command) -> str:
    """A short name for an edit by a command: file, command."""
    redirects = [f"{r.op}{r.target}{r.body or ''}" for r in (*command.redirects, *command.around)]
    return (
        f"{_digest(path.rsplit('/', 1)[-1])}:!{_digest(chr(0).join([*command.argv, *redirects, command.stdin or '']))}"
    )


def file_of(mark: str) -> str:
    """The part of an edit's name that says the file."""
    return mark.partition(":")[0]


def undoing(mark: str) -> str:
    """The name of the edit that undoes this one, '' where that cannot be told."""
    file, old, new = (*mark.split(":"), "")[:3]
    return f"{file}:{new}:{old}" if new and old != _digest("") else ""


def _digest(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'replace')):x}"
