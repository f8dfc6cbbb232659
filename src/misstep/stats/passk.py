"""pass@k and pass^k: unbiased from n attempts of which c passed. Too few attempts give None ("not available"), never a guess."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def pass_at_k(passed: int, attempts: int, k: int) -> float | None:
    """The chance that at least one of k attempts passes: 1 - C(n - c, k) / C(n, k); None below k attempts."""
    if not _enough(passed, attempts, k):
        return None
    ways = comb(attempts, k)
    return (ways - comb(attempts - passed, k)) / ways


def pass_hat_k(passed: int, attempts: int, k: int) -> float | None:
    """pass^k, the chance that all of k attempts pass: C(c, k) / C(n, k); None below k attempts."""
    return comb(passed, k) / comb(attempts, k) if _enough(passed, attempts, k) else None


def mean_pass_at_k(tasks: Iterable[tuple[int, int]], k: int) -> float | None:
    """Mean pass@k over tasks given as (passed, attempts); None without tasks, or if any task has fewer than k attempts."""
    return _mean([pass_at_k(passed, attempts, k) for passed, attempts in tasks])


def mean_pass_hat_k(tasks: Iterable[tuple[int, int]], k: int) -> float | None:
    """Mean pass^k over tasks given as (passed, attempts); None without tasks, or if any task has fewer than k attempts."""
    return _mean([pass_hat_k(passed, attempts, k) for passed, attempts in tasks])


def _enough(passed: int, attempts: int, k: int) -> bool:
    if k < 1 or not 0 <= passed <= attempts:
        raise ValueError(
            f"pass@k needs k >= 1 and 0 <= passed <= attempts, got k={k}, passed={passed}, attempts={attempts}"
        )
    return attempts >= k


def _mean(values: list[float | None]) -> float | None:
    from math import fsum

    known = [v for v in values if v is not None]
    return fsum(known) / len(known) if known and len(known) == len(values) else None
