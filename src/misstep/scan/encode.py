"""JSON as a scan writes it."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def encode(value: Any) -> bytes:
    """One line of JSON; ASCII only, so that lone surrogates in a transcript survive."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")
