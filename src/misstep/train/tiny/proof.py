"""The proof: every recipe on the same environments, with the same budget of generated tokens, before and after.

A cell is a regime, a row (a recipe and its share of prefix starts) and a seed. Its result is a file, cells/REGIME/ROW-SEED.json: a proof that was
interrupted goes on with the cells that are missing. `table` puts them together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from misstep.sandbox.base import Root
from misstep.train.engines import Budget
from misstep.train.engines.cpu import CpuRun
from misstep.train.episode import Episode
from misstep.train.recipes import ablations, mirl, pivotrl, rar, tmax
from misstep.train.recipes.base import Parts, Recipe
from misstep.train.starts import Start
from misstep.train.states import States
from misstep.train.tiny import standins, world
from misstep.train.tiny.codec import TinyCodec
from misstep.train.tiny.model import TinyModel
from misstep.train.tiny.world import World

ROWS: dict[str, Callable[[], Recipe]] = {
    "tmax": tmax.recipe,
    "behaviour-reward": ablations.behaviour_reward,
    "mirl": mirl.recipe,
    "mirl-prefixes": mirl.published,
    "prefix-starts": ablations.prefix_starts,
    "environment-selection": ablations.environment_selection,
    "pivotrl": pivotrl.recipe,
    "rar": rar.recipe,
}
"""mirl, behaviour-reward and mirl-prefixes are one reward with half, none and all of the starts at prefixes."""
BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run."""

    size: world.Size
    tokens: int = 8_000
    """Generated in a cell's training, dropped groups included."""
    seeds: int = 3
    probes: int = 4
    """Looks at held-out prefixes on the way, evenly over the budget."""
    groups: int = 4
    members: int = 8
    rate: float = 3e-4
    rows: tuple[str, ...] = tuple(ROWS)


FULL = Plan(world.Size())
SHORT = Plan(
    world.Size(500, 500, 120, 30, 24, 24),
    tokens=5_000,
    seeds=1,
    probes=2,
    rows=("behaviour-reward", "mirl", "mirl-prefixes"),
)


def fitted(recipe: Recipe, plan: Plan) -> Recipe:
    """A recipe at the small policy's size. What differs from the papers' settings is here and nowhere else: 4 groups of 8, a rate of
    3e-4, two updates a step (so that the second is off-policy, as asynchronous training is), a tenth of the turns."""
    return replace(
        recipe, groups=plan.groups, size=plan.members, draws=2 * plan.groups, rate=plan.rate, minibatches=2,
        rollout=world.ROLLOUT,
    )  # fmt: skip


def parts() -> Parts:
    """Rules in the place of judges (`standins`), the catalogue's detectors, real verifiers."""
    return Parts(
        equivalence=standins.SameStep(), rubrics=standins.rubric, rubric_judge=standins.ByRules(), task=world.quick
    )


def cell(made: World, row: str, seed: int, plan: Plan, root: Root, out: Path) -> dict[str, Any]:
    """Runs a cell, or reads its result."""
    path = out / "cells" / made.regime / f"{row}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    path.parent.mkdir(parents=True, exist_ok=True)
    began, cpu = time.perf_counter(), time.process_time()
    model, codec = made.policy()
    result: dict[str, Any] = {"regime": made.regime, "row": row, "seed": seed, "curve": [], "tokens": 0, "steps": 0}
    with States(root) as states:
        if row != BEFORE:
            result |= _train(made, row, seed, plan, model, codec, states, out)
        result["evaluation"] = evaluate(made, model, codec, states, seed)
    result["seconds"] = {"wall": round(time.perf_counter() - began, 1), "cpu": round(time.process_time() - cpu, 1)}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(result) + "\n")
    fresh.replace(path)
    return result


def _train(
    made: World, row: str, seed: int, plan: Plan, model: TinyModel, codec: TinyCodec, states: States, out: Path
) -> dict[str, Any]:
    recipe = fitted(ROWS[row](), plan)
    own, data = parts(), made.data
    if isinstance(recipe, pivotrl.Pivotrl):
        data = replace(data, pivots=_pivots(made, recipe, model, codec, own))
    some = [Start.at(one) for one in made.held_prefixes[::2]]
    curve = [[0, *_rate(world.roll(model, codec, states, some, seed=90 + seed))]]
    rows: list[dict[str, Any]] = []
    folder = out / "runs" / made.regime / f"{row}-{seed}"
    with CpuRun(
        recipe, model, codec, data, states, folder,
        parts=own, seed=seed, budget=Budget(tokens=plan.tokens), every=10, keep_rollouts=False,
    ) as run:  # fmt: skip
        for line in run.steps():
            rows.append(line)
            if line["tokens_all"] >= plan.tokens * len(curve) / plan.probes and len(curve) < plan.probes:
                probe = world.roll(model, codec, states, some, seed=90 + seed)
                curve.append([line["tokens_all"], *_rate(probe)])
    return {
        "curve": curve, "tokens": sum(one["tokens"] for one in rows), "steps": len(rows),
        "rollouts": sum(one["episodes"] for one in rows), "drawn": sum(one["drawn"] for one in rows),
        "zero_signal": sum(one["zero_signal"] for one in rows), "truncated": sum(one["truncated"] for one in rows),
        "unknown": sum(one["unknown"] for one in rows), "groups": sum(one["groups"] for one in rows),
        "dropped": [one["dropped"] for one in rows], "faults": _faults(rows), "starts": run.starts.plain(),
    }  # fmt: skip


def _pivots(made: World, recipe: pivotrl.Pivotrl, model: TinyModel, codec: TinyCodec, own: Parts) -> list[Any]:
    import asyncio

    from misstep.train.batching import Batched
    from misstep.train.tiny.policy import TinyPolicy

    policy = TinyPolicy(model, seed=71)
    policy.begin(0)
    batched = Batched(policy, most=4096, wait=None)
    try:
        return asyncio.run(pivotrl.select(batched, codec, made.pivots, recipe, own))
    finally:
        batched.close()


def _faults(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Counts by kind of what was no answer."""
    known = ("/known", "/submitted", "/steps", "/tokens")
    found: dict[str, int] = {}
    for row in rows:
        for name, count in row["counts"].items():
            if not name.endswith(known):
                found[name] = found.get(name, 0) + count
    return found


def _rate(episodes: Sequence[Episode]) -> tuple[int, int]:
    """(missteps, attempts in which it can be told)."""
    told = [value for one in episodes if (value := one.extras["parts"].get("behaviour")) is not None]
    return sum(value == 0.0 for value in told), len(told)


def evaluate(made: World, model: TinyModel, codec: TinyCodec, states: States, seed: int) -> dict[str, list[list[Any]]]:
    """Held-out rollouts: from prefixes, from tasks as they come, and from tasks where the misstep may be met.

    Each rollout is [environment, misstep, success, turns, tokens, truncated, ended]; what is unknown is None.
    """
    sets = {"prefixes": [Start.at(one) for one in made.held_prefixes], "tasks": list(made.held)}
    if made.eligible != made.held:
        sets["eligible"] = list(made.eligible)
    return {
        name: [_line(one) for one in world.roll(model, codec, states, starts, seed=1000 + seed)]
        for name, starts in sets.items()
    }


def _line(one: Episode) -> list[Any]:
    extras, got = one.extras, one.extras["parts"]
    absent, passed = got.get("behaviour"), got.get("outcome")
    assert one.attempt is not None
    return [
        one.attempt.start.environment[:16], None if absent is None else int(absent == 0.0),
        None if passed is None else int(passed == 1.0), extras["steps"], extras["tokens"], int(extras["truncated"]),
        extras["ended"],
    ]  # fmt: skip
