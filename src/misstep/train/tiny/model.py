"""A decoder of Llama's shape: RMS norms, rotary positions, gated feed-forward, tied embeddings. Plain torch, about a million weights.

Names carry shapes: B rows, T positions, C width, H heads, D width of a head, V vocabulary, L layers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

Cache = list[tuple[Tensor, Tensor]]
"""Of each layer the keys (already turned to their positions) and the values: (B, H, T, D)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a model is built from."""

    vocabulary: int
    width: int = 128
    layers: int = 4
    heads: int = 4
    hidden: int = 384
    context: int = 512


class Block(nn.Module):
    """Attention and a gated feed-forward, each added to what comes in."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm = nn.RMSNorm(shape.width, eps=1e-5)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.norm2 = nn.RMSNorm(shape.width, eps=1e-5)
        self.gate = nn.Linear(shape.width, 2 * shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(
        self, x_BTC: Tensor, turn: tuple[Tensor, Tensor], past: tuple[Tensor, Tensor] | None, seen: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rows, length, width = x_BTC.shape
        q, k, v = self.qkv(self.norm(x_BTC)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = _turned(q, *turn), _turned(k, *turn)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        a = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=seen is None)
        x_BTC = x_BTC + self.out(a.transpose(1, 2).reshape(rows, length, width))
        gate, up = self.gate(self.norm2(x_BTC)).chunk(2, -1)
        return x_BTC + self.down(functional.silu(gate) * up), (k, v)


class TinyModel(nn.Module):
    """The policy's weights. Built from a seed: the same on every run."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed = nn.Embedding(shape.vocabulary, shape.width)
            self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
            self.norm = nn.RMSNorm(shape.width, eps=1e-5)
            for name, weights in self.named_parameters():
                if weights.dim() > 1:
                    deep = (2 * shape.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                    nn.init.normal_(weights, std=0.02 * deep if "embed" in name else deep * shape.width**-0.5)
        half = shape.width // shape.heads // 2
        angles = torch.arange(shape.context)[:, None] * 10_000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(
        self,
        ids_BT: Tensor,
        places_BT: Tensor | None = None,
        past: Cache | None = None,
        seen: Tensor | None = None,
        last: bool = False,
    ) -> tuple[Tensor, Cache]:
        """Logits (B, T, V), or (B, 1, V) of the last position, and the cache.

        Args:
            places_BT: position of each id in its own row; 0, 1, ... by default.
            seen: (B, 1, T, all keys) which keys a position may see; by default the earlier ones.
        """
        cos, sin = self.cos[: ids_BT.shape[1]], self.sin[: ids_BT.shape[1]]  # type: ignore[index]
        if places_BT is not None:
            cos, sin = self.cos[places_BT][:, None], self.sin[places_BT][:, None]  # type: ignore[index]
        x = self.embed(ids_BT)
        cache: Cache = []
        for number, block in enumerate(self.blocks):
            x, kept = block(x, (cos, sin), past[number] if past else None, seen)
            cache.append(kept)
        x = self.norm(x[:, -1:] if last else x)
        return functional.linear(x, self.embed.weight), cache

    def logprobs(self, ids_BT: Tensor, temperature: float = 1.0) -> Tensor:
        """log p of each id after the first given those before it, (B, T - 1). Rows are padded on the right."""
        logits = self(ids_BT)[0][:, :-1] / temperature
        flat = functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), ids_BT[:, 1:].reshape(-1), reduction="none"
        )
        return -flat.view(len(ids_BT), -1)

    def save(self, folder: Path) -> None:
        """Writes config.json and model.pt."""
        (folder / "config.json").write_text(
            json.dumps({"schema": "misstep.tiny", "version": 1, **asdict(self.shape)}) + "\n"
        )
        torch.save(self.state_dict(), folder / "model.pt")

    @classmethod
    def load(cls, folder: Path) -> TinyModel:
        """Raises OSError, ValueError, KeyError, TypeError, RuntimeError."""
        given = json.loads((folder / "config.json").read_text())
        made = cls(Shape(**{name: given[name] for name in Shape.__slots__}))
        made.load_state_dict(torch.load(folder / "model.pt", weights_only=True))
        return made


def _turned(x_BHTD: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x_BHTD.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
