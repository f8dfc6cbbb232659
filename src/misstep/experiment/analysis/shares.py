"""Arms by themselves: passes and pass@k, the funnel, families, terminations (FIRE, Tables 3 to 5, 7 and 8, Figure 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import comb

from misstep.experiment.analysis.contrasts import Asked
from misstep.experiment.analysis.model import Cell, Family, Funnel, PassK, Stage, Terminations
from misstep.experiment.analysis.numbers import Share, estimate, mean
from misstep.experiment.analysis.table import NOT_RUN, UNSCOPED, Row, Table, family
from misstep.experiment.attempts import TERMINATIONS, Attempt, fair

STAGES = ("state", "fired", "behaviour", "passed", "gave-up")


def cell(table: Table, arm: str, cohort: str) -> Cell:
    """Passes of an arm in a cohort, with pass@k and pass^k up to the fewest attempts of a task."""
    rows = [row for row in table.all_rows(arm, table.of(cohort)) if row.attempts or row.missing]
    seen = [row.share for row in rows if row.attempts]
    found = mean(seen)
    bounds = [
        mean([(row.passed + fill * len(row.missing), len(row.attempts) + len(row.missing)) for row in rows])
        for fill in (0, 1)
    ]
    return Cell(
        arm=arm,
        cohort=cohort,
        tasks=len(seen),
        attempts=sum(n for _, n in seen),
        missing=sum(len(row.missing) for row in rows),
        passed=sum(p for p, _ in seen),
        rate=found and found[0],
        low=found and found[1],
        high=found and found[2],
        rate_all_fail=bounds[0] and bounds[0][0],
        rate_all_pass=bounds[1] and bounds[1][0],
        ks=tuple(_ks(seen)),
    )


def _ks(shares: list[Share]) -> list[PassK]:
    if not shares:
        return []
    least, most = min(n for _, n in shares), max(n for _, n in shares)
    ks = sorted(
        set(range(1, most + 1)) if most <= 5 else {k for k in (1, 2, 5, 10, 20, 50, 100) if k <= most} | {least}
    )
    return [_k(shares, k, least) for k in ks]


def _k(shares: list[Share], k: int, least: int) -> PassK:
    if k > least:
        fewer = sum(n < k for _, n in shares)
        why = f"{fewer} of {len(shares)} tasks {'has' if fewer == 1 else 'have'} fewer than {k} observed attempts"
        return PassK(k, None, None, None, None, None, None, why)
    if k == 1:
        at = mean(shares)
        assert at is not None
        return PassK(1, *at, *at)
    at = mean([(comb(n, k) - comb(n - p, k), comb(n, k)) for p, n in shares])
    hat = mean([(comb(p, k), comb(n, k)) for p, n in shares])
    assert at is not None and hat is not None
    return PassK(k, *at, *hat)


def state(attempt: Attempt) -> bool | None:
    """X: some policy's predicate held. The generic nudges hold in every attempt: they are no state. None: no step is on record."""
    if attempt.extra and attempt.extra.get("unrecorded"):
        return None
    return bool(attempt.state) and any(name not in UNSCOPED for name in attempt.state)


def fired(attempt: Attempt) -> bool | None:
    """A: something intervened. None: neither a step nor a guard is on record."""
    if attempt.fired:
        return attempt.nudges > 0
    return None if attempt.extra and attempt.extra.get("unrecorded") and not attempt.extra.get("guard") else False


def behaviour(attempt: Attempt) -> bool | None:
    """B over the families whose policies take the task (all that are on record where none does): False if any known marker
    fails, True if some holds, None where none is known."""
    if not attempt.behaviour:
        return None
    families = {family(name) for name in attempt.eligible} - UNSCOPED
    known = [
        answer
        for name, answer in attempt.behaviour.items()
        if answer is not None and (not families or name in families)
    ]
    return all(known) if known else None


def passed(attempt: Attempt) -> bool:
    """The verifier's verdict; none is no pass."""
    return attempt.passed is True


def gave_up(attempt: Attempt) -> bool:
    """The agent said that it could not."""
    return attempt.termination == "gave-up"


TESTS = dict(zip(STAGES, (state, fired, behaviour, passed, gave_up), strict=True))


def funnel(arm: str, cohort: str, rows: list[Row]) -> Funnel:
    """How far the chain went in the observed attempts of some rows."""
    held, acted, shown, through = (_sum(row.share_of(TESTS[name]) for row in rows) for name in STAGES[:4])
    return Funnel(
        arm=arm,
        cohort=cohort,
        attempts=through[1],
        state=held[0],
        told=held[1],
        fired=acted[0],
        watched=acted[1],
        interventions=sum([a.nudges for row in rows for a in row.attempts if a.fired]),
        behaviour=shown[0],
        known=shown[1],
        passed=through[0],
    )


def _sum(shares: Iterable[Share]) -> Share:
    every = list(shares)
    return sum([n for n, _ in every]), sum([m for _, m in every])


def of_family(name: str, arm: str, rows: list[Row]) -> Funnel:
    """The same for the policies and the marker of one family."""
    attempts = [a for row in rows for a in row.attempts]
    nudges = [sum(n for p, n in a.fired.items() if family(p) == name) for a in attempts]
    shown = [a.behaviour.get(name) for a in attempts]
    return Funnel(
        arm=arm,
        cohort="",
        attempts=len(attempts),
        state=sum(any(family(p) == name for p in a.state) for a in attempts),
        told=sum(state(a) is not None for a in attempts),
        fired=sum(n > 0 for n in nudges),
        watched=sum(fired(a) is not None for a in attempts),
        interventions=sum(nudges),
        behaviour=shown.count(True),
        known=len(shown) - shown.count(None),
        passed=sum(map(passed, attempts)),
    )


def stages(table: Table, asked: Asked) -> list[Stage]:
    """The paired difference of every stage's share of attempts."""
    made = []
    for name, test in TESTS.items():
        pairs = table.pairs(asked.arm, asked.against, table.of(asked.cohort), test)
        made.append(Stage(asked.arm, asked.against, asked.cohort, name, estimate([(a, b) for _, a, b in pairs])))
    return made


def families(table: Table, primary: Asked | None) -> list[Family]:
    """The funnel of every family on its own tasks, by arm, and the primary contrast there."""
    made = []
    for name in sorted({one for names in table.families.values() for one in names}):
        tasks = [task for task in table.tasks if name in table.families[task]]
        arms = tuple(of_family(name, arm, table.all_rows(arm, tasks)) for arm in table.arms)
        pairs = table.pairs(primary.arm, primary.against, tasks) if primary else []
        made.append(Family(name, tuple(tasks), arms, estimate([(a, b) for _, a, b in pairs])))
    return made


def terminations(table: Table, arm: str, cohort: str) -> Terminations:
    """How attempts ended, and what became of the slots without an observation."""
    rows = table.all_rows(arm, table.of(cohort))
    attempts = [a for row in rows for a in row.attempts]
    ended = Counter(a.termination for a in attempts)
    lost = Counter(one.why for row in rows for one in row.missing)
    replaced = sum(
        not fair(one) and one.candidate < a.candidate
        for a in attempts
        if a.candidate > 1
        for one in table.candidates[a.slot]
    )
    return Terminations(
        arm=arm,
        cohort=cohort,
        counts={name: ended[name] for name in TERMINATIONS if name in ended or name in TERMINATIONS[:5]},
        missing={name: lost[name] for name in (*TERMINATIONS, NOT_RUN) if lost[name]},
        replaced=replaced,
        passed_otherwise=sum(passed(a) and a.termination != "pass" for a in attempts),
    )
