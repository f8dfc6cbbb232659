"""Data sets of failed runs in which people marked the mistake: Who&When and AgentRx.

They are labelled data for measuring a localizer, not sessions of terminal agents. Whatever a data set counts from (Who&When
`mistake_step` from 0, AgentRx `step_number` from 1), a step here is the position in `Run.turns`, from 0. The reference answers
that the files hold are never read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misstep.trajectory import Call, Result, Step, Trajectory


class DatasetError(ValueError):
    """A path that is no data set: one line that names it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of a run."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """A failed run with its label."""

    dataset: str
    """who-and-when/NAME | agentrx/NAME"""
    id: str
    task: str
    turns: tuple[Turn, ...]
    step: int
    """The decisive mistake."""
    agent: str
    """Who made it, by the label; in a few runs not the agent of that step."""
    steps: frozenset[int]
    """All steps marked as a failure."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.dataset, self.id)

    @property
    def agents(self) -> list[str]:
        """Who takes part, in order of appearance."""
        return list(dict.fromkeys(turn.agent for turn in self.turns))


def read(paths: Iterable[Path]) -> tuple[list[Run], Counter[str]]:
    """The labelled runs below the paths, in order, and why others were left out (reason -> runs).

    Raises:
        DatasetError: a path does not exist, or nothing below them is a labelled run.
    """
    skipped: Counter[str] = Counter()
    files: dict[Path, Any] = {}
    for path in (given := list(paths)):
        if not path.exists():
            raise DatasetError(f"{path}: no such file or folder")
        for one in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            if one not in files:
                files[one] = _parsed(one, skipped)
    parsed = [(path, text) for path, text in files.items() if text is not None]
    runs = {one.key: one for one in [*_who_and_when(parsed, skipped), *_agentrx(parsed, skipped)]}
    if not runs:
        raise DatasetError(f"{', '.join(map(str, given))}: no labelled run of Who&When or AgentRx in it")
    return [runs[key] for key in sorted(runs, key=lambda key: (key[0], len(key[1]), key[1]))], skipped


def _parsed(path: Path, skipped: Counter[str]) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        skipped["not JSON"] += 1
        return None


def _who_and_when(files: list[tuple[Path, Any]], skipped: Counter[str]) -> Iterator[Run]:
    for path, given in files:
        if not isinstance(given, dict) or "mistake_step" not in given or not isinstance(given.get("history"), list):
            continue
        turns = tuple(
            Turn(_agent(one.get("name") or one.get("role")), str(one.get("content") or "")) for one in given["history"]
        )
        step = _whole(given["mistake_step"])  # a text in the files, from 0
        if step is None or not 0 <= step < len(turns):
            skipped["who-and-when: the marked step is not in the record"] += 1
            continue
        agent, task = _agent(given.get("mistake_agent")), str(given.get("question") or "")
        yield Run(f"who-and-when/{path.parent.name}", path.stem, task, turns, step, agent, frozenset({step}))


def _agentrx(files: list[tuple[Path, Any]], skipped: Counter[str]) -> Iterator[Run]:
    recorded: dict[str, tuple[str, str, list[tuple[int, Turn]]]] = {}
    for path, given in files:
        for found in _agentrx_runs(path, given):
            recorded.setdefault(found[0], found)
    for _, given in files:
        for label in given if isinstance(given, list) else ():
            if not isinstance(label, dict) or "failures" not in label or "root_cause" not in label:
                continue
            record = recorded.get(str(label.get("trajectory_id")))
            run = None if record is None else _labelled(label, *record)
            if run is None:
                why = "the labelled run is not there" if record is None else "the marked step is not in the record"
                skipped[f"agentrx: {why}"] += 1
            else:
                yield run


def _agentrx_runs(path: Path, given: Any) -> Iterator[tuple[str, str, list[tuple[int, Turn]]]]:
    """(id, name of the data set, [(number of the step, from 1, and the step)])."""
    if (
        isinstance(given, list)
        and given
        and all(isinstance(one, dict) and {"content", "role"} <= set(one) for one in given)
    ):
        turns = [Turn(_agent(one["role"]), str(one["content"] or "")) for one in given]
        yield path.stem, "magentic", list(enumerate(turns, 1))
        return
    for one in given if isinstance(given, list) else [given]:
        if isinstance(one, dict) and isinstance(one.get("traj"), list) and "task_id" in one:
            numbered = [(int(m.get("index", n)), _tau_turn(m)) for n, m in enumerate(one["traj"], 1)]
            yield str(one["task_id"]), "tau", numbered


def _tau_turn(message: dict[str, Any]) -> Turn:
    parts = [str(message.get("content") or "")]
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        parts.append(f"calls {function.get('name')}({function.get('arguments')})")
    return Turn(str(message.get("role", "")).capitalize(), "\n".join(part for part in parts if part))


def _labelled(label: dict[str, Any], id: str, name: str, numbered: list[tuple[int, Turn]]) -> Run | None:
    at = {number: place for place, (number, _) in enumerate(numbered)}
    failures = {one.get("failure_id"): one for one in label["failures"]}
    root = failures.get((label["root_cause"] or {}).get("failure_id"))
    step = None if root is None else at.get(_whole(root.get("step_number")) or 0)
    if root is None or step is None:
        return None
    marked = {at.get(_whole(one.get("step_number")) or 0) for one in failures.values()}
    turns = tuple(turn for _, turn in numbered)
    task = next((turn.text for turn in turns if turn.agent.lower() in ("user", "human")), "")
    steps = frozenset(one for one in marked if one is not None)
    return Run(f"agentrx/{name}", id, task, turns, step, _agent(root.get("failed_agent")), steps)


def _agent(name: Any) -> str:
    """The agent without what it does: `Orchestrator (-> WebSurfer)` is the Orchestrator."""
    return re.sub(r"\s*\(.*\)\s*$", "", str(name or "")).strip() or "unknown"


def _whole(given: Any) -> int | None:
    try:
        return int(given)
    except (TypeError, ValueError):
        return None


_SHELL = re.compile(r"```(?:sh|bash|shell)[ \t]*\n(.*?)\n?```", re.DOTALL)
_EXIT = re.compile(r"\bexit ?code:? (\d+)", re.IGNORECASE)
_TERMINALS = ("computer_terminal", "computerterminal")


def as_trajectory(run: Run) -> Trajectory:
    """The run as detectors see one: shell blocks are calls, and what the terminal's turn says is their result.

    Its steps are the turns, one for one.
    """
    steps = [Step("user" if turn.agent.lower() in ("user", "human") else "agent", turn.text) for turn in run.turns]
    asked = False
    for number, (step, turn) in enumerate(zip(steps, run.turns, strict=True)):
        if step.source == "user":
            step.prompt, asked = not asked, True
            continue
        if turn.agent.lower() in (*_TERMINALS, "tool", "system"):
            step.source = "system"
            continue
        blocks = _SHELL.findall(turn.text)
        step.calls = [Call(f"{number}.{n}", "sh", "shell", {}, block.strip()) for n, block in enumerate(blocks)]
        following = run.turns[number + 1] if number + 1 < len(run.turns) else None
        if step.calls and following is not None and following.agent.lower() in _TERMINALS:
            code = _EXIT.search(following.text)
            shared = len(step.calls) > 1
            exit_code = int(code[1]) if code and not shared else None
            for call in step.calls:
                failed = None if exit_code is None else exit_code != 0
                step.results[call.id] = Result(following.text, exit_code, failed, shared=shared)
    return Trajectory(run.id, run.dataset, "several", steps)
