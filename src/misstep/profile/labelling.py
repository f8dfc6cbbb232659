"""Labels of error steps from a frozen taxonomy: several, one or none, from the fixed list alone (MiRL, taxonomy).

    labels.jsonl          what the annotator says
    labels.draw.jsonl     of a sample, another draw of the same model
    labels.second.jsonl   of that sample, another model

Each: {"schema":"misstep.labels","taxonomy": SHA-256, ...}, then {path, n, step, call, labels: [id] | null, reason, failure}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misstep.profile.cards import ROOM, Case, cases
from misstep.profile.labels import StepLabel
from misstep.profile.lines import Lines, LinesError, Record, read
from misstep.profile.taxonomy import Key, Taxonomy

if TYPE_CHECKING:
    from misstep.profile.annotator import Annotator
    from misstep.profile.asking import Asker

SCHEMA, VERSION = "misstep.labels", 1
FILES = {"first": "labels.jsonl", "draw": "labels.draw.jsonl", "second": "labels.second.jsonl"}


@dataclass(frozen=True, slots=True)
class Labels:
    """What one reading of the steps gave."""

    model: str
    types: dict[Key, tuple[str, ...] | None]
    """None: no valid answer. (): no type of the list."""
    reasons: dict[Key, str]
    failures: dict[str, int]
    """Kind -> steps."""


async def label(
    taxonomy: Taxonomy,
    steps: Sequence[StepLabel],
    folder: Path,
    annotator: Annotator,
    asker: Asker[Case],
    reading: str = "first",
) -> Labels:
    """Labels the steps that are not yet in the reading's file.

    Raises:
        Stopped, LinesError.
    """
    from misstep.profile.annotator import identities

    draw = int(reading == "draw")
    head = {
        "schema": SCHEMA,
        "version": VERSION,
        "taxonomy": taxonomy.sha256,
        "prompts": identities("label_step"),
        "annotator": annotator.identity,
        "draw": draw,
        "room": ROOM.identity,
    }
    with Lines(
        folder / FILES[reading], head, _key, lambda record: not record["failure"].startswith("rejected")
    ) as kept:
        todo = [one for one in steps if one.key not in kept]

        async def ask(case: Case) -> tuple[tuple[str, ...], str]:
            return await annotator.label(taxonomy.types, case, draw)

        def keep(case: Case, answer: tuple[tuple[str, ...], str] | None, failure: str) -> None:
            path, n, step, call = case.key
            labels, reason = (None, "") if answer is None else (list(answer[0]), answer[1])
            kept.add(
                {"path": path, "n": n, "step": step, "call": call, "labels": labels, "reason": reason, "failure": failure}
            )  # fmt: skip

        what = {"first": "label", "draw": "label again", "second": "label by the second"}[reading]
        await asker.all(what, cases(todo), ask, keep, len(todo))
        kept.finish()
        return _labels(kept.header, list(kept.records.values()))


def sample(steps: Sequence[StepLabel], size: int) -> list[StepLabel]:
    """So many steps at random, the same for every reading; in order of their keys."""

    def chance(one: StepLabel) -> bytes:
        told = repr((one.task, one.trajectory, one.step, one.call))
        return blake2b(told.encode("utf-8", "surrogatepass")).digest()

    drawn = nsmallest(size, steps, key=lambda one: (chance(one), one.key))
    return sorted(drawn, key=lambda one: one.key)


def load(folder: Path, taxonomy: Taxonomy, reading: str = "first") -> Labels | None:
    """A reading, None where there is none.

    Raises:
        LinesError: the file is none, or of another taxonomy.
    """
    path = folder / FILES[reading]
    if not path.exists():
        return None
    found, _ = read(path)
    if found[0].get("schema") != SCHEMA or found[0].get("version") != VERSION:
        raise LinesError(f"{path}:1: schema {SCHEMA} of version {VERSION} was expected")
    if found[0].get("taxonomy") != taxonomy.sha256:
        raise LinesError(f"{path}:1: labels of another taxonomy than {folder / 'taxonomy.json'}")
    try:
        return _labels(found[0], found[1:])
    except (KeyError, TypeError, ValueError):
        raise LinesError(f"{path}: a line is no labelled step") from None


def _labels(head: Record, records: Sequence[Record]) -> Labels:
    failures: dict[str, int] = {}
    types: dict[Key, tuple[str, ...] | None] = {}
    for record in records:
        types[_key(record)] = None if record["labels"] is None else tuple(record["labels"])
        if record["failure"]:
            kind = record["failure"].partition(":")[0]
            failures[kind] = failures.get(kind, 0) + 1
    return Labels(head["annotator"]["model"], types, {_key(one): one["reason"] for one in records}, failures)


def _key(record: Record) -> Any:
    return (record["path"], record["n"], record["step"], record["call"])
