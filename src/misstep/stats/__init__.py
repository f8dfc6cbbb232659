"""Exact paired inference, pass@k, rates and power. Tasks are the unit; attempts of one task are never independent units.

Imports nothing else of misstep, and numpy only inside the few functions that need it. See docs/statistics.md.
"""

from misstep.stats.exact import TooLargeError
from misstep.stats.monitor import Monitor
from misstep.stats.multiple import holm
from misstep.stats.paired import (
    Association,
    Effect,
    Interaction,
    Interval,
    Suite,
    association,
    attainable_note,
    attainable_p,
    compare,
    from_transitions,
    interaction,
    mean_interval,
    paired_effect,
    sign_flip_p,
)
from misstep.stats.passk import mean_pass_at_k, mean_pass_hat_k, pass_at_k, pass_hat_k
from misstep.stats.planning import (
    Power,
    attempts_needed,
    expected_coverage,
    interval_note,
    past_rates,
    power,
    tasks_needed,
)
from misstep.stats.rates import Agreement, clopper_pearson, cohen_kappa, wilson, wilson_clustered
from misstep.stats.sensitivity import Sensitivity, conditional_logit, gee

__all__ = [
    "Agreement",
    "Association",
    "Effect",
    "Interaction",
    "Interval",
    "Monitor",
    "Power",
    "Sensitivity",
    "Suite",
    "TooLargeError",
    "association",
    "attainable_note",
    "attainable_p",
    "attempts_needed",
    "clopper_pearson",
    "cohen_kappa",
    "compare",
    "conditional_logit",
    "expected_coverage",
    "from_transitions",
    "gee",
    "holm",
    "interaction",
    "interval_note",
    "mean_interval",
    "mean_pass_at_k",
    "mean_pass_hat_k",
    "paired_effect",
    "pass_at_k",
    "pass_hat_k",
    "past_rates",
    "power",
    "sign_flip_p",
    "tasks_needed",
    "wilson",
    "wilson_clustered",
]
