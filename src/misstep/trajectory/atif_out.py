"""Writing ATIF 1.8 that Harbor's own models accept.

What ATIF has no field for (exit codes, faults, shared observations, what is a prompt, where a turn ended) is kept under
`extra.misstep` of the step, call or result, and only where the ATIF reader would not find it by itself: `read(write(t))`
gives the same events as `t`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .model import Call, Result, Step, Trajectory
from .readers._calls import call_of
from .readers.atif import OWN

VERSION = "ATIF-v1.8"
_CALL_FIELDS = ("kind", "command", "background", "timeout", "cwd")
_RESULT_FIELDS = ("exit_code", "failed", "fault", "truncated", "shared", "running", "timed_out", "seconds")
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


def write(trajectory: Trajectory, children: Iterable[Trajectory] = ()) -> dict[str, Any]:
    """The trajectory as an ATIF 1.8 document, its sub-agents (`children`) embedded.

    Raises ValueError where it has no steps: ATIF needs one.
    """
    if not trajectory.steps:
        raise ValueError(f"{trajectory.id}: no steps, and ATIF needs one")
    own: dict[str, Any] = {"format": trajectory.format}
    for name in ("cwd", "parent"):
        if getattr(trajectory, name):
            own[name] = getattr(trajectory, name)
    if trajectory.outcome is not None:
        own["outcome"] = _outcome(trajectory)
    if trajectory.skipped:
        own["skipped"] = dict(trajectory.skipped)
    document: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": _some(
            name=trajectory.agent or "unknown",
            version=trajectory.agent_version or "unknown",
            model_name=trajectory.model or None,
        ),
        "steps": [_step(step, at) for at, step in enumerate(trajectory.steps, 1)],
        "final_metrics": _totals(trajectory),
        "extra": {OWN: own},
    }
    inner = [write(child) for child in children if child.steps]
    if inner:
        _unique(inner, trajectory.id)
        document["subagent_trajectories"] = inner
    return {key: value for key, value in document.items() if value is not None}


def write_file(trajectory: Trajectory, path: str | os.PathLike[str], children: Iterable[Trajectory] = ()) -> Path:
    """Write the document to a file, whole or not at all. Raises ValueError (no steps) or OSError."""
    target = Path(path)
    text = json.dumps(write(trajectory, children), ensure_ascii=False, indent=1, allow_nan=False)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text + "\n")
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _some(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _unique(documents: list[dict[str, Any]], root: str) -> None:
    seen = {root}
    for document in documents:
        name, at = document["trajectory_id"], 1
        while document["trajectory_id"] in seen:
            at += 1
            document["trajectory_id"] = f"{name}-{at}"
        seen.add(document["trajectory_id"])


def _stamp(time: float | None) -> str | None:
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time, timezone.utc).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def _step(step: Step, at: int) -> dict[str, Any]:
    agent = step.source == "agent"
    # the reader sets these by what it sees; saying them always is shorter than guessing what it will see
    own: dict[str, Any] = {"stop": step.stop, "prompt": step.prompt} if step.source != "system" else {}
    own.update({name: True for name in ("interrupted", "compacted") if getattr(step, name)})
    if step.source == "user":
        own["message"] = step.message
    if step.id and step.id != str(at):
        own["id"] = step.id
    if step.extra:
        own["extra"] = _plain(step.extra)
    call_ids = _call_ids(step.calls)
    calls = [_call(call, identity) for call, identity in zip(step.calls, call_ids, strict=True)]
    results = [
        _result(step.results[call.id], identity)
        for call, identity in zip(step.calls, call_ids, strict=True)
        if call.id in step.results
    ]
    document = _some(
        step_id=at,
        timestamp=_stamp(step.time),
        source=step.source if step.source in ("system", "user", "agent") else "system",
        message=step.message,
        is_copied_context=True if step.copied else None,
    )
    if agent:
        document.update(_some(model_name=step.model or None, reasoning_content=step.reasoning or None))
        document.update(_some(tool_calls=calls or None, metrics=_metrics(step)))
    if results:
        document["observation"] = {"results": results}
    if own:
        document["extra"] = {OWN: own}
    return document


def _call_ids(calls: list[Call]) -> list[str]:
    """The calls' ids, made unique within the step."""
    found: list[str] = []
    for at, call in enumerate(calls):
        identity = call.id or f"call-{at}"
        found.append(identity if identity not in found else f"{identity}-{at}")
    return found


def _call(call: Call, identity: str) -> dict[str, Any]:
    arguments = _plain(call.arguments)
    seen = call_of(identity, call.tool or "unknown", arguments)
    own = {name: getattr(call, name) for name in _CALL_FIELDS if getattr(call, name) != getattr(seen, name)}
    if call.paths != seen.paths:
        own["paths"] = list(call.paths)
    if call.edits != seen.edits:
        own["edits"] = [list(edit) for edit in call.edits]
    return _some(
        tool_call_id=identity,
        function_name=call.tool or "unknown",
        arguments=arguments,
        extra={OWN: own} if own else None,
    )


def _plain(value: Any) -> Any:
    """The value as JSON knows it."""
    return json.loads(json.dumps(value, default=str))


def _result(result: Result, identity: str) -> dict[str, Any]:
    own = {name: getattr(result, name) for name in _RESULT_FIELDS}
    return {
        "source_call_id": identity,
        "content": result.output,
        "extra": _some(exit_code=result.exit_code) | {OWN: own},
    }


def _metrics(step: Step) -> dict[str, Any] | None:
    found: dict[str, Any] = {name: int(step.metrics[name]) for name in _COUNTS if name in step.metrics}
    if "cost_usd" in step.metrics:
        found["cost_usd"] = step.metrics["cost_usd"]
    more = {name: value for name, value in step.metrics.items() if name not in (*_COUNTS, "cost_usd")}
    if more:
        found["extra"] = more
    return found or None


def _totals(trajectory: Trajectory) -> dict[str, Any]:
    own = [step for step in trajectory.steps if not step.copied]
    found: dict[str, Any] = {"total_steps": len(trajectory.steps)}
    for name in _COUNTS:
        values = [step.metrics[name] for step in own if name in step.metrics]
        if values:
            found[f"total_{name}"] = int(sum(values))
    costs = [step.metrics["cost_usd"] for step in own if "cost_usd" in step.metrics]
    if costs:
        found["total_cost_usd"] = sum(costs)
    return found


def _outcome(trajectory: Trajectory) -> dict[str, Any]:
    outcome = trajectory.outcome
    assert outcome is not None
    return _some(
        passed=outcome.passed,
        reward=outcome.reward,
        task=outcome.task or None,
        attempt=outcome.attempt or None,
        fault=outcome.fault,
        exception=outcome.exception or None,
        cost_usd=outcome.cost_usd,
        seconds=outcome.seconds,
    )
