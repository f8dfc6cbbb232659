"""`misstep derive`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import Failure, debug_option, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from misstep.experiment.derive.align import Divergence, Move
    from misstep.experiment.derive.losses import Case, Cluster, Derivation

WIDTH = 150


@click.command("derive")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--by",
    type=click.Choice(["agent", "job"]),
    default="agent",
    show_default=True,
    help="Whose attempts at a task belong together: those of one agent and model, or of one job.",
)
@click.option("--preview", is_flag=True, help="Look for missteps in preview too.")
@click.option("--write", "folder", metavar="DIR", help="Keep what the printed commands read: task texts, portfolios.")
@click.option("--most", type=click.IntRange(0), default=10, show_default=True, help="Tasks shown of each kind.")
@click.option("--agent-error", multiple=True, metavar="NAME", help="An exception that is the agent's own end.")
@click.option("--pass-at", type=float, default=1.0, show_default=True, help="The reward from which on it passed.")
@click.option("--workers", type=click.IntRange(1), help="Processes. Default: one a core.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@debug_option
def command(
    paths: tuple[str, ...],
    by: str,
    preview: bool,
    folder: str | None,
    most: int,
    agent_error: tuple[str, ...],
    pass_at: float,
    workers: int | None,
    as_json: bool,
) -> None:
    """Where an agent loses what it can do: the start of a policy.

    PATHS are Harbor jobs or runs of terminal-bench v1, with at least two attempts at a task by one agent under no policy.
    """
    from misstep.experiment.attempts import AttemptsError
    from misstep.experiment.derive.derivation import derive, write
    from misstep.experiment.outcomes.ingest import Options

    options = Options(own=agent_error, passes=pass_at, workers=workers or 0)
    kept = Path(folder) if folder else None
    try:
        found = derive([Path(path) for path in paths], by=by, preview=preview, options=options, folder=kept)
    except AttemptsError as error:
        raise Failure(one_line(str(error))) from error
    if kept is not None:
        write(found, kept)
    if as_json:
        click.echo(json.dumps(found.plain(), indent=1, ensure_ascii=False))
        return
    for text in _shown(found, most):
        click.echo(one_line(text))
    if any(one.policies for one in found.clusters):
        click.echo("")
        click.echo(
            f"Where the policies in use would have acted: {shlex.join(['misstep', 'policies', 'replay', *paths])}"
        )
    if found.clusters and not any("audit" in text.split() for one in found.clusters for text in one.next):
        click.echo("Which tasks a policy would take: --write DIR keeps the task texts, for `misstep policies audit`")


def _shown(found: Derivation, most: int) -> Iterator[str]:
    split = [one for one in found.cases if one.kind == "split"]
    never = [one for one in found.cases if one.kind == "never"]
    yield (
        f"{_count(found.attempts, 'attempt')}: {_count(found.solved, 'task')} always passed, {len(split)} sometimes, "
        f"{len(never)} never"
    )
    for why, count in sorted(found.left_out.items()):
        yield f"left out: {why}: {count}"
    for note in found.notes:
        yield f"note: {note}"
    if found.clusters:
        yield ""
        yield "Missteps of failed attempts that no passed attempt at the same task has"
        for cluster in found.clusters:
            yield from _cluster(cluster)
    if split:
        yield ""
        yield f"Sometimes passed: {_count(len(split), 'task')}, with where a failed attempt parts from a passed one"
        for case in split[:most]:
            yield from _split(case)
        yield from _more(split, most)
    told = [one for one in never if one.evidence]
    if told:
        yield ""
        yield f"Never passed, with an omission: {_count(len(told), 'task')}"
        for case in told[:most]:
            yield f"  {case.task}: 0 of {case.attempts} ({_ends(case)})"
            yield from _evidence(case)
        yield from _more(told, most)
    for what, cases in (
        ("Sometimes passed, and no misstep of the catalogue tells why", found.unclustered),
        ("Never passed, and no omission is seen", found.unexplained),
    ):
        if cases:
            yield ""
            yield f"{what}: {', '.join(case.task for case in cases[:most])}" + (
                f" and {len(cases) - most} more" if len(cases) > most else ""
            )


def _cluster(cluster: Cluster) -> Iterator[str]:
    tasks = [*cluster.split, *cluster.never]
    yield (
        f"  {cluster.misstep}: the agent {cluster.name}; {_count(len(cluster.split), 'task')} sometimes passed, "
        f"{len(cluster.never)} never; in {cluster.failed} of {cluster.failed_of} failed attempts, "
        f"{cluster.passed} of {cluster.passed_of} passed ones"
    )
    yield f"    tasks: {', '.join(tasks[:6])}" + (f" and {len(tasks) - 6} more" if len(tasks) > 6 else "")
    if cluster.policies:
        yield f"    policies against it: {', '.join(cluster.policies)}"
    for text in cluster.next:
        yield f"    next: {text}"


def _split(case: Case) -> Iterator[str]:
    yield f"  {case.task}: {case.passed} of {case.attempts} ({_ends(case)}; {case.agent})"
    for pair in case.pairs[:1]:
        yield f"    failed {_place(pair.failed.trial)}, passed {_place(pair.passed.trial)}"
        yield from _divergence(pair.divergence)
    if not case.pairs:
        yield f"    {case.unrecorded} of {case.attempts} attempts have no step on record: nothing to align"
    yield from _evidence(case)


def _divergence(found: Divergence) -> Iterator[str]:
    yield f"    {found.common} steps alike, of {found.failed_moves} and {found.passed_moves}"
    if found.variant is not None:
        yield f"    other words  {_both(*found.variant)}"
    if not found.parted:
        yield "    they take the same steps to the end"
        return
    yield f"    last alike   {_both(*found.last) if found.last else 'the prompt'}"
    yield f"    failed next  {_move(found.failed)}"
    yield f"    passed next  {_move(found.passed)}"


def _both(failed: Move, passed: Move) -> str:
    if failed.text == passed.text:
        ends = f" [{failed.result or '?'}; {passed.result or '?'}]" if failed.result != passed.result else ""
        return f"steps {failed.step} and {passed.step}: {_cut(failed.text)}{ends}"
    return f"step {failed.step}: {_cut(failed.text, WIDTH // 2)} | step {passed.step}: {_cut(passed.text, WIDTH // 2)}"


def _move(move: Move | None) -> str:
    if move is None:
        return "(the record ends)"
    return f"step {move.step}: {_cut(move.text)}" + (f" [{move.result}]" if move.result not in ("", "ok") else "")


def _evidence(case: Case) -> Iterator[str]:
    for one in case.evidence:
        first = one.sightings[0] if one.sightings else None
        failures = case.attempts - case.passed
        where = f": {_place(first.trial)} step {first.step}: {first.why or first.command}" if first else ""
        state = f" (state of {', '.join(one.state)})" if one.state and not first else ""
        yield _cut(f"    {one.misstep} in {one.attempts} of {failures} failed{state}{where}", WIDTH + 40)


def _ends(case: Case) -> str:
    return ", ".join(f"{count} {name}" for name, count in case.terminations.items())


def _more(cases: Iterable[Case], most: int) -> Iterator[str]:
    left = len(list(cases)) - most
    if left > 0:
        yield f"  and {left} more (--most, --json)"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _place(trial: str) -> str:
    """A trial by its folder and the one that holds it (a Harbor job), or by its name in a run."""
    path, _, row = trial.partition("#")
    return row or "/".join(Path(path).parts[-2:])


def _cut(text: str, most: int = WIDTH) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
