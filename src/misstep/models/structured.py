"""Answers in a given form: found in what the model said, validated, and asked for again where they are not valid."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeVar

from misstep.models.request import Message

if TYPE_CHECKING:
    from pydantic import BaseModel

    T = TypeVar("T", bound=BaseModel)

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)
_SHOWN = 1500


def parse(text: str, form: type[T]) -> T:
    """The answer in a text: the whole, what a code fence holds, or the last JSON object in it.

    Raises:
        ValueError: what is wrong with it, in words that the model can act on.
    """
    from pydantic import ValidationError

    problem = "no JSON object in it"
    for candidate in _candidates(text):
        try:
            given = json.loads(candidate)
        except ValueError as error:
            problem = f"not valid JSON: {error}"
            continue
        if not isinstance(given, dict):
            problem = f"a JSON object was expected, not {type(given).__name__}"
            continue
        try:
            return form.model_validate(given)
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}" for one in error.errors()[:5]]
            problem = "; ".join(lines)
    raise ValueError(problem)


def _candidates(text: str) -> list[str]:
    whole = text.strip()
    found = [whole, *reversed(_FENCE.findall(text))]
    last = _last_object(whole)
    if last is not None:
        found.append(last)
    return found


def _last_object(text: str) -> str | None:
    decoder = json.JSONDecoder()
    found, at = None, 0
    while (at := text.find("{", at)) >= 0:
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        found, at = text[at:end], end
    return found


def repair(said: str, problem: str) -> list[Message]:
    """What is added to the conversation after an answer that is not valid."""
    shown = said if len(said) <= _SHOWN else said[:_SHOWN] + " ..."
    return [
        Message("assistant", shown or "(empty)"),
        Message(
            "user",
            f"That answer cannot be used: {problem}. Answer again, with one JSON object of the form asked for and nothing else.",
        ),
    ]


def asked(schema: dict[str, Any]) -> str:
    """How the form is asked for where the server does not hold the model to it."""
    return f"Answer with one JSON object that fits this JSON schema, and nothing else:\n{json.dumps(schema)}"
