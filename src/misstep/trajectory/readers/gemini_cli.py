"""Gemini CLI: a session as one JSON document, as JSONL with patches (`$set`, `$rewindTo`), or as a dump of the API's contents.

In a session file a message holds its calls and their results. In JSONL a later line with the same id replaces the
earlier one. A dump is a list of {role: user | model, parts}; its results are in the next user content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..model import Step, Trajectory
from ._calls import call_of
from ._common import said, text_of, time_of
from ._fields import listing, mapping, number, objects, string
from ._gemini import responses, result_of, split
from .source import Source

FORMAT = "gemini-cli"

_MESSAGES = frozenset({"user", "gemini", "info", "warning", "error"})
_SETUP = "We are setting up the context for our chat"
_CANCELLED = re.compile(r"Request cancelled|User cancelled the request|Operation cancelled", re.I)
_COMPRESSED = re.compile(r"(?:Chat history|Context) compressed|compressed from \d", re.I)


def matches(source: Source) -> bool:
    """JSONL whose head has a session's header or messages, or a document with a session's messages or contents."""
    if source.head:
        return any(_is_header(r) or "$rewindTo" in r or _is_message(r) for r in source.head)
    value = source.document
    if isinstance(value, dict):
        if _is_header(value):
            return "messages" not in value or isinstance(value["messages"], list)
        value = value.get("history")
    return isinstance(value, list) and bool(value) and all(_is_content(c) for c in value[:4])


def _is_header(record: dict[str, Any]) -> bool:
    return isinstance(record.get("sessionId"), str) and "projectHash" in record and "startTime" in record


def _is_message(record: dict[str, Any]) -> bool:
    return record.get("type") == "gemini" and "content" in record and "id" in record


def _is_content(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") in ("user", "model") and isinstance(value.get("parts"), list)


def read(source: Source) -> Iterator[Trajectory]:
    """One trajectory. A sub-agent's session (`kind: subagent`) is a file of its own."""
    value = source.document
    if not source.head and not (isinstance(value, dict) and "projectHash" in value):
        contents = value if isinstance(value, list) else mapping(value).get("history")
        found = _of_contents(source, objects(contents))
    else:
        header, messages = _merged(source) if source.head else (value, objects(value.get("messages")))
        found = _of_messages(source, header, messages)
    if found is not None:
        yield found


def _merged(source: Source) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(header, messages) of a JSONL session after all its patches."""
    header: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    for line, record in source.stream():
        if "$set" in record:
            patch = mapping(record["$set"])
            if isinstance(patch.get("messages"), list):
                messages = {string(m.get("id")) or f"{line}/{n}": m for n, m in enumerate(objects(patch["messages"]))}
            header.update({k: v for k, v in patch.items() if k != "messages"})
        elif "$rewindTo" in record:
            keys = list(messages)
            wanted = string(record["$rewindTo"])
            if wanted in messages:
                gone = keys[keys.index(wanted) :]
                source.skipped["rewound by the user"] += len(gone)
                for key in gone:
                    del messages[key]
            else:
                source.skipped["rewind to an unknown message"] += 1
        elif string(record.get("type")) in _MESSAGES and "content" in record:
            messages[string(record.get("id")) or f"line {line}"] = record
        elif _is_header(record):
            header.update({k: v for k, v in record.items() if k != "messages"})
        else:
            source.skipped[f"unknown record: {str(record.get('type'))[:40]}"] += 1
    return header, list(messages.values())


def _of_messages(source: Source, header: dict[str, Any], messages: list[dict[str, Any]]) -> Trajectory | None:
    steps: list[Step] = []
    late: dict[str, tuple[Step, str]] = {}
    """Calls with no result in their own message: call id -> (step, kind)."""
    for message in messages:
        kind, text = message.get("type"), text_of(message.get("content"))
        step = Step("system", text, time=time_of(message.get("timestamp")), id=string(message.get("id")))
        if kind == "user":
            given = responses(message.get("content"))
            for response in given:
                if string(response.get("id")) in late:
                    owner, tool_kind = late.pop(string(response.get("id")))
                    owner.results[string(response.get("id"))] = result_of(response.get("response"), tool_kind, "")
            if given:
                continue
            step.source = "user"
            step.compacted = text.lstrip().startswith("<state_snapshot>")
            spoken = said(text)
            step.message, step.prompt = spoken or text, bool(spoken)
        elif kind == "gemini":
            _fill(step, message, late)
        elif kind in ("info", "warning", "error"):
            step.interrupted = kind == "info" and bool(_CANCELLED.match(text.strip()))
            step.compacted = kind == "info" and bool(_COMPRESSED.search(text))
            if kind == "error":
                step.extra["harness"] = "error"
        else:
            source.skipped[f"unknown message: {str(kind)[:40]}"] += 1
            continue
        steps.append(step)
    return _trajectory(source, header, steps)


def _fill(step: Step, message: dict[str, Any], late: dict[str, tuple[Step, str]]) -> None:
    step.source, step.model = "agent", string(message.get("model"))
    step.reasoning = "\n".join(
        ": ".join(t for t in (string(thought.get("subject")), string(thought.get("description"))) if t)
        for thought in objects(message.get("thoughts"))
    )
    tokens = mapping(message.get("tokens"))
    output = number(tokens.get("output"))
    for name, value in (
        ("prompt_tokens", number(tokens.get("input"))),
        ("cached_tokens", number(tokens.get("cached"))),
        ("completion_tokens", None if output is None else output + (number(tokens.get("thoughts")) or 0)),
    ):
        if value is not None:
            step.metrics[name] = value
    tools = objects(message.get("toolCalls"))
    # One call's result may hold the responses of all calls of the message.
    every = {string(r.get("id")): r for t in tools for r in responses(t.get("result"))}
    for place, tool in enumerate(tools):
        key = string(tool.get("id")) or f"{step.id}/{place}"
        call = call_of(key, string(tool.get("name")), mapping(tool.get("args")))
        step.calls.append(call)
        status, result = string(tool.get("status")), tool.get("result")
        own = responses(result)
        response = every.get(key) or (own[0] if len(own) == 1 else None)
        if response is not None:
            step.results[key] = result_of(response.get("response"), call.kind, status)
        elif isinstance(result, str) or status == "cancelled":
            step.results[key] = result_of({"output": string(result)}, call.kind, status)
        else:
            late[key] = (step, call.kind)


def _of_contents(source: Source, contents: list[dict[str, Any]]) -> Trajectory | None:
    steps: list[Step] = []
    pending: list[tuple[Step, str, str, str]] = []
    """Calls that wait: (step, call id, tool, kind). A response with no id belongs to the first of its name."""
    setup = False
    for place, content in enumerate(contents):
        text, thoughts, calls = split(content.get("parts"))
        key = f"content {place}"
        if content.get("role") == "model":
            if setup and not calls:
                setup = False  # the model's nod to the context that the harness set up
                continue
            step = Step("agent", text, thoughts, id=key)
            for number_, made in enumerate(calls):
                call = call_of(
                    string(made.get("id")) or f"{key}/{number_}", string(made.get("name")), mapping(made.get("args"))
                )
                step.calls.append(call)
                pending.append((step, call.id, call.tool, call.kind))
            steps.append(step)
            continue
        given = responses(content.get("parts"))
        for response in given:
            wanted, name = string(response.get("id")), string(response.get("name"))
            at = next(
                (n for n, p in enumerate(pending) if p[1] == wanted or (not wanted and p[2] == name)),
                None,
            )
            if at is None:
                source.skipped["result without a call"] += 1
                continue
            owner, call_id, _, tool_kind = pending.pop(at)
            owner.results[call_id] = result_of(response.get("response"), tool_kind, "")
        if given and not text.strip():
            continue
        setup = _SETUP in text[:2000]
        spoken = "" if setup else said(text)
        step = Step("user", spoken or text, id=key, prompt=bool(spoken))
        step.compacted = "<state_snapshot>" in text[:2000]
        steps.append(step)
    return _trajectory(source, {}, steps)


def _trajectory(source: Source, header: dict[str, Any], steps: list[Step]) -> Trajectory | None:
    if not any(s.source != "system" for s in steps):
        source.skipped["no message of a user or a model"] += 1
        return None
    last = steps[-1]
    if source.cut and last.source == "agent" and not last.calls:
        last.stop = False
    for step in steps:
        if step.calls:
            step.stop = False
    found = Trajectory(
        string(header.get("sessionId")) or source.path.stem,
        FORMAT,
        "gemini-cli",
        steps,
        str(source.path),
        model=next((s.model for s in reversed(steps) if s.model), ""),
        skipped=source.skipped.copy(),
    )
    folders = [d for d in listing(header.get("directories")) if isinstance(d, str)]
    found.cwd = folders[0] if folders else ""
    return found
