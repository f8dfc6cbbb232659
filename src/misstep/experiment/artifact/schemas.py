"""JSON schemas of a panel's files, made of the dataclasses that read and write them."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from misstep.experiment import attempts
from misstep.experiment.analysis import model
from misstep.experiment.plan import lock, schedule
from misstep.experiment.runs import archive, replacement

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schemas() -> dict[str, dict[str, Any]]:
    """File name of the schema -> schema. Those of JSONL files are of one line; the first line is a header."""
    attempt = of(attempts.Attempt)
    attempt["properties"]["termination"] = {"enum": list(attempts.TERMINATIONS)}
    analysis = of(model.Analysis)
    for key, value in (("schema", model.SCHEMA), ("version", model.VERSION)):
        analysis["properties"][key] = {"const": value}
        analysis["required"].append(key)
    made = {
        "attempts": _lines(attempts.SCHEMA, attempts.VERSION, attempt),
        "schedule": _lines(schedule.SCHEMA, schedule.VERSION, of(schedule.Slot)),
        "lineage": _lines(archive.SCHEMA, archive.VERSION, of(replacement.Decision)),
        "analysis": analysis,
        "lock": _lock(),
        "markers": _markers(),
        "manifest": _manifest(),
    }
    return {f"{name}.schema.json": {"$schema": DRAFT, "title": name, **one} for name, one in made.items()}


def of(kind: Any) -> dict[str, Any]:
    """The schema of a type: a dataclass, a container of types, or a plain one."""
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        needed = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
        return {
            "type": "object",
            "properties": {one.name: of(hints[one.name]) for one in fields(kind)},
            "required": needed,
            "additionalProperties": False,
        }
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [of(one) for one in inner]}
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return {"type": "array", "items": of(inner[0])}
        parts = [of(one) for one in inner]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return {"type": "object", "additionalProperties": of(inner[1])}
    return {"type": _PLAIN[kind]} if kind in _PLAIN else {}


def _lines(name: str, version: int, record: dict[str, Any]) -> dict[str, Any]:
    head = {
        "type": "object",
        "properties": {"schema": {"const": name}, "version": {"const": version}},
        "required": ["schema", "version"],
    }
    return {"description": "One line of the file: the header in line 1, records below.", "anyOf": [head, record]}


_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def _lock() -> dict[str, Any]:
    hashes = {"type": "object", "additionalProperties": _HASH}
    return {
        "type": "object",
        "required": ["schema", "version", "analysis", "design", "tasks", "arms", "schedule", "portfolio", "seed"],
        "properties": {
            "schema": {"const": lock.SCHEMA},
            "version": {"const": lock.VERSION},
            "analysis": {"type": "object", "properties": {"sources": hashes}, "required": ["sources"]},
            "design": {
                "type": "object",
                "properties": {"sha256": _HASH, "plain": {"type": "object"}},
                "required": ["sha256", "plain"],
            },
            "schedule": _HASH,
            "portfolio": _HASH,
            "seed": {"type": "integer"},
            "tasks": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["digest", "cohort", "eligible"],
                    "properties": {
                        "cohort": {"enum": ["eligible", "silent"]},
                        "eligible": {"type": "array", "items": {"type": "string"}},
                    },
                },
            },
            "arms": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["portfolio", "sources"],
                    "properties": {"portfolio": _HASH, "sources": hashes},
                },
            },
        },
    }


def _markers() -> dict[str, Any]:
    entry = {
        "type": "object",
        "required": ["source", "sha256"],
        "properties": {"source": {"type": "string"}, "sha256": _HASH},
    }
    return {"type": "object", "additionalProperties": entry}


def _manifest() -> dict[str, Any]:
    entry = {
        "type": "object",
        "required": ["sha256", "bytes"],
        "properties": {"sha256": _HASH, "bytes": {"type": "integer"}},
    }
    return {
        "type": "object",
        "required": ["schema", "version", "misstep", "options", "redacted", "left_out", "files"],
        "properties": {
            "schema": {"const": "misstep.panel.artifact"},
            "version": {"const": 1},
            "misstep": {"type": "string"},
            "options": {"type": "object"},
            "redacted": {"type": "array", "items": {"type": "string"}},
            "left_out": {"type": "object", "additionalProperties": {"type": "string"}},
            "files": {"type": "object", "additionalProperties": entry},
        },
    }
