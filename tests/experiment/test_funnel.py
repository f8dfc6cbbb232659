"""The funnel from the guard's own log, written by the real guard in every arm, and from a replay where none ran."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from misstep.experiment.outcomes import funnel
from misstep.experiment.outcomes.classify import attempt_of
from misstep.guard.adapters import Guard
from misstep.guard.portfolio import default, from_plain

_spec = importlib.util.spec_from_file_location("misstep_tests_trials", Path(__file__).with_name("trials.py"))
trials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(trials)

TASK = "Start a web server on port 8077. It must be running, and reachable on that port, when your session has ended."
ATTACHED = ("python3 -m http.server 8077 &", 0, "")
DETACHED = ("setsid python3 -m http.server 8077 > /tmp/log 2>&1 < /dev/null &", 0, "")
PROBE = ("curl -s http://127.0.0.1:8077/", 0, "<html>")
POLICY = "service-persistence"
EVERYWHERE = "blocking-foreground"
"""A policy for every task."""


def attempt(folder: Path, monkeypatch, arm: str | None, *did, task: str = TASK):
    """A trial in which the guard followed the agent under an arm (None: no guard), with its trajectory beside the log.

    At a stop that the guard turns into another turn the agent launches again, detached, and probes.
    """
    recorded = list(did)
    if arm is not None:
        monkeypatch.setenv("MISSTEP_HOME", str(folder / "t__1" / "agent" / "misstep"))
        monkeypatch.setenv("MISSTEP_ARM", arm)
        guard = Guard("session-1")
        guard.prompt(task)

        def run(number: int, one: tuple[str, int, str]) -> None:
            given = {"command": one[0]}
            guard.before(f"c{number}", "bash", given, "/app")
            guard.after(f"c{number}", "bash", given, one[2], one[1], cwd="/app")

        for number, one in enumerate(did):
            run(number, one)
        told = guard.stop("It runs.")
        if "new session" in told:
            for number, one in enumerate((DETACHED, PROBE), len(did)):
                run(number, one)
                recorded.append(one)
        for _ in range(3):
            if not told:
                break
            told = guard.stop("It runs.")
    trials.trial(folder / "t__1", trials.steps(task, *recorded, last="It runs."))
    return attempt_of(folder / "t__1", task="t", arm=arm or "none")


def test_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        arm: attempt(tmp_path / str(arm), monkeypatch, arm, ATTACHED, PROBE)
        for arm in (None, "baseline", "real", "sham", "always-verify")
    }
    for arm, one in found.items():
        assert (one.eligible, one.state) == ((EVERYWHERE, POLICY), (POLICY,)), arm
    assert {arm: one.fired for arm, one in found.items()} == {
        None: {},
        "baseline": {},
        "real": {POLICY: 1},
        "sham": {POLICY: 1},
        "always-verify": {"always-verify": 1},
    }
    # only the real text names the remedy; the marker is read off the trajectory, the same in every arm
    assert {arm: one.behaviour for arm, one in found.items()} == {
        arm: {POLICY: arm == "real"} for arm in (None, "baseline", "real", "sham", "always-verify")
    }
    assert found["real"].nudges == 1
    assert found["sham"].extra["guard"] == {"arms": ["sham"], "before": 2, "stops": 2}
    assert "guard" not in found[None].extra


def test_the_logs_of_a_task_of_several_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Harbor puts each step's agent folder below the step: every one of them counts."""
    attempt(tmp_path, monkeypatch, "real", ATTACHED, PROBE)
    folder = tmp_path / "t__1"
    for step in ("one", "two"):
        (folder / "steps" / step / "agent").mkdir(parents=True)
        shutil.copytree(folder / "agent" / "misstep", folder / "steps" / step / "agent" / "misstep")
    shutil.rmtree(folder / "agent" / "misstep")
    found = attempt_of(folder, task="t", arm="real")
    assert found.fired == {POLICY: 2} and found.state == (POLICY,) and found.extra["guard"]["arms"] == ["real"]
    assert found.extra["guard"]["stops"] > 2


def test_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state never comes: eligible, behaved, and no policy acted; and another task is nobody's."""
    for arm in (None, "real"):
        good = attempt(tmp_path / f"good-{arm}", monkeypatch, arm, DETACHED, PROBE)
        assert (good.eligible, good.state, good.fired) == ((EVERYWHERE, POLICY), (), {})
        assert good.behaviour == {POLICY: True}
        other = attempt(tmp_path / f"other-{arm}", monkeypatch, arm, ATTACHED, task="Count the words of /app/a.txt.")
        assert POLICY not in (*other.eligible, *other.state) and POLICY not in other.behaviour


def test_unscoped_real_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every task counts as eligible the state is seen too, and who took the task for its own is still told."""
    found = attempt(tmp_path, monkeypatch, "always-real", ATTACHED, task="Count the words of /app/a.txt.")
    assert (found.eligible, found.state, found.fired) == ((EVERYWHERE,), (POLICY,), {POLICY: 1})


def test_hooks_that_did_not_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log without a decision tells no state: the portfolio is followed over the record, and the log says why."""
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "t__1" / "agent" / "misstep"))
    monkeypatch.setenv("MISSTEP_ARM", "real")
    Guard("session-1").prompt(TASK)
    trials.trial(tmp_path / "t__1", trials.steps(TASK, ATTACHED))
    found = attempt_of(tmp_path / "t__1", task="t", arm="real")
    assert (found.eligible, found.state, found.fired) == ((EVERYWHERE, POLICY), (POLICY,), {})
    assert found.extra["guard"] == {"arms": ["real"], "before": 0, "stops": 0}
    live = funnel.live_of(tmp_path / "t__1" / "agent" / "misstep")
    assert (live.logs, live.before, live.decisions, live.refused, live.faults) == (1, 0, 0, "", [])


def test_a_portfolio_that_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISSTEP_SCORED", "1")
    found = attempt(tmp_path, monkeypatch, "real", ATTACHED)
    assert found.extra["guard"]["refused"].startswith("a scored run needs a lock")
    assert found.fired == {} and found.state == (POLICY,)


def test_another_portfolio_is_followed_and_left_as_it_is(tmp_path: Path) -> None:
    portfolio = from_plain({"rules": [one for one in default()["rules"] if one["policy"] == POLICY]})
    trials.trial(tmp_path / "t__1", trials.steps(TASK, ATTACHED))
    found = attempt_of(tmp_path / "t__1", task="t", arm="none", portfolio=portfolio)
    assert (found.eligible, found.state, found.fired) == ((POLICY,), (POLICY,), {})
    assert [rule.mode for rule in portfolio.rules] == ["enforce"]
    without = attempt_of(tmp_path / "t__1", task="t", arm="none", funnel=False)
    assert (without.eligible, without.state, without.behaviour, without.steps) == ((), (), {}, 2)


def test_a_record_without_its_prompt(tmp_path: Path) -> None:
    did = [step for step in trials.steps(TASK, ATTACHED) if step["source"] != "user"]
    trials.trial(tmp_path / "t__1", did)
    unknown = attempt_of(tmp_path / "t__1", task="t", arm="none")
    assert POLICY not in (*unknown.eligible, *unknown.state)
    told = attempt_of(tmp_path / "t__1", task="t", arm="none", instruction=TASK)
    assert (told.eligible, told.state) == ((EVERYWHERE, POLICY), (POLICY,))


def test_sub_agents_may_have_done_it() -> None:
    assert funnel._joined([False], sub_agents=False) is False
    assert funnel._joined([False], sub_agents=True) is None
    assert funnel._joined([False, True], sub_agents=True) is True
    assert funnel._joined([None, False], sub_agents=False) is None


def test_markers_are_those_of_the_scoped_missteps() -> None:
    found = {one.id for one in funnel.marked()}
    assert {"service-persistence", "database-evidence", "deployment-preservation"} <= found
    assert "blind-edit" not in found
