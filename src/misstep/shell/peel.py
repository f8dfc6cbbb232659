"""Peeling: each command is replaced by what it runs (`sudo timeout 5 make` is `make`), texts for other shells are scanned.

The wrappers that were taken off stand in `Command.wrappers`, outermost first. Where another shell
reads the text, its commands inherit what surrounds it: background, pipes, redirections, environment.
"""

from __future__ import annotations

from .compounds import writes_stdout
from .model import Block, Command, Redirect, Script
from .scanner import parse
from .unwrap import Inner, literal_stdin
from .wrapper_tables import SHELLS
from .wrappers import UNWRAP

MAX_TEXTS = 6
"""Shell texts within shell texts."""
MAX_LAYERS = 12
"""Wrappers around one command."""
READERS = SHELLS | {"python", "python3", "sqlite3", "psql", "mysql", "mariadb", "node", "ssh", "perl", "ruby"}
"""Programs that take a program from standard input: what `cat <<EOF |` or `echo ... |` feeds them is worth knowing."""


def scan(text: str) -> Script:
    """What `text` runs: its simple commands in written order, wrappers peeled off. Never raises.

    `sudo timeout 5 bash -c "make &"` gives one command `make`, in the background, with wrappers
    ('sudo', 'timeout', 'bash -c'). `find -exec` and `docker run` keep their own command as well.
    """
    return peel(parse(text, constants=True))


def peel(script: Script, depth: int = 0) -> Script:
    """The script with every wrapper replaced by what it runs. Changes the script that it is given."""
    commands = script.commands
    feed(commands)
    if not any(c.argv and c.name in UNWRAP for c in commands):
        return script
    out: list[Command] = []
    blocks: list[Block] = []
    starts: list[int] = []
    pipelines = max((c.pipeline for c in commands), default=0) + 1
    for c in commands:
        starts.append(len(out))
        pipelines = _unwrap(c, out, blocks, script, depth, pipelines, MAX_LAYERS)
    starts.append(len(out))
    for b in script.blocks:
        body = starts[b.body] if b.body < len(starts) else len(out)
        blocks.append(Block(b.kind, starts[b.first], starts[b.last], body, b.name, b.words))
    script.commands = out
    script.blocks = blocks
    return script


def feed(commands: list[Command]) -> None:
    """`cat <<EOF | bash` and `echo "select 1" | sqlite3 x`: the text reaches the reader's standard input."""
    before: Command | None = None
    for c in commands:
        if (
            c.piped_in
            and c.stdin is None
            and before is not None
            and before.pipeline == c.pipeline
            and c.name in READERS
        ):
            name = before.name
            if name == "cat" and before.stdin is not None and before.argv[1:] in ([], ["-"]):
                c.stdin = before.stdin
                c.redirects.append(Redirect("<", 0, "", before.stdin, literal_stdin(before)))
            elif name == "echo" and not before.dynamic and before.argv[1:]:
                words = before.argv[1:]
                escapes = False
                while words and words[0] in ("-e", "-n", "-en", "-ne"):
                    escapes = escapes or "e" in words[0]
                    words = words[1:]
                text = " ".join(words)
                c.stdin = (text.replace("\\n", "\n") if escapes else text) + "\n"
            elif name == "printf" and len(before.argv) == 2 and not before.dynamic and "%" not in before.argv[1]:
                c.stdin = before.argv[1].replace("\\n", "\n")
        if not c.substitution:
            before = c


def _unwrap(
    c: Command, out: list[Command], blocks: list[Block], script: Script, depth: int, pipelines: int, layers: int
) -> int:
    """Appends what `c` runs to `out`; returns the next free pipeline number."""
    if not c.argv or layers == 0:
        out.append(c)
        return pipelines
    unwrap = UNWRAP.get(c.name)
    found = unwrap(c) if unwrap else None
    if not found:
        out.append(c)
        return pipelines
    placed = False
    if found[0].keep:
        out.append(c)
        placed = True
    for inner in found:
        if inner.text is None:
            pipelines = _unwrap(words_of(c, inner), out, blocks, script, depth, pipelines, layers - 1)
            placed = True
            continue
        if depth >= MAX_TEXTS:
            continue
        child = parse(inner.text, constants=True)
        if inner.typed and child.damage:
            continue
        if not inner.literal:
            drop_substitutions(child)
        child = peel(child, depth + 1)
        if child.damage and script.damage is None:
            script.damage = f"in {inner.label}: {child.damage}"
        if not child.commands:
            continue
        first = len(out)
        inherit(c, inner, child, pipelines)
        pipelines = max(x.pipeline for x in child.commands) + 1
        out.extend(child.commands)
        placed = True
        blocks += [
            Block(b.kind, b.first + first, b.last + first, b.body + first, b.name, b.words) for b in child.blocks
        ]
        blocks.append(Block("shell", first, len(out)))
    if not placed:
        out.append(c)
    return pipelines


def words_of(c: Command, inner: Inner) -> Command:
    """The inner command of a wrapper that takes it as words."""
    if inner.argv is not None:
        argv = inner.argv
        shift = len(c.argv) - len(argv)
    else:
        argv = c.argv[inner.at : inner.end]
        shift = inner.at
    size = len(argv)
    dynamic, globbed = c.dynamic, c.globbed
    if dynamic:
        dynamic = frozenset(p - shift for p in dynamic if 0 <= p - shift < size)
    if globbed:
        globbed = frozenset(p - shift for p in globbed if 0 <= p - shift < size)
    return Command(
        argv,
        {**c.env, **inner.env} if inner.env else c.env,
        c.redirects,
        c.stdin,
        c.background or inner.background,
        c.piped_in,
        c.piped_out,
        c.pipeline,
        c.joined_by,
        dynamic,
        globbed,
        c.substitution,
        (*c.wrappers, inner.label),
        c.remote or inner.remote,
        c.start,
        c.around,
    )


def inherit(c: Command, inner: Inner, child: Script, pipelines: int) -> None:
    """The commands of a text learn what surrounds the shell that reads it."""
    wrappers = (*c.wrappers, inner.label)
    redirects = [r for r in c.redirects if not (inner.eats_stdin and r.fd == 0)] + c.around
    leaves = any(writes_stdout(r) for r in redirects)
    for at, x in enumerate(child.commands):
        x.wrappers = wrappers + x.wrappers
        x.background = x.background or c.background or inner.background
        x.remote = x.remote or c.remote or inner.remote
        x.pipeline += pipelines
        x.start = c.start
        if c.env:
            x.env = {**c.env, **x.env}
        if at == 0:
            x.joined_by = c.joined_by
        if not x.substitution:
            if redirects:
                x.around = x.around + [r for r in redirects if not (x.piped_out and writes_stdout(r))]
            if c.piped_out and not leaves and not any(writes_stdout(r) for r in x.around):
                x.piped_out = True
            if c.piped_in and not inner.eats_stdin:
                x.piped_in = True
        x.substitution = x.substitution or c.substitution


def drop_substitutions(script: Script) -> None:
    """Takes out commands that the outer shell ran already (`bash -c "echo $(date)"`)."""
    if not any(x.substitution for x in script.commands):
        return
    starts: list[int] = []
    kept: list[Command] = []
    for x in script.commands:
        starts.append(len(kept))
        if not x.substitution:
            kept.append(x)
    starts.append(len(kept))
    script.commands = kept
    script.blocks = [
        Block(b.kind, starts[b.first], starts[b.last], starts[b.body], b.name, b.words)
        for b in script.blocks
        if b.kind != "substitution" and starts[b.first] < starts[b.last]
    ]
