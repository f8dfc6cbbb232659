"""The record of one attempt, and the file of them: all that an analysis reads of what happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

SCHEMA = "misstep.attempts"
VERSION = 1

TERMINATIONS = ("pass", "gave-up", "fail", "timeout", "crash", "never-ran", "invalid")
"""How an attempt ended (FIRE, Table 7, with two of ours at the end).

`gave-up`: the agent said that it could not, and stopped; `crash`: the agent's own program ended in an error;
`never-ran`: no step of the agent is on record; `invalid`: an infrastructure fault, or a policy attempt whose hooks did
not live. The last two are not observations of the agent: the replacement rule decides about them.
"""
OBSERVATIONS = frozenset(TERMINATIONS[:5])


MOST = 1e15
"""The largest figure that a field may hold: beyond it sums lose whole dollars, and floats their meaning."""


class AttemptsError(ValueError):
    """A file of attempts that cannot be read: one line with the file, the line and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of an agent at a task, under an arm. Names of policies and missteps are those of the catalogue."""

    task: str
    arm: str
    replicate: int = 1
    """Which of the planned attempts of this task in this arm, from 1."""
    candidate: int = 1
    """1 is the original; replacements of the same (task, arm, replicate) count on, in the order in which they ran."""
    id: str = ""
    """Unique in a panel; the trial's name."""
    agent: str = ""
    agent_version: str = ""
    model: str = ""
    termination: str
    """One of TERMINATIONS."""
    passed: bool | None = None
    """The verifier's verdict. None where there is none: never taken for a failure here."""
    reward: float | None = None
    fault: str = ""
    """Why it is no observation of the agent, in one line; '' for an observation."""
    exception: str = ""
    started: str = ""
    """ISO 8601, UTC."""
    seconds: float | None = None
    """Of the agent's own run."""
    total_seconds: float | None = None
    """With set-up and verifier."""
    input_tokens: int | None = None
    """With cached ones."""
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    steps: int | None = None
    eligible: tuple[str, ...] = ()
    """Policies that took the task for their own."""
    state: tuple[str, ...] = ()
    """Policies whose runtime predicate held at some event, whether or not they intervened."""
    fired: Mapping[str, int] = field(default_factory=dict)
    """Policy -> interventions."""
    behaviour: Mapping[str, bool | None] = field(default_factory=dict)
    """Misstep -> whether its behaviour marker holds; None where the record does not tell."""
    trial: str = ""
    """The trial's folder, relative to the panel's."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nudges(self) -> int:
        """Interventions of all policies."""
        return sum(self.fired.values())

    @property
    def slot(self) -> tuple[str, str, int]:
        """What was planned: (task, arm, replicate)."""
        return self.task, self.arm, self.replicate

    def plain(self) -> dict[str, Any]:
        """As in the file: what is at its default is left out."""
        made: dict[str, Any] = {}
        for name in _ORDER:
            value = getattr(self, name)
            if value is None or value == "" or value == () or value == {}:
                if name not in ("task", "arm", "termination"):
                    continue
            elif isinstance(value, tuple):
                value = list(value)
            elif not isinstance(value, _SCALARS) and isinstance(value, Mapping):
                value = dict(value)
            made[name] = value
        return made


_ORDER = tuple(one.name for one in fields(Attempt))
_NAMES = frozenset(_ORDER)
_SCALARS = (str, int, float)


def fair(attempt: Attempt) -> bool:
    """Whether this is an observation of the agent. Timeouts and crashes of the agent are, infrastructure faults are not."""
    return attempt.termination in OBSERVATIONS


def observed(attempts: Iterable[Attempt]) -> dict[tuple[str, str, int], Attempt | None]:
    """The attempt that counts for every slot: the first fair one in the order of candidates (FIRE's replacement rule).

    None where no candidate was fair: the slot is missing, and an analysis has to say so.
    """
    slots: dict[tuple[str, str, int], list[Attempt]] = {}
    for attempt in attempts:
        slots.setdefault(attempt.slot, []).append(attempt)
    return {
        slot: next((a for a in sorted(found, key=lambda a: a.candidate) if fair(a)), None)
        for slot, found in slots.items()
    }


def header() -> str:
    """The first line of a file of attempts."""
    return json.dumps({"schema": SCHEMA, "version": VERSION})


def line(attempt: Attempt) -> str:
    """An attempt as a line of the file."""
    return json.dumps(attempt.plain(), ensure_ascii=False, separators=(",", ":"))


def write_attempts(path: Path, attempts: Iterable[Attempt]) -> None:
    """A whole file, in place of what is there. Raises OSError."""
    path.write_text("".join(f"{text}\n" for text in (header(), *map(line, attempts))), encoding="utf-8")


def read_attempts(path: Path) -> list[Attempt]:
    """All attempts of a file; a last line cut short by a crash is left out.

    Raises:
        AttemptsError: the file, the line, what was expected.
        OSError: the file cannot be read.
    """
    return list(_read(path))


def _read(path: Path) -> Iterator[Attempt]:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    whole, last = lines[:-1], lines[-1]
    for number, text in enumerate(whole, 1):
        if not text.strip():
            continue
        given = _object(path, number, text)
        if number == 1:
            if given.get("schema") != SCHEMA:
                raise AttemptsError(f"{path}:1: not a file of attempts (expected schema {SCHEMA!r})")
            if given.get("version") != VERSION:
                raise AttemptsError(f"{path}:1: version {given.get('version')!r}; this misstep reads {VERSION}")
            continue
        yield from_plain(given, f"{path}:{number}")
    if not whole:
        raise AttemptsError(f"{path}:1: not a file of attempts" if last.strip() else f"{path}:1: an empty file")


def _object(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AttemptsError(f"{path}:{number}: not JSON: {error}") from None
    if not isinstance(given, dict):
        raise AttemptsError(f"{path}:{number}: expected an object")
    return given


def from_plain(given: Mapping[str, Any], where: str) -> Attempt:
    """An attempt from its plain form. Raises AttemptsError, which begins with `where`."""
    if not given.keys() <= _NAMES:
        raise AttemptsError(f"{where}: unknown field {min(given.keys() - _NAMES)!r}")
    for name in ("task", "arm", "termination"):
        if not isinstance(given.get(name), str) or not given[name]:
            raise AttemptsError(f"{where}: {name} is a text")
    if given["termination"] not in TERMINATIONS:
        raise AttemptsError(f"{where}: termination {given['termination']!r} is none of {', '.join(TERMINATIONS)}")
    made = dict(given)
    for name, value in given.items():
        told = _TOLD.get(name)
        if told and not told[1](value):
            raise AttemptsError(f"{where}: {name} is {told[0]}, not {value!r:.60}")
    if given["termination"] == "pass" and given.get("passed") is False:
        raise AttemptsError(f"{where}: termination 'pass' and passed false contradict each other")
    for name in ("eligible", "state"):
        if name in made:
            made[name] = tuple(made[name])
    return Attempt(**made)


def _number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) <= MOST)  # a bool is an int; NaN is not <=


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_TOLD: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("replicate", "candidate"), ("a number from 1", lambda v: type(v) is int and 1 <= v <= MOST)),
    **dict.fromkeys(
        ("id", "agent", "agent_version", "model", "fault", "exception", "started", "trial"),
        ("a text", lambda v: isinstance(v, str)),
    ),
    **dict.fromkeys(
        ("reward", "seconds", "total_seconds", "cost_usd", "input_tokens", "cached_tokens", "output_tokens", "steps"),
        ("a number", _number),
    ),
    **dict.fromkeys(("eligible", "state"), ("a list of names", _names)),
    "passed": ("true or false", lambda v: v is None or v is True or v is False),
    "fired": (
        "an object of numbers",
        lambda v: isinstance(v, dict) and all(type(n) is int and 0 <= n <= MOST for n in v.values()),
    ),
    "behaviour": (
        "an object of true, false or null",
        lambda v: isinstance(v, dict) and all(n is None or type(n) is bool for n in v.values()),
    ),
    "extra": ("an object", lambda v: isinstance(v, dict)),
}
"""What each field is, and whether a value is that."""
