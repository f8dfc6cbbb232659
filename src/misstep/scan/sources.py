"""Where the known agents keep their sessions on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A folder in which, or a file in which, an agent keeps sessions."""

    agent: str
    """The agent's name for a person."""
    path: Path


def places(home: Path | None = None, environ: Mapping[str, str] | None = None, here: Path | None = None) -> list[Place]:
    """The places that exist, in a fixed order, each folder once. A place that cannot be looked into is left out."""
    home = Path.home() if home is None else home
    environ = os.environ if environ is None else environ
    here = Path.cwd() if here is None else here
    found: list[Place] = []
    seen: set[tuple[int, int]] = set()
    for agent, path in _candidates(home, environ, here):
        try:
            info = path.stat()
        except (OSError, ValueError):
            continue
        if (info.st_dev, info.st_ino) not in seen:
            seen.add((info.st_dev, info.st_ino))
            found.append(Place(agent, path))
    return found


def looked() -> list[Path]:
    """Where `places` looks on this machine, whether it is there or not; * stands for any name."""
    found = dict.fromkeys(path for _, path in _candidates(Path.home(), os.environ, Path.cwd(), _ANY))
    return list(found)


class _Disk:
    """What is there."""

    def glob(self, root: Path, name: str) -> list[Path]:
        """`root/*/name`, sorted; empty where the folder cannot be listed."""
        try:
            return [root / entry / name for entry in sorted(os.listdir(root)) if (root / entry / name).is_dir()]
        except OSError:
            return []

    def named(self, root: Path, start: str, end: str) -> list[Path]:
        """What in the folder has a name that starts and ends so, sorted; empty where the folder cannot be listed."""
        try:
            return [root / name for name in sorted(os.listdir(root)) if name.startswith(start) and name.endswith(end)]
        except OSError:
            return []

    def holds(self, root: Path, marks: set[str], suffix: str, depth: int) -> bool:
        """Whether a folder some levels below has one of the marks, or a file with the suffix."""
        try:
            entries = sorted(os.scandir(root), key=lambda e: e.name)[:200]
        except OSError:
            return False
        if any(e.name in marks or (not marks and e.name.endswith(suffix)) for e in entries):
            return True
        folders = [e for e in entries if e.is_dir(follow_symlinks=False)]
        return depth > 1 and any(self.holds(Path(e.path), marks, suffix, depth - 1) for e in folders)


class _Any(_Disk):
    """What could be there."""

    def glob(self, root: Path, name: str) -> list[Path]:
        return [root / "*" / name]

    def named(self, root: Path, start: str, end: str) -> list[Path]:
        return [root / f"{start}*{end}"]

    def holds(self, root: Path, marks: set[str], suffix: str, depth: int) -> bool:
        return True


_DISK, _ANY = _Disk(), _Any()


def _candidates(home: Path, environ: Mapping[str, str], here: Path, disk: _Disk = _DISK) -> Iterator[tuple[str, Path]]:
    def under(variable: str, *default: str) -> list[Path]:
        """The folders a variable names (several are separated by commas), or the default below the home folder."""
        named = [Path(part.strip()).expanduser() for part in environ.get(variable, "").split(",") if part.strip()]
        return named or [home.joinpath(*default)]

    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if sys.platform == "darwin":
        config_mini = home / "Library" / "Application Support" / "mini-swe-agent"
    else:
        config_mini = config / "mini-swe-agent"

    for root in under("CLAUDE_CONFIG_DIR", ".claude"):
        yield "Claude Code", root / "projects"
    if not environ.get("CLAUDE_CONFIG_DIR"):
        yield "Claude Code", config / "claude" / "projects"
    for root in under("CODEX_HOME", ".codex"):
        yield "Codex", root / "sessions"
        yield "Codex", root / "archived_sessions"
    for root in under("GEMINI_CLI_HOME", ".gemini"):
        root = root if root.name == ".gemini" else root / ".gemini"
        yield from (("Gemini CLI", path) for path in disk.glob(root / "tmp", "chats"))
    for root in under("QWEN_HOME", ".qwen"):
        yield from (("Qwen Code", path) for path in disk.glob(root / "projects", "chats"))
        yield from (("Qwen Code", path) for path in disk.glob(root / "tmp", "chats"))
    for root in under("COPILOT_HOME", ".copilot"):
        yield "Copilot CLI", root / "session-state"
        yield "Copilot CLI", root / "history-session-state"
    # The database since 1.2, one a release channel; the folder before. The folder is kept for other things still.
    named = environ.get("OPENCODE_DB", "")
    if named and named != ":memory:":
        yield "OpenCode", data / "opencode" / named
    yield from (("OpenCode", path) for path in disk.named(data / "opencode", "opencode", ".db"))
    if disk is _ANY or (data / "opencode" / "storage" / "session").is_dir():
        yield "OpenCode", data / "opencode" / "storage"
    for root in under("OPENHANDS_STATE_DIR", ".openhands"):
        yield "OpenHands", root / "sessions"
        yield "OpenHands", root / "conversations"
    for root in under("OPENHANDS_PERSISTENCE_DIR", ".openhands"):
        yield from (("OpenHands", path) for path in under("OPENHANDS_CONVERSATIONS_DIR", str(root / "conversations")))
    mini = environ.get("MSWEA_GLOBAL_CONFIG_DIR")
    for name in ("last_mini_run.traj.json", "trajectories"):
        yield "mini-swe-agent", (Path(mini).expanduser() if mini else config_mini) / name
    # Common names for folders of other things too: only where what an evaluation leaves is in them.
    for agent, path, marks in (
        ("Harbor", here / "jobs", {"result.json", "config.json"}),
        ("Terminal-Bench", here / "runs", {"results.json", "run_metadata.json"}),
        ("SWE-agent", here / "trajectories", set()),
    ):
        if disk.holds(path, marks, ".traj", 3):
            yield agent, path
