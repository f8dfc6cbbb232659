"""E, G, A, R and S over records, without a process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from misstep.catalogue import Fold, missteps
from misstep.guard.engine import Decision, Engine, digest_of
from misstep.guard.portfolio import PortfolioError, from_plain
from misstep.trajectory import After, Before, Call, Prompt, Result, Stop

from .conftest import bad_rules, plain_rules, portfolio_of


def prompt(text: str, **given: Any) -> dict[str, Any]:
    return {"e": "prompt", "text": text, **given}


def before(command: str, id: str = "t") -> dict[str, Any]:
    return {"e": "before", "id": id, "tool": "Bash", "input": {"command": command}}


def after(command: str, id: str = "t", **result: Any) -> dict[str, Any]:
    return {"e": "after", "id": id, "tool": "Bash", "input": {"command": command}, "result": {"output": "", **result}}


def stop(message: str = "Done.", turn: str = "1") -> dict[str, Any]:
    return {"e": "stop", "message": message, "turn": turn}


def engine_of(*rules: dict[str, Any], mode: str = "enforce", **given: Any) -> Engine:
    return Engine(portfolio_of(list(rules) or plain_rules(), mode, **given))


def rows(decision: Decision, key: str) -> dict[str, Any]:
    return {row["policy"].partition("/")[2]: row[key] for row in decision.rows}


def test_the_first_denial_wins_and_instructions_are_held_back() -> None:
    engine = engine_of()
    engine.fold(prompt("Tidy up."))
    made = engine.decide(before("remove and write"))
    assert (made.action, made.text) == ("deny", "First denial.")
    assert rows(made, "fires") == {"deny-first": True, "deny-second": True, "tell-one": True, "tell-two": True}
    assert rows(made, "fired") == {"deny-first": True, "deny-second": False, "tell-one": False, "tell-two": False}
    assert made.held == "plain/deny-first"
    # what was held back is not used up, and the denied call is in no state
    assert engine.runs["plain"].nudges == {"plain/deny-first": 1}
    assert engine.runs["plain"].state.calls == 0


def test_the_order_of_the_portfolio_decides() -> None:
    engine = engine_of(*plain_rules("deny-second", "deny-first", "tell-two", "tell-one"))
    engine.fold(prompt("Tidy up."))
    assert engine.decide(before("remove")).text == "Second denial."
    assert engine.decide(before("write")).text == "Advice two.\n\nAdvice one."


def test_instructions_join_and_have_their_limits() -> None:
    engine = engine_of()
    engine.fold(prompt("Tidy up."))
    made = [engine.decide(before(f"write {n}", str(n))) for n in range(4)]
    assert [m.text for m in made] == ["Advice one.\n\nAdvice two.", "Advice two.", "", ""]
    assert [rows(m, "used")["tell-two"] for m in made] == [0, 1, 2, 2]
    assert all(rows(m, "holds")["tell-two"] for m in made)
    assert engine.runs["plain"].state.calls == 4


def test_a_denial_repeats_until_it_is_released() -> None:
    engine = engine_of()
    engine.fold(prompt("Tidy up."))
    actions = [engine.decide(before(c, c)).action for c in ("remove", "remove", "check", "remove")]
    assert actions == ["deny", "deny", "", ""]
    last = engine.decide(before("remove"))
    assert rows(last, "released")["deny-first"] is True and rows(last, "holds")["deny-first"] is True


def test_eligibility_latches_on_the_first_real_prompt() -> None:
    engine = engine_of()
    engine.fold(prompt("<task-notification>carefully</task-notification>", own=True))
    assert not engine.prompted
    engine.fold(prompt("Go carefully."))
    engine.fold(prompt("Now something else."))
    made = engine.decide(stop())
    assert rows(made, "eligible") == {"at-stop": "carefully"} and made.action == "instruct"
    other = engine_of()
    other.fold(prompt("Go."))
    other.fold(prompt("Now carefully."))
    made = other.decide(stop())
    # tracking is always on: what would fire is known of a task that is not eligible
    assert rows(made, "eligible") == {"at-stop": None}
    assert rows(made, "holds") == {"at-stop": True} and rows(made, "fires") == {"at-stop": False}
    assert other.runs["plain"].state.prompts == 2


def test_unscoped_takes_every_task() -> None:
    portfolio = portfolio_of(plain_rules())
    portfolio.unscoped = True
    engine = Engine(portfolio)
    engine.fold(prompt("Go."))
    assert engine.decide(stop()).action == "instruct"


def test_unknown_is_silent() -> None:
    engine = engine_of()
    engine.fold(prompt("carefully"))
    made = engine.decide(stop("I am unsure."))
    assert rows(made, "holds") == {"at-stop": None} and not made.action


def test_observing_counts_what_would_have_been() -> None:
    engine = engine_of(mode="observe")
    engine.fold(prompt("Tidy up."))
    made = [engine.decide(before("write")) for _ in range(3)]
    assert [m.action for m in made] == ["", "", ""]
    assert [m.held for m in made] == ["observe", "observe", ""]
    assert [rows(m, "fires")["tell-one"] for m in made] == [True, False, False]
    assert not engine.decide(before("remove")).action
    assert engine.runs["plain"].state.calls == 4  # nothing was denied


def test_a_mode_for_each_policy() -> None:
    engine = engine_of(
        *plain_rules("deny-first", mode="observe"), *plain_rules("deny-second"), *plain_rules("tell-one", mode="off")
    )
    engine.fold(prompt("Tidy up."))
    made = engine.decide(before("remove"))
    assert made.text == "Second denial." and set(rows(made, "fired")) == {"deny-first", "deny-second"}
    # observe for all takes back what a rule would enforce
    assert from_plain({"rules": plain_rules("deny-first")}, "observe").rules[0].mode == "observe"


def test_limits_and_words_of_the_portfolio() -> None:
    engine = engine_of(*plain_rules("tell-one", limit=2, text="Mine."), wrapper="[guard] {text} [end]")
    engine.fold(prompt("Go."))
    made = [engine.decide(before("write")).text for _ in range(3)]
    assert made == ["[guard] Mine. [end]", "[guard] Mine. [end]", ""]
    endless = engine_of(*plain_rules("tell-one", limit=None))
    endless.fold(prompt("Go."))
    assert all(endless.decide(before("write")).action for _ in range(20))


def test_the_stop_cap_is_by_turn() -> None:
    engine = engine_of(*plain_rules("at-stop", limit=None), stop_cap=2)
    engine.fold(prompt("carefully"))
    made = [engine.decide(stop(turn="1")) for _ in range(3)] + [engine.decide(stop(turn="2"))]
    assert [m.action for m in made] == ["instruct", "instruct", "", "instruct"]
    assert made[2].held == "stop cap" and rows(made[2], "fires") == {"at-stop": True}


def test_our_own_text_is_known_when_it_comes_back() -> None:
    engine = engine_of()
    engine.fold(prompt("carefully"))
    text = engine.decide(stop()).text
    assert [digest_of(said) in engine.texts for said in (text, f"  {text}\n", "carefully")] == [True, True, False]


def test_results_whose_status_comes_later() -> None:
    engine = engine_of()
    engine.fold(prompt("Go."))
    engine.decide(before("one", "a"))
    engine.fold({**after("one", "a"), "open": True})
    assert engine.runs["plain"].state.results == 0
    engine.decide(before("two", "b"))  # at the same time: still open
    assert engine.runs["plain"].state.results == 0
    engine.fold({"e": "exit", "id": "a", "exit": 3})
    assert (engine.runs["plain"].state.results, engine.runs["plain"].state.failed) == (1, 1)
    engine.fold({**after("two", "b"), "open": True})
    engine.decide(stop())  # nothing more will come
    assert engine.runs["plain"].state.results == 2


def test_a_denied_call_that_ran_after_all_is_folded_in() -> None:
    engine = engine_of()
    engine.fold(prompt("Go."))
    assert engine.decide(before("remove", "a")).action == "deny"
    engine.fold(after("remove", "a"))
    assert (engine.runs["plain"].state.calls, engine.runs["plain"].state.results) == (1, 1)


@pytest.mark.parametrize("name", ["raises", "exits", "recurses"])
def test_a_policy_that_fails_is_put_aside_and_the_others_go_on(name: str) -> None:
    engine = engine_of(*bad_rules(name), *plain_rules("deny-first"))
    engine.fold(prompt("Go."))
    made = engine.decide(before("remove"))
    assert made.action == "deny" and [r["policy"] for r in made.rows] == ["plain/deny-first"]
    (fault,) = engine.faults
    assert fault["misstep"] == name and fault["error"]
    engine.faults.clear()
    engine.decide(before("remove"))
    assert not engine.faults


def test_a_policy_that_is_not_there() -> None:
    engine = engine_of({"policy": "x", "misstep": "x", "module": "misstep.nowhere"}, *plain_rules("deny-first"))
    assert "ModuleNotFoundError" in engine.broken["x"]
    engine.fold(prompt("Go."))
    assert engine.decide(before("remove")).action == "deny"


@pytest.mark.parametrize(
    "plain",
    [{}, {"rules": 3}, {"rules": [{}]}, {"rules": [{"policy": "a", "misstep": "a", "module": "a", "mode": "x"}]}],
)
def test_what_is_no_portfolio(plain: dict[str, Any]) -> None:
    with pytest.raises(PortfolioError):
        from_plain(plain)


STORY = [
    prompt("carefully"),
    before("write one", "a"),
    after("write one", "a", failed=True),
    before("remove", "b"),
    {**after("x", "y"), "open": True},
    before("check", "c"),
    {"e": "exit", "id": "y", "exit": 1},
    after("check", "c", failed=False),
    {"e": "compact"},
    before("remove", "d"),
    after("remove", "d"),
    stop("unsure"),
    prompt("Go on."),
    stop("Done.", "2"),
]


def played(engine: Engine, story: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The log of a story."""
    log: list[dict[str, Any]] = []
    for record in story:
        log.append(record)
        if record["e"] in ("before", "stop"):
            line = engine.decide(record).record()
            if record["e"] == "stop":
                line["turn"] = record["turn"]
            log.append(line)
        else:
            engine.fold(record)
    return json.loads(json.dumps(log))


@pytest.mark.parametrize("cut", range(len(STORY) + 1))
def test_a_state_is_had_again_from_the_log_or_from_any_snapshot(cut: int) -> None:
    engine = engine_of()
    first = played(engine, STORY[:cut])
    middle = json.loads(json.dumps(engine.dump()))
    rest = played(engine, STORY[cut:])
    expected = engine.dump()
    whole = engine_of()
    whole.replay(first + rest)
    assert whole.dump() == expected
    restored = engine_of()
    restored.restore(middle)
    restored.replay(rest)
    assert restored.dump() == expected


def test_a_call_whose_decision_was_lost_counts_as_run() -> None:
    engine = engine_of()
    engine.replay([prompt("Go."), before("remove", "a"), before("write", "b")])
    assert engine.runs["plain"].state.calls == 2 and engine.runs["plain"].nudges == {}


def test_the_engine_and_the_fold_of_the_scan_agree_on_the_catalogue() -> None:
    """The same events through both: what would fire, and the states, are the same for eligible tasks."""
    chosen = [m for m in missteps() if m.scoped]
    rules = [{"policy": p.id, "misstep": m.id, "module": type(m).__module__} for m in chosen for p in m.policies]
    task = (
        "The sqlite database app.db is corrupted: recover its rows. Then start a web server on port 8080 that must be "
        "running and reachable at http://localhost:8080 when you are done."
    )
    commands = [
        "ls",
        "sqlite3 app.db .dump > out.sql",
        "cp -r . ../kept",
        "python3 -m http.server 8080 &",
        "curl localhost:8080",
    ]
    engine = engine_of(*rules, mode="observe")
    fold = Fold(chosen)
    index = 0

    def push(event: Any) -> None:
        nonlocal index
        fold.push(event)
        index += 1

    engine.fold(prompt(task))
    push(Prompt(0, 1, task))
    fired: list[tuple[str, int]] = []
    for number, command in enumerate(commands):
        call = Call(str(number), "Bash", "shell", {"command": command}, command=command)
        fired += [(r["policy"], index) for r in engine.decide(before(command, str(number))).rows if r["fires"]]
        push(Before(index, 1, call))
        engine.fold(after(command, str(number), exit=0))
        push(After(index, 1, call, Result("", 0, False)))
    for _ in range(2):
        fired += [(r["policy"], index) for r in engine.decide(stop()).rows if r["fires"]]
        push(Stop(index, 1, "Done."))
    found = fold.finish()
    assert sorted(fired, key=lambda f: f[1]) == [(f.policy, f.at) for f in found.firings] and fired
    for run in fold.runs:
        if run.eligible is not None:
            assert engine.runs[run.misstep.id].state == run.state
