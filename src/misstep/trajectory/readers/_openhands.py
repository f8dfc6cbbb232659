"""What OpenHands of every age has in common: texts in messages, and how an evaluation judged."""

from __future__ import annotations

import re
from typing import Any

from ..model import Call, Outcome
from ._calls import call_of
from ._fields import mapping, number, string

_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>(.*?)</parameter>", re.DOTALL)
_TASK = re.compile(r"NEW TASK DESCRIPTION -+\n(.*?)\n-+ END OF NEW TASK DESCRIPTION", re.DOTALL)


def message_calls(message: str, prefix: str) -> list[Call]:
    """The calls in a message, in order."""
    found = []
    for at, function in enumerate(_FUNCTION.finditer(message)):
        arguments = {name: value.strip("\n") for name, value in _PARAMETER.findall(function.group(2))}
        found.append(call_of(f"{prefix}.{at}", function.group(1), arguments))
    return found


def task_in_example(prompt: str) -> str:
    """The task in a first prompt that begins with a worked example, the prompt itself where it has none."""
    found = _TASK.search(prompt)
    return found.group(1).strip() if found else prompt


def outcome_of(record: dict[str, Any]) -> Outcome:
    """The outcome in an evaluation record; passed is None where it was not judged."""
    report = mapping(record.get("report")) or mapping(mapping(record.get("test_result")).get("report"))
    resolved = report.get("resolved")
    passed = resolved if isinstance(resolved, bool) else None
    error = string(record.get("error"))
    return Outcome(
        passed=passed,
        reward=None if passed is None else float(passed),
        task=string(record.get("instance_id")),
        exception=error.split(":", 1)[0][:80],
        cost_usd=number(mapping(record.get("metrics")).get("accumulated_cost")),
    )
