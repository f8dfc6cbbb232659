"""What an analysis starts from, as it lies on disk: a panel's folder, or a file of attempts with or without a design."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from misstep.experiment.analysis import Analysis, Plan, PlanError, analyse
from misstep.experiment.attempts import Attempt, AttemptsError, read_attempts
from misstep.experiment.plan import lock as locks
from misstep.experiment.plan.design import Design, DesignError
from misstep.experiment.plan.schedule import ScheduleError

ATTEMPTS = "attempts.jsonl"
ERRORS = (AttemptsError, DesignError, PlanError, ScheduleError, locks.LockError)
"""What is wrong with the user's files: each is one line that names the file."""


@dataclass(frozen=True, slots=True)
class Records:
    """Attempts with all that says what they were to be."""

    attempts: tuple[Attempt, ...]
    design: Design | None
    plan: Plan | None
    source: Path
    """The file of attempts."""
    notes: tuple[str, ...] = ()
    """What a report has to say of the files, besides what the analysis says of the attempts."""

    def of_model(self, model: str) -> Records:
        """Those of one model alone. Attempts without a model on record are left out, and a note says so: nobody knows whose
        they are. Raises AttemptsError where no attempt is of it.
        """
        kept = tuple(one for one in self.attempts if one.model == model)
        if not kept:
            known = sorted({one.model for one in self.attempts if one.model})
            raise AttemptsError(f"{self.source}: no attempt of model {model!r}; there are {', '.join(known) or 'none'}")
        lost = sum(not one.model for one in self.attempts)
        said = [f"Attempts of {model} alone: {len(kept):,} of {len(self.attempts):,}."]
        if lost:
            said.append(
                f"{lost:,} without a model on record are left out, faults of the infrastructure among them, perhaps."
            )
        return replace(self, attempts=kept, notes=(*self.notes, *said))

    def analyse(self, primary: tuple[str, str] | None = None, cohort: str | None = None) -> Analysis:
        """See `misstep.experiment.analysis.analyse`."""
        return analyse(self.attempts, self.design, self.plan, primary=primary, cohort=cohort)


def read(path: Path, design: Path | None = None) -> Records:
    """A panel's folder (its lock is held against its design and schedule), or a file of attempts.

    A folder without a lock needs attempts.jsonl; a design.toml in it is used. `design` comes before both, and then the plan
    of a lock, which is of another design, is not used.

    Raises:
        AttemptsError, DesignError, LockError, ScheduleError: the file, and what was expected.
        OSError: a file that cannot be read.
    """
    source = path / ATTEMPTS if path.is_dir() else path
    plan, given = None, None
    notes: list[str] = []
    if path.is_dir() and not design and (path / locks.LOCK).exists():
        panel = locks.read(path)
        given, plan = panel.design, plan_of(panel)
        notes += _changed(panel)
        if not source.exists():  # locked, and nothing has run
            return Records((), given, plan, source, tuple(notes))
    elif design and path.is_dir() and (path / locks.LOCK).exists():
        given = Design.load(design)
        notes.append("The design is not the one that was locked: its contrasts were named after that.")
    elif design or (path / locks.DESIGN).exists():
        given = Design.load(design or path / locks.DESIGN)
    if not source.exists():
        raise AttemptsError(f"{source}: no such file; expected a panel's folder or a file of attempts (JSONL)")
    attempts = tuple(read_attempts(source))
    if not attempts and plan is None:
        raise AttemptsError(f"{source}: no attempt in it")
    return Records(attempts, given, plan, source, tuple(notes))


def _changed(panel: locks.Panel) -> list[str]:
    """A sentence where the code of the analysis is not the one that was locked."""
    kept, now = panel.lock["analysis"]["sources"], locks.analysis_sources()
    changed = [name for name in sorted(kept.keys() | now.keys()) if kept.get(name) != now.get(name)]
    if not changed:
        return []
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return [f"The code of the analysis changed since the panel was locked: {changed[0]}{more}."]


def plan_of(panel: locks.Panel) -> Plan:
    """The slots, cohorts and eligibility that a panel locked."""
    tasks = panel.lock["tasks"]
    return Plan(
        slots=tuple(slot.key for slot in panel.slots),
        cohorts={name: str(task["cohort"]) for name, task in tasks.items()},
        eligible={name: tuple(map(str, task["eligible"])) for name, task in tasks.items()},
    )
