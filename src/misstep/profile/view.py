"""What a model sees of a trajectory: the task, the steps before, and the call that is proposed.

Never the result of that call, never anything after it, never the outcome or a reference answer. Texts are redacted, and bounded
in characters: outputs keep their start and end, and where the steps before take too much room those after the first
are left out, with a note of how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b

from misstep.scan.record import cut, describe, ends, said
from misstep.trajectory import Call, Result, Trajectory


@dataclass(frozen=True, slots=True)
class Room:
    """Characters at most."""

    task: int = 6_000
    prefix: int = 24_000
    """Of all steps before together."""
    text: int = 1_500
    """Of what an agent says in a step before, and of a call in it."""
    output: int = 2_000
    """Of one result in a step before."""
    proposed: int = 6_000
    """Of the call that is judged; of what is said with it."""

    @property
    def identity(self) -> dict[str, int]:
        """What tells a result made with this room from one made with another."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class View:
    """One proposed call, as a model sees it."""

    step: int
    """Position in `Trajectory.steps`, from 0."""
    call: int
    """Position in the step's calls, from 0."""
    task: str
    prefix: str
    """The steps before, oldest first, each begun by a line `[step N] ...`."""
    proposed: str
    """What the agent says and proposes in this step; the call that is judged is the one marked, where there are several."""
    left_out: int = 0
    """Steps that `prefix` leaves out."""

    def values(self) -> dict[str, str]:
        """For a prompt with the places {task}, {prefix} and {proposed}."""
        return {"task": self.task, "prefix": self.prefix or "(none: this is the first step)", "proposed": self.proposed}


def proposals(trajectory: Trajectory) -> Iterator[tuple[int, int]]:
    """(step, call) of every call that the agent proposed, in order; copies of earlier steps are not proposed again."""
    for number, step in enumerate(trajectory.steps):
        if step.source == "agent" and not step.copied:
            for place in range(len(step.calls)):
                yield number, place


def task_text(trajectory: Trajectory) -> str:
    """What was asked for first, whole; '' where the record does not tell."""
    return next((s.message for s in trajectory.steps if s.source == "user" and s.prompt and not s.copied), "")


def task_of(trajectory: Trajectory) -> str:
    """What groups the trajectories of one task: its recorded name, else a hash of what was asked for, else the trajectory."""
    if trajectory.outcome is not None and trajectory.outcome.task:
        return trajectory.outcome.task
    asked = task_text(trajectory).strip()
    if asked:
        return f"asked:{blake2b(asked.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
    return f"trajectory:{trajectory.id}"


class Views:
    """All views of one trajectory. Each step is put into words once, however many views there are."""

    def __init__(self, trajectory: Trajectory, room: Room | None = None) -> None:
        self.trajectory = trajectory
        self.room = room or Room()
        self.task = _clean(cut(task_text(trajectory), self.room.task)) or "(not recorded)"
        self._first = next(
            (n for n, s in enumerate(trajectory.steps) if s.source == "user" and s.prompt and not s.copied), None
        )
        self._told: dict[int, str] = {}

    def at(self, step: int, call: int = 0) -> View:
        """The view of one proposed call. Raises IndexError where there is none."""
        if not 0 <= call < len(self.trajectory.steps[step].calls):
            raise IndexError(f"step {step} of {self.trajectory.id} proposes no call {call}")
        prefix, left_out = self._before(step)
        return View(step, call, self.task, prefix, self.proposed(step, call), left_out)

    def before(self, step: int) -> str:
        """The steps before one, for a prompt that has more to say of it than `at` gives."""
        return self._before(step)[0]

    def told(self, step: int, results: bool = True) -> str:
        """One step in words, '' where it has nothing to tell; `results=False` withholds what its calls gave."""
        if results:
            if step not in self._told:
                words, room = self._words(step, True), self.room.prefix // 4
                self._told[step] = words if len(words) <= room else _clean(ends(words, room))
            return self._told[step]
        return self._words(step, False)

    def _before(self, step: int) -> tuple[str, int]:
        """The first told step, what was asked for last, and as many of the last steps as there is room for."""
        told = {n: text for n in range(step) if (text := self.told(n))}
        left = self.room.prefix - sum(len(text) + 1 for text in told.values())
        if left >= 0:
            return "\n".join(told.values()), 0
        first = next(iter(told))
        asked = next((n for n in reversed(told) if self.trajectory.steps[n].prompt), first)
        kept = {first, asked}
        left = self.room.prefix - sum(len(told[n]) + 1 for n in kept)
        for n in reversed(told):
            if n not in kept and len(told[n]) + 1 > left:
                break
            left -= 0 if n in kept else len(told[n]) + 1
            kept.add(n)
        return "\n".join(_noted(told, kept)), len(told) - len(kept)

    def _words(self, number: int, results: bool) -> str:
        step, room = self.trajectory.steps[number], self.room
        if step.copied or number == self._first:  # the task is told by itself
            return ""
        lines = []
        if step.compacted:
            lines.append(f"[step {number}] (the context was summarised here)")
        if step.interrupted:
            lines.append(f"[step {number}] (a person interrupted the agent here)")
        text = _clean(cut(said(step), room.text))
        if step.source != "agent":
            if text:
                lines.append(f"[step {number}] {'user' if step.prompt else 'environment'}: {text}")
            return "\n".join(lines)
        if text:
            lines.append(f"[step {number}] agent says: {text}")
        for call in step.calls:
            lines.append(f"[step {number}] agent calls {call_text(call, room.text)}")
            if results:
                lines.append(_result_text(step.results.get(call.id), room.output))
        return "\n".join(lines)

    def proposed(self, number: int, place: int, said_too: bool = True) -> str:
        """The call that is judged, marked where several were proposed in one turn; and what the agent says with it."""
        step = self.trajectory.steps[number]
        lines = []
        text = _clean(cut(said(step), self.room.proposed)) if said_too else ""
        if text:
            lines.append(f"[step {number}] agent says: {text}")
        others = len(step.calls) > 1
        if others:
            lines.append("In one turn, before any result was known, the agent proposed these calls:")
        for n, call in enumerate(step.calls):
            if n == place or abs(n - place) <= _SIBLINGS:
                mark = " <== the call to judge" if others and n == place else ""
                room = self.room.proposed if n == place else self.room.text
                lines.append(f"[step {number}] agent calls {call_text(call, room)}{mark}")
        return "\n".join(lines)


_SIBLINGS = 5
"""Calls of the same turn that are shown before and after the one that is judged."""


def _noted(told: dict[int, str], kept: set[int]) -> Iterator[str]:
    """The kept steps in order, with a note where others were left out."""
    out = 0
    for n, text in told.items():
        if n not in kept:
            out += 1
            continue
        if out:
            yield f"... {out} step{'s' * (out != 1)} left out ..."
            out = 0
        yield text


def call_text(call: Call, room: int) -> str:
    """A call in words: its tool, and the command, edit or arguments; redacted, at most about `room` characters."""
    more = " (in the background)" if call.background else ""
    return f"{call.tool or call.kind}{more}: {_clean(cut(describe(call), room))}"


def _result_text(result: Result | None, room: int) -> str:
    if result is None:
        return "  result: not recorded"
    facts = []
    if result.exit_code is not None:
        facts.append(f"exit code {result.exit_code}")
    elif result.failed:
        facts.append("failed")
    facts += [word for name, word in _FACTS.items() if getattr(result, name)]
    if result.fault:
        facts.append({"never-ran": "never ran", "malformed": "the call was malformed"}.get(result.fault, result.fault))
    output = _clean(ends(result.output, room))
    return f"  result{' (' + ', '.join(facts) + ')' if facts else ''}: {output or '(no output)'}"


_FACTS = {"timed_out": "ended at its time limit", "running": "still running", "truncated": "truncated"}
_CONTROLS: dict[int, int | None] = {code: None for code in (*range(32), 0x7F) if chr(code) not in "\n\t"}
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def _clean(text: str) -> str:
    """Without control characters and halves of characters, which some servers refuse."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)
