"""What is shared holds no credential, and stays what it was."""

from __future__ import annotations

import json

import tomllib

from misstep.experiment import Attempt
from misstep.experiment.artifact.redaction import attempt_of, text_of, value_of

KEY = "sk-proj-abcdefghijklmnop1234567890"


def test_values_go_by_what_they_are_and_by_their_name() -> None:
    given = {
        "env": {"OPENAI_API_KEY": "plain words", "PATH": "/usr/bin", "GH_TOKEN": "${GH_TOKEN}", "API_KEY": "none", "B_SECRET": "****"},
        "log": ["fine", f"export X={KEY}"],
        "max_tokens": 100,
        "tokens": "many",
    }  # fmt: skip
    found = value_of(given)
    assert found["env"] == {**given["env"], "OPENAI_API_KEY": "[redacted]"}
    assert KEY not in json.dumps(found) and found["log"][0] == "fine"
    assert (found["max_tokens"], found["tokens"]) == (100, "many")


def test_a_design_stays_one() -> None:
    text = f'''# my key is {KEY}
name = "a # b"   # and {KEY}
[agent]
name = "codex"
[agent.env]
OPENAI_API_KEY = "{KEY}"
OTHER_API_KEY = "none"
PASSWORD = "correct horse"
'''
    found = text_of("design.toml", text)
    assert KEY not in found and "correct horse" not in found
    assert tomllib.loads(found) == {
        "name": "a # b",
        "agent": {
            "name": "codex",
            "env": {"OPENAI_API_KEY": "[redacted]", "OTHER_API_KEY": "none", "PASSWORD": "[redacted]"},
        },
    }


def test_what_holds_none_keeps_its_bytes() -> None:
    for name, text in (
        ("a.json", '{ "a":1,\n "b" : ["x"] }\n'),
        ("a.jsonl", '{"a": 1}\n\n{"b":2}\n'),
        ("design.toml", 'name = "x" # y\r\n[agent]\nenv = { OPENAI_API_KEY = "${OPENAI_API_KEY}" }\n'),
        ("notes.txt", "nothing\n"),
        ("broken.json", "{"),
        ("broken.toml", "a = "),
    ):
        assert text_of(name, text) == text


def test_json_lines_stay_lines() -> None:
    text = json.dumps({"a": f"token {KEY}"}) + "\n" + json.dumps({"b": 1}) + "\n"
    found = text_of("x.jsonl", text)
    assert (
        [json.loads(line) for line in found.splitlines()][1] == {"b": 1} and KEY not in found and found.endswith("\n")
    )
    assert KEY not in text_of("x.json", json.dumps({"a": KEY})) and KEY not in text_of("broken.json", "{" + KEY)


def test_an_attempt_keeps_its_numbers() -> None:
    one = Attempt(
        task="t",
        arm="a",
        termination="crash",
        passed=False,
        exception=f"401 for {KEY}",
        cost_usd=0.5,
        extra={"env": {"TOKEN": "abcdef"}},
    )
    found = attempt_of(one)
    assert KEY not in found.exception and found.extra == {"env": {"TOKEN": "[redacted]"}}
    assert (found.task, found.cost_usd, found.passed) == ("t", 0.5, False)
