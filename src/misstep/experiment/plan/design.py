"""The design of a panel: a TOML file, read once, checked whole, and never changed after the lock.

What stands in it is all that decides which attempts are made, in which order, and which of them are compared. Paths in it
are relative to the folder that it was written in (`base`), also in the copy that a panel keeps.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import tomllib

from misstep.guard.arms import ARMS

COHORTS = ("eligible", "silent")
KINDS = ("path", "dataset")
REPLACEMENTS = ("first-fair", "none")
MARKERS = ("catalogue",)
ATTEMPTS = 1000
"""The most attempts of a task in an arm, as many as the power is computed for."""
WITHOUT = "without:"
"""Arms that leave one misstep's policies out are `without:<misstep>`."""


class DesignError(ValueError):
    """A design that cannot be used: one line with the file, the key and what was expected."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """An effect that the panel asks for: `arm` less `against`."""

    arm: str
    against: str

    def __str__(self) -> str:
        return f"{self.arm} - {self.against}"


@dataclass(frozen=True, slots=True)
class Primary:
    """The one contrast that the panel is made for; secondary ones are asked in the same cohort."""

    contrast: Contrast
    cohort: str = "eligible"


@dataclass(frozen=True, slots=True)
class Tasks:
    """Where the tasks are: a folder of Harbor tasks, or a dataset of Harbor's by name and ref."""

    path: str = ""
    """As written, relative to the design's base; '' for a dataset."""
    dataset: str = ""
    ref: str = ""
    """`sha256:<64 hex>` of a dataset: what is locked."""
    include: tuple[str, ...] = ("*",)
    """Globs over task names."""
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of every arm. `name` is one of Harbor's, or an import path `module:Class`."""

    name: str
    model: str = ""
    version: str = ""
    """'' is whatever is newest: `panel plan` warns about it."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    """A value `${NAME}` is taken from the environment at run time, so that no secret is in a design."""

    @property
    def import_path(self) -> str:
        """The import path, '' for one of Harbor's own agents."""
        return self.name if ":" in self.name else ""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where attempts run: one of Harbor's types, or an import path."""

    type: str = "docker"
    """'' where an import path is given."""
    import_path: str = ""
    kwargs: dict[str, Any] = field(default_factory=dict)
    concurrency: int = 1


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Tasks by what the policies take for theirs: eligible ones, and silent ones named before anything runs."""

    eligible: tuple[str, ...] | None = None
    """Names; None (`"portfolio"`) is every task that the portfolio's own eligibility takes."""
    silent: tuple[str, ...] = ()
    """Names; they must not depend on outcomes."""
    count: int = 0
    """In the place of names: that many of the tasks that are eligible for nothing, chosen by the seed."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What happens to a slot whose attempt was no observation of the agent: the next candidate, up to so many, or none."""

    faults: str = "first-fair"
    candidates: int = 3


@dataclass(frozen=True, slots=True)
class Termination:
    """Overrides of how an end is classed."""

    gave_up: tuple[str, ...] = ()
    """Regular expressions over the agent's last message, in the place of the built-in ones."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Which behaviour markers are read off every attempt, in every arm alike."""

    markers: str = "catalogue"


@dataclass(frozen=True, slots=True)
class Rates:
    """What attempts cost and how often they pass, given or from a past file of attempts."""

    usd_per_attempt: float | None = None
    seconds_per_attempt: float | None = None
    """Of wall time, with set-up and verifier."""
    pass_rates: str = ""
    """A past attempts.jsonl, relative to the design's base."""
    effect: float | None = None
    """The effect that the power is computed for: a difference of pass rates in (0, 1]."""


@dataclass(frozen=True, slots=True)
class Design:
    """A panel's design. Frozen; `plain()` is what the lock hashes."""

    name: str
    agent: Agent
    tasks: Tasks
    arms: tuple[str, ...]
    seed: int = 1
    attempts: int = 2
    """Planned attempts of each task in each arm (replicates)."""
    primary: Primary | None = None
    """None only in a design of one arm."""
    secondary: tuple[Contrast, ...] = ()
    cohorts: Cohorts = Cohorts()
    portfolio: str = ""
    """A portfolio file or lock, relative to `base`; '' is the catalogue's."""
    environment: Environment = Environment()
    replacement: Replacement = Replacement()
    termination: Termination = Termination()
    behaviour: Behaviour = Behaviour()
    rates: Rates = Rates()
    base: Path = Path()
    """The folder that paths are relative to. Not part of the plain form."""

    @classmethod
    def load(cls, path: Path, base: Path | None = None) -> Design:
        """Read and check a design.

        Args:
            base: the folder that its paths are relative to; the file's own unless given.

        Raises:
            DesignError: the file, the key, what was expected.
        """
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DesignError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DesignError(f"{path}: not TOML: {error}") from None
        return _design(_Table(str(path), "", given), path.parent if base is None else base)

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The primary contrast, then the secondary ones."""
        return ((self.primary.contrast,) if self.primary else ()) + self.secondary

    def where(self, path: str) -> Path:
        """A path of the design, as this process finds it."""
        return self.base / path

    def plain(self) -> dict[str, Any]:
        """JSON-able, with every default filled in: two designs that mean the same have the same plain form."""
        made = _plain(self)
        del made["base"]
        return made


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


# -- reading -------------------------------------------------------------------------------------------------------------


class _Table:
    """A table of the file: every `take` checks one key, `end` refuses those that nobody took."""

    def __init__(self, file: str, name: str, given: dict[str, Any]) -> None:
        self.file, self.name, self.given = file, name, given
        self.known: list[str] = []

    def fault(self, key: str, expected: str) -> DesignError:
        return DesignError(f"{self.file}: {self.name}{key}: {expected}")

    def wrong(self, key: str, expected: str) -> DesignError:
        shown = json.dumps(self.given[key], ensure_ascii=False, default=str)
        return self.fault(key, f"expected {expected}, not {shown if len(shown) <= 60 else shown[:57] + '...'}")

    def take(self, key: str) -> Any:
        self.known.append(key)
        return self.given.get(key)

    def has(self, key: str) -> bool:
        return key in self.given

    def text(self, key: str, default: str | None = None) -> str:
        value = self.take(key)
        if value is None:
            if default is None:
                raise self.fault(key, "missing; expected a text")
            return default
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.wrong(key, "a text of one line, not empty")
        return value

    def choice(self, key: str, options: tuple[str, ...]) -> str:
        value = self.take(key)
        if value is not None and value not in options:
            raise self.wrong(key, "one of " + ", ".join(map(repr, options)))
        return options[0] if value is None else str(value)

    def whole(self, key: str, default: int, least: int, most: int = 2**53 - 1) -> int:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(key, f"a whole number from {least}" + (f" to {most:,}" if most < 2**53 - 1 else ""))
        return value

    def number(self, key: str, above: float = -math.inf, most: float = math.inf) -> float | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not above < value <= most:
            kind = "a number above 0" + (f", at most {most:g}" if most < math.inf else "")
            raise self.wrong(key, kind)
        if not math.isfinite(value):
            raise self.wrong(key, "a finite number")
        return float(value)

    def texts(
        self, key: str, default: tuple[str, ...] | None = (), kind: str = "texts", least: int = 0
    ) -> tuple[str, ...]:
        value = self.take(key)
        if value is None:
            if default is None:
                raise self.fault(key, f"missing; expected a list of {kind}")
            return default
        if (
            not isinstance(value, list)
            or len(value) < least
            or not all(isinstance(item, str) and item for item in value)
        ):
            raise self.wrong(key, f"a list of {kind}" + (f", at least {least}" if least else ""))
        twice = {item for item in value if value.count(item) > 1}
        if twice:
            raise self.fault(key, f"expected every one once, but {min(twice)!r} is there twice")
        return tuple(value)

    def table(self, key: str) -> _Table:
        value = self.take(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return _Table(self.file, f"{self.name}{key}.", value or {})

    def free(self, key: str) -> dict[str, Any]:
        """A table of any keys, for others to read; it must be JSON."""
        found = self.table(key).given
        at = _not_json(found)
        if at:
            raise self.fault(f"{key}.{at}", "expected texts, finite numbers, booleans, lists and tables only")
        return found

    def end(self) -> None:
        for key in self.given:
            if key not in self.known:
                raise self.fault(key, f"unknown key (known: {', '.join(sorted(self.known))})")


def _not_json(value: Any, at: str = "") -> str:
    """Where the first value is that JSON has no form for; '' where all is well."""
    if isinstance(value, dict):
        return next((f for k, v in value.items() if (f := _not_json(v, f"{at}.{k}" if at else k))), "")
    if isinstance(value, list):
        return next((f for v in value if (f := _not_json(v, at))), "")
    fine = isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
    return "" if fine else at


def _design(top: _Table, base: Path) -> Design:
    name = top.text("name")
    arms = _arms(top)
    primary = _primary(top.table("primary"), arms)
    if primary is None and len(arms) > 1:
        raise top.fault("primary.contrast", 'missing; expected two of the arms, like ["real", "sham"]')
    made = Design(
        name=name,
        agent=_agent(top.table("agent")),
        tasks=_tasks(top.table("tasks")),
        arms=arms,
        seed=top.whole("seed", 1, 0),
        attempts=top.whole("attempts", 2, 1, ATTEMPTS),
        primary=primary,
        secondary=_secondary(top, arms, primary),
        cohorts=_cohorts(top.table("cohorts")),
        portfolio=top.text("portfolio", ""),
        environment=_environment(top.table("environment")),
        replacement=_replacement(top.table("replacement")),
        termination=_termination(top.table("termination")),
        behaviour=_behaviour(top.table("behaviour")),
        rates=_rates(top.table("rates")),
        base=base,
    )
    top.end()
    if primary and primary.cohort == "silent" and not (made.cohorts.silent or made.cohorts.count):
        raise top.fault("primary.cohort", "expected 'eligible': the design names no silent tasks")
    return made


def _arms(top: _Table) -> tuple[str, ...]:
    arms = top.texts("arms", None, "arms", 1)
    for arm in arms:
        named = arm.startswith(WITHOUT) and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", arm[len(WITHOUT) :])
        if not named and (arm not in ARMS or "<" in arm):
            raise top.fault("arms", f"expected arms, each one of {', '.join(ARMS)}, not {arm!r}")
    return arms


def _contrast(table: _Table, key: str, value: Any, arms: tuple[str, ...]) -> Contrast:
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(isinstance(arm, str) for arm in value)
        or value[0] == value[1]
    ):
        raise table.fault(
            key, f'expected two different arms, like ["real", "sham"], not {json.dumps(value, default=str)}'
        )
    for arm in value:
        if arm not in arms:
            raise table.fault(key, f"{arm!r} is none of the design's arms ({', '.join(arms)})")
    return Contrast(value[0], value[1])


def _primary(table: _Table, arms: tuple[str, ...]) -> Primary | None:
    value, cohort = table.take("contrast"), table.choice("cohort", COHORTS)
    table.end()
    if value is None:
        if table.given:
            raise table.fault("contrast", 'missing; expected two of the arms, like ["real", "sham"]')
        return None
    return Primary(_contrast(table, "contrast", value, arms), cohort)


def _secondary(top: _Table, arms: tuple[str, ...], primary: Primary | None) -> tuple[Contrast, ...]:
    value = top.take("secondary")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise top.wrong("secondary", "a list of pairs of arms")
    made = tuple(_contrast(top, f"secondary[{n}]", item, arms) for n, item in enumerate(value))
    seen = {frozenset((primary.contrast.arm, primary.contrast.against))} if primary else set()
    for n, one in enumerate(made):
        pair = frozenset((one.arm, one.against))
        if pair in seen:
            raise top.fault(f"secondary[{n}]", f"expected every pair of arms once, but {one} is asked already")
        seen.add(pair)
    return made


def _tasks(table: _Table) -> Tasks:
    given = [kind for kind in KINDS if table.has(kind)]
    if len(given) != 1:
        raise table.fault("path", "expected either path (a folder of Harbor tasks) or dataset with ref")
    made = Tasks(
        path=table.text("path", ""),
        dataset=table.text("dataset", ""),
        ref=table.text("ref", ""),
        include=table.texts("include", ("*",), "globs over task names", 1),
        exclude=table.texts("exclude", (), "globs over task names"),
    )
    table.end()
    if made.dataset and not re.fullmatch(r"sha256:[0-9a-f]{64}", made.ref):
        raise table.fault("ref", "expected the dataset's digest, sha256:<64 hexadecimal digits>")
    if made.path and made.ref:
        raise table.fault("ref", "expected only beside dataset")
    return made


def _agent(table: _Table) -> Agent:
    env = table.free("env")
    made = Agent(
        name=table.text("name"),
        model=table.text("model", ""),
        version=table.text("version", ""),
        kwargs=table.free("kwargs"),
        env={},
    )
    table.end()
    _import_path(table, "name", made.import_path)
    for key, value in env.items():
        if not isinstance(value, str):
            raise table.fault(f"env.{key}", f"expected a text, not {json.dumps(value)}")
        made.env[key] = value
    return made


def _import_path(table: _Table, key: str, path: str) -> None:
    if path and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", path):
        raise table.wrong(key, "an import path like package.module:Class")


def _environment(table: _Table) -> Environment:
    both = table.has("type") and table.has("import_path")
    made = Environment(
        type=table.text("type", "" if table.has("import_path") else "docker"),
        import_path=table.text("import_path", ""),
        kwargs=table.free("kwargs"),
        concurrency=table.whole("concurrency", 1, 1),
    )
    table.end()
    if both:
        raise table.fault("type", "expected either type or import_path")
    _import_path(table, "import_path", made.import_path or ("" if not table.has("import_path") else "?"))
    return made


def _cohorts(table: _Table) -> Cohorts:
    names: tuple[str, ...] | None = None
    if table.given.get("eligible") == "portfolio":
        table.take("eligible")
    elif table.has("eligible"):
        if not isinstance(table.given["eligible"], list):
            raise table.wrong("eligible", '"portfolio" or a list of task names')
        names = table.texts("eligible", (), "task names", 1)
    else:
        table.take("eligible")
    made = Cohorts(names, table.texts("silent", (), "task names"), table.whole("count", 0, 0))
    table.end()
    if made.silent and made.count:
        raise table.fault("count", "expected either silent (names) or count")
    both = set(names or ()) & set(made.silent)
    if both:
        raise table.fault("silent", f"expected other tasks than the eligible ones, but {min(both)!r} is in both")
    return made


def _replacement(table: _Table) -> Replacement:
    made = Replacement(table.choice("faults", REPLACEMENTS), table.whole("candidates", 3, 1))
    table.end()
    return made


def _termination(table: _Table) -> Termination:
    made = Termination(table.texts("gave_up", (), "regular expressions"))
    table.end()
    for pattern in made.gave_up:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise table.fault("gave_up", f"expected regular expressions, not {pattern!r}: {error}") from None
    return made


def _behaviour(table: _Table) -> Behaviour:
    made = Behaviour(table.choice("markers", MARKERS))
    table.end()
    return made


def _rates(table: _Table) -> Rates:
    made = Rates(
        usd_per_attempt=table.number("usd_per_attempt", 0),
        seconds_per_attempt=table.number("seconds_per_attempt", 0),
        pass_rates=table.text("pass_rates", ""),
        effect=table.number("effect", 0, 1),
    )
    table.end()
    return made
