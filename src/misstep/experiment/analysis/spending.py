"""What attempts took: money, time, tokens, steps (FIRE, Tables 7 and 8), and the paired differences of it."""

from __future__ import annotations

from math import fsum
from statistics import median

from misstep.experiment.analysis.contrasts import Asked
from misstep.experiment.analysis.model import Spend, SpendChange
from misstep.experiment.analysis.numbers import measured
from misstep.experiment.analysis.table import Table

MEASURES = ("cost_usd", "seconds", "input_tokens", "output_tokens", "steps")


def spend(table: Table, arm: str, cohort: str) -> list[Spend]:
    """Sums and means of every measure that is on record somewhere."""
    rows = table.all_rows(arm, table.of(cohort))
    attempts = sum(len(row.attempts) for row in rows)
    made = []
    for measure in MEASURES:
        known = [v for row in rows for v in row.taken(measure)]
        total = fsum(known) if known else None
        mean, middle = (fsum(known) / len(known), median(known)) if known else (None, None)
        made.append(Spend(arm, cohort, measure, len(known), attempts, total, mean, middle))
    return made


def changes(table: Table, asked: Asked) -> list[SpendChange]:
    """Every measure's paired difference, over the tasks that have it in both arms."""
    made = []
    for measure in MEASURES:
        pairs = []
        for task in table.of(asked.cohort):
            both = [table.row(arm, task).taken(measure) for arm in (asked.arm, asked.against)]
            if both[0] and both[1]:
                pairs.append((fsum(both[0]) / len(both[0]), fsum(both[1]) / len(both[1])))
        base = fsum(other for _, other in pairs)
        ratio = fsum(one for one, _ in pairs) / base - 1 if base > 0 else None
        made.append(SpendChange(asked.arm, asked.against, asked.cohort, measure, measured(pairs), ratio))
    return made
