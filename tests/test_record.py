"""`record` behaves like `dataclass` where it is used."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import ClassVar

import pytest

from misstep._record import field, record


def both(make):
    """The same class made by the two decorators."""
    return make(record, field), make(dataclasses.dataclass, dataclasses.field)


def plain(decorate, field):
    @decorate
    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)

    return Point


def slotted(decorate, field):
    @decorate(slots=True)
    class Base:
        index: int

    @decorate(slots=True)
    class Child(Base):
        text: str
        seen: dict[str, int] = field(default_factory=dict)

        @property
        def upper(self) -> str:
            return self.text.upper()

    return Child


@pytest.mark.parametrize("make", [plain, slotted])
def test_same_repr_equality_and_defaults(make):
    ours, real = both(make)
    for arguments in [(1, "a"), (3, "b", {"k": 1})] if make is slotted else [(1,), (1, 5), (1, 2, ["t"])]:
        mine, theirs = ours(*arguments), real(*arguments)
        assert repr(mine).split("(", 1)[1] == repr(theirs).split("(", 1)[1]
        assert mine == ours(*arguments)
        assert mine != theirs
    assert ours.__match_args__ == real.__match_args__
    with pytest.raises(TypeError):
        ours()
    with pytest.raises(TypeError):
        hash(ours(1, "a"))


def test_factories_are_not_shared():
    ours, _ = both(plain)
    first, second = ours(1), ours(1)
    first.tags.append("x")
    assert second.tags == []
    assert ours.kind == "point"
    assert vars(ours(1)) == {"x": 1, "y": 2, "tags": []}


def test_slots_hold():
    ours, _ = both(slotted)
    made = ours(0, "a")
    assert made.upper == "A"
    assert not hasattr(made, "__dict__")
    with pytest.raises(AttributeError):
        made.other = 1


def test_post_init_and_keywords():
    @record
    class Made:
        name: str
        size: int = 0

        def __post_init__(self) -> None:
            self.size = len(self.name)

    assert Made(name="four").size == 4


def test_a_default_may_not_come_first():
    with pytest.raises(TypeError, match="without a default"):

        @record
        class Wrong:
            a: int = 1
            b: int


def test_it_does_not_load_dataclasses():
    code = "import sys; import misstep._record; sys.exit('dataclasses' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
