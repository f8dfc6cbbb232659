"""`misstep replay`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import Failure, debug_option, debugging

if TYPE_CHECKING:
    from misstep.sandbox.bubblewrap import BubblewrapSandbox
    from misstep.sandbox.record import Recording


@click.command("replay")
@click.argument("trajectory", metavar="TRAJECTORY[#STEP]")
@click.option("--root", default="host", show_default=True, help="host, base, a tar or a directory.")
@click.option(
    "--task", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Start from this task's environment."
)
@click.option("--workdir", help="Where the first command runs, if the record does not say or the path is another here.")
@click.option(
    "--rule",
    type=click.Choice(["exact", "masked"]),
    default="exact",
    show_default=True,
    help="What may differ for the prefix to be trusted.",
)
@click.option("--network", is_flag=True, help="Give the sandboxes this machine's network.")
@click.option("--all", "every", is_flag=True, help="List the exact commands too.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON a command.")
@debug_option
def command(
    trajectory: str,
    root: str,
    task: Path | None,
    workdir: str | None,
    rule: str,
    network: bool,
    every: bool,
    as_json: bool,
) -> None:
    """Run a session's commands again in fresh sandboxes, twice, and compare what they show.

    TRAJECTORY is a recording, a session file or folder, or the id of a session that was scanned here; with #STEP only what
    came before that step. The exit code is 1 if the prefix cannot be trusted.
    """
    from misstep.sandbox import SandboxError

    if workdir is not None and not workdir.startswith("/"):
        raise Failure(f"--workdir {workdir}: expected an absolute path")
    try:
        recording = _recording(trajectory)
        if not recording.commands:
            raise Failure(f"{trajectory}: no command to replay")
        if workdir:
            recording = replace(recording, workdir=workdir)
        start, home = _start(root, task, network, recording.workdir)
        if recording.workdir is None:
            recording = replace(recording, workdir=home)
        trusted = _replay(recording, start, rule, every, as_json)
    except SandboxError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    if not trusted:
        raise click.exceptions.Exit(1)


def _recording(name: str) -> Recording:
    from misstep.sandbox import record

    path, _, step = name.rpartition("#") if "#" in name and not Path(name).exists() else (name, "", "")
    path = path or name
    if Path(path).is_file() and record.is_recording(Path(path)):
        recording = record.read(Path(path))
        if not step:
            return recording
        if not re.fullmatch(r"\d{1,9}", step):
            raise Failure(f"{name}: expected the number of a command after #")
        if int(step) > len(recording.commands):
            raise Failure(f"{name}: it has {len(recording.commands)} of them: {step} is beyond")
        return replace(recording, commands=recording.commands[: int(step)])
    from misstep.scan.index import Index
    from misstep.scan.lookup import find
    from misstep.scan.result import BadInput

    try:
        if Path(path).exists():
            found, at = find(name, None)
        else:
            with Index() as index:
                found, at = find(name, index)
    except BadInput as error:
        raise Failure(str(error)) from error
    recording = record.from_trajectory(found)
    if at is not None:
        kept = tuple(one for one in recording.commands if one.step is not None and one.step < at)
        recording = replace(recording, commands=kept)
    return recording


def _start(
    root: str, task: Path | None, network: bool, workdir: str | None
) -> tuple[Callable[[], BubblewrapSandbox], str]:
    from misstep.sandbox import Limits, roots, tasks
    from misstep.sandbox.bubblewrap import BubblewrapSandbox

    base, limits, env = roots.find(root), Limits(), {}
    if task is not None:
        loaded = tasks.Task.load(task)
        base, limits, env = loaded.environment(base), loaded.limits, loaded.env
    home, mode = workdir or base.workdir, "host" if network else "none"
    return lambda: BubblewrapSandbox(base, limits=limits, env=env, workdir=home, network=mode), home  # type: ignore[arg-type]


def _replay(
    recording: Recording, start: Callable[[], BubblewrapSandbox], rule: str, every: bool, as_json: bool
) -> bool:
    from misstep.sandbox import replay

    prefix = replay.verify(recording, start)
    if as_json:
        for one in prefix.compared:
            row = {
                "command": one.recorded.shown,
                "step": one.recorded.step,
                "grade": one.grade,
                "reason": one.reason,
                "recorded": {"output": one.recorded.output, "exit_code": one.recorded.exit_code},
                "replayed": [{"output": run.output, "exit_code": run.exit_code} for run in one.replays],
            }
            click.echo(json.dumps(row, ensure_ascii=False))
    else:
        from misstep.report.console import console
        from misstep.report.replay import show

        show(console(), prefix, rule, every=every)
    return prefix.trusted("masked" if rule == "masked" else "exact")
