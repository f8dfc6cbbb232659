"""What the scoped procedural missteps share: a state that follows calls, and undoes those that never ran.

A call is followed when it is proposed, because some hosts tell nothing afterwards. If its result then
says that it never ran (refused, malformed, never started), what it did to the state is taken back.
Guards are asked before a call is folded in: they walk the same rules over a copy of the state.
"""

from __future__ import annotations

import re

from misstep._record import field, record
from misstep.shell import Command, Effect, effects_of, scan
from misstep.trajectory import After, Before, Call, Stop

from .base import Misstep, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, ClassVar

NEVER_RAN = ("refused", "malformed", "never-ran")
"""Faults after which a call's effects are taken back."""
DIFFERS = {"diff", "cmp", "comm", "sdiff", "wdiff", "colordiff", "dwdiff", "vbindiff"}
"""Programs that compare two files mechanically."""
SEARCHES = {"grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep"}
_INTERPRETERS = {"bash", "sh", "zsh", "dash", "node", "perl", "ruby", "php", "source", ".", "Rscript", "lua"}
KEEP = 24
"""Entries that any list or mapping of a state may hold; the oldest go first."""


@record
class Memory:
    """The part of the state that all of them have."""

    undo: dict[str, Any] = field(default_factory=dict)
    """The other fields as they were before the last proposed call, until its result is there."""
    undo_id: str = ""
    pending: list[list[Any]] = field(default_factory=list)
    """[call id, event index, holds, why, also] of verdicts that wait for their call to have run."""
    unread: int = -1
    """Event index of the last call whose command could not be read."""
    scripts: dict[str, str] = field(default_factory=dict)
    """What scripts that the agent wrote do when run, by file name: words of the misstep's own choosing."""


class Procedure(Misstep):
    """A scoped misstep over Memory. Subclasses give walk(), saw() and at_stop()."""

    scoped = True
    State: ClassVar[type] = Memory

    def walk(self, state: Any, event: Before) -> Verdict | None:
        """Follow one proposed call; a verdict where the call itself is the opportunity."""
        raise NotImplementedError

    def saw(self, state: Any, event: After) -> None:
        """Follow a result."""

    def at_stop(self, state: Any, event: Stop) -> Verdict | None:
        """Judge the end of a turn."""
        return None

    def on_before(self, state: Any, event: Before) -> Iterable[Verdict]:
        found = _settle(state)
        state.undo = {k: copied(v) for k, v in vars(state).items() if k not in _BOOKKEEPING}
        state.undo_id = event.call.id
        verdict = self.follow(state, event)
        if verdict is not None:
            state.pending.append([event.call.id, verdict.at, verdict.holds, verdict.why, list(verdict.also)])
        return found

    def on_after(self, state: Any, event: After) -> Iterable[Verdict] | None:
        same = state.undo_id == event.call.id
        if event.result.fault in NEVER_RAN:
            if same:
                for name, value in state.undo.items():
                    setattr(state, name, value)
            state.pending = [p for p in state.pending if p[0] != event.call.id]
            _forget(state)
            return None
        if same:
            _forget(state)
        mine = [_verdict(p) for p in state.pending if p[0] == event.call.id]
        state.pending = [p for p in state.pending if p[0] != event.call.id]
        self.saw(state, event)
        return mine

    def on_stop(self, state: Any, event: Stop) -> Iterable[Verdict]:
        found = _settle(state)
        verdict = self.at_stop(state, event)
        return found if verdict is None else [*found, verdict]

    def finish(self, state: Any) -> Iterable[Verdict]:
        return _settle(state)

    def follow(self, state: Any, event: Before) -> Verdict | None:
        """walk(), with what cannot be read noted."""
        call = event.call
        if call.script is not None and call.script.damage:
            state.unread = event.index
        return self.walk(state, event)

    def ahead(self, state: Any, event: Before) -> Any:
        """A copy of the state into which this call has been followed."""
        later = type(state)(**{name: copied(value) for name, value in vars(state).items()})
        self.follow(later, event)
        return later

    def foresee(self, state: Any, event: Before) -> Verdict | None:
        """What walk() would say of this call; changes nothing."""
        ahead = type(state)(**{name: copied(value) for name, value in vars(state).items()})
        return self.follow(ahead, event)


_BOOKKEEPING = ("undo", "undo_id", "pending")


def copied(value: Any) -> Any:
    """A copy deep enough for states: lists and mappings of plain values."""
    if isinstance(value, list):
        return [copied(v) for v in value]
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    return value


def _forget(state: Any) -> None:
    state.undo, state.undo_id = {}, ""


def _verdict(pending: list[Any]) -> Verdict:
    _, at, holds, why, also = pending
    return Verdict(holds, at, why, tuple(also))


def _settle(state: Any) -> list[Verdict]:
    """The verdicts of calls whose result was never recorded: they count as run."""
    found = [_verdict(p) for p in state.pending]
    state.pending = []
    _forget(state)
    return found


def keep(items: Any, *new: Any) -> None:
    """Append to a list of the state, without repeats, the oldest dropped beyond KEEP."""
    for item in new:
        if item in items:
            items.remove(item)
        items.append(item)
    del items[:-KEEP]


def remember(items: dict[str, str], key: str, value: str) -> None:
    """Set an entry of a mapping of the state, the oldest dropped beyond KEEP."""
    items.pop(key, None)
    items[key] = value
    while len(items) > KEEP:
        del items[next(iter(items))]


def judged(holds: bool | None, at: int, why: str, unsure: str, *also: int) -> Verdict:
    """A verdict whose evidence fits it: why it holds, or why it cannot be told."""
    return Verdict(holds, at, why if holds else (unsure if holds is None else ""), tuple(i for i in also if i >= 0))


# -- reading calls -------------------------------------------------------------------------------


def base(path: str) -> str:
    """The file name of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def commands(call: Call) -> list[Command]:
    """The simple commands of a call, [] where it runs none or cannot be read."""
    script = call.script
    return [] if script is None or script.damage else script.commands


def by_command(call: Call) -> list[tuple[Command | None, list[Effect]]]:
    """The commands of a call with their effects, in order."""
    found: list[tuple[Command | None, list[Effect]]] = [(c, []) for c in commands(call)]
    places = {id(c): number for number, (c, _) in enumerate(found)}
    for effect in call.effects:
        number = places.get(id(effect.command))
        if number is None:
            found.append((effect.command, [effect]))
        else:
            found[number][1].append(effect)
    return found


def written(call: Call) -> list[tuple[str, str]]:
    """(path, text) of files whose whole new text the call shows: editor tools and heredocs into a file."""
    found = [(path, new) for path, old, new in call.edits if not old]
    for command in commands(call):
        if command.stdin and command.name in {"cat", "tee"}:
            targets = [r.target for r in command.redirects if r.op in {">", ">>", ">|"}]
            if command.name == "tee":
                targets += [a for a in command.argv[1:] if not a.startswith("-")]
            found += [(t, command.stdin) for t in targets]
    return found


def python_code(command: Command) -> str | None:
    """The Python text that a command runs from its own words: `-c` or a heredoc."""
    if not command.name.startswith("python"):
        return None
    if "-c" in command.argv[:-1]:
        return command.argv[command.argv.index("-c") + 1]
    if command.stdin and not any(a != "-" and not a.startswith("-") for a in command.argv[1:]):
        return command.stdin
    return None


def code_run(call: Call) -> list[str]:
    """Python texts that a call runs directly."""
    return [code for code in map(python_code, commands(call)) if code]


def program_of(command: Command) -> str:
    """The name of the script or program of the agent's own that a command runs, else ''."""
    name = command.name
    if name.startswith("python") or name in _INTERPRETERS:
        for word in command.argv[1:]:
            if not word.startswith("-"):
                return base(word)
            if re.fullmatch(r"-[a-zA-Z]*[cem]|--eval|--print", word) and not (word == "-e" and name in {"bash", "sh"}):
                return ""
        return ""
    return name if command.argv and "/" in command.argv[0] else ""


def effects_of_text(path: str, text: str) -> list[Effect]:
    """What a script would do when run, as far as its text tells; [] where it cannot be read."""
    if path.endswith(".py") or (text.startswith("#!") and "python" in text[:60]):
        text = f"python3 - <<'_END_OF_SCRIPT_'\n{text}\n_END_OF_SCRIPT_\n"
    elif not (path.endswith((".sh", ".bash")) or (text.startswith("#!") and "sh" in text[:60].split("\n")[0])):
        return []
    script = scan(text)
    return [] if script.damage else list(effects_of(script))


def compares(command: Command) -> bool:
    """Whether a command compares files mechanically and in full (`git diff --stat` only counts)."""
    if command.name in DIFFERS:
        return True
    words = command.argv[1:]
    if command.name == "git" and "diff" in words:
        return not any(
            w in {"--stat", "--shortstat", "--name-only", "--name-status", "--quiet", "--summary"} for w in words
        )
    return False


def comparison(code: str) -> str:
    """'compares' where a program text compares files mechanically, 'maybe' where it checks them in some other way, else ''.

    Mechanically is difflib, filecmp or diff, or two readings, one of them of an original or a copy, set against each other.
    """
    if re.search(r"\bdifflib\b|\bfilecmp\b|['\"\s](?:diff|cmp)['\"\s]", code):
        return "compares"
    readings = len(re.findall(r"\.read(?:_text|_bytes|lines)?\(|\bopen\(|readFileSync", code))
    against = re.search(r"[!=]=|\bassert|\bzip\(", code) is not None
    if readings >= 2 and against and re.search(r"orig|backup|\bbak\b|before|\bold\b|git show|HEAD:", code):
        return "compares"
    return "maybe" if readings and (against or re.search(r"\bin\b|re\.(?:search|findall|match)", code)) else ""
