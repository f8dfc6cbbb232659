"""GitHub Copilot CLI: the event stream (`events.jsonl`), and the compact transcript that Entire writes beside it.

A failing shell command is `success: true`: its exit code is in the text. `success: false` is a tool that failed or was
refused. Events of hooks say nothing about the agent. A sub-agent's events carry `parentToolCallId`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Call, Result, Step, Trajectory
from ._calls import arguments_of, call_of
from ._common import is_cut, said
from ._fields import between, mapping, metrics, objects, seconds, string, text
from .source import Source

FORMAT = "copilot-cli"

_EXIT = re.compile(r"<(?:shellId: \S+ completed|exited|command[^<>\n]*?) with exit code (-?\d+)>\s*$")
_RUNNING = re.compile(r"<[^<>\n]*(?:still running|running in the background)[^<>]*>\s*$")
_CUT = re.compile(r"^Output too large to read at once|^Tool output too large")
_REFUSED = re.compile(r"denied|rejected|permission", re.IGNORECASE)
_REMINDER = re.compile(
    r"<system_reminder>.*?</system_reminder>\s*|<current_datetime>.*?</current_datetime>\s*", re.DOTALL
)


def _is_event(record: dict[str, Any]) -> bool:
    return "." in string(record.get("type")) and isinstance(record.get("data"), dict) and "parentId" in record


def _is_compact(record: dict[str, Any]) -> bool:
    return (
        isinstance(record.get("v"), int)
        and isinstance(record.get("agent"), str)
        and "cli_version" in record
        and record.get("type") in ("user", "assistant")
        and isinstance(record.get("content"), list)
    )


def matches(source: Source) -> bool:
    """Events with a dotted type, data and a parent; or compact records."""
    first = source.head[:5]
    if not first:
        return False
    return sum(_is_event(record) for record in first) * 2 > len(first) or all(_is_compact(record) for record in first)


def read(source: Source) -> Iterator[Trajectory]:
    """The session, then its sub-agents."""
    if _is_compact(source.records[0]):
        yield from _compact(source)
        return
    sessions: dict[str, _Session] = {"": _Session("")}
    for record in source.records:
        data = record.get("data")
        if not isinstance(data, dict):
            source.skipped["event without data"] += 1
            continue
        parent = string(data.get("parentToolCallId"))
        if parent not in sessions:
            sessions[parent] = _Session(parent, sessions[""].call(parent))
        sessions[parent].event(string(record.get("type")), data, record)
    main = sessions[""].trajectory
    main.id = main.id or source.path.stem
    for session in sessions.values():
        trajectory = session.trajectory
        if session.parent:
            trajectory.id, trajectory.parent = f"{main.id}.{session.parent}", main.id
            trajectory.cwd, trajectory.agent_version = main.cwd, main.agent_version
        if trajectory.steps:
            yield trajectory
    if not main.steps:
        source.skipped["no messages"] += 1


class _Session:
    """The events of one agent in, steps out."""

    def __init__(self, parent: str, started_by: Call | None = None) -> None:
        self.trajectory = Trajectory("", FORMAT, FORMAT)
        self.parent = parent
        self.by_call: dict[str, tuple[Step, Call]] = {}
        self.began: dict[str, Any] = {}
        self.refused: set[str] = set()
        self.model = ""
        if started_by is not None and isinstance(started_by.arguments.get("prompt"), str):
            self.trajectory.steps.append(Step("user", started_by.arguments["prompt"], prompt=True))

    def call(self, id: str) -> Call | None:
        found = self.by_call.get(id)
        return found[1] if found else None

    def event(self, kind: str, data: dict[str, Any], record: dict[str, Any]) -> None:
        time = seconds(record.get("timestamp"))
        steps = self.trajectory.steps
        if kind in ("session.start", "session.resume", "session.context_changed"):
            context = mapping(data.get("context")) or data
            self.trajectory.id = self.trajectory.id or string(data.get("sessionId"))
            self.trajectory.agent_version = string(data.get("copilotVersion")) or self.trajectory.agent_version
            self.trajectory.cwd = self.trajectory.cwd or string(context.get("cwd"))
        elif kind == "session.model_change":
            self.model = string(data.get("newModel"))
            self.trajectory.model = self.trajectory.model or self.model
        elif kind == "system.message":
            steps.append(Step("system", text(data.get("content")), time=time))
        elif kind == "user.message":
            steps.append(self._user(data, record, time))
        elif kind == "assistant.message":
            self._agent(data, record, time)
        elif kind == "tool.execution_start":
            self.began[string(data.get("toolCallId"))] = record.get("timestamp")
            if string(data.get("toolCallId")) not in self.by_call:
                self._late_call(data, time)
        elif kind == "permission.completed":
            if string(mapping(data.get("result")).get("kind")).startswith("denied"):
                self.refused.add(string(data.get("toolCallId")))
        elif kind == "tool.execution_complete":
            self._complete(data, record)
        elif kind == "session.compaction_complete":
            steps.append(Step("system", compacted=True, time=time))
        elif kind == "abort":
            for step, call in self.by_call.values():
                step.results.setdefault(call.id, Result("", fault="interrupted"))
            steps.append(Step("user", string(data.get("reason")), time=time, interrupted=True))

    def _user(self, data: dict[str, Any], record: dict[str, Any], time: float | None) -> Step:
        content = text(data.get("content"))
        own = said(_REMINDER.sub("", content)) if not data.get("source") or data.get("source") == "user" else ""
        return Step("user", own or content, time=time, id=string(record.get("id")), prompt=bool(own))

    def _agent(self, data: dict[str, Any], record: dict[str, Any], time: float | None) -> None:
        step = Step("agent", text(data.get("content")), text(data.get("reasoningText")), time=time)
        step.id = string(data.get("messageId")) or string(record.get("id"))
        step.model = string(data.get("model")) or self.model
        self.trajectory.model = self.trajectory.model or step.model
        step.metrics = metrics(completion_tokens=data.get("outputTokens"), prompt_tokens=data.get("inputTokens"))
        for item in objects(data.get("toolRequests")):
            self._add(step, string(item.get("toolCallId")), string(item.get("name")), item.get("arguments"))
        self.trajectory.steps.append(step)

    def _add(self, step: Step, id: str, name: str, arguments: Any) -> None:
        call = call_of(id or f"{len(self.by_call)}", name or "unknown", arguments_of(arguments))
        step.calls.append(call)
        self.by_call[call.id] = (step, call)

    def _late_call(self, data: dict[str, Any], time: float | None) -> None:
        """A call that no message announced."""
        step = Step("agent", time=time, model=string(data.get("model")))
        self._add(step, string(data.get("toolCallId")), string(data.get("toolName")), data.get("arguments"))
        self.trajectory.steps.append(step)

    def _complete(self, data: dict[str, Any], record: dict[str, Any]) -> None:
        found = self.by_call.get(string(data.get("toolCallId")))
        if found is None:
            self.trajectory.skipped["result of an unknown call"] += 1
            return
        step, call = found
        error = mapping(data.get("error"))
        output = text(mapping(data.get("result")).get("content")) or string(error.get("message"))
        result = _result(call, output, data.get("success"))
        code = string(error.get("code"))
        if call.id in self.refused or (data.get("success") is False and code != "failure" and _REFUSED.search(code)):
            result.fault, result.failed = "refused", None
        result.seconds = between(self.began.get(call.id), record.get("timestamp"))
        step.results[call.id] = result


def _result(call: Call, output: str, success: Any) -> Result:
    result = Result(output, truncated=is_cut(output) or bool(_CUT.search(output)))
    ended = _EXIT.search(output) if call.kind == "shell" else None
    if ended:
        result.exit_code = int(ended.group(1))
        result.failed = result.exit_code != 0
        result.output = output[: ended.start()].rstrip("\n")
    elif call.kind == "shell" and _RUNNING.search(output):
        result.running = True
    elif success is False:
        result.failed = True
    elif success is True and call.kind != "shell":
        result.failed = False
    return result


def _compact(source: Source) -> Iterator[Trajectory]:
    """Entire's compact form: the results stand inside the tool blocks. It is a copy where the full record is beside it."""
    if _full_beside(source.path):
        source.skipped["compact copy of the session in full.jsonl"] += 1
        return
    first = source.records[0]
    found = Trajectory(source.path.parent.name or source.path.stem, FORMAT, string(first.get("agent")))
    for record in source.records:
        if not _is_compact(record):
            found.skipped["not a compact record"] += 1
            continue
        time, blocks = seconds(record.get("ts")), objects(record.get("content"))
        content = "\n".join(b["text"] for b in blocks if isinstance(b.get("text"), str))
        if record["type"] == "user":
            own = said(_REMINDER.sub("", content))
            found.steps.append(Step("user", own or content, time=time, prompt=bool(own)))
            continue
        step = Step("agent", content, time=time, id=string(record.get("id")))
        step.metrics = metrics(completion_tokens=record.get("output_tokens"), prompt_tokens=record.get("input_tokens"))
        for at, block in enumerate(b for b in blocks if b.get("type") == "tool_use"):
            call = call_of(
                string(block.get("id")) or f"{len(found.steps)}.{at}",
                string(block.get("name")),
                arguments_of(block.get("input")),
            )
            step.calls.append(call)
            given = block.get("result")
            if isinstance(given, dict):
                success = {"success": True, "error": False}.get(string(given.get("status")))
                step.results[call.id] = _result(call, text(given.get("output")), success)
        found.steps.append(step)
    yield found


def _full_beside(path: Path) -> bool:
    try:
        return path.name != "full.jsonl" and (path.parent / "full.jsonl").stat().st_size > 0
    except OSError:
        return False
