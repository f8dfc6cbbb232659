"""The lock of a panel: hashes of all that decides what runs and how it is read, made before the first attempt.

A panel's folder holds the design as written, `lock.json`, `schedule.jsonl` and `portfolio.lock` (what hooks read in a scored
run). `verify` names the first file that is not as it was locked.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import misstep
from misstep.experiment.analysis.model import VERSION as RULES
from misstep.experiment.plan.design import Design, DesignError
from misstep.experiment.plan.schedule import Slot, read_schedule, schedule, text_of
from misstep.experiment.plan.tasks import Assigned, Task, assign, digest, harbor_digest, portfolio_of, tasks_of
from misstep.guard import arms as arms_
from misstep.guard import freeze
from misstep.guard.portfolio import from_plain

SCHEMA = "misstep.panel.lock"
VERSION = 1
DESIGN, LOCK, SCHEDULE, PORTFOLIO = "design.toml", "lock.json", "schedule.jsonl", "portfolio.lock"
SLOTS = 1_000_000
"""The most attempts of a panel: its schedule is one file, read whole."""
PACKAGE = Path(misstep.__file__).resolve().parent
ANALYSIS = (
    "stats",
    "catalogue",
    *(
        f"experiment/{n}"
        for n in ("attempts.py", "outcomes/classify.py", "outcomes/words.py", "outcomes/funnel.py", "analysis")
    ),
)
"""Files and folders, below the package, of the code that turns trials into attempts and attempts into numbers."""


class LockError(ValueError):
    """A panel's folder that is none, or that is not as it was locked: one line with the file and what was expected."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A design with everything that it stands for on this machine: what a lock is made of."""

    design: Design
    tasks: tuple[Task, ...]
    """Those that run, sorted by name."""
    assigned: Assigned
    portfolio: Mapping[str, Any]
    """In the plain form."""
    slots: tuple[Slot, ...]


def plan(design: Design) -> Plan:
    """Resolve a design: tasks, cohorts, portfolio, arms, schedule. Nothing is written.

    Raises:
        DesignError, misstep.guard.portfolio.PortfolioError: what cannot be used, in one line.
    """
    portfolio = portfolio_of(design)
    found = tasks_of(design)
    assigned = assign(design, found, from_plain(dict(portfolio)))
    for arm in design.arms:
        arms_.apply(from_plain(dict(portfolio)), arm)  # an arm may name a misstep that this portfolio has not
    kept = tuple(task for task in found if task.name in assigned.cohort)
    size = len(kept) * len(design.arms) * design.attempts
    if size > SLOTS:
        raise DesignError(
            f"attempts: {len(kept):,} tasks x {len(design.arms)} arms x {design.attempts:,} attempts are {size:,}; "
            f"a panel has at most {SLOTS:,}"
        )
    slots = schedule([task.name for task in kept], design.arms, design.attempts, design.seed)
    return Plan(design, kept, assigned, portfolio, tuple(slots))


def lock(made: Plan, folder: Path) -> dict[str, Any]:
    """The lock of a plan whose panel will be in `folder`; computed, not written.

    base: where the design was written, relative to the folder: paths of the design go from there.
    """
    base = made.design.base
    frozen = freeze.lock(dict(made.portfolio))
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "misstep": misstep.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "analysis": {"version": RULES, "sources": analysis_sources()},
        "design": {"sha256": hash_of(made.design.plain()), "plain": made.design.plain()},
        "base": Path(os.path.relpath(base.resolve(), folder.resolve())).as_posix(),
        "seed": made.design.seed,
        "tasks": {task.name: _task(made, task) for task in made.tasks},
        "arms": {arm: _arm(made, arm, base) for arm in made.design.arms},
        "portfolio": hash_of(frozen),
        "schedule": hashlib.sha256(text_of(made.slots).encode()).hexdigest(),
    }


def _task(made: Plan, task: Task) -> dict[str, Any]:
    found: dict[str, Any] = {
        "digest": task.digest,
        "cohort": made.assigned.cohort[task.name],
        "eligible": list(made.assigned.eligible[task.name]),
    }
    others = {"harbor": harbor_digest(task.path), "ref": task.ref}
    return found | {key: value for key, value in others.items() if value}


def _arm(made: Plan, arm: str, base: Path) -> dict[str, Any]:
    plain, files = under(dict(made.portfolio), arm, base)
    return {"portfolio": hash_of(plain), "sources": {name: freeze.sha256(path) for name, path in files.items()}}


def under(portfolio: dict[str, Any], arm: str, base: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """A portfolio as it is in an arm, with every text as the model gets it, and the files that decide what it does.

    Names do not depend on where misstep is, nor on where the design is: `misstep/...`, or relative to `base`.
    """
    applied = arms_.apply(from_plain(portfolio), arm)
    rules = []
    for rule in applied.rules:
        policy = next(p for p in applied.misstep(rule).policies if p.id == rule.policy)
        rules.append(
            {
                "policy": rule.policy,
                "misstep": rule.misstep,
                "module": _named(rule.module, base),
                "mode": rule.mode,
                "action": rule.action or policy.action,
                "limit": policy.limit if rule.limit == 0 else rule.limit,
                "text": applied.text(rule, policy),
            }
        )
    plain = {
        "rules": rules,
        "wrapper": applied.wrapper,
        "stop_cap": applied.stop_cap,
        "patience": applied.patience,
        "unscoped": applied.unscoped,
    }
    files = freeze.sources({"rules": [{"module": rule.module} for rule in applied.rules]})
    return plain, {_named(name, base): path for name, path in files.items()}


def _named(name: str, base: Path) -> str:
    """A user's own file by its path from the design's base; others are named well already."""
    return Path(os.path.relpath(name, base.resolve())).as_posix() if Path(name).is_absolute() else name


def analysis_sources() -> dict[str, str]:
    """SHA-256 of every file of the code that turns attempts into numbers, by its name."""
    found: list[Path] = []
    for name in ANALYSIS:
        path = PACKAGE / name
        found += path.rglob("*.py") if path.is_dir() else [path] if path.is_file() else []
    return {f"misstep/{path.relative_to(PACKAGE).as_posix()}": freeze.sha256(path) for path in sorted(found)}


def hash_of(plain: Any) -> str:
    """SHA-256 of a JSON value: keys sorted, no spaces, UTF-8."""
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# -- the folder ----------------------------------------------------------------------------------------------------------


def write(folder: Path, source: Path, made: Plan) -> dict[str, Any]:
    """Write a panel's folder: design, schedule, portfolio.lock, and lock.json last. Returns the lock.

    Raises:
        LockError: the folder holds a panel already.
        OSError: it cannot be written.
    """
    if (folder / LOCK).exists():
        raise LockError(f"{folder / LOCK}: a panel is locked here already; expected a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    locked = lock(made, folder)
    (folder / DESIGN).write_bytes(source.read_bytes())
    (folder / SCHEDULE).write_text(text_of(made.slots), encoding="utf-8")
    freeze.write_lock(folder / PORTFOLIO, freeze.lock(dict(made.portfolio)))
    part = folder / f"{LOCK}.part"
    part.write_text(json.dumps(locked, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(folder / LOCK)
    return locked


@dataclass(frozen=True, slots=True)
class Panel:
    """A locked panel's folder, as read."""

    folder: Path
    lock: Mapping[str, Any]
    design: Design
    slots: tuple[Slot, ...]

    def cohort(self, task: str) -> str:
        """eligible | silent, as locked."""
        return str(self.lock["tasks"][task]["cohort"])


def read(folder: Path) -> Panel:
    """Read a panel's folder; nothing is compared with the lock but the design and the schedule, which are what is read.

    Raises:
        LockError, DesignError, ScheduleError: the file and what was expected.
    """
    locked = read_lock(folder / LOCK)
    design = Design.load(folder / DESIGN, (folder / locked["base"]).resolve())
    try:
        slots = tuple(read_schedule(folder / SCHEDULE))
    except OSError as error:
        raise LockError(f"{folder / SCHEDULE}: {error.strerror}") from None
    panel = Panel(folder, locked, design, slots)
    wrong = next(_own(panel), "")
    if wrong:
        raise LockError(wrong)
    return panel


def read_lock(path: Path) -> dict[str, Any]:
    """A lock, with all the parts that others look for. Raises LockError."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}; expected a panel's folder (misstep panel plan --out)") from None
    except (ValueError, RecursionError) as error:
        raise LockError(f"{path}: not JSON: {error}") from None
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        raise LockError(f"{path}: not a lock of a panel (expected schema {SCHEMA!r})")
    if given.get("version") != VERSION:
        raise LockError(f"{path}: version {given.get('version')!r}; this misstep reads {VERSION}")
    kinds = {
        "analysis": dict,
        "design": dict,
        "tasks": dict,
        "arms": dict,
        "base": str,
        "schedule": str,
        "portfolio": str,
    }
    for key, kind in kinds.items():
        if not isinstance(given.get(key), kind):
            raise LockError(f"{path}: {key}: expected {'a text' if kind is str else 'an object'}")
    inner = [("analysis", "sources", dict), ("design", "sha256", str), ("design", "plain", dict)]
    inner += [
        (f"tasks.{n}", key, kind)
        for n in given["tasks"]
        for key, kind in (("digest", str), ("cohort", str), ("eligible", list))
    ]
    inner += [(f"arms.{n}", key, kind) for n in given["arms"] for key, kind in (("portfolio", str), ("sources", dict))]
    for where, key, kind in inner:
        group, _, name = where.partition(".")
        held = given[group][name] if name else given[group]
        if not isinstance(held, dict) or not isinstance(held.get(key), kind):
            raise LockError(f"{path}: {where}.{key}: missing, or of another kind than expected")
    return given


def verify(folder: Path, analysis: bool = False) -> str:
    """'' where all that decides what runs is as locked, else one line that begins with the first file that differs.

    In this order: design, schedule, portfolio.lock, the arms' sources, tasks; with `analysis` the code of the analysis too
    (a change there does not touch what runs, so a run goes on and a report says so).

    Raises:
        LockError: the folder holds no lock that can be read.
    """
    locked = read_lock(folder / LOCK)
    try:
        panel = Panel(folder, locked, Design.load(folder / DESIGN, (folder / locked["base"]).resolve()), ())
        return next(_differences(panel, analysis), "")
    except (DesignError, OSError) as error:
        return str(error)


def _differences(panel: Panel, analysis: bool) -> Iterator[str]:
    yield from _own(panel)
    yield from _portfolio(panel)
    yield from _arms(panel)
    yield from _tasks(panel)
    if analysis:
        yield from _compared(panel.lock["analysis"]["sources"], analysis_sources())


def _own(panel: Panel) -> Iterator[str]:
    if hash_of(panel.design.plain()) != panel.lock["design"]["sha256"]:
        yield f"{panel.folder / DESIGN} changed since the lock was made: {_first_key(panel)}"
    path = panel.folder / SCHEDULE
    if hashlib.sha256(path.read_bytes()).hexdigest() != panel.lock["schedule"]:
        yield f"{path} changed since the lock was made"


def _first_key(panel: Panel) -> str:
    kept, now = panel.lock["design"]["plain"], panel.design.plain()
    keys = [key for key in sorted(kept.keys() | now.keys()) if kept.get(key) != now.get(key)]
    return f"{keys[0]} is not as locked" if keys else "its plain form in the lock is another one"


def _portfolio(panel: Panel) -> Iterator[str]:
    path = panel.folder / PORTFOLIO
    try:
        if hash_of(json.loads(path.read_text(encoding="utf-8"))) != panel.lock["portfolio"]:
            yield f"{path} changed since the lock was made"
    except (ValueError, RecursionError) as error:
        yield f"{path}: not JSON: {error}"


def _arms(panel: Panel) -> Iterator[str]:
    from misstep.guard.portfolio import PortfolioError

    base = panel.design.base
    for arm, kept in panel.lock["arms"].items():
        try:
            plain, files = under(portfolio_of(panel.design), arm, base)
        except (PortfolioError, StopIteration) as error:
            yield f"arm {arm}: {error}"
            continue
        yield from _compared(kept["sources"], {name: _sha(path) for name, path in files.items()})
        if hash_of(plain) != kept["portfolio"]:
            yield f"{panel.design.portfolio or 'the catalogue'}: the portfolio of arm {arm} changed since the lock was made"


def _tasks(panel: Panel) -> Iterator[str]:
    if panel.design.tasks.dataset:
        found = {task.name: task.path for task in tasks_of(panel.design)}
    else:
        root = panel.design.where(panel.design.tasks.path)
        found = {name: root / name for name in panel.lock["tasks"]}
    for name, kept in panel.lock["tasks"].items():
        path = found.get(name)
        if path is None or not path.is_dir():
            yield f"{path or name} is in the lock, and no longer there"
        elif digest(path) != kept["digest"]:
            yield f"{path} changed since the lock was made"


def _sha(path: Path) -> str:
    try:
        return freeze.sha256(path)
    except OSError as error:
        return error.strerror or "unreadable"


def _compared(kept: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(kept.keys() | now.keys()):
        if name not in now:
            yield f"{name} is in the lock, and no longer there"
        elif name not in kept:
            yield f"{name} is not in the lock"
        elif now[name] != kept[name]:
            yield f"{name} changed since the lock was made"
