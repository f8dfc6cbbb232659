"""`misstep tasks`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import Failure, debug_option, debugging, one_line

if TYPE_CHECKING:
    from misstep.sandbox.checking import Report


@click.group("tasks")
@debug_option
def command() -> None:
    """Make tasks by seed, and check whether a task's verifier can be trusted."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON a family.")
@debug_option
def list_(as_json: bool) -> None:
    """List the families of tasks that can be made by seed."""
    from misstep.sandbox.generators import families

    found = families()
    if as_json:
        for one in found:
            record = {"family": one.name, "kind": one.kind, "about": one.about, "missteps": list(one.missteps)}
            click.echo(json.dumps({**record, "wrong": sorted(one.says), "needs": ["python3", *one.needs]}))
        return
    names, kinds = max(len(one.name) for one in found), max(len(one.kind) for one in found)
    for one in found:
        click.echo(f"{one.name:{names}}  {one.kind:{kinds}}  {one.about}")


@command.command("generate")
@click.argument("families", metavar="[FAMILY ...]", nargs=-1)
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Tasks of each family.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The first seed; the next tasks have the next ones.",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Where the folders are written."
)
@debug_option
def generate(families: tuple[str, ...], count: int, seed: int, out: Path) -> None:
    """Make tasks by seed, of all families or of those that are named.

    Each is a folder FAMILY-SEED in Harbor's format, the same to the byte for the same seed. Its path is printed.
    """
    from misstep.sandbox import SandboxError, generators

    try:
        chosen = [generators.get(name) for name in dict.fromkeys(families)] or generators.families()
        for family in chosen:
            for one in range(seed, seed + count):
                click.echo(one_line(str(family.generate(one).write(out))))
    except SandboxError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error


@command.command("check")
@click.argument(
    "folders", metavar="DIR ...", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--root",
    help="host, base, a tar or a directory: stands for the image of the task.  [default: base where it is built, else host]",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Runs of the oracle: its reward may not vary.",
)
@click.option("--jobs", type=click.IntRange(1), help="Tasks at once.  [default: as many as there are cores]")
@click.option("--network", is_flag=True, help="Let the Dockerfile's RUN reach this machine's network.")
@click.option("--keep-session", is_flag=True, help="What is attached to a delivery's session lives on, as in Docker.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON a task, with all deliveries.")
@debug_option
def check(
    folders: tuple[Path, ...],
    root: str | None,
    repeat: int,
    jobs: int | None,
    network: bool,
    keep_session: bool,
    as_json: bool,
) -> None:
    """Does the verifier accept the oracle, and refuse nothing done and the wrong deliveries?

    DIR is a task's folder (Harbor's format), or holds some. The oracle runs twice, in fresh sandboxes; its reward may not vary.
    Nothing done must be refused, and so must empty files where the instruction names new ones, and each script in the task's
    folder `wrong/`. The exit code is 1 unless every task is ok.
    """
    from misstep.sandbox import SandboxError, checking, native, roots

    problem = native.problem()
    if problem:
        raise Failure(problem)
    counts = dict.fromkeys(("ok", "fault", "flaky", "unknown"), 0)
    try:
        base = roots.find(root or ("base" if roots.base_tar().exists() else "host"))
        tasks = [task for folder in folders for task in checking.find(folder)]
        wide = max(len(task.name) for task in tasks)
        for report in checking.check_all(
            tasks,
            base,
            jobs=jobs or len(os.sched_getaffinity(0)),
            repeat=repeat,
            network="host" if network else "none",
            end_session=not keep_session,
        ):
            counts[report.verdict] += 1
            click.echo(json.dumps(report.record()) if as_json else _line(report, wide))
    except SandboxError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    if not as_json:
        total = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        click.echo(f"{len(tasks)} {'task' if len(tasks) == 1 else 'tasks'} on the root {base.name}: {total}")
    if counts["ok"] < len(tasks):
        raise click.exceptions.Exit(1)


def _line(report: Report, wide: int) -> str:
    """A line for the task, and one below for each thing that is wrong with it."""
    rewards: dict[str, list[str]] = {}
    for one in report.deliveries:
        rewards.setdefault(one.name, []).append(one.shown)
    shown = "  ".join(f"{name} {' '.join(values)}" for name, values in rewards.items())
    verdict = report.verdict if report.verdict in ("ok", "unknown") else report.verdict.upper()
    first = f"{verdict:7}  {report.task.name:{wide}}  {shown + '  ' if shown else ''}{report.seconds:.1f} s"
    return "\n".join([one_line(first), *(f"{'':9}{one_line(why)}" for why in report.why)])
