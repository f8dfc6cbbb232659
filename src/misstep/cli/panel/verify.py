"""`misstep panel verify`."""

from __future__ import annotations

from pathlib import Path

import click

from .. import Failure, debug_option, one_line


@click.command("verify")
@click.argument("artifact", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--notes", is_flag=True, help="Also what could not be checked, a line each.")
@debug_option
def command(artifact: Path, notes: bool) -> int:
    """Check an ARTIFACT that `panel export` made: files, schedule, lineage, and every reported number.

    Prints one line. Exit codes: 0 all holds, 1 something differs (the line names the first), 2 it is no artifact.
    """
    from misstep.experiment.artifact import export as artifacts
    from misstep.experiment.artifact import verify as checking
    from misstep.report.panel import page

    try:
        found = checking.verify(artifact, page.text)
    except artifacts.ArtifactError as error:
        raise Failure(one_line(str(error))) from error
    if found.problem:
        click.echo(f"differs: {one_line(found.problem)}")
    else:
        unchecked = f"; {len(found.notes)} not checked (--notes)" if found.notes and not notes else ""
        click.echo(
            f"verified: {found.files} files, {found.attempts:,} attempts, {found.numbers:,} numbers computed again, "
            f"{'design, schedule and lineage as locked' if found.locked else 'no lock'}; "
            f"manifest sha256 {found.sha256}{unchecked}"
        )
    if notes:
        for note in found.notes:
            click.echo(f"  {one_line(note)}")
    return 1 if found.problem else 0
