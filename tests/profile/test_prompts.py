"""Prompts: versioned files; values are put in as they are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from misstep.models import Message
from misstep.profile.prompts import FOLDER, PromptError, load


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "p.md").write_text(text)
    return tmp_path


def test_a_prompt_has_a_version_a_hash_and_messages(tmp_path: Path) -> None:
    text = 'version: 3\n# system\nJudge.\n\n## not a section\n# user\n{a} and {b}: {"json": {}}\n'
    one = load("p", written(tmp_path, text))
    assert one.identity == {"name": "p", "version": 3, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    assert one.render(a="{b}", b=2) == [
        Message("system", "Judge.\n\n## not a section"),
        Message("user", '{b} and 2: {"json": {}}'),
    ]


@pytest.mark.parametrize(
    ("values", "problem"),
    [({"a": 1}, "no value for {b}"), ({"a": 1, "b": 2, "c": 3}, "no place for {c}"), ({}, "no value for {a}")],
)
def test_values_that_do_not_fit(tmp_path: Path, values: dict[str, int], problem: str) -> None:
    one = load("p", written(tmp_path, "version: 1\n# user\n{a}{b}\n"))
    with pytest.raises(PromptError, match=re.escape(problem)):
        one.render(**values)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# user\nx", "the first line is `version: N`"),
        ("version: 0\n# user\nx", "the first line is `version: N`"),
        ("version: 1\nx\n# user\nx", "after the version come sections"),
        ("version: 1\n", "after the version come sections"),
        ("version: 1\n# system\n\n# user\nx", "a section is empty"),
    ],
)
def test_files_that_are_no_prompt(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(PromptError, match=problem):
        load("p", written(tmp_path, text))


def test_no_such_prompt(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"none\.md: No such file"):
        load("none", tmp_path)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_those_that_are_shipped(path: Path) -> None:
    one = load(path.stem)
    assert one.sections[-1][0] == "user"
    assert one.places
    assert "reference answer" not in path.read_text().lower()
