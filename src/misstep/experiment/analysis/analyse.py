"""`analyse`: which questions are asked of which attempts. The answers are in the files beside this one."""

from __future__ import annotations

from collections.abc import Iterable

from misstep.experiment.analysis import contrasts, shares, spending
from misstep.experiment.analysis.contrasts import Asked
from misstep.experiment.analysis.limits import arms_of, limits, sentence
from misstep.experiment.analysis.model import ALL, Analysis, Task
from misstep.experiment.analysis.sensitivity import sensitivity
from misstep.experiment.analysis.table import Plan, PlanError, Table
from misstep.experiment.attempts import Attempt
from misstep.experiment.plan.design import Design

__all__ = ["Plan", "PlanError", "analyse"]


def analyse(
    attempts: Iterable[Attempt],
    design: Design | None = None,
    plan: Plan | None = None,
    *,
    primary: tuple[str, str] | None = None,
    cohort: str | None = None,
) -> Analysis:
    """What the attempts say.

    Args:
        attempts: every candidate, in any order.
        design: names arms, contrasts and numbers; without it the arms are those that are there, and the secondary
            contrasts are those of the primary arm with every other (of every arm with the first, where no primary one is
            named nor told by the arms' names).
        plan: the slots and cohorts of a panel's lock.
        primary: (arm, against), in the place of the design's.
        cohort: of the primary and secondary contrasts, in the place of the design's.

    Raises:
        PlanError: an arm or a cohort of a contrast is not there.
    """
    table = Table(attempts, design, plan)
    family, named = _family(table, design, primary, cohort)
    planned = [one for one in family if one.role != "described"]
    first = next((one for one in family if one.role == "primary"), None)
    results = contrasts.adjusted([contrasts.contrast(table, one) for one in family])
    arms, cohorts = table.arms, table.cohorts
    ends = [shares.terminations(table, arm, cohort) for cohort in cohorts for arm in arms]
    look = contrasts.sequential(table, first) if first else None
    who = arms_of(table)
    found = next((one for one in results if one.role == "primary"), None)
    label = _simulated(table)
    return Analysis(
        name=design.name if design else "",
        simulated=label,
        planned=len(table.slots),
        observed=table.observed,
        finished=table.finished,
        sentence=sentence(table, found, first, label),
        arms=tuple(who),
        cohorts={name: len(table.of(name)) for name in cohorts},
        tasks=tuple(_task(table, task) for task in table.tasks),
        cells=tuple(shares.cell(table, arm, cohort) for cohort in cohorts for arm in arms),
        contrasts=tuple(results),
        interactions=tuple(contrasts.interactions(table, planned)),
        funnel=tuple(
            shares.funnel(arm, cohort, table.all_rows(arm, table.of(cohort))) for cohort in cohorts for arm in arms
        ),
        stages=tuple(stage for one in planned for stage in shares.stages(table, one)),
        families=tuple(shares.families(table, first)),
        transitions=tuple(contrasts.transitions(table, one) for one in planned),
        terminations=tuple(ends),
        spend=tuple(one for cohort in cohorts for arm in arms for one in spending.spend(table, arm, cohort)),
        spend_changes=tuple(change for one in planned for change in spending.changes(table, one)),
        placebo=tuple(contrasts.placebo(table, Asked(one.arm, one.against, ALL, one.role)) for one in planned),
        left_out=tuple(contrasts.left_out(table)),
        sequential=look,
        sensitivity=tuple(sensitivity(table, first)),
        missing=tuple(
            sorted(
                (one for row in table.rows.values() for one in row.missing), key=lambda m: (m.task, m.arm, m.replicate)
            )
        ),
        limits=tuple(
            limits(table, design is not None, named, who, results, [e for e in ends if e.cohort == ALL], look)
        ),
    )


def _family(
    table: Table, design: Design | None, primary: tuple[str, str] | None, cohort: str | None
) -> tuple[list[Asked], bool]:
    """The contrasts, and whether the primary one was named by somebody."""
    named = primary is not None
    secondary: list[tuple[str, str]] | None = None
    if design and design.primary:
        given = design.primary.contrast
        cohort = cohort or design.primary.cohort
        secondary = [(one.arm, one.against) for one in design.secondary]
        if primary is None:
            primary, named = (given.arm, given.against), True
        elif set(primary) != {given.arm, given.against}:
            secondary = [(given.arm, given.against), *(one for one in secondary if set(one) != set(primary))]
    arms = table.arms
    if primary is None:
        primary = _guess(arms)
    if secondary is None and primary:
        secondary = [(primary[0], arm) for arm in arms if arm not in primary]
    elif secondary is None:  # nobody asked for anything, and the names of the arms do not either
        secondary = [(arm, arms[0]) for arm in arms[1:]]
    for arm in {arm for pair in [*([primary] if primary else []), *secondary] for arm in pair}:
        if arm not in arms:
            raise PlanError(f"no attempt of arm {arm!r}: the arms are {', '.join(arms) or 'none'}")
    chosen = cohort or ("eligible" if "eligible" in table.cohorts else ALL)
    if chosen not in table.cohorts:
        raise PlanError(f"no task is in the cohort {chosen!r}: the cohorts are {', '.join(table.cohorts)}")
    return contrasts.roles(table, primary, secondary, chosen), named


def _guess(arms: list[str]) -> tuple[str, str] | None:
    """The contrast that the arms' names ask for: real with sham, real with baseline, or the second of two with the first."""
    for pair in (("real", "sham"), ("real", "baseline")):
        if set(pair) <= set(arms):
            return pair
    return (arms[1], arms[0]) if len(arms) == 2 else None


def _simulated(table: Table) -> str:
    """What made the attempts, if they say that they are simulated (`extra["simulated"]`): a text, or true."""
    found = {str(a.extra["simulated"]) for row in table.rows.values() for a in row.attempts if a.extra.get("simulated")}
    return "no agent ran" if found == {"True"} else ", ".join(sorted(found))


def _task(table: Table, task: str) -> Task:
    rows = [table.row(arm, task) for arm in table.arms]
    return Task(
        task=task,
        cohort=table.cohort[task],
        families=table.families[task],
        passed=tuple(row.passed for row in rows),
        attempts=tuple(len(row.attempts) for row in rows),
        missing=tuple(len(row.missing) for row in rows),
    )
