"""The terminal's views: what they say, that they fit, and that text is shown as it is written."""

from __future__ import annotations

import io

import pytest

from misstep.report.console import console, one_line, printable
from misstep.report.pages import example_lines, markdown, page_of, paragraphs
from misstep.report.terminal import show
from misstep.report.words import agent_name, called, count, percent, period, points, shortened
from misstep.scan.summary import summarise

KNOWN = {
    f"m{n}": {
        "name": f"does the thing number {n}, which takes a rather long name to say",
        "status": status,
        "scoped": False,
    }
    for n, status in enumerate(["stable", "stable", "preview", "stable"])
}


def record(n: int, missteps: dict[str, list[int]], **more):
    found = [
        {"misstep": m, "step": n, "call": 0, "event": 1, "why": "why", "command": f"run {m} " + "x" * 90, "also": []}
        for m, c in missteps.items()
        if c[1]
    ]
    return {
        "kind": "trajectory",
        "path": f"/s/{n}",
        "n": 0,
        "ref": f"ref{n:05}",
        "agent": "claude-code",
        "model": "m",
        "parent": "",
        "started": 1772359200.0,
        "ended": 1774359200.0,
        "steps": 100,
        "calls": 90,
        "outcome": None,
        "missteps": missteps,
        "scope": {},
        "occurrences": found,
        "firings": [],
        "skipped": {},
        "errors": {},
        **more,
    }


def text(summary, width: int = 100, **more) -> str:
    out = io.StringIO()
    show(console(out, width), summary, **more)
    return out.getvalue()


@pytest.fixture
def summary():
    made = [record(n, {"m0": [5, int(n < 3), 0], "m1": [4, int(n < 1), 2], "m2": [1, 0, 0]}) for n in range(4)]
    return summarise(made, KNOWN)


def test_what_it_says(summary):
    shown = text(summary)
    assert "4 sessions · 400 agent steps · 360 calls   2026-03-01 to 2026-03-24" in shown
    assert "3 of 4 sessions (75%) hold at least one misstep" in shown
    assert (
        shown.index("say  m0") < shown.index("say  m1  8 unknown") and "2 unknown" not in shown and "8 unknown" in shown
    )
    row = next(line for line in shown.splitlines() if "does the thing number 0" in line)
    assert row.split()[-5:] == ["3/4", "75%", "3×", "0.8%", "13%"], "of 4 sessions, 400 steps, 23 chances"
    assert "misstep show ref00000#0   why\n" in shown
    assert "chances: steps where it could happen and the record tells; unknown: the record does not tell\n" in shown
    assert "Not found: m2" in shown and "No chance to happen: m3" in shown
    assert shown.rstrip().splitlines()[-1].strip().startswith("misstep scan --html report.html")
    assert "Pass rate" not in shown and "Outcomes" not in shown


@pytest.mark.parametrize("width", [40, 60, 80, 95, 96, 120])
def test_it_fits(summary, width: int):
    lines = [line for line in text(summary, width).splitlines() if "misstep " not in line]
    assert max(map(len, lines)) <= width


def test_outcomes_are_compared_where_they_are_known():
    made = []
    for n in range(6):
        for m in (0, 1):
            outcome = {"passed": not m, "task": f"t{n}", "fault": None, "reward": None, "attempt": "", "exception": ""}
            made.append(record(2 * n + m, {"m0": [1, m, 0]}, outcome=outcome))
    shown = text(summarise(made, KNOWN))
    assert "m0 −100 [−100, −100] p 0.031 6 tasks" in " ".join(shown.split())
    assert "6 failed, 6 passed" in shown and "An association" in shown and "Too few" not in shown
    assert "Too few tasks differ (in brackets) for any p below 0.05: m0 (3)" in text(summarise(made[:6], KNOWN))


def test_sessions_of_sub_agents_and_without_an_outcome_are_named():
    outcome = {"passed": True, "task": "t", "fault": None, "reward": None, "attempt": "", "exception": ""}
    made = [record(n, {"m0": [1, 0, 0]}, parent="p" * (n < 2), outcome=outcome if n == 3 else None) for n in range(4)]
    made.append(record(4, {}, outcome={**outcome, "passed": None}))
    shown = text(summarise(made, KNOWN))
    assert "5 sessions (2 of them of sub-agents) · " in shown
    assert "Outcomes  1 passed, 4 without a recorded outcome" in shown


def test_an_example_says_why_and_shortens_paths_from_the_left(monkeypatch: pytest.MonkeyPatch):
    made = record(0, {"m0": [1, 1, 0]})
    deep = "/home/somebody/projects/of/a/deep/tree/with/many/parts/src/module.py"
    made["occurrences"][0].update(why=f"nothing ran after the change of {deep} today", command=f"{deep}\n- old\n+ new")
    shown = text(summarise([made], KNOWN))
    assert "nothing ran after the change of …/parts/src/module.py today\n" in shown and "- old" not in shown
    assert shortened(f"see {deep}", 30) == "see …/parts/src/module.py" and shortened("a/b c", 30) == "a/b c"
    assert shortened("x" * 50, 10) == "x" * 9 + "…" and shortened(f"see {deep}", 16) == "see …/module.py"


def test_sessions_are_named_by_path_where_ids_are_not_known(summary):
    shown = text(summary, by_path=True)
    assert "misstep show /s/0#0" in shown and "ref0000" not in shown


def test_commands_are_printed_as_they_were_invoked(summary, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr("misstep.report.words._called", "misstep")
    called(".venv/bin/misstep")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "    .venv/bin/misstep show ref00000#0" in text(summary)
    (tmp_path / "misstep").touch(mode=0o755)
    assert "    misstep show ref00000#0" in text(summary)
    shown = text(summary, asked="'a b' --preview")
    assert "misstep scan 'a b' --preview --html report.html" in shown and "…" not in shown.split("Next")[1]


def test_outcomes_that_cannot_be_compared_say_why():
    outcome = {"passed": True, "task": "t", "fault": None, "reward": None, "attempt": "", "exception": ""}
    shown = text(summarise([record(0, {"m0": [1, 1, 0]}, outcome=outcome)], KNOWN))
    assert "not available: no task was attempted both with and without it" in shown


def test_nothing_found_and_nothing_stable():
    assert "None of 4 missteps was found." in text(summarise([record(0, {})], KNOWN))
    assert "--preview" in text(summarise([record(0, {})], {}))


def test_no_colour_where_there_is_no_terminal(summary, monkeypatch: pytest.MonkeyPatch):
    assert "\x1b" not in text(summary)


def test_printable():
    assert printable("a\x1b[31m\x00\r\n\tb") == "a␛[31m␀\n\tb"
    assert printable("a\u202eb\u200bc\x9bd\ud800") == "a\\u202eb\\u200bc\\x9bd\\ud800"
    assert printable("müde 日本 🙂") == "müde 日本 🙂"
    assert one_line("a\n\n b\tc", 10) == "a b c" and one_line("abcdef", 4) == "abc…"


def test_words():
    assert [percent(x) for x in (None, 0, 0.0001, 0.004, 0.0096, 0.5, 1)] == [
        "",
        "0%",
        "<0.1%",
        "0.4%",
        "1%",
        "50%",
        "100%",
    ]
    assert [points(x) for x in (-0.123, 0, 0.004, 0.5)] == ["−12", "0", "0", "+50"]
    assert count(1, "copy", "copies") == "1 copy" and count(2000, "copy", "copies") == "2,000 copies"
    assert period(None, 1.0) == "" and period(0.0, 1.0) == "1970-01-01" and period(1e300, 1e300) == ""
    assert agent_name("claude-code") == "Claude Code" and agent_name("x") == "x" and agent_name("") == "unnamed agent"


def test_a_page_from_a_docstring(making):
    page = page_of(making.BadWord())
    assert page.title == "The agent takes a step that these tests call wrong."
    assert list(page.sections) == ["What it is", "Why it matters", "How it is told", "Known misses"]
    assert paragraphs("one\ntwo\n\n* a\n* b") == ["one two", "* a\n* b"]


def test_markdown_of_a_misstep_without_examples(making):
    shown = markdown(making.CATALOGUE)
    assert "| [bad-word](#bad-word) | uses a bad word in a command | stable | not measured |  | 0 |" in shown
    assert "Policy `bad-word` (deny, at before):\n\n> Do not use that word." in shown


def test_examples_read_as_a_session():
    lines = example_lines(
        [
            {"prompt": "Do it."},
            {"run": "make &", "exit": 2, "output": "a\nb", "misstep": True},
            {"edit": "a.py", "old": "x", "new": ""},
            {"keys": "ls\n", "result": False},
            {"tool": "web", "arguments": {"q": 1}, "fault": "refused"},
            {"stop": "Done."},
        ]
    )
    assert lines == [
        (False, "person: Do it."),
        (True, "$ make &   (exit 2)\na\nb"),
        (False, "edits a.py: x becomes nothing"),
        (False, 'types "ls\\n"   (no result recorded)'),
        (False, 'calls web {"q": 1}   (refused)'),
        (False, "agent stops: Done."),
    ]
