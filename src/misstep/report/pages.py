"""A misstep's own documentation: its module's docstring, its examples and its hand-checked precision."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from importlib import resources
from typing import Any

from misstep.catalogue import Misstep

from .console import printable

_HOW_PRECISE = (
    "Precision is the share of reported occurrences in recorded sessions that were right when each was read in its "
    "context and judged against the page below alone, with the exact 95 % interval. What could not be decided counts as "
    "wrong. [How it was measured](precision/README.md), with every judgement; they were made before the faults that they "
    "showed were mended."
)


@dataclass(frozen=True)
class Page:
    """A docstring in parts."""

    title: str
    sections: dict[str, str]
    """Text by heading, in the order in which they stand."""


def page_of(misstep: Misstep) -> Page:
    """The documentation page of a misstep."""
    doc = (sys.modules[type(misstep).__module__].__doc__ or "").strip()
    title, _, body = doc.partition("\n")
    parts = re.split(r"^## +(.+?)\s*$", body, flags=re.M)
    sections = {heading: text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}
    return Page(title.strip(), sections)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a section, each on one line; a table or a list keeps its lines."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        keep = any(re.match(r"\s*([*-]|\d+\.|\|) ?", line) for line in lines)
        found.append("\n".join(lines) if keep else " ".join(line.strip() for line in lines))
    return found


@dataclass(frozen=True)
class Precision:
    """How many of the occurrences that were judged are right."""

    n: int
    right: int
    unclear: int

    @property
    def share(self) -> float | None:
        """right / n; what is unclear is not right. None where none was looked at."""
        return self.right / self.n if self.n else None

    def interval(self) -> tuple[float, float] | None:
        """The exact 95 % interval."""
        from misstep.stats import clopper_pearson

        found = clopper_pearson(self.right, self.n) if self.n else None
        return (found.low, found.high) if found else None


def precisions() -> dict[str, Precision]:
    """The hand-checked precision by misstep id; empty where the labels are not shipped."""
    try:
        raw = json.loads(resources.files("misstep.catalogue").joinpath("precision.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {
        name: Precision(int(v["n"]), int(v["right"]), int(v.get("unclear", 0)))
        for name, v in raw.items()
        if isinstance(v, dict) and "n" in v
    }


def markdown(missteps: tuple[Misstep, ...]) -> str:
    """docs/catalogue.md: every misstep, with its precision and its examples."""
    known = precisions()
    lines = [
        "<!-- Made by `misstep catalogue --markdown`: edit the modules of src/misstep/catalogue, not this page. -->",
        "# The catalogue",
        "",
        f"{len(missteps)} missteps. A *stable* one is counted by default, one in *preview* with `--preview` or by its name.",
        _HOW_PRECISE,
        "",
        "| misstep | the agent … | status | precision | 95 % interval | checked |",
        "|---|---|---|---:|---|---:|",
    ]
    lines += [
        f"| [{m.id}](#{m.id}) | {_cell(m.name)} | {m.status} | {' | '.join(_figures(known.get(m.id)))} |"
        for m in missteps
    ]
    for m in missteps:
        lines += ["", f"## {m.id}", "", f"**{page_of(m).title}** *{m.status}, since {m.since}*"]
        for heading, text in page_of(m).sections.items():
            lines += ["", f"### {heading}", "", text]
        for policy in m.policies:
            lines += ["", f"Policy `{policy.id}` ({policy.action}, at {policy.at}):", "", _quote(policy.text)]
        lines += ["", "### Examples", "", *_examples(m)]
    return "\n".join(lines) + "\n"


def _figures(p: Precision | None) -> tuple[str, str, str]:
    if p is None or p.share is None:
        return "not measured", "", "0"
    low, high = p.interval() or (0.0, 1.0)
    unclear = f" ({p.unclear} unclear)" if p.unclear else ""
    return f"{p.share:.2f}", f"{low:.2f} to {high:.2f}", f"{p.n}{unclear}"


def _examples(misstep: Misstep) -> list[str]:
    from misstep.catalogue.examples import load

    try:
        fires, silent = load(misstep)
    except FileNotFoundError:
        return ["None yet."]
    lines: list[str] = []
    for example in fires[:1]:
        lines += [f"Found: {example.name}", "", "```text", *_stream(example.items), "```", ""]
    near = next((e for e in silent if fires and e.near == fires[0].name), None)
    if near is not None:
        lines += [f"Not found, for {near.differs}:", "", "```text", *_stream(near.items), "```", ""]
    return lines[:-1]


def _stream(items: list[dict[str, Any]]) -> list[str]:
    return [line for mark, text in example_lines(items) for line in _marked(mark, text)]


def _marked(mark: bool, text: str) -> list[str]:
    first, *rest = printable(text).replace("```", "'''").split("\n")
    return [("✗ " if mark else "  ") + first, *("    " + line for line in rest)]


def example_lines(items: list[dict[str, Any]]) -> list[tuple[bool, str]]:
    """The events of an example for reading: (whether the misstep is found there, text)."""
    return [(bool(item.get("misstep")), _example_text(item)) for item in items]


def _example_text(item: dict[str, Any]) -> str:
    for key, lead in (("prompt", "person: "), ("say", "agent:  "), ("stop", "agent stops: ")):
        if key in item:
            return lead + str(item[key]).strip()
    if "compact" in item:
        return "(the context is summarised)"
    if "interrupt" in item:
        return "(a person breaks it off)"
    if "run" in item:
        text = f"$ {str(item['run']).rstrip()}" + ("   (in the background)" if item.get("background") else "")
    elif "keys" in item:
        text = f"types {json.dumps(str(item['keys']))}"
    elif "edit" in item:
        text = f"edits {item['edit']}: {_short(item.get('old'))} becomes {_short(item.get('new'))}"
    elif "write" in item:
        text = f"writes {item['write']}" + (f": {_short(item.get('text'))}" if item.get("text") else "")
    elif "read" in item:
        text = f"reads {item['read']}"
    elif "search" in item:
        text = f"searches for {item['search']}"
    else:
        text = f"calls {item.get('tool')} {json.dumps(item.get('arguments', {}))}"
    return text + _result(item)


def _result(item: dict[str, Any]) -> str:
    notes = []
    if item.get("result", True) is False:
        notes.append("no result recorded")
    if item.get("exit") is not None:
        notes.append(f"exit {item['exit']}")
    elif item.get("failed") is not None:
        notes.append("failed" if item["failed"] else "succeeded")
    notes += [str(item["fault"])] if item.get("fault") else []
    notes += [name for name in ("truncated", "running") if item.get(name)]
    output = "".join("\n" + line for line in str(item.get("output", "")).rstrip().split("\n") if line)
    return (f"   ({', '.join(notes)})" if notes else "") + output


def _short(value: Any) -> str:
    text = " ".join(str(value or "nothing").split())
    return text if len(text) <= 70 else text[:69] + "…"


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
