"""Several contrasts at once: Holm's adjustment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm-adjusted p-values, in the order given; controls the family-wise error under any dependence.

    A contrast that is not available (None) stays None but still counts in the size of the family: it was planned.
    """
    for p in ps:
        if p is not None and not 0.0 <= p <= 1.0:
            raise ValueError(f"a p-value is between 0 and 1, not {p!r}")
    adjusted: list[float | None] = [None] * len(ps)
    least = 0.0
    for rank, (p, index) in enumerate(sorted((p, index) for index, p in enumerate(ps) if p is not None)):
        least = max(least, min(1.0, p * (len(ps) - rank)))
        adjusted[index] = least
    return adjusted
