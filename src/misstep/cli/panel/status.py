"""`misstep panel status`: how far a panel is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import debug_option
from .._group import Failure
from .run import span

if TYPE_CHECKING:
    from misstep.experiment.runs.progress import Status


@click.command("status", short_help="How far a panel is.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option(
    "--watch", type=click.FloatRange(0.2), metavar="SECONDS", help="Show it anew every so often, until all is settled."
)
@debug_option
def command(folder: Path, as_json: bool, watch: float | None) -> None:
    """How far a panel is: slots settled, what runs now, what was no observation and why, the time that is left.

    Outcomes are not shown, by arm or at all: `misstep panel report` has them when the panel is done.
    """
    from misstep.experiment.attempts import AttemptsError
    from misstep.experiment.plan.design import DesignError
    from misstep.experiment.plan.lock import LockError
    from misstep.experiment.plan.schedule import ScheduleError
    from misstep.experiment.runs.archive import ArchiveError
    from misstep.experiment.runs.progress import status_of

    while True:
        try:
            found = status_of(folder)
        except (ArchiveError, AttemptsError, DesignError, LockError, ScheduleError) as error:
            raise Failure(str(error)) from error
        if watch and not as_json:
            click.clear()
        click.echo(json.dumps(found.plain(), ensure_ascii=False) if as_json else "\n".join(lines(found)))
        if not watch or found.settled == found.slots:
            return
        time.sleep(watch)


def lines(found: Status) -> list[str]:
    """The status, for people."""
    share = f"{found.settled / found.slots:.0%}" if found.slots else "100%"
    state = "a run is at work" if found.running else "done" if found.settled == found.slots else "no run is at work"
    made = [found.name, f"{found.settled} of {found.slots} slots settled ({share}); {state}"]
    if found.left is not None and found.settled < found.slots:
        made[-1] += f", {span(found.left)} left"
    made.append("observed: " + ", ".join(f"{arm} {number}" for arm, number in found.arms.items()))
    if found.faults:
        what = ", ".join(f"{number} x {why}" for why, number in found.faults.items())
        made.append(f"{sum(found.faults.values())} of {found.candidates} candidates were no observations: {what}")
    if found.exhausted:
        made.append(f"{found.exhausted} slots stay without an observation: their chain is exhausted")
    if found.dropped:
        made.append(f"trials dropped, whose attempts run again: {found.dropped}")
    if found.cost_usd is not None:
        made.append(f"${found.cost_usd:.2f} so far")
    made += [f"  {one.trial}: {span(one.seconds)}, {'agent' if one.agent else 'set-up'}" for one in found.at_work]
    return made
