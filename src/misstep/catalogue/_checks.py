"""What an agent checked and what it changed since: the state that the missteps about tests and claims share.

A *check* is a run of tests, a build or a linter. `Checks` follows the last run of each kind, the last change of
code, and the last call that may have been a check for all the record tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from misstep._record import field, record
from misstep.shell import Command, Effect
from misstep.trajectory import After, Before, Call, Compact, Event, Interrupt, Prompt, Result, Say

from ._edits import (
    file_of,
    is_document,
    mark_of_command,
    mark_of_edit,
    only_comments,
    only_words,
    sed_comments,
    undoing,
)
from ._regex import Regex, words
from ._tests import EMPTY, FAILED, PASSED, UNKNOWN, Run, outcome, read
from .base import Misstep, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

KINDS = {"test": "tests", "compile": "build", "lint": "lint"}
"""Effect kind -> the word for it."""

_CODE = words(
    "py pyi pyx js jsx mjs cjs ts tsx mts go rs c h cc cpp cxx hh hpp hxx cu m mm java kt kts scala groovy rb php sh bash zsh "
    "fish pl pm lua swift cs fs vb ex exs erl hs ml mli clj cljs r jl sql zig dart vue svelte v sv vhd asm s f90 f95 f nim d"
)
_SCRATCH = Regex(r"(?:^|/)(?:tmp|scratch\w*)/|(?:^|/)\.(?:claude|codex|gemini)/")

# Programs that run no tests, whatever their arguments.
_QUIET = words(
    "cd pushd popd echo printf export set unset source . true false : pwd ls ll tree cat bat head tail less wc sort uniq cut tr grep egrep "
    "fgrep rg ag find fd sed awk gawk jq yq diff cmp comm stat file du df which type command whereis whoami id hostname uname date env "
    "printenv mkdir rmdir touch cp mv rm ln chmod chown basename dirname realpath readlink tee xxd od hexdump strings base64 md5sum shasum "
    "sha256sum git sleep wait kill pkill pgrep ps lsof ss netstat top free jobs read test [ [[ ]] return exit break continue local declare seq "
    "tar zip unzip gzip gunzip curl wget apt apt-get dpkg brew pip pip3 trap alias history clear code open column fold nl rev tac paste "
    "gofmt goimports prettier black isort rustfmt if then else elif fi for while until do done case esac function select time not { } ( ) !"
)
_QUIET_EFFECTS = words(
    "probe database copy move write read search delete format install kill sleep vcs download mask serve interactive endless"
)
_PLAIN_TARGET = Regex(r"(?i)lint|fmt|format|type-?check|\btsc\b|\bvet\b|test|spec")
_RUNS = words("run serve probe test compile lint format")
# Tools of agents that run nothing.
_QUIET_TOOL = Regex(
    r"(?i)todo|^Task(?:Create|Update|List|Get|Stop)$|plan|AskUser|question|Web(?:Search|Fetch)|search|fetch|^Skill$|^LSP$|^Glob$|^LS$|"
    r"list|read|view|open_image|image|think|memory|notebook_?read|report_intent|ToolSearch|KillShell|issue|finish|complete|str_replace|edit|write|patch|create_file"
)
_LATE_TOOL = Regex(r"(?i)output|write_stdin|read_bash|process|poll|await|wait|shell|bash")
_BLOCK = Regex(r"(?:^|[;&|\n(]\s*)(?:for|while|until|if|case)\s")
_EXPLAINED = Regex(
    r"(?i)\bpre-?existing\b|\bunrelated\b|\bnot related\b|\bflak(?:y|iness|es?)\b|\bintermittent\b|\bknown (?:issue|failure|problem)|"
    r"\b(?:already|also) (?:fail\w*|broken)\b|\bbefore (?:my|our|these|the) changes?\b|\bnot (?:caused|due)\b|\benvironment\w*\b|\bexpected\b[^.\n]{0,40}\bfail|\bfail\w*\b[^.\n]{0,40}\bexpected\b"
)
_LINT_BAD = Regex(
    r"^(?:(?:\[[\w:.-]+\] )?[1-9]\d* issues?:|Found [1-9]\d* (?:errors?|issues?)\b.*|.*\berror TS\d{4}:.*|\[(?:lint|build|check)\S*\] ERROR task failed|\u2716 \d+ problems?.*\b[1-9]\d* errors?.*)",
    re.M,
)
_BUILD_BAD = Regex(
    r"^(?:\S+\.go:\d+:\d+: .*|\S+:\d+(?::\d+)?: (?:fatal )?error: .*|error\[E\d{4}\]: .*|error: could not compile .*|make(?:\[\d+\])?: \*\*\* .*Error \d+.*)$",
    re.M,
)
_LINT_GOOD = Regex(
    r"^(?:(?:\[[\w:.-]+\] )?0 issues\.?|All checks passed!|Success: no issues found.*|Found 0 errors.*|0 errors,.*)$",
    re.M,
)


@record
class Facts:
    """What one call is, as far as checks are concerned."""

    checks: list[tuple[str, Command | None]] = field(default_factory=list)
    """(kind, the command) of every test run, build and linter in it."""
    edits: tuple[str, ...] = ()
    """Code files that it changes; not those of which it changes comments alone."""
    marks: tuple[str, ...] = ()
    """Short names of these edits, by which one is told that undoes or repeats another."""
    wording: bool = False
    """What it changes of code is words in quotes in one line."""
    documents: bool = False
    """It changes a document."""
    maybe: bool = False
    """It may run checks that cannot be recognised (a program of the user's own, a sub-agent)."""
    runs: bool = False
    """It runs something of the project (a check, a program, a server, a probe)."""
    edits_first: bool = False
    """Something of the project runs after its last edit, in the same call."""


def facts(call: Call) -> Facts:
    """The facts of a call, kept with it: several missteps ask for them."""
    kept = vars(call).get("_check_facts")
    if kept is None:
        kept = vars(call)["_check_facts"] = _facts(call)
    return kept


def _facts(call: Call) -> Facts:
    found = Facts()
    if call.kind in ("read", "search", "finish"):
        return found
    if call.kind in ("write", "edit"):
        found.documents = any(is_document(p) for p in call.paths)
        changed = [
            edit for edit in call.edits if is_code(edit[0]) and not only_comments(*edit, inserted=call.kind == "edit")
        ]
        found.edits = tuple(e[0] for e in changed) if call.edits else tuple(p for p in call.paths if is_code(p))
        found.marks = tuple(mark_of_edit(*edit) for edit in changed)
        found.wording = len(changed) == 1 and only_words(*changed[0])
        return found
    if call.script is None:
        found.maybe = not _QUIET_TOOL.search(call.tool)
        return found
    if call.script.damage:
        found.maybe = True
        return found
    by_command: dict[int, list[Effect]] = {}
    edits: list[str] = []
    marks: list[str] = []
    editors: set[int] = set()
    for effect in call.effects:
        if effect.command is not None:
            by_command.setdefault(id(effect.command), []).append(effect)
        if effect.kind in KINDS:
            found.checks.append((effect.kind, effect.command))
        elif effect.kind == "write":
            found.documents |= any(is_document(p) for p in effect.paths)
            paths = [p for p in effect.paths if is_code(p)]
            by = effect.command
            if not paths or (by is not None and by.name == "sed" and all(sed_comments(by, p) for p in paths)):
                continue
            edits += paths
            editors.add(id(by))
            if by is not None:
                again = "+" if effect.info.get("append") else ""
                marks += [mark_of_command(p, by) + again for p in paths]
    for command in call.script.commands:
        effects = by_command.get(id(command), [])
        if not command.argv or command.name in _QUIET or "=" in command.argv[0]:
            if id(command) in editors:
                found.edits_first = False
            continue
        if id(command) in editors:
            found.edits_first = False
        if any(e.kind in _RUNS for e in effects) or not effects:
            found.edits_first = bool(edits)
        if any(e.kind in ("run", "serve", "probe") for e in effects):
            found.runs = True
        if any(e.kind in KINDS for e in effects):
            # make, npm run and their like may run tests as part of anything
            found.maybe |= command.name in _RUNNERS and not _PLAIN_TARGET.search(" ".join(command.argv[1:]))
        elif (
            not effects
            or any(e.kind == "run" for e in effects)
            or command.dynamic & {0}
            or not all(e.kind in _QUIET_EFFECTS for e in effects)
        ):
            found.maybe = True
    found.edits, found.marks = tuple(edits), tuple(marks)
    found.runs |= bool(found.checks)
    return found


_RUNNERS = words(
    "make npm pnpm yarn bun mise just task tox nox rake gradle gradlew mvn mvnw bazel ninja invoke poe hatch"
)


def is_code(path: str) -> bool:
    """Whether a path names code that tests could depend on; scratch folders and documents do not."""
    name = path.rsplit("/", 1)[-1]
    if _SCRATCH.search(path):
        return False
    return name in ("Makefile", "Dockerfile", "CMakeLists.txt") or (
        name.rpartition(".")[2].lower() in _CODE and "." in name
    )


def is_test_file(path: str) -> bool:
    """Whether a path names a test file by the customs of its language."""
    return bool(_TEST_FILE.search(path))


_TEST_FILE = Regex(
    r"(?:^|/)(?:test_[^/]*\.py|[^/]*_test\.(?:py|go|rb|exs?|cc|cpp|c|dart)|[^/]*_spec\.rb|[^/]*\.(?:test|spec)\.[cm]?[jt]sx?|[^/]*Tests?\.(?:java|kt|cs|swift|php|scala))$"
    r"|(?:^|/)(?:tests?|__tests__|spec)/[^\s]*\.(?:py|[cm]?[jt]sx?|rs|rb|java|kt|go|php|cs|swift|ex|exs|c|cc|cpp|sh)$"
)


def own_status(call: Call, command: Command | None, result: Result) -> bool | None:
    """Whether this command of the call failed, by the call's exit status alone. None where the status is another's."""
    script = call.script
    if (
        script is None
        or command is None
        or result.failed is None
        or result.running
        or result.shared
        or command.background
    ):
        return None
    if command.substitution or _BLOCK.search(script.text):
        return None
    if command.piped_out and "pipefail" not in script.text:
        return None
    later = [
        c for c in script.commands if c.start > command.start and not c.substitution and c.pipeline != command.pipeline
    ]
    if any(c.joined_by != "&&" for c in later):
        return None
    if not result.failed:
        return False
    earlier = [
        c for c in script.commands if c.start < command.start and not c.substitution and c.pipeline != command.pipeline
    ]
    if later or any(c.name not in ("cd", "export", "set", "source", ".", "echo", "pushd", "") for c in earlier):
        return None
    return True


def check_run(call: Call, kind: str, command: Command | None, result: Result) -> Run:
    """How one check of a call went."""
    failed = own_status(call, command, result)
    if failed and (result.timed_out or result.exit_code in (124, 126, 127, 130, 137, 143)):
        return Run(UNKNOWN)
    if kind == "test":
        # A screen shows earlier runs too, and one output of several calls cannot be split.
        if call.kind == "keys" or result.shared:
            return Run(UNKNOWN)
        return outcome(result.output, failed=failed)
    if failed is None:
        bad = _LINT_BAD.search(result.output) or (kind == "compile" and _BUILD_BAD.search(result.output))
        if bad:
            return Run(FAILED, bad.group().strip()[:160])
        good = _LINT_GOOD.search(result.output) if kind == "lint" else _silent(call, command, result)
        return Run(PASSED if good else UNKNOWN)
    return Run(FAILED if failed else PASSED, _first_line(result.output) if failed else "")


def _silent(call: Call, command: Command | None, result: Result) -> bool:
    """A build whose every word would be seen (`2>&1 | tail`) and that said nothing went well."""
    if result.output.strip() or command is None or call.script is None or not command.piped_out or result.truncated:
        return False
    rest = [c for c in call.script.commands if c.pipeline == command.pipeline and c is not command]
    merged = any(r.op == ">&" and r.fd == 2 and r.target == "1" for r in command.redirects)
    return merged and bool(rest) and all(c.name in ("head", "tail", "cat", "tee") for c in rest)


def _first_line(output: str) -> str:
    for line in output.split("\n"):
        line = line.strip()
        if line and not line.startswith("Exit code"):
            return line[:160]
    return ""


@record
class Checks:
    """The state: event indices, -1 where there was none."""

    edit: int = -1
    """The last change of code."""
    edited: str = ""
    """The file it changed."""
    edit_ran: bool = False
    """The call that changed it ran something of the project after that."""
    first_edit: int = -1
    """The first change of code since the last prompt."""
    maybe: int = -1
    """The last call that may have been a check."""
    ran: int = -1
    """The last call that ran something of the project."""
    open: int = -1
    """A call that is proposed and has no result yet."""
    runs: dict[str, list[Any]] = field(default_factory=dict)
    """Kind -> [index, status, line that tells it] of its last run."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Kind -> index of a run in the background whose outcome has not been seen."""
    late: bool = False
    """The record begins in the middle of a session."""
    prompt: int = -1
    """The last prompt."""
    asked: str = ""
    """Its text, shortened."""
    said: int = -1
    """The step of the last text beside a call: a Stop of the same step repeats it."""
    told: int = -1
    """The last time the agent explained a failure as not its own (known before, unrelated, flaky)."""
    refused: int = -1
    """The last call that was refused, while no call has succeeded since."""
    refused_check: int = -1
    """The last check that was refused."""
    edits: int = 0
    """Calls that changed code since the last prompt."""
    wordings: int = 0
    """Those of them that changed words in quotes in one line."""
    documents: bool = False
    """A document was changed since the last prompt."""
    pending: list[Any] = field(default_factory=list)
    """[mark, index, file, ran] of the edits since the last check that passed."""
    base: list[Any] = field(default_factory=lambda: [-1, "", False])
    """`edit`, `edited` and `edit_ran` at that check; [] where it cannot be gone back to."""
    green: list[str] = field(default_factory=list)
    """Marks of edits that a check passed after."""

    def after_edit(self, at: int) -> bool:
        """Whether a call at this index ran after the last change of code."""
        return at >= 0 and (at > self.edit or (at == self.edit and self.edit_ran))

    def last(self, kind: str) -> tuple[int, str, str]:
        """(index, status, line) of the last run of a kind of check; index -1 where there was none."""
        at, status, line = self.runs.get(kind, (-1, UNKNOWN, ""))
        return at, status, line


def observe(state: Checks, event: Event) -> None:
    """Fold one event in. Call it after a Say or a Stop was judged, and before a call's After is."""
    if isinstance(event, Before):
        if state.open >= 0:
            state.maybe = state.open
        found = facts(event.call)
        state.open = event.index if found.maybe or found.checks else -1
    elif isinstance(event, After):
        state.open = -1
        _after(state, event)
    elif isinstance(event, Say):
        state.said = event.step
        if _EXPLAINED.search(event.text):
            state.told = event.index
    elif isinstance(event, Prompt):
        state.prompt, state.first_edit, state.asked = event.index, -1, event.text[:2000]
        state.edits = state.wordings = 0
        state.documents = False
        state.refused = -1
        state.late |= event.late
    elif isinstance(event, Compact):
        if not state.runs and state.edit < 0:
            state.late = True
    elif isinstance(event, Interrupt) and state.open >= 0:
        state.maybe = state.open
        state.open = -1


class Following(Misstep):
    """Handlers that keep `Checks` up to date, for missteps whose state it is."""

    State: ClassVar[type] = Checks

    def on_before(self, state: Any, event: Before) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_after(self, state: Any, event: After) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_prompt(self, state: Any, event: Prompt) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_say(self, state: Any, event: Say) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_compact(self, state: Any, event: Compact) -> Iterable[Verdict] | None:
        observe(state, event)
        return None

    def on_interrupt(self, state: Any, event: Interrupt) -> Iterable[Verdict] | None:
        observe(state, event)
        return None


def _after(state: Checks, event: After) -> None:
    call, result = event.call, event.result
    at = event.index - 1
    found = facts(call)
    if result.fault is not None:
        if result.fault == "interrupted" and (found.checks or found.maybe):
            state.maybe = at
        elif result.fault == "refused":
            state.refused = at
            if found.checks or found.maybe:
                state.refused_check = at
        return
    if not result.failed:
        state.refused = -1
        state.documents |= found.documents
    if found.edits and not (result.failed and call.kind in ("write", "edit")):
        _changed(state, found, at)
    if found.runs:
        state.ran = at
    if found.maybe:
        state.maybe = at
    running = result.running or call.background
    for kind, command in found.checks:
        run = Run(UNKNOWN) if running else check_run(call, kind, command, result)
        before = state.runs.get(kind)
        if before and before[0] == at and before[1] == FAILED and run.status != FAILED:
            continue
        state.runs[kind] = [at, run.status, run.line]
        if running:
            state.waiting[kind] = at
        else:
            state.waiting.pop(kind, None)
        if run.status == PASSED and state.after_edit(at):
            _passed(state)
    if not found.checks and (state.waiting or found.maybe) and call.kind not in ("write", "edit", "search"):
        _late(state, call, result, at)


_MOST = 24


def _changed(state: Checks, found: Facts, at: int) -> None:
    """Note a change of code, unless it only takes back or repeats what is known."""
    state.edits += 1
    state.wordings += found.wording
    if state.first_edit < 0:
        state.first_edit = at
    files = {file_of(p[0]) for p in state.pending}
    if found.marks and all(m in state.green and file_of(m) not in files for m in found.marks):
        # Something had undone it; in this state the code has passed.
        return
    left = list(state.pending)
    since = at
    for mark in found.marks:
        opposite = undoing(mark)
        taken = next((p for p in reversed(left) if p[0] == opposite), None) if opposite else None
        if taken is None:
            left.append([mark, at, found.edits[-1], found.edits_first])
        else:
            left.remove(taken)
            since = min(since, taken[1])
    if since < at and state.base and (not left or not _ran_since(state, since)):
        # The code is what it was before: at the last check that passed, or after the last edit that still stands.
        state.pending = left
        state.edit, state.edited, state.edit_ran = left[-1][1:] if left else state.base
        return
    state.edit, state.edited, state.edit_ran = at, found.edits[-1], found.edits_first
    state.pending += [[mark, at, found.edits[-1], found.edits_first] for mark in found.marks or ("",)]
    if len(state.pending) > _MOST:
        del state.pending[:-_MOST]
        state.base = []


def _ran_since(state: Checks, at: int) -> bool:
    return max(state.ran, state.maybe, *(run[0] for run in state.runs.values()), -1) >= at


def _passed(state: Checks) -> None:
    """A check passed on the code as it is."""
    state.green = (state.green + [p[0] for p in state.pending if p[0] and p[0][-1] != "+"])[-_MOST:]
    state.pending = []
    state.base = [state.edit, state.edited, state.edit_ran]


def _late(state: Checks, call: Call, result: Result, at: int) -> None:
    """The outcome of a run in the background, or of a program that turns out to have run tests."""
    if call.kind != "read" and call.command is None and not _LATE_TOOL.search(call.tool):
        return
    run = read(result.output)
    if run.status == UNKNOWN:
        return
    started = state.waiting.pop("test", None)
    if started is not None:
        state.runs["test"] = [max(started, state.runs.get("test", [-1])[0]), run.status, run.line]
    elif call.kind == "shell":
        state.runs["test"] = [at, run.status, run.line]


ANSWERS = {
    "tests": ("test",),
    "lint": ("lint",),
    "build": ("compile", "test", "lint"),
    "all": ("test", "compile", "lint"),
}
"""Kind of claim -> kinds of checks that answer it."""


def checked_since_edit(state: Checks, claim: str) -> bool | None:
    """Whether a check that answers such a claim ran after the last change of code.

    None: something ran that may have been one, or the record is cut.
    """
    at = max(state.last(kind)[0] for kind in ANSWERS[claim])
    if state.after_edit(at):
        return True
    if (state.after_edit(max(state.maybe, state.open)) and state.edit >= 0) or state.waiting:
        return None
    if state.edit < 0 and (state.late or (at < 0 and state.maybe >= 0)):
        return None
    return False


__all__ = [
    "ANSWERS",
    "EMPTY",
    "FAILED",
    "KINDS",
    "PASSED",
    "UNKNOWN",
    "Checks",
    "Facts",
    "Following",
    "check_run",
    "facts",
    "is_code",
    "is_test_file",
    "observe",
    "own_status",
    "checked_since_edit",
]
