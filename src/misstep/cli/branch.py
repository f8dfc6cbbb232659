"""`misstep branch`: from the event at which a policy fires, on: with its text, with a sham, with nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option, debugging, one_line

if TYPE_CHECKING:
    from misstep.experiment.branch.design import BranchDesign
    from misstep.experiment.branch.run import Folder, Progress

MARKS = {"--html": b'content="misstep branch report ', "--json": b'"schema": "misstep.branch.analysis"'}
"""What the first bytes of a file hold that this command wrote with an option."""


@click.group("branch")
@debug_option
def command() -> None:
    """Branch tests: continue recorded attempts from where a policy fires, in several arms.

    `find` the decision points in attempts that you have, `verify` that they can be rebuilt, `run` continuations, `report`.
    """


@contextmanager
def _expected() -> Iterator[None]:
    """Faults of the user's files, and of what is not there on this machine, in one line."""
    from misstep.experiment.attempts import AttemptsError
    from misstep.experiment.branch.design import DesignError
    from misstep.experiment.branch.points import PointsError
    from misstep.experiment.branch.run import RunError
    from misstep.guard.portfolio import PortfolioError
    from misstep.models import ModelError, SettingsError
    from misstep.models.cache import CacheError
    from misstep.sandbox.base import SandboxError

    kinds = (
        AttemptsError, DesignError, PointsError, RunError, PortfolioError, ModelError, SettingsError, CacheError, SandboxError,
        ImportError,
    )  # fmt: skip
    try:
        yield
    except kinds as error:
        if debugging():
            raise
        raise Failure(one_line(str(error))) from error
    except OSError as error:
        if debugging() or error.filename is None:
            raise
        raise Failure(f"{error.filename}: {error.strerror}") from error


@command.command("find", short_help="Where policies fire in recorded attempts.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--portfolio", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Default: the catalogue's."
)
@click.option(
    "--tasks",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of Harbor tasks, or one task. A panel's folder knows its own.",
)
@click.option("--arm", "arms", multiple=True, help="Of a panel, the arms whose attempts are taken. Default: baseline.")
@click.option("--occurrences", is_flag=True, help="Occurrences of missteps are points as well.")
@click.option("--unscoped", is_flag=True, help="Also where a policy would fire on a task that is not its own.")
@click.option("--out", type=click.Path(path_type=Path), help="A new folder for verify, run and report.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with all attempts and points.")
@debug_option
def find_(
    paths: tuple[Path, ...],
    portfolio: Path | None,
    tasks: tuple[Path, ...],
    arms: tuple[str, ...],
    occurrences: bool,
    unscoped: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """The decision points in recorded attempts: (policy, event), and whether the record allows to rebuild them.

    PATHS are panels' folders, Harbor jobs, or trajectories of any agent that misstep reads.
    """
    from misstep.experiment.branch import points, run, sources
    from misstep.guard.portfolio import from_plain

    with _expected():
        plain = sources.portfolio_at(portfolio)
        known = sources.tasks_at(tasks, paths)
        found = points.find(
            paths, from_plain(dict(plain)), known, arms=arms, occurrences=occurrences, unscoped=unscoped
        )
        if out is not None:
            run.save(out, found, plain, {task.name: task.path for task in known})
    told = {
        "attempts": [asdict(one) for one in found.attempts],
        "points": [asdict(one) for one in found.points],
        "unread": dict(found.unread),
    }
    if as_json:
        click.echo(json.dumps(told, indent=1, ensure_ascii=False))
        return
    from misstep.report import branch
    from misstep.report.console import console

    branch.points(console(), told)


@command.command("verify", short_help="Replay the points' prefixes twice, and compare.")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--root", help="host, base, a tar or a directory. Default: base where it is built, else host.")
@click.option(
    "--rule", type=click.Choice(["exact", "masked"]), default="exact", show_default=True, help="What may differ."
)
@click.option("--network", is_flag=True, help="With this machine's network, as the recorded attempts had one.")
@click.option("--again", is_flag=True, help="Also points that have been replayed before.")
@debug_option
def verify_(folder: Path, root: str | None, rule: str, network: bool, again: bool) -> None:
    """Replay what comes before each point in two fresh sandboxes of its task, and compare every output and exit code.

    The exit code is 1 where no point can be rebuilt.
    """
    from misstep.experiment.branch.design import BranchDesign, Environment
    from misstep.experiment.branch.engines import root_of
    from misstep.experiment.branch.run import Folder, verify
    from misstep.report import branch
    from misstep.report.console import console

    out = console()
    good: list[str] = []

    def told(point: Any, known: Any) -> None:
        trusted = known.trusted(rule)
        good.extend([point.id] if trusted else [])
        branch.verdict(out, asdict(point), known.plain(), trusted)

    with _expected():
        tests = Folder.read(folder)
        kwargs = {"root": root} if root else {}
        verify(
            tests,
            root_of(BranchDesign(environment=Environment("bubblewrap", kwargs=kwargs))),
            rule,
            told,
            again=again,
            network=network,
        )
    click.echo(f"{len(good)} of {len(tests.found.points)} points can be rebuilt")
    if not good:
        raise click.exceptions.Exit(1)


@command.command("run", short_help="Continue from every point, in every arm.")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--design", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A design (TOML); kept in DIR."
)
@click.option("--continuations", type=click.IntRange(1), metavar="N", help="Of each point in each arm. Default: 4.")
@click.option(
    "--arms",
    metavar="ARM,ARM",
    help="Default: real,sham,nothing. Others: always-real, sham-deny, always-verify, reconsider.",
)
@click.option(
    "--models",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings of models, for our own loop.",
)
@click.option("--root", help="host, base, a tar or a directory. Default: base where it is built, else host.")
@click.option(
    "--end-session/--keep-session", default=None, help="End what is attached to the agent before the verifier comes."
)
@click.option("--network/--no-network", default=None, help="This machine's network, as the recorded attempts had one.")
@click.option("--rule", type=click.Choice(["exact", "masked"]), help="What may differ in a replay. Default: nothing.")
@click.option("--concurrency", type=click.IntRange(1), help="Continuations of one point at the same time.")
@click.option(
    "--limit", type=click.IntRange(1), help="End after so many continuations; the next run goes on from there."
)
@debug_option
def run_(folder: Path, limit: int | None, **options: Any) -> None:
    """Continue from every point that can be rebuilt, N times in each arm, and let the task's verifier judge each end.

    It goes on where it stopped, also after kill -9; a later run may ask for more continuations, and for nothing else anew.

    Exit codes: 0 nothing is left to run (or the limit is reached), 1 it ended before, 2 it cannot run.
    """
    from misstep.experiment.branch import design as designs
    from misstep.experiment.branch.run import run

    last = [""]

    def told(now: Progress) -> None:
        text = f"{now.done}/{now.planned} continuations"
        text += f", {now.lost} points lost" if now.lost else ""
        text += f", {now.invalid} no observations" if now.invalid else ""
        text += f", ${now.cost_usd:.2f}" if now.cost_usd else ""
        if sys.stderr.isatty() and text != last[0]:
            click.echo(f"\r{text}\x1b[K", err=True, nl=False)
            last[0] = text

    with _expected():
        old = designs.kept(folder)
        made = designs.settle(old, _chosen(old, options), folder)
        designs.write(folder, made)
        outcome = asyncio.run(run(folder, made, limit=limit or 0, told=told))
    if last[0]:
        click.echo("", err=True)
    click.echo(f"{outcome.recorded} continuations recorded")
    if outcome.why:
        click.echo(f"misstep: {one_line(outcome.why)}", err=True)
    if outcome.end not in ("done", "limit"):
        raise click.exceptions.Exit(1)


def _chosen(old: BranchDesign | None, options: dict[str, Any]) -> BranchDesign:
    """The design of the folder, of --design or the default, with what the options say. Raises BranchDesignError."""
    from misstep.experiment.branch.design import BranchDesign

    path = options["design"]
    made = BranchDesign.load(path) if path else old or BranchDesign(base=str(Path.cwd()))
    if options["continuations"]:
        made = replace(made, continuations=options["continuations"])
    if options["arms"]:
        arms = tuple(arm.strip() for arm in options["arms"].split(","))
        kept = made.contrast if set(made.contrast) <= set(arms) else (arms[0], arms[-1])
        made = replace(made, arms=arms, contrast=kept)
    if options["rule"]:
        made = replace(made, rule=options["rule"])
    if options["models"]:
        kwargs = {**made.agent.kwargs, "models": str(options["models"].resolve())}
        made = replace(made, agent=replace(made.agent, kwargs=kwargs))
    kwargs = dict(made.environment.kwargs)
    if options["root"]:
        kwargs["root"] = options["root"]
    if options["end_session"] is not None:
        kwargs["end_session"] = options["end_session"]
    if options["network"] is not None:
        kwargs["network"] = options["network"]
    width = options["concurrency"] or made.environment.concurrency
    return replace(made, environment=replace(made.environment, kwargs=kwargs, concurrency=width)).checked()


@command.command("report", short_help="What the continuations say.")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--html", metavar="FILE", help="Write a self-contained page.")
@click.option("--json", "json_", metavar="FILE", help="Write the whole analysis; - for standard output.")
@click.option("--quiet", "-q", is_flag=True, help="Nothing in the terminal.")
@debug_option
def report_(folder: Path, html: str | None, json_: str | None, quiet: bool) -> None:
    """What the continuations say: effects at the points and on whole attempts, over tasks, and what they cannot say."""
    from misstep.experiment.branch.run import Folder
    from misstep.report import branch
    from misstep.report.console import console

    for option, name in (("--html", html), ("--json", json_)):
        _check(option, name)
    with _expected():
        plain = analysis_of(Folder.read(folder))
    made = [(html, branch.text(plain))] if html else []
    if json_:
        made.append((json_, json.dumps(plain, indent=1, allow_nan=False) + "\n"))
    written = _write(made)
    if not quiet and json_ not in ("-", "/dev/stdout"):
        branch.show(console(), plain, written)


def analysis_of(tests: Folder) -> dict[str, Any]:
    """The analysis of a folder, in its plain form."""
    from misstep.experiment.branch import analyse
    from misstep.experiment.branch.design import BranchDesign, kept

    design = kept(tests.folder) or BranchDesign()
    about = {"name": design.name, "arms": list(design.arms), "agent": design.agent.name, "rule": design.rule}
    return analyse(
        tests.found,
        tests.records,
        tests.verdicts.known,
        arms=design.arms,
        contrast=design.contrast,
        continuations=design.continuations,
        rule=design.rule,
        about=about,
    ).plain()


def _check(option: str, name: str | None) -> None:
    """Refuse to write over what this command did not write."""
    if name is None or name in ("-", "/dev/stdout"):
        return
    target = Path(name)
    if not name or target.is_dir():
        raise Failure(f"{option}: expected a file's name, not {name or 'nothing'!r}")
    try:
        with target.open("rb") as file:
            head = file.read(400)
    except OSError:
        return
    if target.is_file() and head and MARKS[option] not in head:
        raise Failure(f"{name}: is there already, and not from {option}: name another file, or remove it first")


def _write(made: list[tuple[str, str]]) -> list[str]:
    from misstep.scan.output import output
    from misstep.scan.result import BadInput

    try:
        for name, text in made:
            with output(name) as file:
                assert file is not None
                file.write(text.encode("utf-8", "backslashreplace"))
    except BadInput as error:
        raise Failure(one_line(str(error))) from error
    sys.stdout.flush()
    return [name for name, _ in made if name not in ("-", "/dev/stdout")]
