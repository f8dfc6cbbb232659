"""Simulated panels: does the inference keep what it promises? Coverage of the interval, size of the test, power.

Every attempt is drawn on its own (tasks from a Beta law, one common shift on the logit scale as in `misstep.stats.power`);
differences, intervals and p-values are then those of the package. What comes out is beside what theory and `power` expect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from misstep.experiment.attempts import Attempt
from misstep.stats import expected_coverage, interval_note, power
from misstep.stats.planning import _moved, _shift, batch_mean_interval, batch_sign_flip_p

TASKS = (6, 10, 14, 20, 30, 50, 87)
NEAR = 0.015
"""How far from its level an interval may cover and still be called right."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What happened in so many panels of one size."""

    tasks: int
    attempts: int
    effect: float
    panels: int
    coverage: float
    """Share of intervals that hold the effect over the law that tasks are drawn from: tasks like these."""
    coverage_these: float
    """Share that hold the mean effect of the very tasks drawn."""
    expected: float
    """`expected_coverage`: theory for `coverage`."""
    rejected: float
    """Share with p at or below the level: size where the effect is 0, power elsewhere."""
    predicted: float | None
    """`power`; None where the effect is 0."""

    @property
    def error(self) -> float:
        """Standard error of `coverage`."""
        return sqrt(self.coverage * (1 - self.coverage) / self.panels)

    @property
    def nominal(self) -> bool:
        """Whether theory says that the interval covers within NEAR of its level here: see `interval_note`."""
        return interval_note(self.tasks) is None

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def simulate(
    tasks: int,
    attempts: int,
    effect: float,
    panels: int = 2000,
    *,
    mean: float = 0.65,
    concentration: float = 3.5,
    level: float = 0.05,
    seed: int = 0,
) -> Simulated:
    """Draw panels of two arms, with `tasks` new tasks each, and analyse every one.

    effect: mean difference of pass rates in the law of tasks, a proportion. Raises ValueError as `power` does.
    """
    import numpy as np

    predicted = None
    if effect:
        predicted = power(
            effect, tasks, attempts, mean=mean, concentration=concentration, level=level, panels=4 * panels
        ).power
    rng = np.random.default_rng([seed, tasks, attempts, round(1e6 * abs(effect))])
    beta = mean * concentration, (1 - mean) * concentration
    shift = _shift(rng.beta(*beta, 200_000), effect)
    held = held_these = rejected = done = 0
    while done < panels:
        now = min(panels - done, max(1, (1 << 20) // (tasks * attempts)))
        before = rng.beta(*beta, (now, tasks))
        after = _moved(before, shift)
        passed = [(rng.random((now, tasks, attempts)) < rate[:, :, None]).sum(2) for rate in (before, after)]
        differences = passed[1] - passed[0]
        ends = batch_mean_interval(differences, attempts, 1 - level) / attempts
        these = (after - before).mean(1)
        slack = 1e-9  # an end that is the effect holds it
        held += int(((ends[:, 0] <= effect + slack) & (effect - slack <= ends[:, 1])).sum())
        held_these += int(((ends[:, 0] <= these + slack) & (these - slack <= ends[:, 1])).sum())
        rejected += int((batch_sign_flip_p(differences, attempts) <= level).sum())
        done += now
    return Simulated(
        tasks, attempts, effect, panels, held / panels, held_these / panels,
        expected_coverage(tasks, 1 - level), rejected / panels, predicted,
    )  # fmt: skip


def records(
    tasks: int,
    attempts: int,
    effect: float,
    panels: int,
    *,
    mean: float = 0.65,
    concentration: float = 3.5,
    seed: int = 0,
    arms: tuple[str, str] = ("real", "sham"),
) -> Iterator[list[Attempt]]:
    """The same panels as records of attempts, one panel after another: what an analysis reads. The effect is the first arm's."""
    import numpy as np

    rng = np.random.default_rng([seed, tasks, attempts, round(1e6 * abs(effect))])
    beta = mean * concentration, (1 - mean) * concentration
    shift = _shift(rng.beta(*beta, 200_000), effect)
    for _ in range(panels):
        before = rng.beta(*beta, tasks)
        passed = rng.random((2, tasks, attempts)) < np.stack([_moved(before, shift), before])[:, :, None]
        yield [
            Attempt(task=f"task-{n}", arm=arm, replicate=k + 1, termination="pass" if one else "fail", passed=bool(one))
            for arm, rows in zip(arms, passed, strict=True)
            for n, row in enumerate(rows)
            for k, one in enumerate(row)
        ]


def table(
    tasks: Iterable[int] = TASKS,
    attempts: int = 2,
    effects: Iterable[float] = (0.0, 0.21),
    panels: int = 2000,
    seed: int = 0,
) -> Iterator[Simulated]:
    """`simulate` over sizes and effects, one after another."""
    effects = tuple(effects)
    for count in tasks:
        for effect in effects:
            yield simulate(count, attempts, effect, panels, seed=seed)
