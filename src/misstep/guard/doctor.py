"""Does the guard work here? Each answer comes from trying it, not from believing a file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import jsonc
from ._paths import guard_home
from .hosts import host
from .install import InstallError, command, config_file, installed

PROGRAMS = {
    "claude-code": ("claude", (2, 1, 197)),
    "codex": ("codex", (0, 146, 0)),
    "qwen-code": ("qwen", (0, 24, 0)),
    "gemini-cli": ("gemini", (0, 61, 0)),
    "copilot-cli": ("copilot", (1, 0, 0)),
    "cursor": ("cursor-agent", (0, 0, 0)),
    "opencode": ("opencode", (1, 18, 0)),
    "pi": ("pi", (1, 6, 0)),
}
"""The program of each host, and the oldest version that was tried."""


@dataclass
class Finding:
    """One thing that was looked at. ok: None where it cannot be told."""

    ok: bool | None
    what: str


def examine(name: str, project: Path, asked: bool = True, live: bool = False) -> list[Finding]:
    """All findings for a host; [] where neither the host nor the guard in it is there and nobody asked for it.

    live: also run the host itself for one turn, against a model on this machine.
    """
    program = shutil.which(PROGRAMS[name][0])
    try:
        scopes = {scope: installed(name, scope, project) for scope in ("user", "project")}
    except InstallError as error:
        return [Finding(False, f"configuration: {error}")]
    if not asked and not any(how != "no" for how in scopes.values()):
        return []
    found = [_version(name, program)]
    here = [scope for scope, how in scopes.items() if how != "no"]
    if not here:
        return [*found, Finding(False, f"not installed (`misstep guard install {name}`)")]
    for scope in here:
        how = scopes[scope]
        advice = "" if how == "yes" else f": run `misstep guard install {name} --scope {scope}` again"
        found.append(Finding(how == "yes", f"{config_file(name, scope, project)}: installed: {how}{advice}"))
        found += _canary(name)
        if name == "codex":
            found += _trust(program, config_file(name, scope, project), project)
    found += _switched_off(name, project)
    if live and program is not None:
        from .canary import flies

        try:
            found.append(Finding(*flies(name, program)))
        except ValueError as error:
            found.append(Finding(None, str(error)))
    else:
        found.append(_seen(name))
    return found


def _version(name: str, program: str | None) -> Finding:
    wanted = PROGRAMS[name][1]
    least = ".".join(map(str, wanted))
    if program is None:
        return Finding(None, f"{PROGRAMS[name][0]} is not on the PATH")
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(None, f"{program} --version: {error}")
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    if not match:
        return Finding(None, f"{program} does not say its version")
    version = tuple(map(int, match.groups()))
    known = version >= wanted
    return Finding(known, f"{program} is version {match[0]}" + ("" if known else f"; hooks were tried from {least} on"))


def _canary(name: str) -> list[Finding]:
    """Run the hook just as the host does, with a made-up session in a folder of its own."""
    line = command(name)
    with tempfile.TemporaryDirectory(prefix="misstep-canary-") as folder:
        event = next(e for e in host(name).EVENTS if e.lower() == "sessionstart")
        payload = {"session_id": "canary", "conversation_id": "canary", "hook_event_name": event, "cwd": folder}
        start = time.perf_counter()
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", line],
                input=json.dumps(payload),
                env={**os.environ, "MISSTEP_HOME": folder, "MISSTEP_GUARD": "observe"},
                capture_output=True,
                text=True,
                timeout=60,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return [Finding(False, f"canary: the hook does not run: {error}")]
        taken = (time.perf_counter() - start) * 1000
        log = Path(folder, "guard", "sessions", name, "canary", "log.jsonl")
        if done.returncode == 0 and not done.stdout and log.is_file() and '"e":"start"' in log.read_text():
            found = [Finding(True, f"canary: the hook ran and logged its event in {taken:.0f} ms")]
        else:
            said = " ".join(done.stderr.split())[-200:] or "it logged nothing"
            found = [Finding(False, f"canary: the hook failed: {said}")]
    home = Path(guard_home())
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        found.append(Finding(False, f"{home} cannot be written: {error.strerror}"))
    return found


def _trust(program: str | None, hooks_file: Path, project: Path) -> list[Finding]:
    """What Codex itself says about our hooks; it skips those that are not trusted without a word."""
    if program is None:
        return []
    try:
        listed = codex_hooks(program, project)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [Finding(None, f"trust: codex app-server does not tell ({error})")]
    ours = [h for h in listed if "misstep/guard/hook.py" in str(h.get("command"))]
    if not ours:
        return [Finding(False, f"trust: Codex does not see our hooks in {hooks_file} (is the project trusted?)")]
    bad = sorted({str(h.get("trustStatus")) for h in ours if h.get("trustStatus") not in ("trusted", "managed")})
    if bad:
        return [Finding(False, f"trust: hooks are {', '.join(bad)}: accept them in /hooks, or install with --trust")]
    return [Finding(True, f"trust: Codex trusts all {len(ours)} hooks")]


def codex_hooks(program: str, project: Path) -> list[dict[str, Any]]:
    """The hooks that Codex would run in a folder, as its app-server lists them."""
    requests = [
        {
            "id": 1,
            "method": "initialize",
            "params": {"clientInfo": {"name": "misstep", "title": "misstep", "version": "0"}},
        },
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(project)]}},
    ]
    process = subprocess.Popen(
        [program, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        for request in requests:
            process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                data = answer["result"]["data"]
                return [h for place in data for h in place["hooks"]]
        raise ValueError("it ended without an answer")
    except (KeyError, TypeError) as error:
        raise ValueError(f"an answer without {error}") from None
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(10)


def _switched_off(name: str, project: Path) -> list[Finding]:
    """Settings that keep all hooks from running."""
    path = config_file(name, "user", project)
    try:
        found = jsonc.parse(path.read_text()).plain()
    except (OSError, ValueError):
        return []
    if name == "claude-code" and found.get("disableAllHooks") is True:
        return [Finding(False, f"{path}: disableAllHooks is set")]
    if name in ("gemini-cli", "qwen-code"):
        config = found.get("hooksConfig")
        if found.get("disableAllHooks") is True or (isinstance(config, dict) and config.get("enabled") is False):
            return [Finding(False, f"{path}: hooks are switched off")]
    return []


def _seen(name: str) -> Finding:
    """Whether a hook of ours ever ran in this host."""
    root = Path(guard_home()) / "sessions" / host(name).NAME
    latest = max((p.stat().st_mtime for p in root.rglob("log.jsonl")), default=None)
    if latest is None:
        return Finding(None, "no session of this host was guarded yet: start one, then ask again")
    return Finding(True, f"the last guarded event was at {time.strftime('%Y-%m-%d %H:%M', time.localtime(latest))}")
