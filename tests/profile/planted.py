"""Error steps of known types in recorded sessions, and an annotator of known accuracy that is asked about them.

The annotator is a rule for the scripted model server: it knows a step's types from its command, a card's from its words, and errs
with stated rates. Whether it errs depends on the question alone, never on when it is asked.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from misstep.profile.labels import Labels, StepLabel, header
from misstep.profile.recorded import COMMAND
from misstep.profile.view import proposals, task_of
from misstep.scan.record import cut, describe
from misstep.trajectory.readers import read


@dataclass(frozen=True)
class Kind:
    """A planted type."""

    weight: int
    command: str
    """With {n} in it: unlike any other's."""
    cards: tuple[str, ...]
    wordings: tuple[tuple[str, str], ...]
    """(name, definition), the first is the canonical one."""

    @property
    def name(self) -> str:
        return self.wordings[0][0]


KINDS: dict[str, Kind] = {
    "binary": Kind(
        24,
        "cat build/app-{n}.bin",
        ("prints a compiled file to the screen as if it were text", "shows the raw bytes of something that is no text",
         "dumps unreadable binary content into the session"),
        (("prints a binary file as text", "The call writes the raw content of a file that is no text to the terminal."),
         ("shows unreadable bytes", "A binary file is displayed as though it could be read as text."),
         ("dumps binaries to the terminal", "Raw bytes of a compiled or packed file are printed.")),
    ),
    "whole": Kind(  # near to binary
        16,
        "cat logs/huge-{n}.log",
        ("prints a very large text without any limit", "shows a huge log as a whole where a part would do",
         "lets a long text flood the session"),
        (("prints a huge text file whole", "The call writes a very large text file to the terminal without a limit."),
         ("floods the terminal with a long text", "A large readable log is displayed as a whole."),
         ("shows a long log without a limit", "A text of very many lines is printed in full.")),
    ),
    "claims": Kind(
        18,
        "echo 'all tests passed for part {n}'",
        ("claims that the tests passed without having run them", "reports success of a check that never took place"),
        (("claims unverified success", "It reports that a check passed although no such check was run."),
         ("reports tests that were not run", "Success of a test suite is stated while it was never executed."),
         ("makes false claims of verification", "It says that a check took place which did not.")),
    ),
    "kill": Kind(
        12,
        "pkill -f worker{n}",
        ("ends every process whose name matches a pattern", "stops processes that it did not start by a broad pattern"),
        (("ends processes by a broad pattern", "It signals all processes that match a name, also those of others."),
         ("kills more processes than its own", "Processes started by somebody else are stopped by a pattern."),
         ("terminates by name", "A wide match on process names is used to stop programs.")),
    ),
    "retry": Kind(
        12,
        "make step{n}",
        ("repeats a failed command without a change", "runs the very call again that has just failed"),
        (("repeats a failed command unchanged", "The same command is run again after it failed, with nothing altered."),
         ("retries without a change", "An identical attempt follows a failure."),
         ("does again what just failed", "A failing call is issued a second time as it was.")),
    ),
    "mask": Kind(
        8,
        "./deploy{n}.sh 2>/dev/null || true",
        ("hides whether a command failed", "throws away the error output of a command that matters"),
        (("hides errors", "The call discards error output or forces a success status."),
         ("masks the failure of a command", "A failing status or its message is made invisible."),
         ("swallows diagnostics", "Messages of errors are thrown away.")),
    ),
    "overwrite": Kind(
        6,
        "sed -i s/a/b/ original{n}.csv",
        ("changes the only copy of some data in place", "destroys an original before there is a copy of it"),
        (("overwrites the only copy", "Data of which there is no copy is changed in place."),
         ("modifies irreplaceable data", "An original is altered although it cannot be restored."),
         ("edits the sole original", "The one existing version is transformed without keeping it.")),
    ),
    "unnoticed": Kind(
        5,
        "chmod -R 777 share{n}",
        ("opens access to everybody where one user needs it", "gives all users every right on a whole folder"),
        (("grants far too wide rights", "Rights are given to everybody on more than what needs them."),
         ("makes everything writable", "All users get every permission."),
         ("opens permissions to all", "Access is granted to anybody, recursively.")),
    ),
}  # fmt: skip
RARE = Kind(
    0,
    "git push --force origin rare{n}",
    ("replaces a shared history by force",),
    (("rewrites shared history", "A history that others use is replaced by force."),),
)
ALL = {**KINDS, "rare": RARE}
_WORDS = (
    "odd",
    "loud",
    "slow",
    "bright",
    "narrow",
    "vague",
    "early",
    "late",
    "dense",
    "pale",
    "steep",
    "blunt",
    "rough",
)
ODD = tuple(f"does something {word} with its surroundings" for word in _WORDS)
"""Cards of steps that are of no type."""
GOOD = "ls -la src{n}"


@dataclass
class Planted:
    """A run's folder with a profile, and what is true of it."""

    folder: Path
    truth: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    """(trajectory, step) of an error step -> its types; none: a good step that was called bad."""

    def share(self, kind: str) -> float:
        """Of the error steps."""
        return sum(kind in one for one in self.truth.values()) / len(self.truth)

    @property
    def coverage(self) -> float:
        """Share of the error steps of a type that is large enough to be kept."""
        return sum(bool(one - {"rare"}) for one in self.truth.values()) / len(self.truth)


def plant(root: Path, making: ModuleType, steps: int, environments: int, seed: int = 0) -> Planted:
    """Sessions under root/sessions, and root/run/profile.jsonl: `steps` error steps of one or two planted types each, a tenth as many
    good ones, a pair of a type too rare to keep, and copies of some sessions."""
    dice = random.Random(seed)
    names, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
    drawn: list[frozenset[str]] = []
    for _ in range(steps):
        one = dice.choices(names, weights)[0]
        drawn.append(frozenset((one, "mask")) if dice.random() < 0.05 and one != "mask" else frozenset((one,)))
    drawn += [frozenset()] * (steps // 10)
    drawn += [frozenset(("rare",))] * 2
    dice.shuffle(drawn)
    sessions: dict[int, list[tuple[str, frozenset[str] | None]]] = {n: [("ls", None)] for n in range(environments)}
    for number, types in enumerate(drawn):
        sessions[dice.randrange(environments)] += [(_command(types, number), types), ("pwd", None)]
    planted = Planted(root / "run")
    wrong = {command: types for some in sessions.values() for command, types in some if types is not None}
    paths = []
    for n, some in sessions.items():
        path = root / f"sessions/s{n:04}.jsonl"
        making.session(path, [c for c, _ in some], prompt=f"Solve task {n}.", id=f"{n:08x}-0000-4000-8000-000000000000")
        paths.append(path)
    for path in paths[:10]:
        copy = root / "sessions/copies" / path.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
        paths.append(copy)
    head = header([], {"localizer": "openai:planted"})
    with Labels(planted.folder, head) as labels:
        for path in paths:
            for n, trajectory in enumerate(read(str(path))):
                for step, call in proposals(trajectory):
                    command = cut(describe(trajectory.steps[step].calls[call]), COMMAND)
                    bad = command in wrong
                    if bad:
                        planted.truth[trajectory.id, step] = wrong[command]
                    said = {"binary-as-text": "binary" in wrong[command]} if bad and wrong[command] else {}
                    labels.add(
                        StepLabel(trajectory.id, str(path), n, task_of(trajectory), step, call, command,
                                  "bad" if bad else "good", "It is wrong." if bad else "", catalogue=said)
                    )  # fmt: skip
        labels.finish()
    return planted


def _command(types: frozenset[str], number: int) -> str:
    if not types:
        return GOOD.format(n=number)
    first = next(iter(sorted(types - {"mask"}))) if len(types) > 1 else next(iter(types))
    command = ALL[first].command.format(n=number)
    return f"{command} || true" if "mask" in types and first != "mask" else command


_BY_COMMAND = {name: re.compile(re.escape(kind.command).replace(r"\{n\}", r"\d+")) for name, kind in ALL.items()}
_BY_CARD = {card: name for name, kind in ALL.items() for card in kind.cards}
_BY_NAME = {wording[0]: name for name, kind in ALL.items() for wording in kind.wordings}
_AND = " and hides whether it failed"


def types_of_call(call: str) -> frozenset[str]:
    """What is true of a command."""
    found = {name for name, pattern in _BY_COMMAND.items() if pattern.search(call)}
    return frozenset(found | ({"mask"} if "|| true" in call else set()))


def types_of_card(card: str) -> frozenset[str]:
    """What a card says."""
    alone = card.removesuffix(_AND)
    return frozenset({_BY_CARD[alone]} if alone in _BY_CARD else set()) | ({"mask"} if card != alone else set())


@dataclass
class Annotator:
    """`rule` is for the scripted server. The defaults err in nothing."""

    card: float = 0.0
    """Cards of another type than the step's."""
    noticed: float = 1.0
    """A type that several cards of a batch share is proposed."""
    member: float = 1.0
    """A card of the type is named with it."""
    wordings: int = 1
    spurious: float = 0.0
    """Batches with a type that is none."""
    same: float = 1.0
    """Two wordings of one type are called the same."""
    confused: float = 0.0
    """Two of different types are, or a near type's label is given."""
    recall: float = 1.0
    """Of an assignment or label that is true."""
    invented: float = 0.0
    """Labels that are not in the list, at the first try; a third of them at every try."""
    blind: frozenset[str] = frozenset({"unnoticed"})
    """Never proposed from batches: left to refinement."""
    salt: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    server: Any = None
    """To see the whole conversation, where an answer is repaired. Only without delay."""

    def rule(self, prompt: str, number: int) -> str:
        """What the annotator says."""
        again = prompt.startswith("That answer cannot be used")
        if again:
            prompt = self.server.bodies[-1]["messages"][1]["content"]
        return json.dumps(self._answer(prompt, again))

    def _answer(self, prompt: str, again: bool) -> Mapping[str, Any]:
        ask = prompt.rsplit("\n\n", 1)[-1]
        if ask.startswith("Write the card"):
            self.asked["card"] += 1
            return {"card": self._card(_part(prompt, "call"), again)}
        if ask.startswith("Propose the types"):
            self.asked["propose"] += 1
            return {"types": self._propose(_cards(prompt), prompt, self.blind, 2)}
        if "same or different" in ask:
            self.asked["same"] += 1
            first, second = (_BY_NAME.get(_part(prompt, tag).partition(":")[0]) for tag in ("first", "second"))
            right = first is not None and first == second
            said = self._chance(self.same if right else self.confused, "same", prompt)
            return {"reason": "so", "verdict": "same" if said else "different"}
        if ask.startswith("Give the name"):
            self.asked["name"] += 1
            names = [line[2:].partition(":") for line in _part(prompt, "descriptions").splitlines()]
            known = Counter(_BY_NAME[name] for name, _, _ in names if name in _BY_NAME)
            chosen = ALL[known.most_common(1)[0][0]].wordings[0] if known else (names[0][0], names[0][2].strip())
            return {"name": chosen[0], "definition": chosen[1]}
        if ask.startswith("Assign every card"):
            self.asked["assign"] += 1
            return self._assign(prompt)
        assert ask.startswith("First give the reason in one or two"), ask
        self.asked["label"] += 1
        return self._label(prompt, again)

    def _chance(self, rate: float, *what: object) -> bool:
        digest = blake2b(repr((self.salt, *what)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < rate * 2**64

    def _pick(self, some: Any, *what: object) -> Any:
        digest = blake2b(repr((self.salt, "pick", *what)).encode(), digest_size=8).digest()
        return some[int.from_bytes(digest, "big") % len(some)]

    def _card(self, call: str, again: bool) -> str:
        types = types_of_call(call)
        if not again and self._chance(self.invented, "card", call):
            return "writes to build/app and then to src/main.c as in " + call.split()[-1]  # of the task: to be repaired
        if not types:
            return str(self._pick(ODD, call))
        if self._chance(self.card, "card", call):
            types = frozenset({self._pick(sorted(KINDS), call)})
        first = sorted(types - {"mask"})[0] if types != {"mask"} else "mask"
        text = str(self._pick(ALL[first].cards, call))
        return text + _AND if "mask" in types and first != "mask" else text

    def _propose(self, cards: list[str], prompt: str, blind: frozenset[str], least: int) -> list[dict[str, Any]]:
        made = []
        for name, kind in ALL.items():
            members = [n for n, card in enumerate(cards, 1) if name in types_of_card(card)]
            members = [n for n in members if self._chance(self.member, name, n, prompt)]
            if name in blind or len(members) < least or not self._chance(self.noticed, name, prompt):
                continue
            wording = self._pick(kind.wordings[: self.wordings], name, prompt)
            made.append({"name": wording[0], "definition": wording[1], "cards": members})
        if len(cards) > 3 and self._chance(self.spurious, "spurious", prompt):
            some = self._pick("abcdefghijklmnopqrstuvwxyz", prompt, 1) + self._pick(
                "abcdefghijklmnopqrstuvwxyz", prompt, 2
            )
            made.append({"name": f"is {some} in its ways", "definition": f"What it does is {some}.", "cards": [1, 3]})
        return made

    def _assign(self, prompt: str) -> dict[str, Any]:
        ids = _listed(prompt)
        cards = _cards(prompt)
        rows, free = [], []
        for number, card in enumerate(cards, 1):
            given = self._given(types_of_card(card), ids, (card, prompt))
            rows.append({"card": number, "types": given})
            free += [] if given else [number]
        found = self._propose([cards[n - 1] for n in free], prompt, frozenset(ids.values()), 3)
        return {"cards": rows, "new": [{**one, "cards": [free[n - 1] for n in one["cards"]]} for one in found]}

    def _label(self, prompt: str, again: bool) -> dict[str, Any]:
        ids, call = _listed(prompt), _part(prompt, "call")
        if self._chance(self.invented / 3, "stubborn", call) or (
            not again and self._chance(self.invented, "made up", call)
        ):
            return {"reason": "so", "labels": ["made-up-type"]}
        return {"reason": "it is seen", "labels": self._given(types_of_call(call), ids, call)}

    def _given(self, true: frozenset[str], ids: Mapping[str, str], what: object) -> list[str]:
        given = []
        for one, name in ids.items():
            near = {"binary": "whole", "whole": "binary"}.get(name, "")
            if name in true:
                given += [one] if self._chance(self.recall, one, what) else []
            elif near in true:
                given += [one] if self._chance(self.confused, one, what) else []
        return given


def _part(prompt: str, tag: str) -> str:
    return prompt.split(f"<{tag}>\n", 1)[1].split(f"\n</{tag}>", 1)[0]


def _cards(prompt: str) -> list[str]:
    return [line.partition(". ")[2] for line in _part(prompt, "cards").splitlines()]


def _listed(prompt: str) -> dict[str, str]:
    """id -> planted type ('' where it is none)."""
    found = re.findall(r"^\[([a-z0-9-]+)\] The agent ([^\n]*?)\. ", _part(prompt, "types"), re.M)
    return {one: _BY_NAME.get(name, "") for one, name in found}
