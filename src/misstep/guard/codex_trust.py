"""Codex runs a hook only if its configuration says that a person trusts it: by the hash of what the hook is.

`guard install codex` says how to trust; it writes the trust itself only with `--trust`.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._files import InstallError, bytes_of, hooks_of, original_of

if TYPE_CHECKING:
    from .install import Plan

_HEADER = re.compile(r'^\[hooks\.state\."((?:[^"\\]|\\.)*)"\][ \t]*(?:#.*)?\r?$', re.M)


def hook_hash(event: str, handler: dict[str, Any], matcher: str | None = None) -> str:
    """The hash by which Codex knows a hook. event in snake case: pre_tool_use."""
    known: dict[str, Any] = {
        "async": bool(handler.get("async", False)),
        "command": handler["command"],
        "timeout": handler.get("timeout", 600),
        "type": "command",
    }
    if handler.get("statusMessage") is not None:
        known["statusMessage"] = handler["statusMessage"]
    identity: dict[str, Any] = {"event_name": event, "hooks": [known]}
    if matcher is not None:
        identity["matcher"] = matcher
    data = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return "sha256:" + hashlib.sha256(data).hexdigest()


def snake(event: str) -> str:
    """PreToolUse -> pre_tool_use."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def entries(hooks_file: Path, text: str) -> dict[str, str]:
    """Trust key -> hash of our hooks in the text of a hooks.json, also of those in a group with a person's own."""
    from .install import is_ours

    found: dict[str, str] = {}
    for event, groups in hooks_of(text, odd=True).items():
        for place, group in enumerate(groups if isinstance(groups, list) else []):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for number, handler in enumerate(handlers if isinstance(handlers, list) else []):
                if is_ours({"hooks": [handler]}) and isinstance(handler.get("command"), str):
                    key = f"{hooks_file}:{snake(event)}:{place}:{number}"
                    found[key] = hook_hash(snake(event), handler, group.get("matcher"))
    return found


def with_trust(text: str, wanted: dict[str, str]) -> str:
    """The text of a config.toml with these trust entries: replaced where they are, else added at its end.

    All else in it stays. Raises ValueError where that cannot be.
    """
    before, line = text, "\r\n" if "\r\n" in text else "\n"
    for key, value in wanted.items():
        quoted = key.replace("\\", "\\\\").replace('"', '\\"')
        section = _section(text, quoted)
        if section is None:
            gap = "" if not text.strip("\ufeff") else line if text.endswith("\n") else line * 2
            text = f'{text}{gap}[hooks.state."{quoted}"]{line}trusted_hash = "{value}"{line}'
            continue
        start, end = section
        body = text[start:end]
        changed, count = re.subn(r'^(\s*trusted_hash\s*=\s*)"[^"\n]*"', rf'\g<1>"{value}"', body, count=1, flags=re.M)
        if not count:
            head, _, rest = body.partition("\n")
            changed = f'{head.rstrip()}{line}trusted_hash = "{value}"{line}{rest}'
        text = text[:start] + changed + text[end:]
    _same(before, text, set(wanted))
    check(text, wanted)
    return text


def without_trust(text: str, keys: set[str]) -> str:
    """The text without the trust entries of these keys; all else stays. Raises ValueError where that cannot be."""
    before = text
    for key in keys:
        section = _section(text, key.replace("\\", "\\\\").replace('"', '\\"'))
        if section is not None:
            start, end = section
            for blank in ("\r\n", "\n"):
                if text[:start].endswith(blank * 2):
                    start -= len(blank)
                    break
            text = text[:start] + text[end:]
    if text != before:
        _same(before, text, keys)
    return text


def _same(before: str, after: str, keys: set[str]) -> None:
    """Raises ValueError where two texts differ in more than the trust of these keys."""
    left, right = _loaded(before), _loaded(after)
    for found in (left, right):
        state = _state(found)
        for key in keys & state.keys():
            if isinstance(state[key], dict):
                state[key].pop("trusted_hash", None)
            if not state[key]:
                del state[key]
        if not state and isinstance(found.get("hooks"), dict):
            found["hooks"].pop("state", None)
            if not found["hooks"]:
                del found["hooks"]
    if left != right:
        raise ValueError("its trust entries cannot be edited alone: use /hooks in Codex")


def _loaded(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text.removeprefix("\ufeff"))


def _state(found: dict[str, Any]) -> dict[str, Any]:
    hooks = found.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    return state if isinstance(state, dict) else {}


def _section(text: str, quoted: str) -> tuple[int, int] | None:
    for match in _HEADER.finditer(text):
        if match[1] == quoted:
            following = re.search(r"^\s*\[", text[match.end() :], re.M)
            end = len(text) if following is None else match.end() + following.start()
            body = text[match.start() : end]
            # blank lines and comments above the next header belong to it
            lines = body.split("\n")
            while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
                lines.pop()
            end = min(end, match.start() + len("\n".join(lines)) + 1)
            return match.start(), end
    return None


def check(text: str, wanted: dict[str, str]) -> None:
    """Raises ValueError where Codex would not read these entries from the text."""
    state = _state(_loaded(text))
    for key, value in wanted.items():
        entry = state.get(key)
        if not isinstance(entry, dict) or entry.get("trusted_hash") != value:
            raise ValueError(f"no place for the trust entry {key}")


def _is_toml(error: ValueError) -> bool:
    """Whether our addition is what makes the text no TOML: the entries stand there in another form."""
    import tomllib

    return isinstance(error, tomllib.TOMLDecodeError)


def plan_trust(plan: Plan, path: Path, text: str, trust: bool, scope: str, project: Path) -> None:
    """Add the trust entries to a plan where asked for, else say how to trust."""
    import os

    from .install import Change

    home = Path(os.environ.get("CODEX_HOME") or Path("~/.codex").expanduser())
    config = home / "config.toml"
    before = bytes_of(config)
    wanted = entries(path, text)
    try:
        now = (before or b"").decode()
        _loaded(now)
    except ValueError as error:
        if trust:
            raise InstallError(f"{config}: no TOML: {error}") from None
        now = ""
    if trust:
        try:
            plan.changes.append(Change(config, before, with_trust(now, wanted).encode()))
        except ValueError as error:
            fault = "its trust entries cannot be edited: use /hooks in Codex" if _is_toml(error) else error
            raise InstallError(f"{config}: {fault}") from None
    else:
        try:
            check(now, wanted)
        except ValueError:
            plan.notes.append(
                "Codex skips hooks silently until you trust them: open `codex` once and accept them under /hooks, or let "
                f"`misstep guard install codex --trust` write the trust into {config}."
            )
    if scope == "project":
        plan.notes.append(
            f"Codex reads a project's hooks only where {config} trusts the project: "
            f'[projects."{project.resolve()}"] trust_level = "trusted".'
        )


def plan_distrust(plan: Plan, path: Path) -> None:
    """Take our trust entries out. Raises InstallError."""
    import os

    from .install import Change

    config = Path(os.environ.get("CODEX_HOME") or Path("~/.codex").expanduser()) / "config.toml"
    plan.known.append(config)
    before = bytes_of(config)
    if before is None:
        return
    original, exact = original_of(config, before)
    if exact:
        plan.changes.append(Change(config, before, original))
        return
    data = bytes_of(path)
    try:
        keys = set(entries(path, data.decode())) if data is not None else set()
    except ValueError:
        keys = set()
    try:
        after = without_trust(before.decode(), keys).encode()
    except ValueError as error:
        if keys and any(f'"{key}"'.encode() in before for key in keys):
            raise InstallError(f"{config}: {error}") from None
        return
    if after != before:
        plan.changes.append(Change(config, before, after))


__all__ = ["check", "entries", "hook_hash", "plan_distrust", "plan_trust", "snake", "with_trust", "without_trust"]
