"""What the lines of a result file look like: a file that was changed, or is another program's, is told by it."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 1 << 53
"""No count is larger: it would not survive JSON elsewhere, nor a division."""


class _Is:
    """A value that a test accepts, and what to call such a value."""

    def __init__(self, what: str, test: Any) -> None:
        self.what, self.test = what, test


class _Or:
    """A value of one of the shapes."""

    def __init__(self, *shapes: Any) -> None:
        self.shapes = shapes


TEXT = _Is("a text", lambda v: isinstance(v, str))
TRUTH = _Is("true or false", lambda v: isinstance(v, bool))
COUNT = _Is("a count", lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v < _LARGEST)
CODE = _Is("a number", lambda v: isinstance(v, int) and not isinstance(v, bool))
NUMBER = _Is("a number", lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) < 1e300)
NOTHING = _Is("null", lambda v: v is None)
HASHES = _Is("hashes", lambda v: isinstance(v, str) and len(v) % 12 == 0 and not re.search("[^0-9a-f]", v))

_CALL = {
    "tool": TEXT,
    "text": TEXT,
    "output?": TEXT,
    "fault?": TEXT,
    "exit_code?": CODE,
    **{f"{name}?": TRUTH for name in ("shell", "background", "missing", "failed", "truncated", "running")},
}
_VIEW = {
    "who": TEXT,
    "text": TEXT,
    "time?": NUMBER,
    "more?": COUNT,
    "calls?": [_CALL],
    **{f"{name}?": TRUTH for name in ("interrupted", "compacted", "copied")},
}
_AT = {"misstep": TEXT, "step": COUNT, "call": _Or(NOTHING, COUNT), "event": COUNT}
_OUTCOME = {
    "passed": _Or(NOTHING, TRUTH),
    "reward": _Or(NOTHING, NUMBER),
    "task": TEXT,
    "attempt": TEXT,
    "fault": _Or(NOTHING, TEXT),
    "exception": TEXT,
}
TRAJECTORY = {
    "path": TEXT,
    "n": COUNT,
    **dict.fromkeys(("id", "format", "agent", "agent_version", "model", "parent", "title"), TEXT),
    **dict.fromkeys(("started", "ended"), _Or(NOTHING, NUMBER)),
    **dict.fromkeys(("length", "steps", "calls"), COUNT),
    "outcome": _Or(NOTHING, _OUTCOME),
    "missteps": {TEXT: (COUNT, COUNT, COUNT)},
    "scope": {TEXT: _Or(NOTHING, TRUTH)},
    "occurrences": [{**_AT, "why": TEXT, "command": TEXT, "also": [COUNT]}],
    "firings": [{**_AT, "policy": TEXT, "action": TEXT}],
    "context": {COUNT: _VIEW},
    "skipped": {TEXT: COUNT},
    "errors": {TEXT: TEXT},
    "ids": HASHES,
}
SKIPPED = {"path": TEXT, "reason": TEXT, "partial?": TRUTH}
END = {"units": COUNT, "records": COUNT, "filtered": {TEXT: COUNT}}
HEADER = {
    "misstep": TEXT,
    "missteps": {
        TEXT: {"name": TEXT, "status": TEXT, "scoped": TRUTH, "policies": {TEXT: {"at": TEXT, "action": TEXT}}}
    },
    "filters": {TEXT: _Or(NUMBER, [TEXT])},
    "shard": _Or(NOTHING, (COUNT, COUNT)),
}
KINDS = {"header": HEADER, "trajectory": TRAJECTORY, "skipped": SKIPPED, "end": END}
"""The shape of a line by its `kind`; that of a summary begins like an end."""


def problem(value: Any, shape: Any, name: str = "") -> str:
    """What is wrong with a value read from JSON, '' where it has the shape.

    A shape is one of the above, [of each element], (of the first, of the second, ...), {name: of its value} where a name that
    ends in ? may be missing and others are ignored, or {TEXT or COUNT: of each value} for any names.
    """
    if isinstance(shape, _Is):
        return "" if shape.test(value) else f"{name or 'it'} is not {shape.what}"
    if isinstance(shape, _Or):
        return "" if any(not problem(value, one) for one in shape.shapes) else f"{name} is not what was expected"
    if isinstance(shape, (list, tuple)):
        if not isinstance(value, list) or (isinstance(shape, tuple) and len(value) != len(shape)):
            return f"{name} is not a list" + (f" of {len(shape)}" if isinstance(shape, tuple) else "")
        shapes = shape if isinstance(shape, tuple) else shape * len(value)
        parts = [(f"{name}[{n}]", v, s) for n, (v, s) in enumerate(zip(value, shapes, strict=True))]
    elif not isinstance(value, dict):
        return f"{name or 'it'} is not an object"
    elif TEXT in shape or COUNT in shape:
        (key,) = shape
        if key is COUNT and not all(one.isascii() and one.isdigit() and len(one) < 12 for one in value):
            return f"{name} has a name that is no step"
        parts = [(f"{name}.{one[:60]}".lstrip("."), v, shape[key]) for one, v in value.items()]
    else:
        parts = []
        for key, inner in shape.items():
            plain = key.rstrip("?")
            if plain in value:
                parts.append((f"{name}.{plain}".lstrip("."), value[plain], inner))
            elif plain == key:
                return f"{f'{name}.{key}'.lstrip('.')} is missing"
    for part in parts:
        found = problem(part[1], part[2], part[0])
        if found:
            return found
    return ""
