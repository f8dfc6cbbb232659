"""A taxonomy: types of error with their names and definitions, drafted in stages and then frozen.

    types.json      built: types that recur in batches of error cards
    refined.json    refined: types after passes over all cards, those below 1 % left out
    taxonomy.json   frozen: what steps are labelled with. Its SHA-256 stands in it, and it is never edited

A person may edit names and definitions in a draft, or take types out, before the next stage reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

SCHEMA, VERSION = "misstep.taxonomy", 1
FILES = {"built": "types.json", "refined": "refined.json", "frozen": "taxonomy.json"}

Key = tuple[str, int, int, int]
"""(path, n, step, call) of a judged step."""


class TaxonomyError(ValueError):
    """A taxonomy that cannot be used: one line that names the file and what was expected."""


def slug(text: str) -> str:
    """The id that a name makes: lower-case words joined by '-', at most 64 characters."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    made = "-".join(words)
    while len(made) > 64:
        words = words[:-1]
        made = "-".join(words) if words else made[:64]
    return made


@dataclass(frozen=True, slots=True)
class Example:
    """An error step that shows a type."""

    path: str
    n: int
    step: int
    call: int
    card: str

    @property
    def key(self) -> Key:
        return (self.path, self.n, self.step, self.call)


@dataclass(frozen=True, slots=True)
class ErrorType:
    """One type of error."""

    id: str
    name: str
    """Completes 'The agent ...'."""
    definition: str
    since: int = 0
    """The pass that proposed it; 0: the batches that the taxonomy was built from."""
    batches: int = 0
    """In how many of those it was proposed (a type since a later pass: in how many of that pass)."""
    cards: int = 0
    """That were assigned to it; in a built draft: that it was proposed for."""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class Taxonomy:
    """Types and how they came about."""

    stage: str
    """built | refined | frozen"""
    made: Mapping[str, Any]
    """Prompts, model and parameters: what decides it."""
    types: tuple[ErrorType, ...]
    """By id."""
    tail: tuple[Mapping[str, Any], ...] = ()
    """What was proposed and not kept: {name, definition, batches, cards, why}."""
    cards: int = 0
    """Error cards that there were."""
    batches: int = 0
    passes: tuple[Mapping[str, Any], ...] = ()
    """Of refinement: {pass, types, asked, covered, coverage, gain, added}."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What was asked -> {asked, and kind of failure -> how often}."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one.id for one in self.types)

    def plain(self) -> dict[str, Any]:
        """As kept in a file, without the hash."""
        return {"schema": SCHEMA, "version": VERSION, **json.loads(json.dumps(asdict(self)))}

    @property
    def sha256(self) -> str:
        """Of everything in it."""
        return hashlib.sha256(json.dumps(self.plain(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @classmethod
    def from_plain(cls, given: Mapping[str, Any]) -> Taxonomy:
        """Back from a file. Raises TaxonomyError."""
        if given.get("schema") != SCHEMA or given.get("version") != VERSION:
            raise TaxonomyError(f"schema {SCHEMA} of version {VERSION} was expected, not {given.get('schema')!r}")
        try:
            types = tuple(
                ErrorType(**{**one, "examples": tuple(Example(**e) for e in one.get("examples", ()))})
                for one in given["types"]
            )
            more = {name: tuple(given.get(name, ())) for name in ("tail", "passes")}
            made = cls(
                given["stage"], given["made"], types, cards=given["cards"], batches=given["batches"],
                asked=given["asked"], **more,
            )  # fmt: skip
        except (KeyError, TypeError) as error:
            raise TaxonomyError(f"no taxonomy: {error}") from None
        made.check()
        return made

    def check(self) -> None:
        """Raises TaxonomyError where labels could not be given by it."""
        for one in self.types:
            texts = (one.id, one.name, one.definition)
            if not all(isinstance(text, str) and text.strip() for text in texts) or one.id != slug(one.id):
                raise TaxonomyError(
                    f"type {one.id!r}: id (words joined by '-'), name and definition are texts, not empty"
                )
        twice = [name for name in self.ids if self.ids.count(name) > 1]
        if twice:
            raise TaxonomyError(f"two types have the id {twice[0]!r}")

    def frozen(self) -> Taxonomy:
        """The same, to label with."""
        if not self.types:
            raise TaxonomyError("no type is in it: nothing to freeze")
        return replace(self, stage="frozen", types=tuple(sorted(self.types, key=lambda one: one.id)))


def save(folder: Path, taxonomy: Taxonomy) -> Path:
    """Writes the file of the taxonomy's stage, whole or not at all.

    Raises:
        TaxonomyError: another frozen one is there: it is never edited.
    """
    path = folder / FILES[taxonomy.stage]
    if taxonomy.stage == "frozen" and path.exists():
        if load(path).sha256 != taxonomy.sha256:
            raise TaxonomyError(
                f"{path}: is frozen, and another taxonomy than this: name another folder, or remove it and its labels"
            )
        return path
    plain = taxonomy.plain()
    if taxonomy.stage == "frozen":
        plain["sha256"] = taxonomy.sha256
    fresh = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="\n", encoding="utf-8") as file:  # fmt: skip
        file.write(json.dumps(plain, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace").decode() + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    return path


def load(path: Path) -> Taxonomy:
    """A taxonomy from its file, or the frozen one of a folder.

    Raises:
        TaxonomyError: the file and what is wrong: a frozen one whose content is not that of its hash among it.
    """
    path = path / FILES["frozen"] if path.is_dir() else path
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TaxonomyError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise TaxonomyError(f"{path}: no JSON: {error}") from None
    if not isinstance(given, dict):
        raise TaxonomyError(f"{path}: a JSON object was expected")
    try:
        made = Taxonomy.from_plain(given)
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None
    if made.stage == "frozen" and given.get("sha256") != made.sha256:
        raise TaxonomyError(f"{path}: was changed after it was frozen (its SHA-256 is another)")
    return made


def examples(cards: Iterable[tuple[Key, str, str]], most: int = 5) -> tuple[Example, ...]:
    """Some of (key, environment, card), of different environments first; which, does not depend on where their records lie."""

    def chance(one: tuple[Key, str, str]) -> bytes:
        return hashlib.blake2b(repr((one[0][2:], *one[1:])).encode("utf-8", "surrogatepass")).digest()

    order = sorted(cards, key=lambda one: (chance(one), one[0]))
    seen: set[str] = set()
    first: list[tuple[Key, str, str]] = []
    rest: list[tuple[Key, str, str]] = []
    for one in order:
        (rest if one[1] in seen else first).append(one)
        seen.add(one[1])
    return tuple(Example(*key, card) for key, _, card in (first + rest)[:most])
