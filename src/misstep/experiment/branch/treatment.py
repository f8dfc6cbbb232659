"""What an arm does at a decision point and after it: the guard's own engine, with the point's policy alone in its portfolio.

The engine is brought to the point by the recorded events; there, and at every later event, the arm decides: `real` with the
policy's words and action, `sham` with general words of the same length, `nothing` not at all, `always-real` also on a task
that is not the policy's own. So a policy that denies until a condition holds goes on denying.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from misstep.experiment.branch.points import NOTHING, Point
from misstep.guard import arms as arms_
from misstep.guard.engine import Engine
from misstep.guard.portfolio import Portfolio, from_plain
from misstep.sandbox.base import SandboxError

if TYPE_CHECKING:
    from misstep.trajectory import Event

ARMS = ("real", "sham", NOTHING, "always-real", "sham-deny", "always-verify", "reconsider")
"""Arms that a branch test can have."""
SILENT_OUT_OF_SCOPE = frozenset(["real", "sham", "sham-deny"])
"""Arms that do nothing at a point that is not in the policy's scope."""


class PointLost(SandboxError):
    """What was found at the point is not found there again."""


def stands_for(arm: str, point: Point) -> str:
    """The arm whose continuations of this point are those of `arm` too, since by definition they do the same there."""
    if point.scoped:
        return "real" if arm == "always-real" else arm
    return NOTHING if arm in SILENT_OUT_OF_SCOPE else arm


@dataclass(frozen=True, slots=True)
class Said:
    """What is done at an event."""

    action: str = ""
    """'' (nothing), instruct or deny."""
    text: str = ""


class Treatment:
    """One arm in one continuation. `at` is asked at the point, `before` and `stop` at every later event; `see` folds events in."""

    def __init__(self, portfolio: Portfolio | None, text: str = "", action: str = "instruct") -> None:
        self.engine = None if portfolio is None else Engine(portfolio)
        self.fired: Counter[str] = Counter()
        self._once, self._action = text, action

    @property
    def index(self) -> int:
        """Of the next event."""
        return self.engine.index if self.engine is not None else 0

    def see(self, event: Event) -> None:
        """An event that happened."""
        if self.engine is not None:
            self.engine.see(event)

    def consider(self, event: Event, turn: str = "branch") -> Said:
        """What the arm does at a proposed call or a stop. The event is not folded in."""
        if self.engine is None:
            text, self._once = self._once, ""
            if text:
                self.fired["misstep"] += 1
            return Said(self._action if text else "", text)
        decision = self.engine.consider(event, turn)
        self.fired.update(row["policy"] for row in decision.rows if row["fired"])
        return Said(decision.action, decision.text)

    def denied(self) -> None:
        """The last event was denied: it has its place in the stream and never happened."""
        if self.engine is not None:
            self.engine.index += 1


def treatment(
    plain: Mapping[str, Any],
    point: Point,
    arm: str,
    past: Iterable[Event],
    texts: Mapping[str, str] | None = None,
) -> Treatment:
    """The arm's treatment, brought to the point by the events before it.

    Args:
        plain: the portfolio's plain form.
        texts: of points that are occurrences of missteps, what the agent is told: misstep -> text; `deny: ` before it denies.

    Raises:
        PointLost: the portfolio has no such policy, or there is no text for the misstep.
    """
    if point.kind == "misstep":
        return _once(point, arm, texts or {})
    portfolio = from_plain(dict(plain))
    portfolio.rules = [rule for rule in portfolio.rules if rule.policy == point.policy]
    if not portfolio.rules:
        raise PointLost(f"the portfolio has no policy {point.policy}")
    for rule in portfolio.rules:
        rule.mode = "enforce"
    made = Treatment(arms_.apply(portfolio, "baseline" if arm == NOTHING else arm))
    for event in past:
        made.see(event)
    return made


def _once(point: Point, arm: str, texts: Mapping[str, str]) -> Treatment:
    given = texts.get(point.policy, "")
    if not given:
        raise PointLost(f"no text for the misstep {point.policy}: [texts] of the design says it")
    denies, text = given.startswith("deny: "), given.removeprefix("deny: ")
    if arm in ("real", "always-real"):
        return Treatment(None, text, "deny" if denies and point.event == "before" else "instruct")
    return Treatment(None, arms_.generic(len(text)) if arm == "sham" else "")
