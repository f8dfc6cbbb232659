"""Figures of a panel as people read them. Everything unknown is a dash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NONE = "–"
STAGES = {
    "state": "state seen",
    "fired": "intervened",
    "behaviour": "behaviour shown",
    "passed": "passed",
    "gave-up": "gave up",
}
ENDS = {
    "pass": "passed",
    "gave-up": "gave up",
    "fail": "failed",
    "timeout": "timeout",
    "crash": "crash",
    "never-ran": "never ran",
    "invalid": "invalid",
    "not-run": "not run",
}
MEASURES = {
    "cost_usd": "cost, $",
    "seconds": "agent time, s",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "steps": "steps",
}
METHODS = {"gee": "GEE, bias-reduced", "conditional-logit": "conditional logit, exact"}
BOUNDS = {
    "all fail": "all missing attempts fail",
    "all pass": "all missing attempts pass",
    "worst": "worst for the arm",
    "best": "best for the arm",
}
COHORTS = {"eligible": "eligible tasks", "silent": "silent tasks", "all": "all tasks"}


def signed(part: float | None, digits: int = 1) -> str:
    """A difference of rates in points: '+25.0', '−3.4', '0.0'."""
    return NONE if part is None else number(100 * part, digits, plus=True)


def counted(number: int, what: str) -> str:
    """'1 task', '1,200 tasks'."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def number(value: float | None, digits: int = 1, plus: bool = False) -> str:
    """A number with a real minus; never a negative zero."""
    if value is None:
        return NONE
    text = f"{abs(value):,.{digits}f}"
    if not any(c in "123456789" for c in text):
        return text
    return ("−" if value < 0 else "+" if plus else "") + text


def percent(part: float | None) -> str:
    """A rate: '60.7'."""
    return NONE if part is None else number(100 * part)


def p_text(p: float | None) -> str:
    """A p-value: four digits, '<0.0001' below."""
    return NONE if p is None else "<0.0001" if p < 0.0001 else f"{p:.4g}"


def span(low: float | None, high: float | None) -> str:
    """An interval of a difference of rates: '+7.1 to +46.4'."""
    return NONE if low is None or high is None else f"{signed(low)} to {signed(high)}"


def rates(low: float | None, high: float | None) -> str:
    """An interval of a rate: '35.7 to 85.7'."""
    return NONE if low is None or high is None else f"{percent(low)} to {percent(high)}"


def share(part: int, whole: int) -> str:
    """'17/28'; a dash for nothing of nothing."""
    return f"{part:,}/{whole:,}" if whole else NONE


def amount(value: float | None, measure: str, plus: bool = False) -> str:
    """A measure: cents of dollars, seconds, whole tokens."""
    digits = {"cost_usd": 2, "steps": 1}.get(measure, 0)
    if measure == "steps" and value is not None and abs(value) >= 1000:
        digits = 0
    if measure == "seconds" and value is not None and abs(value) < 100:
        digits = 1
    if value is not None and measure == "cost_usd" and 0 < abs(value) < 0.1:
        digits = 4
    return number(value, digits, plus)


def change(ratio: float | None) -> str:
    """'+47.7 %'."""
    return NONE if ratio is None else f"{number(100 * ratio, 1, plus=True)} %"


def chosen(analysis: Mapping[str, Any]) -> str:
    """The cohort that the planned contrasts are in."""
    planned = [one for one in analysis["contrasts"] if one["role"] != "described"]
    return str(planned[0]["cohort"]) if planned else "all"


def name(contrast: Mapping[str, Any]) -> str:
    """'real − sham'."""
    return f"{contrast['arm']} − {contrast['against']}"


def of(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    """The rows in which these fields have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]
