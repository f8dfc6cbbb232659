"""The standard output of `codex exec --json`: thread, turn and item events. The prompt is not in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import Call, Result, Step, Trajectory
from ._codex_calls import measure
from ._common import is_cut, text_of, unwrapped
from ._fields import integer, mapping, objects, string
from .source import Source

FORMAT = "codex-exec"

_TYPES = frozenset(
    {
        "thread.started",
        "turn.started",
        "turn.completed",
        "turn.failed",
        "item.started",
        "item.updated",
        "item.completed",
    }
)


def matches(source: Source) -> bool:
    """A JSONL file with thread, turn or item events in its head."""
    return any(
        string(r.get("type")) in _TYPES
        and (
            "thread_id" in r
            or isinstance(r.get("item"), dict)
            or r["type"] in ("turn.started", "turn.completed", "turn.failed")
        )
        for r in source.head
    )


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory a thread."""
    run = _Run(source)
    for line, record in source.stream():
        kind = string(record.get("type"))
        if kind == "thread.started" and run.steps:
            yield run.finish()
            run = _Run(source)
            source.skipped.clear()
        run.add(kind, record, line)
    if run.steps:
        yield run.finish()


class _Run:
    """Builds one thread's trajectory."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.id = ""
        self.steps: list[Step] = []
        self.items: dict[str, Step] = {}
        """Item id -> its step."""

    def add(self, kind: Any, record: dict[str, Any], line: int) -> None:
        if kind == "thread.started":
            self.id = string(record.get("thread_id"))
        elif kind in ("item.started", "item.updated", "item.completed"):
            self.item(mapping(record.get("item")), kind == "item.completed", line)
        elif kind == "turn.completed":
            if self.steps and self.steps[-1].source == "agent":
                last = self.steps[-1]
                measure(last, mapping(record.get("usage")))
                if last.message and not last.calls:
                    last.stop = True
        elif kind in ("turn.failed", "error"):
            error = string(mapping(record.get("error")).get("message")) or string(record.get("message"))
            self.harness(error, line, kind)
        elif kind not in _TYPES:
            self.source.skipped[f"unknown record: {str(kind)[:40]}"] += 1

    def item(self, item: dict[str, Any], done: bool, line: int) -> None:
        kind, key = item.get("type"), string(item.get("id"))
        if kind == "agent_message":
            if done:
                step = self.agent(key, line)
                text = text_of(item.get("text"))
                step.message = f"{step.message}\n{text}" if step.message else text
        elif kind == "reasoning":
            if done:
                self.agent(key, line).reasoning = text_of(item.get("text"))
        elif kind == "error":
            # A warning of the program (hook trust, missing metadata), not of the agent.
            if done:
                self.harness(string(item.get("message")), line, "error")
        elif kind in (
            "command_execution",
            "file_change",
            "mcp_tool_call",
            "web_search",
            "collab_tool_call",
            "todo_list",
        ):
            self.call(item, key, done, line)
        else:
            self.source.skipped[f"unknown item: {str(kind)[:40]}"] += 1

    def harness(self, text: str, line: int, kind: Any) -> None:
        step = Step("system", text, id=f"{self.id}:{line}", extra={"line": line, "harness": kind})
        self.steps.append(step)

    def agent(self, key: str, line: int) -> Step:
        """The step that text goes to: a new one after a call."""
        if self.steps and self.steps[-1].source == "agent" and not self.steps[-1].calls:
            return self.steps[-1]
        step = Step("agent", id=f"{self.id}:{key or line}", extra={"line": line})
        self.steps.append(step)
        return step

    def call(self, item: dict[str, Any], key: str, done: bool, line: int) -> None:
        step = self.items.get(key)
        if step is None:
            step = self.items[key] = self.agent(key, line)
            step.calls.append(_call(item, key))
            step.stop = False
        elif item.get("type") in ("file_change", "todo_list"):
            step.calls = [_call(item, key) if c.id == key else c for c in step.calls]
        if done:
            step.results[key] = _result(item)

    def finish(self) -> Trajectory:
        last = self.steps[-1]
        if self.source.cut and last.source == "agent" and last.stop is None:
            last.stop = False
        return Trajectory(
            self.id or self.source.path.stem,
            FORMAT,
            "codex",
            self.steps,
            str(self.source.path),
            skipped=self.source.skipped.copy(),
        )


def _call(item: dict[str, Any], key: str) -> Call:
    kind = string(item.get("type"))
    if kind == "command_execution":
        command = string(item.get("command"))
        return Call(key, "exec_command", "shell", {"command": command}, unwrapped(command))
    if kind == "file_change":
        changes = objects(item.get("changes"))
        paths = tuple(dict.fromkeys(c["path"] for c in changes if isinstance(c.get("path"), str)))
        return Call(key, "apply_patch", "edit", {"changes": changes}, paths=paths)
    given = {k: v for k, v in item.items() if k not in ("id", "type", "status", "result", "aggregated_output")}
    return Call(key, string(item.get("tool")) or kind, "other", given)


def _result(item: dict[str, Any]) -> Result:
    status = item.get("status")
    output = string(item.get("aggregated_output")) or text_of(mapping(item.get("result")).get("content"))
    result = Result(output, integer(item.get("exit_code")), truncated=is_cut(output))
    if status == "declined":
        result.fault = "refused"
    elif result.exit_code is not None:
        result.failed = result.exit_code != 0
    elif status in ("completed", "failed"):
        # A failed command with no exit code was ended by the harness: why is not told.
        result.failed = (
            {"completed": False, "failed": True}[status] if item.get("type") != "command_execution" else None
        )
    return result
