"""Rewards: tests pass (r_o), a misstep is absent (r_e), their conjunction, and those of the recipes MiRL is compared with.

A reward is a number or None. None is unknown, by a fault of the verifier, the judge or the sandbox, or because a detector cannot
tell: it leaves the group's baseline (`advantages`). Every answer is counted by kind in a `Counts`, and each part has its own time
limit. Errors that are none of the named faults are errors of the program, and raised.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from misstep.catalogue import Misstep, get
from misstep.catalogue.fold import judge as fold
from misstep.models.errors import ModelError
from misstep.sandbox.base import SandboxError
from misstep.sandbox.tasks import NoReward, Task
from misstep.train.episode import Attempt
from misstep.train.prefixes import Target
from misstep.trajectory import events

T = TypeVar("T")
M = 3
"""Steps after a prefix that are looked at for its misstep (MiRL's m; the default is ours)."""


class JudgeError(RuntimeError):
    """A judge gave no answer that counts. One line; the text before the first colon is its kind."""


class JudgeStopped(RuntimeError):
    """No answer can be had from a judge any more: the run ends, and another one goes on with it. One line."""


@dataclass(frozen=True, slots=True)
class Score:
    """What a reward says of an attempt."""

    value: float | None
    """None: unknown."""
    why: str = ""
    """Of an unknown: `kind: message`. Else a line of evidence, or ''."""
    parts: Mapping[str, float | None] = field(default_factory=dict)
    """What it is made of, by name."""


@runtime_checkable
class Reward(Protocol):
    """Asked once an attempt is over, while its sandbox still stands and the agent's session in it is over."""

    name: str

    async def __call__(self, attempt: Attempt) -> Score: ...


@dataclass(slots=True)
class Counts:
    """How often each reward gave what: (name, kind) -> count; kind: known, timeout, sandbox, no-reward, judge, unknown ..."""

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, name: str, score: Score) -> Score:
        kind = "known" if score.value is not None else (score.why.partition(":")[0] or "unknown")
        self.kinds[name, kind] += 1
        return score

    def plain(self) -> dict[str, dict[str, int]]:
        """By name, then kind; for steps.jsonl."""
        made: dict[str, dict[str, int]] = {}
        for (name, kind), count in sorted(self.kinds.items()):
            made.setdefault(name, {})[kind] = count
        return made


async def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> T | Score:
    """What the work gives, or an unknown Score where a named fault or the time limit came first."""
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return Score(None, f"timeout: no answer in {seconds:g} s" if seconds is not None else "timeout: no answer")
    except NoReward as error:
        return Score(None, f"no-reward: {error}")
    except SandboxError as error:
        return Score(None, f"sandbox: {error}")
    except (ModelError, JudgeError) as error:
        return Score(None, f"judge: {error}")


def _score(found: Score | Any) -> Score:
    assert isinstance(found, Score)
    return found


class Outcome:
    """r_o: the task's tests pass (every reward of the verifier is 1).

    Args:
        task: the task of an attempt; by default its folder's.
        submitted: grade only attempts that the agent ended itself, the others are 0 (TMax, in training). Evaluation grades all.
        seconds: of the verifier, beside the task's own limit.
    """

    name = "outcome"

    def __init__(
        self,
        *,
        task: Callable[[Attempt], Task] | None = None,
        submitted: bool = True,
        seconds: float = 900.0,
        counts: Counts | None = None,
        executor: Executor | None = None,
    ) -> None:
        self._tasks: dict[str, Task] = {}
        self._task = task or self._load
        self.submitted, self.seconds = submitted, seconds
        # Not the loop's own threads: those are few, and the loop waits for them when it ends.
        self.executor = executor or ThreadPoolExecutor(32, "verifier")
        self.counts = counts or Counts()

    def _load(self, attempt: Attempt) -> Task:
        folder = attempt.start.folder
        if folder not in self._tasks:
            from pathlib import Path

            self._tasks[folder] = Task.load(Path(folder))
        return self._tasks[folder]

    async def __call__(self, attempt: Attempt) -> Score:
        if self.submitted and attempt.ended != "submitted":
            return self.counts.add(self.name, Score(0.0, f"the agent did not submit ({attempt.ended})"))
        return self.counts.add(self.name, _score(await within(self.seconds, self._verify(attempt))))

    async def _verify(self, attempt: Attempt) -> Score:
        if attempt.box is None:
            raise SandboxError("the sandbox is gone")
        loop = asyncio.get_running_loop()
        verdict = await loop.run_in_executor(self.executor, self._task(attempt).verify, attempt.box)
        said = verdict.output.strip().splitlines()
        return Score(float(verdict.passed), said[-1][:200] if said else "")


def window(attempt: Attempt, m: int | None) -> tuple[int, int]:
    """(first, end) of the steps that are looked at, positions in the trajectory: the m next turns of the agent, or all."""
    steps = attempt.trajectory.steps
    if m is None:
        return attempt.first, len(steps)
    left = m
    for number in range(attempt.first, len(steps)):
        if steps[number].source == "agent":
            left -= 1
            if left == 0:
                return attempt.first, number + 1
    return attempt.first, len(steps)


def occurred(attempt: Attempt, misstep: Misstep, m: int | None = M) -> tuple[bool | None, str]:
    """Whether a misstep of the catalogue occurred in the rollout's own next m turns, and the evidence.

    The fold sees everything, prefix and end, so that a state that was built before counts; only verdicts about an event of those
    turns do. None: there is no occurrence, and of some step the detector cannot tell.
    """
    first, end = window(attempt, m)
    steps = {event.index: event.step for event in events(attempt.trajectory)}
    try:
        found = fold(attempt.trajectory, [misstep]).verdicts.get(misstep.id, [])
    except Exception as error:  # of a detector, on what it was not written for: no reason to lose a run
        return None, f"the detector failed: {type(error).__name__}: {error}"
    mine = [one for one in found if first <= steps.get(one.at, -1) < end]
    for one in mine:
        if one.holds:
            return True, one.why
    if any(one.holds is None for one in mine):
        return None, next(one.why for one in mine if one.holds is None)
    return False, ""


@dataclass(frozen=True, slots=True)
class Question:
    """What a behaviour judge is asked: does this type, and no other, occur in these steps (MiRL, the behaviour judge)?"""

    target: Target
    task: str
    attempt: Attempt
    first: int
    """Position in `attempt.trajectory.steps` of the first step to judge."""
    end: int
    """Position after the last."""


@runtime_checkable
class Judge(Protocol):
    """A model that looks for one type of error."""

    async def occurs(self, question: Question) -> bool | None:
        """None: it gave no clear answer. Raises JudgeError, or a ModelError of `misstep.models`."""
        ...


class Behaviour:
    """r_e: 1 where none of the start's targets occurs in the next m turns, 0 where one does, None where it cannot be told.

    A target of the catalogue is judged by its detector, one of a taxonomy by the model. A start without targets gets 1: nothing is
    looked for. Of a task start every turn is looked at, since there is no prefix whose next steps would matter more.

    Args:
        judge: for what no detector knows; needed as soon as such a target comes up.
        always: ask the judge about targets of the catalogue too, in the place of the detector.
        missteps: looks up a detector by id.
    """

    name = "behaviour"

    def __init__(
        self,
        *,
        judge: Judge | None = None,
        m: int | None = M,
        always: bool = False,
        seconds: float = 120.0,
        missteps: Callable[[str], Misstep] = get,
        counts: Counts | None = None,
    ) -> None:
        self.judge, self.m, self.always, self.seconds, self.missteps = judge, m, always, seconds, missteps
        self.counts = counts or Counts()

    async def __call__(self, attempt: Attempt) -> Score:
        parts: dict[str, float | None] = {}
        evidence, unknown = "", ""
        for target in attempt.start.targets:
            one = self.counts.add(f"{self.name}:{target.id}", await self._one(attempt, target))
            parts[target.id] = one.value
            if one.value == 0.0:
                evidence = evidence or f"{target.id}: {one.why}"
            elif one.value is None:
                unknown = unknown or one.why
        if any(value == 0.0 for value in parts.values()):
            return self.counts.add(self.name, Score(0.0, evidence, parts))
        if any(value is None for value in parts.values()):
            return self.counts.add(self.name, Score(None, unknown, parts))
        return self.counts.add(self.name, Score(1.0, "", parts))

    async def _one(self, attempt: Attempt, target: Target) -> Score:
        m = self.m if attempt.start.prefix is not None else None
        if target.kind == "catalogue" and not self.always:
            holds, why = occurred(attempt, self.missteps(target.id), m)
            return _of(holds, why)
        if self.judge is None:
            raise ValueError(f"target {target.id} is of a taxonomy: a judge is needed to tell whether it occurs")
        first, end = window(attempt, m)
        task = attempt.trajectory.steps[0].message if attempt.trajectory.steps else ""
        question = Question(target, task, attempt, first, end)
        found = await within(self.seconds, self.judge.occurs(question))
        return found if isinstance(found, Score) else _of(found, "the judge says so")


def _of(holds: bool | None, why: str) -> Score:
    if holds is None:
        return Score(None, f"unknown: {why or 'it cannot be told'}")
    return Score(0.0 if holds else 1.0, why if holds else "")


class Marker:
    """r_e by a policy's behaviour marker (FIRE's B): 1 where the right behaviour was shown by the end, 0 where not.

    Needs no judge. Only missteps with a marker have one; of the others, and of tasks out of their scope, it is None.
    """

    name = "marker"

    def __init__(self, *, missteps: Callable[[str], Misstep] = get, counts: Counts | None = None) -> None:
        self.missteps = missteps
        self.counts = counts or Counts()

    async def __call__(self, attempt: Attempt) -> Score:
        parts: dict[str, float | None] = {}
        for target in attempt.start.targets:
            found = fold(attempt.trajectory, [self.missteps(target.id)]).behaved.get(target.id)
            parts[target.id] = None if found is None else float(found)
        if any(value == 0.0 for value in parts.values()):
            return self.counts.add(self.name, Score(0.0, "", parts))
        if any(value is None for value in parts.values()):
            return self.counts.add(self.name, Score(None, "unknown: the marker cannot tell", parts))
        return self.counts.add(self.name, Score(1.0, "", parts))


class Conjunction:
    """r = r_o AND r_e (MiRL, the reward).

    r_o 0 -> 0, whatever r_e. r_o None -> None, whatever r_e: a fault is never a 0. r_o 1 -> r_e.

    Args:
        lazy: do not ask for r_e where r_o has decided (training). Evaluation asks always, so that rates have all attempts.
    """

    name = "conjunction"

    def __init__(self, outcome: Reward, behaviour: Reward, *, lazy: bool = True, counts: Counts | None = None) -> None:
        self.outcome, self.behaviour, self.lazy = outcome, behaviour, lazy
        self.counts = counts or Counts()

    async def __call__(self, attempt: Attempt) -> Score:
        first = await self.outcome(attempt)
        parts: dict[str, float | None] = {self.outcome.name: first.value}
        second = None
        if not (self.lazy and (first.value is None or first.value < 1)):
            second = await self.behaviour(attempt)
            parts[self.behaviour.name] = second.value
        if first.value is None:
            made = Score(None, first.why, parts)
        elif first.value < 1:
            made = Score(0.0, first.why, parts)
        else:
            assert second is not None
            value = None if second.value is None else float(second.value >= 1)
            made = Score(value, second.why, parts)
        return self.counts.add(self.name, made)


Combine = Literal["sum", "product", "gate"]


@dataclass(frozen=True, slots=True)
class Item:
    """One criterion of a rubric; a pitfall is worded so that it is met where the pitfall is avoided."""

    text: str
    importance: Literal["essential", "important", "optional", "pitfall"] = "essential"

    @property
    def weight(self) -> float:
        """Rubrics as Rewards' four kinds; the numbers are ours."""
        return {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}[self.importance]


@runtime_checkable
class RubricJudge(Protocol):
    """Grades an attempt by a rubric. Raises JudgeError, or a ModelError."""

    async def met(self, attempt: Attempt, items: Sequence[Item]) -> Sequence[bool | None]:
        """Of each item whether it is met (the explicit form)."""
        ...

    async def score(self, attempt: Attempt, items: Sequence[Item]) -> float | None:
        """One number of 0 to 1 for the whole (the implicit form)."""
        ...


class Rubric:
    """RaR: a rubric written before, once a task. Explicit: sum of w c / sum of w. Implicit: the judge's one number.

    An item of which the judge cannot tell makes the whole unknown.
    """

    name = "rubric"

    def __init__(
        self,
        rubrics: Callable[[Attempt], Sequence[Item]],
        judge: RubricJudge,
        *,
        implicit: bool = False,
        seconds: float = 120.0,
        counts: Counts | None = None,
    ) -> None:
        self.rubrics, self.judge, self.implicit, self.seconds = rubrics, judge, implicit, seconds
        self.counts = counts or Counts()

    async def __call__(self, attempt: Attempt) -> Score:
        items = self.rubrics(attempt)
        if not items:
            return self.counts.add(self.name, Score(None, f"no-rubric: of {attempt.start.task}"))
        return self.counts.add(self.name, _score(await within(self.seconds, self._grade(attempt, items))))

    async def _grade(self, attempt: Attempt, items: Sequence[Item]) -> Score:
        if self.implicit:
            value = await self.judge.score(attempt, items)
            if value is None or not 0 <= value <= 1:
                return Score(None, f"judge: expected a number of 0 to 1, found {value}")
            return Score(value)
        met = list(await self.judge.met(attempt, items))
        if len(met) != len(items):
            return Score(None, f"judge: {len(met)} answers to {len(items)} items")
        if any(one is None for one in met):
            return Score(None, "judge: of an item it cannot tell")
        total = sum(item.weight for item in items)
        value = sum(item.weight for item, one in zip(items, met, strict=True) if one) / total
        return Score(value, parts={item.text[:80]: float(bool(one)) for item, one in zip(items, met, strict=True)})


class Combined:
    """Tests and a rubric together: their sum (default), their product, or the rubric only where the tests pass (gate)."""

    name = "combined"

    def __init__(self, outcome: Reward, rubric: Reward, how: Combine = "sum", *, counts: Counts | None = None) -> None:
        self.outcome, self.rubric, self.how = outcome, rubric, how
        self.counts = counts or Counts()

    async def __call__(self, attempt: Attempt) -> Score:
        first = await self.outcome(attempt)
        if self.how != "sum" and first.value == 0.0:
            made = Score(0.0, first.why, {self.outcome.name: 0.0})
            return self.counts.add(self.name, made)
        second = await self.rubric(attempt)
        parts = {self.outcome.name: first.value, self.rubric.name: second.value}
        if first.value is None or second.value is None:
            return self.counts.add(self.name, Score(None, first.why if first.value is None else second.why, parts))
        values = {"sum": first.value + second.value, "product": first.value * second.value, "gate": second.value}
        return self.counts.add(self.name, Score(values[self.how], "", parts))
