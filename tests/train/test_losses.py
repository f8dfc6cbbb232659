"""Losses by hand: what is dropped, what is not, and that nothing passes at masked tokens."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from misstep.train.losses import LossSettings, dppo, grpo  # noqa: E402


def _logs(*probabilities: float):
    return torch.tensor([[math.log(p) for p in probabilities]], dtype=torch.float64)


def _run(loss, new, old, advantage, mask=None, **given):
    new = new.clone().requires_grad_(True)
    mask = torch.ones_like(new) if mask is None else mask
    made = loss(new, old, torch.tensor([advantage], dtype=torch.float64), mask, **given)
    made.value.backward()
    return made, new.grad[0].tolist()


def test_dppo_drops_only_what_is_far_and_moves_away():
    # |p_new - p_old|: .15 up, .15 down, .05 up, .15 up
    new, old = _logs(0.65, 0.35, 0.55, 0.25), _logs(0.5, 0.5, 0.5, 0.1)
    made, grad = _run(dppo, new, old, 1.0)
    # Positive advantage: up and far is away (tokens 0, 3); down is towards; near is kept.
    assert grad == pytest.approx([0.0, -0.35 / 0.5 / 4, -0.55 / 0.5 / 4, 0.0])
    assert made.dropped == 0.5
    assert made.value.item() == pytest.approx(-(0.7 + 1.1) / 4)
    made, grad = _run(dppo, new, old, -2.0)
    # Negative: down and far is away (token 1 alone).
    assert grad == pytest.approx([2 * 1.3 / 4, 0.0, 2 * 1.1 / 4, 2 * 2.5 / 4])
    assert made.dropped == 0.25
    assert made.drift == pytest.approx((0.15 + 0.15 + 0.05 + 0.15) / 4)


def test_dppo_looks_at_probabilities_and_not_at_ratios():
    # A rare token may grow tenfold: its distribution has hardly moved. PPO's clip would stop it.
    new, old = _logs(0.05), _logs(0.005)
    assert _run(dppo, new, old, 1.0)[1] == pytest.approx([-10.0])
    assert _run(grpo, new, old, 1.0)[1] == [0.0]
    # A frequent token that moved by 12 points is dropped though its ratio is within 1.272.
    new, old = _logs(0.92), _logs(0.80)
    assert _run(dppo, new, old, 1.0)[1] == [0.0]
    assert _run(grpo, new, old, 1.0)[1] == pytest.approx([-0.92 / 0.80])


def test_dppo_at_the_bound_is_kept_and_on_policy_nothing_is_dropped():
    made, grad = _run(dppo, _logs(0.6), _logs(0.5), 1.0, delta=0.1 + 1e-9)
    assert made.dropped == 0 and grad == pytest.approx([-1.2])
    made, grad = _run(dppo, _logs(0.3, 0.9), _logs(0.3, 0.9), -1.0)
    assert made.dropped == 0 and grad == pytest.approx([0.5, 0.5]) and made.drift == 0


def test_grpo_clips_on_both_sides():
    old = _logs(0.5, 0.5, 0.5, 0.5)
    new = _logs(0.5 * 1.3, 0.5 * 1.2, 0.5 * 0.7, 0.5 * 0.9)
    made, grad = _run(grpo, new, old, 1.0)
    assert grad == pytest.approx([0.0, -1.2 / 4, -0.7 / 4, -0.9 / 4])
    assert made.value.item() == pytest.approx(-(1.272 + 1.2 + 0.7 + 0.9) / 4)
    made, grad = _run(grpo, new, old, -1.0)
    assert grad == pytest.approx([1.3 / 4, 1.2 / 4, 0.0, 0.9 / 4])
    assert made.dropped == 0.25


@pytest.mark.parametrize("kind", ["dppo", "grpo"])
def test_masked_tokens_and_unknown_rewards_have_a_gradient_of_exactly_zero(kind):
    new = torch.tensor([[-0.1, -math.inf, -3.0], [-0.2, -0.3, -0.4]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-0.1, -2.0, math.nan], [-9.0, -0.3, -math.inf]], dtype=torch.float64)
    mask = torch.tensor([[1, 0, 0], [1, 1, 0]])
    made = LossSettings(kind)(new, old, torch.tensor([0.5, 0.0], dtype=torch.float64), mask)
    made.value.backward()
    assert made.tokens == 3
    assert math.isfinite(made.value.item())
    assert new.grad.tolist() == [[pytest.approx(-0.5 / 3), 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_pieces_of_a_batch_add_up_to_the_whole():
    torch.manual_seed(0)
    old = -torch.rand(4, 5, dtype=torch.float64)
    new = (old + 0.3 * torch.randn(4, 5, dtype=torch.float64)).requires_grad_(True)
    mask, adv = (torch.rand(4, 5) > 0.3).long(), torch.tensor([1.0, -1.0, 0.5, -0.5], dtype=torch.float64)
    whole = torch.autograd.grad(dppo(new, old, adv, mask).value, new)[0]
    count = float(mask.sum())
    parts = sum(
        dppo(new[n : n + 2], old[n : n + 2], adv[n : n + 2], mask[n : n + 2], tokens=count).value for n in (0, 2)
    )
    assert torch.allclose(torch.autograd.grad(parts, new)[0], whole)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="expected shapes"):
        dppo(torch.zeros(2, 3), torch.zeros(2, 2), torch.zeros(2), torch.zeros(2, 3))
