"""OpenHands events: a folder of `N.json`, a session folder with `events/`, one JSON list, or evaluation records.

An observation belongs to the action that its `cause` names; ids have gaps. The exit code is `extras.metadata.exit_code`; -1
says that the command is still running. Calls of one model response are one step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..model import Result, Step, Trajectory
from ._calls import arguments_of, call_of
from ._common import is_cut, said
from ._fields import integer, listing, mapping, metrics, number, objects, seconds, string
from ._openhands import outcome_of, task_in_example
from .source import Source

FORMAT = "openhands"

_NUMBERED = re.compile(r"(\d+)\.json$")
_MAX_FILE = 64 << 20
_NO_CALLS = (
    "recall",
    "change_agent_state",
    "null",
    "start",
    "pause",
    "resume",
    "stop",
    "add_task",
    "modify_task",
    "send_prompt",
)
_TOOLS = {
    "run": "execute_bash",
    "run_ipython": "execute_ipython_cell",
    "read": "read",
    "write": "write",
    "edit": "edit",
}
_CUT = re.compile(r"\[\.\.\. Observation truncated due to length \.\.\.\]|<response clipped>")


def _is_event(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.get("source") in ("agent", "user", "environment")
        and ("action" in item or "observation" in item)
        and ("args" in item or "extras" in item or "message" in item)
    )


def _is_record(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and "instance_id" in item
        and bool(objects(item.get("history")))
        and _is_event(item["history"][0])
    )


def matches(source: Source) -> bool:
    """A JSON list of events, or evaluation records with a history of them."""
    if b'"source"' not in source.edges:
        return False
    document = source.document
    if isinstance(document, list):
        return bool(document) and all(_is_event(item) for item in document[:3])
    return bool(source.head) and _is_record(source.head[0])


def matches_folder(folder: Path, names: frozenset[str]) -> bool:
    """A folder of numbered events, or a session folder that holds one."""
    place = _events_folder(folder, names)
    if place is None:
        return False
    first = _load(_numbered(place)[0][1])
    return _is_event(first)


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory; of an evaluation file one a record."""
    if source.path.is_dir():
        place = _events_folder(source.path, frozenset(p.name for p in source.path.iterdir()))
        paths = [] if place is None else _numbered(place)
        name = source.path.parent.name if source.path.name == "events" else source.path.name
        yield from _one(source, name, [_load(path) for _, path in paths])
    elif isinstance(source.document, list):
        yield from _one(source, source.path.stem, source.document)
    else:
        for record in source.records:
            if not _is_record(record):
                source.skipped["not an evaluation record"] += 1
                continue
            for found in _one(source, string(record.get("instance_id")), listing(record.get("history"))):
                found.outcome = outcome_of(record)
                yield found


def _events_folder(folder: Path, names: frozenset[str]) -> Path | None:
    if any(_NUMBERED.fullmatch(name) for name in names):
        return folder
    if "events" in names and _numbered(folder / "events"):
        return folder / "events"
    return None


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    try:
        found = [(int(m.group(1)), path) for path in folder.iterdir() for m in [_NUMBERED.fullmatch(path.name)] if m]
    except OSError:
        return []
    return sorted(found)


def _load(path: Path) -> Any:
    try:
        if path.stat().st_size > _MAX_FILE:
            return None
        return json.loads(path.read_bytes().decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return None


def _one(source: Source, name: str, events: Iterable[Any]) -> Iterator[Trajectory]:
    reading = _Reading(name)
    for event in events:
        if _is_event(event):
            reading.event(event)
        else:
            reading.trajectory.skipped["not an event"] += 1
    if reading.trajectory.steps:
        yield reading.trajectory
    else:
        source.skipped["no messages"] += 1


class _Reading:
    """Events in, steps out."""

    def __init__(self, name: str) -> None:
        self.trajectory = Trajectory(name, FORMAT, FORMAT)
        self.by_action: dict[int, tuple[Step, str]] = {}
        self.by_call: dict[str, tuple[Step, str]] = {}
        self.response = ""
        self.cost = 0.0
        self.asked = False

    def event(self, event: dict[str, Any]) -> None:
        if "observation" in event:
            self._observation(event)
            return
        action, arguments = string(event.get("action")), mapping(event.get("args"))
        time = seconds(event.get("timestamp"))
        content = string(arguments.get("content")) or string(event.get("message"))
        steps = self.trajectory.steps
        if action == "system":
            steps.append(Step("system", content, time=time))
        elif action == "message" and event.get("source") == "user":
            own = said(content)
            step = Step("user", own or content, time=time, id=str(event.get("id", "")), prompt=bool(own))
            if step.prompt and not self.asked:
                self.asked, step.message = True, task_in_example(step.message)
            steps.append(step)
        elif action.startswith("condensation"):
            steps.append(
                Step("system", string(arguments.get("summary")), time=time, compacted=action == "condensation")
            )
        elif action in _NO_CALLS or event.get("source") != "agent":
            return
        else:
            self._agent(event, action, arguments, time)

    def _agent(self, event: dict[str, Any], action: str, arguments: dict[str, Any], time: float | None) -> None:
        tool = mapping(event.get("tool_call_metadata"))
        response = mapping(tool.get("model_response"))
        answer = string(response.get("id"))
        thought = string(arguments.get("thought"))
        if answer and answer == self.response:
            step = self.trajectory.steps[-1]
        else:
            step = Step("agent", thought, time=time, id=str(event.get("id", "")), model=string(response.get("model")))
            step.metrics = self._metrics(event, response)
            self.trajectory.model = self.trajectory.model or step.model
            self.trajectory.steps.append(step)
        self.response = answer
        if action == "message":
            step.message = string(arguments.get("content")) or string(event.get("message"))
            step.stop = True if arguments.get("wait_for_response") is True else None
            self.response = ""
            return
        step.stop = action in ("finish", "reject")
        if step.stop:
            step.message = step.message or string(arguments.get("final_thought")) or string(event.get("message"))
        name = string(tool.get("function_name")) or _TOOLS.get(action, action)
        given = {k: v for k, v in arguments.items() if k != "thought"}
        if name == "str_replace_editor" and "command" not in given and action == "read":
            given = {"command": "view", **given}
        call = call_of(
            string(tool.get("tool_call_id")) or f"{event.get('id', len(self.by_action))}", name, arguments_of(given)
        )
        if action == "run" and arguments.get("is_input") is True:
            call.kind, call.command = "keys", string(arguments.get("command"))
        elif action == "run":
            call.kind, call.command = "shell", string(arguments.get("command"))
        elif action in ("finish", "reject"):
            call.kind = "finish"
        call.timeout = number(event.get("timeout")) if call.kind == "shell" else None
        step.calls.append(call)
        self.by_call[call.id] = (step, call.id)
        identity = integer(event.get("id"))
        if identity is not None:
            self.by_action[identity] = (step, call.id)

    def _metrics(self, event: dict[str, Any], response: dict[str, Any]) -> dict[str, float]:
        usage, totals = mapping(response.get("usage")), mapping(event.get("llm_metrics"))
        cost = number(totals.get("accumulated_cost"))
        spent = None
        if cost is not None:
            spent, self.cost = max(cost - self.cost, 0.0), max(cost, self.cost)
        return metrics(
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            cached_tokens=mapping(usage.get("prompt_tokens_details")).get("cached_tokens"),
            cost_usd=spent,
        )

    def _observation(self, event: dict[str, Any]) -> None:
        kind, extras = string(event.get("observation")), mapping(event.get("extras"))
        content = string(event.get("content"))
        cause = integer(event.get("cause"))
        found = self.by_action.get(cause) if cause is not None else None
        found = found or self.by_call.get(string(mapping(event.get("tool_call_metadata")).get("tool_call_id")))
        if kind == "error" and (found is None or "AgentStuckInLoop" in content):
            self.trajectory.extra.setdefault("errors", []).append(content[:500])
        if kind == "agent_state_changed" or found is None:
            return
        step, identity = found
        call = next(c for c in step.calls if c.id == identity)
        result = Result(content, truncated=is_cut(content) or bool(_CUT.search(content)))
        start, end = step.time, seconds(event.get("timestamp"))
        result.seconds = end - start if start is not None and end is not None and end >= start else None
        if kind == "user_rejected":
            result.fault = "refused"
        elif kind == "error":
            result.failed = True
        elif kind == "run":
            code = integer(mapping(extras.get("metadata")).get("exit_code"))
            code = integer(extras.get("exit_code")) if code is None else code
            if code == -1:
                result.running = True
            elif call.kind == "shell" and code is not None:
                result.exit_code, result.failed = code, code != 0
        elif kind in ("edit", "write") and content.startswith("ERROR:"):
            result.failed = True
        elif kind in ("edit", "write", "read"):
            result.failed = False
        step.results[identity] = result
