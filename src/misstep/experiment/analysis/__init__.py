"""What the attempts of a panel say: FIRE's Tables 3 to 9 and Figures 1 and 3, with exact inference.

    attempts (+ design, + plan) -> Analysis -> report, analysis.json

`analyse` is pure: records in, records out. The rules of counting are in `table`, one file a kind of question beside it.
"""

from misstep.experiment.analysis.analyse import Plan, PlanError, analyse
from misstep.experiment.analysis.model import ALL, SCHEMA, VERSION, Analysis, ContrastResult, Estimate, plain

__all__ = [
    "ALL",
    "SCHEMA",
    "VERSION",
    "Analysis",
    "ContrastResult",
    "Estimate",
    "Plan",
    "PlanError",
    "analyse",
    "plain",
]
