"""`misstep taxonomy`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option, debugging, one_line
from .profile import models_option, offline_option, with_models

if TYPE_CHECKING:
    from collections.abc import Iterator

    from misstep.models import Client, Settings
    from misstep.profile.taxonomy import Taxonomy


@click.group("taxonomy")
@debug_option
def command() -> None:
    """Types of error, from the steps that `misstep profile` called bad.

    build makes error cards and finds the types that recur among them, refine passes over all cards, freeze fixes the types, label
    labels every error step with them, and show says what it comes to. DIR is the folder of a profile (its --out).
    """


folder_argument = click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
again_option = click.option("--again", metavar="N", type=click.IntRange(0), default=200, show_default=True,
                            help="Steps that are labelled a second time, to see how well the labels agree.")  # fmt: skip
second_option = click.option(
    "--second", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="Models (TOML) whose annotator labels those steps too: one of another family.",
)  # fmt: skip


@command.command()
@folder_argument
@models_option
@click.option("--size", metavar="N", type=click.IntRange(2), default=50, show_default=True,
              help="Cards of a batch at most, each of another task.")  # fmt: skip
@click.option("--draws", metavar="K", type=click.IntRange(1), default=2, show_default=True,
              help="Independent proposals of each batch.")  # fmt: skip
@click.option("--recur", metavar="N", type=click.IntRange(1), default=3, show_default=True,
              help="Batches in which a type has to be proposed.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of what stands in which batch.")
@click.option("--similarity", type=click.Choice(["auto", "words", "wordllama"]), default="auto", show_default=True,
              help="How alike proposals are: auto is wordllama where it is installed, else words.")  # fmt: skip
@click.option("--through", type=click.Choice(["built", "refined", "frozen", "labelled"]), default="built", show_default=True,
              help="Go on to that stage.")  # fmt: skip
@again_option
@second_option
@offline_option
@debug_option
def build(
    folder: Path,
    models: Path,
    size: int,
    draws: int,
    recur: int,
    seed: int,
    similarity: str,
    through: str,
    again: int,
    second: Path | None,
    offline: bool,
) -> int:
    """Error cards, batches of them, types proposed for each, merged; those that recur stay (DIR/types.json)."""
    from misstep.profile import stages
    from misstep.profile.build import Parameters
    from misstep.profile.similarity import available

    way = available() if similarity == "auto" else similarity
    parameters = Parameters(size, draws, recur, seed, way)
    watch = _watch()

    async def work(client: Client) -> None:
        _told(await stages.built(folder, client, parameters, watch), folder)
        if through != "built":
            _told(await stages.refined(folder, client, watch), folder)

    _asking(models, folder, offline, work)
    if through in ("frozen", "labelled"):
        with _failures():
            _told(stages.frozen(folder), folder)
    if through == "labelled":
        _label(folder, models, again, second, offline)
    return 0


@command.command()
@folder_argument
@models_option
@offline_option
@debug_option
def refine(folder: Path, models: Path, offline: bool) -> int:
    """Passes over all cards: assign each, add types that several share, end when little is added (DIR/refined.json).

    A person may edit names and definitions in DIR/types.json before, or take types out.
    """
    from misstep.profile import stages

    async def work(client: Client) -> None:
        _told(await stages.refined(folder, client, _watch()), folder)

    _asking(models, folder, offline, work)
    return 0


@command.command()
@folder_argument
@debug_option
def freeze(folder: Path) -> int:
    """Fix the types of DIR/refined.json, once and for all (DIR/taxonomy.json, with its SHA-256)."""
    from misstep.profile import stages

    with _failures():
        _told(stages.frozen(folder), folder)
    return 0


@command.command()
@folder_argument
@models_option
@again_option
@second_option
@offline_option
@debug_option
def label(folder: Path, models: Path, again: int, second: Path | None, offline: bool) -> int:
    """Label every error step from the frozen types alone: several, one or none (DIR/labels.jsonl)."""
    _label(folder, models, again, second, offline)
    return 0


@command.command()
@folder_argument
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Write a page: types with examples in their context.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.option("--all", "everything", is_flag=True, help="List the long tail and all overlaps.")
@debug_option
def show(folder: Path, html: Path | None, as_json: bool, everything: bool) -> int:
    """Types with their shares, coverage, saturation, agreement, and which missteps of the catalogue they overlap."""
    from misstep.profile import cards, coverage, instances, labelling, stages

    with _failures():
        taxonomy = stages.latest(folder)
        first = labelling.load(folder, taxonomy) if taxonomy.stage == "frozen" else None
        if first is None:
            if html:
                raise Failure(f"{folder}: its steps are not labelled yet: nothing to draw (misstep taxonomy label)")
            _draft(taxonomy, folder, as_json)
            return 0
        steps, every = stages.steps_of(folder)
        readings = {name: labelling.load(folder, taxonomy, name) for name in ("draw", "second")}
        again = {name: found for name, found in readings.items() if found is not None}
        found = coverage.numbers(taxonomy, steps, every, first, again)
        if html:
            from misstep.report import taxonomy as page

            shown = instances.contexts(taxonomy, steps, first, cards.load(folder))
            _write(html, page.text(found, shown, str(folder)))
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return 0
    from misstep.report.console import console
    from misstep.report.taxonomy import show as table

    table(console(), found, str(folder), everything)
    if html:
        click.echo(f"  {html}")
    return 0


def _write(path: Path, text: str) -> None:
    from misstep.scan.output import output
    from misstep.scan.result import BadInput

    try:
        with output(str(path)) as file:
            assert file is not None
            file.write(text.encode("utf-8", "backslashreplace"))
    except BadInput as error:
        raise Failure(one_line(str(error))) from error


def _label(folder: Path, models: Path, again: int, second: Path | None, offline: bool) -> None:
    from misstep.models import Client, Settings
    from misstep.profile import stages

    async def work(client: Client) -> None:
        if second is None:
            done = await stages.labelled(folder, client, _watch(), again)
        else:
            async with Client.open(Settings.load(second), folder, offline=offline) as other:
                done = await stages.labelled(folder, client, _watch(), again, other)
        known = [names for names in done.types.values() if names is not None]
        typed = sum(bool(names) for names in known)
        failed = "".join(f", {n:,} without an answer ({kind})" for kind, n in done.failures.items())
        click.echo(f"{len(done.types):,} error steps labelled: {typed:,} of some type, {len(known) - typed:,} of none{failed}")  # fmt: skip

    _asking(models, folder, offline, work)
    click.echo(f"Next: misstep taxonomy show {one_line(str(folder))}")


def _asking(models: Path, folder: Path, offline: bool, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """Runs work with a client; says what it cost."""
    from misstep.models import Client

    def with_settings(settings: Settings) -> Coroutine[Any, Any, None]:
        async def run() -> None:
            async with Client.open(settings, folder, offline=offline) as client:
                before = client.cache.spent()
                try:
                    await work(client)
                finally:
                    now = client.cache.spent()
                    if sys.stderr.isatty():
                        click.echo("\r\x1b[K", nl=False, err=True)
                    unpriced = now.unpriced - before.unpriced
                    click.echo(
                        f"Cost of this run: {now.calls - before.calls:,} calls, {now.tokens - before.tokens:,} tokens, "
                        f"${now.usd - before.usd:.4f}{f' and {unpriced:,} without a price' if unpriced else ''}; "
                        f"{client.hits:,} from the cache"
                    )

        return run()

    with _failures():
        with_models(models, with_settings)


@contextmanager
def _failures() -> Iterator[None]:
    """What cannot be done is one line, exit code 2."""
    from misstep.profile.asking import Stopped
    from misstep.profile.build import TooFew
    from misstep.profile.lines import LinesError
    from misstep.profile.taxonomy import TaxonomyError

    try:
        yield
    except Stopped as error:
        if debugging():
            raise
        raise Failure(f"not all was answered: {error}; the same command goes on with it") from error
    except (TaxonomyError, TooFew, LinesError) as error:
        if debugging():
            raise
        raise Failure(str(error)) from error


def _told(taxonomy: Taxonomy, folder: Path) -> None:
    from misstep.profile.taxonomy import FILES

    words = {
        "built": f"of {taxonomy.cards:,} error cards in {taxonomy.batches:,} batches recur",
        "refined": f"after {len(taxonomy.passes)} passes over {taxonomy.cards:,} error cards",
        "frozen": f"are fixed, SHA-256 {taxonomy.sha256[:12]}",
    }
    path = folder / FILES[taxonomy.stage]
    click.echo(f"{len(taxonomy.types)} types {words[taxonomy.stage]}: {one_line(str(path))}")
    if taxonomy.stage == "refined" and taxonomy.passes:
        click.echo(f"  they cover {taxonomy.passes[-1]['coverage']:.1%} of the cards")
    for what, counts in taxonomy.asked.items():
        failed = {kind: n for kind, n in counts.items() if kind != "asked" and n}
        if failed and taxonomy.stage != "frozen":
            kinds = ", ".join(f"{n:,} {kind}" for kind, n in failed.items())
            click.echo(f"  without an answer: {kinds} of {counts['asked']:,} questions ({what})")


def _draft(taxonomy: Taxonomy, folder: Path, as_json: bool) -> None:
    """A taxonomy whose steps are not labelled yet."""
    if as_json:
        click.echo(json.dumps(taxonomy.plain(), ensure_ascii=False))
        return
    _told(taxonomy, folder)
    for one in taxonomy.types:
        click.echo(one_line(f"  {one.id}: {one.definition} ({one.cards:,} cards, {one.batches:,} batches)"))
    then = {"built": "refine", "refined": "freeze", "frozen": "label"}[taxonomy.stage]
    click.echo(f"Next: misstep taxonomy {then} {one_line(str(folder))}{' --models FILE' if then != 'freeze' else ''}")


def _watch() -> Callable[[str, int, int | None], None] | None:
    """A line on standard error that tells how far it is, where a person looks on."""
    if not sys.stderr.isatty():
        return None

    def tell(what: str, done: int, count: int | None) -> None:
        if done % 10 == 0 or done == count:
            print(f"\r\x1b[K{what}: {done:,} of {count or 0:,} ", end="", file=sys.stderr, flush=True)

    return tell
