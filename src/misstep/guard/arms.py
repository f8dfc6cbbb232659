"""Arms of an experiment: the same hooks in the same order, with other words or none.

An arm is named in the settings or in `$MISSTEP_ARM`, never on a command line, so that nothing that a model may see tells
arms apart but the text itself. In every arm all policies are followed and all their answers logged.
"""

from __future__ import annotations

from .portfolio import PortfolioError, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .portfolio import Portfolio, Watch

ARMS = ("real", "baseline", "sham", "sham-deny", "always-verify", "reconsider", "always-real", "without:<misstep>")
SHAM_CAP = 3
"""Interventions of a sham in the place of a policy without limit: a generic denial that repeats can end in a deadlock."""
NEAR = 0.15
"""How far the length of a sham's text may be from the real one, as a share of it."""

_SENTENCES = (
    "Take a moment to look again at what has been done so far.",
    "Read the request once more from its first line to its last.",
    "Consider whether each part of it has been given the attention it needs.",
    "Think about the quality of the work as a whole.",
    "It can help to go over the latest steps in the order in which they were taken.",
    "Keep what is good and improve what could be better.",
    "Be careful and thorough.",
    "Make sure that the result is one that you would be content to hand over.",
    "If something seems unclear, settle it in the way that you find most sensible.",
    "Small oversights are easy to make and easy to miss.",
    "A second look is often worth the little time that it takes.",
    "Go on when you are satisfied with the state of things.",
    "There is no hurry.",
    "Review.",
)


def apply(portfolio: Portfolio, arm: str, watch: Watch | None = None) -> Portfolio:
    """The portfolio as it is in an arm. Raises PortfolioError for an arm that is none."""
    kind, _, family = arm.partition(":")
    rules = portfolio.rules
    if arm in ("", "real"):
        return portfolio
    if arm == "always-real":
        portfolio.unscoped = True
    elif arm == "baseline":
        _observe(rules)
    elif arm in ("sham", "sham-deny"):
        for rule in rules:
            _sham(portfolio, rule, arm == "sham-deny", watch)
    elif arm in ("always-verify", "reconsider"):
        _observe(rules)
        rules.append(Rule(arm, "always", "misstep.guard.always"))
    elif kind == "without" and any(rule.misstep == family for rule in rules):
        _observe([rule for rule in rules if rule.misstep == family])
    else:
        raise PortfolioError(f"no arm {arm!r}: it is one of {', '.join(ARMS)}")
    return portfolio


def _observe(rules: list[Rule]) -> None:
    for rule in rules:
        rule.mode = "observe"


def _sham(portfolio: Portfolio, rule: Rule, keeps_denial: bool, watch: Watch | None) -> None:
    try:
        policy = next(p for p in portfolio.misstep(rule, watch).policies if p.id == rule.policy)
    except Exception:
        return  # the engine says so
    limit = policy.limit if rule.limit == 0 else rule.limit
    real = rule.text or policy.text
    denies = policy.action == "deny"
    if denies and not keeps_denial:
        rule.action = "instruct"
    rule.text = generic(len(real), "This call was not run." if denies and keeps_denial else "")
    rule.limit = SHAM_CAP if limit is None else limit


def generic(length: int, start: str = "") -> str:
    """A text that reviews in general terms, about that many characters long."""
    text = start
    unused = list(_SENTENCES)
    while unused or len(text) < length:
        unused = unused or list(_SENTENCES)
        room = length - len(text) - (1 if text else 0)
        fits = [s for s in unused if len(s) <= room]
        if not fits:
            break
        # in their order while there is room; at the end the one that fills it best
        chosen = fits[0] if room > 200 else max(fits, key=len)
        unused.remove(chosen)
        text = f"{text} {chosen}" if text else chosen
    return text or _SENTENCES[-1]


__all__ = ["ARMS", "apply", "generic"]
