"""What one call is, as far as checks of code are concerned, and how the checks in it went.

A *check* is a run of tests, a build or a linter.
"""

from __future__ import annotations

import re

from misstep._record import field, record
from misstep.shell import Command, Effect
from misstep.trajectory import Call, Result

from ._edits import is_document, mark_of_command, mark_of_edit, only_comments, only_words, sed_comments
from ._regex import Regex, words
from ._tests import FAILED, PASSED, UNKNOWN, Run, outcome

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
_BLOCK = Regex(r"(?:^|[;&|\n(]\s*)(?:for|while|until|if|case)\s")
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
    """How one check of a call went. Kept with the result: several missteps ask for it."""
    kept = vars(result).setdefault("_check_runs", {})
    found = kept.get((kind, id(command)))
    if found is None:
        found = kept[kind, id(command)] = _check_run(call, kind, command, result)
    return found


def _check_run(call: Call, kind: str, command: Command | None, result: Result) -> Run:
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
