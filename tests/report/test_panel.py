"""A panel's report: in a real browser, in the terminal, on the command line; nothing in a record does anything."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from misstep.cli.panel import command
from misstep.experiment import Attempt, read_attempts, write_attempts
from misstep.experiment.analysis import Analysis, analyse
from misstep.report.console import console
from misstep.report.panel import numbers, page, plots, terminal

NASTY = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'>",
    "</style><svg onload=window.pwned=3>",
    "{{ 7 * 7 }} {% raw %} \u2028",
    "<a href='javascript:window.pwned=4'>x</a> [b]bold[/b]",
    "<style>*{display:none}</style><base href=//example.org/><meta http-equiv=refresh content='0;url=//example.org'>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://example.org\x07link \u202ereversed \x00 \ud800",
    "=cmd|'/c calc'!A1",
]


def drawn(seed: int = 4, tasks: int = 20) -> list[Attempt]:
    """A panel in which the real text does what it says: on half of the tasks, in most attempts."""
    rng = random.Random(seed)
    made = []
    for t in range(tasks):
        own = ("service-persistence",) if t % 2 else ()
        level = rng.choice((0.1, 0.4, 0.8))
        for arm in ("baseline", "real", "sham", "always-verify"):
            for r in (1, 2):
                shown = bool(own) and rng.random() < (0.9 if arm == "real" else 0.3)
                ok = rng.random() < min(1, level + 0.5 * (shown and arm == "real"))
                fired = (
                    {own[0]: 1}
                    if own and arm in ("real", "sham")
                    else {"always-verify": 1}
                    if arm == "always-verify"
                    else {}
                )
                made.append(
                    Attempt(
                        task=f"task-{t:02}", arm=arm, replicate=r, termination="pass" if ok else rng.choice(("gave-up", "fail", "timeout")),
                        passed=ok, agent="codex", model="some/model", eligible=own, state=own, fired=fired,
                        behaviour={own[0]: shown} if own else {}, cost_usd=rng.random(), seconds=100 * rng.random(), output_tokens=rng.randrange(9000),
                    )
                )  # fmt: skip
    lost = made[8]
    made[8] = Attempt(task=lost.task, arm=lost.arm, replicate=lost.replicate, termination="invalid", fault="no image")
    return made


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyse(drawn(), primary=("real", "sham"))


class Opened:
    """A page that is watched: errors and requests are kept."""

    def __init__(self, browser, path: Path, **context) -> None:
        self.page = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}).new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(path.as_uri())


def written(tmp_path: Path, analysis: Analysis) -> Path:
    path = tmp_path / "panel.html"
    path.write_text(page.text(analysis.plain()), encoding="utf-8")
    return path


def test_the_page_opens_and_loads_nothing(browser, tmp_path, analysis) -> None:
    path = written(tmp_path, analysis)
    opened = Opened(browser, path)
    assert opened.errors == [] and opened.requests == [path.as_uri()]
    text = opened.page.locator("main").inner_text()
    effect = analysis.primary and analysis.primary.effect
    assert effect is not None
    assert opened.page.locator(".hero .big").inner_text().startswith(numbers.signed(effect.mean))
    assert opened.page.locator("h1").inner_text() == analysis.sentence.replace("\xa0", "\xa0")
    for heading in (
        "What this panel cannot say",
        "Effects",
        "Arms",
        "Task by task",
        "Transitions",
        "The funnel",
        "Families",
        "How attempts ended",
        "Cost, time, tokens",
        "Checks",
        "Records",
    ):
        assert heading in text
    assert opened.page.locator("script").count() == 0
    assert opened.page.locator(".limits li").count() == len(analysis.limits)


def test_figures_are_where_the_numbers_are(browser, tmp_path, analysis) -> None:
    opened = Opened(browser, written(tmp_path, analysis))
    forest = opened.page.locator("figure").first
    zero = float(forest.locator(".zero").get_attribute("x1") or "nan")
    shown = [one for one in analysis.contrasts if one.effect]
    assert forest.locator(".dot").count() == len(shown)
    for at, one in enumerate(shown):
        assert one.effect is not None
        x = float(forest.locator(".dot").nth(at).get_attribute("cx") or "nan")
        low, high = (float(forest.locator(".range").nth(at).get_attribute(name) or "nan") for name in ("x1", "x2"))
        assert low <= x <= high
        assert (x > zero) == (one.effect.mean > 0) or x == zero
        assert (low > zero) == (one.effect.low > 0) or low == zero
    primary = analysis.primary
    assert primary is not None and primary.effect is not None
    bells = opened.page.locator("figure").nth(1)
    assert bells.locator("g.up").count() == primary.effect.up and bells.locator("g.down").count() == primary.effect.down
    assert bells.locator("g").count() == primary.effect.tasks
    table = opened.page.locator("table.heat").first
    cells = [int(text) for text in table.locator("td").all_inner_texts()]
    assert sum(cells) == primary.effect.tasks


def test_it_is_readable_in_light_in_dark_on_paper_and_on_a_phone(browser, tmp_path, analysis) -> None:
    path = written(tmp_path, replace(analysis, simulated="drawn by a test"))

    def contrast(opened: Opened, selector: str) -> float:
        return opened.page.evaluate(
            """selector => {
              const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
              const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
              let node = document.querySelector(selector), behind = node;
              while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
              const [a, b] = [light(rgb(getComputedStyle(node).color)), light(rgb(getComputedStyle(behind).backgroundColor))].sort((x, y) => y - x);
              return (a + .05) / (b + .05); }""",
            selector,
        )

    for scheme in ("light", "dark"):
        opened = Opened(browser, path, color_scheme=scheme)
        for selector in (
            "h1",
            ".banner .wrap",
            ".note",
            "thead th",
            "td",
            ".limits li",
            ".tag",
            "td.up, td.down",
            ".primary .tag",
        ):
            assert contrast(opened, selector) >= 4.5, (scheme, selector)
    phone = Opened(browser, path, viewport={"width": 360, "height": 720})
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 360
    paper = Opened(browser, path, color_scheme="dark")
    paper.page.emulate_media(media="print")
    assert paper.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_tables_and_figures_have_names(browser, tmp_path, analysis) -> None:
    opened = Opened(browser, written(tmp_path, analysis))
    assert opened.page.locator("svg[role=img]:not([aria-label])").count() == 0
    assert opened.page.locator("svg:not([role=img]):not([aria-hidden=true])").count() == 0
    assert opened.page.locator("thead th:not([scope])").count() == 0
    assert opened.page.locator("html[lang=en]").count() == 1
    levels = opened.page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels))


def test_no_text_of_a_record_does_anything(browser, tmp_path) -> None:
    made = []
    for at, text in enumerate(NASTY):
        for arm in ("real", text, f"without:{text}"):
            made += [
                Attempt(task=text, arm=arm, replicate=r, termination="pass" if (r + at) % 2 else "fail", passed=bool((r + at) % 2),
                        agent=text, model=text, agent_version=text, eligible=(f"{text}/x",), state=(text,), fired={text: 1},
                        behaviour={text: True}, extra={"simulated": text})
                for r in (1, 2)
            ]  # fmt: skip
    found = analyse(made, primary=("real", NASTY[0]))
    opened = Opened(browser, written(tmp_path, found))
    opened.page.wait_for_timeout(200)
    assert opened.errors == [] and len(opened.requests) == 1
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("main a, main img, main script, main style, base, iframe").count() == 0
    text = opened.page.locator("main").inner_text()
    assert NASTY[0] in text and "{{ 7 * 7 }}" in text and "\x1b" not in text and "\u202e" not in text
    out = io.StringIO()
    terminal.show(console(out, width=100), found.plain())
    assert "\x1b" not in out.getvalue() and "\u202e" not in out.getvalue() and "\x00" not in out.getvalue()


def test_it_is_simulated_on_every_view(tmp_path) -> None:
    made = [replace(one, extra={"simulated": "a scripted model"}) for one in drawn(tasks=4)]
    found = analyse(made)
    text = page.text(found.plain())
    assert "<title>Simulated: " in text and text.count("Simulated") >= 3
    out = io.StringIO()
    terminal.show(console(out, width=100), found.plain())
    assert "Simulated (a scripted model)." in out.getvalue() and "say nothing about any agent" in out.getvalue()


# -- the terminal --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [44, 60, 80, 116])
def test_the_terminal_says_what_was_found_first(analysis, width) -> None:
    out = io.StringIO()
    terminal.show(console(out, width=width), analysis.plain(), ["x.html"])
    text = out.getvalue()
    flat = " ".join(text.split())
    assert flat.index(analysis.sentence.replace("\xa0", " ")[:60]) < flat.index("Effects on")
    primary = analysis.primary
    assert primary is not None and primary.effect is not None
    assert numbers.signed(primary.effect.mean) in text and numbers.p_text(primary.effect.p) in text
    for limit in analysis.limits:
        assert " ".join(limit.text.split())[:30] in flat
    assert max(map(len, text.splitlines())) <= width
    effects = text[text.index("Effects on") :].splitlines()
    assert any(line.split()[:2] == ["real", "−"] and numbers.signed(primary.effect.mean) in line for line in effects)
    assert "Written  x.html" in text


def test_numbers() -> None:
    assert [numbers.signed(v) for v in (0.25, -0.034, 0.0, -0.0001, None)] == ["+25.0", "−3.4", "0.0", "0.0", "–"]
    assert [numbers.p_text(p) for p in (0.0625, 0.03125, 0.433338, 1.0, 0.00001, None)] == [
        "0.0625",
        "0.03125",
        "0.4333",
        "1",
        "<0.0001",
        "–",
    ]
    assert [numbers.amount(v, "cost_usd") for v in (5.2, 0.0123, None)] == ["5.20", "0.0123", "–"]
    assert numbers.amount(-1234.5, "seconds", plus=True) == "−1,234"
    assert numbers.share(0, 0) == "–" and numbers.share(1234, 5678) == "1,234/5,678"


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.5), (0.0, 0.01), (-1.0, 1.0), (0.071, 0.464), (-0.034, 0.103)])
def test_ticks_are_round_and_hold_the_range(low, high) -> None:
    found = plots.ticks(low, high)
    assert 2 <= len(found) <= 7 and found[0] <= low + 1e-9 and found[-1] >= high - 1e-9
    assert all(round(100 * v, 6) == round(100 * v) for v in found)


def test_a_figure_of_many_tasks_shows_those_that_moved() -> None:
    made = [
        Attempt(task=f"t{t:04}", arm=arm, termination="pass" if ok else "fail", passed=ok)
        for t in range(500)
        for arm, ok in (("a", t < 50), ("b", t >= 480))
    ]
    found = analyse(made, primary=("a", "b"))
    figure = plots.dumbbells(found.plain(), found.plain()["contrasts"][0])
    assert len(figure["rows"]) == plots.TASKS and figure["hidden"] == 500 - plots.TASKS
    assert sum(row["kind"] != "same" for row in figure["rows"]) == 70


@pytest.mark.parametrize(
    "attempts",
    [
        [],
        [Attempt(task="t", arm="a", termination="fail")],
        [Attempt(task="t", arm="a", termination="invalid"), Attempt(task="t", arm="b", termination="never-ran")],
    ],
)
def test_next_to_nothing_is_shown_too(attempts) -> None:
    found = analyse(attempts)
    assert page.text(found.plain()).rstrip().endswith("</html>")
    out = io.StringIO()
    terminal.show(console(out, width=100), found.plain())
    assert found.sentence[:40] in " ".join(out.getvalue().split())


# -- the command ---------------------------------------------------------------------------------------------------------


def test_every_output_holds_the_same_numbers(tmp_path: Path) -> None:
    write_attempts(tmp_path / "attempts.jsonl", drawn())
    args = ["report", str(tmp_path / "attempts.jsonl"), "--primary", "real,sham", "--html", str(tmp_path / "r.html"), "--json", str(tmp_path / "r.json"), "--csv", str(tmp_path / "csv")]  # fmt: skip
    for _ in range(2):  # its own files are written over
        done = CliRunner().invoke(command, args)
        assert done.exit_code == 0, done.output
    document = json.loads((tmp_path / "r.json").read_text())
    primary = document["contrasts"][0]
    assert document["schema"] == "misstep.panel.analysis" and primary["role"] == "primary"
    with (tmp_path / "csv" / "contrasts.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert float(row["effect.mean"]) == primary["effect"]["mean"] and float(row["effect.p"]) == primary["effect"]["p"]
    assert row["improved"] == ";".join(primary["improved"])
    shown = numbers.signed(primary["effect"]["mean"])
    assert shown in done.output and shown in (tmp_path / "r.html").read_text()
    with (tmp_path / "csv" / "attempts.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(drawn())
    assert (tmp_path / "r.html").stat().st_mode & 0o077 == 0


def test_a_text_stays_a_text_in_a_spreadsheet(tmp_path: Path) -> None:
    write_attempts(
        tmp_path / "a.jsonl",
        [Attempt(task="=1+1", arm="a", termination="fail"), Attempt(task="-x", arm="b", termination="fail")],
    )
    done = CliRunner().invoke(command, ["report", str(tmp_path / "a.jsonl"), "--csv", str(tmp_path / "csv"), "-q"])
    assert done.exit_code == 0 and done.output == ""
    for name in ("attempts.csv", "tasks.csv"):
        text = (tmp_path / "csv" / name).read_text()
        assert "'=1+1" in text and "'-x" in text


def test_json_to_standard_output_is_json_alone(tmp_path: Path) -> None:
    write_attempts(tmp_path / "a.jsonl", drawn())
    done = CliRunner().invoke(command, ["report", str(tmp_path / "a.jsonl"), "--json", "-"])
    assert json.loads(done.output)["observed"] == len(drawn()) - 1


DESIGN = """
name = "named"
attempts = 2
arms = ["baseline", "real", "sham", "always-verify"]
secondary = [["real", "always-verify"]]
[tasks]
path = "tasks"
[agent]
name = "codex"
[primary]
contrast = ["real", "baseline"]
cohort = "silent"
[cohorts]
silent = ["task-00", "task-02"]
"""


def test_a_design_decides_what_is_asked(tmp_path: Path) -> None:
    write_attempts(tmp_path / "attempts.jsonl", drawn())
    (tmp_path / "d.toml").write_text(DESIGN)
    run = CliRunner()
    done = run.invoke(command, ["report", str(tmp_path), "--design", str(tmp_path / "d.toml"), "--json", "-"])
    assert done.exit_code == 0, done.output
    planned = [one for one in json.loads(done.output)["contrasts"] if one["role"] != "described"]
    assert [(one["arm"], one["against"], one["cohort"], one["role"]) for one in planned] == [
        ("real", "baseline", "silent", "primary"),
        ("real", "always-verify", "silent", "secondary"),
    ]
    done = run.invoke(command, ["report", str(tmp_path), "--design", str(tmp_path / "d.toml"), "--primary", "sham,baseline", "--cohort", "all", "--json", "-"])  # fmt: skip
    planned = [one for one in json.loads(done.output)["contrasts"] if one["role"] != "described"]
    assert [(one["arm"], one["against"]) for one in planned] == [
        ("sham", "baseline"),
        ("real", "baseline"),
        ("real", "always-verify"),
    ]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--primary", "real"], "--primary: expected two different arms like real,sham"),
        (["--primary", "real,real"], "--primary: expected two different arms"),
        (["--primary", "real,none"], "no attempt of arm 'none'"),
        (["--html", "{here}/attempts.jsonl"], "is there already, and not from --html"),
        (["--json", "{here}/attempts.jsonl"], "is there already, and not from --json"),
        (["--html", "{here}"], "--html: expected a file's name"),
        (["--html", "{here}/none/x.html"], "cannot be written: No such file or directory"),
        (["--design", "{here}/attempts.jsonl"], "attempts.jsonl: not TOML"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, args, says) -> None:
    write_attempts(tmp_path / "attempts.jsonl", drawn())
    before = (tmp_path / "attempts.jsonl").read_bytes()
    done = CliRunner().invoke(
        command, ["report", str(tmp_path / "attempts.jsonl"), *(a.replace("{here}", str(tmp_path)) for a in args)]
    )
    assert done.exit_code == 2 and says in done.output, done.output
    assert (tmp_path / "attempts.jsonl").read_bytes() == before
    assert re.match(r"Error: [^\n]*\n$", done.output)


def test_the_example_is_what_its_rule_draws(tmp_path: Path) -> None:
    import runpy

    folder = Path(__file__).resolve().parents[2] / "examples" / "panel"
    made = runpy.run_path(str(folder / "make.py"))["attempts"]()
    assert read_attempts(folder / "attempts.jsonl") == made
    assert analyse(made).simulated == "attempts drawn from a stated rule, no agent ran"


def test_one_model_of_several(tmp_path: Path) -> None:
    """Attempts of one model alone; those that name none are left out, and that is said."""
    file = tmp_path / "a.jsonl"
    made = [
        Attempt(task=f"t{t}", arm=arm, model=model, termination="pass" if ok else "fail", passed=ok, replicate=r)
        for t in range(8)
        for arm in ("real", "sham")
        for r, model, ok in ((1, "v/large", arm == "real"), (2, "v/small", arm == "sham"))
    ]
    lost = Attempt(task="t0", arm="real", replicate=3, termination="invalid", fault="no image")
    write_attempts(file, [*made, lost])
    run = CliRunner()
    for model, says in (("v/large", "more often"), ("v/small", "less often")):
        done = run.invoke(command, ["report", str(file), "--model", model])
        text = " ".join(done.output.split())
        assert done.exit_code == 0 and f"real passed 100.0 points {says} than sham on all 8 tasks" in text
        assert f"Attempts of {model} alone: 16 of 33." in text and "1 without a model on record" in text
        assert "More than one of the models" not in text
    assert "takes one" in " ".join(run.invoke(command, ["report", str(file)]).output.split())
    done = run.invoke(command, ["report", str(file), "--model", "x"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "no attempt of model 'x'; there are v/large, v/small" in done.output


def test_no_attempt_at_all_is_no_report(tmp_path: Path) -> None:
    write_attempts(tmp_path / "a.jsonl", [])
    done = CliRunner().invoke(command, ["report", str(tmp_path / "a.jsonl")])
    assert (done.exit_code, done.output) == (2, f"Error: {tmp_path}/a.jsonl: no attempt in it\n")


def test_names_of_arms_are_shown_and_do_nothing_in_headings(tmp_path: Path) -> None:
    arm = "\x1b[2Jx\u202e"
    made = [Attempt(task="t", arm=a, termination="pass", passed=True) for a in (arm, "b")]
    write_attempts(tmp_path / "a.jsonl", made)
    done = CliRunner().invoke(command, ["report", str(tmp_path / "a.jsonl"), "--primary", f"{arm},b"])
    assert done.exit_code == 0 and "\x1b" not in done.output and "\u202e" not in done.output
    assert "Tasks by passes, b (rows) to ␛[2Jx" in done.output and "  1 task · 2 arms" in done.output
