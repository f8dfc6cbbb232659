"""The sums, by hand-counted records."""

from __future__ import annotations

from typing import Any

import pytest

from misstep.scan.summary import Summary, summarise

KNOWN = {
    "m": {"name": "does m", "status": "stable", "scoped": False, "policies": {}},
    "s": {"name": "does s", "status": "stable", "scoped": True, "policies": {}},
}


def record(
    n: int, *, m: list[int] | None = None, s: list[int] | None = None, task: str = "", passed: Any = None, **more
):
    counts = {name: c for name, c in (("m", m), ("s", s)) if c is not None}
    found = [
        {"misstep": name, "step": 1, "call": 0, "event": 1, "why": "because", "command": "x", "also": []}
        for name, (_, wrong, _) in counts.items()
        for _ in range(wrong)
    ]
    made = {
        "kind": "trajectory",
        "path": f"/s/{n}",
        "n": 0,
        "id": f"id-{n}",
        "ref": f"id-{n}",
        "agent": "codex",
        "model": "m",
        "parent": "",
        "started": 100.0 + n,
        "ended": 200.0 + n,
        "length": 10,
        "steps": 10,
        "calls": 5,
        "outcome": None,
        "missteps": counts,
        "scope": {"s": True} if s is not None else {},
        "occurrences": found,
        "firings": [],
        "skipped": {},
        "errors": {},
    }
    if task:
        made["outcome"] = {
            "passed": passed,
            "reward": None,
            "task": task,
            "attempt": str(n),
            "fault": None,
            "exception": "",
        }
    return {**made, **more}


def test_shares():
    made = [record(0, m=[3, 2, 1]), record(1, m=[5, 0, 0]), record(2, m=[0, 1, 4]), record(3)]
    summary = summarise(made, KNOWN)
    shown = summary.to_json()
    m = shown["missteps"][0]
    assert (m["sessions"], m["of_sessions"], m["share"]) == (2, 4, 0.5)
    assert (m["occurrences"], m["right"], m["unknown"]) == (3, 8, 5)
    assert m["per_opportunity"] == round(3 / 11, 6) and m["per_step"] == round(3 / 40, 6)
    assert summary.affected == 2 and (summary.steps, summary.calls) == (40, 20)
    assert m["examples"][0]["session"] == "id-0" and m["examples"][0]["command"] == "x"
    assert (summary.first, summary.last) == (100.0, 203.0)


def test_a_scoped_misstep_is_a_share_of_the_sessions_in_scope():
    summary = summarise([record(0, s=[0, 1, 0]), record(1, s=[1, 0, 0]), record(2), record(3)], KNOWN)
    s = next(x for x in summary.to_json()["missteps"] if x["id"] == "s")
    assert (s["sessions"], s["of_sessions"], s["share"], s["right_behaviour_shown"]) == (1, 2, 0.5, 2)


def test_what_says_nothing_about_the_agent_is_not_its_misstep():
    fault = {
        "passed": None,
        "reward": None,
        "task": "t",
        "attempt": "1",
        "fault": "infrastructure",
        "exception": "Timeout",
    }
    made = [
        record(0, m=[0, 1, 0]),
        record(1, m=[0, 9, 0], outcome=fault),
        record(2, m=[0, 9, 0], outcome={**fault, "fault": "never-ran"}),
        record(3, m=[0, 9, 0], copy_of=["/s/0", 0]),
        record(4, steps=0),
    ]
    summary = summarise(made, KNOWN)
    assert summary.sessions == 1 and summary.tallies["m"].occurrences == 1
    left = summary.to_json()["not_counted"]
    assert left["faults"] == {"infrastructure": 1, "never-ran": 1}
    assert (left["copies"], left["without_steps"]) == (1, 1)


def test_what_was_skipped_is_counted_with_its_reason():
    made = [
        record(0, skipped={"not JSON": 2}),
        record(1, skipped={"not JSON": 1}, errors={"m": "TypeError: x"}),
        {"kind": "skipped", "path": "/a", "reason": "empty", "partial": False},
        {"kind": "skipped", "path": "/b", "reason": "the reader failed", "partial": True},
    ]
    left = summarise(made, KNOWN).to_json()["not_counted"]
    assert left["records"] == {"not JSON": 3} and left["unread"] == {"empty": 1}
    assert left["partly_read"] == {"the reader failed": 1} and left["detector_errors"] == {"m": 1}


def test_policies():
    firing = {"policy": "p", "misstep": "m", "action": "deny", "step": 1, "call": 0, "event": 1}
    summary = summarise([record(0, firings=[firing, firing]), record(1, firings=[firing])], KNOWN)
    assert summary.policies == {"p": {"misstep": "m", "action": "deny", "times": 3, "sessions": 2}}


def outcome(made: list[dict[str, Any]]) -> dict[str, Any]:
    summary = summarise(made, KNOWN)
    return summary.outcome(summary.tallies["m"])


WITH, WITHOUT = [0, 1, 0], [1, 0, 0]


def test_the_difference_is_over_tasks():
    made, n = [], 0
    for task in "abcdef":  # each: fails with the misstep, passes without it
        made += [record(n, m=WITH, task=task, passed=False), record(n + 1, m=WITHOUT, task=task, passed=True)]
        n += 2
    found = outcome(made)
    assert found["available"] and found["tasks"] == 6 and found["difference"] == -1.0
    assert (found["low"], found["high"]) == (-1.0, -1.0)
    assert found["p"] == 2 * 0.5**6
    assert found["with"] == [0, 6] and found["without"] == [6, 6]


def test_attempts_of_one_task_are_not_independent():
    few = [record(n, m=WITH, task="a", passed=False) for n in range(50)]
    few += [record(50 + n, m=WITHOUT, task="a", passed=True) for n in range(50)]
    found = outcome(few)
    assert found["tasks"] == 1 and found["difference"] == -1.0


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ([record(0, m=WITH)], "no outcomes recorded"),
        ([record(0, m=WITHOUT, task="a", passed=True)], "no attempt with it has an outcome"),
        (
            [record(0, m=WITH, task="a", passed=True), record(1, m=WITHOUT, task="b", passed=True)],
            "no task was attempted both",
        ),
        ([record(0, m=WITH, task="a", passed=None)], "no judged attempts"),
    ],
)
def test_too_little_is_not_available(made: list[dict[str, Any]], reason: str):
    found = outcome(made)
    assert not found["available"] and reason in found["reason"] and "difference" not in found


def test_an_attempt_that_cannot_tell_is_on_neither_side():
    made = [record(0, m=WITH, task="a", passed=False), record(1, m=[0, 0, 1], task="a", passed=True)]
    assert outcome(made)["without"] == [0, 0]


def test_a_weak_agents_failures_are_not_the_missteps_doing():
    """Two agents: the weak one always errs and always fails, the strong one never does either. No agent has both kinds."""
    made = []
    for n, task in enumerate("abcdef"):
        made.append(record(2 * n, m=WITH, task=task, passed=False, agent="weak"))
        made.append(record(2 * n + 1, m=WITHOUT, task=task, passed=True, agent="strong"))
    assert not outcome(made)["available"]


def test_several_agents_are_compared_within_themselves():
    made, n = [], 0
    for task in "abcd":
        for agent in ("one", "two"):
            made.append(record(n, m=WITH, task=task, passed=agent == "one", agent=agent))
            made.append(record(n + 1, m=WITHOUT, task=task, passed=True, agent=agent))
            n += 2
    found = outcome(made)
    assert found["tasks"] == 4 and found["difference"] == -0.5 and found["agents"] == 2


def test_order():
    summary = Summary({name: {**KNOWN["m"], "name": name} for name in ("a", "b", "c")})
    for n in range(3):
        made = record(n)
        made["missteps"] = {"b": [0, 1, 0], **({"c": [0, 2, 0]} if n else {})}
        summary.add(made)
    assert [t.id for t in summary.sorted()] == ["b", "c", "a"]
