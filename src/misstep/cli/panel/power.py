"""`misstep panel power`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import Failure, debug_option, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = 0.8
_TASKS = (6, 10, 14, 20, 30, 50, 87, 150)
_ATTEMPTS = (1, 2, 3, 5, 8)
_MOST_TASKS, _MOST_ATTEMPTS = 2000, 64


def _effect(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not -1 < value < 1 or value == 0:
        raise click.BadParameter(
            f"{value:g} is no difference of pass rates: 0.21 is 21 points; not 0, and within -1 and 1"
        )
    return value


@click.command("power")
@click.option("--tasks", type=click.IntRange(1, 100_000), default=14, show_default=True)
@click.option(
    "--attempts", type=click.IntRange(1, 1000), default=2, show_default=True, help="At each task, in each arm."
)
@click.option(
    "--effect",
    type=float,
    default=0.21,
    show_default=True,
    callback=_effect,
    help="Difference of pass rates: 0.21 is 21 points.",
)
@click.option(
    "--rates", type=click.Path(exists=True, dir_okay=False), help="An attempts.jsonl whose tasks' pass rates are taken."
)
@click.option(
    "--arm", help="Of --rates: the arm that is the baseline. Default: baseline, where there is one, else all."
)
@click.option(
    "--mean",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.65,
    show_default=True,
    help="Of assumed task rates.",
)
@click.option("--curve", is_flag=True, help="Also a table over tasks and attempts.")
@click.option(
    "--simulate", is_flag=True, help="Also simulate panels: coverage of the interval, size of the test, power."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@debug_option
def command(
    tasks: int, attempts: int, effect: float, rates: str | None, arm: str | None, mean: float, curve: bool, simulate: bool, as_json: bool
) -> None:  # fmt: skip
    """The chance that a panel of this size finds an effect (sign-flip p at or below 0.05), and what 80 % would take.

    Without --rates, pass rates of tasks are drawn from a Beta law. The effect is one shift of all rates on the logit scale.
    """
    try:
        found = _found(tasks, attempts, effect, _rates(rates, arm), mean, curve, simulate)
    except ValueError as error:
        raise Failure(one_line(str(error))) from error
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for line in _lines(found):
        click.echo(one_line(line))


def _rates(path: str | None, arm: str | None) -> tuple[list[float] | None, str]:
    if not path:
        return None, ""
    from misstep.experiment.attempts import AttemptsError, read_attempts
    from misstep.experiment.plan.cost import pass_rates

    try:
        past = read_attempts(Path(path))
    except (AttemptsError, OSError) as error:
        raise Failure(one_line(str(error))) from error
    if arm and not any(one.arm == arm for one in past):
        names = ", ".join(sorted({one.arm for one in past}))
        raise Failure(one_line(f"{path}: no attempt of arm {arm!r}; it has {names}"))
    found, why = pass_rates(past, (), (arm,) if arm else ("baseline",))
    if not found:
        raise Failure(f"{path}: {why}")
    return found, why


def _found(
    tasks: int, attempts: int, effect: float, given: tuple[list[float] | None, str], mean: float, curve: bool, simulate: bool
) -> dict[str, Any]:  # fmt: skip
    from misstep.stats import attainable_p, attempts_needed, power, tasks_needed

    rates, source = given
    here = power(effect, tasks, attempts, rates, mean=mean)
    quick: dict[str, Any] = {"mean": mean, "panels": 2000}
    found: dict[str, Any] = {
        **here._asdict(),
        "rates": source or f"assumed: a Beta law with mean {mean:g} and concentration 3.5",
        "target": TARGET,
        "tasks_needed": tasks_needed(effect, attempts, TARGET, rates, _MOST_TASKS, **quick),
        "attempts_needed": attempts_needed(effect, tasks, TARGET, rates, _MOST_ATTEMPTS, **quick),
        "smallest_p": attainable_p(tasks),
    }
    if curve:
        sizes = sorted({*_TASKS, tasks}), sorted({*_ATTEMPTS, attempts})
        found["curve"] = [
            {"tasks": n, "attempts": k, "power": power(effect, n, k, rates, **quick).power}
            for n in sizes[0]
            for k in sizes[1]
        ]
    if simulate:
        if rates is not None:
            raise ValueError("--simulate draws tasks from a Beta law: it does not go with --rates")
        from misstep.experiment.plan.simulate import simulate as run

        found["simulated"] = [run(tasks, attempts, e, 10_000, mean=mean).plain() for e in (0.0, effect)]
    return found


def _lines(found: dict[str, Any]) -> Iterator[str]:
    from misstep.stats.planning import LARGEST

    tasks, attempts = found["tasks"], found["attempts"]
    size = f"{tasks} task{'s' * (tasks != 1)} x {attempts} attempt{'s' * (attempts != 1)}"
    yield f"{size}, an effect of {100 * found['effect']:+g} points: power {found['power']:.2f} (standard error {found['error']:.3f})"
    yield f"rates: {found['rates']}"
    if found["smallest_p"] > found["level"]:
        yield f"So few tasks cannot reach p = {found['level']:g}: the smallest possible p is {found['smallest_p']:.4g}."
    needed = found["tasks_needed"]
    yield f"for {100 * TARGET:.0f} % with {attempts} attempt{'s' * (attempts != 1)}: " + (
        f"{needed} tasks" if needed else f"more than {min(_MOST_TASKS, LARGEST // attempts**2)} tasks"
    )
    needed = found["attempts_needed"]
    yield f"for {100 * TARGET:.0f} % with {tasks} task{'s' * (tasks != 1)}: " + (
        f"{needed} attempt{'s' * (needed != 1)} each"
        if needed
        else f"not with {_MOST_ATTEMPTS} attempts each: more tasks"
    )
    if "curve" in found:
        columns = sorted({row["attempts"] for row in found["curve"]})
        yield ""
        yield "tasks \\ attempts" + "".join(f"{k:>7}" for k in columns)
        for n in sorted({row["tasks"] for row in found["curve"]}):
            values = [row["power"] for row in found["curve"] if row["tasks"] == n]
            yield f"{n:>16}" + "".join(f"{value:>7.2f}" for value in values)
    for row in found.get("simulated", ()):
        yield ""
        yield f"{row['panels']:,} simulated panels, an effect of {100 * row['effect']:+g} points"
        yield f"  the 95 % interval covers  {row['coverage']:.1%} (theory for {tasks} tasks: {row['expected']:.1%})"
        if row["predicted"] is None:
            yield f"  the test rejects          {row['rejected']:.1%} (at most 5 %)"
        else:
            yield f"  the test rejects          {row['rejected']:.1%} (power: {row['predicted']:.1%})"
