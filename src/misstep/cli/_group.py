"""The command as click sees it: groups, options that all share, errors. Loaded for all but a plain scan (see `_quick`)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

import misstep

from . import COMMANDS, GONE, one_line, set_debug, silence


class Failure(click.ClickException):
    """A request that cannot be met: one clear line, exit code 2."""

    exit_code = 2


@contextmanager
def _reader() -> Iterator[None]:
    """Where the reader of standard output went away, end as other programs do: click would exit with 1 (`--fail-on`)."""
    try:
        yield
    except BrokenPipeError:
        silence(sys.stdout)
        raise click.exceptions.Exit(GONE) from None


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"misstep.cli.{name}").command
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _reader():  # --help and --version
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    if value:
        set_debug(True)
    return value


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show the traceback of an error.",
)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(misstep.__version__, prog_name="misstep", message="%(prog)s %(version)s")
@debug_option
def group() -> None:
    """Find the wrong steps that your terminal agent keeps taking.

    `misstep scan` reads the sessions that your coding agents have kept on this machine. Nothing is sent anywhere.
    """


def run() -> int:
    """Run the command line; the exit code."""
    try:
        done = group.main(prog_name="misstep", standalone_mode=False)
        return done if isinstance(done, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # (since click 8.2)
            click.echo(error.format_message())
            return 0
        click.echo(f"misstep: {one_line(error.format_message())}", err=True)
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
