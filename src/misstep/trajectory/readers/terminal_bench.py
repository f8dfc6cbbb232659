"""Terminal-Bench v1 run folders: a trial folder, or a run's `results.json` where its trials have no folders.

A trial folder is `results.json` (the outcome), `sessions/agent.log` or `agent.cast` (the recorded terminal),
`commands.txt` (what was typed into it: a Python list a line) and `panes/post-agent.txt` (the screen when the agent
ended). Steps come from session files under `agent-logs/`, from mini-swe-agent's printed steps, or from the
keystrokes of an agent that types into the terminal; a trial without any of these has an outcome and no steps. That is
so for agents that act past the terminal (nothing is typed into it) and for OpenHands, which does not print its actions.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Outcome, Trajectory
from . import _terminal_bench_log as log
from . import _terminal_bench_openhands as openhands_log
from ._fields import between, mapping, metrics, objects, seconds, string
from .source import Source

FORMAT = "terminal-bench"

_MAX_FILE = 64 << 20
_RUN_FILES = ("run_metadata.json", "tb.lock")
_MODULE = re.compile(r"(?:^|\s)-m\s+([\w.]+)")
_INFRASTRUCTURE = ("test_timeout", "parse_error", "agent_installation_failed", "unknown_agent_error", "unknown")
"""failure_mode of a trial without a verdict: the verifier or the harness failed, not the agent."""


def _is_trial(document: dict[str, Any]) -> bool:
    return "is_resolved" in document and isinstance(document.get("trial_name"), str) and "task_id" in document


def _is_run(document: dict[str, Any]) -> bool:
    rows = objects(document.get("results"))
    return bool(rows) and all(_is_trial(row) for row in rows[:5])


def matches(source: Source) -> bool:
    """A run's or a trial's results.json."""
    if b'"is_resolved"' not in source.edges:
        return False
    document = mapping(source.document)
    return _is_trial(document) or _is_run(document)


def matches_folder(folder: Path, names: frozenset[str]) -> bool:
    """A folder whose results.json is that of one trial."""
    return "results.json" in names and _is_trial(_document(folder / "results.json"))


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory a trial (several where the agent left several session files)."""
    if source.path.is_dir():
        yield from _trial(source.path, _document(source.path / "results.json"), source)
        return
    document = mapping(source.document)
    if _is_trial(document):
        yield from _trial(source.path.parent, document, source)
        return
    folder = source.path.parent
    if _is_copy(folder, Path(source.path.name), _id(document)):
        source.skipped["copy of a run that has its own folder"] += 1
        return
    run = _run_of(folder)
    own_folder = 0
    for row in objects(document.get("results")):
        task, name = string(row.get("task_id")), string(row.get("trial_name"))
        if not _is_trial(row):
            source.skipped["not a trial"] += 1
        elif (folder / task / name / "results.json").is_file():
            own_folder += 1
        else:
            trajectory = Trajectory(
                _id(row), FORMAT, string(run.get("agent_name")), model=string(run.get("model_name"))
            )
            trajectory.outcome = _outcome(row, run)
            trajectory.path = f"{source.path}#{name}"
            yield trajectory
    if own_folder:
        source.skipped["trial read from its own folder"] += own_folder


def _id(row: dict[str, Any]) -> str:
    return string(row.get("id")) or string(row.get("uuid")) or string(row.get("trial_name"))


def _trial(folder: Path, row: dict[str, Any], source: Source) -> Iterator[Trajectory]:
    if _is_copy(folder.parent.parent, Path(folder.parent.name, folder.name, "results.json"), _id(row)):
        source.skipped["copy of a trial that is in another run's folder"] += 1
        return
    run = _run_of(folder.parent.parent)
    typed = _typed(folder / "commands.txt")
    agent = string(run.get("agent_name")) or _agent_of(typed)
    outcome = _outcome(row, run)
    found = [t for t in _sessions(folder / "agent-logs", source) if t.steps]
    if not found:
        raw = _terminal(folder / "sessions")
        trajectory = Trajectory(_id(row), FORMAT, agent, model=string(run.get("model_name")))
        prompt = string(row.get("instruction"))
        start = seconds(row.get("agent_started_at"))
        if log.has_mini_steps(raw):
            trajectory.agent = agent or "mini-swe-agent"
            log.mini_steps(trajectory, raw, prompt, start)
        elif not _installed(typed):
            log.episode_steps(trajectory, folder / "agent-logs", prompt, start)
            if not trajectory.steps:
                log.typed_steps(trajectory, _by_agent(typed), raw, prompt, start)
        if not trajectory.steps and (
            _never_ran(folder, typed) or (_is_openhands(typed) and openhands_log.never_acted(raw))
        ):
            outcome.fault = "never-ran"
        found = [trajectory]
    elif _never_ran(folder, typed) and not any(step.source == "agent" for t in found for step in t.steps):
        outcome.fault = "never-ran"
    for at, trajectory in enumerate(found):
        trajectory.id = _id(row) if at == 0 else f"{_id(row)}.{at}"
        trajectory.outcome = outcome if not trajectory.parent else None
        trajectory.model = trajectory.model or string(run.get("model_name"))
        trajectory.path = str(folder)
        yield trajectory


def _outcome(row: dict[str, Any], run: dict[str, Any]) -> Outcome:
    resolved, mode = row.get("is_resolved"), string(row.get("failure_mode"))
    passed = resolved if isinstance(resolved, bool) else None
    task = string(row.get("task_id"))
    instruction = string(row.get("instruction"))
    if instruction:
        task += "@" + hashlib.sha256(instruction.encode("utf-8", "replace")).hexdigest()[:12]
    fault = None
    if mode == "agent_installation_failed":
        fault = "never-ran"
    elif passed is None and mode in _INFRASTRUCTURE:
        fault = "infrastructure"
    tokens = metrics(prompt_tokens=row.get("total_input_tokens"), completion_tokens=row.get("total_output_tokens"))
    extra = {
        "failure_mode": mode,
        "tests": mapping(row.get("parser_results")),
        "run": string(run.get("run_id")),
        **tokens,
    }
    return Outcome(
        passed=passed,
        reward=None if passed is None else float(passed),
        task=task,
        attempt=string(row.get("trial_name")),
        fault=fault,
        exception="" if mode in ("unset", "none") else mode,
        seconds=between(row.get("agent_started_at"), row.get("agent_ended_at"))
        or between(row.get("trial_started_at"), row.get("trial_ended_at")),
        extra=extra,
    )


def _is_copy(run: Path, below: Path, identity: str) -> bool:
    """Whether a results.json is a copy: its run folder lies inside another run's, and beside that one is the original."""
    outer = run.parent
    if not identity or not any((outer / name).is_file() for name in _RUN_FILES):
        return False
    return _id(_document(outer.parent / run.name / below)) == identity


def _run_of(folder: Path) -> dict[str, Any]:
    """agent_name, model_name, run_id of the run, from its metadata or lock."""
    for name in _RUN_FILES:
        found = _document(folder / name)
        agent = mapping(found.get("agent"))
        if found:
            return {
                "agent_name": found.get("agent_name") or agent.get("name"),
                "model_name": found.get("model_name") or agent.get("model_name"),
                "run_id": found.get("run_id") or folder.name,
            }
    return {}


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_FILE:
            return {}
        return mapping(json.loads(path.read_bytes().decode("utf-8", "replace")))
    except (OSError, ValueError, RecursionError):
        return {}


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_FILE:
            return ""
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _terminal(folder: Path) -> str:
    """What the terminal wrote: agent.log, else the output events of agent.cast (asciinema v2)."""
    raw = _text(folder / "agent.log")
    if raw.strip():
        return raw
    pieces = []
    for line in _text(folder / "agent.cast").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, list) and len(event) == 3 and event[1] == "o" and isinstance(event[2], str):
            pieces.append(event[2])
    return "".join(pieces)


def _typed(path: Path) -> list[list[str]]:
    """What was typed, a list of keys a line; lines that are no list of texts are left out."""
    found = []
    for line in _text(path).splitlines():
        try:
            keys = ast.literal_eval(line.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(keys, str):
            keys = [keys]
        if isinstance(keys, list) and keys and all(isinstance(key, str) for key in keys):
            found.append(keys)
    return found


def _by_agent(typed: list[list[str]]) -> list[list[str]]:
    """The keys typed between the harness's own: it starts the recording and clears the screen, later it starts the tests."""
    found: list[list[str]] = []
    for keys in typed:
        if keys[0].startswith("asciinema rec") and "tests.cast" in keys[0]:
            break
        if keys[0] == "bash " and len(keys) > 1 and "/tests/run-tests.sh" in keys[1]:
            break
        if not (keys[0].startswith("asciinema rec") or (keys == ["clear", "Enter"] and not found)):
            found.append(keys)
    return found


def _installed(typed: list[list[str]]) -> bool:
    return any("/installed-agent/" in key for keys in typed for key in keys)


def _launch(typed: list[list[str]]) -> str:
    """The command that the harness typed to start an installed agent."""
    mine = [keys[0] for keys in _by_agent(typed) if "/installed-agent/" not in keys[0]]
    return mine[-1] if mine and _installed(typed) else ""


def _agent_of(typed: list[list[str]]) -> str:
    if _is_openhands(typed):
        return "openhands"
    return "mini-swe-agent" if _launch(typed).startswith("mini ") else ""


def _is_openhands(typed: list[list[str]]) -> bool:
    launch = _launch(typed).split(" --task ", 1)[0]
    return "openhands.core.main" in launch or launch.split(" ", 1)[0] == "openhands"


def _never_ran(folder: Path, typed: list[list[str]]) -> bool:
    """Whether the screen shows that the agent's program could not be started."""
    launch = _launch(typed)
    screen = _text(folder / "panes" / "post-agent.txt")
    if not launch or not screen:
        return False
    words = [word for word in launch.split()[:6] if not re.match(r"[A-Za-z_]\w*=", word)]
    program = words[0] if words else ""
    lines = screen.splitlines()
    if program and any(
        line.rstrip().endswith((f"{program}: command not found", f"{program}: No such file or directory"))
        for line in lines
    ):
        return True
    # a program may be a name for `python -m` of itself
    module = _MODULE.search(launch.split("'", 1)[0])
    package = module.group(1).split(".")[0] if module else program.rsplit("/", 1)[-1]
    missing = re.compile(rf"^\S*python[\d.]*: .*No module named '?{re.escape(package)}(?:\.[\w.]+)?'?\)?\s*$")
    return any(missing.search(line) for line in lines)


def _sessions(folder: Path, source: Source) -> Iterator[Trajectory]:
    """Trajectories in the session files that an agent left (of any format but this one)."""
    from .source import Unreadable, reader_of, units
    from .source import read as read_unit

    if not folder.is_dir():
        return
    for path in units([folder]):
        unit = Source(path)
        try:
            module = reader_of(unit)
            if module is None or module.FORMAT == FORMAT:
                continue
            yield from read_unit(unit)
        except Unreadable:
            source.skipped["unreadable session file"] += 1
