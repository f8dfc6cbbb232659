"""The record of an attempt, and the file of them."""

from pathlib import Path

import pytest

from misstep.experiment import Attempt, AttemptsError, fair, observed, read_attempts, write_attempts


def attempt(**more: object) -> Attempt:
    return Attempt(**{"task": "t", "arm": "real", "termination": "fail", "passed": False, **more})  # type: ignore[arg-type]


def test_round_trip(tmp_path: Path) -> None:
    whole = attempt(
        replicate=2, candidate=3, id="x", agent="codex", model="m", termination="pass", passed=True, reward=1.0,
        seconds=2.5, input_tokens=10, cost_usd=0.5, eligible=("a", "b"), state=("a",), fired={"a": 2},
        behaviour={"m": True, "n": None}, extra={"k": [1]},
    )  # fmt: skip
    write_attempts(tmp_path / "a.jsonl", [whole, attempt()])
    assert read_attempts(tmp_path / "a.jsonl") == [whole, attempt()]
    assert whole.nudges == 2


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    write_attempts(file, [attempt(), attempt(replicate=2)])
    text = file.read_text()
    for cut in range(text.index("\n", text.index("\n") + 1) + 1, len(text)):
        file.write_text(text[:cut])
        assert read_attempts(file) == [attempt()]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"task":"t","arm":"a","termination":"won"}', "2: termination 'won' is none of pass, gave-up"),
        ('{"arm":"a","termination":"fail"}', "2: task is a text"),
        ('{"task":"t","arm":"a","termination":"fail","passed":1}', "2: passed is true or false, not 1"),
        ('{"task":"t","arm":"a","termination":"fail","replicate":0}', "2: replicate is a number from 1, not 0"),
        ('{"task":"t","arm":"a","termination":"fail","cost_usd":"much"}', "2: cost_usd is a number, not 'much'"),
        ('{"task":"t","arm":"a","termination":"fail","luck":1}', "2: unknown field 'luck'"),
        ('{"task":"t","arm":"a","termination":"fail","steps":true}', "2: steps is a number, not True"),
        ('{"task":"t","arm":"a","termination":"fail","seconds":NaN}', "2: seconds is a number, not nan"),
        ('{"task":"t","arm":"a","termination":"fail","cost_usd":1e308}', "2: cost_usd is a number, not 1e"),
        ('{"task":"t","arm":"a","termination":"fail","steps":1' + 400 * "0" + "}", "2: steps is a number, not 1000"),
        ('{"task":"t","arm":"a","termination":"fail","replicate":1' + 400 * "0" + "}", "2: replicate is a number from 1"),
        (100_000 * "[", "2: not JSON: maximum recursion depth exceeded"),
        (
            '{"task":"t","arm":"a","termination":"pass","passed":false}',
            "2: termination 'pass' and passed false contradict each other",
        ),
        ('{"task":"t","arm":"a","termination":"fail","id":7}', "2: id is a text, not 7"),
        ('{"task":"t","arm":"a","termination":"fail","fired":{"p":"x"}}', "2: fired is an object of numbers"),
        ('{"task":"t","arm":"a","termination":"fail","behaviour":{"m":1}}', "2: behaviour is an object of true"),
        ("{", "2: not JSON"),
        ("[]", "2: expected an object"),
    ],
)  # fmt: skip
def test_a_bad_record_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "a.jsonl"
    write_attempts(file, [])
    file.write_text(file.read_text() + text + "\n")
    with pytest.raises(AttemptsError, match=f"a.jsonl:{says}"):
        read_attempts(file)


@pytest.mark.parametrize("text", ["", "x", '{"task":"t"}\n', '{"schema":"misstep.attempts","version":9}\n'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(text)
    with pytest.raises(AttemptsError, match=r"a\.jsonl:1: "):
        read_attempts(file)


def test_the_first_fair_candidate_counts() -> None:
    lost = attempt(termination="invalid", passed=None, fault="the verifier ran out of time")
    second = attempt(candidate=2, termination="timeout")
    third = attempt(candidate=3, termination="pass", passed=True)
    assert not fair(lost)
    assert fair(second)
    assert observed([third, lost, second]) == {("t", "real", 1): second}
    assert observed([lost]) == {("t", "real", 1): None}
