"""One record of one trajectory."""

from __future__ import annotations

import json

import pytest

from misstep.scan.record import LISTED, SHOWN, cut, ends, fingerprints, record_of
from misstep.trajectory import Call, Outcome, Result, Step, Trajectory


def trajectory(*commands: str, prompt: str = "Do it.", output: str = "ok") -> Trajectory:
    steps = [Step("user", prompt, prompt=True, time=100.0)]
    for n, command in enumerate(commands):
        call = Call(f"c{n}", "Bash", "shell", {"command": command}, command=command)
        steps.append(
            Step("agent", f"step {n}", calls=[call], results={call.id: Result(output, 0, False)}, time=101.0 + n)
        )
    steps.append(Step("agent", "Done.", time=500.0))
    return Trajectory("t1", "made", "codex", steps)


@pytest.fixture
def missteps(making):
    return making.CATALOGUE


def test_counts_and_places(missteps):
    record = record_of(trajectory("ls", "echo BAD", "echo MAYBE", "echo PRE"), missteps)
    assert record["missteps"] == {"bad-word": [2, 1, 1], "preview-word": [3, 1, 0]}
    bad, pre = record["occurrences"]
    assert (bad["misstep"], bad["step"], bad["call"]) == ("bad-word", 2, 0)
    assert (pre["misstep"], pre["step"]) == ("preview-word", 4)
    assert bad["command"] == "echo BAD" and "echo BAD" in bad["why"]
    assert record["firings"] == [
        {"policy": "bad-word", "misstep": "bad-word", "action": "deny", "step": 2, "call": 0, "event": bad["event"]}
    ]
    assert (record["steps"], record["calls"], record["length"]) == (5, 4, 6)
    assert (record["started"], record["ended"]) == (100.0, 500.0)
    assert json.loads(json.dumps(record)) == record


def test_the_surroundings_are_those_of_the_occurrence(missteps):
    commands = ["ls"] * 10 + ["echo BAD"] + ["ls"] * 10
    record = record_of(trajectory(*commands), missteps)
    assert list(record["context"]) == [str(n) for n in range(8, 14)]
    view = record["context"]["11"]
    assert view["calls"][0]["text"] == "echo BAD" and view["calls"][0]["output"] == "ok"
    assert view["calls"][0]["exit_code"] == 0 and view["who"] == "agent"


def test_no_occurrence_no_surroundings(missteps):
    assert record_of(trajectory("ls", "pwd"), missteps)["context"] == {}


def test_a_session_that_does_nothing_else_stays_small(missteps):
    record = record_of(trajectory(*["echo BAD " + "x" * 5000] * 500, output="y" * 100_000), missteps)
    assert record["missteps"]["bad-word"] == [0, 500, 0]
    assert len(record["occurrences"]) == LISTED
    assert len(record["context"]) < SHOWN * 6
    assert len(json.dumps(record)) < 120_000


def test_only_tasks_in_scope_count_for_a_scoped_misstep(missteps):
    out = record_of(trajectory("echo BAD"), missteps)
    assert "scoped-word" not in out["missteps"] and out["scope"] == {}
    within = record_of(trajectory("echo BAD", prompt="This is in scope."), missteps)
    assert within["missteps"]["scoped-word"] == [0, 1, 0] and within["scope"] == {"scoped-word": None}


def test_a_detector_that_fails_costs_its_own_verdicts_only(missteps):
    record = record_of(trajectory("ls", "echo BOOM PRE"), missteps)
    assert record["errors"] == {"bad-word": "RuntimeError: a fault of the detector"}
    assert "bad-word" not in record["missteps"]
    assert record["missteps"]["preview-word"] == [1, 1, 0]
    with pytest.raises(RuntimeError):
        record_of(trajectory("echo BOOM"), missteps, strict=True)


def test_texts_are_redacted_everywhere(missteps):
    secret = "ghp_" + "a1B2c3D4e5" * 4
    made = trajectory(f"echo BAD {secret}", prompt=f"my key is {secret}", output=f"token {secret}")
    made.outcome = Outcome(exception=f"failed with {secret}")
    assert secret not in json.dumps(record_of(made, missteps))


def test_lone_surrogates_and_control_characters_survive(missteps):
    from misstep.scan.encode import encode

    record = record_of(trajectory("echo BAD \ud800 \x1b[31m \x00", output="\udcff"), missteps)
    assert json.loads(encode(record)) == record


def test_step_hashes():
    one, two = trajectory("ls", "pwd"), trajectory("ls", "pwd")
    assert fingerprints(one) == fingerprints(two)
    assert len(fingerprints(one)) == 12 * len(one.steps)
    two.steps[2].calls[0].command = "pwd -P"
    assert fingerprints(one)[:24] == fingerprints(two)[:24] and fingerprints(one) != fingerprints(two)
    for made in (one, two):
        made.steps[2].id = "0f8fad5b-d9cb-469f-a165-70867728950e"
    assert fingerprints(one) == fingerprints(two), "an id that is unique in the world decides"
    one.steps[2].copied = True
    assert len(fingerprints(one)) == len(fingerprints(two)) - 12


def test_attempts_at_one_task_are_not_copies_of_each_other():
    one, two = trajectory("ls"), trajectory("ls")
    one.outcome, two.outcome = Outcome(task="t", attempt="1"), Outcome(task="t", attempt="2")
    assert not set(_split(fingerprints(one))) & set(_split(fingerprints(two)))


def _split(ids: str) -> list[str]:
    return [ids[i : i + 12] for i in range(0, len(ids), 12)]


def test_an_output_is_cut_between_lines():
    text = "\n".join(f"line {n} of the output" for n in range(200))
    shown = ends(text, 300).split("\n")
    assert shown[0] == "line 0 of the output" and shown[-1] == "line 199 of the output"
    assert all(line in text.split("\n") or line.startswith("… ") for line in shown) and len("\n".join(shown)) < 340
    assert ends("x" * 1000, 300) == "x" * 100 + "\n… 700 characters …\n" + "x" * 200
    assert ends("short\n", 300) == "short"


def test_cut():
    assert cut("  short  ", 10) == "short"
    assert cut("abcdefghij" * 9, 20) == "abcdefghijabcdefghi…"
