"""Losses over the tokens that the policy gave. Torch; imported by engines only.

Names carry shapes: B episodes, T positions. At a masked token the loss is exactly 0 and so is its gradient, whatever stands
there (an infinite log probability too). An advantage of 0 (a reward that is None) gives a gradient of exactly 0 as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

try:
    import torch
    from torch import Tensor
except ImportError as error:  # pragma: no cover
    raise ImportError("losses need torch: pip install 'misstep[train]'") from error

DELTA = 0.1
"""DPPO's bound on the total variation of one token's binary distribution (TMax, the loss)."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss and what it did."""

    value: Tensor
    """Scalar: the mean over trained tokens."""
    dropped: float
    """Share of trained tokens whose gradient was taken away (DPPO's mask, GRPO's clip)."""
    tokens: int
    """Trained tokens."""
    drift: float
    """Mean |p_new - p_old| of trained tokens, p the probability of the sampled token."""


def dppo(
    new_BT: Tensor,
    old_BT: Tensor,
    advantages_B: Tensor,
    mask_BT: Tensor,
    *,
    delta: float = DELTA,
    tokens: float | None = None,
) -> Loss:
    """DPPO with the binary total variation, token level (TMax, the loss): no clip of the ratio, a mask instead.

    The binary distribution of a token is (p, 1 - p), p the probability of what was sampled; the total variation between two
    of them is |p_new - p_old|. A token is dropped only if that exceeds `delta` *and* the update would move it further away
    from the sampler: up where the advantage is positive and p_new > p_old, down where it is negative and p_new < p_old.

    Args:
        new_BT: log probabilities under the policy that is trained, with gradient.
        old_BT: under the policy that sampled.
        mask_BT: 1 at trained tokens.
        tokens: what the sum is divided by; the trained tokens given here by default. For a batch that is cut into pieces.
    """
    new, old, on, adv = _at(new_BT, old_BT, advantages_B, mask_BT)
    moved = new.detach().exp() - old.exp()
    away = ((adv > 0) & (moved > 0)) | ((adv < 0) & (moved < 0))
    kept = on & ~((moved.abs() > delta) & away)
    each = -(new - old).exp() * adv
    return _sum(each, kept, on, moved, tokens)


def grpo(
    new_BT: Tensor,
    old_BT: Tensor,
    advantages_B: Tensor,
    mask_BT: Tensor,
    *,
    low: float = 0.2,
    high: float = 0.272,
    tokens: float | None = None,
) -> Loss:
    """The clipped ratio (TMax, the GRPO ablation: 1 - 0.2 to 1 + 0.272): -min(r A, clip(r) A)."""
    new, old, on, adv = _at(new_BT, old_BT, advantages_B, mask_BT)
    ratio = (new - old).exp()
    moved = new.detach().exp() - old.exp()
    plain, cut = ratio * adv, ratio.clamp(1 - low, 1 + high) * adv
    free = on & (plain <= cut)
    made = _sum(-torch.minimum(plain, cut), on, on, moved, tokens)
    share = float((on & ~free).sum()) / max(1, made.tokens)
    return Loss(made.value, share, made.tokens, made.drift)


def _at(new: Tensor, old: Tensor, advantages: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What is trained on: elsewhere the values are replaced before anything is computed, so that no gradient passes."""
    if not new.shape == old.shape == mask.shape or advantages.shape != new.shape[:1]:
        shapes = [tuple(one.shape) for one in (new, old, advantages, mask)]
        raise ValueError(f"expected shapes (B, T), (B, T), (B,), (B, T), found {shapes}")
    on = mask.bool() & (advantages != 0)[:, None]
    nothing = torch.zeros((), dtype=new.dtype, device=new.device)
    trained = mask.bool()
    new, old = torch.where(trained, new, nothing), torch.where(trained, old, nothing).detach()
    # An advantage of 0 must not meet an infinite ratio: 0 * inf is no number.
    new = torch.where(on, new, new.detach())
    return new, old, trained, advantages[:, None].expand_as(new)


def _sum(each: Tensor, kept: Tensor, trained: Tensor, moved: Tensor, tokens: float | None) -> Loss:
    count = int(trained.sum())
    nothing = torch.zeros((), dtype=each.dtype, device=each.device)
    value = torch.where(kept, each, nothing).sum() / (max(1, count) if tokens is None else tokens)
    dropped = float((trained & ~kept).sum()) / max(1, count)
    drift = float(torch.where(trained, moved.abs(), nothing).sum()) / max(1, count)
    return Loss(value, dropped, count, drift)


@dataclass(frozen=True, slots=True)
class LossSettings:
    """Which loss, and its numbers."""

    kind: Literal["dppo", "grpo"] = "dppo"
    delta: float = DELTA
    low: float = 0.2
    high: float = 0.272

    def __call__(
        self, new_BT: Tensor, old_BT: Tensor, advantages_B: Tensor, mask_BT: Tensor, tokens: float | None = None
    ) -> Loss:
        if self.kind == "dppo":
            return dppo(new_BT, old_BT, advantages_B, mask_BT, delta=self.delta, tokens=tokens)
        return grpo(new_BT, old_BT, advantages_B, mask_BT, low=self.low, high=self.high, tokens=tokens)
