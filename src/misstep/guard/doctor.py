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
from ._paths import guard_home, make_folder
from .hosts import host
from .install import InstallError, blamed, command, config_file, installed, scopes, unread

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


def general() -> list[Finding]:
    """What holds for every host: the mode, the portfolio, the guard's home. Each of them can keep all hooks silent."""
    from .choice import load_from, mode_of, settings, source
    from .health import notes
    from .portfolio import PortfolioError, Watch

    found = [Finding(note.ok, note.what) for note in notes(str(Path.cwd()))]
    mode = mode_of(settings())
    setter = "$MISSTEP_GUARD" if os.environ.get("MISSTEP_GUARD") else "`misstep guard mode`"
    if mode == "off":
        found.append(Finding(False, f"the mode is off ({setter}): hooks log nothing and do nothing"))
    elif mode == "observe":
        found.append(Finding(None, f"the mode is observe ({setter}): hooks log what they would do, and do nothing"))
    try:
        where = source(settings(), str(Path.cwd()))
        rules = load_from(where, settings(), Watch()).rules
        acting = [rule for rule in rules if not rule.error]
        words = f"{len(acting)} policies of {where.path or 'the catalogue'}, mode {mode}"
        found.append(Finding(bool(acting) or mode == "off", words))
        found += [Finding(False, f"policy {r.policy} is put aside: {r.error}") for r in rules if r.error]
    except PortfolioError as error:
        found.append(Finding(False, f"no policy acts: {error}"))
    home = Path(guard_home())
    try:
        make_folder(str(home))
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        found.append(Finding(False, f"{blamed(error, home)}: hooks can write no log in {home}"))
    return found


def examine(name: str, project: Path, asked: bool = True, live: bool = False) -> list[Finding]:
    """All findings for a host; [] where the guard is not in it and nobody asked for it.

    live: also run the host itself for one turn, against a model on this machine.
    """
    program = shutil.which(PROGRAMS[name][0])
    try:
        how = {scope: installed(name, scope, project) for scope in scopes(name, project)}
    except InstallError as error:
        return [Finding(False, f"configuration: {error}")]
    here = [scope for scope in how if how[scope] != "no"]
    if not here and not asked:
        return []
    found = [_version(name, program)]
    if not here:
        return [*found, Finding(False, f"not installed (`misstep guard install {name}`)")]
    for scope in here:
        advice = "" if how[scope] == "yes" else f": run `misstep guard install {name} --scope {scope}` again"
        what = f"{config_file(name, scope, project)}: installed: {how[scope]}{advice}"
        found.append(Finding(how[scope] == "yes", what))
        found += [Finding(False, why) for why in unread(name, config_file(name, scope, project))]
    if len(here) > 1:
        once = getattr(host(name), "ONCE", None)
        if once is not True:
            twice = "which gives each event twice" if once is False else "which may give each event twice"
            advice = f"`misstep guard uninstall {name}`, with --scope project for the project's"
            found.append(Finding(once, f"installed for the user and for the project, {twice}: {advice}"))
    found.append(_canary(name))
    found += _switched_off(name, program, project)
    if name == "codex":
        found += _trust(program, config_file(name, here[0], project), project)
    found.append(_flight(name, program, project if "project" in here else None) if live else _seen(name))
    return found


def _flight(name: str, program: str | None, project: Path | None) -> Finding:
    """The host itself, for one turn; in the project where the project's configuration holds the hooks."""
    from .canary import Grounded, flies

    if program is None:
        return Finding(None, f"--live: {PROGRAMS[name][0]} is not on the PATH, so it cannot be run")
    try:
        ok, seen = flies(name, program, project)
        note = getattr(host(name), "PROJECT_NOTE", "") if project is not None and not ok else ""
        return Finding(ok, f"{seen}. {note}" if note else seen)
    except Grounded as error:
        return Finding(None, f"--live: {error}")


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


def _canary(name: str) -> Finding:
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
            return Finding(False, f"canary: the hook does not run: {error}")
        taken = (time.perf_counter() - start) * 1000
        log = Path(folder, "guard", "sessions", name, "canary", "log.jsonl")
        if done.returncode == 0 and not done.stdout and log.is_file() and '"e":"start"' in log.read_text():
            return Finding(True, f"canary: the hook ran and logged its event in {taken:.0f} ms")
        said = " ".join(done.stderr.split())[-200:] or "it logged nothing"
        return Finding(False, f"canary: the hook failed: {said}")


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


def _switched_off(name: str, program: str | None, project: Path) -> list[Finding]:
    """Settings, of the user or of the project, that keep hooks from running."""
    if name == "codex":
        return _codex_features(program, project)
    found = []
    for path in _settings_files(name, project):
        try:
            given = jsonc.parse(path.read_text(encoding="utf-8-sig")).plain()
        except (OSError, ValueError):
            continue
        if not isinstance(given, dict):
            continue
        if given.get("disableAllHooks") is True and name in ("claude-code", "qwen-code"):
            found.append(Finding(False, f"{path}: disableAllHooks is set: no hook runs"))
        if name in ("gemini-cli", "qwen-code"):
            for key in ("hooksConfig", "hooks"):
                config = given.get(key)
                if not isinstance(config, dict):
                    continue
                if config.get("enabled") is False:
                    found.append(Finding(False, f"{path}: {key}.enabled is false: no hook runs"))
                names = config.get("disabled")
                if isinstance(names, list) and "misstep-guard" in names:
                    found.append(Finding(False, f"{path}: {key}.disabled names misstep-guard: our hooks do not run"))
    return found


def _settings_files(name: str, project: Path) -> list[Path]:
    files = list(scopes(name, project).values())
    if name == "claude-code":
        files += [path.with_name("settings.local.json") for path in files]
    return files


def _codex_features(program: str | None, project: Path) -> list[Finding]:
    """Whether Codex's own feature is on, as Codex says; without it, as its configuration says."""
    name = ""
    if program is not None:
        try:
            done = subprocess.run(
                [program, "features", "list"],
                cwd=project,
                capture_output=True,
                text=True,
                timeout=30,
                stdin=subprocess.DEVNULL,
            )
            rows = [line.split() for line in done.stdout.splitlines()]
            off = [row[0] for row in rows if row and row[0] in ("hooks", "codex_hooks") and row[-1] == "false"]
            on = [row[0] for row in rows if row and row[0] in ("hooks", "codex_hooks") and row[-1] == "true"]
            if on:
                return []
            name = off[0] if off else ""
        except (OSError, subprocess.SubprocessError):
            pass
    import tomllib

    files = [path.with_name("config.toml") for path in scopes("codex", project).values()]
    for path in files:
        try:
            features = tomllib.loads(path.read_text(encoding="utf-8")).get("features")
        except (OSError, ValueError):
            continue
        for key in ("hooks", "codex_hooks"):
            if isinstance(features, dict) and features.get(key) is False:
                return [Finding(False, f"{path}: features.{key} is false: no hook runs")]
    return [Finding(False, f"Codex says that its feature {name} is off: no hook runs")] if name else []


def _seen(name: str) -> Finding:
    """Whether a hook of ours ever ran in this host."""
    root = Path(guard_home()) / "sessions" / host(name).NAME
    latest = max((p.stat().st_mtime for p in root.rglob("log.jsonl")), default=None)
    if latest is None:
        return Finding(None, "no session of this host was guarded yet: start one, then ask again")
    return Finding(True, f"the last guarded event was at {time.strftime('%Y-%m-%d %H:%M', time.localtime(latest))}")
