"""Qwen Code sessions (~/.qwen/projects/*/chats/*.jsonl): a tree of records with the parts of Gemini's API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import Call, Step, Trajectory
from ._calls import call_of
from ._common import said, time_of
from ._fields import integer, mapping, number, string
from ._gemini import responses, result_of, split
from .source import Source

FORMAT = "qwen-code"

_TYPES = frozenset({"user", "assistant", "tool_result", "system"})


def matches(source: Source) -> bool:
    """A JSONL file whose head has a record with a session id and a message of parts."""
    return any(_is_record(r) for r in source.head)


def _is_record(record: dict[str, Any]) -> bool:
    if string(record.get("type")) not in _TYPES or "sessionId" not in record or "uuid" not in record:
        return False
    return isinstance(mapping(record.get("message")).get("parts"), list) or (
        record["type"] == "system" and "subtype" in record and "isSidechain" not in record
    )


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory."""
    session = _Session(source)
    for line, record in source.stream():
        session.add(record, line)
    found = session.finish()
    if found is not None:
        yield found


class _Session:
    """Builds the trajectory, record by record."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.steps: list[Step] = []
        self.calls: dict[str, tuple[Step, Call]] = {}
        self.seen: set[str] = set()
        self.first: dict[str, Any] = {}
        self.model = ""

    def add(self, record: dict[str, Any], line: int) -> None:
        kind, key = string(record.get("type")), string(record.get("uuid"))
        if key and key in self.seen:
            self.source.skipped["duplicate record"] += 1
            return
        self.seen.add(key)
        self.first = self.first or record
        if kind == "assistant":
            self.assistant(record, line)
        elif kind == "tool_result":
            self.results(record)
        elif kind == "user":
            self.user(record, line)
        elif kind == "system":
            if record.get("subtype") in ("chat_compression", "compression", "compact_boundary"):
                self.step("system", record, line, "").compacted = True
        else:
            self.source.skipped[f"unknown record: {str(kind)[:40]}"] += 1

    def step(self, source: str, record: dict[str, Any], line: int, text: str) -> Step:
        step = Step(source, text, time=time_of(record.get("timestamp")), id=string(record.get("uuid")))
        step.extra["line"] = line
        self.steps.append(step)
        return step

    def assistant(self, record: dict[str, Any], line: int) -> None:
        text, thoughts, calls = split(mapping(record.get("message")).get("parts"))
        step = self.step("agent", record, line, text)
        step.reasoning, step.model = thoughts, string(record.get("model"))
        self.model = step.model or self.model
        usage = mapping(record.get("usageMetadata"))
        output = number(usage.get("candidatesTokenCount"))
        for name, value in (
            ("prompt_tokens", number(usage.get("promptTokenCount"))),
            ("cached_tokens", number(usage.get("cachedContentTokenCount"))),
            ("completion_tokens", None if output is None else output + (number(usage.get("thoughtsTokenCount")) or 0)),
        ):
            if value is not None:
                step.metrics[name] = value
        for place, made in enumerate(calls):
            key = string(made.get("id")) or f"{step.id}/{place}"
            call = call_of(key, string(made.get("name")), mapping(made.get("args")))
            if call.kind == "shell" and not call.cwd:
                call.cwd = string(record.get("cwd")) or None
            step.calls.append(call)
            step.stop = False
            self.calls[key] = (step, call)

    def user(self, record: dict[str, Any], line: int) -> None:
        parts = mapping(record.get("message")).get("parts")
        if responses(parts):
            self.results(record)
            return
        text, _, _ = split(parts)
        spoken = said(text)
        provenance = string(record.get("provenance"))
        own = provenance in ("", "real_user")
        if not own or not spoken:
            # A hook or the harness goes on where the agent had ended its turn.
            last = self.steps[-1] if self.steps else None
            if last is not None and last.source == "agent" and last.message and not last.calls:
                last.stop = True
        self.step("user", record, line, spoken or text).prompt = bool(spoken) and own

    def results(self, record: dict[str, Any]) -> None:
        detail = mapping(record.get("toolCallResult"))
        for response in responses(mapping(record.get("message")).get("parts")):
            key = string(response.get("id")) or string(detail.get("callId"))
            if key not in self.calls:
                self.source.skipped["result without a call"] += 1
                continue
            step, call = self.calls[key]
            result = result_of(response.get("response"), call.kind, string(detail.get("status")))
            shown = mapping(detail.get("resultDisplay"))
            if shown.get("type") == "shell_result":
                code = integer(shown.get("exitCode"))
                if code is not None and not result.fault:
                    result.exit_code, result.failed = code, code != 0
                if isinstance(shown.get("output"), str):
                    result.output = shown["output"]
            if shown.get("truncated") is True:
                result.truncated = True
            step.results[key] = result

    def finish(self) -> Trajectory | None:
        if not any(s.source != "system" for s in self.steps):
            return None
        last = self.steps[-1]
        if self.source.cut and last.source == "agent" and last.stop is None:
            last.stop = False
        return Trajectory(
            string(self.first.get("sessionId")) or self.source.path.stem,
            FORMAT,
            "qwen-code",
            self.steps,
            str(self.source.path),
            string(self.first.get("version")),
            self.model,
            string(self.first.get("cwd")),
            skipped=self.source.skipped.copy(),
        )
