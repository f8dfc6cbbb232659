"""What a panel will take: time and money, from given rates or from past attempts, with an interval where there is one to give.

A slot costs what all its candidates cost, so replaced faults are in the price. Past attempts of the planned tasks speak for
these tasks; for the others the past tasks are a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from misstep.experiment.attempts import Attempt, fair, observed
from misstep.stats.planning import past_rates
from misstep.stats.sensitivity import t_quantile

if TYPE_CHECKING:
    from misstep.experiment.plan.design import Rates

ENOUGH = 3
"""Past tasks from which on an interval is given."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A total, with a prediction interval where the past gives one. In the unit of what was summed."""

    total: float
    low: float | None = None
    high: float | None = None
    source: str = ""
    """given, or which past it comes from."""

    def scaled(self, by: float) -> Estimate:
        """The same in another unit."""
        low, high = (None if end is None else end * by for end in (self.low, self.high))
        return Estimate(self.total * by, low, high, self.source)


@dataclass(frozen=True, slots=True)
class Cost:
    """What is expected of a panel. None where nothing is known."""

    attempts: int
    money: Estimate | None
    """US dollars."""
    work: Estimate | None
    """Seconds of attempts, one after another."""
    concurrency: int

    @property
    def wall(self) -> Estimate | None:
        """Seconds from start to end, where so many run at once and none waits."""
        return self.work.scaled(1 / self.concurrency) if self.work else None


def cost(
    per_task: Mapping[str, int], rates: Rates, past: Sequence[Attempt] = (), concurrency: int = 1, level: float = 0.95
) -> Cost:
    """The cost of a panel. per_task: planned attempts of each task, over all arms. Given rates come before past ones."""
    planned = sum(per_task.values())
    made: list[Estimate | None] = []
    for given, of in ((rates.usd_per_attempt, _dollars), (rates.seconds_per_attempt, _seconds)):
        if given is not None:
            made.append(Estimate(given * planned, source="given"))
        else:
            made.append(predict(per_task, _by_task(past, of), level))
    return Cost(planned, made[0], made[1], concurrency)


def _dollars(attempt: Attempt) -> float | None:
    return attempt.cost_usd


def _seconds(attempt: Attempt) -> float | None:
    return attempt.seconds if attempt.total_seconds is None else attempt.total_seconds


def _by_task(past: Sequence[Attempt], of: Callable[[Attempt], float | None]) -> dict[str, list[float]]:
    """Task -> what each of its slots took, all candidates together; slots of which a part is not recorded are left out."""
    slots: dict[tuple[str, str, int], list[float | None]] = {}
    for attempt in past:
        slots.setdefault(attempt.slot, []).append(of(attempt))
    made: dict[str, list[float]] = {}
    for (task, _, _), parts in slots.items():
        if None not in parts:
            made.setdefault(task, []).append(sum(part for part in parts if part is not None))
    return made


def predict(per_task: Mapping[str, int], past: Mapping[str, Sequence[float]], level: float = 0.95) -> Estimate | None:
    """The total of new draws, and the interval that it falls into, from past values of each task.

    A planned task with a past has its own mean, and the variance within tasks, pooled; one without has the mean of the past
    tasks' means and their variance besides. Student's t, with as many degrees of freedom as there are past tasks, less one.
    """
    past = {task: values for task, values in past.items() if values}
    if not past:
        return None
    means = {task: sum(values) / len(values) for task, values in past.items()}
    middle = sum(means.values()) / len(means)
    spare = sum(len(values) - 1 for values in past.values())
    around = sum((v - means[task]) ** 2 for task, values in past.items() for v in values)
    between = sum((m - middle) ** 2 for m in means.values()) / max(1, len(means) - 1)
    within = around / spare if spare else between
    known = {task: n for task, n in per_task.items() if task in past}
    unknown = [n for task, n in per_task.items() if task not in past]
    total = sum(n * means[task] for task, n in known.items()) + sum(unknown) * middle
    source = f"{sum(map(len, past.values()))} past attempts at {len(past)} tasks, {len(known)} of the {len(per_task)} planned ones"
    if len(past) < ENOUGH:
        return Estimate(total, source=source)
    variance = sum(n * n * within / len(past[task]) + n * within for task, n in known.items())
    variance += sum(n * n * between + n * within for n in unknown) + sum(unknown) ** 2 * between / len(past)
    half = t_quantile((1 + level) / 2, len(past) - 1) * sqrt(variance)
    return Estimate(total, max(0.0, total - half), total + half, source)


def pass_rates(past: Sequence[Attempt], tasks: Sequence[str], arms: Sequence[str]) -> tuple[list[float], str]:
    """Baseline pass rates for `misstep.stats.power` and where they come from, from past attempts.

    arms: the first of them that the past has speaks; else all past attempts together. Where the past has every planned task
    the rates are theirs, in order; else those of all past tasks. Slots that were not observed count for nothing; an attempt
    without a verdict of the verifier that was observed counts as failed. ([], why) where the past says nothing.
    """
    seen = [one for one in observed(past).values() if one is not None and fair(one)]
    arm = next((name for name in arms if any(one.arm == name for one in seen)), "")
    counts: dict[str, tuple[int, int]] = {}
    for one in seen:
        if not arm or one.arm == arm:
            passed, of = counts.get(one.task, (0, 0))
            counts[one.task] = passed + (one.passed is True), of + 1
    if not counts:
        return [], "the past has no observed attempt"
    which = f"arm {arm}" if arm else "all arms together"
    if tasks and all(task in counts for task in tasks):
        return past_rates([counts[task] for task in tasks]), f"past rates of these tasks ({which})"
    return past_rates(list(counts.values())), f"past rates of {len(counts)} tasks ({which})"
