"""Run missteps and their policies over a stream of events."""

from __future__ import annotations

from misstep._record import field, record
from misstep.trajectory import Before, Event, Prompt, Stop, Trajectory, events

from .base import HANDLERS, Misstep, Policy, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


@record(slots=True)
class Firing:
    """A policy that would have fired."""

    policy: str
    misstep: str
    at: int
    action: str


@record(slots=True)
class Judgement:
    """What a fold found in one trajectory."""

    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    """By misstep id, only those with at least one opportunity."""
    firings: list[Firing] = field(default_factory=list)
    eligible: dict[str, str] = field(default_factory=dict)
    """For scoped missteps: the words of the prompt that put the task in scope."""
    behaved: dict[str, bool | None] = field(default_factory=dict)
    """Behaviour markers of the eligible scoped missteps."""


@record(slots=True)
class Asked:
    """What a policy answered at an event, before that event was folded in."""

    policy: Policy
    holds: bool | None
    """G: whether the stream stands in the state that precedes the failure."""
    released: bool
    """R: whether what it waits for already holds."""
    used: int
    """Interventions before this event."""

    @property
    def fires(self) -> bool:
        """Whether it intervenes, if the task is in its scope."""
        limit = self.policy.limit
        return bool(self.holds) and not self.released and (limit is None or self.used < limit)


class Run:
    """One misstep and its policies, followed in one stream: recorded (`Fold`) or live (the guard)."""

    __slots__ = ("eligible", "eligible_policies", "misstep", "nudges", "state", "verdicts")

    def __init__(self, misstep: Misstep) -> None:
        self.misstep = misstep
        self.state = misstep.State()
        self.verdicts: list[Verdict] = []
        self.eligible: str | None = None if misstep.scoped else ""
        self.eligible_policies: dict[str, str] = {}
        """Policy id -> the words of the prompt that put the task in its scope."""
        self.nudges: dict[str, int] = {}

    def latch(self, prompt: str) -> None:
        """E: decide once, on the first real prompt."""
        misstep = self.misstep
        if misstep.scoped:
            self.eligible = misstep.eligible(prompt)
        for policy in misstep.policies:
            words = policy.eligible(misstep, prompt)
            if words is not None:
                self.eligible_policies[policy.id] = words

    def ask(self, policy: Policy, event: Event) -> Asked:
        """G and R of one policy at an event that it acts at."""
        state = self.state
        released = policy.released(state)
        return Asked(policy, policy.fires(state, event), released, self.nudges.get(policy.id, 0))

    def nudged(self, policy: Policy) -> None:
        """Count an intervention."""
        self.nudges[policy.id] = self.nudges.get(policy.id, 0) + 1


class Fold:
    """The missteps' folds side by side. Each sees every event; eligibility latches on the first prompt."""

    def __init__(self, missteps: Iterable[Misstep]) -> None:
        self.runs = [Run(m) for m in missteps]
        self.firings: list[Firing] = []
        self._prompted = False
        self._handlers: dict[type[Event], list[tuple[Run, Any]]] = {}
        for kind, name in HANDLERS.items():
            base = getattr(Misstep, name)
            self._handlers[kind] = [
                (run, getattr(run.misstep, name)) for run in self.runs if getattr(type(run.misstep), name) is not base
            ]

    def push(self, event: Event) -> None:
        """Fold one event in, asking the policies first."""
        kind = type(event)
        if kind is Prompt and not self._prompted:
            self._prompted = True
            for run in self.runs:
                run.latch(event.text)  # type: ignore[attr-defined]
        if kind is Before or kind is Stop:
            self._ask(event, "before" if kind is Before else "stop")
        for run, handler in self._handlers[kind]:
            if run.eligible is None:
                continue
            found = handler(run.state, event)
            if found:
                run.verdicts.extend(found)

    def _ask(self, event: Event, at: str) -> None:
        for run in self.runs:
            if not run.eligible_policies:
                continue
            for policy in run.misstep.policies:
                if policy.at != at or policy.id not in run.eligible_policies:
                    continue
                if policy.limit is not None and run.nudges.get(policy.id, 0) >= policy.limit:
                    continue
                if run.ask(policy, event).fires:
                    run.nudged(policy)
                    self.firings.append(Firing(policy.id, run.misstep.id, event.index, policy.action))

    def finish(self) -> Judgement:
        """The verdicts of the whole stream."""
        result = Judgement(firings=self.firings)
        for run in self.runs:
            if run.eligible is None:
                continue
            run.verdicts.extend(run.misstep.finish(run.state) or ())
            if run.verdicts:
                result.verdicts[run.misstep.id] = sorted(run.verdicts, key=lambda v: v.at)
            if run.misstep.scoped:
                result.eligible[run.misstep.id] = run.eligible
                result.behaved[run.misstep.id] = run.misstep.behaved(run.state)
        return result


def judge(trajectory: Trajectory, missteps: Sequence[Misstep]) -> Judgement:
    """All verdicts and would-be firings in one recorded trajectory."""
    fold = Fold(missteps)
    for event in events(trajectory):
        fold.push(event)
    return fold.finish()
