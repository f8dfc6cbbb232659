"""`misstep judge`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option, debugging, one_line
from .profile import _cost, json_option, offline_option, out_option, told

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from misstep.models import Client, Settings
    from misstep.profile.judging import Examinee, Score
    from misstep.stats import Agreement


@click.group("judge")
@debug_option
def command() -> None:
    """Judges by model: measure them against labelled cases, and against each other."""


@command.command("cases")
@click.option("--out", metavar="FILE", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="Where the cases are written (JSON lines).")  # fmt: skip
@click.option("--type", "names", metavar="ID", multiple=True, help="Only of this misstep. May be given more than once.")
@debug_option
def cases(out: Path, names: tuple[str, ...]) -> None:
    """Write labelled cases for the behaviour judge, from the examples of the catalogue.

    Each misstep has examples in which it occurs, and others near them, told apart by one fact, in which it does not.
    """
    from misstep.catalogue import get
    from misstep.profile.cases import of_catalogue_examples, save

    try:
        chosen = [get(name) for name in names] or None
    except KeyError as error:
        raise Failure(f"the catalogue has no misstep {error}: `misstep catalogue` lists them") from None
    count = save(out, of_catalogue_examples(chosen))
    click.echo(f"{count:,} cases: {one_line(str(out))}")


@command.command("eval")
@click.option("--judge", "kind", required=True, type=click.Choice(["behaviour", "equivalence", "rubric"]),
              help="What is judged.")  # fmt: skip
@click.option("--labels", metavar="FILE", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="The labelled cases (JSON lines; docs/judges.md has the format).")  # fmt: skip
@click.option("--models", "models", metavar="FILE", multiple=True, type=click.Path(dir_okay=False, path_type=Path),
              help="Whose role `judge` is measured (TOML). Given more than once: side by side.")  # fmt: skip
@click.option("--catalogue", is_flag=True, help="The catalogue's detectors too, beside the models (behaviour only).")
@click.option("--before", metavar="N", type=click.IntRange(0), default=6000, show_default=True,
              help="Characters of the steps before that the behaviour judge sees.")  # fmt: skip
@click.option("--ask-always", is_flag=True, help="Ask the equivalence judge about texts that are alike, too.")
@click.option("--seconds", metavar="S", type=click.FloatRange(0, min_open=True), default=600.0, show_default=True,
              help="Of one question, with all its tries.")  # fmt: skip
@out_option
@offline_option
@json_option
@debug_option
def evaluate(
    kind: str,
    labels: Path,
    models: tuple[Path, ...],
    catalogue: bool,
    before: int,
    ask_always: bool,
    seconds: float,
    out: Path,
    offline: bool,
    as_json: bool,
) -> int:
    """Precision, recall and kappa of a judge on labelled cases, by model and type; of two judges also their agreement.

    A case without an answer (the model gave none in the form asked for, the server none in time) is counted beside, and is
    never a no. Every answer is in DIR/judged.jsonl.
    """
    from misstep.models import Client, ModelError, Settings, SettingsError
    from misstep.profile import judging
    from misstep.profile.cases import Cases
    from misstep.profile.judges import CatalogueJudge
    from misstep.profile.lines import LinesError

    if catalogue and kind != "behaviour":
        raise Failure("--catalogue is a judge of behaviour: it knows no equivalence and no rubric")
    if not models and not catalogue:
        raise Failure("no judge: --models names a file with one" + (", --catalogue is another" * (kind == "behaviour")))
    stopped = ""
    costs: dict[str, Any] = {}

    async def run() -> list[dict[str, Any]]:
        nonlocal stopped
        records: list[dict[str, Any]] = []
        given = [(path, Settings.load(path)) for path in models]
        names = _names(given)
        with judging.lines(out, judging.header(kind, labels)) as kept:
            for note in kept.notes:
                click.echo(f"misstep: {one_line(note)}", err=True)
            if catalogue:
                records += await judging.examine(found, judging.OfBehaviour(CatalogueJudge()), kept, 1)
            for (_, settings), name in zip(given, names, strict=True):
                async with Client.open(settings, out, offline=offline) as client:
                    spent = client.cache.spent()
                    judge = _judge(kind, client, name, before, ask_always, seconds)
                    at_once = settings.role("judge").concurrency + 4
                    try:
                        records += await judging.examine(found, judge, kept, at_once, _watch())
                    except judging.Stopped as error:
                        stopped = stopped or str(error)
                    costs[name] = _cost(spent, client.cache.spent(), client.hits)
            if not stopped:
                kept.finish()
        return records

    try:
        found = Cases(labels, kind).all
        if not found:
            raise LinesError(f"{labels}: no cases")
        records = asyncio.run(run())
    except (SettingsError, ModelError, LinesError, ImportError) as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    whole = judging.scores(records)
    pairs = judging.between(records)
    if as_json:
        made = [{"one": a, "other": b, **judging.agreement(same)} for a, b, same in pairs]
        click.echo(json.dumps({"scores": [one.plain() for one in whole], "agreement": made, "cost": costs}))
    else:
        click.echo("\n".join(_shown(whole, pairs, costs, out)))
    if stopped:
        raise Failure(f"not all was judged: {stopped}; the same command goes on with it")
    return 0


def _names(given: list[tuple[Path, Settings]]) -> list[str]:
    """A judge's name is its model; where two have the same, its file's name tells them apart."""
    models = [settings.role("judge").model for _, settings in given]
    names = [
        model if models.count(model) == 1 else f"{model} ({path.stem})"
        for (path, _), model in zip(given, models, strict=True)
    ]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Failure(f"two judges are {twice}: give them another model or another file name")
    return names


def _judge(kind: str, client: Client, name: str, before: int, ask_always: bool, seconds: float) -> Examinee:
    from misstep.profile import judging
    from misstep.profile.judges import SIMILAR, EquivalenceJudge, ModelBehaviourJudge
    from misstep.profile.rubric import RubricScorer

    if kind == "behaviour":
        return judging.OfBehaviour(ModelBehaviourJudge(client, before=before, seconds=seconds, name=name))
    if kind == "equivalence":
        similar = None if ask_always else SIMILAR
        return judging.OfEquivalence(EquivalenceJudge(client, similar=similar, seconds=seconds, name=name))
    return judging.OfRubric(RubricScorer(client, seconds=seconds, name=name))


def _watch() -> Callable[[str, int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def tell(judge: str, done: int, of: int) -> None:
        print(f"\r{one_line(judge)}: {done:,} of {of:,} ", end="", file=sys.stderr, flush=True)

    return tell


def _shown(
    scores: list[Score], pairs: list[tuple[str, str, Agreement]], costs: dict[str, Any], out: Path
) -> Iterator[str]:
    single = len({one.type for one in scores}) <= 2  # all, and the only type there is
    for one in scores:
        if not one.type:
            yield f"{one_line(one.judge)}: {one.cases:,} cases, {one.positives:,} of them yes"
            yield f"  precision    {told(one.precision)}"
            yield f"  recall       {told(one.recall)}"
            yield f"  specificity  {told(one.specificity)}"
            yield f"  kappa        {_kappa(one.kappa)}"
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in one.failures.items())
            yield f"  without an answer  {sum(one.failures.values()):,}{f' ({kinds})' if kinds else ''}"
            if one.without_a_call:
                yield f"  answered without a call  {one.without_a_call:,}"
            if one.judge in costs:
                cost = costs[one.judge]
                usd = f"${cost['usd']:.4f}" + (f" and {cost['unpriced']:,} without a price" if cost["unpriced"] else "")
                yield f"  cost of this run  {cost['calls']:,} calls, {usd}; {cost['cached']:,} from the cache"
        elif not single:
            parts = [
                f"precision {_of(one.precision)}",
                f"recall {_of(one.recall)}",
                f"specificity {_of(one.specificity)}",
            ]
            unknown = sum(one.failures.values())
            yield f"    {one_line(one.type):32} {', '.join(parts)}{f', {unknown} without an answer' if unknown else ''}"
    for first, second, same in pairs:
        yield f"{one_line(first)} and {one_line(second)} on {same.items:,} cases: kappa {_kappa(same)}"
    yield f"Every answer: {one_line(str(out / 'judged.jsonl'))}"


def _of(share: Any) -> str:
    return f"{share.some}/{share.of}"


def _kappa(given: Agreement) -> str:
    if given.kappa is None or given.interval is None:
        return "not available"
    low, high = given.interval[:2]
    return f"{given.kappa:.2f} (95 % interval {low:.2f} to {high:.2f})"


@command.command("rubrics")
@click.argument("folders", metavar="DIR ...", nargs=-1, required=True,
                type=click.Path(exists=True, file_okay=False, path_type=Path))  # fmt: skip
@click.option("--models", "models", metavar="FILE", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="Whose role `annotator` writes (TOML).")  # fmt: skip
@out_option
@offline_option
@debug_option
def rubrics(folders: tuple[Path, ...], models: Path, out: Path, offline: bool) -> int:
    """Write a rubric for each task: what an attempt will be graded by.

    DIR is a task's folder (Harbor's format), or holds some. The rubrics are in the file rubrics.jsonl of the folder that --out
    names; a task that has one is not asked about again.
    """
    from misstep.models import Client
    from misstep.profile.rubric import FILE, RubricWriter, load_rubrics, write_all
    from misstep.sandbox import SandboxError, checking

    from .profile import with_models

    try:
        tasks = [(task.name, task.instruction) for folder in folders for task in checking.find(folder)]
    except (SandboxError, OSError) as error:
        if debugging():
            raise
        raise Failure(str(error)) from error

    def work(settings: Settings) -> Coroutine[Any, Any, dict[str, str]]:
        async def run() -> dict[str, str]:
            async with Client.open(settings, out, offline=offline) as client:
                writer = RubricWriter(client)
                return await write_all(tasks, writer, out / FILE, settings.role(writer.role).concurrency + 4)

        return run()

    failures = with_models(models, work)
    found = load_rubrics(out)
    mine = [items for name, items in found.items() if name in {name for name, _ in tasks}]
    click.echo(f"{len(mine):,} rubrics, {sum(map(len, mine)):,} items: {one_line(str(out / FILE))}")
    for name, why in failures.items():
        click.echo(f"  {one_line(name)} has none: {one_line(why)}")
    if failures:
        raise Failure(f"{len(failures)} of {len(tasks)} tasks have no rubric")
    return 0
