"""Putting the guard into a host's configuration, and taking it out again.

What is there stays: our entries are added to the text of the file. The file as it was is kept beside the guard's state, so
that `uninstall` gives it back byte for byte when nothing else has changed it since; otherwise only our entries go.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import jsonc
from ._paths import digest, guard_home, make_folder
from .hosts import host

SECONDS = 30
"""After which a host may end a hook of ours; it never comes to that."""
HOOK = Path(__file__).resolve().with_name("hook.py")
MARK = "misstep/guard/hook.py"
"""By which our entries are known."""


class InstallError(Exception):
    """A configuration that cannot be edited, with the file's name."""


@dataclass
class Change:
    """One file, as it is and as it is to be; None: no file."""

    path: Path
    before: bytes | None
    after: bytes | None

    def diff(self) -> str:
        """The change as a unified diff, '' where there is none."""
        if self.before == self.after:
            return ""
        old = (self.before or b"").decode("utf-8", "replace").splitlines(keepends=True)
        new = (self.after or b"").decode("utf-8", "replace").splitlines(keepends=True)
        names = (
            str(self.path) if self.before is not None else "/dev/null",
            str(self.path) if self.after is not None else "/dev/null",
        )
        lines = difflib.unified_diff(old, new, *names)
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


@dataclass
class Plan:
    """What an installation changes, and what the user has to know."""

    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return all(c.before == c.after for c in self.changes)

    def diff(self) -> str:
        return "".join(c.diff() for c in self.changes)


def command(name: str) -> str:
    """The command line that a host runs. It is the same in every mode and arm. A missing file must not stop the agent."""
    python = getattr(sys, "_base_executable", None) or sys.executable
    return f"{shlex.quote(os.path.realpath(python))} -I -S {shlex.quote(str(HOOK))} {name} || :"


def is_ours(group: Any) -> bool:
    """Whether a group of hooks is one that the guard installed (from here or from another place)."""
    if isinstance(group, dict) and "hooks" not in group:
        return MARK in str(group.get("command") or group.get("bash"))  # a flat list
    handlers = group.get("hooks") if isinstance(group, dict) else None
    return (
        isinstance(handlers, list)
        and bool(handlers)
        and all(isinstance(h, dict) and MARK in str(h.get("command")) for h in handlers)
    )


def _places(groups: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Where our entries stand in the list of an event: whole groups, and commands in groups that are not ours alone."""
    for number, found in enumerate(groups if isinstance(groups, list) else ()):
        if is_ours(found):
            yield [number], found
        elif isinstance(found, dict) and isinstance(found.get("hooks"), list):
            for place, handler in enumerate(found["hooks"]):
                if isinstance(handler, dict) and MARK in str(handler.get("command")):
                    yield [number, "hooks", place], handler


def _is_current(place: list[str | int], found: Any, ours: dict[str, Any]) -> bool:
    """Whether what stands at a place is what an installation would write."""
    return bool(found == (ours if len(place) == 1 else ours["hooks"][0]))


def _cut_ours(text: str, event: str, stale: Callable[[list[str | int], Any], bool]) -> str:
    """The text without those of our entries for an event. Raises jsonc.JsoncError."""
    for place, found in reversed(list(_places(jsonc.parse(text).plain()["hooks"][event]))):
        if stale(place, found):
            text = jsonc.cut(text, ["hooks", event, *place])
    return text


def config_file(name: str, scope: str, project: Path) -> Path:
    """The file that holds a host's hooks."""
    adapter = host(name)
    variable, default, file = adapter.CONFIG
    if scope == "project":
        return project / getattr(adapter, "PROJECT", f"{Path(default).name}/{file}")
    given = os.environ.get(variable) if variable else None
    return (Path(given) if given else Path(default).expanduser()) / file


def scopes(name: str, project: Path) -> dict[str, Path]:
    """The configuration files of a host by scope; the user's alone where the project's is the same file (in the home)."""
    found = {scope: config_file(name, scope, project) for scope in ("user", "project")}
    if os.path.realpath(found["user"]) == os.path.realpath(found["project"]):
        del found["project"]
    return found


def blamed(error: OSError, path: Path) -> str:
    """What an error is about: not the file that could not be made, but what stands in the way of it."""
    place = Path(os.path.abspath(error.filename)) if isinstance(error.filename, str) else path
    for above in (place, *place.parents):
        if os.path.lexists(above):
            if above != path and not above.is_dir():
                return f"{above} is no folder"
            if above != place and not os.access(above, os.W_OK | os.X_OK):
                return f"{above}: {error.strerror or error}"
            break
    return f"{place}: {error.strerror or error}"


def group(name: str) -> dict[str, Any]:
    """Our entry for one event."""
    adapter = host(name)
    if hasattr(adapter, "entry"):
        entry: dict[str, Any] = adapter.entry(command(name), SECONDS)
        return entry
    handler = {"type": "command", "command": command(name), "timeout": SECONDS * adapter.TIMEOUT_UNIT}
    if adapter.NAMED:
        handler["name"] = "misstep-guard"
    return {"hooks": [handler]}


def plan_install(name: str, scope: str = "user", project: Path | None = None, trust: bool = False) -> Plan:
    """The changes that make a host run the guard. Raises InstallError."""
    adapter = host(name)
    where = project or Path.cwd()
    path = config_file(name, scope, where)
    before = _bytes(path)
    if hasattr(adapter, "whole_file"):
        if before is not None and MARK.encode() not in before:
            raise InstallError(f"{path} is there and is not ours")
        made = Plan([Change(path, before, adapter.whole_file(command(name)).encode())])
        made.notes += _project_note(adapter, scope)
        return made
    text = _text(path, before)
    if hasattr(adapter, "entry") and text.strip() == "{}":
        text = '{\n  "version": 1\n}\n'
    ours = group(name)
    try:
        found = jsonc.parse(text).plain()
        if not isinstance(found, dict):
            raise jsonc.JsoncError("the file is no object")
        hooks = found.get("hooks", {})
        if not isinstance(hooks, dict):
            raise jsonc.JsoncError("hooks is no object")
        for event in hooks:
            known = event in adapter.EVENTS
            cleared = _cut_ours(text, event, lambda place, e, known=known: not known or not _is_current(place, e, ours))  # type: ignore[misc]
            if cleared != text and not known and jsonc.bare(cleared, ["hooks", event]):
                cleared = jsonc.cut(cleared, ["hooks", event])
            text = cleared
        found = jsonc.parse(text).plain()
        for event in adapter.EVENTS:
            if not any(True for _ in _places(found.get("hooks", {}).get(event))):
                text = jsonc.added(text, ["hooks", event], ours)
    except jsonc.JsoncError as error:
        raise InstallError(f"{path}: {error}") from None
    plan = Plan([Change(path, before, text.encode())])
    if not getattr(adapter, "TRIED", True):
        plan.notes.append(f"{name} is served by its published contract; it was not tried with the real program")
    plan.notes += _project_note(adapter, scope)
    if hasattr(adapter, "plan_trust"):
        adapter.plan_trust(plan, path, text, trust, scope, where)
    return plan


def _project_note(adapter: Any, scope: str) -> list[str]:
    note = getattr(adapter, "PROJECT_NOTE", "")
    return [note] if note and scope == "project" else []


def plan_uninstall(name: str, scope: str = "user", project: Path | None = None) -> Plan:
    """The changes that take the guard out of a host. Raises InstallError."""
    adapter = host(name)
    path = config_file(name, scope, project or Path.cwd())
    plan = Plan()
    before = _bytes(path)
    if hasattr(adapter, "whole_file"):
        ours = before is not None and MARK.encode() in before
        return Plan([Change(path, before, None)]) if ours else plan
    if before is not None:
        after, exact = _original(path, before)
        if not exact:
            try:
                text = _text(path, before)
                found = jsonc.parse(text).plain()
                if not isinstance(found, dict):
                    raise jsonc.JsoncError("the file is no object")
                hooks = found.get("hooks")
                had = _had(path)
                for event in hooks if isinstance(hooks, dict) else {}:
                    cleared = _cut_ours(text, event, lambda place, e: True)
                    made = had is not None and event not in had
                    if cleared != text and made and jsonc.bare(cleared, ["hooks", event]):
                        cleared = jsonc.cut(cleared, ["hooks", event])
                    text = cleared
                if isinstance(hooks, dict) and had == set() and text.encode() != before and jsonc.bare(text, ["hooks"]):
                    text = jsonc.cut(text, ["hooks"])
                after = text.encode()
            except jsonc.JsoncError as error:
                raise InstallError(f"{path}: {error}") from None
        plan.changes.append(Change(path, before, after))
    if hasattr(adapter, "plan_distrust"):
        adapter.plan_distrust(plan, path)
    return plan


def carry_out(plan: Plan, installing: bool) -> None:
    """Make the changes, each file replaced at once, its mode kept. Raises InstallError, before any change where a file is
    read-only."""
    for change in plan.changes:
        if change.before is not None and change.before != change.after and _read_only(change.path):
            raise InstallError(f"{change.path} is read-only, and stays as it is")
    for change in plan.changes:
        if change.before == change.after:
            continue
        if _bytes(change.path) != change.before:
            raise InstallError(f"{change.path} changed meanwhile: run the command again")
        try:
            if installing:
                _remember(change)
            _replace(change.path, change.after)
        except OSError as error:
            raise InstallError(f"{change.path}: {error.strerror or error}") from None
        if not installing:
            _record(change.path).unlink(missing_ok=True)


def _read_only(path: Path) -> bool:
    """Whether a file's owner may not write it. By its mode: root may write all, and a rename asks no file."""
    try:
        return not path.stat().st_mode & 0o200 or not os.access(path, os.W_OK)
    except OSError:
        return False


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path}: {error.strerror or error}") from None


def _text(path: Path, data: bytes | None) -> str:
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        raise InstallError(f"{path}: not UTF-8") from None
    return text if text.strip() else "{}\n"


def _record(path: Path) -> Path:
    return Path(guard_home()) / "installs" / f"{digest(str(path).encode())}.json"


def _remember(change: Change) -> None:
    """Keep the file as it was, and the hash of what we make of it. A second installation keeps the first one's original."""
    record = _record(change.path)
    original = change.before
    known, exact = _original(change.path, change.before or b"")
    had = _had(change.path)
    if exact or had is None or MARK.encode() not in (change.before or b""):
        had = _containers(known if exact else original)
    if exact:
        original = known
    make_folder(str(record.parent))
    kept = {
        "path": str(change.path),
        "before": None if original is None else original.decode("latin-1"),
        "after": hashlib.sha256(change.after or b"").hexdigest(),
        "had": sorted(had),
    }
    _replace(record, json.dumps(kept).encode(), 0o600)


def _containers(data: bytes | None) -> set[str]:
    """The keys of `hooks` in a file that no entry of ours needs, "" for `hooks` itself: what stays when it is empty."""
    try:
        found = jsonc.parse(_text(Path(), data)).plain()
    except (jsonc.JsoncError, InstallError):
        return set()  # a file of another kind
    hooks = found.get("hooks") if isinstance(found, dict) else None
    return {"", *hooks} if isinstance(hooks, dict) else set()


def _had(path: Path) -> set[str] | None:
    """What `_containers` said of the file before the guard; None where that is not known."""
    try:
        kept = json.loads(_record(path).read_text())
        if "had" in kept:
            return {str(key) for key in kept["had"]}
        before = kept["before"]
        return _containers(None if before is None else before.encode("latin-1"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _original(path: Path, now: bytes) -> tuple[bytes | None, bool]:
    """The file as it was before the guard, and whether it is as the guard left it."""
    try:
        kept = json.loads(_record(path).read_text())
        if kept["after"] != hashlib.sha256(now).hexdigest():
            return None, False
        before = kept["before"]
        return (None if before is None else before.encode("latin-1")), True
    except (OSError, ValueError, KeyError, TypeError):
        return None, False


def _replace(path: Path, data: bytes | None, mode: int | None = None) -> None:
    # A settings file is often a link into a repository of dotfiles: the file it points to is the one to replace.
    path = Path(os.path.realpath(path))
    if data is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        try:
            mode = path.stat().st_mode & 0o777
        except OSError:
            mode = 0o600
    made = path.with_name(f"{path.name}.{os.getpid()}.new")
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
            os.fchmod(out.fileno(), mode)
        made.replace(path)
    except OSError:
        made.unlink(missing_ok=True)
        raise


def installed(name: str, scope: str = "user", project: Path | None = None) -> str:
    """'yes', 'no', 'partly' (events are missing) or 'other version' (another interpreter or place). Raises InstallError."""
    adapter = host(name)
    path = config_file(name, scope, project or Path.cwd())
    if hasattr(adapter, "whole_file"):
        there = _bytes(path)
        if there is None or MARK.encode() not in there:
            return "no"
        return "yes" if there == adapter.whole_file(command(name)).encode() else "other version"
    try:
        hooks = jsonc.parse(_text(path, _bytes(path))).plain().get("hooks", {})
        found = {e: list(_places(hooks.get(e, []))) for e in adapter.EVENTS}
    except (jsonc.JsoncError, AttributeError, TypeError) as error:
        raise InstallError(f"{path}: {error}") from None
    if not any(found.values()):
        return "no"
    if not all(found.values()):
        return "partly"
    ours = group(name)
    return "yes" if all(any(_is_current(*p, ours) for p in places) for places in found.values()) else "other version"
