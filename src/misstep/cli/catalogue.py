"""`misstep catalogue`."""

from __future__ import annotations

import sys
from typing import Any

import click

from . import Failure, debug_option


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from misstep.catalogue import missteps

    return [CompletionItem(m.id, help=m.name) for m in missteps() if m.id.startswith(incomplete)]


@click.command("catalogue")
@click.argument("id", required=False, shell_complete=_complete)
@click.option("--markdown", is_flag=True, help="Print the whole catalogue as Markdown (docs/catalogue.md).")
@debug_option
def command(id: str | None, markdown: bool) -> None:
    """List the missteps, or explain the one with this ID."""
    from misstep.catalogue import get, missteps

    if markdown:
        from misstep.report.pages import markdown as page

        chosen = tuple(m for m in missteps() if m.status != "retired")
        click.echo(page(chosen), nl=False)
        return
    from misstep.report.catalogue import show_list, show_one
    from misstep.report.console import console
    from misstep.report.words import called

    called(sys.argv[0])
    if id is None:
        show_list(console(), missteps())
        return
    try:
        misstep = get(id)
    except KeyError as error:
        import difflib

        near = difflib.get_close_matches(id, [m.id for m in missteps()], 1, 0.5)
        hint = f": did you mean {near[0]!r}?" if near else " (`misstep catalogue` lists them)"
        raise Failure(f"no misstep {id!r}{hint}") from error
    show_one(console(), misstep)
