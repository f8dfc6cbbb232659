"""Another model of the primary contrast (GEE, conditional logit), where statsmodels is installed."""

from __future__ import annotations

from misstep.experiment.analysis.contrasts import Asked
from misstep.experiment.analysis.model import Sensitivity
from misstep.experiment.analysis.table import Table


def sensitivity(table: Table, asked: Asked | None) -> list[Sensitivity]:
    """Every other model of the primary contrast."""
    return []
