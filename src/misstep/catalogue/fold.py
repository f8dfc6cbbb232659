"""Run missteps and their policies over a stream of events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from misstep.trajectory import Before, Event, Prompt, Stop, Trajectory, events

from .base import HANDLERS, Misstep, Policy, Verdict


@dataclass(slots=True)
class Firing:
    """A policy that would have fired."""

    policy: str
    misstep: str
    at: int
    action: str


@dataclass(slots=True)
class Judgement:
    """What a fold found in one trajectory."""

    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    """By misstep id, only those with at least one opportunity."""
    firings: list[Firing] = field(default_factory=list)
    eligible: dict[str, str] = field(default_factory=dict)
    """For scoped missteps: the words of the prompt that put the task in scope."""
    behaved: dict[str, bool | None] = field(default_factory=dict)
    """Behaviour markers of the eligible scoped missteps."""


class _Run:
    """One misstep's state in one stream."""

    __slots__ = ("eligible", "eligible_policies", "misstep", "nudges", "state", "verdicts")

    def __init__(self, misstep: Misstep) -> None:
        self.misstep = misstep
        self.state = misstep.State()
        self.verdicts: list[Verdict] = []
        self.eligible: str | None = None if misstep.scoped else ""
        self.eligible_policies: list[Policy] = []
        self.nudges: dict[str, int] = {}


class Fold:
    """The missteps' folds side by side. Each sees every event; eligibility latches on the first prompt."""

    def __init__(self, missteps: Iterable[Misstep]) -> None:
        self.runs = [_Run(m) for m in missteps]
        self.firings: list[Firing] = []
        self._prompted = False
        self._handlers: dict[type[Event], list[tuple[_Run, Any]]] = {}
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
                if run.misstep.scoped:
                    run.eligible = run.misstep.eligible(event.text)  # type: ignore[attr-defined]
                run.eligible_policies = [
                    p for p in run.misstep.policies if p.eligible(run.misstep, event.text) is not None  # type: ignore[attr-defined]
                ]
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
            for policy in run.eligible_policies:
                if policy.at != at:
                    continue
                used = run.nudges.get(policy.id, 0)
                if policy.limit is not None and used >= policy.limit:
                    continue
                if not policy.released(run.state) and policy.fires(run.state, event):
                    run.nudges[policy.id] = used + 1
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
