"""Which variables of a text have one known value (`PORT=80; F=app.db; sqlite3 $F`).

Only the certain case: a variable that is assigned exactly once in the whole text, by a bare
assignment or `export` at its top level, to a literal, and that nothing else may set.
"""

from __future__ import annotations

import re

ASSIGNED = re.compile(r"(?<![\w$.-])([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n]*\])?(\+?=)(\()?")
# Builtins that set variables, with the rest of their command; arithmetic; ${x:=y}.
SETTERS = re.compile(
    r"\b(?:for|select|read|mapfile|readarray|getopts|unset|local|declare|typeset|readonly|let|printf[ \t]+-v)\b[^\n;|&]*"
    r"|\(\([^\n]{0,300}|\$\{[A-Za-z_][A-Za-z0-9_]*:?="
)
ANYTHING = re.compile(r"(?:^|[\s;&|({])(?:eval|source|\.)[ \t]")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def assigned_once(text: str) -> set[str]:
    """Names that may be constants. Empty where `eval` or `source` may set anything."""
    once: set[str] = set()
    if "=" not in text or "$" not in text or ANYTHING.search(text):
        return once
    spoilt: set[str] = set()
    for m in ASSIGNED.finditer(text):
        name, index, sign, array = m.groups()
        if name in once or index or array or sign == "+=":
            spoilt.add(name)
        else:
            once.add(name)
    once -= spoilt
    if once:
        for m in SETTERS.finditer(text):
            once.difference_update(IDENTIFIER.findall(m.group()))
    return once
