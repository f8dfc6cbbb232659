"""What `misstep scan` does: from its arguments to the exit code. Loads neither click nor anything that it may not need."""

# ruff: noqa: PTH111
# (pathlib takes as long to load as a tenth of a second scan)
from __future__ import annotations

import contextlib
import os
import sys
import time

from misstep.scan.output import check, is_stdout, output, unwritable
from misstep.scan.result import BadInput
from misstep.scan.run import READER_FAILED, Options, agent_id, scan

from . import GONE, Ended, debugging, one_line, silence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from misstep.scan.index import Index
    from misstep.scan.result import Result
    from misstep.scan.sources import Place
    from misstep.scan.summary import Summary


def run(**request: Any) -> int:
    """Run a scan with the arguments of `_run`; the exit code. Bad input is one line on standard error, and 2."""
    try:
        with _ending():
            return _run(**request)
    except BadInput as error:
        if debugging():
            raise
        print(f"misstep: {one_line(str(error))}", file=sys.stderr)
        return 2


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Let SIGTERM and SIGHUP clean up as an interruption does: worker processes, files that are not complete."""
    import signal
    import threading

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise Ended(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # One that is ignored (nohup) stays so.
    taken = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


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
    workers: str | None = None,
    shard: str | None = None,
    merge: bool = False,
    no_index: bool = False,
    quiet: bool = False,
) -> int:
    limits = dict(_limit(text) for text in fail_on)
    options = Options(
        paths=list(paths),
        workers=_workers(workers),
        shard=_shard(shard),
        since=_since(since),
        agents=[agent_id(name) for name in agents],
        missteps=ids,
        also=tuple(name for name in limits if name != "any"),
        preview=preview,
        strict=debugging(),
    )
    _check(options, merge, html_path, json_path)
    targets = (("--html", html_path), ("--json", json_path))
    check(targets, options.paths)
    silent = quiet or any(is_stdout(name) for _, name in targets)
    with output(json_path) as json_file, output(html_path) as html_file:
        places: list[Place] = []
        indexed = False
        if merge:
            from misstep.scan.result import merge as merge_shards

            result = merge_shards(paths)
        else:
            places = _places(options, silent)
            check(targets, options.paths)
            result, indexed = _scan(options, no_index, progress=not quiet and sys.stderr.isatty())
        summary = _write(result, (json_path, json_file), (html_path, html_file), not indexed)
        recent = bool(summary.sessions or shard) or not result.filtered["since"]
        if not summary.sessions and not shard and recent:
            _nothing(result, summary, options, places, merge)
    if not recent:  # nothing went wrong, and nothing was to be found
        if not silent:
            older = "; ".join(f"{n} left out: {name}" for name, n in sorted(result.filtered.items()))
            print(f"no session since {since} ({older})")
        return _fail(summary, limits)
    told = 0
    if not silent:
        try:
            _tell(result, summary, shard, json_path, html_path, places, not indexed)
            sys.stdout.flush()
        except BrokenPipeError:  # `misstep scan | head`: what is found still decides the exit code
            silence(sys.stdout)
            told = GONE
    return _fail(summary, limits) or told


def _scan(options: Options, no_index: bool, progress: bool) -> tuple[Result, bool]:
    """The result, and whether `misstep show` will know its sessions by their ids."""
    with _index(no_index) as index, _progress(progress) as watch:
        result = scan(options, index, watch)
        return result, index is not None and not index.problem


def _write(result: Result, json: tuple[str | None, Any], html: tuple[str | None, Any], by_path: bool) -> Summary:
    """Write the files: (name, what it is written to or None)."""
    from misstep.scan.summary import summarise

    summary = summarise(result, result.header["missteps"])
    summary.units, summary.filtered = result.units, dict(result.filtered)
    name = ""
    try:
        if json[1] is not None:
            name = json[0] or ""
            result.write(json[1], None if result.header.get("shard") else summary.to_json())
            json[1].flush()
        if html[1] is not None:
            from misstep.report.page import write

            name = html[0] or ""
            write(html[1], result, summary, by_path)
            html[1].flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if is_stdout(name):  # what is left in its buffer cannot be written either
            silence(sys.stdout)
        raise unwritable(name, error) from error
    return summary


def _tell(
    result: Result,
    summary: Summary,
    shard: str | None,
    json_path: str | None,
    html_path: str | None,
    places: list[Place],
    by_path: bool,
) -> None:
    if shard:
        print(f"shard {shard}: {result.units} units, {summary.sessions} sessions, written to {json_path}")
        return
    from misstep.report.console import console
    from misstep.report.terminal import show
    from misstep.report.words import called

    called(sys.argv[0])
    written = [name for name in (html_path, json_path) if name]
    show(console(), summary, places, written, _asked(), by_path)


def _asked() -> str:
    """The arguments of this scan, as a shell reads them, without an --html."""
    import shlex

    words, kept = iter(sys.argv[2:]), []
    for word in words:
        if word == "--html":
            next(words, None)
        elif not word.startswith("--html="):
            kept.append(word)
    return shlex.join(kept)


def _check(options: Options, merge: bool, html_path: str | None, json_path: str | None) -> None:
    """What does not go together."""
    if options.shard and merge:
        raise BadInput("--shard does not go with --merge: scan each shard first, then merge what they wrote")
    if options.shard and html_path:
        raise BadInput("--shard does not go with --html: merge the shards first")
    if options.shard and not json_path:
        raise BadInput("--shard needs --json FILE: the part that --merge adds up")
    if "" in options.paths:
        raise BadInput("a path is empty: name a file or folder")
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
    from misstep.scan.sources import looked, places

    found = places()
    if not found:
        known = ", ".join(_tilde(str(path)) for path in looked())
        raise BadInput(f"no sessions found where the known agents keep them ({known}): name a file or folder")
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
    """1 where a limit is reached, 3 where that cannot be told through a fault of misstep's own, else 0."""
    reached = []
    untold = set()
    for name, limit in limits.items():
        count = sum(t.occurrences for t in summary.tallies.values() if name in ("any", t.id))
        if count >= limit:
            reached.append(f"{name}: {count} occurrence{'s' * (count != 1)} (limit {limit})")
        else:
            untold |= {
                f"the detector of {one} failed on {n} session{'s' * (n != 1)}"
                for one, n in summary.errors.items()
                if name in ("any", one)
            }
            untold |= {
                f"{n} file{'s' * (n != 1)} not read: {why}"
                for why, n in (summary.unread + summary.partial).items()
                if why.startswith(READER_FAILED)
            }
    for line in reached:
        print(f"misstep: failed on {line}", file=sys.stderr)
    if untold and not reached:
        text = one_line("; ".join(sorted(untold)))
        print(f"misstep: --fail-on cannot be told: {text} (--debug --no-index shows where)", file=sys.stderr)
        return 3
    return 1 if reached else 0


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
    drawn = time.monotonic()
    shown: Any = None

    def watch(done: int, total: int) -> None:
        nonlocal shown, drawn
        now = time.monotonic()
        if shown is None and now - drawn > 0.3 and done < total:
            from misstep.report.console import progress

            shown = progress()
            shown.start()
            shown.add_task("reading sessions", total=total)
        if shown is not None:
            shown.update(shown.task_ids[0], completed=done)
            if now - drawn > 0.1:
                shown.refresh()
                drawn = now

    try:
        yield watch
    finally:
        if shown is not None:
            shown.stop()


def _limit(text: str) -> tuple[str, int]:
    import re

    name, _, count = text.partition(":")
    if not name or (count and not re.fullmatch(r"[1-9]\d*", count)) or (":" in text and not count):
        raise BadInput(f"--fail-on {text}: expected ID, ID:N or any[:N]")
    return name, int(count or 1)


def _workers(text: str | None) -> int:
    """Processes; 0: one a core."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10_000):
        raise BadInput(f"--workers {text}: expected a number of processes, from 1")
    return int(text)


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
