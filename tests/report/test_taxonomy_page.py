"""The page of a taxonomy in a real browser: it reads well, and no text of a record does anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from misstep.profile import coverage
from misstep.profile.labelling import Labels
from misstep.profile.labels import StepLabel
from misstep.profile.taxonomy import ErrorType, Taxonomy
from misstep.report.taxonomy import interval, share, show, text

NASTY = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'>",
    "</style><script>window.pwned = 3</script>",
    "<a href='javascript:window.pwned=4'>x</a>",
    "{{ 7 * 7 }} {% raw %} \u2028",
    "<iframe src=https://example.org/></iframe><link rel=stylesheet href=//example.org/x.css>",
    "<style>*{display:none}</style><base href=//example.org/><meta http-equiv=refresh content='0;url=//example.org'>",
    "\x1b[31mred\x1b[0m \u202ereversed \x00 \ud800",
]


def made() -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Two types over 40 steps of 10 environments, every text of which means harm."""
    types = (
        ErrorType("prints-binaries", f"prints binaries {NASTY[0]}", f"It prints them. {NASTY[1]}", 0, 4, 20),
        ErrorType("hides-errors", f"hides errors {NASTY[2]}", f"It hides them. {NASTY[6]}", 2, 1, 8),
    )
    passes = ({"pass": 1, "types": 1, "asked": 40, "covered": 30, "coverage": 0.75, "gain": 0.75, "added": []},)
    tail = ({"name": NASTY[3], "definition": "x", "batches": 1, "cards": 1, "why": NASTY[4]},)
    taxonomy = Taxonomy("frozen", {}, types, tail, 40, 5, passes, {"card": {"asked": 40, "invalid": 2}})
    steps = [
        StepLabel(f"t{n}", f"{n}.jsonl", 0, f"{NASTY[5]} {n % 10}", 3, 0, NASTY[n % 8], "bad", NASTY[n % 8],
                  catalogue={"binary-as-text": n % 3 == 0})
        for n in range(40)
    ]  # fmt: skip
    names = {0: ("prints-binaries",), 1: ("hides-errors",), 2: ("hides-errors", "prints-binaries"), 3: ()}
    types_of = {one.key: names[n % 4] if n else None for n, one in enumerate(steps)}
    first = Labels(NASTY[0], types_of, {}, {"invalid": 1})
    found = coverage.numbers(taxonomy, steps, steps, first, {"draw": first})
    call = {"tool": "Bash", "text": NASTY[0], "shell": True, "output": NASTY[2], "exit_code": 1}
    shown = {
        "path": "x", "n": 0, "trajectory": NASTY[1], "task": NASTY[5], "step": 3, "call": 0, "command": NASTY[0], "card": NASTY[3],
        "reason": NASTY[1], "why": NASTY[6], "types": ["a", "b"], "missteps": ["m"],
        "steps": {"2": {"who": "user", "text": NASTY[7]}, "3": {"who": "agent", "text": NASTY[1], "calls": [call]}},
    }  # fmt: skip
    gone = {**shown, "steps": {}}
    return found, {"prints-binaries": [shown, gone], "hides-errors": []}


def test_nothing_of_a_record_does_anything(browser: Any, tmp_path: Path) -> None:
    found, contexts = made()
    path = tmp_path / "page.html"
    path.write_text(text(found, contexts), encoding="utf-8")
    page = browser.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("request", lambda r: requests.append(r.url))
    page.goto(path.as_uri())
    for one in page.locator("details").all():
        one.evaluate("one => one.open = true")
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.scripts.length") == 0
    assert errors == []
    assert requests == [path.as_uri()]
    shown = page.locator("main").inner_text()
    for nasty in NASTY[:7]:
        assert nasty.split("\u2028")[0].strip() in shown
    assert "\u202e" not in shown
    assert "its record cannot be read any more" in shown
    assert page.locator(".step.wrong pre.do.wrong").count() == 2
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0
    for size in ((390, 800), (1280, 900)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.close()


def test_the_same_gives_the_same_bytes() -> None:
    assert text(*made()) == text(*made())


def test_the_figures_that_it_shows() -> None:
    found, contexts = made()
    page = text(found, contexts)
    assert "40 error steps" in page
    assert "1 error step without labels, in no share: 1 invalid." in page
    row = found["types"][0]
    assert f"<b>{row['steps']['some']}</b> steps" in page
    assert "binary-as-text of the catalogue: " in page


def test_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from misstep.report.console import console

    found, _ = made()
    show(console(width=100), found, "a folder")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "without labels  1 (1 invalid): in no share" in out
    assert "policies propose" in out
    assert "--taxonomy 'a folder'" in out
    assert max(map(len, out.splitlines())) <= 140


def test_shares() -> None:
    assert share({"some": 0, "of": 0, "rate": None, "interval": None}) == "none to tell from"
    given = {"some": 3, "of": 12, "rate": 0.25, "interval": [0.089, 0.532]}
    assert share(given) == "25% (9 to 53%), 3 of 12"
    assert interval({"interval": None}) == "–"
