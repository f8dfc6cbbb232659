"""Putting the guard into a host's configuration, and taking it out again.

What is there stays: our entries are added to the text of the file. The file as it was is kept beside the guard's state, so
that `uninstall` gives it back byte for byte when nothing else has changed it since; otherwise only our entries go.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from . import jsonc
from ._files import (
    MARK,
    InstallError,
    blamed,
    bytes_of,
    forget,
    had_of,
    hooks_of,
    original_of,
    read_only,
    remember,
    replace,
    text_of,
)
from .hosts import host

SECONDS = 30
"""After which a host may end a hook of ours; it never comes to that."""
HOOK = Path(__file__).resolve().with_name("hook.py")


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
    known: list[Path] = field(default_factory=list)
    """The files that an installation may have changed."""

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
    before = bytes_of(path)
    if hasattr(adapter, "whole_file"):
        if before is not None and MARK.encode() not in before:
            raise InstallError(f"{path} is there and is not ours")
        made = Plan([Change(path, before, adapter.whole_file(command(name)).encode())])
        made.notes += [*_project_note(adapter, scope), *_twice_note(adapter, scope, where)]
        return made
    text = text_of(path, before)
    if hasattr(adapter, "entry") and text.strip() == "{}":
        text = '{\n  "version": 1\n}\n'
    ours = group(name)
    try:
        for event in hooks_of(text):
            known = event in adapter.EVENTS
            cleared = _cut_ours(text, event, lambda place, e, known=known: not known or not _is_current(place, e, ours))  # type: ignore[misc]
            if cleared != text and not known and jsonc.bare(cleared, ["hooks", event]):
                cleared = jsonc.cut(cleared, ["hooks", event])
            text = cleared
        hooks = hooks_of(text)
        for event in adapter.EVENTS:
            if not any(True for _ in _places(hooks.get(event))):
                text = jsonc.added(text, ["hooks", event], ours)
        warned = unread(name, path, text)
    except jsonc.JsoncError as error:
        raise InstallError(f"{path}: {error}") from None
    plan = Plan([Change(path, before, text.encode())])
    if not getattr(adapter, "TRIED", True):
        plan.notes.append(f"{name} is served by its published contract; it was not tried with the real program")
    plan.notes += [*warned, *_project_note(adapter, scope), *_twice_note(adapter, scope, where)]
    if hasattr(adapter, "plan_trust"):
        adapter.plan_trust(plan, path, text, trust, scope, where)
    return plan


def unread(name: str, path: Path, text: str | None = None) -> list[str]:
    """Why a host reads nothing of its own settings file, though we can.

    text: what the file is to hold; else what it holds. Raises InstallError, jsonc.JsoncError.
    """
    if hasattr(host(name), "whole_file"):
        return []
    found = jsonc.odd(text_of(path, bytes_of(path)) if text is None else text)
    words = [f"{jsonc.ODD[what]} in line {found[what]}" for what in getattr(host(name), "UNREAD", ()) if what in found]
    return [f"{path}: {' and '.join(words)}: {name} reads nothing of such a file, so no hook runs"] if words else []


def _project_note(adapter: Any, scope: str) -> list[str]:
    note = getattr(adapter, "PROJECT_NOTE", "")
    return [note] if note and scope == "project" else []


def _twice_note(adapter: Any, scope: str, project: Path) -> list[str]:
    """What to know where the guard is in the other scope too."""
    other = "user" if scope == "project" else "project"
    if getattr(adapter, "ONCE", False) or len(scopes(adapter.NAME, project)) < 2:
        return []
    try:
        if installed(adapter.NAME, other, project) == "no":
            return []
    except InstallError:
        return []
    words = f"with both, {adapter.NAME} gives each event twice, and limits run out too soon"
    return [f"It is installed for the {other} too: {words}. `misstep guard uninstall {adapter.NAME} --scope {other}`"]


def plan_uninstall(name: str, scope: str = "user", project: Path | None = None) -> Plan:
    """The changes that take the guard out of a host. Raises InstallError."""
    adapter = host(name)
    path = config_file(name, scope, project or Path.cwd())
    plan = Plan(known=[path])
    before = bytes_of(path)
    if hasattr(adapter, "whole_file"):
        if before is not None and MARK.encode() in before:
            plan.changes.append(Change(path, before, None))
        return plan
    if before is not None:
        after, exact = original_of(path, before)
        if not exact:
            try:
                text = whole = text_of(path, before)
                hooks = hooks_of(text, odd=True)
                had = had_of(path)
                for event in hooks:
                    cleared = _cut_ours(text, event, lambda place, e: True)
                    made = had is not None and event not in had
                    if cleared != text and made and jsonc.bare(cleared, ["hooks", event]):
                        cleared = jsonc.cut(cleared, ["hooks", event])
                    text = cleared
                if had == set() and text != whole and jsonc.bare(text, ["hooks"]):
                    text = jsonc.cut(text, ["hooks"])
                after = before if text == whole else text.encode()
            except jsonc.JsoncError as error:
                raise InstallError(f"{path}: {error}") from None
        plan.changes.append(Change(path, before, after))
    if hasattr(adapter, "plan_distrust"):
        adapter.plan_distrust(plan, path)
    return plan


def carry_out(plan: Plan, installing: bool) -> None:
    """Make the changes: all, or none where one of them fails. Each file is replaced at once, its mode and owner kept.

    Folders that an installation makes go with it. Raises InstallError, before any change where a file is read-only.
    """
    changes = [change for change in plan.changes if change.before != change.after]
    for change in changes:
        if change.before is not None and read_only(change.path):
            raise InstallError(f"{change.path} is read-only, and stays as it is")
    undo: list[Callable[[], None]] = []
    try:
        for change in changes:
            if bytes_of(change.path) != change.before:
                raise InstallError(f"{change.path} changed meanwhile: run the command again")
            try:
                if installing:
                    undo += remember(change.path, change.before, change.after)
                replace(change.path, change.after)
            except OSError as error:
                raise InstallError(blamed(error, change.path)) from None
            undo.append(partial(replace, change.path, change.before))
    except BaseException:
        for step in reversed(undo):
            with suppress(OSError):
                step()
        raise
    if not installing:
        for path in plan.known:
            forget(path)


def installed(name: str, scope: str = "user", project: Path | None = None) -> str:
    """'yes', 'no', 'partly' (events are missing) or 'other version' (another interpreter or place). Raises InstallError."""
    adapter = host(name)
    path = config_file(name, scope, project or Path.cwd())
    if hasattr(adapter, "whole_file"):
        there = bytes_of(path)
        if there is None or MARK.encode() not in there:
            return "no"
        return "yes" if there == adapter.whole_file(command(name)).encode() else "other version"
    try:
        hooks = hooks_of(text_of(path, bytes_of(path)), odd=True)
    except jsonc.JsoncError as error:
        raise InstallError(f"{path}: {error}") from None
    found = {e: list(_places(hooks.get(e))) for e in adapter.EVENTS}
    if not any(found.values()):
        return "no"
    if not all(found.values()):
        return "partly"
    ours = group(name)
    return "yes" if all(any(_is_current(*p, ours) for p in places) for places in found.values()) else "other version"
