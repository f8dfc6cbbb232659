"""`misstep panel`: one file a subcommand, loaded when it is used."""

from __future__ import annotations

import importlib

import click

from .. import debug_option

COMMANDS = {
    "plan": "Check a design, say what it will cost and what it can find, and write the lock.",
    "power": "The chance to find an effect, for given tasks and attempts.",
    "run": "Run the attempts of a locked design through Harbor; goes on where it stopped.",
    "status": "How far a panel is.",
    "ingest": "Make attempts of Harbor jobs or terminal-bench runs that you have.",
    "report": "What the attempts say: terminal, HTML, CSV, JSON.",
    "export": "One folder that others can check without a model.",
    "verify": "Compute every reported number of an exported panel again.",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"misstep.cli.panel.{name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("panel", cls=_Lazy)
@debug_option
def command() -> None:
    """Randomised experiments: was it the policy that did it?"""
