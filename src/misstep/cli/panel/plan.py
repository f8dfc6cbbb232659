"""`misstep panel plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import Failure, debug_option, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from misstep.experiment.attempts import Attempt
    from misstep.experiment.plan.cost import Estimate
    from misstep.experiment.plan.design import Design
    from misstep.experiment.plan.outlook import Chance, Outlook


@click.command("plan")
@click.argument("design", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--out", type=click.Path(file_okay=False), help="The panel's folder: write the lock and the schedule there."
)
@click.option(
    "--effect",
    type=click.FloatRange(0, 1, min_open=True),
    help="Assumed for the power: 0.2 is 20 points. Default: the design's.",
)
@click.option(
    "--past", type=click.Path(exists=True, dir_okay=False), help="An attempts.jsonl for rates. Default: the design's."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@debug_option
def command(design: str, out: str | None, effect: float | None, past: str | None, as_json: bool) -> None:
    """Check a DESIGN (TOML); show cohorts, cost and power, and what the panel will not be able to say.

    With --out the panel is locked: the schedule and the SHA-256 of every task, source and text that decide what runs.
    """
    from misstep.experiment.attempts import AttemptsError
    from misstep.experiment.plan import lock
    from misstep.experiment.plan.design import Design, DesignError
    from misstep.experiment.plan.outlook import outlook
    from misstep.experiment.runs import trials
    from misstep.guard.portfolio import PortfolioError

    path = Path(design)
    try:
        given = Design.load(path)
        doubt = trials.doubt(given)
        made = lock.plan(given)
        seen = outlook(made, _past(given, past), effect)
        if doubt:
            seen = replace(seen, warnings=(*seen.warnings, f"`panel run` cannot run this. {doubt}."))
        if as_json:
            click.echo(json.dumps(seen.plain(), ensure_ascii=False, indent=1))
        else:
            for line in _lines(seen):
                click.echo(one_line(line))
        if out:
            lock.write(Path(out), path, made)
    except (DesignError, PortfolioError, AttemptsError, lock.LockError, trials.RunError) as error:
        text = str(error)
        raise Failure(one_line(text if path.name in text else f"{path}: {text}")) from error
    except OSError as error:
        raise Failure(one_line(f"{error.filename or out or path}: {error.strerror}")) from error
    if not as_json:
        click.echo(
            f"\nLocked in {out}. Next: misstep panel run {out}" if out else "\nNothing is written. --out DIR locks it."
        )


def _past(design: Design, path: str | None) -> list[Attempt]:
    from misstep.experiment.attempts import read_attempts

    if not path and not design.rates.pass_rates:
        return []
    try:
        return read_attempts(Path(path) if path else design.where(design.rates.pass_rates))
    except OSError as error:
        raise Failure(f"rates.pass_rates: {error.filename}: {error.strerror}") from error


def _lines(seen: Outlook) -> Iterator[str]:
    plan, design = seen.plan, seen.plan.design
    yield (
        f"{design.name}: {_count(len(plan.tasks), 'task')} x {_count(len(design.arms), 'arm')} x "
        f"{_count(design.attempts, 'attempt')} = {_count(len(plan.slots), 'attempt')}, seed {design.seed}"
    )
    yield f"arms: {', '.join(design.arms)}"
    if design.primary:
        also = f"; secondary: {', '.join(map(str, design.secondary))}" if design.secondary else ""
        yield f"primary: {design.primary.contrast} in the {design.primary.cohort} tasks{also}"
    yield ""
    yield from _cohorts(seen)
    yield ""
    yield f"money  {_estimate(seen.cost.money, lambda v: f'${v:,.2f}', 'usd_per_attempt')}"
    yield f"time   {_estimate(seen.cost.wall, duration, 'seconds_per_attempt')}, {design.environment.concurrency} at once"
    if design.primary:
        yield ""
        yield f"power of the primary contrast ({seen.rates})"
        for chance in seen.chances:
            yield f"  {_chance(chance, design.attempts)}"
    if seen.warnings:
        yield ""
        for warning in seen.warnings:
            yield f"warning: {warning}"


def _cohorts(seen: Outlook) -> Iterator[str]:
    assigned = seen.plan.assigned
    for kind in ("eligible", "silent"):
        names = assigned.tasks(kind)
        yield f"{kind}: {_count(len(names), 'task')}"
        for name in names:
            policies = assigned.selected(name) or (assigned.eligible[name] if kind == "eligible" else ())
            yield f"  {name}" + (f": {', '.join(policies)}" if policies else "")
    if assigned.everywhere:
        yield f"everywhere: {', '.join(assigned.everywhere)}"
    if assigned.unused:
        yield f"in no cohort, not run: {', '.join(assigned.unused)}"


def _estimate(found: Estimate | None, shown: Callable[[float], str], key: str) -> str:
    if found is None:
        return f"not known: [rates] {key} or pass_rates (a past attempts.jsonl) tells"
    if found.low is None or found.high is None:
        return f"{shown(found.total)} ({found.source})"
    return f"{shown(found.total)}, 95 % between {shown(found.low)} and {shown(found.high)} ({found.source})"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes < 48 * 60 else f"{minutes / 1440:.1f} days"


def _chance(chance: Chance, attempts: int) -> str:
    start = f"+{100 * chance.effect:g} points: "
    if chance.power is None:
        return f"{start}not available: {chance.why}"
    tasks = str(chance.tasks_needed) if chance.tasks_needed else "more than 500"
    more = (
        f"or {_count(chance.attempts_needed, 'attempt')} each at these"
        if chance.attempts_needed
        else "no number up to 16 does at these"
    )
    return f"{start}{chance.power:.2f}; for 0.80: {tasks} tasks with {_count(attempts, 'attempt')} each, {more}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
