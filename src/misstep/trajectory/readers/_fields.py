"""Reading JSON fields that may be missing or of another type than the format says."""

from __future__ import annotations

import json
import math
from typing import Any

from ._common import text_of as text
from ._common import time_of as seconds

__all__ = [
    "between",
    "integer",
    "listing",
    "mapping",
    "metrics",
    "number",
    "objects",
    "parsed",
    "seconds",
    "string",
    "text",
]


def mapping(value: Any) -> dict[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    """The value where it is text, else ''."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """A finite number, else None (truth values are none)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if math.isfinite(found) else None
    return None


def integer(value: Any) -> int | None:
    """A whole number, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def parsed(value: Any) -> Any:
    """The value a JSON string stands for; anything else, and text that is not JSON, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def between(start: Any, end: Any) -> float | None:
    """Seconds from one time to another, None where one is unknown or they are the wrong way round."""
    begun, ended = seconds(start), seconds(end)
    return ended - begun if begun is not None and ended is not None and ended >= begun else None


def metrics(**values: Any) -> dict[str, float]:
    """Those metrics that are numbers."""
    found = {name: number(value) for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not None}
