"""The policy from nothing: tokenizer and weights from dialogs, by plain supervised fine-tuning on the agent's own tokens."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from misstep.train.tiny.bpe import Bpe
from misstep.train.tiny.codec import TinyCodec, shown_text, turn_text
from misstep.train.tiny.dialogs import Dialog
from misstep.train.tiny.model import Shape, TinyModel

_NEAR = 150
"""Places to both sides, in the order of lengths, from which the rows of one batch come."""


def tokenizer(dialogs: Sequence[Dialog], pieces: int = 760) -> TinyCodec:
    """A codec whose pieces come from the dialogs."""
    texts = []
    for one in dialogs:
        texts.append(one.task.instruction)
        for action, shown in one.turns:
            texts.append(turn_text(action))
            if shown is not None:
                texts.append(shown_text(shown))
    return TinyCodec(Bpe.train(texts, pieces))


def fit(
    dialogs: Sequence[Dialog],
    codec: TinyCodec,
    *,
    steps: int = 800,
    rows: int = 16,
    rate: float = 2e-3,
    seed: int = 0,
    shape: Shape | None = None,
    told: Callable[[int, float], None] | None = None,
) -> TinyModel:
    """Trains a fresh model; AdamW, warm-up of 20 steps, cosine to a tenth.

    Args:
        told: gets the step and its loss, every 50 steps.
    """
    model = TinyModel(shape or Shape(len(codec)), seed)
    data = sorted((one.ids(codec) for one in dialogs), key=lambda pair: len(pair[0]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.99))
    dice = random.Random(seed)
    model.train()
    for step in range(steps):
        share = min(1.0, (step + 1) / 20) * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        near = dice.randrange(len(data))  # rows of like length: little padding
        chosen = [data[(near + dice.randrange(-_NEAR, _NEAR)) % len(data)] for _ in range(rows)]
        wide = max(len(ids) for ids, _ in chosen)
        ids = torch.tensor([row + [0] * (wide - len(row)) for row, _ in chosen])
        mask = torch.tensor([row + [0] * (wide - len(row)) for _, row in chosen])[:, 1:].float()
        loss = -(model.logprobs(ids) * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if told is not None and step % 50 == 0:
            told(step, loss.item())
    model.eval()
    return model


def save(folder: Path, model: TinyModel, codec: TinyCodec) -> Path:
    """Writes a policy's folder: config.json, model.pt, tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder)
    codec.pieces.save(folder / "tokenizer.json")
    return folder


def load(folder: Path) -> tuple[TinyModel, TinyCodec]:
    """A policy's folder. Raises OSError, ValueError, KeyError, TypeError, RuntimeError."""
    return TinyModel.load(folder).eval(), TinyCodec(Bpe.load(folder / "tokenizer.json"))
