"""Readers: one module an agent's format, told by content, never by name.

A module of this package is a reader. It has

* `FORMAT: str`, the format's name;
* `matches(source: Source) -> bool` for a file, told by what is in it, and/or
* `matches_folder(folder: Path, names: frozenset[str]) -> bool` for formats that are a folder (a Harbor trial,
  an OpenHands event folder): a folder that matches is one unit, and nothing below it is read on its own;
* `read(source: Source) -> Iterator[Trajectory]`. It never raises on bad content: what it cannot use it counts
  in `Trajectory.skipped` by reason. A recognised file with nothing to tell yields nothing, with the reason in
  `source.skipped`.
"""

from .source import Source, Unreadable, read, reader_of, units

__all__ = ["Source", "Unreadable", "read", "reader_of", "units"]
