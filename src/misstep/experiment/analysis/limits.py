"""What a panel cannot say, in sentences: too few changed tasks, holes, arms that differ in more than their policies."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from misstep.experiment.analysis.contrasts import Asked
from misstep.experiment.analysis.model import Arm, ContrastResult, Limit, Sequential, Terminations
from misstep.experiment.analysis.table import UNSCOPED, Table
from misstep.experiment.attempts import OBSERVATIONS
from misstep.stats import interval_note

_LISTED = 5


def names(found: Sequence[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(found[:_LISTED])
    return shown + (f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else "")


def signed(part: float) -> str:
    """A difference in points: '+3.4', '−1.2', '0.0'."""
    value = round(100 * part, 1)
    return f"+{value:.1f}" if value > 0 else f"−{-value:.1f}" if value < 0 else "0.0"


def arms_of(table: Table) -> list[Arm]:
    """Who ran in each arm."""
    made = []
    for arm in table.arms:
        rows = table.all_rows(arm, table.tasks)
        who = {(a.agent, a.agent_version, a.model) for row in rows for a in row.attempts}
        made.append(Arm(arm, *(tuple(sorted({one[at] for one in who} - {""})) for at in range(3))))
    return made


def limits(
    table: Table,
    designed: bool,
    named: bool,
    arms: Sequence[Arm],
    results: Sequence[ContrastResult],
    ends: Sequence[Terminations],
    look: Sequential | None,
) -> list[Limit]:
    """Every limit that holds, the gravest first."""
    primary = next((one for one in results if one.role == "primary"), None)
    found = [
        *_design(table, designed, named, primary),
        *_run(table, look),
        *(_few(primary, table) if primary else []),
        *_holes(table, results),
        *_uneven(table, results),
        *_who(arms),
        *_policies(table),
        *_records(table, ends),
    ]
    return [Limit(kind, text) for kind, text in found]


Found = list[tuple[str, str]]


def _design(table: Table, designed: bool, named: bool, primary: ContrastResult | None) -> Found:
    if designed:
        return []
    made = [
        (
            "no-design",
            (
                "There is no design: nothing says that arms, tasks and contrasts were chosen before the outcomes were known, nor "
                "that attempts were assigned to arms at random. Read differences as associations."
            ),
        )
    ]
    if not named and primary:
        made.append(
            ("primary-guessed", f"No primary contrast was named: {primary.name} was taken because of the arms' names.")
        )
    if not named and not primary and len(table.arms) > 1:
        text = f"No primary contrast was named (--primary ARM,AGAINST): every arm is compared with {table.arms[0]}, in one family."
        made.append(("no-primary", text))
    return made


def _run(table: Table, look: Sequential | None) -> Found:
    if table.finished:
        return []
    text = (
        f"The panel is not finished: {table.observed:,} of {len(table.slots):,} planned attempts are observed. The p-values and "
        "intervals are those of a finished panel and may not be used to decide when to stop"
    )
    if look:
        text += f"; the anytime-valid p of {look.arm} − {look.against} over {counted(look.pairs, 'pair')} is {look.p:.3g} and may"
    return [("unfinished", text + ".")]


def _few(primary: ContrastResult, table: Table) -> Found:
    made: Found = []
    effect = primary.effect
    if effect is None:
        return [("no-effect", f"{primary.name} is not available: {primary.why}.")]
    if primary.note:
        made.append(("few-changed", primary.note))
    short = interval_note(effect.tasks)
    if short:
        made.append(("few-tasks", short))
    made += _single(primary, table)
    return made


def _single(primary: ContrastResult, table: Table) -> Found:
    """Whether one task carries most of the effect."""
    effect = primary.effect
    assert effect is not None
    pairs = table.pairs(primary.arm, primary.against, table.of(primary.cohort))
    each = {task: one[0] / one[1] - other[0] / other[1] for task, one, other in pairs}
    if len(each) < 3 or not effect.mean:
        return []
    total = fsum(each.values())
    task = max(sorted(each), key=lambda t: each[t] * (1 if total > 0 else -1))
    rest = (total - each[task]) / (len(each) - 1)
    if abs(rest) > abs(effect.mean) / 2 and rest * effect.mean > 0:
        return []
    return [
        (
            "one-task",
            f"More than half of the effect comes from one task: without {task} it is {signed(rest)} points.",
        )
    ]


def _holes(table: Table, results: Sequence[ContrastResult]) -> Found:
    made: Found = []
    lost = len(table.slots) - table.observed
    if lost:
        made.append(
            (
                "missing",
                (
                    f"{lost:,} of {counted(len(table.slots), 'attempt')} {'has' if lost == 1 else 'have'} no observation: in no rate; "
                    "the bounds say what that could change."
                ),
            )
        )
    for one in results:
        if one.role == "described":
            continue
        if one.bounds and one.effect:
            least, most = min(b.mean for b in one.bounds), max(b.mean for b in one.bounds)
            if least * most < 0 or (one.effect.mean and not least * most):
                made.append(
                    (
                        "missing-sign",
                        f"The missing attempts could turn {one.name}: {signed(least)} to {signed(most)} points.",
                    )
                )
        if one.unpaired:
            made.append(
                (
                    "unpaired",
                    (
                        f"{counted(len(one.unpaired), 'task')} with attempts in one arm of {one.name} only "
                        f"cannot be paired: {names(one.unpaired)}."
                    ),
                )
            )
    return made


def _uneven(table: Table, results: Sequence[ContrastResult]) -> Found:
    made: Found = []
    sizes = {arm: sum(len(row.attempts) for row in table.all_rows(arm, table.tasks)) for arm in table.arms}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{arm} {n:,}" for arm, n in sizes.items())
        made.append(("imbalance", f"The arms have unequal numbers of observed attempts: {shown}."))
    uneven = [one.name for one in results if one.role != "described" and _unequal(table, one)]
    if uneven:
        made.append(
            (
                "unequal-attempts",
                (
                    f"Tasks have unequal numbers of attempts in {names(uneven)}: the sign-flip p is approximate there, and "
                    "the p within tasks is exact where it is given."
                ),
            )
        )
    return made


def _unequal(table: Table, one: ContrastResult) -> bool:
    return any(a[1] != b[1] for _, a, b in table.pairs(one.arm, one.against, table.of(one.cohort)))


def _who(arms: Sequence[Arm]) -> Found:
    made: Found = []
    for what, key in (("agents", "agents"), ("agent versions", "versions"), ("models", "models")):
        mixed = [one.arm for one in arms if len(getattr(one, key)) > 1]
        if mixed:
            more = "; --model NAME takes one" if key == "models" else ""
            made.append(("mixed-arm", f"More than one of the {what} is in an arm: {names(mixed)}{more}."))
        known = {getattr(one, key) for one in arms if getattr(one, key)}
        if len(known) > 1:
            shown = "; ".join(f"{one.arm}: {', '.join(getattr(one, key)) or 'not on record'}" for one in arms)
            made.append(("unmatched-arms", f"The arms differ in their {what}, not in their policies alone ({shown})."))
    return made


def _policies(table: Table) -> Found:
    made: Found = []
    for arm in table.arms:
        attempts = [a for row in table.all_rows(arm, table.tasks) for a in row.attempts]
        if not attempts:
            continue
        acted = sum(a.nudges > 0 for a in attempts)
        if arm == "baseline" and acted:
            made.append(
                ("baseline-fired", f"Policies intervened in {counted(acted, 'attempt')} of the baseline: it is none.")
            )
        if arm == "real" and not acted and any(a.state for a in attempts):
            made.append(("never-fired", "No policy ever intervened in the real arm although its states were seen."))
        if arm not in UNSCOPED and any(a.state for a in attempts) and not any(a.behaviour for a in attempts):
            made.append(("no-markers", f"No behaviour marker is on record in {arm}: its funnel has no third stage."))
    return made


def _records(table: Table, ends: Sequence[Terminations]) -> Found:
    made: Found = []
    if table.unplanned:
        first = " / ".join(map(str, table.unplanned[0]))
        made.append(
            (
                "unplanned",
                f"Attempts of {counted(len(table.unplanned), 'slot')} that are not in the plan are not counted (first: {first}).",
            )
        )
    if table.twice:
        first = " / ".join(map(str, table.twice[0]))
        made.append(
            (
                "twice",
                f"{counted(len(table.twice), 'slot')} with two records of one candidate; the first to start counts (first: {first}).",
            )
        )
    otherwise = sum(one.passed_otherwise for one in ends)
    if otherwise:
        made.append(
            (
                "passed-otherwise",
                (
                    f"The verifier passed {counted(otherwise, 'attempt')} that ended in another way (a timeout, say): counted as "
                    "passed."
                ),
            )
        )
    silent = sum(a.passed is None for row in table.rows.values() for a in row.attempts if a.termination in OBSERVATIONS)
    if silent:
        made.append(("no-verdict", f"{counted(silent, 'observed attempt')} without a verdict: counted as failed."))
    return made


def counted(number: int, what: str) -> str:
    """'1 task', '1,200 tasks'."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def sentence(table: Table, primary: ContrastResult | None, asked: Asked | None, label: str) -> str:
    """What was found, in plain words with its uncertainty; never more than the tables can carry."""
    if primary is None or asked is None:
        return "No primary contrast was named: the tables describe the arms."
    effect = primary.effect
    if effect is None:
        made = f"{primary.name} cannot be told: {primary.why}."
        return f"Simulated ({label}). {made}" if label else made
    if not effect.mean:
        what = f"{primary.arm} and {primary.against} passed equally often"
    else:
        size = max(0.1, round(100 * abs(effect.mean), 1))
        about = f"{'less than ' * (100 * abs(effect.mean) < 0.05)}{size:.1f} points"
        what = f"{primary.arm} passed {about} {'more' if effect.mean > 0 else 'less'} often than {primary.against}"
    span = f"95 % interval {signed(effect.low)} to {signed(effect.high)}, " if effect.tasks > 1 else ""
    # Sums of thousands of tasks are right to 1e-11 of probability: digits of a smaller p would be invented.
    chance = f"p = {effect.p:.4g}" if effect.p >= 1e-4 else "p < 0.0001"
    moved = (
        f"{effect.up:,} improved, {effect.down:,} got worse, {effect.tasks - effect.up - effect.down:,} did not move"
    )
    made = f"{what} on {_which(effect.tasks, len(table.of(primary.cohort)), primary.cohort)} ({span}{chance}): {moved}."
    if primary.note:
        made += f" {primary.note}"
    elif effect.p > 0.05:
        made += " That is no proof of an effect, nor of its absence."
    if not table.finished:
        made = f"Not finished: {table.observed:,} of {counted(len(table.slots), 'attempt')}. So far, {made}"
    elif primary.bounds:
        ends = [bound.mean for bound in primary.bounds]
        made += f" {counted(sum(primary.missing), 'attempt')} without an observation could make it "
        made += f"{signed(min(ends))} to {signed(max(ends))} points."
    return f"Simulated ({label}). {made}" if label else made


def _which(paired: int, whole: int, cohort: str) -> str:
    """The tasks that an effect is over: not called all of a cohort where some of it could not be paired."""
    kind = "" if cohort == "all" else f"{cohort} "
    if paired < whole:
        return f"{paired:,} of the {whole:,} {kind}tasks"
    if whole == 1:
        return f"the one {kind}task"
    return f"{'all' if cohort == 'all' else 'the'} {whole:,} {kind}tasks"
