"""JSON without the import of `json`, which costs a new process as much again as the bare interpreter.

The C scanner and encoder behind `json` are used directly; where an interpreter has them not, or has them otherwise,
`json` itself does the work.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPACE = " \t\n\r"


class _Context:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}


def _default(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON value")


_scan: Any = None
_encode: Any = None
try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    _scan = make_scanner(_Context())  # type: ignore[arg-type]
    _encode = make_encoder(None, _default, encode_basestring_ascii, None, ":", ",", False, False, True)
    if "".join(_encode({"a": [1, None, "\u00e9"]}, 0)) != '{"a":[1,null,"\\u00e9"]}':
        raise ImportError("another encoder")
except (ImportError, AttributeError, TypeError):
    _scan = _encode = None


def loads(text: str) -> Any:
    """The value of a JSON text. Raises ValueError or RecursionError."""
    if _scan is None:
        import json

        return json.loads(text, strict=False)
    start, end = 0, len(text)
    while start < end and text[start] in _SPACE:
        start += 1
    try:
        value, start = _scan(text, start)
    except RecursionError:
        raise
    except (StopIteration, ValueError, SystemError):
        # Python 3.10 cannot make its own error where `json` was never imported.
        raise ValueError("not a JSON text") from None
    while start < end and text[start] in _SPACE:
        start += 1
    if start != end:
        raise ValueError(f"more text after the JSON value, at character {start}")
    return value


def dumps(value: Any) -> str:
    """One line of compact JSON in ASCII. Raises TypeError, ValueError or RecursionError."""
    if _encode is None:
        import json

        return json.dumps(value, separators=(",", ":"))
    return "".join(_encode(value, 0))
