"""Attempts from a table: any CSV with a task, an arm and whether it passed, and that of terminal-bench v1's outcomes."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from misstep.experiment.attempts import TERMINATIONS, Attempt, AttemptsError
from misstep.experiment.outcomes import classify
from misstep.trajectory.model import Outcome

NAMES: Mapping[str, tuple[str, ...]] = {
    "task": ("task", "task_id", "task_name"),
    "arm": ("arm", "config", "condition"),
    "passed": ("passed", "is_resolved", "resolved", "success"),
    "reward": ("reward", "score"),
    "termination": ("termination",),
    "failure_mode": ("failure_mode",),
    "never_ran": ("never_ran", "agent_never_ran"),
    "exception": ("exception", "exception_type"),
    "replicate": ("replicate",),
    "candidate": ("candidate",),
    "id": ("id", "trial_name", "trial"),
    "agent": ("agent",),
    "model": ("model",),
    "started": ("started", "started_at"),
    "seconds": ("seconds",),
    "cost_usd": ("cost_usd", "cost"),
    "input_tokens": ("input_tokens",),
    "cached_tokens": ("cached_tokens",),
    "output_tokens": ("output_tokens",),
    "steps": ("steps",),
}
"""Columns that are understood, and the names that each is found by without being told."""
_YES = frozenset(["true", "1", "1.0", "yes", "y", "pass", "passed"])
_NO = frozenset(["false", "0", "0.0", "no", "n", "fail", "failed"])
_NONE = frozenset(["", "none", "null", "nan", "na", "n/a"])
_WHOLE = ("input_tokens", "cached_tokens", "output_tokens", "steps")
_REAL = ("seconds", "cost_usd")
_TEXT = ("id", "agent", "model", "exception")

Row = Callable[[str], str]


def rows(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    arm: str = "",
    ungraded: str = "",
    passes: float = classify.PASSES,
) -> Iterator[Attempt]:
    """The attempts of a CSV file, in its order; replicates that it does not number are all 1.

    Args:
        columns: one of NAMES -> the column that holds it.
        arm: of all rows, where the file has no such column.
        ungraded: what a row without a verdict is: "failure" or "missing"; '' is missing, and failure where the file
            tells terminal-bench v1's failure_mode.
        passes: the reward from which on an attempt has passed, where there is no column that says so.

    Raises:
        AttemptsError: the file, the line and what was expected.
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        try:
            header = next(reader, None)
            if not header:
                raise AttemptsError(f"{path}:1: an empty file; expected a header with task, arm and passed")
            places = _places(path, header, columns or {}, arm)
            width = len(header)
            for cells in reader:
                if not cells:
                    continue
                where = f"{path}:{reader.line_num}"
                if len(cells) != width:
                    raise AttemptsError(f"{where}: {len(cells)} fields where the header has {width}")
                yield _attempt(where, places, cells, arm, ungraded, passes)
        except csv.Error as error:
            raise AttemptsError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _places(path: Path, header: Sequence[str], columns: Mapping[str, str], arm: str) -> dict[str, int]:
    """Which field holds what."""
    at = {name.strip(): place for place, name in enumerate(header)}
    if len(at) < len(header):
        twice = next(name for n, name in enumerate(header) if name.strip() in [h.strip() for h in header[:n]])
        raise AttemptsError(f"{path}:1: two columns are named {twice!r}")
    places = {}
    for name, known in NAMES.items():
        if name in columns:
            if columns[name] not in at:
                raise AttemptsError(f"{path}:1: no column {columns[name]!r} (there are {', '.join(at)})")
            places[name] = at[columns[name]]
            continue
        found = next((alias for alias in known if alias in at), None)
        if found is not None:
            places[name] = at[found]
    for wanted in ("task", "" if arm else "arm"):
        if wanted and wanted not in places:
            raise AttemptsError(
                f"{path}:1: no column for the {wanted} (say which: --column {wanted}=NAME; there are {', '.join(at)})"
            )
    if not places.keys() & {"passed", "reward", "termination"}:
        raise AttemptsError(f"{path}:1: no column says what passed (--column passed=NAME; there are {', '.join(at)})")
    return places


def _attempt(
    where: str, places: Mapping[str, int], cells: Sequence[str], arm: str, ungraded: str, passes: float
) -> Attempt:
    values: dict[str, Any] = {}
    given = {name: cells[place].strip() for name, place in places.items()}
    task, arm = given["task"], given.get("arm") or arm
    if not task or not arm:
        raise AttemptsError(f"{where}: the {'task' if not task else 'arm'} is empty")
    passed = _truth(where, "passed", given.get("passed", ""))
    reward = _number(where, "reward", given.get("reward", ""))
    for name in _TEXT:
        if given.get(name):
            values[name] = given[name]
    for name in _REAL:
        values[name] = _number(where, name, given.get(name, ""))
    for name in _WHOLE:
        values[name] = _whole(where, name, given.get(name, ""))
    for name in ("replicate", "candidate"):
        whole = _whole(where, name, given.get(name, ""))
        if whole is not None:
            if whole < 1:
                raise AttemptsError(f"{where}: {name} is a number from 1, not {whole}")
            values[name] = whole
    if given.get("started"):
        values["started"] = classify.utc(given["started"]) or given["started"]
    ended = _ending(where, given, passed, reward, ungraded, passes)
    return Attempt(
        task=task,
        arm=arm,
        termination=ended.termination,
        passed=ended.passed,
        reward=reward,
        fault=ended.fault,
        extra={"unrecorded": True, **ended.extra},
        **values,
    )


def _ending(
    where: str, given: Mapping[str, str], passed: bool | None, reward: float | None, ungraded: str, passes: float
) -> classify.Ending:
    termination = given.get("termination", "")
    if passed is None and reward is not None:
        passed = classify.verdict(Outcome(reward=reward), passes)
    never = bool(_truth(where, "never_ran", given.get("never_ran", "")))
    if termination:
        if termination not in TERMINATIONS:
            raise AttemptsError(f"{where}: termination {termination!r} is none of {', '.join(TERMINATIONS)}")
        if passed is None and termination == "pass":
            passed = True
        if passed is False and termination == "pass":
            raise AttemptsError(f"{where}: termination 'pass', and it did not pass: they contradict each other")
        return classify.Ending(termination, passed)
    if never:
        mode = given.get("failure_mode", "")
        extra = {"failure_mode": mode} if mode not in ("", "unset", "none") else {}
        return classify.Ending("never-ran", passed, "the agent never ran", extra)
    if "failure_mode" in given:
        outcome = Outcome(passed=passed, extra={"failure_mode": given["failure_mode"]})
        return classify.ending_v1(outcome, ran=None, ungraded=ungraded or "failure")
    exception = given.get("exception", "")
    if passed is None and reward is None:
        if ungraded == "failure":
            return classify.Ending("fail", None, extra={"no_verdict": True})
        return classify.Ending("invalid", None, "no verdict" + (f": {exception}" if exception else ""))
    if exception:
        return classify.ending(harbor_like(exception, passed, reward), ran=None, passes=passes)
    return classify.Ending("pass" if passed else "fail", passed)


def harbor_like(exception: str, passed: bool | None, reward: float | None) -> Outcome:
    """An outcome with one exception, judged by Harbor's table as the reader does it."""
    from misstep.trajectory.readers import harbor

    told = reward if reward is not None else None if passed is None else float(passed)
    result = {
        "verifier_result": {"rewards": {"reward": told}},
        "exception_info": {"exception_type": exception},
        "agent_execution": {"started_at": "1970-01-01T00:00:00Z"},
    }
    return harbor.outcome(result)


def _truth(where: str, name: str, text: str) -> bool | None:
    low = text.lower()
    if low in _YES:
        return True
    if low in _NO:
        return False
    if low in _NONE:
        return None
    raise AttemptsError(f"{where}: {name} is true, false or empty, not {text!r}")


def _number(where: str, name: str, text: str) -> float | None:
    if text.lower() in _NONE:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("inf")
    if abs(value) == float("inf"):
        raise AttemptsError(f"{where}: {name} is a number, not {text!r}")
    return value


def _whole(where: str, name: str, text: str) -> int | None:
    value = _number(where, name, text) if text else None
    if value is None:
        return None
    if value != int(value):
        raise AttemptsError(f"{where}: {name} is a whole number, not {text!r}")
    return int(value)
