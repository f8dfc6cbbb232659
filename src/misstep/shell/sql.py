"""May a piece of SQL change data?"""

from __future__ import annotations

import re

NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\$\$.*?\$\$", re.S)
CHANGES = re.compile(
    r"\b(insert|update|delete|drop|alter|create|replace|truncate|merge|grant|revoke|vacuum|reindex|attach|detach|upsert|"
    r"refresh|cluster|restore|load|import|lock|nextval|setval|pg_terminate_backend|pg_reload_conf)\b",
    re.I,
)
READS = frozenset(["select", "show", "explain", "describe", "desc", "values", "table", "with", "use", "begin", "commit", "rollback",
                   "end", "start", "set", "analyze_", "help", "status", "\\q", "quit", "exit", "fetch", "declare", "close",
                   "savepoint", "release"])  # fmt: skip
DOT_CHANGES = (".import", ".restore", ".recover", ".clone", ".archive -c", ".save")
DOT_UNKNOWN = (".read", ".shell", ".system", ".load", ".open")


def sql_mutates(text: str) -> bool | None:
    """True: some statement changes data. False: every statement only reads. None: cannot tell."""
    verdict: bool | None = False
    seen = False
    for line in text.splitlines():
        s = line.strip()
        if s.startswith("."):
            seen = True
            if s.startswith(DOT_CHANGES):
                return True
            if s.startswith(DOT_UNKNOWN):
                verdict = None
        elif s.startswith("\\"):
            seen = True
            if re.match(r"\\copy\b.*\bfrom\b", s, re.I):
                return True
            if s.startswith(("\\i", "\\!", "\\g", "\\copy")):
                verdict = None
    text = "\n".join(line for line in text.splitlines() if line.lstrip()[:1] not in (".", "\\"))
    for statement in NOISE.sub("''", text).split(";"):
        words = statement.split(None, 1)
        if not words:
            continue
        seen = True
        first = words[0].lower().strip("(")
        rest = words[1] if len(words) > 1 else ""
        if first == "pragma":
            if "=" in rest or re.search(
                r"checkpoint|optimize|incremental_vacuum|writable|journal_mode\s*\(", rest, re.I
            ):
                return True
        elif first == "copy":
            if re.search(r"\bfrom\b", rest, re.I):
                return True
        elif first in ("explain", "with"):
            if CHANGES.search(rest) and (first == "with" or re.search(r"\banalyze\b", rest, re.I)):
                return True
        elif first == "select":
            if re.search(r"\binto\s+(?!@)\w", rest, re.I) or re.search(
                r"\b(nextval|setval|pg_terminate_backend|lo_unlink)\s*\(", rest, re.I
            ):
                return True
        elif first in READS:
            continue
        elif CHANGES.match(first):
            return True
        else:
            verdict = None
    return verdict if seen else None
