"""Readers: one module an agent's format, told by content, never by name.

A module of this package is a reader. It has

* `FORMAT: str`, the format's name;
* `matches(source: Source) -> bool` for a file, told by what is in it, and/or
* `matches_folder(folder: Path, names: frozenset[str]) -> bool` for formats that are a folder (a Harbor trial,
  an OpenHands event folder): a folder that matches is one unit, and nothing below it is read on its own;
* `read(source: Source) -> Iterator[Trajectory]`. It never raises on bad content: what it cannot use it counts
  in `Trajectory.skipped` by reason (once, with the file's first trajectory). A recognised file with nothing to
  tell yields nothing, with the reason in `source.skipped`.

`matches` is asked for every file that a scan walks over: it looks at `source.head` (the first records), `source.edges`
(first and last bytes) or `source.document` (parsed only where the file starts like one), never at `source.records`.
Modules whose name starts with `_` are helpers.
"""

from .source import Source, Unreadable, read, reader_of, units

__all__ = ["Source", "Unreadable", "read", "reader_of", "units"]
