"""What the proof's runs share: a policy with known missteps, environments in two halves, and the states where it went wrong.

A world is a folder: policy/, tasks/, prefixes.jsonl (both halves, split by environment), pivots.jsonl, world.json.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from misstep.catalogue import get
from misstep.catalogue.fold import judge
from misstep.sandbox.base import Root
from misstep.sandbox.tasks import Task
from misstep.train.batching import Batched
from misstep.train.episode import Attempt, Episode
from misstep.train.prefixes import Prefix, Source, Split, Target, Turn, load, save
from misstep.train.recipes.base import Data
from misstep.train.recipes.pivotrl import pivots
from misstep.train.rewards import Behaviour, Conjunction, Outcome
from misstep.train.rollout import Rollouts, Settings
from misstep.train.split import environment_of
from misstep.train.starts import Start
from misstep.train.states import States
from misstep.train.tiny import dialogs, fit, tasks
from misstep.train.tiny.codec import TinyCodec
from misstep.train.tiny.dialogs import Regime
from misstep.train.tiny.model import TinyModel
from misstep.train.tiny.policy import TinyPolicy
from misstep.trajectory import events

TARGETS = tuple(Target(one, "catalogue", get(one).name) for one in sorted(tasks.MISSTEPS.values()))
ROLLOUT = Settings(
    turns=7, floor=4, command_seconds=10.0, response_tokens=320, turn_tokens=40, context=480, seconds=180.0, at_once=96
)
"""Bounds that fit the small policy: its longest right dialog has five turns."""
_FIT, _TRAIN, _HELD, _SLOW = 10_000_000, 1_000_000, 2_000_000, 3_000_000
"""First seeds: of dialogs, of training and of held-out environments, of held-out repairs with a slow test."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    dialogs: int = 1200
    fit_steps: int = 800
    train: int = 300
    held: int = 80
    slow: int = 60
    """Held-out environments with a slow test, where the rare misstep is (rare regime)."""
    prefixes: int = 48
    """Held-out prefixes at most."""


@dataclass(frozen=True, slots=True)
class World:
    """A world, read from its folder."""

    folder: Path
    regime: Regime
    train: tuple[Start, ...]
    held: tuple[Start, ...]
    """Held-out tasks as they come."""
    eligible: tuple[Start, ...]
    """Held-out tasks where the misstep may be met: in the common regime those of `held`, in the rare one repairs with a slow test."""
    prefixes: tuple[Prefix, ...]
    held_prefixes: tuple[Prefix, ...]
    pivots: tuple[Prefix, ...]
    made: dict[str, Any]

    @property
    def data(self) -> Data:
        """What recipes start from: of training environments alone."""
        return Data(self.prefixes, self.train, self.pivots)

    def policy(self) -> tuple[TinyModel, TinyCodec]:
        """Fresh weights of the policy before RL, and its codec."""
        return fit.load(self.folder / "policy")


def quick(attempt: Attempt) -> Task:
    """The verifier of an attempt, read once a folder."""
    folder = attempt.start.folder
    if folder not in _READ:
        _READ[folder] = tasks.load(Path(folder))
    return _READ[folder]


_READ: dict[str, Task] = {}


def measured() -> Conjunction:
    """What evaluation asks: both parts always, tests whether submitted or not."""
    return Conjunction(Outcome(task=quick, submitted=False), Behaviour(), lazy=False)


def roll(
    model: TinyModel, codec: TinyCodec, states: States, starts: Sequence[Start], *, size: int = 1, seed: int = 0
) -> list[Episode]:
    """Evaluation rollouts at temperature 1, `size` of each start, in order."""
    policy = TinyPolicy(model, seed=seed)
    policy.begin(0)
    batched = Batched(policy, most=4096, wait=None)
    try:
        with Rollouts(batched, codec, states, measured(), ROLLOUT) as rollouts:
            return [one for group in asyncio.run(rollouts.groups(starts, size)) for one in group]
    finally:
        batched.close()


def first_misstep(attempt: Attempt) -> tuple[int, str] | None:
    """(number of the agent's turn, id) of the first misstep of our families in an attempt."""
    steps = {event.index: event.step for event in events(attempt.trajectory)}
    found = judge(attempt.trajectory, [get(one.id) for one in TARGETS]).verdicts
    all_ = [(steps[one.at], name) for name, verdicts in found.items() for one in verdicts if one.holds]
    if not all_:
        return None
    at, name = min(all_)
    return sum(step.source == "agent" for step in attempt.trajectory.steps[:at]), name


def turns_of(attempt: Attempt) -> list[Turn]:
    """The agent's turns with a command; attempts that had one without are not used."""
    made = []
    for step in attempt.trajectory.steps:
        for call in step.calls:
            seen = step.results.get(call.id)
            if call.command is not None and seen is not None:
                made.append(
                    Turn(
                        call.command, seen.output, seen.exit_code, timed_out=bool(seen.timed_out), timeout=call.timeout
                    )
                )
    return made


def _before(episode: Episode, turn: int) -> tuple[int, ...]:
    """The ids before the n-th of the agent's turns, as the policy had them."""
    began = [n for n, on in enumerate(episode.mask) if on and (n == 0 or not episode.mask[n - 1])]
    return episode.prompt_ids + episode.ids[: began[turn]]


def found(episodes: Sequence[Episode], split: Split) -> tuple[list[Prefix], list[Prefix]]:
    """Misstep prefixes, and the steps of successful attempts as pivots."""
    prefixes, all_pivots = [], []
    for one in episodes:
        attempt = one.attempt
        if attempt is None or attempt.ended == "fault":
            continue
        turns, start = turns_of(attempt), attempt.start
        plain = len(turns) == attempt.own_steps - (attempt.ended == "submitted")
        if not plain:
            continue
        instruction = attempt.trajectory.steps[0].message
        like = Prefix(
            start.task, start.folder, start.environment, instruction, (), TARGETS[0], split=split, workdir="/app",
            source=Source(path="profile", agent="tiny", by="catalogue"),
        )  # fmt: skip
        misstep = first_misstep(attempt)
        if misstep is not None:
            at, name = misstep
            target = next(t for t in TARGETS if t.id == name)
            prefixes.append(
                Prefix(
                    start.task, start.folder, start.environment, instruction, tuple(turns[:at]), target,
                    token_ids=_before(one, at), split=split, workdir="/app", source=like.source,
                )
            )  # fmt: skip
        if one.extras["parts"].get("outcome") == 1.0 and attempt.ended == "submitted":
            last = next(step.message for step in reversed(attempt.trajectory.steps) if step.stop)
            all_pivots += pivots(instruction, turns, f"done {last}".strip(), like)
    return prefixes, all_pivots


def _starts(made: Sequence[tasks.TinyTask], folder: Path) -> list[Start]:
    paths = [one.folder.write(folder) for one in made]
    return [Start.of_task(path, TARGETS, environment_of(path)) for path in paths]


def build(
    folder: Path, regime: Regime, root: Root, size: Size | None = None, told: Callable[[str], None] = lambda text: None
) -> World:
    """Makes a world, or reads the one that is there."""
    size = size or Size()
    if not (folder / "world.json").exists():
        _make(folder, regime, root, size, told)
    return read(folder)


def _make(folder: Path, regime: Regime, root: Root, size: Size, told: Callable[[str], None]) -> None:
    at = folder / "tasks"
    at.mkdir(parents=True, exist_ok=True)
    made = [tasks.generate(_FIT + n) for n in range(size.dialogs)]
    if regime == "rare":  # more of the slow ones, or the policy would not learn what they are like
        made += [tasks.generate(_FIT * 2 + n, slow=True) for n in range(size.dialogs // 10)]
    if not (folder / "policy" / "tokenizer.json").exists():
        spoken = dialogs.make(made, regime, root, at)
        told(f"{len(spoken)} dialogs, {sum(one.misstep for one in spoken)} with a misstep")
        codec = fit.tokenizer(spoken)
        model = fit.fit(spoken, codec, steps=size.fit_steps, told=lambda n, loss: told(f"step {n}: loss {loss:.3f}"))
        fit.save(folder / "policy", model, codec)
    model, codec = fit.load(folder / "policy")
    train = _starts([tasks.generate(_TRAIN + n) for n in range(size.train)], at)
    known = {one.environment for one in train}
    held = [
        one
        for one in _starts([tasks.generate(_HELD + n) for n in range(size.held)], at)
        if one.environment not in known
    ]
    eligible = held
    if regime == "rare":
        slow = _starts([tasks.generate(_SLOW + n, slow=True) for n in range(size.slow)], at)
        eligible = [one for one in slow if one.environment not in known]
    with States(root) as states:
        there = roll(model, codec, states, train, seed=11)
        prefixes, all_pivots = found(there, "train")
        told(f"profile: {len(prefixes)} misstep prefixes of {len(there)} training attempts")
        unseen = roll(model, codec, states, eligible, size=2 if regime == "common" else 1, seed=12)
        others = list({one.id: one for one in found(unseen, "held-out")[0]}.values())
        told(f"profile: {len(others)} of {len(unseen)} held-out attempts")
    prefixes = list({one.id: one for one in prefixes}.values())
    save(folder / "prefixes.jsonl", [*prefixes, *others[: size.prefixes]])
    save(folder / "pivots.jsonl", {one.id: one for one in all_pivots}.values())
    plain = [[Path(one.folder).name, one.environment] for one in train]
    world = {
        "schema": "misstep.world", "version": 1, "regime": regime, "size": asdict(size), "train": plain,
        "held": [[Path(one.folder).name, one.environment] for one in held],
        "eligible": [[Path(one.folder).name, one.environment] for one in eligible],
        "parameters": sum(weights.numel() for weights in model.parameters()), "vocabulary": len(codec),
    }  # fmt: skip
    fresh = folder / "world.json.new"
    fresh.write_text(json.dumps(world, indent=1) + "\n")
    fresh.replace(folder / "world.json")


def read(folder: Path) -> World:
    """Reads a world's folder. Raises OSError, KeyError, ValueError."""
    made = json.loads((folder / "world.json").read_text())

    def starts(name: str) -> tuple[Start, ...]:
        return tuple(Start.of_task(folder / "tasks" / task, TARGETS, environment) for task, environment in made[name])

    prefixes = load(folder / "prefixes.jsonl")[1]
    return World(
        folder, made["regime"], starts("train"), starts("held"), starts("eligible"),
        tuple(one for one in prefixes if one.split == "train"),
        tuple(one for one in prefixes if one.split == "held-out"),
        tuple(load(folder / "pivots.jsonl")[1]), made,
    )  # fmt: skip
