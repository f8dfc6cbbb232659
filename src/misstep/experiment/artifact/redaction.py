"""Credentials out of what is shared: every text, and every value whose name says that it is one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import tomllib

from misstep.experiment.attempts import Attempt
from misstep.scan.redact import MARK, redact

_NAMED = re.compile(
    r"pass(?:word|wd|phrase)|secret|token$|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth[_-]?key|authorization",
    re.I,
)
_NOTHING = re.compile(r"\$\{\w+\}|\*+|none|null|unused|dummy|not[ -]needed", re.I)
"""What stands where a credential would, and is none."""


def value_of(value: Any, name: str = "") -> Any:
    """JSON with its texts redacted; a text whose name is one of a credential goes whole, unless it is a ${VARIABLE}."""
    if isinstance(value, str):
        if _NAMED.search(name) and len(value) > 3 and not _NOTHING.fullmatch(value):
            return MARK
        return redact(value)
    if isinstance(value, Mapping):
        return {key: value_of(one, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [value_of(one, name) for one in value]
    return value


def attempt_of(attempt: Attempt) -> Attempt:
    """An attempt with its free texts redacted: nothing that a number is made of."""
    return replace(
        attempt,
        fault=redact(attempt.fault),
        exception=redact(attempt.exception),
        extra=value_of(attempt.extra),
    )


def text_of(name: str, text: str) -> str:
    """A file's text, redacted: JSON, JSON lines and TOML value by value, so that they stay what they are."""
    if name.endswith(".toml"):
        return _toml(text)
    if name.endswith(".json"):
        return _document(text, indent=1)
    if name.endswith(".jsonl"):
        return "\n".join(_document(line) if line.strip() else line for line in text.split("\n"))
    return redact(text)


def _document(text: str, indent: int | None = None) -> str:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    clean = value_of(given)
    end = "\n" if text.endswith("\n") else ""
    return text if clean == given else json.dumps(clean, ensure_ascii=False, indent=indent) + end


def _toml(text: str) -> str:
    """Each value that is to go is replaced where it stands; comments are redacted as text."""
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return redact(text)
    clean = value_of(given)
    made = "\n".join(
        before + mark + redact(comment) for before, mark, comment in (one.partition("#") for one in text.split("\n"))
    )
    for old, new in sorted(_changes(given, clean), key=lambda pair: -len(pair[0])):
        made = made.replace(old, new)
    try:
        return made if tomllib.loads(made) == clean else redact(text)
    except tomllib.TOMLDecodeError:
        return redact(text)


def _changes(given: Any, clean: Any) -> Iterator[tuple[str, str]]:
    if isinstance(given, str):
        if given != clean:
            yield given, clean
    elif isinstance(given, Mapping):
        for key, one in given.items():
            yield from _changes(one, clean[key])
    elif isinstance(given, list):
        for one, other in zip(given, clean, strict=True):
            yield from _changes(one, other)
