"""Portfolio files, locks and arms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from misstep.catalogue import missteps
from misstep.guard import freeze
from misstep.guard.arms import apply, generic
from misstep.guard.engine import Engine
from misstep.guard.portfolio import Portfolio, PortfolioError, default, from_plain

from .conftest import POLICIES, Hooks, plain_rules, portfolio_of

FILE = f"""
version = 1
wrapper = "Note: {{text}}"
stop_cap = 2

[[policy]]
id = "service-persistence"
limit = 2

[[policy]]
id = "database-evidence"
mode = "observe"
limit = "none"

[[policy]]
id = "plain/tell-one"
file = "{POLICIES}/plain.py"
text = "My words."
"""


def portfolio(tmp_path: Path, text: str = FILE) -> Path:
    path = tmp_path / "portfolio.toml"
    path.write_text(text)
    return path


def test_a_portfolio_file(tmp_path: Path) -> None:
    made = from_plain(freeze.read(portfolio(tmp_path)))
    assert [(r.policy, r.mode, r.limit, r.text) for r in made.rules] == [
        ("service-persistence", "enforce", 2, ""),
        ("database-evidence", "observe", None, ""),
        ("plain/tell-one", "enforce", 0, "My words."),
    ]
    assert made.wrapped("x") == "Note: x" and made.stop_cap == 2


def test_a_file_beside_the_portfolio(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text((POLICIES / "plain.py").read_text())
    made = freeze.read(portfolio(tmp_path, '[[policy]]\nid = "plain/tell-one"\nfile = "mine.py"\n'))
    assert made["rules"][0]["module"] == str(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = ", "Invalid value"),
        ("colour = 1", "unknown key 'colour'"),
        ('[[policy]]\nid = "no-such"', "no policy 'no-such'"),
        ("[[policy]]\nid = 3", "policy 1: id: a text is expected, not 3"),
        (
            '[[policy]]\nid = "service-persistence"\nmode = "maybe"',
            "mode: one of enforce, observe, off is expected, not 'maybe'",
        ),
        (
            '[[policy]]\nid = "service-persistence"\nlimit = 0',
            'limit: a whole number from 1, or "none", is expected, not 0',
        ),
        ('[[policy]]\nid = "service-persistence"\nlimits = 1', "unknown key 'limits'"),
        ('[[policy]]\nid = "x"\nfile = "none.py"', "is no Python file"),
        ('wrapper = "no place"', "wrapper: a text with {text} in it is expected"),
        ("policy = 3", "[[policy]] tables"),
        ('stop_cap = "many"', "stop_cap: a whole number from 0 is expected, not 'many'"),
    ],
)
def test_errors_name_the_file_and_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = portfolio(tmp_path, text)
    with pytest.raises(PortfolioError) as caught:
        freeze.read(path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_a_file_that_raises_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(PortfolioError, match=r"bad\.py: ZeroDivisionError"):
        freeze.read(portfolio(tmp_path, '[[policy]]\nid = "x"\nfile = "bad.py"'))


def test_the_default_is_every_policy_that_is_ready() -> None:
    ids = [rule["policy"] for rule in default()["rules"]]
    assert {p.id for m in missteps() if m.scoped for p in m.policies} <= set(ids)
    assert len(ids) == len(set(ids)) >= 11


def test_hooks_use_a_portfolio_file_and_see_that_it_changed(hooks: Hooks, tmp_path: Path) -> None:
    path = portfolio(tmp_path)
    hooks.env["MISSTEP_PORTFOLIO"] = str(path)
    hooks.prompt("Go.")
    assert hooks.call("write", "a")["additionalContext"] == "Note: My words."
    path.write_text(FILE.replace("My words.", "Other words, longer."))
    hooks.prompt("Go.", session="two")
    assert hooks.call("write", "b", session="two")["additionalContext"] == "Note: Other words, longer."
    path.write_text("broken")
    assert hooks.call("write", "c", session="two") == {}
    assert "portfolio.toml" in hooks.faults()[-1]


# -- the lock ------------------------------------------------------------------------------------------------------------


def locked(tmp_path: Path) -> tuple[Path, Path]:
    """(the lock, the source of its own policy)"""
    source = tmp_path / "mine.py"
    source.write_text((POLICIES / "plain.py").read_text())
    made = freeze.lock(freeze.read(portfolio(tmp_path, '[[policy]]\nid = "plain/tell-one"\nfile = "mine.py"\n')))
    freeze.write_lock(tmp_path / "portfolio.lock", made)
    return tmp_path / "portfolio.lock", source


def test_a_lock_names_what_decides(tmp_path: Path) -> None:
    lock, source = locked(tmp_path)
    found = json.loads(lock.read_text())
    assert {str(source), "misstep/guard/engine.py", "misstep/shell/scanner.py", "misstep/catalogue/base.py"} <= set(
        found["sources"]
    )
    assert not any("readers" in name for name in found["sources"])
    assert freeze.verify(found) == ""


def test_a_scored_run_refuses_what_is_not_locked(hooks: Hooks, tmp_path: Path) -> None:
    lock, source = locked(tmp_path)
    hooks.env["MISSTEP_SCORED"] = "1"

    def refused(session: str) -> list[str]:
        hooks.prompt("Go.", session=session)
        answer = hooks.call("write", session=session)
        found = [line["error"] for line in hooks.log(session) if line.get("e") == "refused"]
        assert bool(found) == (answer == {})
        assert [line["e"] for line in hooks.log(session)[-1:]] == (["before"] if found else ["decision"])
        return found

    assert refused("none") == ["a scored run needs a lock, not the catalogue as it is"]
    hooks.env["MISSTEP_PORTFOLIO"] = str(lock)
    assert refused("good") == []
    source.write_text(source.read_text() + "\n")
    assert refused("changed") == [f"{source} changed since the lock was made"]
    source.unlink()
    assert refused("gone") == [f"{source}: No such file or directory"]
    lock.write_text(json.dumps({"v": 1, "rules": [], "lock": 1}))
    assert refused("empty") == ["the lock names no sources"]


def test_a_lock_is_used_unscored_too(hooks: Hooks, tmp_path: Path) -> None:
    lock, source = locked(tmp_path)
    hooks.env["MISSTEP_PORTFOLIO"] = str(lock)
    source.write_text(source.read_text().replace("Advice one.", "Changed."))
    hooks.prompt("Go.")
    assert hooks.call("write")["additionalContext"] == "Changed."


# -- arms ----------------------------------------------------------------------------------------------------------------

REAL = [
    {"policy": p.id, "misstep": m.id, "module": type(m).__module__} for m in missteps() if m.scoped for p in m.policies
]
TEXTS = {p.id: p for m in missteps() if m.scoped for p in m.policies}


def arm(name: str, rules: list[dict[str, Any]] | None = None) -> Portfolio:
    return apply(portfolio_of(rules or REAL), name)


@pytest.mark.parametrize("length", range(120, 1200, 37))
def test_generic_texts_have_the_length_asked_for(length: int) -> None:
    for start in ("", "This call was not run."):
        assert abs(len(generic(length, start)) - length) <= 0.15 * length


def test_a_sham_has_the_lengths_of_the_real_texts_and_instructs() -> None:
    for rule in arm("sham").rules:
        real = TEXTS[rule.policy]
        assert abs(len(rule.text) - len(real.text)) <= 0.15 * len(real.text), rule.policy
        assert rule.mode == "enforce" and (rule.action == "instruct") == (real.action == "deny")
        assert "not run" not in rule.text and rule.limit is not None


def test_a_sham_deny_keeps_the_denial_under_a_cap() -> None:
    made = {r.policy: r for r in arm("sham-deny").rules}
    rule = made["database-evidence"]
    assert rule.action == "" and rule.limit == 3 and rule.text.startswith("This call was not run.")
    assert abs(len(rule.text) - len(TEXTS["database-evidence"].text)) <= 0.15 * len(TEXTS["database-evidence"].text)


def played(name: str) -> list[tuple[str, str]]:
    """(action, text) at: a remove, a write, two stops; the task is eligible for all but the last policy."""
    engine = Engine(apply(portfolio_of(plain_rules()), name))
    engine.fold({"e": "prompt", "text": "Go."})
    made = []
    for record in (
        {"e": "before", "id": "a", "tool": "Bash", "input": {"command": "remove"}},
        {"e": "before", "id": "b", "tool": "Bash", "input": {"command": "write"}},
        {"e": "stop", "message": "", "turn": "1"},
        {"e": "stop", "message": "", "turn": "1"},
    ):
        decision = engine.decide(record)
        made.append((decision.action, decision.text))
        # every arm logs a row for every policy of the portfolio that acts there
        assert {r["policy"] for r in decision.rows} >= {
            f"plain/{n}"
            for n in (["at-stop"] if record["e"] == "stop" else ["deny-first", "deny-second", "tell-one", "tell-two"])
        }
    return made


def test_what_each_arm_does() -> None:
    none = ("", "")
    assert played("real") == [("deny", "First denial."), ("instruct", "Advice one.\n\nAdvice two."), none, none]
    assert played("baseline") == [none] * 4
    assert [a for a, _ in played("sham")] == ["instruct", "instruct", "", ""]
    assert [a for a, _ in played("sham-deny")] == ["deny", "instruct", "", ""]
    assert [a for a, _ in played("always-verify")] == ["", "", "instruct", ""]
    assert "verify the result that will be judged" in played("always-verify")[2][1]
    assert "reconsider your work" in played("reconsider")[2][1]
    assert played("always-real")[2] == ("instruct", "Check again.")
    assert played("without:plain") == [none] * 4


def test_an_arm_that_is_none_is_an_error(hooks: Hooks) -> None:
    with pytest.raises(PortfolioError, match="no arm 'without:nothing'"):
        arm("without:nothing")
    hooks.use(plain_rules())
    hooks.env["MISSTEP_ARM"] = "placebo"
    hooks.prompt("Go.")
    assert hooks.call("remove") == {} and "no arm 'placebo'" in hooks.faults()[0]


def test_an_arm_by_environment_or_settings(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.env["MISSTEP_ARM"] = "baseline"
    hooks.prompt("Go.")
    assert hooks.call("remove") == {} and hooks.log()[0]["arm"] == "baseline"
    del hooks.env["MISSTEP_ARM"]
    (hooks.home / "state" / "guard" / "settings.json").write_text('{"arm": "always-real"}')
    hooks.prompt("Go.", session="two")
    assert hooks.stop(session="two")["reason"] == "Check again." and hooks.log("two")[0]["arm"] == "always-real"
