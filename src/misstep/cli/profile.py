"""`misstep profile`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option, debugging, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from misstep.models import Settings
    from misstep.profile.evaluate import Score
    from misstep.profile.recorded import Found
    from misstep.profile.summary import Share, Summary


class _Paths(click.Group):
    """`misstep profile PATHS ...` is `misstep profile recorded PATHS ...`, and with `--tasks` it is `misstep profile live ...`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.list_commands(ctx) and args[0] not in ("--help", "-h", "--debug"):
            live = any(one == "--tasks" or one.startswith("--tasks=") for one in args)
            args = ["live" if live else "recorded", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.commands, "live"])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name == "live":
            from ._profile_live import command as live

            return live
        return super().get_command(ctx, name)


@click.group("profile", cls=_Paths)
@debug_option
def command() -> None:
    """Find missteps that nobody wrote a detector for, with models.

    `misstep profile PATHS` is `misstep profile recorded PATHS`: a model judges the steps of recorded sessions.
    `misstep profile --tasks DIR` is `misstep profile live --tasks DIR`: a policy is rolled out on tasks, in sandboxes.
    """


models_option = click.option(
    "--models", "models", metavar="FILE", required=True, type=click.Path(dir_okay=False, path_type=Path),
    help="Which model does what (TOML).",
)  # fmt: skip
out_option = click.option(
    "--out", metavar="DIR", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="Where the results go, and the cache of answers. A run that was ended goes on there.",
)  # fmt: skip
offline_option = click.option("--offline", is_flag=True, help="Take what the cache has; ask no server.")
json_option = click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")


@command.command("recorded")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@models_option
@out_option
@click.option("--votes", metavar="K", type=click.IntRange(1), default=1, show_default=True,
              help="Independent votes on each step; their agreement is the confidence.")  # fmt: skip
@click.option("--batch", metavar="N", type=click.IntRange(1), default=1, show_default=True,
              help="Steps that are judged in one question: cheaper, and blinder.")  # fmt: skip
@click.option("--steps", metavar="N", type=click.IntRange(1), help="Only the first N calls of each session.")
@click.option("--sample", metavar="N", type=click.IntRange(1), help="Only N calls of all, drawn at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw.")
@offline_option
@json_option
@debug_option
def recorded(
    paths: tuple[str, ...],
    models: Path,
    out: Path,
    votes: int,
    batch: int,
    steps: int | None,
    sample: int | None,
    seed: int,
    offline: bool,
    as_json: bool,
) -> int:
    """Let a model (the role `localizer`) judge each call of recorded sessions.

    PATHS are session files or folders of them, in the format of any known agent. Each call is judged from the task and the
    steps before it: wrong or impossible (bad), or good. The verdicts are in DIR/profile.jsonl.
    """
    from misstep.models import Client
    from misstep.profile.labels import Labels, load
    from misstep.profile.recorded import Options, profile
    from misstep.profile.summary import summary

    for path in paths:
        if not os.path.lexists(path):
            raise Failure(f"{path}: no such file or folder")
    options = Options(paths, votes, batch, steps, sample, seed)
    watch = _watch()

    def work(settings: Settings) -> Coroutine[Any, Any, tuple[Found, dict[str, Any]]]:
        async def run() -> tuple[Found, dict[str, Any]]:
            with Labels(out, options.header(settings.role("localizer"))) as labels:
                for note in labels.notes:
                    click.echo(f"misstep: {one_line(note)}", err=True)
                if votes > 1 and settings.role("localizer").temperature == 0:
                    click.echo("misstep: at a temperature of 0 all votes are the same", err=True)
                async with Client.open(settings, out, offline=offline) as client:
                    before = client.cache.spent()
                    found = await profile(options, client, labels, watch, apart=(os.cpu_count() or 1) > 1)
                    now = client.cache.spent()
                    return found, _cost(before, now, client.hits)

        return run()

    found, cost = with_models(models, work)
    if watch is not None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    _, labels = load(out)
    whole = summary(labels)
    if as_json:
        click.echo(
            json.dumps({**whole.plain(), "cost": cost, "found": vars(found) | {"unreadable": dict(found.unreadable)}})
        )
    else:
        click.echo("\n".join(_told(whole, found, cost, out)))
    if found.stopped:
        raise Failure(f"not all was judged: {found.stopped}; the same command goes on with it")
    return 0


@command.command("eval")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--models", "models", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Which model is the localizer (TOML). Without it, the catalogue alone is measured.")  # fmt: skip
@click.option("--out", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
              help="Where the answers go, and the cache; needed with --models.")  # fmt: skip
@click.option("--protocol", "protocols", multiple=True, type=click.Choice(["all-at-once", "step-by-step"]),
              help="Repeatable.  [default: both]")  # fmt: skip
@click.option("--votes", metavar="K", type=click.IntRange(1), default=1, show_default=True,
              help="Votes on each step, step by step.")  # fmt: skip
@offline_option
@json_option
@debug_option
def eval_(
    paths: tuple[Path, ...],
    models: Path | None,
    out: Path | None,
    protocols: tuple[str, ...],
    votes: int,
    offline: bool,
    as_json: bool,
) -> int:
    """Measure a localizer against runs in which people marked the mistake.

    PATHS hold runs of Who&When or AgentRx. Step accuracy, the same within 1 to 5 steps, and agent accuracy, with exact
    intervals; beside the model, the deterministic catalogue where it has something to judge.
    """
    from misstep.profile.attribution import DatasetError, read

    if models is not None and out is None:
        raise Failure("--models needs --out DIR, for the answers")
    try:
        runs, skipped = read(paths)
    except DatasetError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error

    async def work(settings: Settings) -> tuple[list[Any], dict[str, Any]]:
        from misstep.models import Client
        from misstep.profile import evaluate

        assert out is not None
        chosen = tuple(dict.fromkeys(protocols)) or evaluate.PROTOCOLS
        with evaluate.lines(out, evaluate.header(chosen, settings.role("localizer"), votes)) as kept:
            async with Client.open(settings, out, offline=offline) as client:
                before = client.cache.spent()
                await evaluate.evaluate(runs, chosen, client, kept, votes)
                cost = _cost(before, client.cache.spent(), client.hits)
            return [evaluate.Answer(**one) for one in kept.records.values() if one["protocol"] in chosen], cost

    answers, cost = with_models(models, work) if models is not None else ([], None)
    try:
        from misstep.profile.evaluate import by_catalogue, scores
    except ImportError as error:
        raise Failure(str(error)) from error
    found = scores(runs, [*answers, *by_catalogue(runs)])
    if as_json:
        whole = {"runs": len(runs), "skipped": dict(skipped), "scores": [one.plain() for one in found], "cost": cost}
        click.echo(json.dumps(whole))
        return 0
    click.echo(
        f"{len(runs):,} labelled runs" + "".join(f"; {count:,} left out: {why}" for why, count in skipped.items())
    )
    for one in found:
        click.echo("\n".join(_score_told(one)))
    if cost is not None:
        click.echo(_cost_told(cost))
    return 0


def _score_told(one: Score) -> list[str]:
    failed = ", ".join(f"{count:,} {kind}" for kind, count in one.failures.items())
    beside = [f"{one.silent:,} found no bad step"] if one.silent else []
    beside += [f"without an answer: {failed}"] if failed else []
    lines = [f"{one.dataset}, {one.protocol}: {one.runs:,} runs" + (f" ({'; '.join(beside)})" if beside else "")]
    lines.append(f"  step accuracy            {told(one.within[0])}; by chance {one.chance * 100:.1f} %")
    lines += [f"    within {k}               {told(one.within[k])}" for k in list(one.within)[1:]]
    lines.append(f"  agent accuracy           {told(one.agent)}")
    if one.dataset.startswith("agentrx"):
        lines.append(f"  some marked step         {told(one.any)}")
    return lines


def with_models(path: Path, work: Callable[[Settings], Coroutine[Any, Any, Any]]) -> Any:
    """Runs work that asks models. What is wrong with settings, folders or packages is one line, exit code 2."""
    from misstep.models import ModelError, Settings, SettingsError
    from misstep.profile.lines import LinesError

    try:
        return asyncio.run(work(Settings.load(path)))
    except (SettingsError, ModelError, LinesError, ImportError) as error:
        if debugging():
            raise
        raise Failure(str(error)) from error


def _watch() -> Callable[[int, int], None] | None:
    """A line on standard error that tells how far it is, where a person looks on."""
    if not sys.stderr.isatty():
        return None

    def tell(done: int, failed: int) -> None:
        if done % 10 == 0:
            print(f"\r{done:,} judged, {failed:,} without a verdict ", end="", file=sys.stderr, flush=True)

    return tell


def _cost(before: Any, now: Any, hits: int) -> dict[str, Any]:
    return {
        "calls": now.calls - before.calls,
        "cached": hits,
        "tokens": now.tokens - before.tokens,
        "usd": round(now.usd - before.usd, 9),
        "unpriced": now.unpriced - before.unpriced,
        "whole": {"calls": now.calls, "tokens": now.tokens, "usd": round(now.usd, 9), "unpriced": now.unpriced},
    }


def _told(whole: Summary, found: Found, cost: dict[str, Any], out: Path) -> list[str]:
    sessions, tasks = _many(whole.trajectories_bad.of, "session"), _many(whole.tasks_bad.of, "task")
    lines = [f"{_many(whole.calls, 'call')} judged in {sessions} of {tasks}"]
    if found.copies:
        lines[0] += f" ({found.copies:,} recorded twice, judged once)"
    lines += [
        f"  {count} not read: {one_line(why)}" for why, count in found.unreadable.items() if "no reader" not in why
    ]
    lines += [
        f"  bad                      {told(whole.bad)}",
        f"  sessions with a bad one  {told(whole.trajectories_bad)}",
        f"  tasks with a bad one     {told(whole.tasks_bad)}",
    ]
    if whole.confidence is not None:
        lines.append(f"  agreement of the votes   {whole.confidence:.1%} on average")
    if whole.invalid_votes:
        lines.append(f"  votes without an answer  {whole.invalid_votes:,}")
    failed = sum(whole.failures.values())
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in whole.failures.items())
    lines.append(f"  without a verdict        {failed:,}{f' ({kinds})' if failed else ''}")
    if whole.agreement.items:
        kappa = whole.agreement.kappa
        shown = "not available" if kappa is None else f"{kappa:.2f}"
        lines += [
            f"Beside the catalogue, at {whole.agreement.items:,} calls where both know an answer: kappa {shown}",
            f"  its missteps called bad  {told(whole.caught)}",
            f"  bad ones that it has     {told(whole.known)}",
            *(f"    {name:32} {told(share)}" for name, share in whole.by_misstep.items()),
        ]
    lines += [_cost_told(cost), f"Every verdict: {one_line(str(out / 'profile.jsonl'))}"]
    return lines


def _cost_told(cost: dict[str, Any]) -> str:
    usd = f"${cost['usd']:.4f}" + (f" and {cost['unpriced']:,} without a price" if cost["unpriced"] else "")
    return f"Cost of this run: {cost['calls']:,} calls, {cost['tokens']:,} tokens, {usd}; {cost['cached']:,} from the cache"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def told(share: Share) -> str:
    """`12 of 40 (30.0 %, 95 % interval 18.1 to 45.4 %)`."""
    if share.rate is None or share.interval is None:
        return "none to tell from"
    low, high = share.interval
    return f"{share.some:,} of {share.of:,} ({share.rate * 100:.1f} %, 95 % interval {low * 100:.1f} to {high * 100:.1f} %)"
