"""Two other models of the primary contrast (GEE, conditional logit): does the result depend on how it was made?"""

from __future__ import annotations

from misstep.experiment.analysis.contrasts import Asked
from misstep.experiment.analysis.model import Sensitivity
from misstep.experiment.analysis.table import Table
from misstep.stats.sensitivity import conditional_logit, gee

MOST = 4_000
"""Attempts in both arms up to which the conditional logit is computed (a tenth of a second): it is exact, and grows fast."""


def sensitivity(table: Table, asked: Asked | None) -> list[Sensitivity]:
    """Both models of the primary contrast, in its cohort."""
    if asked is None:
        return []
    counts = [
        (table.row(asked.arm, task).share, table.row(asked.against, task).share) for task in table.of(asked.cohort)
    ]
    size = sum(n + m for (_, n), (_, m) in counts)
    found = [gee(counts)]
    if size <= MOST:
        found.append(conditional_logit(counts))
    made = []
    for one in found:
        odds, span = one.odds_interval, one.difference_interval
        made.append(
            Sensitivity(
                method=one.method,
                tasks=one.tasks,
                attempts=one.attempts,
                odds_ratio=one.odds_ratio,
                odds_low=odds.low if odds else None,
                odds_high=odds.high if odds else None,
                difference=one.difference,
                low=span.low if span else None,
                high=span.high if span else None,
                p=one.p,
                why=one.why,
            )
        )
    if size > MOST:
        why = f"not computed beyond {MOST:,} attempts"
        made.append(Sensitivity("conditional-logit", len(counts), size, None, None, None, None, None, None, None, why))
    return made
