"""For Harbor, by import path: our sandbox as an environment that begins in a branched state, and agents that go on in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from harbor.agents.installed.claude_code import ClaudeCode
    from harbor.agents.installed.codex import Codex
except ImportError as error:  # pragma: no cover
    raise ImportError("Harbor is not installed: pip install 'misstep[harbor]'") from error

from misstep.experiment.branch.trials import recording_from
from misstep.sandbox.base import SandboxError
from misstep.sandbox.harbor import BubblewrapEnvironment
from misstep.sandbox.replay import Live

if TYPE_CHECKING:
    from harbor.environments.base import BaseEnvironment

    from misstep.sandbox.base import Root


class BranchedEnvironment(BubblewrapEnvironment):
    """Our sandboxes, begun at a decision point.

    Options beside those of BubblewrapEnvironment: `layers`, directories that come over the task's own root; `recording`,
    commands that are run before the agent comes, and have to show what they did at first.
    """

    def __init__(
        self, *args: Any, layers: list[str] | None = None, recording: list[Any] | None = None, **kwargs: Any
    ) -> None:
        self._layers = tuple(map(Path, layers or ()))
        self._recording = recording
        super().__init__(*args, **kwargs)

    def _build(self, force: bool) -> Root:
        root = super()._build(force)
        return replace(root, layers=(*root.layers, *self._layers))

    async def start(self, force_build: bool) -> None:
        await super().start(force_build)
        if self._recording is not None:
            await asyncio.to_thread(self._replay)

    def _replay(self) -> None:
        recording, shown = recording_from(self._recording or [])
        live = Live(recording, lambda: self.sandbox)
        for one, (grade, output, code) in zip(recording.commands, shown, strict=True):
            again = live.step(one)
            if (
                again.problem
                or again.exit_code != code
                or (grade == "exact" and again.output.strip() != output.strip())
            ):
                raise SandboxError(f"a branch's replay went another way at: {one.shown[:200]}")


class _Restored:
    """An agent whose conversation is restored, and who then is told what the arm says instead of the task."""

    def __init__(self, *args: Any, misstep: dict[str, Any], **kwargs: Any) -> None:
        self._prompt = str(misstep["prompt"])
        super().__init__(*args, **kwargs)

    async def load(self, instruction: str, environment: BaseEnvironment, context: Any) -> None:
        await super().load(self._prompt, environment, context)  # type: ignore[misc]


class RestoredCodex(_Restored, Codex):
    """Codex (`codex exec resume`)."""


class RestoredClaudeCode(_Restored, ClaudeCode):
    """Claude Code (`claude --resume`)."""
