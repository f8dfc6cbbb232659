"""Contrasts of arms: effect, bounds, interaction, transitions, placebo, leave-one-family-out (FIRE, Tables 3, 5, 6, 9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from misstep.experiment.analysis.model import (
    ALL,
    Bound,
    ContrastResult,
    Estimate,
    InteractionResult,
    LeftOut,
    Placebo,
    Sequential,
    Transitions,
)
from misstep.experiment.analysis.numbers import Share, differences, estimate
from misstep.experiment.analysis.table import Table
from misstep.experiment.attempts import Attempt
from misstep.stats import Monitor, TooLargeError, association, attainable_note, holm, interaction

WITHIN = 200_000
"""Tasks times common denominator up to which p_within is computed (about a second)."""
INTERACTIONS = 300
"""Tasks up to which every planned contrast gets its interaction: above, the primary one alone."""
WIDEST = 12
"""Attempts of a task up to which a table of transitions is one that can be read."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A contrast to make."""

    arm: str
    against: str
    cohort: str
    role: str


def contrast(table: Table, asked: Asked) -> ContrastResult:
    """One contrast. Holm's adjustment is `adjusted`'s, over the family."""
    tasks = table.of(asked.cohort)
    pairs = table.pairs(asked.arm, asked.against, tasks)
    paired = {task for task, _, _ in pairs}
    unpaired = [
        task
        for task in tasks
        if task not in paired and (table.row(asked.arm, task).attempts or table.row(asked.against, task).attempts)
    ]
    lost = [sum(len(row.missing) for row in table.all_rows(arm, tasks)) for arm in (asked.arm, asked.against)]
    shares = [(one, other) for _, one, other in pairs]
    effect = estimate(shares)
    changed = {task: one[0] * other[1] - other[0] * one[1] for task, one, other in pairs}
    return ContrastResult(
        arm=asked.arm,
        against=asked.against,
        cohort=asked.cohort,
        role=asked.role,
        effect=effect,
        p_holm=None,
        p_within=_within(shares),
        improved=tuple(task for task, d in changed.items() if d > 0),
        regressed=tuple(task for task, d in changed.items() if d < 0),
        missing=(lost[0], lost[1]),
        unpaired=tuple(unpaired),
        bounds=_bounds(table, asked, tasks) if any(lost) and asked.role != "described" else (),
        note=(attainable_note(len([d for d in changed.values() if d])) or "") if effect else "",
        why="" if effect else "no task of this cohort has an observed attempt in both arms",
    )


def _within(shares: list[tuple[Share, Share]]) -> float | None:
    if not shares or all(n == m for (_, n), (_, m) in shares):
        return None
    if differences(shares)[1] * len(shares) > WITHIN:
        return None
    found = association((_outcomes(one), _outcomes(other)) for one, other in shares)
    return found.p_within


def _outcomes(share: Share) -> list[bool | None]:
    return [i < share[0] for i in range(share[1])]


def _bounds(table: Table, asked: Asked, tasks: list[str]) -> tuple[Bound, ...]:
    """Every way of filling the holes alike: (missing of the arm pass, missing of the other pass)."""
    cases = {"all fail": (0, 0), "all pass": (1, 1), "worst": (0, 1), "best": (1, 0)}
    made = []
    for case, fills in cases.items():
        pairs = []
        for task in tasks:
            rows = [table.row(arm, task) for arm in (asked.arm, asked.against)]
            shares = [
                (row.passed + fill * len(row.missing), len(row.attempts) + len(row.missing))
                for row, fill in zip(rows, fills, strict=True)
            ]
            if shares[0][1] and shares[1][1]:
                pairs.append((shares[0], shares[1]))
        found = estimate(pairs)
        if found:
            made.append(Bound(case, found.mean, found.p))
    return tuple(made)


def adjusted(results: list[ContrastResult]) -> list[ContrastResult]:
    """The secondary contrasts with Holm's adjustment over them; one that is not available still counts, it was planned."""
    at = [i for i, one in enumerate(results) if one.role == "secondary"]
    made = list(results)
    for i, p in zip(at, holm([one.effect.p if (one := results[i]).effect else None for i in at]), strict=True):
        made[i] = replace(made[i], p_holm=p)
    return made


def interactions(table: Table, asked: Iterable[Asked]) -> list[InteractionResult]:
    """Eligible against silent, for every planned contrast (the primary one alone for many tasks)."""
    if not {"eligible", "silent"} <= set(table.cohorts):
        return []
    return [_interaction(table, one) for one in asked if one.role == "primary" or len(table.tasks) <= INTERACTIONS]


def _interaction(table: Table, asked: Asked) -> InteractionResult:
    both = [table.pairs(asked.arm, asked.against, table.of(cohort)) for cohort in ("eligible", "silent")]
    empty = InteractionResult(asked.arm, asked.against, len(both[0]), len(both[1]), None, None, None, None)
    if not both[0] or not both[1]:
        return replace(empty, why="a cohort has no task with an observed attempt in both arms")
    values, common = differences([(a, b) for pairs in both for _, a, b in pairs])
    at = len(both[0])
    try:
        found = interaction(values[:at], values[at:], common)
    except TooLargeError as error:
        return replace(empty, why=f"not computed: {error}")
    return replace(empty, mean=found.mean, low=found.interval.low, high=found.interval.high, p=found.p)


def transitions(table: Table, asked: Asked) -> Transitions:
    """How many tasks went from i passes in `against` to j in `arm`, where all tasks have the same number of attempts in each."""
    pairs = table.pairs(asked.arm, asked.against, table.of(asked.cohort))
    sizes = [{shares[1] for shares in side} for side in ([p[2] for p in pairs], [p[1] for p in pairs])]
    empty = Transitions(asked.arm, asked.against, asked.cohort, ())
    if not pairs:
        return replace(empty, why="no task has an observed attempt in both arms")
    if any(len(found) > 1 for found in sizes):
        return replace(empty, why="tasks have unequal numbers of observed attempts")
    rows, columns = (next(iter(found)) for found in sizes)
    if max(rows, columns) > WIDEST:
        return replace(empty, why=f"more than {WIDEST} attempts a task")
    counts = [[0] * (columns + 1) for _ in range(rows + 1)]
    for _, one, other in pairs:
        counts[other[0]][one[0]] += 1
    return replace(empty, tasks=tuple(map(tuple, counts)))


def guarded(attempt: Attempt) -> bool:
    """Whether a guard is on record in an attempt: it logged, or policies acted."""
    return bool(attempt.fired or (attempt.extra and attempt.extra.get("guard")))


def placebo(table: Table, asked: Asked) -> Placebo:
    """The contrast on tasks where nothing fired in either arm, and on the others. Which is which was not randomised."""
    tasks = table.of(asked.cohort)
    if not any(
        guarded(a) for arm in (asked.arm, asked.against) for row in table.all_rows(arm, tasks) for a in row.attempts
    ):
        return Placebo(asked.arm, asked.against, asked.cohort, None, None)
    quiet = {
        task
        for task in tasks
        if not any(a.nudges for arm in (asked.arm, asked.against) for a in table.row(arm, task).attempts)
    }
    halves: dict[bool, Estimate | None] = {}
    for silent in (True, False):
        pairs = table.pairs(asked.arm, asked.against, [t for t in tasks if (t in quiet) is silent])
        halves[silent] = estimate([(one, other) for _, one, other in pairs])
    return Placebo(asked.arm, asked.against, asked.cohort, halves[True], halves[False])


def left_out(table: Table) -> list[LeftOut]:
    """What each family adds: the whole portfolio less the arm without it, on the tasks that are the family's and elsewhere."""
    made = []
    for arm in table.arms:
        kind, _, name = arm.partition(":")
        if kind != "without" or "real" not in table.arms:
            continue
        halves = []
        for own in (True, False):
            tasks = [task for task in table.tasks if (name in table.families[task]) is own]
            halves.append(estimate([(one, other) for _, one, other in table.pairs("real", arm, tasks)]))
        made.append(LeftOut(name, "real", arm, halves[0], halves[1]))
    return made


def sequential(table: Table, asked: Asked) -> Sequential:
    """Pairs of attempts of one task and replicate, in the order of the schedule.

    Under the null that a task's chance is the same in both arms, each pair's difference has mean 0 given all pairs before
    it, so the evidence may be looked at after any pair. The first pair that is not settled ends the look: which pairs end
    early may depend on outcomes.
    """
    tasks, arms = set(table.of(asked.cohort)), (asked.arm, asked.against)
    by_slot = {(task, arm, a.replicate): a for task, arm in product(tasks, arms) for a in table.row(arm, task).attempts}
    monitor, pairs, seen = Monitor(), 0, set()
    slots = [slot for slot in table.slots if slot[1] in arms and slot[0] in tasks]
    planned = set(slots)
    for task, _, replicate in slots:
        if (task, replicate) in seen:
            continue
        seen.add((task, replicate))
        both = [(task, name, replicate) for name in arms]
        if not all(slot in planned for slot in both):
            continue
        if any(slot not in by_slot and not table.settled(slot) for slot in both):
            break
        if all(slot in by_slot for slot in both):
            first, second = (by_slot[slot].passed is True for slot in both)
            monitor.update(first - second)
            pairs += 1
    return Sequential(asked.arm, asked.against, asked.cohort, pairs, monitor.evidence, monitor.p)


def roles(
    table: Table, primary: tuple[str, str] | None, secondary: Iterable[tuple[str, str]], cohort: str
) -> list[Asked]:
    """The primary contrast and the secondary ones in its cohort, then all of them in the other cohorts, described only."""
    family = [Asked(*primary, cohort, "primary")] if primary else []
    family += [Asked(arm, against, cohort, "secondary") for arm, against in secondary]
    others = [one for one in table.cohorts if one != cohort]
    if len(table.cohorts) == 2 and ALL in others:  # one cohort holds every task: the same contrasts again
        others = [one for one in others if len(table.of(one)) != len(table.of(cohort))]
    return family + [Asked(one.arm, one.against, name, "described") for name in others for one in family]
