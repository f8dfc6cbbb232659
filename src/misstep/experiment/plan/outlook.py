"""What a planned panel will cost, what it can find, and what it cannot say, before anything is spent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from misstep.experiment.attempts import Attempt
from misstep.experiment.plan.cost import Cost, cost, pass_rates
from misstep.experiment.plan.design import WITHOUT
from misstep.experiment.plan.lock import Plan
from misstep.stats import attainable_p, attempts_needed, interval_note, power, tasks_needed

EFFECTS = (0.1, 0.2, 0.3)
"""Assumed where the design names no effect."""
TARGET = 0.8
_MOST_TASKS, _MOST_ATTEMPTS, _QUICK = 500, 16, 1000
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.I)


@dataclass(frozen=True, slots=True)
class Chance:
    """The power of the primary contrast for one assumed effect."""

    effect: float
    power: float | None
    """None where it cannot be computed: `why`."""
    error: float | None = None
    tasks_needed: int | None = None
    """For a power of TARGET with as many attempts; None: more than 500."""
    attempts_needed: int | None = None
    """For a power of TARGET with as many tasks; None: more than 16."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Of one plan."""

    plan: Plan
    cost: Cost
    chances: tuple[Chance, ...]
    rates: str
    """Which baseline rates the chances are of."""
    warnings: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        plan, assigned = self.plan, self.plan.assigned
        return {
            "name": plan.design.name,
            "tasks": {name: {"cohort": kind, "eligible": list(assigned.eligible[name])} for name, kind in assigned.cohort.items()},
            "unused": assigned.unused,
            "everywhere": list(assigned.everywhere),
            "arms": list(plan.design.arms),
            "attempts": len(plan.slots),
            "cost": {
                "money": asdict(self.cost.money) if self.cost.money else None,
                "work": asdict(self.cost.work) if self.cost.work else None,
                "wall": asdict(self.cost.wall) if self.cost.wall else None,
            },
            "rates": self.rates,
            "power": [asdict(chance) for chance in self.chances],
            "warnings": list(self.warnings),
        }  # fmt: skip


def outlook(plan: Plan, past: Sequence[Attempt] = (), effect: float | None = None) -> Outlook:
    """Look ahead. effect: assumed for the power, in the place of the design's."""
    design = plan.design
    per_task = {task.name: len(design.arms) * design.attempts for task in plan.tasks}
    chances, rates = _chances(plan, past, design.rates.effect if effect is None else effect)
    return Outlook(
        plan,
        cost(per_task, design.rates, past, design.environment.concurrency),
        tuple(chances),
        rates,
        tuple(warnings(plan)),
    )


def _chances(plan: Plan, past: Sequence[Attempt], effect: float | None) -> tuple[list[Chance], str]:
    primary = plan.design.primary
    if primary is None:
        return [], "no primary contrast"
    tasks = plan.assigned.tasks(primary.cohort)
    known, rates = pass_rates(past, tasks, (primary.contrast.against, "baseline")) if past else ([], "")
    rates = rates or "assumed: a Beta law of task rates with mean 0.65 and concentration 3.5"
    if not tasks:
        return [], rates
    effects = EFFECTS if effect is None else (effect,)
    return [_chance(one, len(tasks), plan.design.attempts, known or None) for one in effects], rates


def _chance(effect: float, tasks: int, attempts: int, rates: list[float] | None) -> Chance:
    try:
        found = power(effect, tasks, attempts, rates)
    except ValueError as error:
        return Chance(effect, None, why=str(error))
    return Chance(
        effect,
        found.power,
        found.error,
        tasks_needed(effect, attempts, TARGET, rates, _MOST_TASKS, panels=_QUICK),
        attempts_needed(effect, tasks, TARGET, rates, _MOST_ATTEMPTS, panels=_QUICK),
    )


def warnings(plan: Plan) -> Iterator[str]:
    """What stands in the way of what the panel is for, a sentence each."""
    yield from _of_size(plan)
    yield from _of_cohorts(plan)
    yield from _of_policies(plan)
    yield from _of_agent(plan)


def _of_size(plan: Plan) -> Iterator[str]:
    primary = plan.design.primary
    if primary is None:
        return
    tasks = len(plan.assigned.tasks(primary.cohort))
    least = attainable_p(tasks)
    if not tasks:
        yield f"The cohort of the primary contrast ({primary.cohort}) has no task."
    elif least > 0.05:
        counted = "1 task" if tasks == 1 else f"{tasks} tasks"
        yield (
            f"The primary contrast has {counted}: p <= 0.05 cannot be reached even if every one changes "
            f"(the smallest possible p is {least:.4g}); it takes 6."
        )
    note = interval_note(tasks) if tasks else None
    if note:
        yield note


def _of_cohorts(plan: Plan) -> Iterator[str]:
    eligible, silent = (plan.assigned.tasks(kind) for kind in ("eligible", "silent"))
    if eligible and not silent and len(plan.design.arms) > 1:
        yield "No silent tasks: the panel cannot tell an effect where policies act from a change everywhere (no interaction, no placebo)."
    if eligible and silent and max(len(eligible), len(silent)) > 2 * min(len(eligible), len(silent)):
        yield f"Cohorts are out of balance: {len(eligible)} eligible, {len(silent)} silent."
    for task in plan.assigned.hidden:
        policies = ", ".join(plan.assigned.selected(task))
        yield f"Silent task {task} is eligible for {policies}: in the arms with policies it is not silent."
    if silent and plan.assigned.everywhere:
        yield f"{', '.join(plan.assigned.everywhere)} takes every task: it may fire in the silent cohort too."


def _of_policies(plan: Plan) -> Iterator[str]:
    eligible = plan.assigned.tasks("eligible")
    misstep = {rule["policy"]: rule["misstep"] for rule in plan.portfolio["rules"]}
    chosen = [{misstep[policy] for policy in plan.assigned.selected(task)} for task in eligible]
    for name, tasks in Counter(next(iter(one)) for one in chosen if len(one) == 1).most_common(1):
        if len(eligible) > 2 and tasks > len(eligible) / 2:
            yield f"{tasks} of {len(eligible)} eligible tasks are so for {name} alone: an effect will be mostly its own."
    acting = {rule["misstep"] for rule in plan.portfolio["rules"] if rule.get("mode", "enforce") == "enforce"}
    everywhere = {misstep[policy] for policy in plan.assigned.everywhere}
    idle = sorted(acting - set().union(*chosen) - everywhere)
    if eligible and idle:
        yield f"No task is eligible for {', '.join(idle)}: the panel says nothing of it."
    for arm in plan.design.arms:
        if arm.startswith(WITHOUT) and arm.removeprefix(WITHOUT) in idle:
            yield f"Arm {arm} is as real in every task: none is eligible for what it leaves out."


def _of_agent(plan: Plan) -> Iterator[str]:
    agent = plan.design.agent
    if not agent.version and not agent.import_path:
        yield f"agent.version is not given: a new release of {agent.name} during the panel would change the arms unevenly."
    if not agent.model:
        yield "agent.model is not given: the agent's own default is taken, and may change."
    for name, value in agent.env.items():
        if _SECRET.search(name) and value and not re.fullmatch(r"\$\{\w+\}", value):
            yield f"agent.env.{name} is written out: the panel's folder and its export will hold it; ${{{name}}} takes it from the environment."
