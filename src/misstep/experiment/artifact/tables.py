"""An analysis and its attempts as CSV: one file a table, for people who go on in a spreadsheet or in R."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from misstep.experiment.analysis import Analysis, plain
from misstep.experiment.attempts import Attempt

TABLES = (
    "arms",
    "cells",
    "contrasts",
    "interactions",
    "funnel",
    "stages",
    "families",
    "transitions",
    "terminations",
    "spend",
    "spend_changes",
    "placebo",
    "left_out",
    "sensitivity",
    "missing",
    "limits",
)
"""Parts of an analysis that are tables as they are. Tasks get one of their own: a column an arm."""


def csv_files(analysis: Analysis, attempts: Iterable[Attempt]) -> dict[str, str]:
    """File name -> text, for every table that has rows; attempts.csv has every candidate."""
    made = {"attempts.csv": attempts_csv(attempts), "tasks.csv": _tasks(analysis)}
    for name in TABLES:
        rows = [flat(plain(one)) for one in getattr(analysis, name)]
        if rows:
            columns = list(dict.fromkeys(key for row in rows for key in row))
            made[f"{name}.csv"] = text_of(columns, [[row.get(key) for key in columns] for row in rows])
    return made


def attempts_csv(attempts: Iterable[Attempt]) -> str:
    """Every field of every record; lists are joined with ';', objects are JSON."""
    names = [one.name for one in fields(Attempt)]
    rows = []
    for attempt in attempts:
        row = []
        for name in names:
            value = getattr(attempt, name)
            if isinstance(value, tuple):
                value = ";".join(value)
            elif isinstance(value, Mapping):
                value = json.dumps(dict(value), ensure_ascii=False, sort_keys=True) if value else ""
            row.append(value)
        rows.append(row)
    return text_of(names, rows)


def _tasks(analysis: Analysis) -> str:
    arms = [one.arm for one in analysis.arms]
    head = ["task", "cohort", "families"]
    head += [f"{arm} {what}" for arm in arms for what in ("passed", "attempts", "missing")]
    rows = [
        [
            one.task,
            one.cohort,
            ";".join(one.families),
            *(n for three in zip(one.passed, one.attempts, one.missing, strict=True) for n in three),
        ]
        for one in analysis.tasks
    ]
    return text_of(head, rows)


def flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested objects as columns `outer.inner`; a list of names is joined with ';', any other is JSON."""
    made: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            made |= flat(value, f"{before}{key}.")
        elif isinstance(value, list):
            names = all(isinstance(one, str) for one in value)
            made[before + key] = ";".join(value) if names else json.dumps(value, ensure_ascii=False)
        else:
            made[before + key] = value
    return made


def text_of(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV: numbers in full, nothing for what is not known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(one) for one in head])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    # A text that a spreadsheet would take for a formula stays a text.
    if isinstance(value, str):
        text = value.replace("\x00", "")
        return f"'{text}" if text[:1] in ("=", "+", "@", "\t", "\r") or (text[:1] == "-" and text != "-") else text
    return value
