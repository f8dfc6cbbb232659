"""What terminus answers with: JSON or XML with keystrokes for a terminal, in plain text."""

from __future__ import annotations

import json
import re
from typing import Any

from ..model import Step
from ._calls import call_of
from ._fields import listing, mapping, number, string

PARSE_ERROR = "Previous response had parsing errors"
"""The observation begins so where the answer could not be read: nothing of it was run."""
DONE_QUESTION = "Are you sure you want to mark the task as complete?"
"""The observation after the first `task_complete`: it takes a second one to end the run."""
_TASK = re.compile(r"(?:^|\n)Task Description:\n(.*?)\n\nCurrent terminal state:", re.DOTALL)
_KEYSTROKES = re.compile(r"<keystrokes([^>]*)>(.*?)</keystrokes>", re.DOTALL)
_DURATION = re.compile(r"duration\s*=\s*\"([0-9.]+)\"")
_COMPLETE = re.compile(r"<task_complete>\s*true\s*</task_complete>", re.IGNORECASE)


def task_in_prompt(prompt: str) -> str:
    """The task in terminus's first prompt, the whole prompt where its frame is not found."""
    found = _TASK.search(prompt)
    return found.group(1).strip() if found else prompt


def terminus_answer(step: Step, said: str, prefix: str) -> bool:
    """Fill a step with the calls (and, where it has none, the message) of an answer; False where it is no answer of terminus."""
    if "<response>" in said and "<commands>" in said:
        found: dict[str, Any] = {"commands": _xml_commands(said), "task_complete": bool(_COMPLETE.search(said))}
    else:
        found = _json_object(said)
    commands = [
        c for c in listing(found.get("commands")) if isinstance(c, dict) and isinstance(c.get("keystrokes"), str)
    ]
    complete = found.get("task_complete", found.get("is_task_complete"))
    if "commands" not in found and complete is None:
        step.message = step.message or said
        return False
    words = [string(found.get(key)) for key in ("analysis", "state_analysis", "plan", "explanation")]
    step.message = step.message or "\n".join(word for word in words if word) or said
    for at, command in enumerate(commands):
        step.calls.append(call_of(f"{prefix}.{at}", "bash_command", _arguments(command)))
    if complete is True:
        step.calls.append(call_of(f"{prefix}.complete", "mark_task_complete", {}))
    return True


def _arguments(command: dict[str, Any]) -> dict[str, Any]:
    duration = number(command.get("duration", command.get("timeout_sec")))
    return {"keystrokes": command["keystrokes"], **({} if duration is None else {"duration": duration})}


def _xml_commands(said: str) -> list[dict[str, Any]]:
    found = []
    for attributes, keys in _KEYSTROKES.findall(said):
        duration = _DURATION.search(attributes)
        found.append({"keystrokes": keys, **({"duration": float(duration.group(1))} if duration else {})})
    return found


def _json_object(said: str) -> dict[str, Any]:
    """The JSON object in an answer, {} where there is none that parses: text around it is left out."""
    start = said.find("{")
    if start < 0:
        return {}
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(said, start)
    except (ValueError, RecursionError):
        return {}
    return mapping(value)
