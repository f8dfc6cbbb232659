"""A panel's report as one HTML file: no script, nothing is loaded, and no text of the records becomes markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

import misstep
from misstep.report.console import printable
from misstep.report.panel import numbers, plots

LISTED = 200
"""Rows of a list of names."""


def text(analysis: Mapping[str, Any], notes: Iterable[str] = ()) -> str:
    """The page of an analysis in its plain form; notes: sentences that stand with its limits. The same gives the same bytes."""
    shown: dict[str, Any] = _safe(analysis)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("misstep.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(n=numbers, plots=plots)
    style = (resources.files("misstep.report") / "templates" / "panel.css").read_text(encoding="utf-8")
    cohort = numbers.chosen(shown)
    planned = [one for one in shown["contrasts"] if one["role"] != "described"]
    return environment.get_template("panel.html.j2").render(
        a=shown,
        version=misstep.__version__,
        notes=[printable(one) for one in notes],
        style=Markup(style),
        style_hash="sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        cohort=cohort,
        planned=planned,
        primary=next((one for one in planned if one["role"] == "primary"), None),
        listed=LISTED,
    )


def _safe(value: Any) -> Any:
    """The same with every text printable: nothing in it that a browser or a terminal would act on."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): _safe(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(one) for one in value]
    return value
