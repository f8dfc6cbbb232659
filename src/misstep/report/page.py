"""The report as one HTML file that needs nothing else: no request leaves it, and no text of a transcript becomes markup.

Everything from transcripts is in one block of JSON, from which the page's own script makes text nodes. The content
security policy allows that script and that style sheet by their hashes, and nothing besides.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib import resources
from typing import IO, TYPE_CHECKING, Any

import jinja2

import misstep as package

from .console import printable
from .words import agent_name, count, fault, percent, period, points, reason

if TYPE_CHECKING:
    from misstep.scan.result import Result
    from misstep.scan.summary import Summary, Tally

SURROUNDINGS = 24 << 20
"""Bytes of surroundings that a page holds; occurrences beyond it are listed without them."""
ROWS = 20_000
"""Sessions without an occurrence that a page lists one by one; the others are summed up by agent, outcome and day."""
_MARK = "\x00rows\x00"


def write(out: IO[bytes], result: Result, summary: Summary, by_path: bool = False) -> None:
    """Write the page. Its commands name sessions by their id, or by their path."""
    head, tail = _frame(summary).split(_MARK)
    out.write(head.encode())
    ids = [t.id for t in summary.sorted()]
    left: dict[str, Any] = {"rows": 0, "surroundings": 0, "groups": {}}
    for number, row in enumerate(_rows(result, summary, ids, left)):
        if by_path:
            row["ref"] = row["path"] + (f"::{row['n']}" if row["n"] else "")
        out.write((b",\n" if number else b"\n") + _json(row))
    out.write(b'\n],"left":' + _json({**left, "groups": list(left["groups"].values())}) + tail.encode())


def _frame(summary: Summary) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("misstep.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    files = resources.files("misstep.report") / "templates"
    style = files.joinpath("page.css").read_text(encoding="utf-8")
    script = files.joinpath("page.js").read_text(encoding="utf-8")
    from markupsafe import Markup

    facts = _facts(summary)
    # What the page shows goes in as JSON up to the rows, which are written one by one.
    opening = _json({"facts": facts, "missteps": [_misstep(t, summary) for t in summary.sorted()]}).decode()[:-1]
    return environment.get_template("page.html.j2").render(
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        facts=facts,
        tallies=[t for t in summary.sorted() if t.sessions],
        percent=percent,
        sessions=summary.sessions,
        data=Markup(f'{opening},"sessions":[{_MARK}}}'),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(value: Any) -> bytes:
    """JSON that is safe inside a script element: it cannot end it, and starts no comment."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode("ascii")


def _facts(summary: Summary) -> dict[str, Any]:
    return {
        "version": package.__version__,
        "sessions": summary.sessions,
        "subagents": summary.subagents,
        "affected": summary.affected,
        "steps": summary.steps,
        "calls": summary.calls,
        "period": period(summary.first, summary.last),
        "agents": {name: agent_name(name) for name in sorted(summary.agents)},
        "outcomes": dict(summary.outcomes),
        "policies": [
            {"id": name, **policy}
            for name, policy in sorted(
                summary.policies.items(), key=lambda p: (-p[1]["sessions"], -p[1]["times"], p[0])
            )
        ],
        "left_out": _left_out(summary),
    }


def _left_out(summary: Summary) -> list[list[str]]:
    """What was not counted: [how many, why]."""
    found: list[list[str]] = []
    if summary.copies:
        found.append(
            [count(summary.copies, "copy", "copies"), "of sessions that stand in several files: the longest counts"]
        )
    for name, n in sorted(summary.faults.items()):
        found.append([count(n, "attempt"), "the agent never ran" if name == "never-ran" else f"broken by {name}"])
    if summary.empty:
        found.append([count(summary.empty, "session"), "without a step of the agent"])
    found += [[count(n, "session"), f"left out: {printable(name)}"] for name, n in sorted(summary.filtered.items())]
    for counted, what, note in (
        (summary.unread, "file", ""),
        (summary.partial, "file", " (read in part)"),
        (summary.skipped, "record", ""),
    ):
        ranked = sorted(counted.items(), key=lambda kv: (-kv[1], kv[0]))[:100]
        found += [[count(n, what), printable(reason(why)) + note] for why, n in ranked]
    found += [[count(n, "session"), f"the detector of {name} failed"] for name, n in sorted(summary.errors.items())]
    return found


def _misstep(tally: Tally, summary: Summary) -> dict[str, Any]:
    found = summary.outcome(tally)
    return {
        "id": tally.id,
        "name": tally.info["name"],
        "status": tally.info["status"],
        "scoped": tally.info["scoped"],
        "doc": _doc(tally.id),
        "outcome": {**found, "text": _difference(found)},
    }


def _difference(found: dict[str, Any]) -> str:
    if not found["available"]:
        return str(found["reason"])
    return (
        f"{points(found['difference'])} points, 95 % interval {points(found['low'])} to {points(found['high'])}, "
        f"p = {found['p']:.3g}, over {count(found['tasks'], 'task')}" + (f". {found['note']}" if found["note"] else "")
    )


def _doc(name: str) -> dict[str, Any]:
    """Definition and policies, where this version knows the misstep (a merged result may be of another one)."""
    from misstep.catalogue import get

    from .pages import page_of, paragraphs

    try:
        misstep = get(name)
    except KeyError:
        return {"sections": [], "policies": []}
    return {
        "sections": [[heading, paragraphs(text)] for heading, text in page_of(misstep).sections.items()],
        "policies": [{"id": p.id, "action": p.action, "at": p.at, "text": p.text} for p in misstep.policies],
    }


def _rows(result: Result, summary: Summary, ids: list[str], left: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row a session that counts; `left` gets the numbers of what the page has no room for."""
    number = {name: n for n, name in enumerate(ids)}
    plain, used = 0, 0
    for record in result:
        if record["kind"] != "trajectory" or not _counts(record):
            continue
        row = _row(record, number)
        if record["occurrences"]:
            context = {step: _view(view) for step, view in record["context"].items()}
            used += len(json.dumps(context))
            if used <= SURROUNDINGS:
                row["context"] = context
            else:
                left["surroundings"] += 1
        else:
            plain += 1
            if plain > ROWS:
                left["rows"] += 1
                _group(left["groups"], row)
                continue
        yield row


def _group(groups: dict[tuple[Any, ...], dict[str, Any]], row: dict[str, Any]) -> None:
    """Add a session that the page does not list to the sums that its denominators need."""
    start, end = (None if row[name] is None else row[name] // 86400 * 86400 for name in ("start", "end"))
    key = (row["agent"], row["passed"], start, end)
    empty = {"agent": row["agent"], "passed": row["passed"], "start": start, "end": end}
    group = groups.setdefault(key, {**empty, "n": 0, "steps": 0, "counts": {}, "scope": {}})
    group["n"] += 1
    group["steps"] += row["steps"]
    for name, count_ in row["counts"].items():
        known = group["counts"].get(name, (0, 0, 0))
        group["counts"][name] = [a + b for a, b in zip(known, count_, strict=True)]
    for name in row["scope"]:
        group["scope"][name] = group["scope"].get(name, 0) + 1


def _counts(record: dict[str, Any]) -> bool:
    return bool("copy_of" not in record and not (record["outcome"] or {}).get("fault") and record["steps"])


def _row(record: dict[str, Any], number: dict[str, int]) -> dict[str, Any]:
    outcome = record["outcome"] or {}
    row = {
        "ref": printable(record["ref"]),
        "id": printable(record["id"]),
        "path": printable(record["path"]),
        "n": record["n"],
        "agent": record["agent"],
        "model": printable(record["model"]),
        "title": printable(record["title"]),
        "start": record["started"],
        "end": record["ended"],
        "length": record["length"],
        "steps": record["steps"],
        "calls": record["calls"],
        "passed": outcome.get("passed"),
        "task": printable(outcome.get("task") or ""),
        "counts": {number[name]: c for name, c in record["missteps"].items() if name in number},
        "scope": [number[name] for name in record["scope"] if name in number],
        "fired": [f["step"] for f in record["firings"]],
    }
    if record["occurrences"]:
        row["found"] = [
            {
                "m": number[o["misstep"]],
                "step": o["step"],
                "call": o["call"],
                "why": printable(o["why"]),
                "command": printable(o["command"]),
                "also": o["also"],
            }
            for o in record["occurrences"]
            if o["misstep"] in number
        ]
    return row


def _view(view: dict[str, Any]) -> dict[str, Any]:
    """A step's view with nothing in it that a browser or terminal would act on."""
    shown = {**view, "text": printable(view["text"])}
    if "calls" in view:
        shown["calls"] = [
            {k: printable(v) if isinstance(v, str) else v for k, v in call.items()} for call in view["calls"]
        ]
        for call in shown["calls"]:
            if call.get("fault"):
                call["fault"] = fault(call["fault"], call.get("output", ""))
    return shown
