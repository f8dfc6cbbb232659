"""`misstep guard`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Failure, debug_option

if TYPE_CHECKING:
    from misstep.guard.journal import Firing, Log

_HOSTS = ("claude-code", "codex", "qwen-code", "gemini-cli", "copilot-cli", "cursor", "opencode", "pi")
_ALIASES = {"claude": "claude-code", "qwen": "qwen-code", "gemini": "gemini-cli", "copilot": "copilot-cli"}


class _Host(click.Choice[str]):
    """A host, by its name or by that of its program."""

    def __init__(self) -> None:
        super().__init__(_HOSTS)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(_ALIASES.get(value, value), param, ctx)


_host = click.argument("host", type=_Host())
_scope = click.option(
    "--scope", type=click.Choice(["user", "project"]), default="user", help="Whose configuration. Default: user."
)
_dry = click.option("--dry-run", is_flag=True, help="Show the change and make none.")


@click.group("guard")
@debug_option
def command() -> None:
    """Policies inside a live agent: they see its calls and stops, and intervene.

    `misstep guard install HOST` puts them into an agent's hooks; `misstep guard log` tells what they did.
    """


@command.command()
@_host
@_scope
@_dry
@click.option("--trust", is_flag=True, help="Codex: also write that you trust these hooks.")
@debug_option
def install(host: str, scope: str, dry_run: bool, trust: bool) -> None:
    """Put the guard into HOST's hooks. Nothing else in its configuration is touched."""
    from misstep.guard.install import InstallError, carry_out, plan_install

    if trust and host != "codex":
        raise Failure(f"--trust is Codex's; {host} asks for none")
    try:
        plan = plan_install(host, scope, Path.cwd(), trust)
        _show(plan, dry_run)
        if not dry_run:
            carry_out(plan, installing=True)
    except InstallError as error:
        raise Failure(str(error)) from error
    if not dry_run:
        done = "was installed already" if plan.empty else "is installed"
        click.echo(f"The guard {done} for {host}: {plan.changes[0].path}")
        click.echo(f"Mode: {_mode()}. `misstep guard doctor {host}` checks that its hooks run.")


@command.command()
@_host
@_scope
@_dry
@debug_option
def uninstall(host: str, scope: str, dry_run: bool) -> None:
    """Take the guard out of HOST's hooks. An otherwise unchanged file becomes what it was, byte for byte."""
    from misstep.guard.install import InstallError, carry_out, plan_uninstall

    try:
        plan = plan_uninstall(host, scope, Path.cwd())
        _show(plan, dry_run)
        if not dry_run:
            carry_out(plan, installing=False)
    except InstallError as error:
        raise Failure(str(error)) from error
    if not dry_run:
        click.echo(f"The guard {'was not installed' if plan.empty else 'is gone'} for {host}.")


def _show(plan: Any, dry_run: bool) -> None:
    if dry_run:
        click.echo(plan.diff() or "Nothing to change.", nl=bool(not plan.diff()))
    for note in plan.notes:
        click.echo(f"Note: {note}", err=True)


@command.command()
@click.argument("mode", type=click.Choice(["enforce", "observe", "off"]))
@debug_option
def mode(mode: str) -> None:
    """Set what the guard does: enforce (intervene), observe (log all, intervene never) or off.

    $MISSTEP_GUARD, where it is set, comes before this.
    """
    _set("mode", mode)
    click.echo(f"Mode: {mode}")


@command.command()
@click.argument("portfolio", type=click.Path(exists=True, dir_okay=False), required=False)
@debug_option
def use(portfolio: str | None) -> None:
    """Use a PORTFOLIO: a file (TOML) or a lock that `misstep policies freeze` wrote. None: the catalogue's policies.

    $MISSTEP_PORTFOLIO, where it is set, comes before this.
    """
    from misstep.guard.choice import load
    from misstep.guard.portfolio import PortfolioError

    path = str(Path(portfolio).resolve()) if portfolio else ""
    try:
        made = load({"portfolio": path})
    except PortfolioError as error:
        raise Failure(str(error)) from error
    for rule in made.rules:
        try:
            known = [policy.id for policy in made.misstep(rule).policies]
        except (Exception, SystemExit) as error:
            raise Failure(f"{path}: policy {rule.policy}: {rule.module} cannot be used: {error}") from error
        if rule.policy not in known:
            raise Failure(f"{path}: policy {rule.policy}: {rule.module} has no such policy ({', '.join(known)})")
    _set("portfolio", path)
    click.echo(f"{len(made.rules)} policies from {path or 'the catalogue'}")


@command.command()
@click.option("--foreground", is_flag=True, help="Stay in this terminal.")
@click.option("--stop", is_flag=True, help="End the one that runs.")
@debug_option
def daemon(foreground: bool, stop: bool) -> None:
    """Keep one process that does the hooks' work: each hook then costs little more than a bare interpreter.

    It ends by itself when nobody has asked for half an hour, or when misstep is updated. Without it hooks do the same
    work, and nothing else changes.
    """
    from misstep.guard import daemon as resident

    path = Path(resident.socket_path())
    if stop:
        there = path.exists()
        path.unlink(missing_ok=True)  # it ends when its socket is gone; hooks do its work from now on
        click.echo("The daemon ends within ten seconds." if there else "No daemon runs.")
        return
    if foreground:
        resident.serve()
        return
    former = path.stat().st_ino if path.exists() else 0
    process = resident.start()
    for _ in range(100):
        if path.exists() and path.stat().st_ino != former:
            click.echo(f"The daemon runs as process {process}. `misstep guard daemon --stop` ends it.")
            return
        time.sleep(0.1)
    raise Failure(f"the daemon does not start: {path} is not there (`misstep guard daemon --foreground` shows why)")


def _set(key: str, value: str) -> None:
    from misstep.guard._files import InstallError, blamed, bytes_of, replace
    from misstep.guard._paths import make_folder, settings_file

    path = Path(settings_file())
    try:
        found = json.loads((bytes_of(path) or b"").decode() or "{}")
    except json.JSONDecodeError as error:
        raise Failure(f"{path}:{error.lineno}: not JSON: {error.msg}; mend it, or delete it") from error
    except InstallError as error:
        raise Failure(str(error)) from error
    except ValueError as error:
        raise Failure(f"{path}: not UTF-8; mend it, or delete it") from error
    if not isinstance(found, dict):
        raise Failure(f"{path}: not a JSON object; mend it, or delete it")
    found[key] = value
    if not value:
        del found[key]
    try:
        make_folder(str(path.parent))
        replace(path, (json.dumps(found, indent=2) + "\n").encode(), 0o600)
    except OSError as error:
        raise Failure(blamed(error, path)) from error


def _mode() -> str:
    from misstep.guard.choice import mode_of, settings

    return mode_of(settings())


@command.command()
@debug_option
def status() -> None:
    """Where the guard is installed, its mode and its policies."""
    from misstep.guard._paths import guard_home
    from misstep.guard.choice import load_from, settings, source
    from misstep.guard.health import notes
    from misstep.guard.install import InstallError, installed, scopes, unread
    from misstep.guard.portfolio import PortfolioError, Watch

    click.echo(f"Mode: {_mode()}    State: {guard_home()}")
    for note in notes(str(Path.cwd())):
        click.echo(_one(str(note), 1000))
    for host in _HOSTS:
        for scope, file in scopes(host, Path.cwd()).items():
            warned: list[str] = []
            try:
                how = installed(host, scope, Path.cwd())
                warned = unread(host, file) if how != "no" else []
            except InstallError as error:
                how = f"cannot be read: {error}"
            if how != "no" or scope == "user":
                click.echo(f"{host:12} {scope:8} {how:14} {file}")
            for why in warned:
                click.echo(f"Warning: {why}")
    where = source(settings(), str(Path.cwd()))
    try:
        rules = load_from(where, settings(), Watch()).rules
    except PortfolioError as error:
        raise Failure(str(error)) from error
    click.echo(f"Policies ({len(rules)}) of {where.path or 'the catalogue'}:")
    for rule in rules:
        click.echo(f"  {rule.policy:36} {rule.mode}" + (f"  put aside: {_one(rule.error, 400)}" if rule.error else ""))


@command.command()
@click.argument("host", type=_Host(), required=False)
@click.option("--live", is_flag=True, help="Also run the host for one turn, against a model on this machine.")
@debug_option
def doctor(host: str | None, live: bool) -> None:
    """Check HOST (default: every host that has the guard): version, configuration, trust, and that a hook runs."""
    from misstep.guard.doctor import PROGRAMS, Finding, examine, general

    bad = False

    def tell(name: str, found: list[Finding]) -> None:
        nonlocal bad
        for finding in found:
            bad = bad or finding.ok is False
            mark = {True: "ok", False: "BAD", None: "?"}[finding.ok]
            click.echo(f"{name:12} {mark:4} {_one(finding.what, 1000)}")

    tell("guard", general())
    seen = False
    for name in [host] if host else _HOSTS:
        found = examine(name, Path.cwd(), asked=host is not None, live=live)
        seen = seen or bool(found)
        tell(name, found)
    if not seen:
        import shutil

        there = [name for name in _HOSTS if shutil.which(PROGRAMS[name][0])]
        words = f"on the PATH: {', '.join(there)}" if there else "none is on the PATH"
        tell(
            "guard", [Finding(False, f"in no agent ({words}): `misstep guard install {there[0] if there else 'HOST'}`")]
        )
    if bad:
        raise click.exceptions.Exit(1)


@command.command()
@click.argument("session", required=False)
@click.option("--all", "everything", is_flag=True, help="Every event, not only those at which a policy fires.")
@click.option("--html", metavar="FILE", help="Write a self-contained page.")
@debug_option
def log(session: str | None, everything: bool, html: str | None) -> None:
    """What the guard did: the sessions, or in SESSION (an id or its beginning) what fired, why, and what came next."""
    from misstep.guard.health import told_faults
    from misstep.guard.journal import paths, read

    if html:
        from misstep.report.guard import page

        chosen = _found(session) if session else paths()
        try:
            Path(html).write_text(page((read(path) for path in chosen), time.time()), encoding="utf-8")
        except OSError as error:
            raise Failure(f"{html}: {error.strerror}") from error
        click.echo(f"{len(chosen)} sessions are written to {html}")
        return
    if session is None:
        found = paths()
        if not found:
            click.echo("No session was guarded yet.")
        for path in found[:50]:
            click.echo(_line(read(path)))
        if len(found) > 50:
            click.echo(f"... and {len(found) - 50} older ones")
        for number, line in enumerate(told_faults()):
            click.echo(("  " if number else "") + _one(line, 1000))
        return
    for path in _found(session):
        told = read(path)
        click.echo(_line(told))
        for policy, words in told.eligible.items():
            click.echo(f"  eligible for {policy}: {_one(words)}")
        if everything:
            _events(path)
        for firing in told.firings:
            _firing(firing)
        for note in told.notes:
            click.echo(f"  {_one(note, 1000)}")


def _found(session: str) -> list[Path]:
    """The logs of the one session whose id this is, or begins so; its sub-agents' included."""
    from misstep.guard._paths import guard_home
    from misstep.guard.journal import find

    root = Path(guard_home()) / "sessions"
    found: dict[tuple[str, str], list[Path]] = {}
    for path in find(session):
        host, name = path.relative_to(root).parts[:2]
        found.setdefault((host, name), []).append(path)
    exact = {key: logs for key, logs in found.items() if key[1] == session}
    found = exact or found
    if not found:
        raise Failure(f"no guarded session {session!r} (`misstep guard log` lists them)")
    if len(found) > 1:
        names = [f"{name} ({host})" for host, name in found]
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        raise Failure(f"{session!r} begins {len(names)} sessions: {', '.join(names[:10])}{more}")
    return next(iter(found.values()))


@command.command()
@click.option(
    "--days", type=click.FloatRange(0), help="Keep sessions of the last so many days; 0: no bound. Default: 90."
)
@click.option("--megabytes", type=click.FloatRange(0), help="Keep so much, the latest; 0: no bound. Default: 500.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and delete nothing.")
@debug_option
def prune(days: float | None, megabytes: float | None, dry_run: bool) -> None:
    """Delete old sessions from the log. Hooks do so once a day.

    The bounds are keep_days and keep_megabytes of settings.json in the guard's home; in scored runs nothing is deleted.
    """
    from misstep.guard.choice import settings
    from misstep.guard.prune import bounds
    from misstep.guard.prune import prune as pruned

    kept = bounds(settings())
    gone = pruned(kept[0] if days is None else days, kept[1] if megabytes is None else megabytes, time.time(), dry_run)
    size = sum(size for _, size, _ in gone) / 1e6
    click.echo(f"{len(gone)} sessions, {size:.1f} MB, {'would be' if dry_run else 'are'} deleted")


def _line(told: Log) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(told.started)) if told.started else "-"
    calls, stops = told.counts.get("before", 0), told.counts.get("stop", 0)
    did = sum(1 for f in told.firings if f.record.get("action"))
    name = f"{told.session}/{told.agent}" if told.agent else told.session
    return f"{when}  {told.host:12} {name}  {calls} calls, {stops} stops, {len(told.firings)} fired, {did} intervened"


def _firing(firing: Firing) -> None:
    record = firing.record
    names = ", ".join(row["policy"] + ("" if row["fired"] else " (held back)") for row in firing.policies)
    done = {"deny": "denied", "instruct": "instructed"}.get(record.get("action", ""), "nothing done")
    held = f": {record['held']}" if record.get("held") and not record.get("action") else ""
    click.echo(f"  #{record.get('at')} {names}: {done}{held}")
    click.echo(f"      at    {_event(firing.event)}")
    if record.get("text"):
        click.echo(f"      told  {_one(record['text'])}")
    for line in firing.next:
        click.echo(f"      then  {_event(line)}")


def _events(path: Path) -> None:
    from misstep.guard.journal import records

    for line in records(path):
        if line.get("e") not in (None, "decision"):
            click.echo(f"    {_event(line)}")


def _event(line: dict[str, Any]) -> str:
    from misstep.report.guard import event

    return _one(event(line))


def _one(text: str, most: int = 160) -> str:
    """One harmless line of at most so many characters, credentials left out."""
    from misstep.scan.redact import redact

    plain = "".join(c if c.isprintable() else " " for c in redact(text[:4000]))
    plain = " ".join(plain.split())
    return plain if len(plain) <= most else plain[: most - 3] + "..."
