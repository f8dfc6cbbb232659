"""`misstep prefixes`."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option, debugging, one_line

if TYPE_CHECKING:
    from misstep.sandbox import Root
    from misstep.train.building import Built
    from misstep.train.prefixes import Prefix
    from misstep.train.sources import Found, Occurrence


@click.group("prefixes")
@debug_option
def command() -> None:
    """The recorded steps before a misstep: states from which training starts, and on which it is measured.

    build takes them from profiled trajectories and replays each twice, verify replays them again, stats counts them.
    """


root_option = click.option(
    "--root", help="host, base, a tar or a directory: stands for the tasks' image.  [default: base where it is built, else host]"
)  # fmt: skip
jobs_option = click.option(
    "--jobs", type=click.IntRange(1), help="Replays at once.  [default: as many as there are cores]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="The result as JSON.")


@contextmanager
def _told() -> Iterator[None]:
    """Errors of the input as one line."""
    from misstep.profile.lines import LinesError
    from misstep.profile.taxonomy import TaxonomyError
    from misstep.sandbox import SandboxError
    from misstep.train.prefixes import PrefixError
    from misstep.train.split import SplitError

    try:
        yield
    except (LinesError, TaxonomyError, SandboxError, PrefixError, SplitError) as error:
        if debugging():
            raise
        raise Failure(str(error)) from error


def _root(name: str | None) -> Root:
    from misstep.sandbox import native, roots

    problem = native.problem()
    if problem:
        raise Failure(problem)
    return roots.find(name or ("base" if roots.base_tar().exists() else "host"))


@command.command()
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--tasks", "folders", metavar="DIR", multiple=True, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="A task's folder (Harbor's format), or one that holds some. Repeatable.")  # fmt: skip
@click.option("--out", metavar="DIR", required=True, type=click.Path(file_okay=False, path_type=Path),
              help="Where the results go. A build that was ended goes on there.")  # fmt: skip
@click.option("--misstep", "names", metavar="ID", multiple=True, help="Only this one of the catalogue. Repeatable.")
@click.option("--profile", "profile", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="A profile made with models and labelled (misstep taxonomy): its error steps, in the place of PATHS.")  # fmt: skip
@click.option("--split", "split", metavar="FILE", type=click.Path(exists=True, path_type=Path),
              help="Which environments are held out, of a build before. Tasks that are not in it give no prefix.")  # fmt: skip
@click.option("--held-out", metavar="SHARE", type=click.FloatRange(0, 1, max_open=True), default=0.2, show_default=True,
              help="Of the environments.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the split, and of what is drawn.")
@click.option("--per-environment", metavar="N", type=click.IntRange(1), default=4, show_default=True,
              help="Prefixes of one environment at most.")  # fmt: skip
@click.option("--most-steps", metavar="N", type=click.IntRange(0), default=48, show_default=True,
              help="Longer ones are dropped.")  # fmt: skip
@click.option("--rule", type=click.Choice(["exact", "masked"]), default="exact", show_default=True,
              help="What may differ in a replay: nothing, or what two replays show to be noise.")  # fmt: skip
@click.option("--processes", is_flag=True, help="Keep prefixes at whose end processes live on.")
@click.option("--repeated", is_flag=True, help="Keep those in whose steps the same misstep has happened before.")
@root_option
@jobs_option
@json_option
@debug_option
def build(
    paths: tuple[str, ...],
    folders: tuple[Path, ...],
    out: Path,
    names: tuple[str, ...],
    profile: Path | None,
    split: Path | None,
    held_out: float,
    seed: int,
    per_environment: int,
    most_steps: int,
    rule: str,
    processes: bool,
    repeated: bool,
    root: str | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Take the steps before each misstep, and keep those that two replays in fresh sandboxes reproduce.

    PATHS are session files or folders of them, in the format of any known agent; the catalogue's detectors say where a misstep
    is. With --profile the error steps are those of a profile made with models.
    """
    if bool(paths) == (profile is not None):
        raise Failure("name PATHS of recorded sessions, or --profile DIR, and not both")
    for path in paths:
        if not os.path.lexists(path):
            raise Failure(f"{path}: no such file or folder")
    with _told():
        from misstep.sandbox import checking
        from misstep.train import split as splits
        from misstep.train.building import Settings, Tasks
        from misstep.train.building import build as work
        from misstep.train.sources import Found

        base = _root(root)
        tasks = [task for folder in folders for task in checking.find(folder)]
        out.mkdir(parents=True, exist_ok=True)
        locked = splits.load(split) if split is not None else splits.make(tasks, held_out=held_out, seed=seed)
        splits.save(out / splits.FILE, locked)
        found = Found()
        occurrences = _by_profile(profile, found) if profile is not None else _by_catalogue(paths, names, found)
        settings = Settings(
            per_environment=per_environment, seed=seed, rule="masked" if rule == "masked" else "exact",
            most_steps=most_steps, processes=processes, repeated=repeated,
        )  # fmt: skip
        built = work(occurrences, Tasks(tasks), locked, out, base, settings, jobs=jobs or len(os.sched_getaffinity(0)))
    if as_json:
        click.echo(json.dumps({**_counts(built.prefixes), **_dropped(built, found)}))
        return 0
    for line in _lines(built, found):
        click.echo(line)
    return 0


def _by_catalogue(paths: tuple[str, ...], names: tuple[str, ...], found: Found) -> Iterator[Occurrence]:
    from misstep.catalogue import get, missteps
    from misstep.train.sources import by_catalogue

    try:
        chosen = [get(name) for name in dict.fromkeys(names)] or [one for one in missteps() if one.status != "retired"]
    except KeyError as error:
        raise Failure(f"no misstep is named {error.args[0]!r} (misstep catalogue lists them)") from error
    return by_catalogue(paths, chosen, found)


def _by_profile(folder: Path, found: Found) -> Iterator[Occurrence]:
    from misstep.profile import labelling, labels, taxonomy
    from misstep.train.sources import by_labels

    types = taxonomy.load(folder)
    given = labelling.load(folder, types)
    if given is None:
        raise Failure(f"{folder}: no labelled steps (labels.jsonl): misstep taxonomy label makes them")
    _, steps = labels.load(folder)
    return by_labels(steps, types, given, found)


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--held-out", "side", flag_value="held-out", help="Only those of held-out environments.")
@root_option
@jobs_option
@json_option
@debug_option
def verify(folder: Path, side: str | None, root: str | None, jobs: int | None, as_json: bool) -> int:
    """Replay every prefix twice again, and hold its task against its hash.

    The exit code is 1 where one can no longer be trusted.
    """
    with _told():
        from misstep.train import prefixes
        from misstep.train.building import recheck

        _, found = prefixes.load(folder, split="held-out" if side else None)
        bad = 0
        for prefix, why in recheck(found, _root(root), jobs=jobs or len(os.sched_getaffinity(0))):
            bad += bool(why)
            if as_json:
                click.echo(json.dumps({"id": prefix.id, "task": prefix.task, "why": why}))
            elif why:
                click.echo(one_line(f"{prefix.id}  {prefix.task}  {why}"))
    if not as_json:
        click.echo(f"{len(found)} prefixes: {len(found) - bad} as recorded, {bad} not")
    if bad:
        raise click.exceptions.Exit(1)
    return 0


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@json_option
@debug_option
def stats(folder: Path, as_json: bool) -> int:
    """Count the prefixes by type, environment and side, and say what was dropped and why."""
    with _told():
        from misstep.profile.lines import read
        from misstep.train import building, prefixes

        _, found = prefixes.load(folder)
        path = (folder if folder.is_dir() else folder.parent) / building.DROPPED
        rows = read(path)[0][1:] if path.exists() else []
    reasons = Counter(str(row.get("reason")) for row in rows)
    if as_json:
        click.echo(json.dumps({**_counts(found), "dropped": dict(reasons.most_common())}))
        return 0
    for line in _told_counts(found):
        click.echo(line)
    for line in _told_reasons(reasons):
        click.echo(line)
    return 0


def _counts(found: list[Prefix]) -> dict[str, Any]:
    types: dict[str, Any] = {}
    for one in found:
        row = types.setdefault(
            one.target.id, {"kind": one.target.kind, "train": 0, "held-out": 0, "environments": set()}
        )
        row[one.split] += 1
        row["environments"].add(one.environment)
    for row in types.values():
        row["environments"] = len(row["environments"])
    steps = sorted(len(one) for one in found)
    return {
        "prefixes": len(found),
        "environments": len({one.environment for one in found}),
        "train": sum(one.split == "train" for one in found),
        "held_out": sum(one.split == "held-out" for one in found),
        "token_ids": sum(one.token_ids is not None for one in found),
        "masked": sum(one.grade == "masked" for one in found),
        "steps": {"median": steps[len(steps) // 2], "most": steps[-1]} if steps else {},
        "types": dict(sorted(types.items())),
    }


def _dropped(built: Built, found: Found) -> dict[str, Any]:
    return {
        "occurrences": built.occurrences,
        "trajectories": found.trajectories,
        "unreadable": dict(found.unreadable),
        "dropped": dict(built.reasons.most_common()),
        "replays": built.replays,
        "seconds": round(built.seconds, 3),
    }


def _lines(built: Built, found: Found) -> Iterator[str]:
    yield f"{found.trajectories:,} trajectories, {built.occurrences:,} missteps in them"
    for why, count in found.unreadable.most_common():
        yield one_line(f"  {count:,} files not read: {why}")
    yield from _told_counts(built.prefixes)
    yield from _told_reasons(built.reasons)
    yield f"{built.replays:,} prefixes replayed twice in {built.seconds:.1f} s"


def _told_counts(found: list[Prefix]) -> Iterator[str]:
    counts = _counts(found)
    more = f", {counts['token_ids']:,} with token ids" if counts["token_ids"] else ""
    more += f", {counts['masked']:,} equal but for noise" if counts["masked"] else ""
    yield f"{counts['prefixes']:,} prefixes of {counts['environments']:,} environments: {counts['train']:,} to train on, {counts['held_out']:,} held out{more}"
    wide = max((len(name) for name in counts["types"]), default=0)
    for name, row in sorted(counts["types"].items(), key=lambda item: -item[1]["train"] - item[1]["held-out"]):
        yield f"  {name:{wide}}  {row['train']:4} to train on  {row['held-out']:4} held out  {row['environments']:4} environments"
    if counts["steps"]:
        yield f"  steps: {counts['steps']['median']} in the median, {counts['steps']['most']} at most"


def _told_reasons(reasons: Counter[str]) -> Iterator[str]:
    if reasons:
        yield f"{reasons.total():,} dropped:"
    for why, count in reasons.most_common():
        yield one_line(f"  {count:5,}  {why}")
