"""`misstep panel run`: run the attempts of a locked design."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import debug_option
from .._group import Failure

if TYPE_CHECKING:
    from misstep.experiment.runs.run import Outcome, Progress


def span(seconds: float) -> str:
    """A length of time, to read: 1:02:03, or 2:03."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


class _Line:
    """The progress: one line that is written over in a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.last = 0.0
        self.shown = -1

    def __call__(self, now: Progress) -> None:
        if not self.terminal and (now.settled == self.shown or time.monotonic() - self.last < 10):
            return
        self.last, self.shown = time.monotonic(), now.settled
        parts = [f"{now.settled}/{now.slots} settled", f"{now.running} running"]
        if now.invalid:
            parts.append(f"{now.invalid} replaced or to replace")
        if now.cost_usd:
            parts.append(f"${now.cost_usd:.2f}")
        parts.append(f"{span(now.seconds)} so far")
        if now.left is not None:
            parts.append(f"{span(now.left)} left")
        text = ", ".join(parts)
        click.echo(f"\r{text}\x1b[K" if self.terminal else text, err=True, nl=not self.terminal)

    def end(self) -> None:
        if self.terminal and self.shown >= 0:
            click.echo("", err=True)


@click.command("run", short_help="Run the attempts of a locked design through Harbor.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--concurrency", type=click.IntRange(1), help="Trials at the same time; the design's own unless given.")
@click.option("--limit", type=click.IntRange(1), help="End after so many attempts; the next run goes on from there.")
@debug_option
def command(folder: Path, concurrency: int | None, limit: int | None) -> None:
    """Run the attempts that a locked design (`misstep panel plan`) still lacks, in the order of its schedule.

    It goes on where it stopped, also after kill -9. Ctrl-C ends it: what runs then counts as not run. How the arms do is
    not shown before the end: nobody shall steer by it.

    Exit codes: 0 nothing is left to run (or the limit is reached), 1 it ended before, 2 it cannot run, 130 interrupted.
    """
    from misstep.experiment.attempts import AttemptsError
    from misstep.experiment.plan.design import DesignError
    from misstep.experiment.plan.lock import LockError
    from misstep.experiment.plan.schedule import ScheduleError
    from misstep.experiment.runs.archive import ArchiveError
    from misstep.experiment.runs.run import Runner
    from misstep.experiment.runs.runtime import RuntimeFault
    from misstep.experiment.runs.trials import RunError
    from misstep.guard.portfolio import PortfolioError

    shown = _Line()
    expected = (
        ArchiveError,
        AttemptsError,
        DesignError,
        LockError,
        PortfolioError,
        RunError,
        RuntimeFault,
        ScheduleError,
    )
    try:
        outcome = Runner(folder, concurrency or 0, limit or 0, shown).run()
    except expected as error:
        raise Failure(str(error)) from error
    finally:
        shown.end()
    _say(outcome)
    if outcome.end not in ("done", "limit"):
        raise click.exceptions.Exit(130 if outcome.end == "interrupted" else 1)


def _say(outcome: Outcome) -> None:
    for warning in outcome.warnings:
        click.echo(f"misstep: {warning}", err=True)
    said = [f"{outcome.recorded} attempt{'s' * (outcome.recorded != 1)} recorded in {span(outcome.seconds)}"]
    if outcome.recovered:
        said.append(f"{outcome.recovered} of an earlier run recorded")
    if outcome.dropped:
        said.append(f"{outcome.dropped} dropped, to run again")
    if outcome.recorded:
        said.append(f"{outcome.overhead:.2f} s of misstep's own for each")
    click.echo("; ".join(said))
    if outcome.why:
        click.echo(f"misstep: {outcome.why}", err=True)
