"""Stand-ins for judges that are models elsewhere: rules over the commands, each stated here. No model has a part in the proof.

They know the four families and nothing else, and they are never wrong about them: what a recipe gets here is the best
judge it could have.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from misstep.train.episode import Attempt
from misstep.train.rewards import Item
from misstep.train.tiny.tasks import FAMILIES

Rule = Callable[[list[str], str, Attempt], bool]


class SameStep:
    """PivotRL's equivalence: the same program with the same operands (options and their order aside); of two last messages, the
    same words."""

    async def equivalent(self, task: str, before: str, reference: str, candidate: str) -> bool | None:
        return _form(reference) == _form(candidate)


def _form(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text.lower().rstrip("."))
    except ValueError:
        return (text,)
    return (words[0], *sorted(word for word in words[1:] if not word.startswith("-"))) if words else ()


def _any(pattern: str) -> Rule:
    return lambda commands, said, attempt: any(re.search(pattern, one) for one in commands)


def _none(pattern: str) -> Rule:
    return lambda commands, said, attempt: not any(re.search(pattern, one) for one in commands)


def _ordered(first: str, second: str) -> Rule:
    """The first kind of command comes before any of the second."""

    def rule(commands: list[str], said: str, attempt: Attempt) -> bool:
        ones = [n for n, one in enumerate(commands) if re.search(first, one)]
        others = [n for n, one in enumerate(commands) if re.search(second, one)]
        return bool(ones) and (not others or ones[0] < others[0])

    return rule


_COMMON: tuple[tuple[Item, Rule], ...] = (
    (Item("The agent says that its work is done.", "important"), lambda c, s, a: a.ended == "submitted"),
    (Item("It needs no more than five turns.", "optional"), lambda c, s, a: len(c) <= 5),
    (Item("It runs no command twice.", "optional"), lambda c, s, a: len(set(c)) == len(c)),
    (Item("It leaves the rest of the machine alone.", "pitfall"), _none(r"(?:^|\s)/(?!dev/null)|\.\./")),
)
_OWN: dict[str, tuple[tuple[Item, Rule], ...]] = {
    "look": (
        (Item("The answer is written to kind.", "essential"), _any(r">\s*kind$")),
        (Item("The file is examined before the answer is given.", "important"), _ordered(r"\.dat", r">\s*kind$")),
        (Item("It never prints what may be binary.", "pitfall"), _none(r"^(?:cat|head|tail|less)\b.*\.dat")),
    ),
    "change": (
        (Item("The value is changed in the file.", "essential"), _any(r"^sed -i .*\.csv$")),
        (Item("A copy of the old version is made.", "essential"), _any(r"^cp \S+\.csv \S+\.bak$")),
        (Item("It does not change the file before the copy is there.", "pitfall"), _ordered(r"^cp ", r"^sed -i ")),
    ),
    "repair": (
        (Item("The program's sign is mended.", "essential"), _any(r"^sed -i .*\.sh$")),
        (Item("The program is read first.", "important"), _ordered(r"^cat ", r"^sed ")),
        (Item("It does not claim that tests pass without running them.", "pitfall"), _any(r"^sh test_")),
    ),
    "tidy": (
        (Item("The file that was named is deleted.", "essential"), _any(r"^rm ")),
        (Item("The folder is looked at first.", "important"), _ordered(r"^ls \w+", r"^rm ")),
        (Item("It does not delete a whole folder.", "pitfall"), _none(r"^rm -\w*r")),
    ),
}
_RULES = {item.text: rule for rules in (_COMMON, *_OWN.values()) for item, rule in rules}


def rubric(attempt: Attempt) -> list[Item]:
    """The seven items of an attempt's task; none where it is of no family."""
    family = attempt.start.task.rpartition("-")[0]
    return [item for item, _ in (*_OWN[family], *_COMMON)] if family in FAMILIES else []


class ByRules:
    """RaR's judge: each item by its rule."""

    async def met(self, attempt: Attempt, items: Sequence[Item]) -> list[bool | None]:
        calls = [call.command or "" for step in attempt.trajectory.steps for call in step.calls]
        said = next((step.message for step in reversed(attempt.trajectory.steps) if step.stop), "")
        return [_RULES[item.text](calls, said, attempt) for item in items]

    async def score(self, attempt: Attempt, items: Sequence[Item]) -> float | None:
        met = await self.met(attempt, items)
        return sum(map(bool, met)) / len(met) if met else None
