"""A result file that was changed is told by its line; it never breaks what is made of it."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from misstep.report.page import write
from misstep.scan.result import BadInput, merge
from misstep.scan.run import Options, scan
from misstep.scan.shape import COUNT, TEXT, TRAJECTORY, problem
from misstep.scan.summary import summarise

WRONG: list[Any] = [None, True, "x", -1, 1.5, 10**400, float("nan"), [], {}, [[]], {"x": "y"}, ["x"]]


def test_shapes():
    assert problem({"a": 1, "more": []}, {"a": COUNT, "b?": TEXT}) == ""
    assert problem({"a": True}, {"a": COUNT}) == "a is not a count"
    assert problem({}, {"a": COUNT}) == "a is missing"
    assert problem({"a": [1, "x"]}, {"a": [COUNT]}) == "a[1] is not a count"
    assert problem({"a": [1]}, {"a": (COUNT, COUNT)}) == "a is not a list of 2"
    assert problem({"x": {"y": 1}}, {TEXT: {TEXT: TEXT}}) == "x.y is not a text"
    assert problem([], TRAJECTORY) == "it is not an object"


def _places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _places(one, (*path, key))


def _with(line: dict, path: tuple, value: Any) -> dict:
    changed = copy.deepcopy(line)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


@pytest.fixture
def shard(tmp_path: Path, making, catalogue) -> list[dict]:
    trial = making.trial(tmp_path / "s/t", ["echo BAD", "echo BOOM"], 1.0, task="demo")
    making.trial(tmp_path / "s/u", ["ls", "echo BAD", "echo MAYBE"], 0.0, task="demo, in scope")
    (trial / "notes.txt").write_text("none")
    (tmp_path / "s/notes.txt").write_text("none")
    out = io.BytesIO()
    scan(Options([str(tmp_path / "s")], workers=1, shard=(1, 1), agents=["codex"], preview=True)).write(out, None)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["kind"] for line in lines] == ["header", "skipped", "trajectory", "trajectory", "end"]
    return lines


@pytest.mark.parametrize("number", range(5))
def test_any_changed_value_is_one_line_or_does_no_harm(tmp_path: Path, shard: list[dict], number: int):
    path, refused = tmp_path / "shard.jsonl", 0
    for place in _places(shard[number]):
        for value in WRONG:
            lines = [*shard[:number], _with(shard[number], place, value), *shard[number + 1 :]]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            try:
                result = merge([path])
            except BadInput as error:
                refused += 1
                assert f"{path}: " in str(error) and "\n" not in str(error)
                continue
            summary = summarise(result, result.header["missteps"])
            result.write(io.BytesIO(), summary.to_json())
            if value not in ("x", True):  # (the rest is slow, and these go through as they are)
                write(io.BytesIO(), result, summary)
    assert refused > 10


def test_the_line_and_the_value_are_named(tmp_path: Path, shard: list[dict]):
    path = tmp_path / "shard.jsonl"
    shard[2]["missteps"]["bad-word"] = ["1", 2, 3]
    path.write_text("".join(json.dumps(line) + "\n" for line in shard))
    with pytest.raises(BadInput, match=r"shard.jsonl: line 3: .*missteps.bad-word\[0\] is not a count"):
        merge([path])
