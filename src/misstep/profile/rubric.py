"""Rubrics (Rubrics as Rewards): a model writes a task's criteria once, before; a judge grades an attempt by them.

rubrics.jsonl   {"schema":"misstep.rubrics", ...}, then one task a line: {task, sha256, items: [{text, importance}], failure}

Explicit grade: every item is met or not, r = sum(w c) / sum(w). Implicit: one number for the whole.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from misstep.models import ModelError
from misstep.profile.judges import SECONDS, Asking, Ruling, ending
from misstep.profile.labels import PASSING
from misstep.profile.lines import Lines, LinesError, Record, read
from misstep.profile.localizer import KINDS, failure
from misstep.profile.prompts import load
from misstep.profile.view import Room, Views
from misstep.trajectory import Trajectory

if TYPE_CHECKING:
    from misstep.models import Client

try:
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as error:  # pragma: no cover
    raise ImportError("rubrics need more packages: pip install 'misstep[models]'") from error

FILE, SCHEMA, VERSION = "rubrics.jsonl", "misstep.rubrics", 1
LEAST, MOST = 7, 20
"""Items of a rubric."""
WEIGHTS = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}
"""The kinds are those of Rubrics as Rewards, the numbers ours."""
GRADED = Room(prefix=60_000, text=2_000, output=2_000)
"""Of the steps that are graded."""
Importance = Literal["essential", "important", "optional", "pitfall"]


class Item(BaseModel):
    """One criterion; a pitfall is worded so that it is met where the mistake is avoided."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str = Field(description="One thing that a grader answers with met or not met.")
    importance: Importance

    @property
    def weight(self) -> float:
        return WEIGHTS[self.importance]


class Written(BaseModel):
    """What the writer answers."""

    model_config = ConfigDict(extra="forbid")
    items: list[Item]


class MetItem(BaseModel):
    """Of one item."""

    model_config = ConfigDict(extra="forbid")
    number: int
    reason: str = Field(description="One sentence.")
    met: bool


class Met(BaseModel):
    """What the explicit grader answers."""

    model_config = ConfigDict(extra="forbid")
    items: list[MetItem]


class Graded(BaseModel):
    """What the implicit grader answers."""

    model_config = ConfigDict(extra="forbid")
    reason: str
    grade: int = Field(description="From 0 to 10.")


@dataclass(frozen=True, slots=True)
class Grade:
    """What a grader says of an attempt."""

    value: float | None
    """0 to 1; None: unknown, for the reason in `failure`."""
    met: tuple[bool | None, ...] = ()
    """Of each item; () where one grade was asked for."""
    reasons: tuple[str, ...] = ()
    failure: str = ""


def weighted(items: Sequence[Item], met: Sequence[bool]) -> float:
    """sum(w c) / sum(w). Raises ValueError where there are no items, or not as many answers."""
    if not items or len(items) != len(met):
        raise ValueError(f"{len(met)} answers to {len(items)} items")
    return sum(item.weight for item, one in zip(items, met, strict=True) if one) / sum(item.weight for item in items)


def problem_of(made: Written) -> str | None:
    """What is wrong with a rubric, None where nothing is."""
    texts = [" ".join(one.text.lower().split()) for one in made.items]
    if not LEAST <= len(texts) <= MOST:
        return f"a rubric has {LEAST} to {MOST} items, not {len(texts)}"
    if not all(texts):
        return "the text of an item is empty"
    if len(set(texts)) < len(texts):
        return "two items have the same text"
    kinds = {one.importance for one in made.items}
    missing = [name for name in ("essential", "pitfall") if name not in kinds]
    return f"no item is {' or '.join(missing)}" if missing else None


class RubricWriter:
    """Writes a task's rubric, from the task alone. The role is `annotator`: it need not be the judge's model."""

    def __init__(self, client: Client, role: str = "annotator") -> None:
        self.client, self.role, self._prompt = client, role, load("rubric_write")

    def header(self) -> dict[str, Any]:
        """The first line of a file of rubrics: all that decides what is in it."""
        role = self.client.settings.role(self.role)
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "prompts": [self._prompt.identity],
            "model": role.model,
            "sampling": role.sampling(),
            "structured": role.structured,
        }

    async def write(self, instruction: str) -> tuple[Item, ...]:
        """7 to 20 items. Raises ModelError."""
        messages = self._prompt.render(task=instruction)
        reply = await self.client.ask(self.role, messages, Written, check=problem_of)
        return tuple(reply.value.items)


async def write_all(
    tasks: Iterable[tuple[str, str]], writer: RubricWriter, path: Path, at_once: int = 8
) -> dict[str, str]:
    """Rubrics of (task's name, instruction) that the file does not have yet. Task -> failure, of those that got none.

    Raises LinesError, CacheError, SettingsError.
    """
    slots, failures = asyncio.Semaphore(at_once), dict[str, str]()
    with Lines(
        path, writer.header(), key=lambda one: (one["task"], one["sha256"]),
        final=lambda one: one["failure"].partition(":")[0] not in PASSING,
    ) as kept:  # fmt: skip

        async def one(task: str, instruction: str) -> None:
            sha256 = hashlib.sha256(instruction.encode("utf-8", "surrogatepass")).hexdigest()
            if (task, sha256) not in kept:
                record: Record = {"task": task, "sha256": sha256, "items": [], "failure": ""}
                async with slots:
                    try:
                        record["items"] = [item.model_dump() for item in await writer.write(instruction)]
                    except ModelError as error:
                        if type(error) not in KINDS:
                            raise
                        record["failure"] = failure(error)
                kept.add(record)
            why = kept.records[task, sha256]["failure"]
            if why:
                failures[task] = why

        await asyncio.gather(*(one(*given) for given in tasks))
        kept.finish()
    return dict(sorted(failures.items()))


def load_rubrics(path: Path) -> dict[str, tuple[Item, ...]]:
    """Task -> items, of those that have some. `path`: the file, or its folder. Raises LinesError."""
    path = path / FILE if path.is_dir() else path
    found, _ = read(path)
    if found[0].get("schema") != SCHEMA or found[0].get("version") != VERSION:
        raise LinesError(f"{path}:1: schema {SCHEMA} of version {VERSION} was expected, not {found[0].get('schema')!r}")
    rubrics: dict[str, tuple[Item, ...]] = {}
    for number, one in enumerate(found[1:], 2):
        try:
            items = tuple(Item(**item) for item in one["items"])
        except (KeyError, TypeError, ValueError) as error:
            raise LinesError(f"{path}:{number}: no rubric: {' '.join(str(error).split())[:200]}") from None
        if items:
            rubrics[one["task"]] = items
    return rubrics


class RubricScorer(Asking):
    """Grades an attempt by a rubric. None where the model gave no valid answer: never 0.

    Args:
        implicit: one grade for the whole in the place of an answer to each item.
    """

    prompts = ("rubric_score", "rubric_score_whole")

    def __init__(
        self, client: Client, role: str = "judge", *, implicit: bool = False, seconds: float = SECONDS, name: str = ""
    ) -> None:
        super().__init__(client, role, seconds=seconds, name=name)
        self.implicit = implicit

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides its answers."""
        return {**super().identity, "implicit": self.implicit, "room": GRADED.identity}

    async def grade(self, trajectory: Trajectory, items: Sequence[Item]) -> Grade:
        """Of a whole attempt. Never raises a ModelError. Raises ValueError where there are no items."""
        if not items:
            raise ValueError("a rubric without items grades nothing")
        found: list[Grade] = []

        async def work() -> Ruling:
            found.append(await (self._whole if self.implicit else self._each)(trajectory, items))
            return Ruling(True)

        ruling = await self.within(work())
        return found[0] if ruling.holds else Grade(None, failure=ruling.failure)

    async def _each(self, trajectory: Trajectory, items: Sequence[Item]) -> Grade:
        wanted = list(range(1, len(items) + 1))

        def check(made: Met) -> str | None:
            numbers = sorted(one.number for one in made.items)
            return (
                None
                if numbers == wanted
                else f"items must hold the numbers 1 to {len(items)}, each once, not {numbers[:50]}"
            )

        values = {**_values(trajectory, items), "count": len(items)}
        made = await self.ask(load("rubric_score").render(**values), Met, check)
        answers = sorted(made.items, key=lambda one: one.number)
        met = tuple(one.met for one in answers)
        return Grade(weighted(items, met), met, tuple(one.reason.strip() for one in answers))

    async def _whole(self, trajectory: Trajectory, items: Sequence[Item]) -> Grade:
        def check(made: Graded) -> str | None:
            return None if 0 <= made.grade <= 10 else f"grade is from 0 to 10, not {made.grade}"

        made = await self.ask(load("rubric_score_whole").render(**_values(trajectory, items)), Graded, check)
        return Grade(made.grade / 10, reasons=(made.reason.strip(),))


def _values(trajectory: Trajectory, items: Sequence[Item]) -> dict[str, Any]:
    views = Views(trajectory, GRADED)
    steps = views.before(
        len(trajectory.steps)
    )  # where there are too many, those after the first are left out, with a note
    end = ending(trajectory)
    listed = "\n".join(f"{n}. ({item.importance}) {item.text}" for n, item in enumerate(items, 1))
    return {"task": views.task, "steps": f"{steps}\n{end}" if steps else "(the agent did nothing)", "items": listed}
