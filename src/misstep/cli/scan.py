"""`misstep scan`: its arguments. What it does is in `_scanning`."""

from __future__ import annotations

import click

from ._group import debug_option


@click.command("scan")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--html", "html_path", metavar="FILE", help="Write a self-contained page.")
@click.option("--json", "json_path", metavar="FILE", help="Write the records as JSONL; - for standard output.")
@click.option("--since", metavar="WHEN", help="Only sessions since a date (2026-11-03) or an age (7d, 12h, 2w).")
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only this agent's sessions. Repeatable.")
@click.option("--misstep", "ids", multiple=True, metavar="ID", help="Only this misstep, preview or not. Repeatable.")
@click.option("--preview", is_flag=True, help="Count the missteps in preview too.")
@click.option("--fail-on", multiple=True, metavar="ID[:N]", help="Exit with 1 at N occurrences (or `any`). Repeatable.")
@click.option("--workers", metavar="N", help="Processes. Default: one a core.")
@click.option("--shard", metavar="I/N", help="Read the I-th of N parts; write it with --json for --merge.")
@click.option("--merge", is_flag=True, help="PATHS are the files of all shards: add them up.")
@click.option("--no-index", is_flag=True, help="Read everything again, and keep nothing.")
@click.option("--quiet", "-q", is_flag=True, help="No summary and no progress.")
@debug_option
def command(
    paths: tuple[str, ...],
    html_path: str | None,
    json_path: str | None,
    since: str | None,
    agents: tuple[str, ...],
    ids: tuple[str, ...],
    preview: bool,
    fail_on: tuple[str, ...],
    workers: str | None,
    shard: str | None,
    merge: bool,
    no_index: bool,
    quiet: bool,
) -> int:
    """Count the missteps in recorded sessions.

    PATHS are session files or folders of them, in the format of any known agent. Without PATHS, the places where the
    known agents keep their sessions are read.
    """
    from ._scanning import run

    return run(
        paths=paths,
        html_path=html_path,
        json_path=json_path,
        since=since,
        agents=agents,
        ids=ids,
        preview=preview,
        fail_on=fail_on,
        workers=workers,
        shard=shard,
        merge=merge,
        no_index=no_index,
        quiet=quiet,
    )
