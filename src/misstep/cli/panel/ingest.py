"""`misstep panel ingest`."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import Failure, debug_option, one_line

if TYPE_CHECKING:
    from misstep.experiment.outcomes.ingest import Ingested


@click.command("ingest")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option(
    "--out", "-o", required=True, metavar="FILE", help="Where the attempts go (JSONL); - for standard output."
)
@click.option("--force", is_flag=True, help="Replace FILE where it is there already.")
@click.option("--arm", "arms", multiple=True, metavar="NAME=PATH", help="All of PATH is this arm. Repeatable.")
@click.option(
    "--arm-from",
    type=click.Choice(["auto", "job", "agent", "env"]),
    default="auto",
    show_default=True,
    help="What tells arms apart: the job, agent and model, or MISSTEP_ARM in the trial's environment.",
)
@click.option("--column", "columns", multiple=True, metavar="WHAT=NAME", help="Which column of a CSV holds what.")
@click.option("--pass-at", type=float, default=1.0, show_default=True, help="The reward from which on it passed.")
@click.option(
    "--ungraded",
    type=click.Choice(["failure", "missing"]),
    help="What an attempt without a verdict is. Default: missing; terminal-bench v1: failure, as published.",
)
@click.option("--gave-up", multiple=True, metavar="REGEX", help="Last words that give up, in the place of ours.")
@click.option("--agent-error", multiple=True, metavar="NAME", help="An exception that is the agent's own end.")
@click.option(
    "--versions",
    type=click.Choice(["apart", "together"]),
    default="apart",
    show_default=True,
    help="Tasks of one name with several checksums.",
)
@click.option("--portfolio", type=click.Path(exists=True, dir_okay=False), help="Followed where no guard ran.")
@click.option("--no-funnel", is_flag=True, help="Outcomes only: much faster over long trajectories.")
@click.option("--workers", type=click.IntRange(1), help="Processes. Default: one a core.")
@debug_option
def command(
    paths: tuple[str, ...],
    out: str,
    force: bool,
    arms: tuple[str, ...],
    arm_from: str,
    columns: tuple[str, ...],
    pass_at: float,
    ungraded: str | None,
    gave_up: tuple[str, ...],
    agent_error: tuple[str, ...],
    versions: str,
    portfolio: str | None,
    no_funnel: bool,
    workers: int | None,
) -> None:
    """Make attempts of what you have: to be compared by `panel report`.

    PATHS are Harbor jobs, runs of terminal-bench v1, CSV files with a task, an arm and whether it passed, or files of
    attempts. Several jobs are several arms.
    """
    from misstep.experiment.attempts import AttemptsError, header, line
    from misstep.experiment.outcomes.columns import NAMES
    from misstep.experiment.outcomes.ingest import Options, ingest
    from misstep.experiment.outcomes.places import Place

    if not paths and not arms:
        raise Failure("nothing to read: give PATHS, or --arm NAME=PATH")
    if out != "-" and Path(out).exists() and not force:
        raise Failure(f"{out} is there already (--force replaces it)")
    places = [Place(Path(path)) for path in paths]
    for given in arms:
        name, path = _pair(given, "--arm NAME=PATH")
        places.append(Place(Path(path), name))
    mapped = dict(_pair(given, "--column WHAT=NAME") for given in columns)
    for what in mapped:
        if what not in NAMES:
            raise Failure(f"--column {what}=...: it is one of {', '.join(NAMES)}")
    if not math.isfinite(pass_at):
        raise Failure(f"--pass-at {pass_at}: expected a finite number")
    options = Options(
        arm_from=arm_from,
        gave_up=gave_up,
        own=agent_error,
        passes=pass_at,
        ungraded=ungraded or "",
        funnel=not no_funnel,
        portfolio=str(Path(portfolio).resolve()) if portfolio else "",
        columns=mapped,
        versions=versions,
        workers=workers or 0,
    )
    try:
        found = ingest(places, options)
    except AttemptsError as error:
        raise Failure(one_line(str(error))) from error
    lines = [header(), *map(line, found.attempts)]
    if out == "-":
        sys.stdout.writelines(f"{text}\n" for text in lines)
    else:
        new = Path(f"{out}.new")
        try:
            new.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8", errors="backslashreplace")
            new.replace(out)
        except OSError as error:
            new.unlink(missing_ok=True)
            raise Failure(one_line(f"{out}: {error.strerror}")) from error
    for text in _summary(found, out):
        click.echo(text, err=out == "-")


def _pair(given: str, form: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name or not value:
        raise Failure(f"{given!r} is not of the form {form}")
    return name, value


def _summary(found: Ingested, out: str) -> list[str]:
    """A line an arm, how its attempts ended, and what to know."""
    from misstep.experiment.attempts import TERMINATIONS

    ends = [name for name in TERMINATIONS if any(one.termination == name for one in found.attempts)]
    arms = sorted({one.arm for one in found.attempts})
    rows = [["arm", "tasks", "attempts", *ends]]
    for arm in arms:
        mine = [one for one in found.attempts if one.arm == arm]
        counts = [sum(one.termination == name for one in mine) for name in ends]
        rows.append([one_line(arm), *map(str, (len({one.task for one in mine}), len(mine), *counts))])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines += [f"note: {one_line(note)}" for note in found.notes]
    if out != "-":
        lines.append(f"{len(found.attempts)} attempts are in {out}")
    return lines
