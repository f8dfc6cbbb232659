"""What `misstep scan` does: from its arguments to the exit code. Loads neither click nor anything that it may not need."""

# ruff: noqa: PTH105, PTH108, PTH110, PTH111, PTH113, PTH118, PTH123
# (pathlib takes as long to load as a tenth of a second scan)
from __future__ import annotations

import contextlib
import os
import sys
import time

from misstep.scan.result import BadInput
from misstep.scan.run import Options, scan

from . import debugging, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO, Any

    from misstep.scan.index import Index
    from misstep.scan.result import Result
    from misstep.scan.sources import Place
    from misstep.scan.summary import Summary


def run(**request: Any) -> int:
    """Run a scan with the arguments of `_run`; the exit code. Bad input is one line on standard error, and 2."""
    try:
        return _run(**request)
    except BadInput as error:
        if debugging():
            raise
        print(f"misstep: {one_line(str(error))}", file=sys.stderr)
        return 2


def _run(
    *,
    paths: Sequence[str] = (),
    html_path: str | None = None,
    json_path: str | None = None,
    since: str | None = None,
    agents: Sequence[str] = (),
    ids: Sequence[str] = (),
    preview: bool = False,
    fail_on: Sequence[str] = (),
    workers: int | None = None,
    shard: str | None = None,
    merge: bool = False,
    no_index: bool = False,
    quiet: bool = False,
) -> int:
    limits = dict(_limit(text) for text in fail_on)
    options = Options(
        paths=list(paths),
        workers=workers or 0,
        shard=_shard(shard),
        since=_since(since),
        agents=agents,
        missteps=ids,
        also=tuple(name for name in limits if name != "any"),
        preview=preview,
        strict=debugging(),
    )
    _check(options, merge, html_path, json_path)
    with _output(json_path) as json_file, _output(html_path) as html_file:
        places: list[Place] = []
        if merge:
            from misstep.scan.result import merge as merge_shards

            result = merge_shards(paths)
        else:
            places = _places(options, quiet or json_path == "-")
            result = _scan(options, no_index, progress=not quiet and sys.stderr.isatty())
        summary = _write(result, json_file, html_file)
        if not summary.sessions and not shard:
            _nothing(result, summary, options, places, merge)
    if not quiet and json_path != "-":
        _tell(result, summary, shard, json_path, html_path, paths, places)
    return _fail(summary, limits)


def _scan(options: Options, no_index: bool, progress: bool) -> Result:
    with _index(no_index) as index, _progress(progress) as watch:
        return scan(options, index, watch)


def _write(result: Result, json_file: IO[bytes] | None, html_file: IO[bytes] | None) -> Summary:
    from misstep.scan.summary import summarise

    summary = summarise(result, result.header["missteps"])
    summary.units, summary.filtered = result.units, dict(result.filtered)
    if json_file is not None:
        result.write(json_file, None if result.header.get("shard") else summary.to_json())
    if html_file is not None:
        from misstep.report.page import write

        write(html_file, result, summary)
    return summary


def _tell(
    result: Result,
    summary: Summary,
    shard: str | None,
    json_path: str | None,
    html_path: str | None,
    paths: Sequence[str],
    places: list[Place],
) -> None:
    if shard:
        print(f"shard {shard}: {result.units} units, {summary.sessions} sessions, written to {json_path}")
        return
    from misstep.report.console import console
    from misstep.report.terminal import show

    written = [name for name in (html_path, json_path) if name]
    show(console(), summary, places, written, " ".join(paths), result.header)


def _check(options: Options, merge: bool, html_path: str | None, json_path: str | None) -> None:
    """What does not go together."""
    if options.shard and not json_path:
        raise BadInput("--shard needs --json FILE: the part that --merge adds up")
    if options.shard and (html_path or merge):
        raise BadInput("--shard does not go with --html or --merge: merge the shards first")
    if merge and not options.paths:
        raise BadInput("--merge needs the files that the shards wrote")
    if merge and (options.filters or options.preview):
        raise BadInput("--merge takes no filters: the shards' own hold")
    if html_path == "-":
        raise BadInput("--html needs a file's name")


def _places(options: Options, silent: bool) -> list[Place]:
    """Where to look when no path was given."""
    if options.paths:
        return []
    from misstep.scan.sources import places

    found = places()
    if not found:
        raise BadInput("no sessions found where the known agents keep them: name a file or folder")
    options.paths = [str(place.path) for place in found]
    if not silent:
        names: dict[str, list[str]] = {}
        for place in found:
            names.setdefault(place.agent, []).append(_tilde(str(place.path)))
        for agent, where in names.items():
            more = f" and {len(where) - 1} more" if len(where) > 1 else ""
            print(f"found {agent}: {where[0]}{more}", file=sys.stderr)
    return found


def _nothing(result: Result, summary: Summary, options: Options, places: list[Place], merge: bool) -> None:
    """Say why there is nothing to count: an empty answer must not look like a clean one."""
    if merge:
        where = "the shards"
    elif places:
        where = "the places of the known agents"
    else:
        where = ", ".join(options.paths[:3]) + (" …" if len(options.paths) > 3 else "")
    reasons = [f"{n} × {reason}" for reason, n in summary.unread.most_common(3)]
    reasons += [f"{n} left out by --{name}" for name, n in result.filtered.items()]
    reasons += [f"{n} broken by {why}" for why, n in summary.faults.items()]
    reasons += [f"{summary.empty} without a step of an agent"] if summary.empty else []
    raise BadInput(f"no session to count in {where}" + (f" ({'; '.join(reasons)})" if reasons else ": it is empty"))


def _fail(summary: Summary, limits: dict[str, int]) -> int:
    """1 where a limit is reached, else 0."""
    reached = []
    for name, limit in limits.items():
        count = sum(t.occurrences for t in summary.tallies.values() if name in ("any", t.id))
        if count >= limit:
            reached.append(f"{name}: {count} occurrence{'s' * (count != 1)} (limit {limit})")
    if reached:
        print("\n".join(f"misstep: failed on {line}" for line in reached), file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _index(no_index: bool) -> Iterator[Index | None]:
    if no_index:
        yield None
        return
    from misstep.scan.index import Index

    with Index() as index:
        yield index


@contextlib.contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error, once a scan takes longer than an eye notices."""
    if not wanted:
        yield None
        return
    started = time.monotonic()
    shown: Any = None

    def watch(done: int, total: int) -> None:
        nonlocal shown
        if shown is None and time.monotonic() - started > 0.3 and done < total:
            from misstep.report.console import progress

            shown = progress()
            shown.start()
            shown.add_task("reading sessions", total=total)
        if shown is not None:
            shown.update(shown.task_ids[0], completed=done)

    try:
        yield watch
    finally:
        if shown is not None:
            shown.stop()


@contextlib.contextmanager
def _output(name: str | None) -> Iterator[IO[bytes] | None]:
    """A file that appears only when it is complete, readable by its owner alone. Fails before the scan, not after it."""
    if name is None:
        yield None
        return
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if os.path.exists(name) and not os.path.isfile(name):
            with open(name, "wb") as file:
                yield file
            return
        folder, base = os.path.split(name)
        beside = os.path.join(folder, f".{base}.{os.getpid()}.part")
        part = os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb")
    except OSError as error:
        raise BadInput(f"{name}: cannot be written: {error.strerror or error}") from error
    try:
        with part:
            yield part
        os.replace(beside, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _limit(text: str) -> tuple[str, int]:
    import re

    name, _, count = text.partition(":")
    if not name or (count and not re.fullmatch(r"[1-9]\d*", count)) or (":" in text and not count):
        raise BadInput(f"--fail-on {text}: expected ID, ID:N or any[:N]")
    return name, int(count or 1)


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    import re

    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise BadInput(f"--shard {text}: expected I/N with 1 <= I <= N")
    return int(match[1]), int(match[2])


_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def _since(text: str | None) -> float | None:
    """Seconds since the epoch. An age counts from the start of today (UTC), so that the shards of one scan agree."""
    if text is None:
        return None
    import re
    from datetime import UTC, datetime

    match = re.fullmatch(r"(\d+)([hdw])", text)
    try:
        if match:
            now = time.time()
            if match[2] == "h":
                return now - now % 3600 - int(match[1]) * 3600
            return now - now % 86400 - int(match[1]) * _UNITS[match[2]]
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadInput(f"--since {text}: expected a date (2026-11-03) or an age (7d, 12h, 2w)") from error


def _tilde(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
