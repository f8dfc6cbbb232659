"""A session in the terminal: an outline of its steps, or one step with those around it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from misstep.catalogue import Misstep, missteps
from misstep.scan.record import cut, describe, ends, record_of, said
from misstep.shell import Effect
from misstep.trajectory import Call, Result, Step, Trajectory

from .console import one_line, printable
from .words import agent_name, count, fault, period, program, quoted

_WHO = {"user": "person", "agent": "agent", "system": "system"}


def show(
    out: Console, trajectory: Trajectory, step: int | None, before: int, after: int, room: int, asked: str = ""
) -> None:
    """Print the session; with a step, that one in full (texts up to `room` characters) between its neighbours.

    `asked` is how the session was named, for the command that is proposed."""
    judged = [m for m in missteps() if m.status != "retired"]
    record = record_of(trajectory, judged)
    marks: dict[int, list[dict]] = {}
    for occurrence in record["occurrences"]:
        marks.setdefault(occurrence["step"], []).append(occurrence)
    _head(out, trajectory, record)
    if step is None:
        for number in range(len(trajectory.steps)):
            _outline(out, trajectory.steps[number], number, marks.get(number, []))
        if marks:
            first = min(marks)
            command = f"{program()} show {quoted(asked or trajectory.path)}#{first}"
            out.print(
                Text.assemble(("\n  " + command, "command"), ("   opens the first of the marked steps", "quiet")),
                soft_wrap=True,
            )
        out.print()
        return
    names = {m.id: m for m in judged}
    for number in range(max(0, step - before), min(len(trajectory.steps), step + after + 1)):
        here = number == step
        _step(out, trajectory.steps[number], number, marks.get(number, []), names, room if here else 360, here)
    fired = [f for f in record["firings"] if f["step"] == step]
    for firing in fired:
        out.print(Text(f"\n  The policy {firing['policy']} would have stepped in here ({firing['action']}).", "unsure"))
    out.print()


def _head(out: Console, trajectory: Trajectory, record: dict) -> None:
    out.print()
    out.print(Text.assemble("  ", (one_line(trajectory.id, out.width - 4), "bold")))
    who = " ".join(x for x in (agent_name(trajectory.agent), trajectory.agent_version, trajectory.model) if x)
    steps = f"{count(record['steps'], 'agent step')} of {count(len(trajectory.steps), 'step')}"
    facts = [who, steps, count(record["calls"], "call")]
    when = period(record["started"], record["ended"])
    out.print(Text("  " + one_line(" · ".join([*facts, *([when] if when else [])]), out.width - 4), "quiet"))
    out.print(Text("  " + one_line(trajectory.path, 400), "quiet"), soft_wrap=True)
    outcome = trajectory.outcome
    if outcome is not None and (outcome.task or outcome.passed is not None or outcome.fault):
        result = {True: "passed", False: "failed", None: "outcome not recorded"}[outcome.passed]
        parts = [outcome.task, outcome.fault or result, outcome.exception]
        out.print(Text("  " + one_line(" · ".join(p for p in parts if p), out.width - 4), "quiet"))
    found = sum(wrong for _, wrong, _ in record["missteps"].values())
    out.print(Text(f"  {count(found, 'misstep')} found", "wrong" if found else "right"))
    out.print()


def _outline(out: Console, step: Step, number: int, marks: Sequence[dict]) -> None:
    """The step on one line, and one more for each call beyond the first."""
    flag = "✗" if marks else " "
    lead = f"  {flag} {number:>4}  "
    lines: list[tuple[str, str]] = []
    if said(step):
        lines.append((f"{_WHO.get(step.source, step.source):<7} ", said(step)))
    lines += [(f"{_code(step.results.get(call.id)):<7} ", describe(call)) for call in step.calls]
    if not lines:
        lines = [(f"{_WHO.get(step.source, step.source):<7} ", _flags(step))]
    for at, (label, words) in enumerate(lines):
        text = Text(lead if at == 0 else " " * len(lead), "wrong" if marks else "quiet")
        text.append(label, "quiet")
        text.append(one_line(cut(words, 400), out.width - len(lead) - len(label) - 1), "bold" if step.prompt else "")
        out.print(text, soft_wrap=True)
    for mark in marks:
        out.print(
            Text(f"{' ' * len(lead)}{mark['misstep']}: {one_line(mark['why'], out.width - len(lead) - 30)}", "wrong")
        )


def _step(
    out: Console,
    step: Step,
    number: int,
    marks: Sequence[dict],
    names: dict[str, Misstep],
    room: int,
    here: bool,
) -> None:
    when = datetime.fromtimestamp(step.time, UTC).strftime("  %Y-%m-%d %H:%M:%S") if step.time is not None else ""
    style = "wrong" if marks else "bold" if here else "quiet"
    title = f"── step {number}  {_WHO.get(step.source, step.source)}{when}{_flags(step)} "
    out.print(Text(f"  {title}{'─' * max(0, out.width - len(title) - 4)}", style))
    for mark in marks:
        misstep = names[mark["misstep"]]
        preview = " (preview)" if misstep.status == "preview" else ""
        out.print(Text(f"  ✗ The agent {misstep.name}{preview}.", "wrong"))
        _block(out, mark["why"], "wrong", 4)
        if mark["also"]:
            out.print(Text(f"    see also step {', '.join(map(str, mark['also']))}", "quiet"))
    if said(step):
        _block(out, cut(said(step), room), "", 2)
    for at, call in enumerate(step.calls):
        _call(out, call, step.results.get(call.id), room, here, any(m["call"] == at for m in marks))
    out.print()


def _call(out: Console, call: Call, result: Result | None, room: int, effects: bool, marked: bool) -> None:
    lead = "$" if call.command is not None else call.tool
    wait = "  (in the background)" if call.background else ""
    _block(out, f"{lead} {cut(describe(call), room)}{wait}", "wrong" if marked else "command", 2)
    if effects:
        for effect in call.effects:
            _block(out, "→ " + effect_line(effect), "quiet", 4)
        if call.script is not None and call.script.damage:
            _block(out, f"cannot be read in full: {call.script.damage}", "unsure", 4)
    if result is None:
        out.print(Text("    no result recorded", "unsure"))
        return
    if result.output.strip():
        _block(out, ends(result.output, room), "quiet", 4, bar=True)
    code = _code(result)
    notes = [code] if code not in ("ok", "?") else []
    notes += [
        word for word, on in (("output cut by the harness", result.truncated), ("still running", result.running)) if on
    ]
    if notes:
        out.print(Text("    " + ", ".join(notes), "unsure"))


def _code(result: Result | None) -> str:
    if result is None:
        return "?"
    if result.fault:
        return fault(result.fault, result.output)
    if result.exit_code is not None:
        return f"exit {result.exit_code}" if result.exit_code else "ok"
    return {True: "failed", False: "ok", None: "?"}[result.failed]


def _flags(step: Step) -> str:
    flags = [name for name in ("interrupted", "compacted", "copied") if getattr(step, name)]
    return f"  ({', '.join(flags)})" if flags else ""


def effect_line(effect: Effect) -> str:
    """What a command does, in words: 'reads notes, through head', 'starts a server on port 80, in the background'."""
    what = _DOES.get(effect.kind, effect.kind) if effect.paths or effect.kind != "search" else "searches"
    info = {k: v for k, v in effect.info.items() if v not in (None, "", (), False)}
    words = " ".join([what, *effect.paths])
    more = [_INFO[key](value) if key in _INFO else "" for key, value in info.items()]
    return ", ".join([words, *[one for one in more if one]])


_DOES = {
    "serve": "starts a service",
    "probe": "talks to a service",
    "database": "opens the database",
    "copy": "copies",
    "move": "moves",
    "write": "writes",
    "read": "reads",
    "search": "looks at",
    "compare": "compares",
    "delete": "deletes",
    "format": "formats",
    "compile": "builds",
    "test": "runs tests",
    "lint": "checks the code",
    "run": "runs a program",
    "install": "installs",
    "kill": "ends processes",
    "sleep": "waits",
    "vcs": "changes the repository",
    "interactive": "waits for a person",
    "endless": "never ends by itself",
    "download": "downloads",
    "mask": "hides a failure",
}
_TO = {"tty": "shown", "pipe": "into a pipe", "file": "into a file", "program": "into a program"}
_HOW = {
    "or-true": "with || true",
    "discard-stderr": "drops what it says of errors",
    "discard-all": "drops all that it says",
    "set+e": "with set +e",
}


def _when(text: str) -> Callable[[Any], str]:
    """Says the text where the value holds."""
    return lambda value: text if value is True else ""


def _with(text: str) -> Callable[[Any], str]:
    """Says the text with the value in it."""
    return lambda value: text.format(" ".join(map(str, value)) if isinstance(value, (tuple, list)) else value)


_INFO: dict[str, Callable[[Any], str]] = {
    "background": _when("in the background"),
    "redirected": _when("its output goes to a file"),
    "bounded": _when("with a time limit"),
    "local": _when("on this machine"),
    "append": _when("adding to the end"),
    "in_place": _when("in place"),
    "unpacks": _when("unpacking an archive there"),
    "partial": _when("in part"),
    "recursive": _when("with all below"),
    "inline": _when("given in the command"),
    "destructive": _when("what it discards is lost"),
    "amend": _when("amending the last commit"),
    "no_verify": _when("without its hooks"),
    "in_loop": _when("in a loop"),
    "mutates": _when("may change it"),
    "own_session": lambda v: {"yes": "in a session of its own", "hangup-proof only": "safe from a hangup"}.get(v, ""),
    "to": lambda v: _TO.get(v, "") if v != "tty" else "",
    "how": lambda v: _HOW.get(v, f"by {v}"),
    "through": _with("through {}"),
    "launcher": _with("by {}"),
    "port": _with("on port {}"),
    "target": _with("at {}"),
    "dest": _with("to {}"),
    "pattern": _with("for {}"),
    "engine": _with("of {}"),
    "tool": _with("with {}"),
    "runner": _with("with {}"),
    "output": _with("into {}"),
    "module": _with("the module {}"),
    "manager": _with("with {}"),
    "packages": _with("{}"),
    "seconds": _with("{} s"),
    "verb": _with("{}"),
    "remote": _with("at {}"),
    "folder": _with("in {}"),
    "why": _with("{}"),
    "url": _with("{}"),
    "cwd": _with("in {}"),
}
"""What is said of each field of an effect; of the others nothing that a person could use is known."""


def _block(out: Console, text: str, style: str, indent: int, bar: bool = False) -> None:
    """A text of several lines, wrapped; control characters made visible."""
    pad = " " * indent + ("│ " if bar else "")
    for line in printable(text).expandtabs(4).split("\n"):
        for part in textwrap.wrap(line, out.width - len(pad) - 1, replace_whitespace=False, drop_whitespace=False) or [
            ""
        ]:
            out.print(Text(pad + part, style), soft_wrap=True)
