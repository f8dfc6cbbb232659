"""What a script does: the effects of its commands, in written order."""

from __future__ import annotations

import posixpath
import re

from . import (
    effects_build,
    effects_control,
    effects_data,
    effects_files,
    effects_install,
    effects_run,
    effects_serve,
    effects_vcs,
)
from .context import NOWHERE, OWN_TERMINAL, Context, Reader, is_file, program, writes
from .model import Block, Command, Effect, Redirect, Script
from .peel import scan

MAX_NESTED = 4
"""Programs that start shells that start programs ..."""
LOOPS = ("for", "while", "until", "select")
ENDERS = frozenset(["break", "exit", "return", "exec", "kill"])
LOOP_WORD = re.compile(r"\$(?:(\w+)|\{(\w+)\})$")

TABLE: dict[str, tuple[Reader, ...]] = {}
for _readers in (
    effects_serve.READERS,
    effects_data.READERS,
    effects_install.READERS,
    effects_build.READERS,
    effects_files.READERS,
    effects_vcs.READERS,
    effects_run.READERS,
    effects_control.READERS,
):
    for _name, _reader in _readers.items():
        TABLE[_name] = (*TABLE.get(_name, ()), _reader)


def effects_of(script: Script) -> list[Effect]:
    """What the commands of a (peeled) script do, in written order. See `Effect` for the kinds. Never raises.

    Commands of a function that the text never calls do nothing. Paths stay as they are written; where literal
    `cd`s came before, `info['cwd']` is the folder that they lead to (None: it cannot be told).
    """
    out: list[Effect] = []
    _effects(script, out, 0)
    return out


def _effects(script: Script, out: list[Effect], depth: int) -> None:
    commands = script.commands
    size = len(commands)
    names = {c.name for c in commands}
    loop_words: dict[int, dict[str, tuple[str, ...]]] = {}
    in_loop: set[int] = set()
    idle: set[int] = set()
    blocks = [b for b in script.blocks if b.first < b.last <= size]
    for b in blocks:
        if b.kind in LOOPS:
            in_loop.update(range(b.first, b.last))
            if b.words and b.name and b.kind != "while" and any(w[:1] != "$" for w in b.words):
                for k in range(b.first, b.last):
                    loop_words.setdefault(k, {}).setdefault(b.name, b.words)
        elif b.kind == "function" and not _called(b, commands):
            idle.update(range(b.first, b.last))
    folders = _folders(commands, blocks) if not names.isdisjoint(("cd", "pushd")) else None
    seen: set[int] = set()
    written: dict[str, str] = {}
    before: Command | None = None
    for k, c in enumerate(commands):
        if k in idle:
            continue
        argv = c.argv
        if k in loop_words and argv:
            argv = _fill(argv, loop_words[k])
        x = Context(c, argv, out, depth)
        if folders is not None:
            x.cwd = folders[k]
        x.in_loop = k in in_loop
        x.written = written
        if c.piped_out or c.piped_in:
            _neighbours(x, commands, k)
        if argv:
            dispatch(x)
            if c.wrappers and "watch" in c.wrappers and x.waits:
                x.add("endless", why="watch")
        for r in c.redirects:
            _redirect(x, r)
        if c.around:
            for r in c.around:
                if id(r) not in seen:
                    seen.add(id(r))
                    _redirect(x, r)
        if c.stdin is not None:
            _note_written(c, written)
        _masks(x, before)
        if not c.substitution:
            before = c
    for b in blocks:
        if b.kind in ("while", "until", "for") and b.first not in idle:
            _endless_loop(b, commands, out)
    if "disown" in names:
        _disown(commands, out)


def _note_written(c: Command, written: dict[str, str]) -> None:
    """`cat > x.py <<'EOF'`: what a later `python x.py` of the same text runs is known."""
    if c.argv[:1] not in (["cat"], ["tee"]) or c.stdin is None:
        return
    for r in c.redirects:
        if r.fd == 0 and r.op[:2] == "<<" and not r.quoted and ("$" in c.stdin or "`" in c.stdin):
            return  # the shell changes the text on its way
    targets = c.argv[1:] if c.name == "tee" else [r.target for r in c.redirects if r.op in (">", ">|") and r.fd == 1]
    for target in targets:
        written[target.removeprefix("./")] = c.stdin


def dispatch(x: Context) -> None:
    """Lets the readers of the program's name look at the command; the first that finds something is believed."""
    at = len(x.out)
    readers = TABLE.get(x.name)
    if readers:
        for reader in readers:
            reader(x)
            if len(x.out) > at:
                break
    elif x.name.startswith("qemu-system"):
        effects_serve.static(x)
    elif not effects_run.path_program(x):
        effects_run.bare_script(x)
    also = effects_control.ALSO.get(x.name)
    if also:
        also(x)


def reread(x: Context, argv: list[str]) -> bool:
    """Reads the command as if it were `argv`; True where that told something."""
    inner = Context(x.command, argv, x.out, x.depth)
    inner.cwd, inner.in_loop, inner.upstream, inner.downstream = x.cwd, x.in_loop, x.upstream, x.downstream
    inner.written = x.written
    at = len(x.out)
    if inner.name in TABLE:
        dispatch(inner)
    return len(x.out) > at


def nested_text(x: Context, text: str, label: str, wrappers: tuple[str, ...] = (), background: bool = False) -> None:
    """Shell text that a program hands to a shell (os.system, execSync)."""
    if x.depth >= MAX_NESTED:
        return
    script = scan(text)
    if script.damage:
        return
    for c in script.commands:
        c.wrappers = (*x.command.wrappers, *(wrappers or (label,)), *c.wrappers)
        c.background = c.background or background or x.command.background
        c.remote = c.remote or x.command.remote
        c.start = x.command.start
    _effects(script, x.out, x.depth + 1)


def nested_command(x: Context, c: Command) -> None:
    """A command that a program starts without a shell."""
    if x.depth >= MAX_NESTED:
        return
    from .peel import peel

    c.wrappers = (*x.command.wrappers, *c.wrappers)
    c.background = c.background or x.command.background
    c.remote = x.command.remote
    c.start = x.command.start
    _effects(peel(Script("", [c])), x.out, x.depth + 1)


def _called(b: Block, commands: list[Command]) -> bool:
    for k, c in enumerate(commands):
        if not c.argv or b.first <= k < b.last:
            continue
        if c.argv[0] == b.name or (
            c.argv[0] in ("trap", "export", "declare", "complete") and b.name in " ".join(c.argv)
        ):
            return True
    return False


def _fill(argv: list[str], known: dict[str, tuple[str, ...]]) -> list[str]:
    """`cat $f` inside `for f in *.png` is `cat *.png`."""
    filled: list[str] = []
    for w in argv:
        m = LOOP_WORD.match(w) if w[:1] == "$" else None
        words = known.get(m.group(1) or m.group(2)) if m else None
        if words:
            filled.extend(words[:50])
        else:
            filled.append(w)
    return filled


def _neighbours(x: Context, commands: list[Command], k: int) -> None:
    """The rest of the command's pipeline."""
    c = x.command
    if c.piped_out:
        for d in commands[k + 1 : k + 13]:
            if d.pipeline == c.pipeline and d is not c:
                x.downstream.append(d)
            elif not d.substitution:
                break
    if c.piped_in:
        for d in reversed(commands[max(0, k - 12) : k]):
            if d.pipeline == c.pipeline:
                x.upstream.insert(0, d)
            elif not d.substitution:
                break


def _redirect(x: Context, r: Redirect) -> None:
    target = r.target
    if target.startswith(("/dev/tcp/", "/dev/udp/")):
        x.add("probe", target=target[9:], local=effects_files.is_local("//" + target[9:]))
    elif r.op == ">&" and (target.isdigit() or target == "-"):
        return
    elif (writes(r, 1) or writes(r, 2) or r.op[0] == ">") and is_file(target):
        x.add("write", (target,), append=r.op in (">>", "&>>"), in_place=False)


def _masks(x: Context, before: Command | None) -> None:
    """What hides a failure."""
    c = x.command
    argv = c.argv
    if argv:
        if c.joined_by == "||" and argv[0] in ("true", ":") and before is not None and not c.piped_in:
            x.out.append(Effect("mask", (), before, {"how": "or-true"}))
        elif argv[0] == "set" and ("+e" in argv or "+eu" in argv or argv[1:3] == ["+o", "errexit"]):
            x.add("mask", how="set+e")
    if not argv:
        return
    stdout = stderr = False
    for r in c.redirects:
        if r.target in NOWHERE:
            if r.op in ("&>", "&>>") or r.op == ">&":
                stdout = stderr = True
            elif r.op[0] == ">" and r.fd == 1:
                stdout = True
            elif r.op[0] == ">" and r.fd == 2:
                stderr = True
        elif r.op == ">&" and r.fd == 2 and r.target == "1" and stdout:
            stderr = True
    if stderr:
        x.add("mask", how="discard-all" if stdout else "discard-stderr")


def _endless_loop(b: Block, commands: list[Command], out: list[Effect]) -> None:
    """`while true` and `for ((;;))` with nothing in the body that ends them."""
    first = commands[b.first]
    if b.kind == "for":
        if b.name != "((" or not re.match(r"[^;]*;\s*;", b.words[0] if b.words else ""):
            return
        body = commands[b.first : b.last]
    else:
        condition = commands[b.first : b.body]
        if len(condition) != 1:
            return
        words = condition[0].argv
        always = words in (["true"], [":"], ["[", "1", "]"], ["test", "1"], ["[", "true", "]"])
        never = words in (["false"],)
        if not (never if b.kind == "until" else always):
            return
        body = commands[b.body : b.last]
    if any(c.argv and c.argv[0] in ENDERS for c in body):
        return
    if (
        first.background
        or first.substitution
        or any(w in OWN_TERMINAL or w in ("timeout", "gtimeout") for w in first.wrappers)
    ):
        return
    if (
        first.piped_out
        and body
        and any(c.pipeline == first.pipeline and c.name in ("head",) for c in commands[b.last : b.last + 3])
    ):
        return
    out.append(Effect("endless", (), body[0] if body else first, {"why": "a loop with no way out"}))


def _disown(commands: list[Command], out: list[Effect]) -> None:
    """`server & disown`: what went to the background before it ignores the hangup."""
    last = max(k for k, c in enumerate(commands) if c.name == "disown")
    earlier = {id(c) for c in commands[:last]}
    for e in out:
        if e.kind == "serve" and e.info["own_session"] == "no" and e.info["background"] and id(e.command) in earlier:
            e.info["own_session"] = "hangup-proof only"


def _folders(commands: list[Command], blocks: list[Block]) -> list[str | None]:
    """The folder in which each command runs, relative to where the text starts: '' unchanged, None unknown."""
    opening: dict[int, list[int]] = {}
    for b in blocks:
        if b.kind in ("subshell", "substitution", "shell"):
            opening.setdefault(b.first, []).append(b.last)
    found: list[str | None] = []
    stack: list[tuple[int, str | None]] = []
    here: str | None = ""
    for k, c in enumerate(commands):
        while stack and stack[-1][0] <= k:
            here = stack.pop()[1]
        stack.extend((last, here) for last in sorted(opening.get(k, ()), reverse=True))
        found.append(here)
        name = c.argv[0] if c.argv else ""
        if (name in ("cd", "pushd") and not c.piped_out and not c.background) or (
            name == "cd" and c.background and stack
        ):
            here = _join(here, c)
        elif name == "popd":
            here = None
    return found


def _join(here: str | None, c: Command) -> str | None:
    words = [w for w in c.argv[1:] if w[:1] != "-" or w == "-"]
    if not words:
        return "~" if c.argv[0] == "cd" else None
    target = words[0]
    if c.dynamic or target == "-" or "*" in target:
        return None
    if target.startswith(("/", "~")):
        return posixpath.normpath(target)
    if here is None:
        return None
    joined = posixpath.normpath(posixpath.join(here, target))
    return "" if joined == "." else joined


__all__ = ["dispatch", "effects_of", "nested_command", "nested_text", "program", "reread"]
