"""A plain torch loop for small models on one machine: what recipes are proved on.

A run is a folder: config.json (the recipe and what it starts from), rollouts.jsonl, steps.jsonl, checkpoints/last.pt. A step draws groups
until enough have signal, makes its updates and is written down; a run that was killed goes on after the last step that was kept,
and draws the same starts and the same random numbers as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from misstep.train.advantages import Filled, Group, fill
from misstep.train.batching import Batched
from misstep.train.engines import Budget, EngineError, Job, RunError
from misstep.train.episode import Codec, Episode
from misstep.train.losses import LossSettings
from misstep.train.recipes.base import Data, Parts, Recipe
from misstep.train.rollout import Rollouts
from misstep.train.starts import Starts, StartsError
from misstep.train.states import States
from misstep.train.tiny import fit
from misstep.train.tiny.model import TinyModel
from misstep.train.tiny.policy import TinyPolicy

CONFIG, ROLLOUTS, STEPS, LAST = "config.json", "rollouts.jsonl", "steps.jsonl", "last.pt"


class CpuRun:
    """One run of a recipe. Iterate over `steps()`; close it, or use it as a context manager.

    Args:
        model: trained in place.
        every: steps between checkpoints; a kill loses at most so many.
        keep_rollouts: write rollouts.jsonl.

    Raises:
        StartsError: there is nothing to start from.
        RecipeError: the recipe lacks a part.
        RunError: `out` holds another run.
    """

    def __init__(
        self,
        recipe: Recipe,
        model: TinyModel,
        codec: Codec,
        data: Data,
        states: States,
        out: Path,
        *,
        parts: Parts | None = None,
        seed: int = 0,
        budget: Budget | None = None,
        every: int = 1,
        keep_rollouts: bool = True,
    ) -> None:
        self.recipe, self.model, self.codec, self.out, self.every = recipe, model, codec, out, every
        self.parts = parts or Parts()
        self.budget = budget or Budget(steps=recipe.steps)
        self.keep_rollouts = keep_rollouts
        self.starts: Starts = recipe.starts(data, seed)
        self.policy = TinyPolicy(model, seed=seed, temperature=recipe.temperature)
        self.batched = Batched(self.policy, most=4096, wait=None)
        self.rollouts = Rollouts(
            self.batched, codec, states, recipe.reward(self.parts), recipe.rollout, counts=self.parts.counts
        )
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay, betas=(0.9, 0.95)
        )
        self.loss = LossSettings(recipe.loss, recipe.delta, recipe.low, recipe.high)
        self.step = self.tokens = 0
        (out / "checkpoints").mkdir(parents=True, exist_ok=True)
        self._config({"recipe": recipe.plain(), "starts": self.starts.plain(), "seed": seed, "engine": "cpu"})
        self._resume()

    def _config(self, made: dict[str, Any]) -> None:
        path = self.out / CONFIG
        made = {"schema": "misstep.run", "version": 1, **json.loads(json.dumps(made))}
        if path.exists():
            there = json.loads(path.read_text())
            differ = [name for name in made if there.get(name) != made[name]]
            if differ:
                raise RunError(f"{path}: is of another run ({', '.join(differ)} differ): name another folder")
            return
        _whole(path, json.dumps(made, indent=1) + "\n")

    def _resume(self) -> None:
        path = self.out / "checkpoints" / LAST
        if path.exists():
            try:
                kept = torch.load(path, weights_only=True)
                self.model.load_state_dict(kept["model"])
                self.optimizer.load_state_dict(kept["optimizer"])
                self.step, self.tokens, self.starts.position = kept["step"], kept["tokens"], kept["position"]
            except (OSError, KeyError, RuntimeError, ValueError) as error:
                raise RunError(f"{path}: expected a checkpoint of this run: {error}") from None
            if kept["fingerprint"] != self.starts.fingerprint:
                raise StartsError(f"{path}: is of other starts: name another folder")
        for name in (STEPS, ROLLOUTS):  # what was written after the checkpoint is done again
            _cut(self.out / name, self.step)

    def _save(self) -> None:
        path = self.out / "checkpoints" / LAST
        fresh = path.with_name("new.pt")
        with fresh.open("wb") as file:
            torch.save(
                {
                    "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step,
                    "tokens": self.tokens, "position": self.starts.position, "fingerprint": self.starts.fingerprint,
                },
                file,
            )  # fmt: skip
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def steps(self) -> Iterator[dict[str, Any]]:
        """Runs to the end of the budget; gives each step's line of steps.jsonl."""
        with (self.out / STEPS).open("a") as log, (self.out / ROLLOUTS).open("a") as rollouts:
            while not self.budget.spent(self.step, self.tokens):
                row = self._one(rollouts)
                log.write(json.dumps(row) + "\n")
                log.flush()
                self.step += 1
                if self.step % self.every == 0 or self.budget.spent(self.step, self.tokens):
                    rollouts.flush()
                    self._save()
                yield row

    def _one(self, rollouts: TextIO) -> dict[str, Any]:
        began = time.perf_counter()
        self.policy.begin(self.step)
        before = Counter(self.parts.counts.kinds)
        filled, order = asyncio.run(self._fill())
        sampled = time.perf_counter() - began
        if self.keep_rollouts:
            for episode in _every(filled):
                rollouts.write(json.dumps({"step": self.step, **episode.plain()}) + "\n")
        learned = self._update(filled)
        episodes = _every(filled)
        tokens = sum(one.trained for one in episodes)
        self.tokens += tokens
        rewards = [one.reward for one in episodes if one.reward is not None]
        faults = Counter(self.parts.counts.kinds - before)
        return {
            "step": self.step, "groups": len(filled.groups), "drawn": filled.drawn, "zero_signal": len(filled.dropped),
            "unknown_groups": filled.unknown, "surplus": len(filled.surplus), "episodes": len(episodes),
            "reward": sum(rewards) / len(rewards) if rewards else None, "unknown": len(episodes) - len(rewards),
            "turns": sum(one.extras.get("steps", 0) for one in episodes),
            "truncated": sum(bool(one.extras.get("truncated")) for one in episodes),
            "tokens": tokens, "tokens_all": self.tokens, "position": self.starts.position, "order": order,
            "counts": {f"{name}/{kind}": count for (name, kind), count in sorted(faults.items())},
            **learned, "seconds": {"rollouts": round(sampled, 3), "all": round(time.perf_counter() - began, 3)},
        }  # fmt: skip

    async def _fill(self) -> tuple[Filled, str]:
        """Groups with signal, and the hash of the starts in the order in which they were drawn."""
        drawn: list[str] = []

        async def draw(count: int) -> list[Group]:
            if self.budget.tokens is not None and drawn and self.tokens + spent[0] >= self.budget.tokens:
                return []
            starts = self.starts.draw(count)
            first = len(drawn)
            drawn.extend(one.id for one in starts)
            made = await self.recipe.roll(self.rollouts, starts, self.parts, first)
            # Which of two alike prompts got which random numbers is decided by who asked first: an order of their own.
            made = [sorted(group, key=lambda one: (one.ids, one.reward is None, one.reward or 0.0)) for group in made]
            spent[0] += sum(one.trained for group in made for one in group)
            return made

        spent = [0]
        filled = await fill(draw, self.recipe.groups, most=max(self.recipe.draws, self.recipe.groups))
        return filled, hashlib.sha256("\n".join(drawn).encode()).hexdigest()[:16]

    def _update(self, filled: Filled) -> dict[str, Any]:
        """The updates of one step, over whole groups; nothing where none has signal."""
        if not filled.groups:
            return {"loss": None, "dropped": None, "drift": None, "norm": None}
        episodes, advantages = filled.episodes, torch.tensor(filled.advantages, dtype=torch.float32)
        ids, mask, old = batch(episodes)
        if any(not one.logprobs for one in episodes):
            with torch.no_grad():
                old = self.model.logprobs(ids, self.recipe.temperature)
        self.model.train()
        rows = torch.arange(len(episodes))
        losses, dropped, drift, norms = 0.0, 0.0, 0.0, []
        cuts = [one for one in rows.chunk(self.recipe.minibatches) if len(one)]
        for cut in cuts:
            count = float(mask[cut].sum())
            self.optimizer.zero_grad(set_to_none=True)
            for piece in cut.split(32):
                wide = int((ids[piece] >= 0).sum(1).max())
                new = self.model.logprobs(ids[piece, :wide].clamp(min=0), self.recipe.temperature)
                part = mask[piece, : wide - 1]
                made = self.loss(new, old[piece, : wide - 1], advantages[piece], part, count)
                made.value.backward()
                losses += float(made.value.detach()) / len(cuts)
                share = made.tokens / max(1.0, count) / len(cuts)
                dropped, drift = dropped + made.dropped * share, drift + made.drift * share
            norms.append(float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.grad_norm)))
            self.optimizer.step()
        self.model.eval()
        return {"loss": losses, "dropped": dropped, "drift": drift, "norm": sum(norms) / len(norms)}

    def close(self) -> None:
        """Ends its threads."""
        self.rollouts.close()
        self.batched.close()

    def __enter__(self) -> CpuRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def batch(episodes: list[Episode]) -> tuple[Tensor, Tensor, Tensor]:
    """(ids (B, T), mask (B, T - 1), log probabilities (B, T - 1)): of the t-th entry of the last two, the id after t. Padded on
    the right, ids with -1."""
    wide = max(len(one.prompt_ids) + len(one.ids) for one in episodes)
    ids = torch.full((len(episodes), wide), -1, dtype=torch.long)
    mask = torch.zeros(len(episodes), wide - 1)
    old = torch.zeros(len(episodes), wide - 1)
    for row, one in enumerate(episodes):
        first, end = len(one.prompt_ids), len(one.prompt_ids) + len(one.ids)
        ids[row, :end] = torch.tensor(one.prompt_ids + one.ids)
        mask[row, first - 1 : end - 1] = torch.tensor(one.mask, dtype=torch.float32)
        if one.logprobs:
            old[row, first - 1 : end - 1] = torch.tensor(one.logprobs)
    return ids, mask, old


def _every(filled: Filled) -> list[Episode]:
    return [one for groups in (filled.groups, filled.dropped, filled.surplus) for group in groups for one in group]


def _cut(path: Path, step: int) -> None:
    """Drops the lines of this step and later ones, and a line that was not finished."""
    if not path.exists():
        return

    def stays(line: bytes) -> bool:
        try:
            return line.endswith(b"\n") and int(json.loads(line)["step"]) < step
        except (ValueError, KeyError, TypeError):
            return False

    with path.open("rb") as file:
        kept = [line for line in file if stays(line)]
    _whole(path, b"".join(kept).decode())


def _whole(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)


def train(job: Job) -> Iterator[dict[str, Any]]:
    """Runs a job whose policy is a folder that `misstep.train.tiny.fit.save` wrote.

    Raises:
        EngineError: the policy cannot be read.
        RunError, StartsError, RecipeError: as `CpuRun`.
    """
    torch.set_num_threads(1)  # a thread more only waits, once sandboxes use the cores
    try:
        model, codec = fit.load(job.policy)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise EngineError(
            f"{job.policy}: expected a policy (config.json, model.pt, tokenizer.json): {error}"
        ) from error
    budget = job.budget if job.budget != Budget() else Budget(steps=job.recipe.steps)
    with (
        States(job.root) as states,
        CpuRun(
            job.recipe, model, codec, job.data, states, job.out, parts=job.parts, seed=job.seed, budget=budget
        ) as run,
    ):  # fmt: skip
        yield from run.steps()
        fit.save(job.out / "policy", model, codec)
