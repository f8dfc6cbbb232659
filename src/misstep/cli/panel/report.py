"""`misstep panel report`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import Failure, debug_option, one_line

if TYPE_CHECKING:
    from misstep.experiment.analysis import Analysis
    from misstep.experiment.records import Records

MARKS = {"--html": b'content="misstep panel report ', "--json": b'"schema": "misstep.panel.analysis"'}
"""What the first bytes of a file hold that this command wrote with an option."""


@click.command("report")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--design",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A design (TOML) for attempts that have none, or in the place of the panel's own.",
)
@click.option("--primary", metavar="ARM,AGAINST", help="The primary contrast. Default: the design's.")
@click.option(
    "--cohort",
    type=click.Choice(["eligible", "silent", "all"]),
    help="Tasks of the planned contrasts. Default: the design's.",
)
@click.option("--model", metavar="NAME", help="Attempts of this model alone, where a file holds several.")
@click.option("--html", metavar="FILE", help="Write a self-contained page.")
@click.option("--json", "json_", metavar="FILE", help="Write the whole analysis; - for standard output.")
@click.option("--csv", metavar="DIR", help="Write every table as a CSV file.")
@click.option("--quiet", "-q", is_flag=True, help="Nothing in the terminal.")
@debug_option
def command(
    path: Path,
    design: Path | None,
    primary: str | None,
    cohort: str | None,
    model: str | None,
    html: str | None,
    json_: str | None,
    csv: str | None,
    quiet: bool,
) -> None:
    """What the attempts say: effects with intervals and exact p, funnel, transitions, costs, and what they cannot say.

    PATH is a panel's folder, or a file of attempts (JSONL), which needs no design: name the arms to compare with
    --primary, the one of interest first.
    """
    from misstep.experiment import records as records_

    contrast = primary_of(primary)
    for option, name in (("--html", html), ("--json", json_)):
        _check(option, name, path)
    try:
        records = records_.read(path, design)
        if model:
            records = records.of_model(model)
        analysis = records.analyse(contrast, cohort)
    except records_.ERRORS as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(one_line(f"{error.filename or path}: {error.strerror}")) from error
    written = _write(records, analysis, html, json_, csv)
    if not quiet and json_ not in ("-", "/dev/stdout"):
        from misstep.report.console import console
        from misstep.report.panel import terminal

        terminal.show(console(), analysis.plain(), written, records.notes)


def primary_of(given: str | None) -> tuple[str, str] | None:
    """(arm, against) of --primary. Raises Failure."""
    if given is None:
        return None
    arm, _, against = (part.strip() for part in given.partition(","))
    if not arm or not against or "," in against or arm == against:
        raise Failure(f"--primary: expected two different arms like real,sham, not {given!r}")
    return arm, against


def _check(option: str, name: str | None, path: Path) -> None:
    """Refuse to write over what this command did not write."""
    if name is None or name in ("-", "/dev/stdout"):
        return
    target = Path(name)
    if not name or target.is_dir():
        raise Failure(f"{option}: expected a file's name, not {name or 'nothing'!r}")
    try:
        with target.open("rb") as file:
            head = file.read(400)
    except OSError:
        return
    if target.is_file() and head and MARKS[option] not in head:
        raise Failure(f"{name}: is there already, and not from {option}: name another file, or remove it first")
    if path.is_file() and target.samefile(path):
        raise Failure(f"{name}: is the input, {option} would destroy it")


def _write(records: Records, analysis: Analysis, html: str | None, json_: str | None, csv: str | None) -> list[str]:
    from misstep.scan.output import output
    from misstep.scan.result import BadInput

    made: list[tuple[str, str]] = []
    if html:
        from misstep.report.panel import page

        made.append((html, page.text(analysis.plain(), records.notes)))
    if json_:
        made.append((json_, json.dumps(analysis.plain(), indent=1, allow_nan=False) + "\n"))
    if csv:
        from misstep.experiment.artifact.tables import csv_files

        folder = Path(csv)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"{csv}: {error.strerror}") from error
        made += [(str(folder / name), text) for name, text in csv_files(analysis, records.attempts).items()]
    try:
        for name, text in made:
            with output(name) as file:
                assert file is not None
                file.write(text.encode("utf-8", "backslashreplace"))
    except BadInput as error:
        raise Failure(one_line(str(error))) from error
    sys.stdout.flush()
    return [name for name, _ in made if not csv or not name.startswith(str(Path(csv)))] + ([csv] if csv else [])
