"""Codex runs a hook only if its configuration says that a person trusts it: by the hash of what the hook is.

`guard install codex` says how to trust; it writes the trust itself only with `--trust`.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import jsonc

if TYPE_CHECKING:
    from .install import Plan

_HEADER = re.compile(r'^\[hooks\.state\."((?:[^"\\]|\\.)*)"\][ \t]*(?:#.*)?$', re.M)


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
    """Trust key -> hash of our hooks in the text of a hooks.json."""
    from .install import is_ours

    found: dict[str, str] = {}
    for event, groups in jsonc.parse(text).plain().get("hooks", {}).items():
        for place, group in enumerate(groups if isinstance(groups, list) else []):
            if is_ours(group):
                for number, handler in enumerate(group["hooks"]):
                    key = f"{hooks_file}:{snake(event)}:{place}:{number}"
                    found[key] = hook_hash(snake(event), handler, group.get("matcher"))
    return found


def with_trust(text: str, wanted: dict[str, str]) -> str:
    """The text of a config.toml with these trust entries: replaced where they are, else added at its end. Raises ValueError."""
    for key, value in wanted.items():
        quoted = key.replace("\\", "\\\\").replace('"', '\\"')
        section = _section(text, quoted)
        if section is None:
            gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
            text = f'{text}{gap}[hooks.state."{quoted}"]\ntrusted_hash = "{value}"\n'
            continue
        start, end = section
        body = text[start:end]
        changed, count = re.subn(r'^(\s*trusted_hash\s*=\s*)"[^"\n]*"', rf'\g<1>"{value}"', body, count=1, flags=re.M)
        if not count:
            head, _, rest = body.partition("\n")
            changed = f'{head}\ntrusted_hash = "{value}"\n{rest}'
        text = text[:start] + changed + text[end:]
    check(text, wanted)
    return text


def without_trust(text: str, keys: set[str]) -> str:
    """The text without the trust entries of these keys."""
    for key in keys:
        section = _section(text, key.replace("\\", "\\\\").replace('"', '\\"'))
        if section is not None:
            start, end = section
            if text[max(0, start - 2) : start] == "\n\n":
                start -= 1
            text = text[:start] + text[end:]
    return text


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
    import tomllib

    try:
        state = tomllib.loads(text).get("hooks", {}).get("state", {})
    except tomllib.TOMLDecodeError as error:
        raise ValueError(str(error)) from None
    for key, value in wanted.items():
        if state.get(key, {}).get("trusted_hash") != value:
            raise ValueError(f"no place for the trust entry {key}")


def plan_trust(plan: Plan, path: Path, text: str, trust: bool, scope: str, project: Path) -> None:
    """Add the trust entries to a plan where asked for, else say how to trust."""
    import os

    from .install import Change, InstallError, _bytes

    home = Path(os.environ.get("CODEX_HOME") or Path("~/.codex").expanduser())
    config = home / "config.toml"
    before = _bytes(config)
    now = (before or b"").decode("utf-8", "replace")
    wanted = entries(path, text)
    if trust:
        try:
            plan.changes.append(Change(config, before, with_trust(now, wanted).encode()))
        except ValueError as error:
            raise InstallError(f"{config}: {error}") from None
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
    """Take our trust entries out."""
    import os

    from .install import Change, _bytes, _original

    config = Path(os.environ.get("CODEX_HOME") or Path("~/.codex").expanduser()) / "config.toml"
    before = _bytes(config)
    if before is None:
        return
    original, exact = _original(config, before)
    if exact:
        plan.changes.append(Change(config, before, original))
        return
    text = before.decode("utf-8", "surrogateescape")
    data = _bytes(path)
    try:
        keys = set(entries(path, data.decode())) if data is not None else set()
    except ValueError:
        keys = set()
    after = without_trust(text, keys).encode("utf-8", "surrogateescape")
    if after != before:
        plan.changes.append(Change(config, before, after))


__all__ = ["check", "entries", "hook_hash", "plan_distrust", "plan_trust", "snake", "with_trust", "without_trust"]
