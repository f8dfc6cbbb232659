"""`misstep policies`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from misstep.guard.portfolio import Portfolio
    from misstep.guard.study import Fired

_portfolio = click.option(
    "--portfolio",
    type=click.Path(exists=True, dir_okay=False),
    help="A portfolio file or lock. Default: the one in use.",
)


@click.group("policies")
@debug_option
def command() -> None:
    """Portfolios of policies: freeze them, see which tasks they take, try them on recorded sessions, write new ones."""


def _load(path: str | None) -> Portfolio:
    from misstep.guard.choice import load, settings
    from misstep.guard.portfolio import PortfolioError

    try:
        return load({"portfolio": str(Path(path).resolve())} if path else settings())
    except PortfolioError as error:
        raise Failure(str(error)) from error


@command.command()
@click.argument("portfolio", type=click.Path(exists=True, dir_okay=False))
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="Default: beside it, with the ending .lock.")
@click.option(
    "--tasks", type=click.Path(exists=True), help="Also lock which of these task descriptions are eligible for what."
)
@debug_option
def freeze(portfolio: str, output: str | None, tasks: str | None) -> None:
    """Write the lock of a PORTFOLIO file: the SHA-256 of every source that decides what it does, versions and routing.

    A scored run ($MISSTEP_SCORED) uses a lock only, and refuses it when a source has changed.
    """
    from misstep.guard import freeze as freezing
    from misstep.guard.portfolio import PortfolioError, from_plain
    from misstep.guard.study import audit, tasks_of

    try:
        plain = freezing.read(Path(portfolio))
        routing: dict[str, list[str]] = {rule["policy"]: [] for rule in plain["rules"]}
        if tasks:
            for route in audit(from_plain(plain), tasks_of(Path(tasks))):
                routing[route.policy].append(route.task)
        made = freezing.lock(plain, routing if tasks else None)
    except PortfolioError as error:
        raise Failure(str(error)) from error
    path = Path(output) if output else Path(portfolio).with_suffix(".lock")
    freezing.write_lock(path, made)
    click.echo(f"{path}: {len(plain['rules'])} policies, {len(made['sources'])} sources")


@command.command()
@click.argument("lock", type=click.Path(exists=True, dir_okay=False))
@debug_option
def verify(lock: str) -> None:
    """Check that every source is as the LOCK says. Exit code 1 where one is not."""
    from misstep.guard.freeze import verify as verified

    try:
        wrong = verified(json.loads(Path(lock).read_text()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(f"{lock}: not a lock: {error}") from error
    click.echo(wrong or "Every source is as it was locked.")
    if wrong:
        raise click.exceptions.Exit(1)


@command.command()
@click.argument("tasks", type=click.Path(exists=True))
@_portfolio
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@debug_option
def audit(tasks: str, portfolio: str | None, as_json: bool) -> None:
    """Which of a folder of task descriptions are eligible for what, and the words that make them so.

    TASKS holds one folder a task (instruction.md, task.md, prompt.md, task.yaml) or one text file a task.
    """
    from misstep.guard.portfolio import PortfolioError
    from misstep.guard.study import audit as routed
    from misstep.guard.study import tasks_of

    everything = list(tasks_of(Path(tasks)))
    if not everything:
        raise Failure(f"{tasks}: no task descriptions in it")
    try:
        routes = routed(_load(portfolio), everything)
    except PortfolioError as error:
        raise Failure(str(error)) from error
    if as_json:
        for route in routes:
            click.echo(json.dumps(route.__dict__))
        return
    last = ""
    for route in routes:
        if route.policy != last:
            count = sum(r.policy == route.policy for r in routes)
            click.echo(f"{route.policy}: {count} of {len(everything)}")
        last = route.policy
        click.echo(f"  {route.task}: {_plain(route.words) or 'every task'}")
    silent = len(everything) - len({r.task for r in routes})
    click.echo(f"{silent} of {len(everything)} tasks are eligible for nothing.")


@command.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@debug_option
def test(files: tuple[str, ...]) -> None:
    """Run the examples beside policies: those of FILES, or of the portfolio in use. Exit code 1 where one fails."""
    from misstep.guard.portfolio import PortfolioError
    from misstep.guard.study import examples_of, missteps_in

    try:
        if files:
            chosen = [m for file in files for m in missteps_in(Path(file))]
        else:
            portfolio = _load(None)
            chosen = list({rule.misstep: portfolio.misstep(rule) for rule in portfolio.rules}.values())
    except PortfolioError as error:
        raise Failure(str(error)) from error
    ran = failed = 0
    for misstep in chosen:
        try:
            for name, wrong in examples_of(misstep):
                ran += 1
                if wrong:
                    failed += 1
                    click.echo(f"FAILED {misstep.id}: {name}: {wrong}")
        except (OSError, ValueError) as error:
            raise Failure(f"{misstep.id}: {error}") from error
    click.echo(f"{ran} examples of {len(chosen)} missteps, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


@command.command()
@click.argument("id")
@click.option("--folder", type=click.Path(file_okay=False), default=".", help="Where the files go. Default: here.")
@click.option("--at", type=click.Choice(["before", "stop"]), default="stop", help="When it acts. Default: stop.")
@click.option("--action", type=click.Choice(["instruct", "deny"]), default="instruct", help="Default: instruct.")
@debug_option
def new(id: str, folder: str, at: str, action: str) -> None:
    """Write the skeleton of a misstep with a policy, and examples that pass: ID.py and ID.yaml."""
    from misstep.guard.skeleton import Draft

    if action == "deny" and at == "stop":
        raise Failure("a stop cannot be denied: --action deny needs --at before")
    _write_draft(Draft(id, at=at, action=action), Path(folder))


def _write_draft(draft: Any, folder: Path) -> None:
    import re

    from misstep.guard import skeleton

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", draft.id):
        raise Failure(f"an id is in kebab-case, like ignored-warning; not {draft.id!r}")
    name = draft.id.replace("-", "_")
    paths = folder / f"{name}.py", folder / f"{name}.yaml"
    for path in paths:
        if path.exists():
            raise Failure(f"{path} is there already")
    folder.mkdir(parents=True, exist_ok=True)
    paths[0].write_text(skeleton.module(draft), encoding="utf-8")
    paths[1].write_text(skeleton.examples(draft), encoding="utf-8")
    _report(draft, *paths)


def _report(draft: Any, source: Path, examples: Path) -> None:
    """Run a draft's examples, and say which of them do not hold yet and what is left to its author."""
    from misstep.guard.skeleton import open_points
    from misstep.guard.study import examples_of, missteps_in

    ran, failed = 0, []
    for misstep in missteps_in(source):
        for name, wrong in examples_of(misstep):
            ran += 1
            failed += [f"  {_plain(name)}: {wrong}"] if wrong else []
    click.echo(f"{source} and {examples} are written: a draft, no policy yet.")
    held = "all hold" if not failed else "none holds" if len(failed) == ran else f"{len(failed)} do not hold"
    click.echo(f"Of its {ran} examples {held}{':' if failed else '.'}")
    for line in failed:
        click.echo(line)
    click.echo("Left to you:")
    for point in open_points(draft):
        click.echo(f"  {point}")
    click.echo(f"Then: `misstep policies test {source}`")


@command.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False), default=".")
@click.option("--revoke", is_flag=True, help="Trust them no more.")
@debug_option
def trust(folder: str, revoke: bool) -> None:
    """Trust the policies that come with a repository, as they are now: every file in its folder .misstep.

    When one of them changes, goes, or is added, hooks leave them all alone again. `misstep guard status` says so.
    """
    from misstep.guard import trust as trusted
    from misstep.guard.portfolio import PortfolioError

    path = str(Path(folder).resolve() / trusted.PROJECT_FILE)
    try:
        if revoke:
            done = "is trusted no more" if trusted.revoke(path) else "was not trusted"
            click.echo(f"{path} {done}")
            return
        _form(Path(path))
        files = trusted.trust(path)
    except (PortfolioError, trusted.TrustError) as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from error
    for file in files:
        click.echo(f"trusted as it is: {file}")


def _form(path: Path) -> None:
    """Whether a portfolio file has the form of one, without running what it names. Raises Failure."""
    import tomllib

    try:
        items = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("policy", [])
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path}: no TOML: {error}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Failure(f"{path}: policy: [[policy]] tables are expected")
    if not all(isinstance(item.get("file", ""), str) for item in items):
        raise Failure(f"{path}: policy: file: the path of a Python file is expected")


@command.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@_portfolio
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--examples", default=3, type=click.IntRange(0), help="Firings shown for each policy. Default: 3.")
@debug_option
def replay(paths: tuple[str, ...], portfolio: str | None, as_json: bool, examples: int) -> None:
    """Run a portfolio over recorded sessions: where each policy would have fired, what followed, and how it ended."""
    from misstep.guard.study import replay as replayed

    found: list[Fired] = []
    sessions = 0
    outcomes = {True: 0, False: 0, None: 0}
    chosen = _load(portfolio)
    for trajectory in _trajectories(paths):
        sessions += 1
        outcomes[trajectory.outcome.passed if trajectory.outcome else None] += 1
        found += replayed(chosen, trajectory)
    if as_json:
        for firing in found:
            click.echo(json.dumps(firing.__dict__))
        return
    known = outcomes[True] + outcomes[False]
    click.echo(f"{sessions} sessions, {known} of them with an outcome ({outcomes[True]} passed)")
    for policy in dict.fromkeys(f.policy for f in found):
        mine = [f for f in found if f.policy == policy]
        cases = {f.session: f.passed for f in mine}
        split = [sum(p is want for p in cases.values()) for want in (False, True, None)]
        click.echo(
            f"{policy} ({mine[0].action}): {len(mine)} times in {len(cases)} sessions; "
            f"{split[0]} of them failed, {split[1]} passed all the same, {split[2]} unknown"
        )
        for firing in mine[:examples]:
            click.echo(f"  {firing.path}#{firing.step}: {_plain(firing.what)}")
            for then in firing.then:
                click.echo(f"      then {_plain(then)}")
    if not found:
        click.echo("No policy would have fired.")


def _trajectories(paths: Iterable[str]) -> Iterator[Any]:
    """The sessions in files and folders. Raises Failure where a path is not there, or where none of them can be read."""
    from misstep.trajectory.readers import Unreadable, read, units

    for path in paths:
        if not Path(path).exists():
            raise Failure(f"{path}: no such file or folder")
    out = told = 0
    last = ""
    for unit in units(paths):
        try:
            for trajectory in read(unit):
                told += 1
                yield trajectory
        except Unreadable as error:
            out, last = out + 1, str(error)
    if not told:
        why = f"; {out} files are none, the last: {_plain(last)}" if out else ""
        raise Failure(f"{', '.join(paths)}: no session of an agent in it{why}")
    if out:
        click.echo(f"{out} files are left out; the last: {_plain(last)}", err=True)


@command.command()
@click.argument("misstep")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--id", "new_id", help="The id of the new policy. Default: <misstep>-reminder.")
@click.option("--folder", type=click.Path(file_okay=False), default=".", help="Where the files go. Default: here.")
@click.option(
    "--taxonomy",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="MISSTEP is a type of this folder's taxonomy (`misstep taxonomy`).",
)
@debug_option
def propose(misstep: str, paths: tuple[str, ...], new_id: str | None, folder: str, taxonomy: Path | None) -> None:
    """Draft a policy against a MISSTEP from its occurrences in recorded sessions. The words are left to you."""
    from misstep.catalogue import get
    from misstep.guard.propose import draft

    new = new_id or f"{misstep}-reminder"
    if taxonomy is not None:
        made = _of_taxonomy(taxonomy, misstep, paths, new)
    else:
        try:
            chosen = get(misstep)
        except KeyError as error:
            raise Failure(
                f"no misstep {misstep!r} (`misstep catalogue` lists them; --taxonomy DIR takes a type of a taxonomy)"
            ) from error
        made = draft(chosen, _trajectories(paths), new)
    if made is None:
        raise Failure(f"{misstep} does not occur in these sessions")
    _write_draft(made, Path(folder))


def _of_taxonomy(folder: Path, name: str, paths: tuple[str, ...], id: str) -> Any:
    """The draft from the labelled steps of a type, None where none of them is in these sessions. Raises Failure."""
    from misstep.guard.propose import draft_from
    from misstep.profile.instances import chosen, verdicts
    from misstep.profile.lines import LinesError
    from misstep.profile.taxonomy import TaxonomyError

    try:
        kind = chosen(folder, name)
        found = verdicts(folder, kind, _trajectories(paths))
        return draft_from(kind.name, ((one, [(*each, ()) for each in some]) for one, some in found), id)
    except (TaxonomyError, LinesError) as error:
        raise Failure(str(error)) from error


def _plain(text: str) -> str:
    """One harmless line, credentials left out."""
    from misstep.scan.redact import redact

    line = " ".join("".join(c if c.isprintable() else " " for c in redact(text[:2000])).split())
    return line if len(line) <= 160 else line[:157] + "..."
