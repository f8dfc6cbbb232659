"""How good a judge is: its answers against labels, and against another judge's.

judged.jsonl    {"schema":"misstep.judged", ...}, then one answer a line: {judge, identity, case, type, label, holds, reason, failure, by}

A failure is no answer: it counts beside the shares, and in none of them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

from misstep.profile.cases import Case
from misstep.profile.judges import BehaviourJudge, EquivalenceJudge, Ruling, digest
from misstep.profile.labels import PASSING
from misstep.profile.lines import Lines, Record
from misstep.profile.rubric import Item, RubricScorer
from misstep.profile.summary import Share
from misstep.stats import Agreement, cohen_kappa

FILE, SCHEMA, VERSION = "judged.jsonl", "misstep.judged", 1
IN_A_ROW = 20
"""Cases that a server refuses, or leaves unanswered, one after the other: it would do so with all."""
ALL = ""
"""Stands for all types together."""

Watch = Callable[[str, int, int], None]
"""Told (judge, answers, of how many) as it goes on."""


class Examinee(Protocol):
    """A judge under examination: it answers some cases in one question."""

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> Mapping[str, Any]: ...
    async def rule(self, cases: Sequence[Case]) -> Sequence[Ruling]: ...


@dataclass(frozen=True)
class OfBehaviour:
    """A behaviour judge."""

    judge: BehaviourJudge

    @property
    def name(self) -> str:
        return self.judge.name

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.judge.identity

    async def rule(self, cases: Sequence[Case]) -> Sequence[Ruling]:
        made = []
        for case in cases:
            assert case.trajectory is not None and case.sought is not None
            made.append(await self.judge.judge(case.trajectory, case.first, case.end, case.sought))
        return made


@dataclass(frozen=True)
class OfEquivalence:
    """An equivalence judge."""

    judge: EquivalenceJudge

    @property
    def name(self) -> str:
        return self.judge.name

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.judge.identity

    async def rule(self, cases: Sequence[Case]) -> Sequence[Ruling]:
        return [await self.judge.judge(one.task, one.before, one.reference, one.candidate) for one in cases]


@dataclass(frozen=True)
class OfRubric:
    """A grader: whether each item of a rubric is met."""

    judge: RubricScorer

    @property
    def name(self) -> str:
        return self.judge.name

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.judge.identity

    async def rule(self, cases: Sequence[Case]) -> Sequence[Ruling]:
        assert cases[0].trajectory is not None
        items = [Item(text=one.text, importance=one.type) for one in cases]  # type: ignore[arg-type]
        grade = await self.judge.grade(cases[0].trajectory, items)
        if grade.value is None:
            return [Ruling(None, failure=grade.failure)] * len(cases)
        return [Ruling(met, reason) for met, reason in zip(grade.met, grade.reasons, strict=True)]


class Stopped(Exception):
    """Not all was judged: the same command goes on with it. The text is one line."""


def header(judge: str, labels: Path) -> dict[str, Any]:
    """The first line of the answers' file."""
    sha256 = hashlib.sha256(labels.read_bytes()).hexdigest()
    return {"schema": SCHEMA, "version": VERSION, "judge": judge, "labels": sha256}


def lines(folder: Path, head: Mapping[str, Any]) -> Lines:
    """The answers' file, open for going on. Raises LinesError where the folder holds answers to other cases."""
    return Lines(
        folder / FILE, head, key=lambda one: (one["judge"], one["identity"], one["case"]),
        final=lambda one: one["failure"].partition(":")[0] not in (*PASSING, "timeout", "cache"),
    )  # fmt: skip


async def examine(
    cases: Sequence[Case], examinee: Examinee, kept: Lines, at_once: int, watch: Watch | None = None
) -> list[Record]:
    """The judge's answers to all cases, in their order; those that the file has are not asked for again.

    Raises:
        Stopped: the budget is used up, or the server answers nothing.
    """
    identity = digest(dict(examinee.identity))
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.group or case.id, []).append(case)
    todo = iter([g for g in groups.values() if not all((examinee.name, identity, c.id) in kept for c in g)])
    done = len(cases) - sum((examinee.name, identity, c.id) not in kept for c in cases)
    row = 0

    async def worker() -> None:
        nonlocal done, row
        for group in todo:
            rulings = await examinee.rule(group)
            for case, one in zip(group, rulings, strict=True):
                kept.add(_record(examinee.name, identity, case, one))
                done += 1
            if watch is not None:
                watch(examinee.name, done, len(cases))
            kind = rulings[0].failure.partition(":")[0]
            row = row + 1 if kind in ("unreachable", "rejected", "timeout") else 0
            if kind == "budget" or row >= IN_A_ROW:
                raise Stopped(f"{examinee.name}: {rulings[0].failure}")

    workers = [asyncio.ensure_future(worker()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    finally:
        for one in workers:
            one.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [kept.records[examinee.name, identity, case.id] for case in cases]


def _record(name: str, identity: str, case: Case, one: Ruling) -> Record:
    return {
        "judge": name, "identity": identity, "case": case.id, "type": case.type, "label": case.label, "holds": one.holds,
        "reason": one.reason, "failure": one.failure, "by": one.by,
    }  # fmt: skip


@dataclass(frozen=True)
class Score:
    """A judge on the cases of one type, or of all."""

    judge: str
    type: str
    """`ALL`: all types together."""
    cases: int
    positives: int
    """Labelled yes."""
    precision: Share
    """Of its yes, those labelled yes."""
    recall: Share
    """Of those labelled yes and answered, its yes."""
    specificity: Share
    """Of those labelled no and answered, its no."""
    kappa: Agreement
    """With the labels."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Kind -> cases without an answer."""
    without_a_call: int = 0
    """Answered by similarity."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        shares = {name: getattr(self, name).plain() for name in ("precision", "recall", "specificity")}
        return {
            "judge": self.judge, "type": self.type or "all", "cases": self.cases, "positives": self.positives, **shares,
            "kappa": agreement(self.kappa), "failures": dict(self.failures), "without_a_call": self.without_a_call,
        }  # fmt: skip


def agreement(given: Agreement) -> dict[str, Any]:
    """For JSON."""
    interval = None if given.interval is None else [given.interval[0], given.interval[1]]
    return {"cases": given.items, "observed": given.observed, "kappa": given.kappa, "interval": interval}


def score(records: Iterable[Record], judge: str, type: str = ALL) -> Score:
    """What a judge's answers come to, of one type or of all."""
    mine = [one for one in records if one["judge"] == judge and type in (ALL, one["type"])]
    told = [(one["label"], one["holds"]) for one in mine]
    table = Counter(told)
    yes, no = table[True, True], table[False, False]
    return Score(
        judge, type, len(mine), sum(label for label, _ in told),
        Share(yes, yes + table[False, True]), Share(yes, yes + table[True, False]), Share(no, no + table[False, True]),
        cohen_kappa(told),
        dict(sorted(Counter(one["failure"].partition(":")[0] for one in mine if one["holds"] is None).items())),
        sum(one["by"] == "similarity" for one in mine),
    )  # fmt: skip


def scores(records: Sequence[Record]) -> list[Score]:
    """Every judge, over all types and each of them."""
    judges = list(dict.fromkeys(one["judge"] for one in records))
    types = sorted({one["type"] for one in records} - {ALL})
    return [score(records, judge, name) for judge in judges for name in (ALL, *types)]


def between(records: Sequence[Record]) -> list[tuple[str, str, Agreement]]:
    """The agreement of each two judges, on the cases that both answered."""
    answers: dict[str, dict[str, bool | None]] = {}
    for record in records:
        answers.setdefault(record["judge"], {})[record["case"]] = record["holds"]
    made = []
    for one, other in combinations(answers, 2):
        both = answers[one].keys() & answers[other].keys()
        made.append((one, other, cohen_kappa((answers[one][case], answers[other][case]) for case in sorted(both))))
    return made
