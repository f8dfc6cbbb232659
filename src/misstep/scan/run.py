"""A scan: find the units, read what is not known yet, filter, and gather the records."""

from __future__ import annotations

import json
import os

import misstep

from .encode import encode
from .result import SCHEMA, BadInput, Result
from .units import Unit, find, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .index import Index
    from .read import Found
    from .result import Header

    Watch = Callable[[int, int], None]
    """Told (units done, units in all) as a scan goes on."""


READER_FAILED = "the reader failed"
"""How the reason begins where a unit could not be read through a fault of ours."""


AGENTS = (
    "claude-code",
    "codex",
    "copilot-cli",
    "gemini-cli",
    "mini-swe-agent",
    "opencode",
    "openhands",
    "qwen-code",
    "swe-agent",
    "terminus-2",
)
"""Agents whose sessions are told by their format. In formats that name the agent, there may be any other."""


def agent_id(name: str) -> str:
    """An agent's name for comparing: as it is displayed ("Claude Code") or as it is recorded ("claude-code")."""
    return "-".join(name.lower().split())


class Options:
    """What to scan and what to keep of it."""

    def __init__(
        self,
        paths: Iterable[str],
        *,
        workers: int = 0,
        shard: tuple[int, int] | None = None,
        since: float | None = None,
        agents: Iterable[str] = (),
        missteps: Iterable[str] = (),
        also: Iterable[str] = (),
        preview: bool = False,
        strict: bool = False,
    ) -> None:
        self.paths = list(paths)
        self.workers = workers
        """Processes; 0: one a core."""
        self.shard = shard
        self.since = since
        """Keep trajectories that ended at or after this time, seconds since the epoch."""
        self.agents = tuple(sorted(set(agents)))
        """Keep trajectories of agents whose `agent_id` starts so. Empty: all."""
        self.missteps = tuple(sorted(set(missteps)))
        """Judge by these alone, previews among them. Empty: all stable ones."""
        self.also = tuple(also)
        """Judge by these too, whatever their status."""
        self.preview = preview
        self.strict = strict
        """Raise what a reader or a detector raises."""

    @property
    def filters(self) -> dict[str, Any]:
        """Those that are set, for the header."""
        named = {"since": self.since, "agents": list(self.agents), "missteps": list(self.missteps)}
        return {name: value for name, value in named.items() if value}


def describe_catalogue() -> dict[str, Any]:
    """What a result must know of each misstep, by id."""
    from misstep.catalogue import missteps

    return {
        m.id: {
            "name": m.name,
            "status": m.status,
            "scoped": m.scoped,
            "policies": {p.id: {"at": p.at, "action": p.action} for p in m.policies},
        }
        for m in missteps()
        if m.status != "retired"
    }


def known_missteps(index: Index | None) -> dict[str, Any]:
    """The same, from the index where it is known there: loading every detector takes as long as a second scan."""
    known = index.info() if index is not None else None
    if known is None:
        known = describe_catalogue()
        if index is not None:
            index.keep_info(known)
    return known


def choose(
    known: dict[str, Any], wanted: Iterable[str], preview: bool = False, also: Iterable[str] = ()
) -> dict[str, Any]:
    """The missteps to count. Raises BadInput for an id that does not exist."""
    wanted, more = set(wanted), set(also)
    for name in sorted(wanted | more):
        if name not in known:
            raise BadInput(f"no misstep {name!r}{_nearest(name, known)}")
    return {
        name: m
        for name, m in known.items()
        if name in wanted or name in more or (not wanted and (preview or m["status"] == "stable"))
    }


def _nearest(id: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(id, list(known), 1, 0.5)
    return f": did you mean {close[0]!r}?" if close else " (`misstep catalogue` lists them)"


def scan(options: Options, index: Index | None = None, watch: Watch | None = None) -> Result:
    """Read all units below the paths. Raises BadInput for what the request gets wrong, never for what a file holds."""
    for path in options.paths:
        if not os.path.lexists(path):
            raise BadInput(f"{path}: no such file or folder")
    chosen = choose(known_missteps(index), options.missteps, options.preview, options.also)
    result = Result(_header(options, chosen))
    units = list(find(options.paths, options.shard, index))
    result.units = len(units)
    for done, (unit, found) in enumerate(_found(units, options, index), 1):
        for record in _filled(unit, found):
            _take(result, record, options, chosen)
        if watch is not None:
            watch(done, len(units))
    _known_agents(options, result)
    return result


def _known_agents(options: Options, result: Result) -> None:
    """Refuse an agent that neither exists nor was seen. (Another shard may have seen it.)"""
    known = sorted({*AGENTS, *result.agents} - {""})
    for name in () if options.shard else options.agents:
        if not name or not any(agent_id(one).startswith(name) for one in known):
            raise BadInput(f"--agent {name}: no such agent: known are {', '.join(known[:40])}")


def _header(options: Options, chosen: dict[str, Any]) -> Header:
    return {
        "kind": "header",
        "schema": SCHEMA,
        "misstep": misstep.__version__,
        "missteps": chosen,
        "filters": options.filters,
        "shard": list(options.shard) if options.shard else None,
    }


def _found(units: list[Unit], options: Options, index: Index | None) -> Iterator[tuple[Unit, Found]]:
    """What each unit gave: from the index where it is known there, else read now."""
    if index is None:
        yield from _read(units, options)
        return
    unknown: list[Unit] = []
    for unit in units:
        kept = index.get(unit.path, unit.state)
        if kept is not None:
            yield unit, json.loads(kept)
        else:
            unknown.append(unit)
    for unit, found in _read(unknown, options):
        # A file that grew while it was read is not what its state says: it is read again next time.
        if state_of(unit.path) == unit.state and _lasting(found):
            index.put(
                unit.path,
                unit.state,
                encode(found),
                [(r["id"], r["n"], r["length"]) for r in found["records"]],
            )
        yield unit, found
    index.flush()


def _read(units: list[Unit], options: Options) -> Iterator[tuple[Unit, Found]]:
    if not units:
        return
    # Loads every reader and detector: not for a scan that finds all in the index.
    from .read import read_all

    yield from read_all(units, options.workers or _cores(), options.strict)


def _lasting(found: Found) -> bool:
    """Whether reading it again would give the same: a permission or the memory may be there next time."""
    reason = found["reason"] or ""
    return bool(found["records"]) or not ("ermission" in reason or "memory" in reason)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _filled(unit: Unit, found: Found) -> Iterator[dict[str, Any]]:
    """The records of a unit with their full paths, and one for what could not be read."""
    for record in found["records"]:
        below = record["path"]
        # Paths are texts here: they are shown and written as they were given.
        record["path"] = f"{unit.path}{os.sep}{below}" if below and not os.path.isabs(below) else below or unit.path  # noqa: PTH117
        yield record
    if found["reason"]:
        yield {"kind": "skipped", "path": unit.path, "reason": found["reason"], "partial": bool(found["records"])}


def _take(result: Result, record: dict[str, Any], options: Options, chosen: dict[str, Any]) -> None:
    if record["kind"] == "trajectory":
        result.agents.add(record["agent"])
        if options.agents and not agent_id(record["agent"]).startswith(options.agents):
            result.filtered["agent"] += 1
            return
        if options.since is not None:
            if record["ended"] is None:
                result.filtered["time not recorded"] += 1
                return
            if record["ended"] < options.since:
                result.filtered["since"] += 1
                return
        only(record, chosen)
    result.add(record)


def only(record: dict[str, Any], chosen: Iterable[str]) -> None:
    """Leave in a record only what concerns the chosen missteps."""
    from .around import around

    keep = set(chosen)
    if all(one in keep for name in ("missteps", "scope", "errors") for one in record[name]) and all(
        f["misstep"] in keep for f in record["firings"]
    ):
        return
    for name in ("missteps", "scope", "errors"):
        record[name] = {one: value for one, value in record[name].items() if one in keep}
    record["firings"] = [f for f in record["firings"] if f["misstep"] in keep]
    record["occurrences"] = [o for o in record["occurrences"] if o["misstep"] in keep]
    steps = {str(n) for o in record["occurrences"] for n in around(o, record["length"])}
    record["context"] = {n: view for n, view in record["context"].items() if n in steps}
