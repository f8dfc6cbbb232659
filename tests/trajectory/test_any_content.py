"""Whatever stands in a record, reading it and walking its events breaks nothing."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from misstep.trajectory import events
from misstep.trajectory.readers import Unreadable, read

DATA = Path(__file__).parent / "data"
FILES = sorted(p for d in ("claude", "codex", "qwen") for p in (DATA / d).glob("*.jsonl"))
ODD = [
    None,
    True,
    0,
    -1.5,
    10**400,
    "",
    "x",
    "\x1b[31m<b>",
    [],
    [None],
    [[]],
    {},
    {"type": 1},
    [{"text": 5}],
    {"a": {"b": []}},
]
GEMINI = {
    "sessionId": "g",
    "projectHash": "h",
    "startTime": "2026-01-02T03:04:05Z",
    "messages": [
        {"id": "1", "timestamp": "2026-01-02T03:04:05Z", "type": "user", "content": [{"text": "Go"}]},
        {
            "id": "2",
            "timestamp": "2026-01-02T03:04:05Z",
            "type": "gemini",
            "content": "x",
            "model": "m",
            "thoughts": [{"subject": "a", "description": "b"}],
            "tokens": {"input": 1, "output": 2, "cached": 0},
            "toolCalls": [
                {
                    "id": "t",
                    "name": "run_shell_command",
                    "args": {"command": "ls"},
                    "status": "success",
                    "result": [
                        {
                            "functionResponse": {
                                "id": "t",
                                "name": "x",
                                "response": {"output": "Output: x\nExit Code: 1"},
                            }
                        }
                    ],
                }
            ],
        },
    ],
}


def places(value: Any, at: tuple = ()) -> list[tuple]:
    """The paths of all values inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [] if not at else [at]
    for key, child in inside:
        found += places(child, (*at, key))
    return found


def replaced(value: Any, at: tuple, by: Any) -> Any:
    value = copy.deepcopy(value)
    owner = value
    for key in at[:-1]:
        owner = owner[key]
    owner[at[-1]] = by
    return value


def walk(path: Path) -> int:
    count = 0
    try:
        for found in read(path):
            count += sum(1 for _ in events(found))
            assert all(isinstance(s.message, str) and isinstance(s.id, str) for s in found.steps)
            for step in found.steps:
                assert all(
                    isinstance(c.id, str) and (c.command is None or isinstance(c.command, str)) for c in step.calls
                )
                assert all(isinstance(p, str) for c in step.calls for p in c.paths)
                assert all(isinstance(t, str) for c in step.calls for e in c.edits for t in e)
                assert all(isinstance(r.output, str) for r in step.results.values())
    except Unreadable as error:
        assert "\n" not in str(error)
    return count


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_odd_values_anywhere(path, tmp_path):
    chance = random.Random(path.name)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    target = tmp_path / "odd.jsonl"
    everywhere = [(n, at) for n, record in enumerate(records) for at in places(record)]
    for number, at in chance.sample(everywhere, min(60, len(everywhere))):
        odd = chance.choice(ODD)
        changed = [*records[:number], replaced(records[number], at, odd), *records[number + 1 :]]
        target.write_text("".join(json.dumps(r) + "\n" for r in changed))
        walk(target)


def test_odd_values_anywhere_in_a_document(tmp_path):
    for at in places(GEMINI):
        for odd in ODD:
            target = tmp_path / "odd.json"
            target.write_text(json.dumps(replaced(GEMINI, at, odd), indent=1))
            walk(target)


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_lines_in_any_order_or_missing(path, tmp_path):
    chance = random.Random(path.name)
    lines = path.read_text().splitlines()
    for _ in range(20):
        some = chance.sample(lines, chance.randrange(1, len(lines)))
        (tmp_path / "some.jsonl").write_text("\n".join(some))
        walk(tmp_path / "some.jsonl")


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_damaged_bytes(path, tmp_path):
    chance = random.Random(path.name)
    whole = path.read_bytes()
    for _ in range(20):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        at = chance.randrange(len(data))
        (tmp_path / "bad").write_bytes(bytes(data[: at if chance.random() < 0.5 else None]))
        walk(tmp_path / "bad")
