"""The result of a scan: records in their order, on disk while they are many, and the files they are written to.

A result file is JSONL. The first line is the header, then one line for each trajectory and each unit that could
not be read, in the order of their paths, then a last line: the summary, or for a shard the end mark
that says that it is complete.
"""

from __future__ import annotations

import json
import os
from collections import Counter

from .copies import Steps, copies
from .encode import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, Any

    Header = dict[str, Any]
    """schema, misstep (version), missteps {id: {name, status, scoped, policies}}, filters, shard ([i, n] or null)."""

SCHEMA = "misstep-scan/1"
HELD = 64 << 20
"""Roughly how many bytes of records are held in memory; the rest waits on disk."""


class BadInput(Exception):
    """The request cannot be met; the message is one clear line."""


class _Entry:
    """A record that was taken in: itself, or where it stands on disk."""

    __slots__ = ("at", "id", "key", "steps")

    def __init__(self, key: tuple[str, int], at: dict[str, Any] | tuple[int, int], steps: Steps | None, id: str):
        self.key = key
        self.at = at
        self.steps = steps
        self.id = id


_SEPARATORS = set(" \t\r\n#")


def _short(name: str) -> str:
    """The start of an id that mostly suffices to name it: of a uuid its first part."""
    return name[:8] if len(name) == 36 and name[8::5][:4] == "----" and name.count("-") == 4 else name


class Result:
    """Records in any order in, in their own order out. Memory holds HELD bytes of them, and a few hundred bytes of each."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.units = 0
        self.filtered: Counter[str] = Counter()
        """Trajectories that a filter left out, by the filter."""
        self.agents: set[str] = set()
        """The agents of all trajectories, those that a filter left out among them."""
        self._entries: list[_Entry] = []
        self._held = 0
        self._spool: IO[bytes] | None = None
        self._copies: dict[tuple[str, int], tuple[str, int]] | None = None
        self._names: Counter[str] = Counter()

    def add(self, record: dict[str, Any]) -> None:
        """Take in a record (a trajectory or a skipped unit)."""
        self._copies = None
        steps = None
        if record["kind"] == "trajectory":
            key = (record["path"], record["n"])
            started = record["started"]
            steps = Steps(key, bytes.fromhex(record["ids"]), float("inf") if started is None else started)
        else:
            key = (record["path"], -1)
        self._entries.append(_Entry(key, self._keep(record), steps, record.get("id", "")))

    def _keep(self, record: dict[str, Any]) -> dict[str, Any] | tuple[int, int]:
        """The record itself while they are few, else its (offset, length) on disk."""
        if self._held < HELD:
            self._held += 1000 + 2000 * len(record.get("context", ()))
            return record
        if self._spool is None:
            import tempfile

            self._spool = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the result)
        line = encode(record)
        offset = self._spool.seek(0, os.SEEK_END)
        self._spool.write(line)
        return offset, len(line)

    def _get(self, entry: _Entry) -> dict[str, Any]:
        if isinstance(entry.at, dict):
            return entry.at
        assert self._spool is not None
        self._spool.seek(entry.at[0])
        record: dict[str, Any] = json.loads(self._spool.read(entry.at[1]))
        return record

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The records in order. A trajectory has `ref`, its shortest unambiguous name for `misstep show`; a copy of another
        one says of which, as `copy_of`: [path, n]."""
        if self._copies is None:
            self._entries.sort(key=lambda e: e.key)
            self._copies = copies(e.steps for e in self._entries if e.steps is not None)
            self._names.clear()
            for entry in self._entries:
                if entry.steps is not None and entry.key not in self._copies:
                    self._names.update({entry.id, _short(entry.id)})
        for entry in self._entries:
            record = self._get(entry)
            kept = self._copies.get(entry.key)
            if entry.steps is not None:
                record["ref"] = self._ref(entry)
            if kept is not None:
                record["copy_of"] = list(kept)
            yield record

    def _ref(self, entry: _Entry) -> str:
        for name in (_short(entry.id), entry.id):
            if len(name) >= 4 and self._names[name] == 1 and name[0] not in "-~/." and not set(name) & _SEPARATORS:
                return name
        path, n = entry.key
        return f"{path}::{n}" if n else path

    def clash(self) -> str | None:
        """A path and place that two records claim, None where there is none."""
        seen: set[tuple[str, int]] = set()
        for entry in self._entries:
            if entry.key in seen:
                return entry.key[0]
            seen.add(entry.key)
        return None

    def write(self, out: IO[bytes], summary: dict[str, Any] | None) -> None:
        """The result as JSONL; without a summary it is a shard."""
        out.write(encode(self.header) + b"\n")
        count = 0
        for record in self:
            if summary is None:  # whether it is a copy is told when the shards are together
                record.pop("copy_of", None)
                record.pop("ref", None)
            out.write(encode(record) + b"\n")
            count += 1
        end = {"units": self.units, "records": count, "filtered": dict(sorted(self.filtered.items()))}
        last = {"kind": "end", **end} if summary is None else {"kind": "summary", **end, **summary}
        out.write(encode(last) + b"\n")


def merge(paths: Iterable[str | os.PathLike[str]]) -> Result:
    """The result of all shards together: exactly that of one scan. Raises BadInput naming the file and line."""
    merged: Result | None = None
    seen: dict[int, str] = {}
    count = None
    for path in paths:
        header, shard = None, None
        for number, line in _lines(os.fspath(path)):
            if header is None:
                header = _header(path, line)
                shard, header["shard"] = header.get("shard"), None
                if merged is None:
                    merged = Result(header)
                elif header != merged.header:
                    raise BadInput(f"{path}: line 1: {_difference(header, merged.header)}")
                count = shard[1] if shard and not seen else count
                if bool(shard) != bool(count) or (shard and shard[1] != count):
                    raise BadInput(f"{path}: line 1: not a shard of the same scan as the files before it")
                if shard and shard[0] in seen:
                    raise BadInput(f"{path}: line 1: shard {shard[0]}/{shard[1]} was given before: {seen[shard[0]]}")
                if shard:
                    seen[shard[0]] = str(path)
                records, complete = 0, False
                continue
            assert merged is not None
            if complete:
                raise BadInput(f"{path}: line {number}: more lines after the end mark")
            kind = line.get("kind")
            if kind in ("trajectory", "skipped"):
                _like(path, number, line, kind)
                merged.add({k: v for k, v in line.items() if k not in ("copy_of", "ref")})
                records += 1
            elif kind in ("end", "summary"):
                _like(path, number, line, "end")
                if line.get("records") != records:
                    raise BadInput(f"{path}: line {number}: {line.get('records')} records expected, {records} found")
                merged.units += line["units"]
                merged.filtered.update(line["filtered"])
                complete = True
            else:
                raise BadInput(f"{path}: line {number}: a record of an unknown kind")
        if header is None:
            raise BadInput(f"{path}: empty: expected the file that `misstep scan --json` writes")
        if not complete:
            raise BadInput(f"{path}: incomplete (no end mark): run this shard again")
    if merged is None:
        raise BadInput("no shards to merge")
    if count and len(seen) < count:
        missing = ", ".join(f"{i}/{count}" for i in range(1, count + 1) if i not in seen)
        raise BadInput(f"shards are missing: {missing}")
    clash = merged.clash()
    if clash:
        raise BadInput(f"{clash}: stands in two of the files")
    return merged


def _lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            for number, line in enumerate(file, 1):
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise BadInput(f"{path}: line {number}: not JSON: run this shard again") from error
                if not isinstance(value, dict):
                    raise BadInput(f"{path}: line {number}: not an object")
                yield number, value
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def _header(path: str | os.PathLike[str], line: dict[str, Any]) -> Header:
    if line.get("kind") != "header" or "schema" not in line:
        raise BadInput(f"{path}: line 1: no header: expected the file that `misstep scan --json` writes")
    if line["schema"] != SCHEMA:
        raise BadInput(f"{path}: line 1: schema {line['schema']!r}, this version reads {SCHEMA!r}")
    _like(path, 1, line, "header")
    if line["shard"] and not 1 <= line["shard"][0] <= line["shard"][1]:
        raise BadInput(f"{path}: line 1: shard is not [i, n] with 1 <= i <= n")
    return line


def _like(path: str | os.PathLike[str], number: int, line: dict[str, Any], kind: str) -> None:
    from .shape import KINDS, problem

    wrong = problem(line, KINDS[kind])
    if wrong:
        raise BadInput(f"{path}: line {number}: not a record of a scan: {wrong}")


_OTHER = {"missteps": "other missteps", "filters": "other filters", "misstep": "another version of misstep"}


def _difference(one: Header, other: Header) -> str:
    for name in sorted(set(one) | set(other)):
        if one.get(name) != other.get(name):
            return f"{_OTHER.get(name, f'another {name}')} than the files before it: they are not of one scan"
    return "not of the same scan as the files before it"
