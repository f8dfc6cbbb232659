"""The agent opens a file that is not there.

## What it is

A read of a path that does not exist: the agent guessed where something is, or that it exists, instead of listing or searching.

## Why it matters

It costs a turn each time, and agents often guess several paths in a row where one search would have answered. A file that was expected and is missing also
shows that the agent's picture of the project is wrong.

## How it is told

The read tool, or a call that only reads files, says that the file does not exist. A path that a prompt names,
that stands in the last listings, searches and documents that the agent saw, or whose folder and name stood in any result before, is not its guess (unknown); nor is one
of which the tool says that the same name with another extension is there. A local variant (`settings.local.json`) beside a file that the agent has read is optional: to open it is a way to ask,
and right (unknown where the other file was not read). Every read of a file is an opportunity.

## Known misses

Guesses that a command hides (`cat x 2>/dev/null || true`), which are a way to ask; folders; reads inside scripts.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterable

from misstep._record import field, record
from misstep.trajectory import After, Before, Call, Prompt

from ._regex import Regex
from ._world import Opened, began, opened, short
from .base import Misstep, Verdict

_MISSING = Regex(
    r"(?i)\bfile (?:does not|doesn['\u2019]t) exist\b|\bno such file or directory\b|\bfile not found\b|\bENOENT\b|\bpath does not exist\b"
)
_MADE_ELSEWHERE = Regex(r"/(?:private/)?(?:tmp|var/folders|var/tmp)/")
_MEANT = Regex(r"Did you mean (?P<path>[^\n?]+)\?")
_LOCAL = Regex(r"\.(?:local|override|user)(?=\.|$)")
_FILE = Regex(r"/[\w@+-]+(?:\.[\w@+-]+)+")
_FOLDER = Regex(r"[\w@+.-]{1,60}\Z")
"""What stands before a _FILE: the folder that it is in."""
_BITS = 8192
"""Size of the filter that remembers folders with files: 2 kB as text. It is emptied when a quarter is full."""
_NAMES = Regex(r"(?<![\w@+-])[\w@+-]+(?:\.[\w@+-]+)+|\b(?:Makefile|Dockerfile|LICENSE|README)\b")


@record
class Named(Opened):
    named: list[str] = field(default_factory=list)
    """File names in prompts, newest last, at most 100."""
    listed: list[str] = field(default_factory=list)
    """File names in the last listings, searches and documents, newest last, at most 150."""
    pairs: str = ""
    """A Bloom filter, as a hexadecimal number, of the last two components of the paths in results."""
    read: list[str] = field(default_factory=list)
    """The last files that could be read, newest last, at most 12."""


class ReadsMissingPath(Misstep):
    id = "reads-missing-path"
    status = "stable"
    name = "opens a file that is not there"
    State = Named

    def on_prompt(self, state: Named, event: Prompt) -> None:
        state.named = _names(state.named, event.text[:20_000], 100)

    def on_before(self, state: Named, event: Before) -> None:
        opened(state, event)

    def on_after(self, state: Named, event: After) -> Iterable[Verdict] | None:
        at, call, result = began(state, event), event.call, event.result
        if at is None or result.fault not in (None, "malformed") or result.shared:
            return None
        paths = _read_only(call)
        if result.failed is not True and not result.fault:
            state.pairs = _remembered(state.pairs, result.output[:6000])
        if not paths:
            if not result.fault and _lists(call):
                state.listed = _names(state.listed, result.output[:5000], 150)
            return None
        missing = _MISSING.search(result.output[:600]) if result.failed is not False else None
        if missing and "spawn" in result.output[:600]:
            return None  # the harness could not start its own program
        if not missing:
            if any(p.endswith((".md", ".txt", ".rst")) for p in paths):
                state.listed = _names(state.listed, result.output[:30_000], 150)
            state.read = [*state.read, *(p[:160] for p in paths)][-12:]
            return None if result.fault else [Verdict(False, at)]
        lost = next((p for p in paths if posixpath.basename(p) in result.output), paths[0])
        name = _bare(lost)
        if _MADE_ELSEWHERE.match(lost):
            return [Verdict(None, at, f"{short(lost, 100)} is not there: it may have been looked for as a result")]
        plain = _LOCAL.sub("", posixpath.basename(lost))
        if plain != posixpath.basename(lost):
            if posixpath.join(posixpath.dirname(lost), plain)[:160] in state.read:
                return [Verdict(False, at)]
            return [Verdict(None, at, f"{short(lost, 100)} is not there; such a file is optional")]
        meant = _MEANT.search(result.output[:1000])
        if meant and _other_extension(lost, meant["path"]) and _bare(meant["path"]) not in state.named:
            return [Verdict(None, at, f"{short(lost, 100)} is not there, but {short(meant['path'], 100)} is")]
        if _known(state.pairs, lost):
            return [Verdict(None, at, f"{short(lost, 100)} is not there, but an earlier result spoke of it")]
        if name in state.named or name in state.listed or "REDACTED" in lost:
            return [Verdict(None, at, f"{short(lost, 100)} is not there, but its name was given")]
        return [Verdict(True, at, f"{short(lost, 100)} is not there")]


def _bare(path: str) -> str:
    """The file name as _NAMES finds it in texts."""
    return posixpath.basename(path.strip().rstrip("/")).lstrip(".")[:40]


def _other_extension(lost: str, meant: str) -> bool:
    """Whether two paths differ in the extension only."""
    one, other = posixpath.splitext(_bare(lost)), posixpath.splitext(_bare(meant))
    return one[0] == other[0] and one[1] != other[1] and bool(one[1])


def _places(pair: str) -> tuple[int, int]:
    number = zlib.crc32(pair.encode("utf-8", "replace"))
    return number % _BITS, number // _BITS % _BITS


def _remembered(pairs: str, text: str) -> str:
    """The filter with the folders and files of a text."""
    found: set[str] = set()
    for match in _FILE.finditer(text):
        folder = _FOLDER.search(text, max(0, match.start() - 60), match.start())
        if folder:
            found.add(folder.group() + match.group())
    if not found:
        return pairs
    bits = int(pairs, 16) if pairs else 0
    if bits.bit_count() > _BITS // 4:
        bits = 0
    for pair in found:
        for place in _places(pair):
            bits |= 1 << place
    return f"{bits:x}"


def _known(pairs: str, path: str) -> bool:
    """Whether the last two components of a path stood in a result (by chance in at most one of 16 cases)."""
    two = "/".join(path.rstrip("/").split("/")[-2:])
    bits = int(pairs, 16) if pairs else 0
    return "/" in two.strip("/") and all(bits >> place & 1 for place in _places(two))


def _lists(call: Call) -> bool:
    """Whether the call may show names of files."""
    return call.kind == "search" or (call.script is not None and not call.script.damage)


def _names(kept: list[str], text: str, most: int) -> list[str]:
    """The file names in a text, after those already kept, at most `most` of 40 characters."""
    return [*kept, *dict.fromkeys(n[:40] for n in _NAMES.findall(text))][-most:]


def _read_only(call: Call) -> list[str]:
    """The fixed paths that a call reads where it does nothing else, [] for any other call."""
    if call.kind not in ("read", "shell") or (call.script and (call.script.damage or "2>" in (call.command or ""))):
        return []
    effects = call.effects
    if not effects or any(e.kind != "read" for e in effects):
        return []
    paths = [p for e in effects for p in e.paths]
    return [] if any(re.search(r"[$*?`]", p) for p in paths) else paths
