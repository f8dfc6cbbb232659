"""The HTML report in a real browser: it opens, its filters work, and no text of a transcript does anything."""

from __future__ import annotations

import io
import json
import random
import re
from pathlib import Path

import pytest

from misstep.report.page import write
from misstep.scan.run import Options, scan
from misstep.scan.summary import summarise

pytestmark = pytest.mark.usefixtures("catalogue")

NASTY = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'>",
    "</script><script>window.pwned = 3</script>",
    "<!--<script>",
    "<a href='javascript:window.pwned=4'>x</a>",
    "<svg onload=window.pwned=5>",
    "{{ 7 * 7 }} {% raw %} ${window.pwned=6} \u2028 \u2029",
    "<iframe src=https://example.org/></iframe><link rel=stylesheet href=//example.org/x.css>",
    "<style>*{display:none}</style><base href=//example.org/><meta http-equiv=refresh content='0;url=//example.org'>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://example.org\x07link \u202ereversed \x00 \ud800",
    "__proto__ constructor \"';alert(1)//",
]


def page(tmp_path: Path, root: Path, **options) -> Path:
    result = scan(Options([str(root)], workers=1, **options))
    summary = summarise(result, result.header["missteps"])
    out = io.BytesIO()
    write(out, result, summary)
    path = tmp_path / "report.html"
    path.write_bytes(out.getvalue())
    return path


@pytest.fixture
def report(tmp_path: Path, making) -> Path:
    root = tmp_path / "sessions"
    making.session(
        root / "one.jsonl",
        ["ls", "pwd", "whoami", "date", ("echo BAD apples", "the\noutput", True), "true", "uptime", "echo BAD pears"],
        prompt="Sort the fruit.",
        id="1a2b3c4d-0000-4000-8000-000000000000",
    )
    making.session(root / "two.jsonl", ["ls", "echo BAD plums"], prompt="Sort the plums, in scope.", day="2026-05-02")
    making.session(root / "three.jsonl", ["ls"], prompt="Nothing wrong here.", day="2026-06-03")
    for n, (reward, command) in enumerate([(1.0, "ls"), (0.0, "echo BAD figs"), (0.0, "echo BAD dates"), (1.0, "ls")]):
        making.trial(root / f"job/t{n}", [command], reward, task=f"task-{n // 2}")
    making.trial(root / "job/broken", ["echo BAD never"], None, task="task-9", fault="EnvironmentStartTimeoutError")
    (root / "notes.txt").write_text("no session")
    return page(tmp_path, root, preview=True)


class Opened:
    """A page that is watched: console errors and requests are kept."""

    def __init__(self, browser, path: Path, **context) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **context)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("dialog", lambda d: (self.errors.append(f"dialog {d.message}"), d.dismiss()))
        self.page.goto(path.as_uri())

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def settled(self) -> str:
        self.page.wait_for_timeout(200)
        return self.page.inner_text("#status")


@pytest.fixture
def opened(browser):
    made: list[Opened] = []

    def go(path: Path, **context) -> Opened:
        made.append(Opened(browser, path, **context))
        return made[-1]

    yield go
    for one in made:
        one.context.close()


def test_it_opens_alone(opened, report: Path):
    view = opened(report)
    assert view.page.inner_text("#big") == "57%"
    assert view.settled() == "6 occurrences in 4 of 7 sessions"
    assert view.texts(".item .name")[0] == "uses a bad word in a command"
    assert view.errors == []
    assert view.requests == [report.as_uri()]


def test_a_misstep_opens_to_its_occurrences_in_context(opened, report: Path):
    view = opened(report)
    view.page.click("#m-bad-word > .row")
    assert len(view.texts("#m-bad-word .occ")) == 5
    assert "A command with BAD in it." in view.page.inner_text("#m-bad-word .about")
    assert "Do not use that word." in view.page.inner_text("#m-bad-word blockquote")
    view.page.click("#m-bad-word .occ:has-text('apples') > button")
    steps = view.texts("#m-bad-word .step .lead b")
    assert steps == ["step 2", "step 3", "step 4", "step 5", "step 6", "step 7"]
    wrong = view.page.locator("#m-bad-word .step.wrong")
    assert wrong.count() == 1
    assert "✗ The agent uses a bad word in a command" in wrong.inner_text()
    assert "misstep show 1a2b3c4d#5" in view.page.inner_text("#m-bad-word .tools")
    view.page.click("#m-bad-word > .row")
    assert view.page.locator("#m-bad-word .occ").count() == 0


def test_the_whole_session(opened, report: Path):
    view = opened(report)
    view.page.click("#tab-sessions")
    assert view.page.is_visible("#view-sessions") and not view.page.is_visible("#view-missteps")
    view.page.click("table.sessions button:has-text('Sort the fruit.')")
    assert view.page.is_visible("dialog[open]")
    assert view.page.locator("dialog .strip .tick").count() == 2
    assert view.page.locator("dialog .step.wrong").count() == 2
    assert "2 steps not shown" in view.page.inner_text("dialog .gap >> nth=0")
    view.page.keyboard.press("Escape")
    assert not view.page.is_visible("dialog")


def test_filters(opened, report: Path):
    view = opened(report)
    view.page.fill("#q", "plums")
    assert view.settled() == "2 occurrences in 1 of 7 sessions"
    view.page.fill("#q", "no such words")
    assert view.settled() == "0 occurrences in 0 of 7 sessions"
    view.page.click("#clear")
    assert view.settled() == "6 occurrences in 4 of 7 sessions" and view.page.input_value("#q") == ""
    view.page.select_option("#f-agent", "codex")
    assert view.settled() == "2 occurrences in 2 of 4 sessions"
    view.page.select_option("#f-outcome", "passed")
    assert view.settled() == "0 occurrences in 0 of 2 sessions"
    view.page.select_option("#f-outcome", "failed")
    assert view.settled() == "2 occurrences in 2 of 2 sessions"
    view.page.click("#clear")
    view.page.fill("#f-from", "2026-04-01")
    assert view.settled() == "2 occurrences in 1 of 2 sessions"
    view.page.fill("#f-to", "2026-05-02")
    assert view.settled() == "2 occurrences in 1 of 1 session"
    view.page.click("#clear")
    view.page.select_option("#f-misstep", label="scoped-word")
    assert view.settled() == "1 occurrence in 1 of 7 sessions"
    assert view.texts(".item .name") == ["uses a word that this task does not allow"]


def test_search_and_misstep_and_agent_together(opened, report: Path):
    view = opened(report)
    view.page.select_option("#f-misstep", label="bad-word")
    view.page.fill("#q", "BAD")
    view.page.select_option("#f-agent", "claude-code")
    assert view.settled() == "3 occurrences in 2 of 3 sessions"


ROWS = """() => Object.fromEntries([...document.querySelectorAll('.item')].map((item) => [item.id,
  [...item.querySelectorAll('.row .bar b, .row .bar small, .row .num b, .row .num small')].map((n) => n.textContent)]))"""


def _denominators(row: list[str]) -> str:
    return row[1].split(" of ")[1]


@pytest.mark.parametrize("rows", [20_000, 1])
def test_neither_a_misstep_nor_a_search_changes_a_denominator(
    opened, tmp_path: Path, making, monkeypatch: pytest.MonkeyPatch, rows: int
):
    """Over random sessions, whether all are listed or not: choosing a misstep leaves its row as it is."""
    from misstep.report import page as module

    monkeypatch.setattr(module, "ROWS", rows)
    chance = random.Random(7)
    for n in range(12):
        commands = [
            chance.choice(["ls", "echo BAD apples", "echo BAD pears", "echo PRE", "echo MAYBE"]) for _ in range(9)
        ]
        prompt = chance.choice(["Sort.", "Sort, in scope."])
        making.session(
            tmp_path / f"s/{n}.jsonl", commands if n % 3 else ["ls"], prompt=prompt, day=f"2026-03-{n + 1:02}"
        )
    making.trial(tmp_path / "s/t", ["ls", "echo BAD figs"], 0.0, task="t")
    view = opened(page(tmp_path, tmp_path / "s", preview=True))
    for agent, since in (("", ""), ("claude-code", ""), ("", "2026-03-05")):
        view.page.select_option("#f-agent", agent)
        view.page.fill("#f-from", since)
        view.settled()
        whole = view.page.evaluate(ROWS)
        assert len(whole) == 3
        for name in ("bad-word", "scoped-word", "preview-word"):
            view.page.select_option("#f-misstep", label=name)
            view.settled()
            assert view.page.evaluate(ROWS) == {f"m-{name}": whole[f"m-{name}"]}
        view.page.select_option("#f-misstep", "")
        for words in ("apples", "figs", "nowhere at all"):
            view.page.fill("#q", words)
            view.settled()
            found = view.page.evaluate(ROWS)
            assert {k: _denominators(v) for k, v in found.items()} == {k: _denominators(v) for k, v in whole.items()}
            for key, (share, _, times, _, rate, _) in found.items():
                assert int(times[:-1]) <= int(whole[key][2][:-1])
                for part, of in ((share, whole[key][0]), (rate, whole[key][4])):
                    assert int(part.strip("<%–") or 0) <= int(of.strip("<%–") or 0)
        view.page.fill("#q", "")
    assert view.errors == []


def test_what_was_not_counted_and_the_policies(opened, report: Path):
    view = opened(report)
    view.page.click("#tab-rest")
    shown = view.page.inner_text("#view-rest")
    assert "1 attempt" in shown and "broken by infrastructure" in shown and "no session of a known agent" in shown
    view.page.click("#tab-policies")
    shown = view.page.inner_text("#view-policies")
    assert "bad-word" in shown and "deny" in shown and "Do not use that word." in shown


def test_an_outcome_is_shown_as_a_difference(opened, report: Path):
    view = opened(report)
    view.page.click("#m-bad-word > .row")
    shown = view.page.inner_text("#m-bad-word .about")
    assert "−100 points" in shown and "over 2 tasks" in shown and "0 of 2 passed" in shown
    assert view.page.locator("#m-bad-word .whisker").count() == 1


def test_keyboard(opened, report: Path):
    view = opened(report)
    view.page.focus("#m-bad-word > .row")
    view.page.keyboard.press("Enter")
    assert view.page.get_attribute("#m-bad-word > .row", "aria-expanded") == "true"
    assert view.page.evaluate("document.activeElement.className") == "row"
    view.page.keyboard.press("Tab")
    view.page.keyboard.press("Tab")
    view.page.keyboard.press("Enter")
    assert view.page.locator("#m-bad-word .occ .steps").count() == 1
    view.page.focus("#tab-missteps")
    view.page.keyboard.press("ArrowRight")
    assert view.page.get_attribute("#tab-sessions", "aria-selected") == "true"
    view.page.keyboard.press("ArrowLeft")
    view.page.keyboard.press("ArrowLeft")
    assert view.page.is_visible("#view-rest")


def test_dark_and_light(opened, report: Path):
    dark, light = opened(report, color_scheme="dark"), opened(report, color_scheme="light")
    backgrounds = [v.page.evaluate("getComputedStyle(document.body).backgroundColor") for v in (dark, light)]
    assert backgrounds[0] != backgrounds[1]
    dark.page.click("#theme")
    assert dark.page.evaluate("getComputedStyle(document.body).backgroundColor") == backgrounds[1]


def test_print_leaves_out_the_controls(opened, report: Path):
    view = opened(report)
    view.page.emulate_media(media="print")
    assert not view.page.is_visible("#filters") and view.page.is_visible("#m-bad-word")


def test_a_narrow_screen_does_not_scroll_sideways(opened, report: Path):
    view = opened(report)
    view.page.set_viewport_size({"width": 380, "height": 700})
    widest = """() => Math.max(document.documentElement.scrollWidth,
      ...[...document.querySelectorAll('section:not([hidden]) *, dialog[open], dialog[open] header *')]
        .filter((n) => !n.closest('svg')).map((n) => n.getBoundingClientRect().right))"""
    view.page.click("#m-bad-word > .row")
    view.page.click("#m-bad-word .occ > button >> nth=0")
    assert view.page.evaluate("document.documentElement.scrollWidth") <= 380
    for tab in ("sessions", "policies", "rest"):
        view.page.click(f"#tab-{tab}")
        assert view.page.evaluate(widest) <= 380, tab
    view.page.click("#tab-sessions")
    view.page.click("table.sessions tbody tr >> nth=0")
    assert view.page.evaluate(widest) <= 380


@pytest.mark.parametrize("height", [380, 900])
def test_an_opened_occurrence_shows_the_misstep_itself(opened, report: Path, height: int):
    view = opened(report, reduced_motion="reduce")
    view.page.set_viewport_size({"width": height, "height": height})
    view.page.click("#m-bad-word > .row")
    for button in view.page.locator("#m-bad-word .occ > button").all():
        button.click()
        step = button.locator(".where").inner_text().rpartition("#")[2]
        box = button.locator("xpath=..").locator(f".step.wrong[data-step='{step}']").bounding_box()
        assert box["y"] >= 0 and box["y"] + min(box["height"], 60) <= height, box


def test_the_whole_row_opens_a_session_and_says_what_is_kept(opened, report: Path):
    view = opened(report)
    view.page.click("#tab-sessions")
    view.page.click("table.sessions tr:has-text('Sort the fruit.') td.d")
    shown = view.page.inner_text("dialog")
    assert "8 agent steps of 9 steps" in shown and "Whole session" not in view.page.inner_text("body")
    assert "This page keeps 7 of its 9 steps: those around its missteps." in shown
    view.page.keyboard.press("Escape")
    view.page.focus("table.sessions button >> nth=0")
    view.page.keyboard.press("Enter")
    assert view.page.is_visible("dialog[open]")


def test_sessions_follow_the_search(opened, report: Path):
    view = opened(report)
    view.page.click("#tab-sessions")
    view.page.fill("#q", "apples")
    assert view.settled() == "1 occurrence in 1 of 7 sessions"
    assert view.texts("table.sessions td.r:not(.wide)") == ["1"]
    assert view.page.locator("table.sessions .tick").count() == 1
    view.page.click("#tab-policies")
    assert "the filters do not apply here" in view.page.inner_text("#view-policies")
    view.page.click("#tab-rest")
    assert "the filters do not apply here" in view.page.inner_text("#view-rest")


def test_the_address_keeps_the_filters(opened, report: Path):
    view = opened(report)
    view.page.select_option("#f-misstep", label="bad-word")
    view.page.select_option("#f-agent", "codex")
    view.page.fill("#q", "figs & <b>")
    view.page.fill("#f-from", "2026-01-01")
    view.page.click("#tab-sessions")
    status, address = view.settled(), view.page.evaluate("location.href")
    other = opened(report)
    other.page.goto(address)
    other.page.reload()
    assert other.settled() == status and other.page.is_visible("#view-sessions")
    assert other.page.input_value("#q") == "figs & <b>" and other.page.input_value("#f-agent") == "codex"
    assert other.page.evaluate("location.href") == address
    other.page.click("#clear")
    assert other.settled() == "6 occurrences in 4 of 7 sessions" and "codex" not in other.page.evaluate("location.href")
    for bad in ("misstep=nope&agent=x&tab=zz&open=a,b&from=never", "%", "__proto__=1"):
        other.page.goto(report.as_uri() + "#" + bad)
        assert other.settled() == "6 occurrences in 4 of 7 sessions"
    assert other.errors == []


def test_a_link_to_a_misstep(opened, report: Path):
    view = opened(report)
    view.page.goto(report.as_uri() + "#bad-word")
    view.page.reload()
    assert view.page.get_attribute("#m-bad-word > .row", "aria-expanded") == "true"
    view.page.goto(report.as_uri() + "#scoped-word")
    view.page.wait_for_timeout(100)
    assert view.page.get_attribute("#m-scoped-word > .row", "aria-expanded") == "true"


def test_without_javascript_the_figures_are_there(opened, report: Path):
    view = opened(report, java_script_enabled=False)
    assert "uses a bad word in a command" in view.page.inner_text("noscript, main")


@pytest.mark.parametrize("nasty", range(len(NASTY)))
def test_nothing_in_a_transcript_is_executed(opened, tmp_path: Path, making, nasty: int):
    text = NASTY[nasty]
    root = tmp_path / "sessions"
    commands = [(f"ls {text}", text, False), (f"echo BAD {text}", text, True), (f"echo BAD again {text}", text, False)]
    making.session(root / "s.jsonl", commands, id=text, prompt=text)
    (root / "note <img src=x onerror=alert(1)>.txt").write_text(text, encoding="utf-8", errors="surrogatepass")
    path = page(tmp_path, root)
    view = opened(path)
    view.page.click("#m-bad-word > .row")
    for button in view.page.locator("#m-bad-word .occ > button").all():
        button.click()
    view.page.click("#tab-rest")
    view.page.click("#tab-sessions")
    view.page.click("table.sessions .t button")
    view.page.wait_for_timeout(100)
    assert view.page.evaluate("window.pwned") is None
    assert (
        view.page.locator("main img, main iframe, main a, main script, dialog img, dialog a, dialog script").count()
        == 0
    )
    assert view.page.locator("script").count() == 2 and view.page.locator("style").count() == 1
    assert view.requests == [path.as_uri()] and view.errors == []
    shown = view.page.inner_text("dialog")
    assert "echo BAD" in shown and not set(shown) & {"\x1b", "\x07", "\x00", "\u202e"}


def test_the_policy_stops_what_would_slip_through(opened, report: Path):
    """Even markup that came into the page could run nothing and fetch nothing."""
    view = opened(report)
    view.page.evaluate(
        """() => { document.body.insertAdjacentHTML('beforeend', `<img src=https://example.org/x.png>
        <b onclick="window.pwned=1" id=b>x</b>`); document.getElementById('b').click();
        const s = document.createElement('script'); s.textContent = 'window.pwned = 2'; document.body.append(s); }"""
    )
    view.page.wait_for_timeout(100)
    assert view.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in e for e in view.errors)


def test_nothing_outside_is_named(report: Path):
    text = report.read_text()
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:|#)", text)
    assert re.findall(r"https?://[^\s\"'<]+", text.split('id="data"')[0]) == []
    assert "default-src 'none'" in text and "unsafe-inline" not in text


def test_the_data_is_one_json_value(report: Path):
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', report.read_text(), re.S)
    assert block is not None
    data = json.loads(block[1])
    assert len(data["sessions"]) == 7 and data["left"] == {"rows": 0, "surroundings": 0, "groups": []}
    assert "<" not in block[1] and "&" not in block[1]


def test_a_page_has_room_for_many(tmp_path: Path, making, monkeypatch: pytest.MonkeyPatch):
    from misstep.report import page as module

    for n in range(8):
        making.session(tmp_path / f"s/{n}.jsonl", ["ls", "echo BAD"] if n < 4 else ["ls"], prompt=f"task {n}")
    monkeypatch.setattr(module, "SURROUNDINGS", 1000)
    monkeypatch.setattr(module, "ROWS", 2)
    text = page(tmp_path, tmp_path / "s").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert (data["left"]["rows"], data["left"]["surroundings"]) == (2, 2) and len(data["sessions"]) == 6
    assert [g["n"] for g in data["left"]["groups"]] == [2] and data["left"]["groups"][0]["steps"] == 2
    assert sum("context" in s for s in data["sessions"]) == 2


def test_a_page_of_nothing(tmp_path: Path, making, opened):
    making.session(tmp_path / "s/1.jsonl", ["ls"])
    view = opened(page(tmp_path, tmp_path / "s"))
    assert view.page.inner_text("#big") == "0%" and view.errors == []
