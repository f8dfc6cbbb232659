"""The standard output of `gemini --output-format stream-json`: init, messages in pieces, calls, results, the end.

What a result says is what a person is shown, not what the model saw, and a command that failed is a success of its tool.
So the exit code is known only where the command printed nothing: its place is then taken by the code, or by nothing for 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..model import Call, Result, Step, Trajectory
from ._calls import call_of
from ._common import said
from ._fields import mapping, seconds, string
from ._gemini import result_of, shell_result
from .source import Source

FORMAT = "gemini-cli-stream"

_EVENTS = frozenset({"message", "tool_use", "tool_result", "error", "result"})
_CODE = re.compile(r"Command exited with code: (-?\d+)")
_DIED = re.compile(r"Command (?:terminated by signal|failed): ")
_CANCELLED = re.compile(r"Command cancelled by user\.")
_WHOLE = ("Command: ", "Output: ", "Stdout: ")
"""How what the model sees begins; a person is shown it in debug mode."""
_FAULTS = {
    "invalid_tool_params": "malformed",
    "tool_not_registered": "malformed",
    "policy_violation": "refused",
    "unhandled_exception": "harness",
}


def _is_start(record: dict[str, Any]) -> bool:
    return record.get("type") == "init" and all(
        isinstance(record.get(name), str) for name in ("session_id", "model", "timestamp")
    )


def matches(source: Source) -> bool:
    """JSONL with an init event, or with calls and messages as this stream has them."""
    return any(
        _is_start(record)
        or (record.get("type") == "tool_use" and {"tool_name", "tool_id", "parameters", "timestamp"} <= record.keys())
        for record in source.head
    )


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory a run; several runs may have been written into one file."""
    run = _Run(source.path.stem)
    for line, record in source.stream():
        kind = string(record.get("type"))
        if kind == "init":
            if run.spoke:
                yield run.finish(source)
                source.skipped.clear()
            run = _Run(string(record.get("session_id")) or source.path.stem)
            run.model = string(record.get("model"))
        elif kind in _EVENTS:
            run.add(kind, record, line)
        else:
            source.skipped[f"unknown event: {kind[:40]}"] += 1
    if run.spoke:
        yield run.finish(source)
    else:
        source.skipped["no message of a user or a model"] += 1


class _Run:
    """Builds one run's trajectory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = ""
        self.steps: list[Step] = []
        self.calls: dict[str, tuple[Step, Call]] = {}
        self.answer: Step | None = None
        """The step of the model's answer that is still coming in."""
        self.spoke = False
        self.end = ""

    def add(self, kind: str, record: dict[str, Any], line: int) -> None:
        time = seconds(record.get("timestamp"))
        if kind == "message" and record.get("role") == "user":
            text = string(record.get("content"))
            own = said(text)
            self.steps.append(Step("user", own or text, time=time, prompt=bool(own), extra={"line": line}))
            self.answer, self.spoke = None, True
        elif kind == "message":
            self._answer(time, line).message += string(record.get("content"))
        elif kind == "tool_use":
            step = self._answer(time, line)
            identity = string(record.get("tool_id")) or f"line {line}"
            call = call_of(identity, string(record.get("tool_name")), mapping(record.get("parameters")))
            step.calls.append(call)
            self.calls[identity] = (step, call)
        elif kind == "tool_result":
            self.answer = None
            found = self.calls.get(string(record.get("tool_id")))
            if found is not None:
                step, call = found
                result = _result(call, record)
                start = step.time
                result.seconds = time - start if time is not None and start is not None and time >= start else None
                step.results[call.id] = result
        elif kind == "result":
            self.end = string(record.get("status"))
        elif record.get("severity") == "error":
            self.steps.append(Step("system", string(record.get("message")), time=time, extra={"harness": "error"}))
            self.answer = None

    def _answer(self, time: float | None, line: int) -> Step:
        if self.answer is None:
            self.answer = Step("agent", time=time, model=self.model, extra={"line": line})
            self.steps.append(self.answer)
            self.spoke = True
        return self.answer

    def finish(self, source: Source) -> Trajectory:
        """The trajectory. An answer without calls ends the run only where the run says that it ended well."""
        agents = [step for step in self.steps if step.source == "agent"]
        for step in agents:
            step.stop = False
        if agents and self.end == "success" and not agents[-1].calls and self.steps[-1] is agents[-1]:
            agents[-1].stop = True
        found = Trajectory(self.name, FORMAT, "gemini-cli", self.steps, str(source.path), model=self.model)
        found.skipped = source.skipped.copy()
        return found


def _result(call: Call, record: dict[str, Any]) -> Result:
    output, error = record.get("output"), mapping(record.get("error"))
    if record.get("status") != "success":
        text = string(error.get("message")) or string(output)
        result = result_of({"error": text}, call.kind, "error")
        fault = _FAULTS.get(string(error.get("type")))
        if fault is not None:
            result.fault, result.failed = fault, None
        return result
    if call.kind != "shell":
        return Result(string(output), failed=False, truncated=True)
    if not isinstance(output, str):
        return Result("", truncated=True)
    result = shell_result(output)
    code = _CODE.fullmatch(output)
    if code is not None or not output:
        result.output = ""
        result.exit_code = int(code[1]) if code is not None else 0
        result.failed = result.exit_code != 0
    elif _DIED.match(output):
        result.failed = True
    elif _CANCELLED.match(output):
        result.fault = "interrupted"
    elif result.exit_code is not None and not output.startswith(_WHOLE):
        result.exit_code = result.failed = None  # the program's own words
    return result
