"""SWE-agent `.traj` files of every age: trajectory and history, or a history alone.

No exit code is recorded, so whether a command failed is unknown. `info.exit_status` tells how the run ended and nothing of
its success (demonstrations are `submitted` too): that stands in a `report.json` beside the file, where there is one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Call, Outcome, Result, Step, Trajectory
from ._calls import arguments_of, call_of
from ._common import is_cut
from ._fields import listing, mapping, number, objects, parsed, string, text
from .source import Source

FORMAT = "swe-agent"

_READS = ("open", "goto", "scroll_up", "scroll_down")
_SEARCHES = ("find_file", "search_dir", "search_file", "search_dir_and_preview")
_EDITS = ("edit", "insert")
_NO_COMMANDS = ("exit_cost", "exit_context", "exit_format", "exit_error", "exit_forfeit", "exit_api", "skip")
_TASK = re.compile(r"(?:^|\n)ISSUE:\n(.*?)\n\s*\n(?:\s*\n)*INSTRUCTIONS:", re.DOTALL)
_PROMPT_LINES = re.compile(r"\n?\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\n(?:bash-)?\$\s*$")
_TIMED_OUT = re.compile(r"EXECUTION TIMED OUT|was cancelled because it took more than \d+ seconds")
_EDIT_REFUSED = "Your proposed edit has introduced new syntax error"
"""The linter took the edit back."""
_MAX_FILE = 64 << 20


def matches(source: Source) -> bool:
    """Steps of action and observation, or a history with SWE-agent's own marks."""
    if b'"trajectory"' not in source.edges and b'"history"' not in source.edges:
        return False
    document = source.document
    if not isinstance(document, dict):
        return False
    steps = objects(document.get("trajectory"))
    if steps:
        return all("action" in step and "observation" in step for step in steps[:3]) and (
            "history" in document or "info" in document or "environment" in document
        )
    history = objects(document.get("history"))
    return bool(history) and all("role" in m and ("message_type" in m or "agent" in m) for m in history[:3])


def read(source: Source) -> Iterator[Trajectory]:
    """The one trajectory of the file."""
    document = mapping(source.document)
    info, history = mapping(document.get("info")), objects(document.get("history"))
    found = Trajectory(source.path.name.removesuffix(".traj"), FORMAT, FORMAT)
    found.agent_version = string(info.get("swe_agent_version"))
    config = mapping(parsed(document.get("replay_config")))
    found.model = string(mapping(mapping(config.get("agent")).get("model")).get("name"))
    for message in history:
        if message.get("role") in ("assistant", "tool"):
            break
        if message.get("role") == "system":
            found.steps.append(Step("system", text(message.get("content"))))
        elif message.get("role") == "user":
            found.steps.append(_user(found, message))
    given = objects(document.get("trajectory"))
    if given:
        _from_trajectory(found, given, history)
    else:
        _from_history(found, history)
    if not found.steps:
        source.skipped["no messages"] += 1
        return
    _stops(found, string(info.get("exit_status")))
    found.outcome = _outcome(source.path, info)
    yield found


def _user(found: Trajectory, message: dict[str, Any]) -> Step:
    content = text(message.get("content"))
    step = Step("user", content)
    if message.get("is_demo") or content.startswith("Here is a demonstration of how to correctly accomplish"):
        return step
    if not any(earlier.prompt for earlier in found.steps):
        task = _TASK.search(content)
        step.message, step.prompt = (task.group(1).strip() if task else content), True
    return step


def _from_trajectory(found: Trajectory, given: list[dict[str, Any]], history: list[dict[str, Any]]) -> None:
    asked = [m for m in history if m.get("role") == "assistant" and not m.get("is_demo")]
    at = 0
    for number_, item in enumerate(given):
        action = string(item.get("action"))
        tools: list[dict[str, Any]] = []
        for later in range(at, len(asked)):
            if string(asked[later].get("action")) == action:
                tools, at = objects(asked[later].get("tool_calls")), later + 1
                break
        state = mapping(parsed(item.get("state")))
        step = Step("agent", string(item.get("thought")) or string(item.get("response")), stop=False)
        call = _call(f"{number_}", action, tools, string(state.get("open_file")), string(state.get("working_dir")))
        if call is not None:
            step.calls.append(call)
            step.results[call.id] = _result(call, string(item.get("observation")), number(item.get("execution_time")))
        found.steps.append(step)
        found.cwd = found.cwd or string(state.get("working_dir"))


def _from_history(found: Trajectory, history: list[dict[str, Any]]) -> None:
    step: Step | None = None
    for number_, message in enumerate(history):
        content = text(message.get("content"))
        if message.get("is_demo"):
            continue
        if message.get("role") == "assistant":
            step = Step("agent", string(message.get("thought")) or content, stop=False)
            call = _call(f"{number_}", string(message.get("action")), objects(message.get("tool_calls")), "", "")
            if call is not None:
                step.calls.append(call)
            found.steps.append(step)
        elif step is not None and message.get("role") in ("tool", "user") and step.calls and not step.results:
            call = step.calls[0]
            step.results[call.id] = _result(call, _PROMPT_LINES.sub("", content.replace("\r\n", "\n")), None)


def _call(identity: str, action: str, tools: list[dict[str, Any]], open_file: str, cwd: str) -> Call | None:
    words = action.split(None, 1)
    if not words or words[0] in _NO_COMMANDS:
        return None
    name = words[0]
    if tools:
        function = mapping(tools[0].get("function"))
        identity, name = string(tools[0].get("id")) or identity, string(function.get("name")) or name
        given = arguments_of(function.get("arguments"))
        if name not in ("bash", "shell", *_READS, *_SEARCHES, *_EDITS, "create", "submit"):
            return call_of(identity, name, given)
    else:
        given = {"command": action}
    if name == "submit":
        return Call(identity, name, "finish", given)
    known = name in (*_READS, *_SEARCHES, *_EDITS, "create")
    if not known and not tools and name == "str_replace_editor":
        return _editor(identity, action)
    if not known:
        return Call(identity, "bash", "shell", given, command=string(given.get("command")) or action, cwd=cwd or None)
    path = next(
        (given[k] for k in ("path", "filename", "file_name") if isinstance(given.get(k), str)), ""
    ) or _argument(words)
    call = Call(identity, name, "other", given, cwd=cwd or None)
    shown = open_file if open_file not in ("", "n/a") else ""
    if name in _SEARCHES:
        call.kind = "search"
    elif name in _READS:
        call.kind = "read"
        call.paths = tuple(p for p in [path if name == "open" else shown] if p)
    elif name == "create":
        call.kind, call.paths = "write", tuple(p for p in [path] if p)
        call.edits = ((path, "", ""),) if path else ()
    else:
        call.kind, call.paths = "edit", tuple(p for p in [shown] if p)
        old, new = given.get("search"), given.get("replace")
        if shown and isinstance(old, str) and isinstance(new, str):
            call.edits = ((shown, old, new),)
    return call


def _argument(words: list[str]) -> str:
    try:
        found = shlex.split(words[1].splitlines()[0]) if len(words) > 1 else []
    except (ValueError, IndexError):
        return ""
    return next((word for word in found if not word.startswith("-")), "")


def _editor(id: str, action: str) -> Call:
    """`str_replace_editor VERB PATH --old_str ... --new_str ...` written as a shell line."""
    try:
        words = shlex.split(action)
    except ValueError:
        words = []
    given: dict[str, Any] = {}
    names = [word for word in words[1:3] if not word.startswith("--")]
    if len(names) == 2:
        given = {"command": names[0], "path": names[1]}
        options = words[3:]
        for key, value in zip(options[::2], options[1::2], strict=False):
            given[key.lstrip("-")] = value
    call = call_of(id, "str_replace_editor", given)
    return call if given else Call(id, "str_replace_editor", "other", {"command": action})


def _result(call: Call, observation: str, took: float | None) -> Result:
    result = Result(observation, seconds=took, truncated=is_cut(observation))
    if call.kind == "edit" and observation.startswith(_EDIT_REFUSED):
        result.failed = True
    if call.kind == "shell" and _TIMED_OUT.search(observation[-400:]):
        result.failed = result.timed_out = True
    return result


def _stops(found: Trajectory, status: str) -> None:
    """The last submission ends the run; the history alone of a run has no status."""
    last = next((step for step in reversed(found.steps) if step.source == "agent"), None)
    if (
        last is not None
        and any(call.kind == "finish" for call in last.calls)
        and (not status or status.startswith("submitted"))
    ):
        last.stop = True


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_FILE:
            return {}
        return mapping(json.loads(path.read_bytes().decode("utf-8", "replace")))
    except (OSError, ValueError, RecursionError):
        return {}


def _resolved(path: Path, instance: str) -> tuple[bool | None, dict[str, Any]]:
    """Whether a report beside the file says that the instance was resolved, and its tests."""
    for place in (path.parent, path.parent.parent):
        report = _load(place / "report.json")
        own = mapping(report.get(instance))
        if isinstance(own.get("resolved"), bool):
            return own["resolved"], mapping(own.get("tests_status"))
        for key, verdict in (("resolved_ids", True), ("unresolved_ids", False)):
            if instance in listing(report.get(key)):
                return verdict, {}
    return None, {}


def _outcome(path: Path, info: dict[str, Any]) -> Outcome | None:
    instance = path.name.removesuffix(".traj")
    passed, tests = _resolved(path, instance)
    if not info and passed is None:
        return None
    status = string(info.get("exit_status"))
    return Outcome(
        passed=passed,
        reward=None if passed is None else float(passed),
        task=instance,
        fault="infrastructure" if "environment" in status or status.startswith("exit_api") else None,
        exception="" if status == "submitted" else status,
        cost_usd=number(mapping(info.get("model_stats")).get("instance_cost")),
        extra={"exit_status": status, **({"tests": tests} if tests else {})},
    )
