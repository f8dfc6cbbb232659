"""Which steps are shown with an occurrence. (By itself: a second scan needs this and nothing of the readers.)"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


BEFORE, AFTER = 3, 2
"""Steps shown before and after an occurrence."""


def around(occurrence: dict[str, Any], length: int) -> set[int]:
    """The steps beside it, and its evidence."""
    step = occurrence["step"]
    return {n for n in (*range(step - BEFORE, step + AFTER + 1), *occurrence["also"][:4]) if 0 <= n < length}
