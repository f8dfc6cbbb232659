"""OpenHands since its SDK: a conversation folder with `events/event-00000-ID.json`, a folder of such files, a list of events,
or evaluation records with a history of them.

An event says what it is in `kind`. An observation names its action's event and its call. Calls of one model response are one
step. A terminal's exit code of -1 says that the command is still running. Events have parents: what was rolled back is no
longer among the ancestors of the last one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Call, Result, Step, Trajectory
from ._calls import arguments_of, call_of
from ._common import is_cut, said, text_of
from ._fields import integer, listing, mapping, number, seconds, string
from ._opencode_store import json_of
from ._openhands import outcome_of
from .source import Source

FORMAT = "openhands-sdk"

_NUMBERED = re.compile(r"event[-_](\d+)[-_].+\.json")
_MAX_FILE = 64 << 20
_SILENT = frozenset(
    [
        "ConversationStateUpdateEvent",
        "TokenEvent",
        "LLMCompletionLogEvent",
        "StreamingDeltaEvent",
        "HookExecutionEvent",
        "SecurityAnalysisEvent",
        "CondensationRequest",
        "CondensationSummaryEvent",
    ]
)
_CUT = re.compile(r"\[\.\.\. Observation truncated due to length \.\.\.\]|<response clipped>")
_INTERRUPTED = re.compile(r"Tool call (?:cancelled by interrupt|interrupted before completion)")
_MALFORMED = re.compile(
    r"Tool '[^'\n]*' not found|Error validating |Error parsing |Failed to parse|.{0,80}Invalid JSON"
)
_HARNESS = re.compile(r".{0,80}(?:A restart occurred|was restarted)", re.S)


def _is_event(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("kind"), str) and "source" in item and "id" in item


def _is_record(item: Any) -> bool:
    history = mapping(item).get("history")
    return "instance_id" in mapping(item) and isinstance(history, list) and bool(history) and _is_event(history[0])


def matches(source: Source) -> bool:
    """A JSON list of events, a page of them ({items}), or evaluation records with a history of them."""
    if b'"kind"' not in source.edges or b'"source"' not in source.edges:
        return False
    if source.head:
        return _is_record(source.head[0])
    items = _listed(source.document)
    return bool(items) and all(_is_event(item) for item in items[:3])


def _listed(document: Any) -> list[Any]:
    return listing(mapping(document).get("items") if isinstance(document, dict) else document)


def matches_folder(folder: Path, names: frozenset[str]) -> bool:
    """A folder of numbered events, or a conversation's folder that holds one."""
    place = _events_folder(folder, names)
    return place is not None and any(_is_event(_load(path)) for path in _numbered(place)[:3])


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory, and one of each sub-agent whose folder is below; of evaluation records one each."""
    if source.path.is_dir():
        yield from _of_folder(source, source.path, "")
    elif source.head:
        for record in source.records:
            if not _is_record(record):
                source.skipped["not an evaluation record"] += 1
                continue
            for found in _one(source, string(record.get("instance_id")), listing(record.get("history")), ""):
                found.outcome = outcome_of(record)
                yield found
    else:
        yield from _one(source, source.path.stem, _listed(source.document), "")


def _of_folder(source: Source, folder: Path, parent: str) -> Iterator[Trajectory]:
    place = _events_folder(folder, _names(folder))
    if place is None:
        return
    top = place.parent if place.name == "events" else place
    state = mapping(_load(top / "base_state.json"))
    events = [_load(path) for _, path in _sorted(place)]
    for found in _one(source, top.name, events, string(state.get("leaf_event_id"))):
        found.path, found.parent = str(folder), parent
        found.model = string(mapping(mapping(state.get("agent")).get("llm")).get("model"))
        found.cwd = string(mapping(state.get("workspace")).get("working_dir")) or found.cwd
        yield found
    for name in sorted(_names(top / "subagents")):
        yield from _of_folder(source, top / "subagents" / name, top.name)


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _events_folder(folder: Path, names: frozenset[str]) -> Path | None:
    if any(_NUMBERED.fullmatch(name) for name in names):
        return folder
    return folder / "events" if "events" in names and _sorted(folder / "events") else None


def _sorted(folder: Path) -> list[tuple[int, Path]]:
    found = [(int(m.group(1)), folder / name) for name in _names(folder) for m in [_NUMBERED.fullmatch(name)] if m]
    return sorted(found)


def _numbered(folder: Path) -> list[Path]:
    return [path for _, path in _sorted(folder)]


def _load(path: Path) -> Any:
    try:
        return json_of(path.read_bytes()) if path.is_file() and path.stat().st_size <= _MAX_FILE else None
    except OSError:
        return None


def _one(source: Source, name: str, events: list[Any], leaf: str) -> Iterator[Trajectory]:
    reading = _Reading(name)
    whole = [event for event in events if _is_event(event)]
    if len(whole) < len(events):
        reading.trajectory.skipped["not an event"] += len(events) - len(whole)
    branch = _branch(whole, leaf)
    if len(branch) < len(whole):
        reading.trajectory.skipped["rolled back"] += len(whole) - len(branch)
    for event in branch:
        reading.event(event)
    if any(step.source != "system" for step in reading.trajectory.steps):
        yield reading.trajectory
    else:
        source.skipped["no messages"] += 1


def _branch(events: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """The leaf's ancestors and itself, in order; all events where the leaf is not known or a parent is missing."""
    place = {string(event.get("id")): at for at, event in enumerate(events)}
    kept: set[int] = set()
    at = place.get(leaf)
    while at is not None:
        if at in kept:
            return events
        kept.add(at)
        parent = events[at].get("parent_id")
        if parent is None:  # written before there were parents: it follows the one before it
            at = at - 1 if at else None
        elif string(parent) in place:
            at = place[string(parent)]
        elif parent == "__root__":
            at = None
        else:
            return events
    return [event for at, event in enumerate(events) if at in kept] if kept else events


class _Reading:
    """Events in, steps out."""

    def __init__(self, name: str) -> None:
        self.trajectory = Trajectory(name, FORMAT, "openhands")
        self.calls: dict[str, tuple[Step, Call]] = {}
        """By the id of the action's event, and by the call's own."""
        self.response = ""

    def event(self, event: dict[str, Any]) -> None:
        kind, steps = event["kind"], self.trajectory.steps
        step = Step("system", time=seconds(event.get("timestamp")), id=string(event.get("id")))
        if kind == "SystemPromptEvent":
            step.message = text_of(event.get("system_prompt"))
        elif kind == "MessageEvent":
            self._message(step, event)
        elif kind == "ActionEvent":
            self._action(step, event)
            return
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._result(event, kind)
            return
        elif kind == "Condensation":
            step.message, step.compacted = string(event.get("summary")), True
        elif kind in ("PauseEvent", "InterruptEvent"):
            step.source, step.interrupted = "user", True
        elif kind == "ConversationErrorEvent":
            step.message = ": ".join(filter(None, (string(event.get("code")), string(event.get("detail")))))
            step.extra["harness"] = "error"
        else:
            if kind not in _SILENT:
                self.trajectory.skipped[f"unknown event: {kind[:40]}"] += 1
            return
        self.response = ""
        steps.append(step)

    def _message(self, step: Step, event: dict[str, Any]) -> None:
        message = mapping(event.get("llm_message"))
        step.message = text_of(message.get("content"))
        if message.get("role") == "assistant":
            step.source, step.reasoning = "agent", string(message.get("reasoning_content"))
        elif message.get("role") == "user":
            step.source = "user"
            own = said(step.message) if event.get("source") == "user" else ""
            step.message, step.prompt = own or step.message, bool(own)

    def _action(self, step: Step, event: dict[str, Any]) -> None:
        answer = string(event.get("llm_response_id"))
        steps = self.trajectory.steps
        if answer and answer == self.response:
            step = next(s for s in reversed(steps) if s.source == "agent")
        else:
            step.source, step.reasoning = "agent", string(event.get("reasoning_content"))
            step.message, step.stop = text_of(event.get("thought")), False
            steps.append(step)
        self.response = answer
        made, action = mapping(event.get("tool_call")), event.get("action")
        identity = string(event.get("tool_call_id")) or string(event.get("id"))
        tool = string(event.get("tool_name")) or string(made.get("name"))
        given = arguments_of(made.get("arguments")) if not isinstance(action, dict) else action
        given = {name: value for name, value in given.items() if name != "kind"}
        call = call_of(identity, tool, given)
        if isinstance(given.get("is_input"), bool) and isinstance(given.get("command"), str):
            # a terminal: an empty command asks for more output of the one that runs
            call.kind = "keys" if given["is_input"] or not given["command"] else "shell"
            call.command, call.timeout = given["command"], number(given.get("timeout"))
        elif call.kind == "finish":
            step.stop = True
            step.message = "\n".join(filter(None, (step.message, string(given.get("message")))))
        step.calls.append(call)
        self.calls[call.id] = self.calls[string(event.get("id"))] = (step, call)

    def _result(self, event: dict[str, Any], kind: str) -> None:
        found = self.calls.get(string(event.get("action_id"))) or self.calls.get(string(event.get("tool_call_id")))
        if found is None:
            self.trajectory.skipped["result without a call"] += 1
            return
        step, call = found
        if kind == "ObservationEvent":
            result = _observed(call, mapping(event.get("observation")))
        elif kind == "UserRejectObservation":
            result = Result(string(event.get("rejection_reason")), fault="refused")
        else:
            result = _error(string(event.get("error")))
        start, end = step.time, seconds(event.get("timestamp"))
        result.seconds = end - start if start is not None and end is not None and end >= start else None
        if call.id not in step.results:
            step.results[call.id] = result


def _observed(call: Call, given: dict[str, Any]) -> Result:
    text = text_of(given.get("content")) or string(given.get("output"))
    result = Result(text, truncated=is_cut(text) or bool(_CUT.search(text)))
    wrong = given.get("is_error", given.get("error"))
    wrong = wrong if isinstance(wrong, bool) or wrong is None else bool(wrong)
    extra = mapping(given.get("metadata"))
    if "exit_code" not in given and "exit_code" not in extra:
        result.failed = None if call.kind in ("shell", "keys") else wrong
        return result
    code = integer(given.get("exit_code"))
    code = integer(extra.get("exit_code")) if code is None else code
    if wrong:
        result.failed = True
    elif code == -1:
        result.running = True
    elif code is not None and call.kind == "shell":
        result.exit_code, result.failed = code, code != 0
    return result


def _error(text: str) -> Result:
    result = Result(text)
    if _INTERRUPTED.match(text):
        result.fault = "interrupted"
    elif _HARNESS.match(text):
        result.fault = "harness"
    elif _MALFORMED.match(text):
        result.fault = "malformed"
    else:
        result.failed = True
    return result
