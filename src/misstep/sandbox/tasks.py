"""Tasks in Harbor's folder format, run in our own sandboxes: for tests, demos, experiments and training.

task.toml, instruction.md, environment/Dockerfile, solution/solve.sh, tests/test.sh
wrong/*.sh      ours: plausible deliveries that the verifier must reject; Harbor does not read them
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from misstep.sandbox import image
from misstep.sandbox.base import Limits, Process, Root, SandboxError
from misstep.sandbox.bubblewrap import BubblewrapSandbox

VERIFIER_LOGS = "/logs/verifier"
_MOST_REWARD = 1 << 20  # bytes; what is longer is no reward


def _text(path: Path) -> str:
    """A file of a task folder. A pipe would never end, so it has to be a regular file."""
    if path.exists() and not path.is_file():
        raise SandboxError(f"{path}: expected a file")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SandboxError(f"{path}: expected text in UTF-8") from error
    except OSError as error:
        raise SandboxError(f"{path}: {error.strerror}") from error


class NoReward(SandboxError):
    """The verifier left no reward that can be read: nothing is known of the attempt."""


@dataclass(frozen=True)
class Task:
    """A task folder."""

    path: Path
    settings: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> Task:
        """Reads a task folder.

        Raises:
            SandboxError: it is none, or its task.toml cannot be read.
        """
        if not (path / "task.toml").is_file():
            why = "expected a file" if (path / "task.toml").exists() else "No such file or directory"
            raise SandboxError(f"{path} is no task folder: {why}: task.toml")
        try:
            settings = tomllib.loads(_text(path / "task.toml"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise SandboxError(f"{path / 'task.toml'}: {error}") from error
        return cls(path, settings)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def instruction(self) -> str:
        """What the agent is asked."""
        return _text(self.path / "instruction.md").strip()

    @property
    def wrong(self) -> list[Path]:
        """Scripts of deliveries that look right and are not."""
        return sorted((self.path / "wrong").glob("*.sh"))

    def _section(self, name: str) -> Mapping[str, Any]:
        section = self.settings.get(name, {})
        return section if isinstance(section, Mapping) else {}

    def _number(self, section: str, name: str, default: float | None) -> float | None:
        value = self._section(section).get(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise SandboxError(
                f"{self.path / 'task.toml'}: [{section}] {name}: expected a number above 0, found {value!r}"
            )
        return value

    @property
    def agent_seconds(self) -> float:
        return self._number("agent", "timeout_sec", None) or 600.0

    @property
    def verifier_seconds(self) -> float:
        return self._number("verifier", "timeout_sec", None) or 600.0

    @property
    def limits(self) -> Limits:
        """What task.toml gives it."""
        memory, cpus = self._number("environment", "memory_mb", 2048), self._number("environment", "cpus", None)
        return Limits(memory_mb=int(memory or 2048), cpus=cpus, seconds=self.agent_seconds)

    def environment(self, root: Root, images: Mapping[str, Root] | None = None) -> Root:
        """The task's own root, over the one that stands for its image."""
        return image.build(self.path / "environment" / "Dockerfile", root, images=images)

    @property
    def env(self) -> dict[str, str]:
        """Variables that task.toml gives every command."""
        return self.variables("environment")

    def variables(self, section: str) -> dict[str, str]:
        """Variables that a section of task.toml gives.

        Raises:
            SandboxError: they are no table, or cannot be a program's.
        """
        given = self._section(section).get("env", {})
        where = f"{self.path / 'task.toml'}: [{section}] env"
        if not isinstance(given, Mapping):
            raise SandboxError(f"{where}: expected a table of names and values, found {str(given)[:40]!r}")
        named = {str(name): str(value) for name, value in given.items()}
        for name, value in named.items():
            if not name or "=" in name or "\0" in name + value:
                raise SandboxError(f"{where}: {name!r} cannot be a variable")
        return named

    def settle(self) -> None:
        """Reads all of task.toml that a sandbox, a delivery and the verifier need.

        Raises:
            SandboxError: naming what is not as it should be.
        """
        _ = self.limits, self.verifier_seconds
        for section in ("environment", "solution", "verifier"):
            self.variables(section)
        workdir = self._section("environment").get("workdir")
        if workdir is not None and (not isinstance(workdir, str) or "\0" in workdir):
            raise SandboxError(f"{self.path / 'task.toml'}: [environment] workdir: expected a path, found {workdir!r}")

    def sandbox(self, root: Root) -> BubblewrapSandbox:
        """A sandbox of the task, not yet started."""
        return BubblewrapSandbox(self.environment(root), limits=self.limits, env=self.env)

    def start(self, root: Root) -> Callable[[], BubblewrapSandbox]:
        """What makes fresh sandboxes of the task: for replay."""
        return lambda: self.sandbox(root)

    def verify(self, sandbox: BubblewrapSandbox) -> Verdict:
        """Runs the verifier in the sandbox as it is.

        Raises:
            NoReward: it ended without one; its last line is named.
        """
        sandbox.exec(f"rm -rf {VERIFIER_LOGS} /tests && mkdir -p {VERIFIER_LOGS}", cwd="/", user="root", agent=False)
        sandbox.upload(self.path / "tests", "/tests")
        env = self.variables("verifier")
        done = sandbox.exec(
            ["bash", "/tests/test.sh"], env=env, user="root", timeout=self.verifier_seconds, merge=True, agent=False
        )
        rewards = self._rewards(sandbox)
        if rewards is None:
            said = done.text.strip().splitlines()
            why = "ran into its time limit" if done.timed_out else f"ended with {done.exit_code} and no reward"
            raise NoReward(f"the verifier of {self.name} {why}: {said[-1][:200] if said else 'it said nothing'}")
        return Verdict(rewards, done.text)

    @staticmethod
    def _rewards(sandbox: BubblewrapSandbox) -> dict[str, float] | None:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("reward.json", "reward.txt"):
                local = Path(folder, name)
                try:
                    sandbox.download(f"{VERIFIER_LOGS}/{name}", local)
                    if local.stat().st_size > _MOST_REWARD:
                        continue
                    read = (
                        json.loads(local.read_text()) if name.endswith("json") else {"reward": float(local.read_text())}
                    )
                    rewards = {str(key): float(value) for key, value in read.items()}
                except (SandboxError, ValueError, AttributeError, TypeError, OverflowError, RecursionError, OSError):
                    continue
                if all(math.isfinite(value) for value in rewards.values()):
                    return rewards
        return None

    def attempt(self, root: Root, script: Path | None = None, *, end_session: bool = True) -> Attempt:
        """Runs a script as an agent's session, ends the session, and verifies.

        Args:
            script: a delivery; the oracle's by default.
            end_session: whether what is attached to the session goes before the verifier runs.
        """
        script = script or self.path / "solution" / "solve.sh"
        with self.sandbox(root) as sandbox:
            sandbox.upload(script.parent, "/solution")
            env = self.variables("solution")
            done = sandbox.exec(["bash", f"/solution/{script.name}"], env=env, timeout=self.agent_seconds, merge=True)
            stays = sandbox.end_session() if end_session else sandbox.processes()
            return Attempt(done.text, done.exit_code, tuple(stays), self.verify(sandbox))


@dataclass(frozen=True)
class Verdict:
    """What the verifier gave."""

    rewards: Mapping[str, float]
    output: str

    @property
    def passed(self) -> bool:
        """Every reward is 1."""
        return bool(self.rewards) and all(value >= 1 for value in self.rewards.values())


@dataclass(frozen=True)
class Attempt:
    """One delivery and its verdict."""

    output: str
    exit_code: int
    stays: Sequence[Process]
    """What still ran when the session had ended."""
    verdict: Verdict


def find(folder: Path) -> list[Task]:
    """All tasks of a folder, by name."""
    return [Task.load(path.parent) for path in sorted(folder.glob("*/task.toml"))]
