"""The warm image gives what a cold start gives, and is left alone where it does not fit."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from misstep.guard._image import LEARN, Image, _Expressions

from .conftest import Hooks, plain_rules

IMAGE = f"image-{sys.implementation.cache_tag}"


@pytest.fixture
def expressions(tmp_path: Path) -> Any:
    """A stand-in for `re` as a hook has it, with nothing known; the real one stays where it is."""
    made = _Expressions(Image(str(tmp_path / IMAGE)))
    made._whole = re
    return made


TEXT = "one two\nthree  four-five 6 SEVEN\n"
PATTERNS = [(r"\w+", 0), (r"(?P<a>t\w+)\s(?P<b>\w)", re.S), (r"^three", re.M), (r"seven", re.I), (r"(?i)SEVEN|(x)", 0)]


@pytest.mark.parametrize(("pattern", "flags"), PATTERNS)
def test_expressions_are_those_of_re(expressions: Any, pattern: str, flags: int) -> None:
    for twice in range(2):
        ours = expressions.compile(pattern, flags)
        real = re.compile(pattern, flags)
        assert (ours.pattern, ours.flags, ours.groups, ours.groupindex) == (
            real.pattern,
            real.flags,
            real.groups,
            real.groupindex,
        )
        for name in ("search", "match", "fullmatch", "findall", "split"):
            one, other = (
                getattr(expressions, name)(pattern, TEXT, flags=flags),
                getattr(re, name)(pattern, TEXT, flags=flags),
            )
            assert (one if not hasattr(one, "span") else one.regs) == (
                other if not hasattr(other, "span") else other.regs
            )
        assert expressions.sub(pattern, r"<\g<0>>", TEXT, flags=flags) == re.sub(pattern, r"<\g<0>>", TEXT, flags=flags)
        assert expressions.subn(pattern, "", TEXT, 1, flags) == re.subn(pattern, "", TEXT, count=1, flags=flags)
        assert [m.span() for m in expressions.finditer(pattern, TEXT, flags)] == [
            m.span() for m in re.finditer(pattern, TEXT, flags)
        ]
        if not twice:  # and once more from the program as the image keeps it
            image = expressions._image
            assert image.new_patterns
            image._write({}, dict(image.new_patterns), b"")
            kept = Image(image.path)
            assert kept.load()
            expressions = _Expressions(kept)


def test_the_rest_of_re_is_there(expressions: Any) -> None:
    assert expressions.escape("a.b-c d#é") == re.escape("a.b-c d#é")
    assert expressions.escape(b"a.b") == re.escape(b"a.b")
    assert expressions.error is re.error and expressions.Pattern is re.Pattern
    assert (int(re.I), int(re.M | re.S)) == (expressions.I, expressions.M | expressions.S)
    compiled = re.compile("x")
    assert expressions.compile(compiled) is compiled
    with pytest.raises(re.error):
        expressions.compile("(")
    with pytest.raises(TypeError):
        expressions.compile(["x"])


def _run(hooks: Hooks) -> None:
    assert hooks.call("remove")["permissionDecision"] == "deny"


def test_it_is_made_by_hooks_and_settles(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go.")
    for _ in range(4):
        _run(hooks)
    path = hooks.home / "state" / "guard" / IMAGE
    before = path.stat()
    assert before.st_mode & 0o777 == 0o600
    for _ in range(3):
        _run(hooks)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("damage", ["empty", "cut", "bytes", "nothing", "open to others", "link", "folder"])
def test_one_that_does_not_fit_is_left_alone(hooks: Hooks, damage: str) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go.")
    for _ in range(3):
        _run(hooks)
    path = hooks.home / "state" / "guard" / IMAGE
    data = path.read_bytes()
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "bytes":
        path.write_bytes(data[:20] + os.urandom(200) + data[220:])
    elif damage == "nothing":
        path.unlink()
    elif damage == "open to others":
        path.chmod(0o666)
    elif damage == "link":
        path.rename(path.with_name("other"))
        path.symlink_to("other")
    else:
        path.unlink()
        path.mkdir()
    for _ in range(3):
        _run(hooks)
    assert not hooks.faults()


def test_a_changed_source_is_seen(hooks: Hooks, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    text = (Path(__file__).parent / "policies" / "plain.py").read_text()
    source.write_text(text)
    rules = [{**rule, "module": str(source)} for rule in plain_rules("deny-first")]
    hooks.use(rules)
    hooks.prompt("Go.")
    for _ in range(3):
        assert hooks.call("remove")["permissionDecisionReason"] == "First denial."
    source.write_text(text.replace("First denial.", "Other words."))
    assert hooks.call("remove")["permissionDecisionReason"] == "Other words."


def test_learning_ends(tmp_path: Path) -> None:
    image = Image(str(tmp_path / IMAGE))
    image.writes = LEARN
    image.new_patterns[("x", 0)] = b""
    image.learn()
    assert not Path(image.path).exists()
