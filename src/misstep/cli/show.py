"""`misstep show`."""

from __future__ import annotations

import sys

import click

from . import Failure, debug_option, debugging, one_line


@click.command("show")
@click.argument("session", metavar="SESSION[#STEP]")
@click.option("--before", "-B", type=click.IntRange(0), default=3, show_default=True, help="Steps before it.")
@click.option("--after", "-A", type=click.IntRange(0), default=2, show_default=True, help="Steps after it.")
@click.option("--full", is_flag=True, help="Do not shorten the step's texts.")
@click.option("--no-index", is_flag=True, help="Do not look the id up in the index.")
@debug_option
def command(session: str, before: int, after: int, full: bool, no_index: bool) -> None:
    """Show a session, or a step of it with those around it.

    SESSION is a file or folder, or the id (or its start) of a session that was scanned here. Steps count from 0.
    """
    from misstep.report.console import console
    from misstep.report.session import show
    from misstep.report.words import called
    from misstep.scan.index import Index
    from misstep.scan.lookup import find
    from misstep.scan.result import BadInput

    called(sys.argv[0])
    try:
        if no_index:
            trajectory, step = find(session, None, _note)
        else:
            with Index() as index:
                trajectory, step = find(session, index, _note)
    except BadInput as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    show(console(), trajectory, step, before, after, 1_000_000_000 if full else 4000, session)


def _note(text: str) -> None:
    click.echo(f"misstep: {one_line(text)}", err=True)
