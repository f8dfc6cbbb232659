"""The parts of an analysis. Proportions throughout: 0.034 is 3.4 points. Plain data only, so that it is its own file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

SCHEMA = "misstep.panel.analysis"
VERSION = 1
"""Of the rules of the analysis: raised whenever the same attempts would give another number."""

ALL = "all"
"""The cohort of every task, beside "eligible" and "silent"."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks of a paired difference, with its 95 % interval and two-sided sign-flip p (docs/statistics.md).

    floor: the smallest p that these tasks could have given. slack: the exact ends lie within it inside [low, high]; 0 where
    interval and p are exact.
    """

    tasks: int
    mean: float
    low: float
    high: float
    p: float
    floor: float
    up: int
    down: int
    slack: float = 0.0


@dataclass(frozen=True, slots=True)
class PassK:
    """pass@k (at least one of k) and pass^k (all of k), means over tasks with intervals; None and `why` where not available."""

    k: int
    at: float | None
    at_low: float | None
    at_high: float | None
    hat: float | None
    hat_low: float | None
    hat_high: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """An arm in a cohort (FIRE, Tables 3, 5 and 8). attempts: observed ones; missing: planned and without a fair one."""

    arm: str
    cohort: str
    tasks: int
    attempts: int
    missing: int
    passed: int
    rate: float | None
    """Mean over tasks of the share of attempts that passed."""
    low: float | None
    high: float | None
    rate_all_fail: float | None
    """The same, were every missing attempt a failure, and a pass."""
    rate_all_pass: float | None
    ks: tuple[PassK, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """The contrast were the missing attempts to end as said: "all pass", "all fail", "worst" and "best" for the arm."""

    case: str
    mean: float
    p: float


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """`arm` less `against` over the tasks that have an observed attempt in both."""

    arm: str
    against: str
    cohort: str
    role: str
    """primary | secondary | described: the last stands outside the family that Holm's adjustment is over."""
    effect: Estimate | None
    p_holm: float | None
    p_within: float | None
    """Where tasks have unequal numbers of attempts: outcomes dealt anew within tasks, exact for any numbers."""
    improved: tuple[str, ...]
    regressed: tuple[str, ...]
    missing: tuple[int, int]
    """Attempts planned without an observation, in the arm and in the other."""
    unpaired: tuple[str, ...]
    """Tasks of the cohort with observations in one of the two only."""
    bounds: tuple[Bound, ...]
    """Empty where nothing is missing."""
    note: str = ""
    why: str = ""
    """Why there is no effect."""

    @property
    def name(self) -> str:
        """'real − sham'."""
        return f"{self.arm} − {self.against}"


@dataclass(frozen=True, slots=True)
class InteractionResult:
    """How far the effect on eligible tasks exceeds that on silent ones; p by permutation of the labels over all tasks."""

    arm: str
    against: str
    eligible: int
    silent: int
    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Funnel:
    """Attempts of an arm by how far the registered chain went: state, fired, behaviour, pass (FIRE, Figure 3).

    state counts attempts among the `told` ones that have steps on record, fired among the `watched` ones of which it is known, behaviour those whose marker holds among the `known`
    ones whose record tells.
    """

    arm: str
    cohort: str
    attempts: int
    state: int
    told: int
    fired: int
    watched: int
    interventions: int
    behaviour: int
    known: int
    passed: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the funnel in the planned contrasts: the paired difference of its share of attempts over tasks."""

    arm: str
    against: str
    cohort: str
    stage: str
    """state | fired | behaviour | passed | gave-up"""
    effect: Estimate | None


@dataclass(frozen=True, slots=True)
class Family:
    """A misstep's policies on the tasks that are theirs: the funnel in every arm, and the primary contrast there."""

    family: str
    tasks: tuple[str, ...]
    arms: tuple[Funnel, ...]
    effect: Estimate | None


@dataclass(frozen=True, slots=True)
class Transitions:
    """tasks[i][j]: tasks with i passes in `against` and j in `arm` (FIRE, Table 6)."""

    arm: str
    against: str
    cohort: str
    tasks: tuple[tuple[int, ...], ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Terminations:
    """How the observed attempts of an arm ended (FIRE, Table 7), and what was not observed."""

    arm: str
    cohort: str
    counts: Mapping[str, int]
    """By termination, of observed attempts."""
    missing: Mapping[str, int]
    """Slots without an observation by the termination of their last candidate; "not-run" where there is none."""
    replaced: int
    """Candidates that were no observation and had a successor that is one."""
    passed_otherwise: int
    """Attempts that the verifier passed although they ended in another way: they count as passes."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What the observed attempts of an arm took. known: attempts with the figure on record; others are in no sum."""

    arm: str
    cohort: str
    measure: str
    """cost_usd | seconds | input_tokens | output_tokens | steps"""
    known: int
    attempts: int
    total: float | None
    mean: float | None
    median: float | None


@dataclass(frozen=True, slots=True)
class SpendChange:
    """Paired difference over tasks of the mean a task's attempts took. ratio: of the sums of the task means, less 1."""

    arm: str
    against: str
    cohort: str
    measure: str
    effect: Estimate | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Placebo:
    """Tasks on which nothing fired in either arm: what moves there is noise. `touched`: the other tasks. Neither is there
    where no guard is on record in the two arms: they differ in something else then, and nothing is a placebo of it."""

    arm: str
    against: str
    cohort: str
    untouched: Estimate | None
    touched: Estimate | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A leave-one-family-out arm: the whole portfolio less the one without the family, on the family's tasks and elsewhere."""

    family: str
    arm: str
    against: str
    own: Estimate | None
    elsewhere: Estimate | None


@dataclass(frozen=True, slots=True)
class Sequential:
    """The anytime-valid look at the primary contrast: pairs (task, replicate) in the order of the schedule."""

    arm: str
    against: str
    cohort: str
    pairs: int
    evidence: float
    p: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Another model of the primary contrast, on its own scale; None and `why` where it is not available."""

    method: str
    """gee | conditional-logit"""
    tasks: int
    attempts: int
    odds_ratio: float | None
    odds_low: float | None
    odds_high: float | None
    difference: float | None
    """Of marginal pass rates, with its interval; None in a model that has none."""
    low: float | None
    high: float | None
    p: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Arm:
    """Who ran in an arm: every agent, version and model on record in its observed attempts."""

    arm: str
    agents: tuple[str, ...]
    versions: tuple[str, ...]
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A task's outcomes: passed[i] of attempts[i] observed and missing[i] not, in arm i of the analysis."""

    task: str
    cohort: str
    families: tuple[str, ...]
    passed: tuple[int, ...]
    attempts: tuple[int, ...]
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """A planned attempt without an observation, and why."""

    task: str
    arm: str
    replicate: int
    why: str


@dataclass(frozen=True, slots=True)
class Limit:
    """What this panel cannot say, in a sentence. kind: a word for programs."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """All that a report shows. A function of attempts, design and plan alone: no clock, no seed, no order of lines."""

    name: str
    simulated: str
    """'' for a panel of real agents; else what made the attempts: every report says it."""
    planned: int
    observed: int
    finished: bool
    """Every planned slot has been settled: an observation, or candidates that were none."""
    sentence: str
    arms: tuple[Arm, ...]
    cohorts: Mapping[str, int]
    tasks: tuple[Task, ...]
    cells: tuple[Cell, ...]
    contrasts: tuple[ContrastResult, ...]
    """The primary one first, then the secondary ones, then those that are described only."""
    interactions: tuple[InteractionResult, ...]
    funnel: tuple[Funnel, ...]
    stages: tuple[Stage, ...]
    families: tuple[Family, ...]
    transitions: tuple[Transitions, ...]
    terminations: tuple[Terminations, ...]
    spend: tuple[Spend, ...]
    spend_changes: tuple[SpendChange, ...]
    placebo: tuple[Placebo, ...]
    left_out: tuple[LeftOut, ...]
    sequential: Sequential | None
    sensitivity: tuple[Sensitivity, ...]
    missing: tuple[Missing, ...]
    limits: tuple[Limit, ...]

    @property
    def primary(self) -> ContrastResult | None:
        """The primary contrast, if there is one."""
        return next((c for c in self.contrasts if c.role == "primary"), None)

    def contrast(self, arm: str, against: str, cohort: str | None = None) -> ContrastResult:
        """A contrast by its arms (and cohort). Raises KeyError."""
        for one in self.contrasts:
            if (one.arm, one.against) == (arm, against) and cohort in (None, one.cohort):
                return one
        raise KeyError(f"{arm} − {against}" + (f" ({cohort})" if cohort else ""))

    def cell(self, arm: str, cohort: str = ALL) -> Cell:
        """An arm in a cohort. Raises KeyError."""
        for one in self.cells:
            if (one.arm, one.cohort) == (arm, cohort):
                return one
        raise KeyError(f"{arm} ({cohort})")

    def plain(self) -> dict[str, Any]:
        """JSON-able, and what analysis.json holds."""
        return {"schema": SCHEMA, "version": VERSION, **plain(self)}


def plain(value: Any) -> Any:
    """Dataclasses, tuples and mappings as JSON knows them."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
