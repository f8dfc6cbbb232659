"""The agent leaves its scratch files in the work tree.

## What it is

A helper that the agent wrote for itself (`debug_parser.py`, `test_fix.sh`, `tmp_check.js`), or a version that a later one replaced (`solver_v2.py` beside `solver_v3.py`), stays beside the real files when the
agent says that it is done.

## Why it matters

Somebody has to find out which files belong to the result. They are swept into commits, picked up by test runners and packagers, and a check of
"only these files may change" fails.

## How it is told

The agent created a file with the name of a throwaway outside /tmp and outside folders of tests (or one called `test_*` that it ran by itself, where
no prompt and no test runner speaks of tests), the prompt does not name that file, and at the end of a session that the agent itself ended it was neither
deleted nor moved nor added to the repository. Every such file is an opportunity; one that is gone at the end is right, and so is a throwaway
that was written into a temporary folder in the first place. Only what bears the name of a throwaway can be told to be one, and an agent that
gives a helper such a name seldom clears it away, while a careful one does without the file (a snippet on the command line, a test of the suite): nearly
all chances are therefore occurrences, and their share says little. How often it happens is told by the sessions.

## Known misses

Scratch files under ordinary names, folders, and files that a script wrote.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from misstep._record import field, record
from misstep.trajectory import After, Before, Prompt, Say, Stop

from ._regex import Regex
from ._world import Opened, began, bound, opened, same_path
from .base import Misstep, Verdict

_SUFFIX = r"\.(?:py|sh|js|mjs|ts|go|rb|pl|c|cc|cpp|rs|txt|log|out)$"
_SCRATCH = Regex(
    rf"(?i)^(?:(?:tmp|scratch|throwaway)(?:[_-][\w-]*)?|debug[_-][\w-]*|temp[_-]?(?:\d*|test\w*|script\w*|file\w*)|"
    rf"test[_-](?:fix|debug|manual|quick|script|output|it|tmp|temp|\w*_(?:debug|fix|tmp))|[\w-]*[_-](?:debug|tmp|scratch)){_SUFFIX}"
)
_TRIAL = Regex(r"(?i)^test_?\w*\.(?:py|sh|js|mjs|rb)$")
_VERSION = Regex(rf"(?i)^(?P<stem>[\w-]+?)[_-]?(?:v|attempt|try)(?P<number>\d+){_SUFFIX}")
_INTERPRETERS = frozenset(["python", "python3", "bash", "sh", "node", "ruby"])
_ELSEWHERE = Regex(
    r"(?:^|/)(?:tmp|temp|var/folders|scratchpad|\.cache|tests?|__tests__|spec|migrations|testdata|examples?)(?:/|$)"
)
_TEMPORARY = Regex(r"^(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/|(?:^|/)scratchpad/")


@record
class Made(Opened):
    made: dict[str, int] = field(default_factory=dict)
    """Scratch files that stand in the work tree -> event index of the call that made them."""
    gone: list[int] = field(default_factory=list)
    """Event indices of the calls that made scratch files since cleared away, or outside the work tree, newest last."""
    known: list[str] = field(default_factory=list)
    """Names that prompts and reads brought up before the agent wrote them."""
    run: list[str] = field(default_factory=list)
    """Scripts that the agent ran by themselves, newest last."""
    tests: bool = False
    """A prompt speaks of tests, or a test runner was used: a file called test_* may be one of the suite."""
    stopped: bool = False
    """The last thing that happened is that the agent ended its turn."""


class LeavesScratchFiles(Misstep):
    id = "leaves-scratch-files"
    status = "stable"
    name = "leaves its scratch files in the work tree"
    State = Made

    def on_prompt(self, state: Made, event: Prompt) -> None:
        state.stopped = False
        state.tests = state.tests or "test" in event.text[:20_000].lower()
        state.known = [*state.known, *re.findall(r"[\w.-]+\.\w{1,5}\b", event.text[:20_000])][-150:]

    def on_say(self, state: Made, event: Say) -> None:
        state.stopped = False

    def on_stop(self, state: Made, event: Stop) -> None:
        state.stopped = True

    def on_before(self, state: Made, event: Before) -> None:
        state.stopped = event.call.kind == "finish" or "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" in (
            event.call.command or ""
        )
        opened(state, event)

    def on_after(self, state: Made, event: After) -> None:
        at, call, result = began(state, event), event.call, event.result
        if at is None or result.fault:
            return
        for effect in call.effects:
            if effect.command is not None and effect.command.remote:
                continue
            if effect.kind in ("run", "test") and (effect.kind == "run" or effect.info.get("runner") in _INTERPRETERS):
                state.run = [*state.run, *(p[:80] for p in effect.paths)][-40:]
            elif effect.kind == "test":
                state.tests = True
            elif effect.kind in ("delete", "move"):
                self._clear(state, effect.paths)
            elif effect.kind == "vcs" and effect.info.get("verb") in ("add", "commit", "clean", "stash"):
                if effect.info["verb"] == "clean" and result.failed is False:
                    state.gone = [*state.gone, *state.made.values()][-60:]
                state.made.clear()
            elif effect.kind == "read" and result.failed is not True:
                state.known = [*state.known, *(posixpath.basename(p) for p in effect.paths if p not in state.made)][
                    -150:
                ]
            elif effect.kind == "write" and not effect.info.get("append") and result.failed is not True:
                self._note(state, effect.paths, at)

    def _note(self, state: Made, paths: tuple[str, ...], at: int) -> None:
        for path in paths:
            if _TEMPORARY.search(path):
                if _named_so(posixpath.basename(path)):
                    state.gone = [*state.gone, at][-60:]
            elif _is_scratch(path, state.known) and not any(same_path(path, m) for m in state.made):
                state.made[path] = at
                bound(state.made, 60)

    def _clear(self, state: Made, paths: tuple[str, ...]) -> None:
        for made in list(state.made):
            for path in paths:
                pattern = re.escape(posixpath.basename(path.rstrip("/"))).replace(r"\*", ".*").replace(r"\?", ".")
                if (
                    same_path(path, made)
                    or ("*" in path and re.fullmatch(pattern, posixpath.basename(made)))
                    or made.startswith(path.rstrip("/") + "/")
                ):
                    state.gone = [*state.gone, state.made.pop(made)][-60:]
                    break

    def finish(self, state: Made) -> Iterable[Verdict] | None:
        ended = state.stopped
        found = [
            Verdict(
                True if ended else None, at, f"{path} is still there" + ("" if ended else ", but the record breaks off")
            )
            for path, at in state.made.items()
            if _SCRATCH.match(posixpath.basename(path)) or _superseded(path, state.made) or _trial(path, state)
        ]
        calls: dict[int, Verdict] = {}
        for verdict in [*found, *(Verdict(False, at) for at in state.gone)]:
            calls.setdefault(verdict.at, verdict)
        return [calls[at] for at in sorted(calls)]


def _trial(path: str, state: Made) -> bool:
    """Whether a file called test_* was a script for one trial: run by itself, with no word of tests anywhere."""
    if state.tests or not _TRIAL.match(posixpath.basename(path)):
        return False
    return any(same_path(path, p) for p in state.run)


def _superseded(path: str, made: dict[str, int]) -> bool:
    """Whether a later version of a numbered file was made (`solver_v2.py` once there is `solver_v3.py`)."""
    own = _VERSION.match(posixpath.basename(path))
    others = [(_VERSION.match(posixpath.basename(p)), at) for p, at in made.items() if p != path]
    return own is not None and any(
        o is not None and o["stem"] == own["stem"] and int(o["number"]) > int(own["number"]) and at > made[path]
        for o, at in others
    )


def _named_so(name: str) -> bool:
    """Whether a file has the name of a throwaway, a version or a trial."""
    return any(pattern.match(name) for pattern in (_SCRATCH, _VERSION, _TRIAL))


def _is_scratch(path: str, known: list[str]) -> bool:
    """Whether a file that the agent wrote has the name of a throwaway, in the work tree, and nobody spoke of it."""
    name = posixpath.basename(path)
    if not _named_so(name) or name in known or re.search(r"[$*?`]", path):
        return False
    return not _ELSEWHERE.search(posixpath.dirname(path))
