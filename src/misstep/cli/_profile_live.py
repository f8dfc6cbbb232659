"""`misstep profile --tasks DIR`: the policy is rolled out on tasks, in sandboxes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option, debugging, one_line
from .profile import _cost, json_option, models_option, offline_option, out_option, told, with_models

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from misstep.models import Settings
    from misstep.profile.labels import StepLabel
    from misstep.profile.live import Done


@click.command("live")
@click.option("--tasks", "folders", metavar="DIR", multiple=True, required=True,
              type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="A task's folder (Harbor's format), or a folder of some. May be given more than once.")  # fmt: skip
@models_option
@out_option
@click.option("--policy", metavar="MODEL", help="provider:name of the policy, in the place of the role's model.")
@click.option("--rollouts", metavar="N", type=click.IntRange(1), default=1, show_default=True,
              help="Of each task, discarded ones not counted.")  # fmt: skip
@click.option("--steps", metavar="N", type=click.IntRange(1), default=64, show_default=True,
              help="Answers of the policy in one rollout.")  # fmt: skip
@click.option("--discards", metavar="N", type=click.IntRange(1), default=3, show_default=True,
              help="Of one task, after which no further rollout of it is begun.")  # fmt: skip
@click.option("--tries", metavar="N", type=click.IntRange(1), default=3, show_default=True,
              help="Corrections that the teacher may propose for one step.")  # fmt: skip
@click.option("--votes", metavar="K", type=click.IntRange(1), default=1, show_default=True,
              help="Independent votes of the localizer on each step.")  # fmt: skip
@click.option("--command-seconds", metavar="S", type=click.FloatRange(0, min_open=True), default=120.0, show_default=True,
              help="Of one command.")  # fmt: skip
@click.option(
    "--at-once", metavar="N", type=click.IntRange(1), help="Rollouts at a time.  [default: the policy's concurrency]"
)
@click.option("--root", help="host, base, a tar or a directory: stands for the image of the task.  "
              "[default: base where it is built, else host]")  # fmt: skip
@offline_option
@json_option
@debug_option
def command(
    folders: tuple[Path, ...],
    models: Path,
    out: Path,
    policy: str | None,
    rollouts: int,
    steps: int,
    discards: int,
    tries: int,
    votes: int,
    command_seconds: float,
    at_once: int | None,
    root: str | None,
    offline: bool,
    as_json: bool,
) -> int:
    """Roll a policy out on tasks, and judge each of its steps before it runs.

    The roles are `policy`, `localizer` and `teacher`. The localizer judges every step that the policy proposes; for a bad one the
    teacher writes another, which the localizer judges as well, and the rollout goes on with that. Without an accepted one in three
    tries the rollout is discarded. At the end the task's verifier runs. The verdicts are in DIR/profile.jsonl, the records
    in DIR/trajectories.
    """
    from misstep.models import Client
    from misstep.profile.labels import load
    from misstep.profile.live import Options, Rollouts, load_rollouts, profile
    from misstep.profile.rollout import Rules
    from misstep.sandbox import SandboxError, checking, native, roots

    problem = native.problem()
    if problem:
        raise Failure(problem)
    try:
        base = roots.find(root or ("base" if roots.base_tar().exists() else "host"))
        tasks = [task for folder in folders for task in checking.find(folder)]
        for task in tasks:
            _ = task.instruction
    except (SandboxError, OSError) as error:
        if debugging():
            raise
        raise Failure(str(error)) from error

    def work(settings: Settings) -> Coroutine[Any, Any, tuple[Done, dict[str, Any]]]:
        async def run() -> tuple[Done, dict[str, Any]]:
            given = _with_policy(settings, policy)
            limit = at_once or given.role("policy").concurrency
            options = Options(Rules(steps, votes, command_seconds), rollouts, discards, tries, limit)
            with Rollouts(out, options.header(given, base)) as kept:
                for note in kept.notes:
                    click.echo(f"misstep: {one_line(note)}", err=True)
                async with Client.open(given, out, offline=offline) as client:
                    before = client.cache.spent()
                    done = await profile(tasks, base, options, client, kept, _watch())
                    return done, _cost(before, client.cache.spent(), client.hits)

        return run()

    done, cost = with_models(models, work)
    _, labels = load(out)
    _, records = load_rollouts(out)
    whole = _summary(labels, records)
    if as_json:
        click.echo(json.dumps({**whole, "cost": cost, "broken": done.broken, "stopped": done.stopped}))
    else:
        click.echo("\n".join(_told(labels, whole, done, cost, out)))
    if done.stopped:
        raise Failure(f"not all was rolled out: {done.stopped}; the same command goes on with it")
    return 0


def _with_policy(settings: Settings, policy: str | None) -> Settings:
    from dataclasses import replace

    from misstep.models import Role, SettingsError
    from misstep.models.settings import PROVIDERS

    if policy is None:
        return settings
    if policy.partition(":")[0] not in PROVIDERS or not policy.partition(":")[2]:
        raise SettingsError(f"--policy is provider:name with one of {', '.join(PROVIDERS)}, not {policy!r}")
    role = settings.roles.get("policy") or Role(policy)
    return replace(settings, roles={**settings.roles, "policy": replace(role, model=policy)})


def _watch() -> Callable[[int, int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def tell(done: int, discarded: int, broken: int) -> None:
        print(f"\r{done:,} rollouts, {discarded:,} discarded, {broken:,} broken ", end="", file=sys.stderr, flush=True)

    return tell


def _summary(labels: list[StepLabel], records: list[dict[str, Any]]) -> dict[str, Any]:
    from misstep.profile.summary import Share, summary

    ended = [one for one in records if one["end"] != "broken"]
    kept = [one for one in ended if one["end"] != "discarded"]
    verified = [one for one in kept if one["passed"] is not None]
    bad = [one for one in labels if one.verdict == "bad"]
    return {
        **summary(labels).plain(),
        "rollouts": len(ended),
        "kept": len(kept),
        "ends": {
            end: sum(one["end"] == end for one in ended) for end in ("submitted", "steps", "context", "discarded")
        },
        "passed": Share(sum(one["passed"] for one in verified), len(verified)).plain(),
        "unverified": len(kept) - len(verified),
        "corrected": sum(one.corrected is not None for one in bad),
        "tries": sum(len(one.corrected["tries"]) for one in bad if one.corrected),
        "malformed": sum(one["malformed"] for one in kept),
        "cut": sum(one["cut"] for one in kept),
        "discarded": {name: sum(one[name] for one in ended if one["end"] == "discarded") for name in ("judged", "bad")},
        "discarded_because": [one["reason"] for one in ended if one["end"] == "discarded"],
    }


def _told(labels: list[StepLabel], whole: dict[str, Any], done: Done, cost: dict[str, Any], out: Path) -> list[str]:
    from misstep.profile.summary import Share, summary

    judged = summary(labels)
    ends, passed, lost = whole["ends"], whole["passed"], whole["discarded"]
    how = (
        f"{ends['submitted']:,} submitted, {ends['steps']:,} at the limit of steps, {ends['context']:,} out of context"
    )
    lines = [
        f"{whole['rollouts']:,} rollouts on {done.tasks:,} task{'s' * (done.tasks != 1)}: {how}, {ends['discarded']:,} discarded",
        f"  bad steps                {told(judged.bad)}",
        f"  rollouts with a bad one  {told(judged.trajectories_bad)}",
        f"  tasks with a bad one     {told(judged.tasks_bad)}",
        f"  corrected                {whole['corrected']:,}, in {whole['tries']:,} tries",
        f"  bad ones of discarded rollouts, not among those  {lost['bad']:,} of {lost['judged']:,} judged",
        f"  passed                   {told(Share(passed['some'], passed['of']))}",
        f"  without a verdict        {sum(judged.failures.values()):,} steps, {whole['unverified']:,} rollouts",
        f"  answers without one command  {whole['malformed']:,}; cut off at the limit of tokens: {whole['cut']:,}",
    ]
    lines += [f"  broken, to be made anew: {count:,} {one_line(fault)}" for fault, count in sorted(done.broken.items())]
    usd = f"${cost['usd']:.4f}" + (f" and {cost['unpriced']:,} without a price" if cost["unpriced"] else "")
    lines.append(
        f"Cost of this run: {cost['calls']:,} calls, {cost['tokens']:,} tokens, {usd}; {cost['cached']:,} from the cache"
    )
    lines.append(
        f"Every verdict: {one_line(str(out / 'profile.jsonl'))}; every rollout: {one_line(str(out / 'rollouts.jsonl'))}"
    )
    return lines
