"""`misstep panel export`."""

from __future__ import annotations

from pathlib import Path

import click

from .. import Failure, debug_option, one_line
from .report import primary_of

_LISTED = 10


@click.command("export")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="ARTIFACT", help="The folder to make.")
@click.option("--primary", metavar="ARM,AGAINST", help="As for `panel report`.")
@click.option("--cohort", type=click.Choice(["eligible", "silent", "all"]), help="As for `panel report`.")
@click.option("--with-trajectories", is_flag=True, help="With the trials' folders, redacted.")
@debug_option
def command(path: Path, out: Path, primary: str | None, cohort: str | None, with_trajectories: bool) -> None:
    """One folder that others can check without a model: records, design, lock, sources, results, hashes.

    PATH is a panel's folder, or a file of attempts. What looks like a credential is redacted.
    """
    from misstep.experiment import records
    from misstep.experiment.artifact import export as artifact
    from misstep.report.panel import page

    try:
        made = artifact.export(
            path, out, primary=primary_of(primary), cohort=cohort, render=page.text, trajectories=with_trajectories
        )
    except (artifact.ArtifactError, *records.ERRORS) as error:
        raise Failure(one_line(str(error))) from error
    except OSError as error:
        raise Failure(one_line(f"{error.filename or out}: {error.strerror}")) from error
    click.echo(f"{made.files} files in {one_line(str(out))}; manifest sha256 {made.sha256}")
    _list("Redacted", made.redacted)
    _list("Left out", [f"{name}: {why}" for name, why in made.left_out.items()])
    click.echo(f"Next: misstep panel verify {one_line(str(out))}")


def _list(what: str, found: list[str]) -> None:
    for text in found[:_LISTED]:
        click.echo(f"{what}: {one_line(text)}")
    if len(found) > _LISTED:
        click.echo(f"{what}: {len(found) - _LISTED:,} more (manifest.json has all)")
