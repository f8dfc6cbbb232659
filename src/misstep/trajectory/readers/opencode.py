"""OpenCode: its database, its storage folder of JSON files, and exports of one session ({info, messages:[{info, parts}]}).

A shell command with a bad exit status is still `completed`: `state.metadata.exit` counts, null where it was killed. A part
that is `running` was cut off by the end of the session. A sub-agent has a session of its own, which names its parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Call, Result, Step, Trajectory
from ._calls import arguments_of, call_of
from ._common import is_cut, said
from ._fields import integer, mapping, metrics, number, objects, seconds, string
from ._opencode_store import Session, is_database, is_folder, is_session, of_database, of_folder, storage_of
from .source import Source

FORMAT = "opencode"

_ABORTED = "MessageAbortedError"
_REFUSED = re.compile(r"rejected permission|The user rejected|user has specified a rule which prevents")
_MALFORMED = re.compile(r"was called with invalid arguments|^Model tried to call unavailable tool|^Invalid tool")
_KILLED = re.compile(r"<(?:bash|shell)_metadata>\n(?:bash|shell) tool terminated command after exceeding timeout")
_BROKEN_OFF = re.compile(r"<(?:bash|shell)_metadata>\n(?:[^\n]*\n)?User aborted the command")


def matches(source: Source) -> bool:
    """A database with OpenCode's tables, a session's file in a storage folder, or an export: messages with parts."""
    edges = source.edges
    if edges.startswith(b"SQLite"):
        return is_database(source.path, edges)
    if b'"ses_' in edges and b'"time"' in edges and is_session(source.document):
        return storage_of(source.path) is not None
    if b'"info"' not in edges:
        return False
    document = source.document
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        return False
    info, messages = mapping(document.get("info")), objects(document["messages"])
    if not isinstance(info.get("id"), str) or not ("directory" in info or "projectID" in info):
        return False
    return all(isinstance(m.get("parts"), list) and "role" in mapping(m.get("info")) for m in messages[:5])


def matches_folder(folder: Path, names: frozenset[str]) -> bool:
    """The storage folder of versions before 1.2."""
    return is_folder(folder, names)


def read(source: Source) -> Iterator[Trajectory]:
    """A trajectory a session that has messages: one of a file, any number of a database or a storage folder."""
    for session in _sessions(source):
        found = _trajectory(session)
        if found.steps:
            yield found
        else:
            source.skipped["no messages"] += 1


def _sessions(source: Source) -> Iterator[Session]:
    if source.path.is_dir():
        yield from of_folder(source.path)
    elif source.edges.startswith(b"SQLite"):
        yield from of_database(source.path)
    elif is_session(source.document):
        storage = storage_of(source.path)
        if storage is not None:
            yield from of_folder(storage, source.path)
    else:
        document = mapping(source.document)
        session = Session(mapping(document.get("info")))
        session.messages = [mapping(message) for message in document.get("messages") or []]
        yield session


def _trajectory(session: Session) -> Trajectory:
    info = session.info
    found = Trajectory(
        string(info.get("id")),
        FORMAT,
        FORMAT,
        path=session.path,
        agent_version=string(info.get("version")),
        cwd=string(info.get("directory")),
        parent=string(info.get("parentID")),
        skipped=session.skipped,
    )
    for message in session.messages:
        head, parts = mapping(message.get("info")), objects(message.get("parts"))
        if head.get("role") == "user":
            _user(found, head, parts)
        elif head.get("role") == "assistant":
            _agent(found, head, parts)
        else:
            found.skipped["message of an unknown role"] += 1
    return found


def _user(found: Trajectory, head: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    texts = [part for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    own = said("\n".join(part["text"] for part in texts if not part.get("synthetic") and not part.get("ignored")))
    whole = own or "\n".join(part["text"] for part in texts)
    step = Step("user", whole, time=seconds(mapping(head.get("time")).get("created")), id=string(head.get("id")))
    step.prompt = bool(own)
    step.compacted = any(part.get("type") == "compaction" for part in parts)
    found.steps.append(step)


def _agent(found: Trajectory, head: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    step = Step("agent", time=seconds(mapping(head.get("time")).get("created")), id=string(head.get("id")))
    step.model = string(head.get("modelID"))
    found.model = found.model or step.model
    tokens = mapping(head.get("tokens"))
    cached = number(mapping(tokens.get("cache")).get("read"))
    fresh = number(tokens.get("input"))
    step.metrics = metrics(
        prompt_tokens=None if fresh is None else fresh + (cached or 0),
        completion_tokens=tokens.get("output"),
        cached_tokens=cached,
        cost_usd=head.get("cost"),
    )
    step.compacted = head.get("summary") is True
    error = mapping(head.get("error"))
    aborted = error.get("name") == _ABORTED
    said_, thought = [], []
    for part in parts:
        kind = part.get("type")
        if kind == "text" and not part.get("synthetic"):
            said_.append(string(part.get("text")))
        elif kind == "reasoning":
            thought.append(string(part.get("text")))
        elif kind == "tool":
            _tool(step, part)
    step.message, step.reasoning = "\n".join(filter(None, said_)), "\n".join(filter(None, thought))
    if error:
        step.stop = False
        step.extra["error"] = string(error.get("name"))
    if string(head.get("finish")) in ("tool-calls", "length"):
        step.stop = False
    found.steps.append(step)
    if aborted:
        found.steps.append(Step("user", time=seconds(mapping(head.get("time")).get("completed")), interrupted=True))


def _tool(step: Step, part: dict[str, Any]) -> None:
    state = mapping(part.get("state"))
    call = call_of(
        string(part.get("callID")) or string(part.get("id")) or f"{step.id}.{len(step.calls)}",
        string(part.get("tool")) or "unknown",
        arguments_of(state.get("input")),
    )
    if call.kind == "shell" and number(call.arguments.get("timeout")) is not None:
        call.timeout = float(call.arguments["timeout"]) / 1000
    step.calls.append(call)
    result = _result(call, state)
    if result is not None:
        step.results[call.id] = result


def _result(call: Call, state: dict[str, Any]) -> Result | None:
    extra, time = mapping(state.get("metadata")), mapping(state.get("time"))
    start, end = seconds(time.get("start")), seconds(time.get("end"))
    status = state.get("status")
    if status == "running":
        return Result(string(extra.get("output")), fault="interrupted")
    if status == "error":
        error = string(state.get("error"))
        result = Result(string(extra.get("output")) or error, failed=True)
        if error == "Tool execution aborted":
            result.fault = "interrupted"
        elif _REFUSED.search(error):
            result.fault = "refused"
        elif call.tool == "invalid" or _MALFORMED.search(error):
            result.fault = "malformed"
        if result.fault:
            result.failed = None
    elif status == "completed":
        output = string(state.get("output"))
        result = Result(output, truncated=extra.get("truncated") is True or is_cut(output))
        if call.kind == "shell":
            result.exit_code = integer(extra.get("exit"))
            if result.exit_code is not None:
                result.failed = result.exit_code != 0
            elif _KILLED.search(output[-500:]):
                result.failed = result.timed_out = True
            elif _BROKEN_OFF.search(output[-500:]):
                result.fault = "interrupted"
            if output == "(no output)":
                result.output = ""
        elif call.tool == "invalid":
            result.fault = "malformed"
        else:
            result.failed = False
    else:
        return None
    result.seconds = end - start if start is not None and end is not None and end >= start else None
    return result
