"""Files of results: they grow, are gone on with, and end the same whatever happened on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misstep.profile.labels import Labels, StepLabel, header, load
from misstep.profile.lines import Lines, LinesError

HEAD = {"schema": "s", "version": 1, "models": {"localizer": "openai:m"}}


def opened(path: Path, head: dict = HEAD) -> Lines:
    return Lines(path, head, key=lambda one: one["n"], final=lambda one: not one.get("again"))


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "x" / "a.jsonl"
    with opened(path) as one:
        one.add({"n": 2, "text": "zwei \ud800"})
    with opened(path) as one:
        assert 2 in one
        assert 1 not in one
        one.add({"n": 1})
        one.finish()
        one.add({"n": 0})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        HEAD, {"n": 1}, {"n": 2, "text": "zwei \ud800"}, {"n": 0},
    ]  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_half_written_line_is_dropped_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with opened(path) as one:
        one.add({"n": 1})
    whole = path.read_text()
    for cut in range(len(whole.splitlines()[0]) + 2, len(whole)):
        path.write_text(whole[:cut])
        with opened(path) as one:
            assert one.notes == [f"{path}: the last line was half written, and is dropped"]
            assert 1 not in one
            one.add({"n": 1})
        assert path.read_text() == whole


def test_what_does_not_stand_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with opened(path) as one:
        one.add({"n": 1, "again": True})
        one.add({"n": 2})
    with opened(path) as one:
        assert 1 not in one
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"schema":"s","version":2,"models":{"localizer":"openai:m"}}\n', "was made with version 2, not 1"),
        ('{"schema":"s","version":1,"models":{"localizer":"openai:n"}}\n', 'was made with models {"localizer":"openai:n"}, not'),
        ('{"schema":"s","version":1,"models":{"localizer":"openai:m"},"x":1}\n', "was made with x 1, not null"),
        ("nothing\n", "a.jsonl:1: a line is a JSON object"),
        ('{"n":1}\n', "a.jsonl:1: the first line is a header"),
        ('{"schema":"s","version":1,"models":{"localizer":"openai:m"}}\n[]\n', "a.jsonl:2: a line is a JSON object"),
    ],
)  # fmt: skip
def test_another_file(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(LinesError) as caught:
        opened(tmp_path / "a.jsonl")
    assert problem in str(caught.value)
    assert (tmp_path / "a.jsonl").read_text() == text


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    with opened(tmp_path / "a.jsonl"), pytest.raises(LinesError, match="another process writes it"):
        opened(tmp_path / "a.jsonl")
    opened(tmp_path / "a.jsonl").close()


def label(step: int, **more: object) -> StepLabel:
    return StepLabel("t", "p", 0, "task", step, 0, **more)  # type: ignore[arg-type]


def test_labels_are_kept_whole(tmp_path: Path) -> None:
    made = [
        label(
            1, verdict="bad", reason="r", confidence=2 / 3, votes=("bad", None, "bad"), catalogue={"a": True, "b": None}
        ),
        label(2, failure="invalid: no JSON", votes=(None,), corrected={"command": "ls"}),
        label(3, failure="budget: used up"),
    ]
    head = header([], {"localizer": "openai:m"}, votes=3)
    with Labels(tmp_path, head) as kept:
        for one in reversed(made):
            kept.add(one)
        assert kept.all() == made
        kept.finish()
    found, labels = load(tmp_path)
    assert labels == made
    assert found == head
    assert [one.failure_kind for one in labels] == ["", "invalid", "budget"]
    assert labels[0].missteps == ("a",)
    with Labels(tmp_path, head) as kept:  # what had no money is judged again, what had no valid answer is not
        assert [one.key in kept for one in made] == [True, True, False]


def test_fields_that_a_later_version_adds_are_left_out() -> None:
    assert StepLabel.from_plain({**label(1).plain(), "new": 1}) == label(1)


def test_a_file_that_holds_no_labels(tmp_path: Path) -> None:
    (tmp_path / "profile.jsonl").write_text('{"schema":"misstep.profile","version":1}\n{"path":"p"}\n')
    with pytest.raises(LinesError, match=r"profile\.jsonl:2: no judged step"):
        load(tmp_path)
    (tmp_path / "profile.jsonl").write_text('{"schema":"other","version":1}\n')
    with pytest.raises(
        LinesError, match=r"profile\.jsonl:1: schema misstep\.profile of version 1 was expected, not 'other'"
    ):
        load(tmp_path)
