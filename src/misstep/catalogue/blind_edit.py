"""The agent changes or tries to change an existing file that it never read.

## What it is
The agent changes a file that was there before it came, by an edit or by writing it anew, without having opened it in
this context. An edit that the harness refuses for that reason counts: it is the attempt that is judged, and the evidence says that
it was refused and did nothing.

## Why it matters
What the file held is lost or broken unseen: settings, somebody's work, the part that the edit should have fitted to.
Where the harness stands in the way, the step is wasted.

## How it is told
That a file exists and was not read is known in two ways: the harness says so when it refuses the edit ("has not been
read yet"), or the agent overwrites a file whole (`>`, a heredoc) at a path that a listing showed it before, or the
tool says that it overwrote a file. Read means: a file reader, a command that names the file and works on it, an
earlier write of its own; the lines that a search found are not the file. Opportunities are edits and overwrites of
files that exist; those that were read are right. After the context was summarised, a file that was read before makes
the verdict unknown; so does everything where the record begins in the middle of a session, and a file that was first
seen after the agent had a program write files (`init`, `create`, `--generate-config`, a script) or that its output
said it wrote. Each call counts once, however many files it changes, and so does each of
several calls that one step makes side by side.

## Known misses
Files that exist but were never shown are not known to exist. In-place edits by pattern (`sed -i`) are not judged.
Names are told apart by their last part alone: having read one `config.py` counts for another.
"""

from __future__ import annotations

from collections.abc import Iterable

from misstep._record import field, record
from misstep.shell import Command
from misstep.trajectory import After, Call, Compact, Prompt

from ._regex import Regex, words
from .base import Misstep, Verdict

_GENERATES = Regex(
    r"(?i)^(?:init\w*|create\w*|new|generate\w*|scaffold\w*|bootstrap\w*|setup|startproject|startapp|eject|export|dump\w*|"
    r"-{1,2}(?:generate|init|create|write|dump|export|save)[\w-]*(?:=.*)?)$"
)
_WRITES_ELSEWHERE = words("git docker podman kubectl gh aws gcloud az conda virtualenv venv pip uv echo printf")
_WROTE = Regex(
    r"(?im)\b(?:writ(?:ing|ten|es)|wrote|creat(?:ed|ing|es)|generat(?:ed|ing|es)|sav(?:ed|ing)|export(?:ed|ing))\b[^\n]{0,200}"
)
_CONTINUED = Regex(r"(?i)\bcontinued from a previous (?:conversation|session)\b")
_UNREAD = Regex(
    r"(?i)\bhas not been read yet\b|\bmust (?:first )?read (?:the|this) file\b|\bneed to read the file (?:first|before)\b"
)
"""What a tool says that refuses to change a file that was not read."""
_EXISTED = Regex(r"(?i)\bhas been updated\b|\boverw(?:rote|ritten)\b")
_REREADS = Regex(r"(?i)\bhas been updated\b")
_OVERWROTE = Regex(r"(?i)\boverw(?:rote|ritten)\b")
_WORD = Regex(r"[\w.+@-]+\.\w+")
_SEARCHES = words("ls ll tree find fd grep egrep fgrep rg ag git gofmt chmod mkdir touch wc stat file rm")
_INTERPRETERS = words("python python3 node deno bun ruby perl php bash sh zsh make npm npx pnpm yarn cargo go")
_LISTS = words("ls ll tree find fd git rg")
_PATH = Regex(r"(?<![\w/.-])[\w./+@-]*\w\.\w+(?![\w/])")
_MOST = 120


@record
class Seen:
    read: list[str] = field(default_factory=list)
    """Names of files that the agent has seen the inside of, or wrote; the last ones."""
    before: list[str] = field(default_factory=list)
    """Those of them from before the context was summarised."""
    asked: str = ""
    """The last prompt, shortened."""
    listed: list[str] = field(default_factory=list)
    """Names that a listing showed and that were not read; the last ones."""
    made: list[str] = field(default_factory=list)
    """Names that a program of the agent's said it wrote; the last ones."""
    perhaps: list[str] = field(default_factory=list)
    """Names that a listing showed only after such a program; the last ones."""
    makes: bool = False
    """A program ran that may have written files."""
    late: bool = False
    """More was read before than is known here."""


class BlindEdit(Misstep):
    id = "blind-edit"
    status = "stable"
    name = "changes or tries to change an existing file that it never read"
    State = Seen

    def on_prompt(self, state: Seen, event: Prompt) -> None:
        state.asked = event.text[:1000]
        state.late |= event.late or bool(_CONTINUED.search(event.text[:400]))

    def on_compact(self, state: Seen, event: Compact) -> None:
        before = state.before + state.read
        # With nothing seen yet, the record begins in the middle of a session.
        state.late |= not (before or state.listed) or len(before) > _MOST
        state.before = before[-_MOST:]
        state.read = []

    def on_after(self, state: Seen, event: After) -> Iterable[Verdict]:
        return sorted(self._judged(state, event), key=_rank)[:1]

    def _judged(self, state: Seen, event: After) -> Iterable[Verdict]:
        """A verdict for each file that the call changes."""
        call, result, at = event.call, event.result, event.index - 1
        if call.kind in ("write", "edit"):
            if result.fault == "malformed" or result.failed:
                if _UNREAD.search(result.output[:400]):
                    path = call.paths[-1] if call.paths else "a file"
                    yield from self._verdict(state, event, path, "the harness refused it")
                return
            if result.fault is not None:
                return
            for path in call.paths:
                name = _name(path)
                if call.kind == "edit" or _EXISTED.search(result.output[:400]):
                    if name in state.read or _REREADS.search(result.output[:400]):
                        yield Verdict(False, at)
                    elif call.kind == "write" and _OVERWROTE.search(result.output[:400]):
                        yield from self._verdict(state, event, path, "the tool says that it overwrote it")
                _keep(state, name)
            return
        if result.fault is not None:
            return
        if call.kind == "read":
            for path in call.paths:
                _keep(state, _name(path))
        elif call.script is not None and not call.script.damage:
            yield from self._shell(state, event)

    def _shell(self, state: Seen, event: After) -> Iterable[Verdict]:
        call, output, at = event.call, event.result.output, event.index - 1
        script = call.script
        assert script is not None
        overwritten: list[str] = []
        for effect in call.effects:
            if effect.kind == "write" and not effect.info.get("append") and not effect.info.get("in_place"):
                overwritten += [p for p in effect.paths if _whole_name(p)]
        named = {
            _name(word)
            for command in script.commands
            if command.name not in _SEARCHES
            for word in command.argv[1:]
            if "." in word and len(word) < 300
        }
        for path in overwritten:
            name = _name(path)
            if name in named:
                continue
            if _plain(path) in state.listed:
                yield from self._verdict(state, event, path, "a listing had shown it")
            elif name in state.read:
                yield Verdict(False, at)
        for name in [*named, *(_name(p) for p in overwritten)]:
            _keep(state, name)
        if not event.result.failed and any(_makes_files(c) for c in script.commands):
            state.makes = True
            told = [_name(word) for line in _WROTE.findall(output[:20_000]) for word in _PATH.findall(line)]
            state.made = [*state.made, *told][-_MOST:]
        if script.commands and any(c.name in _LISTS for c in script.commands) and len(output) < 20_000:
            self._list(state, call, output)

    def _list(self, state: Seen, call: Call, output: str) -> None:
        """The files that a listing shows, as an agent would write their paths."""
        assert call.script is not None
        folders = [
            _plain(word).rstrip("/")
            for c in call.script.commands
            for word in c.argv[1:]
            if c.name in ("ls", "ll", "tree") and not word.startswith("-")
        ]
        folder = folders[0] + "/" if len(folders) == 1 and folders[0] not in ("", ".") else ""
        for word in _PATH.findall(output)[:_MOST]:
            path = _plain(word)
            path = path if "/" in path else folder + path
            if _name(path) not in state.read and path not in state.listed and len(path) < 90:
                state.listed.append(path)
                if state.makes:
                    state.perhaps = [*state.perhaps, _name(path)][-_MOST:]
        del state.listed[:-_MOST]

    def _verdict(self, state: Seen, event: After, path: str, how: str) -> Iterable[Verdict]:
        name, at = _name(path), event.index - 1
        if name in state.read:
            yield Verdict(None, at, f"{path} was read in another way")
        elif name in state.before:
            yield Verdict(None, at, f"{path} was read before the context was summarised")
        elif state.late:
            yield Verdict(None, at, f"{path} may have been read before this record begins")
        elif name in state.made or (name in state.perhaps and how.startswith("a listing")):
            yield Verdict(None, at, f"{path} may have been made by a program that the agent ran")
        elif "/.claude/" in path or (name in state.asked and not how.startswith("the harness")):
            yield Verdict(None, at, f"{path} is the harness's own, or the person named it to be written")
        else:
            refused = how.startswith("the harness")
            why = f"tried to edit {path}, refused: not read" if refused else f"{path} exists ({how}) and was never read"
            yield Verdict(True, at, why)


def _rank(verdict: Verdict) -> int:
    """An occurrence first, then what cannot be told."""
    return (True, None, False).index(verdict.holds)


def _makes_files(command: Command) -> bool:
    """Whether a command may leave files behind that nobody has written by hand."""
    if command.name in _SEARCHES or command.name in _WRITES_ELSEWHERE or not command.argv:
        return False
    if any(_GENERATES.match(word) for word in command.argv[1:]):
        return True
    return command.name in _INTERPRETERS or "/" in command.argv[0]


def _plain(path: str) -> str:
    return path[2:] if path.startswith("./") else path


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1][:60]


def _whole_name(path: str) -> bool:
    """A file that is named in full, and not a scratch file."""
    return (
        bool(_WORD.fullmatch(_name(path)))
        and not path.startswith(("/dev/", "/tmp/", "/var/tmp/", "/private/tmp/"))
        and not set("$*?`") & set(path)
    )


def _keep(state: Seen, name: str) -> None:
    state.listed = [p for p in state.listed if _name(p) != name] if state.listed else state.listed
    if name in state.read:
        state.read.remove(name)
    state.read.append(name)
    del state.read[:-_MOST]
