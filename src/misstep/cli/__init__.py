"""The `misstep` command. One file a command; a file is loaded when its command is used."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any

import click

import misstep

_COMMANDS = {
    "scan": "Count the missteps in the sessions you have.",
    "show": "Show a session, or a step of it, in the terminal.",
    "catalogue": "List the missteps, or explain one.",
    "guard": "Policies inside a live agent's hooks.",
}
"""Commands and their one-line help: so that `misstep --help` loads none of them."""

_debug = False


class Failure(click.ClickException):
    """A request that cannot be met: one clear line, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"misstep: {_one_line(self.format_message())}", file=file or sys.stderr)


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return importlib.import_module(f"misstep.cli.{name}").command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `misstep scan | head`: what was asked for was shown; 1 would mean --fail-on
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise click.exceptions.Exit(0) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    global _debug
    _debug = _debug or value
    return value


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show the traceback of an error.",
)


def debugging() -> bool:
    """Whether errors are shown with their traceback."""
    return _debug


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(misstep.__version__, prog_name="misstep", message="%(prog)s %(version)s")
@debug_option
def group() -> None:
    """Find the wrong steps that your terminal agent keeps taking.

    `misstep scan` reads the sessions that your coding agents have kept on this machine. Nothing is sent anywhere.
    """


def main() -> None:
    """Entry point. Exit codes: 0; 1 (`--fail-on`); 2 bad input; 3 a fault of misstep's own; 130 interrupted."""
    # A path or a transcript may hold what the terminal's encoding does not: show it escaped, do not fail.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # Records are many small objects without cycles: looking for some every 700 of them is a tenth of a scan.
    gc.set_threshold(100_000, 20, 20)
    try:
        done = group.main(prog_name="misstep", standalone_mode=False)
        sys.exit(done if isinstance(done, int) else 0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("misstep: interrupted", err=True)
        sys.exit(130)
    except Exception as error:
        if _debug:
            raise
        text = _one_line(f"{type(error).__name__}: {error}")
        click.echo(f"misstep: a fault of its own: {text} (--debug shows where)", err=True)
        sys.exit(3)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " if c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
