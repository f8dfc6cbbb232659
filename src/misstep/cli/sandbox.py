"""`misstep sandbox`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from . import Failure, debug_option, debugging


@click.group("sandbox")
@debug_option
def command() -> None:
    """Isolated roots for replay, profiles, experiments and training."""


@command.command("check")
@debug_option
def check() -> None:
    """Say whether sandboxes can run here, and how they are held."""
    from misstep.sandbox import SandboxError, native, roots
    from misstep.sandbox.bubblewrap import BubblewrapSandbox

    problem = native.problem()
    if problem:
        raise Failure(problem)
    try:
        with BubblewrapSandbox(roots.host()) as box:
            box.exec("true")
            held = box.enforced
    except SandboxError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    space = native.user_namespace()
    users = {
        "shifted": "65536 users of its own, none of them a user of this machine",
        "subordinate": "your user and those of /etc/subuid",
        "single": f"your user alone: nothing can be given to other users ({native.why_single()})",
    }[space.kind]
    built = roots.base_tar()
    click.echo(f"bubblewrap  {native.tools().bubblewrap}")
    click.echo(f"users       {users}")
    click.echo(f"memory      held by {held['memory']}" if held["memory"] != "not at all" else "memory      not held")
    click.echo(f"processes   held by {held['processes']}")
    click.echo(f"base        {built if built.exists() else 'not built: misstep sandbox build'}")


@command.command("build")
@click.option("--suite", default="bookworm", show_default=True, help="The Debian release.")
@click.option("--force", is_flag=True, help="Build it even if it is there.")
@debug_option
def build(suite: str, force: bool) -> None:
    """Build the Debian base, once (about 80 seconds, 250 MB); needs mmdebstrap."""
    from misstep.sandbox import SandboxError, roots

    try:
        done = roots.base_tar(suite)
        if force or not done.exists():
            done = roots.build_base(suite, say=lambda text: click.echo(text, err=True))
        roots.from_tar(done)
    except SandboxError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    click.echo(done)


@command.command("run", context_settings={"allow_interspersed_args": False})  # a program's options are its own
@click.argument("words", metavar="COMMAND", nargs=-1, required=True)
@click.option("--root", default="host", show_default=True, help="host, base, a tar or a directory.")
@click.option(
    "--task", type=click.Path(exists=True, file_okay=False, path_type=Path), help="In this task's environment."
)
@click.option("--network", is_flag=True, help="Give it this machine's network.")
@debug_option
def run(words: tuple[str, ...], root: str, task: Path | None, network: bool) -> None:
    """Run a command in a fresh sandbox; its exit code is the command's.

    One word is read by a shell; several are a program and its arguments. The command reads what this one is given to read.
    """
    from misstep.sandbox import SandboxError, roots, tasks
    from misstep.sandbox.bubblewrap import BubblewrapSandbox

    try:
        base, mode = roots.find(root), "host" if network else "none"
        if task is None:
            made = BubblewrapSandbox(base, network=mode)  # type: ignore[arg-type]
        else:
            loaded = tasks.Task.load(task)
            made = BubblewrapSandbox(
                loaded.environment(base),
                limits=loaded.limits,
                env=loaded.env,
                network=mode,  # type: ignore[arg-type]
            )
        with made as box:
            given = None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer
            running = box.begin(words[0] if len(words) == 1 else list(words), stdin=given)
            try:
                done = running.wait()
            finally:
                running.close()
        if done.timed_out or done.flooded:
            why = "ran for more than 600 seconds" if done.timed_out else "wrote more than 16 MB"
            click.echo(f"misstep: the command {why}: it was ended", err=True)
    except SandboxError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    sys.stdout.buffer.write(done.output)
    sys.stdout.flush()
    sys.stderr.buffer.write(done.errors)
    sys.stderr.flush()
    raise click.exceptions.Exit(done.exit_code)


@command.command("clean")
@click.option("--all", "everything", is_flag=True, help="The unpacked roots and environments too; they are made again.")
@debug_option
def clean(everything: bool) -> None:
    """Remove what killed processes left behind."""
    from misstep.sandbox import SandboxError, files, owner, store

    try:
        base = store.directory()
        found = owner.collect(base)
        if everything:
            for path in (base / "roots").iterdir():
                files.remove(path)
    except SandboxError as error:
        if debugging():
            raise
        raise Failure(str(error)) from error
    click.echo(f"{found} left behind, removed")
