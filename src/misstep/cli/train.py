"""`misstep train`."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option, debugging, one_line

if TYPE_CHECKING:
    from misstep.train.recipes import Data, Recipe


def _list(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value:
        return
    from misstep.train.engines import engines
    from misstep.train.recipes import RECIPES

    wide = max(map(len, RECIPES))
    for name in RECIPES:
        made = RECIPES[name]()
        click.echo(f"{name:{wide}}  share of prefixes {made.share:g}, {made.groups} starts x {made.size} rollouts")
    click.echo(f"engines: {', '.join(engines())}")
    ctx.exit(0)


@click.command("train")
@click.argument("recipe", metavar="RECIPE")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="Recipes and engines.")
@click.option("--policy", type=click.Path(exists=True, file_okay=False, path_type=Path), help="The policy's folder.")
@click.option("--prefixes", type=click.Path(exists=True, path_type=Path), help="What `misstep prefixes build` wrote.")
@click.option(
    "--tasks",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of tasks (Harbor's format).",
)
@click.option("--pivots", type=click.Path(exists=True, path_type=Path), help="Pivots, as prefixes (recipe pivotrl).")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="The run's folder; goes on where it stopped."
)
@click.option("--engine", default="cpu", show_default=True)
@click.option("--share", type=click.FloatRange(0, 1), help="Of starts that are prefixes.  [default: the recipe's]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--steps", type=click.IntRange(1), help="RL steps at most.  [default: the recipe's]")
@click.option("--tokens", type=click.IntRange(1), help="Generated tokens at most.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the recipe (rate=1e-5, rollout.turns=32).",
)
@click.option(
    "--root", help="host, base, a tar or a directory: stands for the image of the tasks.  [default: base, else host]"
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON a step.")
@click.option(
    "--show", is_flag=True, help="The recipe's settings, and the section of the paper each is from; trains nothing."
)
@debug_option
def command(
    recipe: str, policy: Path | None, prefixes: Path | None, tasks: Path | None, pivots: Path | None, out: Path | None,
    engine: str, share: float | None, seed: int, steps: int | None, tokens: int | None, settings: tuple[str, ...],
    root: str | None, as_json: bool, show: bool,
) -> None:  # fmt: skip
    """Train a policy away from its missteps by RECIPE (see --list).

    Starts come from --prefixes (the training half alone) and --tasks, mixed by --share. Written to --out: config.json,
    rollouts.jsonl, steps.jsonl, checkpoints/ and, at the end, policy/. A run that was interrupted goes on there.
    """
    from misstep.sandbox import SandboxError, native, roots
    from misstep.train import engines
    from misstep.train.engines import Budget, EngineError, Job
    from misstep.train.prefixes import PrefixError
    from misstep.train.recipes import RecipeError, get
    from misstep.train.split import SplitError
    from misstep.train.starts import StartsError

    try:
        made = _set(get(recipe), settings, share)
        if show:
            for name, section in made.SECTIONS.items():
                click.echo(f"{name} = {one_line(str(getattr(made, name)))}\n    {section}")
            return
        if policy is None or out is None:
            raise Failure("--policy and --out are needed")
        train = engines.get(engine)
        problem = native.problem()
        if problem:
            raise Failure(problem)
        data = _data(prefixes, tasks, pivots)
        base = roots.find(root or ("base" if roots.base_tar().exists() else "host"))
        budget = Budget(steps if steps or tokens else made.steps, tokens)
        for row in train(Job(made, policy, data, base, out, seed=seed, budget=budget)):
            click.echo(json.dumps(row) if as_json else _line(row))
    except (RecipeError, EngineError, StartsError, PrefixError, SandboxError, SplitError) as error:
        if debugging():
            raise
        raise Failure(one_line(str(error))) from error


def _set(made: Recipe, settings: tuple[str, ...], share: float | None) -> Recipe:
    """The recipe with settings of the command line."""
    for one in settings:
        name, equals, value = one.partition("=")
        outer, _, inner = name.partition(".")
        target: Any = made.rollout if outer == "rollout" and inner else made
        known = {field.name: field for field in fields(target) if field.name not in ("name", "rollout")}
        if not equals or (inner or outer) not in known:
            raise Failure(f"--set {one}: expected NAME=VALUE with a setting of {made.name}: {', '.join(known)}")
        old = getattr(target, inner or outer)
        try:
            new = {"true": True, "false": False}[value] if isinstance(old, bool) else type(old)(value)
        except (ValueError, KeyError):
            raise Failure(f"--set {one}: expected a value like {old!r}") from None
        changed = replace(target, **{inner or outer: new})
        made = changed if target is made else replace(made, rollout=changed)
    return made if share is None else replace(made, share=share)


def _data(prefixes: Path | None, tasks: Path | None, pivots: Path | None) -> Data:
    from misstep.sandbox import tasks as folders
    from misstep.train import split
    from misstep.train.prefixes import load
    from misstep.train.recipes import Data
    from misstep.train.starts import Start

    known = load(prefixes, split="train")[1] if prefixes else []
    held = {one.environment for one in load(prefixes, split="held-out")[1]} if prefixes else set()
    made = [] if tasks is None else [(one.path, split.environment_of(one.path)) for one in folders.find(tasks)]
    starts = [Start.of_task(path, (), environment) for path, environment in made if environment not in held]
    return Data(known, starts, load(pivots, split="train")[1] if pivots else [])


def _line(row: dict[str, Any]) -> str:
    reward = "none" if row["reward"] is None else f"{row['reward']:.3f}"
    parts = [
        f"step {row['step']:4}", f"reward {reward}", f"groups {row['groups']} of {row['drawn']}",
        f"zero-signal {row['zero_signal']}", f"tokens {row['tokens_all']:,}", f"truncated {row['truncated']}",
        f"unknown {row['unknown']}", f"{row['seconds']['all']:.1f} s",
    ]  # fmt: skip
    return "  ".join(parts)
