"""What OpenHands writes into messages for models without function calling."""

from __future__ import annotations

import re

from ..model import Call
from ._calls import call_of

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
