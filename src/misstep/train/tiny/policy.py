"""The small model as a policy: batches of any lengths, keys and values kept from turn to turn, chances that depend on the prompt.

A turn begins where the row's earlier turn ended: what was computed for it is kept until the weights change. Each row's random
numbers are a function of the seed, its prompt and how often that prompt came in this step: batching decides nothing.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from misstep.train.episode import Generated, PolicyError
from misstep.train.tiny.model import Cache, TinyModel

_MOST = 1000
"""Rows whose keys and values are kept at once."""


class TinyPolicy:
    """A `BatchPolicy`. Call `begin` before each step: the weights may have changed."""

    def __init__(self, model: TinyModel, *, seed: int = 0, temperature: float = 1.0) -> None:
        self.model, self.seed, self.temperature = model, seed, temperature
        self.tokens = 0
        """Generated so far."""
        self._step = 0
        self._times: Counter[bytes] = Counter()
        self._kept: dict[bytes, tuple[int, Tensor]] = {}

    def begin(self, step: int) -> None:
        """A new step: nothing computed before it is used any more."""
        self._step = step
        self._times.clear()
        self._kept.clear()

    def _chances(self, key: bytes, count: int) -> np.ndarray:
        times = self._times[key]
        self._times[key] += 1
        name = hashlib.sha256(f"{self.seed},{self._step},{times}:".encode() + key).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(name[:16], "big"))).random(count)

    def _longest(self, ids: list[int], lengths: list[int]) -> bytes | None:
        for length in lengths:
            if length < len(ids) and (key := _key(ids[:length])) in self._kept:
                return key
        return None

    @torch.inference_mode()
    def generate_batch(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: Sequence[int], stop: Sequence[int] = ()
    ) -> list[Generated]:
        """One answer a prompt."""
        rows = [list(one) for one in prompts]
        room = self.model.shape.context
        longest = max(map(len, rows))
        if longest + 1 > room:
            raise PolicyError(f"a prompt of {longest} ids; the model sees {room}")
        most = min(max(max_tokens), room - longest)
        chances = np.stack([self._chances(_key(row), most) for row in rows])
        self._prefill(rows)
        lengths = sorted({length for length, _ in self._kept.values()}, reverse=True)
        found = [self._longest(row, lengths) for row in rows]
        olds = [self._kept[key] if key is not None else (0, None) for key in found]
        made: list[list[int]] = [[] for _ in rows]
        logprobs: list[list[float]] = [[] for _ in rows]
        ended = [False] * len(rows)
        past, cached = self._past(olds)
        fresh = [row[length:] for row, (length, _) in zip(rows, olds, strict=True)]
        wide = max(map(len, fresh))
        ids, valid, places = _left(fresh, [length for length, _ in olds], wide)
        known = torch.cat([cached, valid], 1)
        causal = torch.ones(wide, wide, dtype=torch.bool).tril()
        seen = torch.cat([cached[:, None, :].expand(-1, wide, -1), causal[None] & valid[:, None, :]], 2)
        seen = seen | torch.cat(
            [torch.zeros(wide, cached.shape[1], dtype=torch.bool), torch.eye(wide, dtype=torch.bool)], 1
        )
        logits, past = self.model(ids, places, past, seen[:, None], last=True)
        for number in range(most):
            scaled = torch.log_softmax(logits[:, -1].float() / self.temperature, -1)
            sums = scaled.double().exp().cumsum(-1)
            drawn = torch.from_numpy(chances[:, number : number + 1]) * sums[:, -1:]
            picked = torch.searchsorted(sums, drawn, right=True).clamp(max=scaled.shape[1] - 1)
            values = scaled.gather(1, picked)[:, 0].tolist()
            for row, (one, value) in enumerate(zip(picked[:, 0].tolist(), values, strict=True)):
                if not ended[row]:
                    made[row].append(one)
                    logprobs[row].append(value)
                    ended[row] = one in stop or len(made[row]) >= max_tokens[row]
            if all(ended):
                break
            places = places[:, -1:] + 1
            known = torch.cat([known, torch.ones(len(rows), 1, dtype=torch.bool)], 1)
            logits, past = self.model(picked, places, past, known[:, None, None, :], last=True)
        self._keep(rows, made, past, known)
        self.tokens += sum(map(len, made))
        return [
            Generated(tuple(ids), tuple(values), "stop" if ids[-1] in stop else "length")
            for ids, values in zip(made, logprobs, strict=True)
        ]

    def _prefill(self, rows: list[list[int]]) -> None:
        """What several rows begin with alike is computed once: all but the last id of prompts that came several times."""
        times = Counter(map(_key, rows))
        lengths = sorted({length for length, _ in self._kept.values()}, reverse=True)
        alike = {key: row for row in rows if times[key := _key(row)] > 1 and len(row) > 2}
        new = [row[:-1] for row in alike.values() if self._longest(row, lengths) is None]
        if not new:
            return
        wide = max(map(len, new))
        ids = torch.tensor([row + [0] * (wide - len(row)) for row in new])
        _, cache = self.model(ids, last=True)
        for number, row in enumerate(new):
            kept = torch.stack([torch.stack([k[number, :, : len(row)], v[number, :, : len(row)]]) for k, v in cache])
            self._kept[_key(row)] = (len(row), kept)

    def _past(self, olds: Sequence[tuple[int, Tensor | None]]) -> tuple[Cache | None, Tensor]:
        """The rows' keys and values side by side, padded on the left: the cache, and which of it is valid (B, T)."""
        shape, wide = self.model.shape, max(length for length, _ in olds)
        valid = torch.zeros(len(olds), wide, dtype=torch.bool)
        if not wide:
            return None, valid
        all_ = torch.zeros(shape.layers, 2, len(olds), shape.heads, wide, shape.width // shape.heads)
        for row, (length, kept) in enumerate(olds):
            if kept is not None:
                all_[:, :, row, :, wide - length :] = kept
                valid[row, wide - length :] = True
        return [(layer[0], layer[1]) for layer in all_], valid

    def _keep(self, rows: list[list[int]], made: list[list[int]], past: Cache, known: Tensor) -> None:
        """Keys and values of each row up to its last id but one: those of the last were never computed for all."""
        if len(self._kept) > _MOST:
            self._kept.clear()
        places = known.cumsum(1)
        both = torch.stack([torch.stack([k, v]) for k, v in past])
        for row, (prompt, new) in enumerate(zip(rows, made, strict=True)):
            length = len(prompt) + len(new) - 1
            at = known[row] & (places[row] <= length)
            if int(at.sum()) == length:
                self._kept[_key(prompt + new[:-1])] = (length, both[:, :, row, :, at].contiguous())


def _key(ids: Sequence[int]) -> bytes:
    return array("H", ids).tobytes()


def _left(rows: Sequence[Sequence[int]], begin: Sequence[int], wide: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids padded on the left, which are valid, and their positions."""
    ids = torch.zeros(len(rows), wide, dtype=torch.long)
    valid = torch.zeros(len(rows), wide, dtype=torch.bool)
    places = torch.zeros(len(rows), wide, dtype=torch.long)
    for number, (row, first) in enumerate(zip(rows, begin, strict=True)):
        ids[number, wide - len(row) :] = torch.tensor(row)
        valid[number, wide - len(row) :] = True
        places[number, wide - len(row) :] = torch.arange(first, first + len(row))
    return ids, valid, places
