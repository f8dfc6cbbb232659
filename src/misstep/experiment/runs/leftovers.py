"""What killed runs leave running: containers and networks of Harbor's Docker trials."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from misstep.experiment.runs.trials import MOUNTS

if TYPE_CHECKING:
    from misstep.experiment.plan.design import Environment

LABEL = "com.docker.compose.project"


def collect(environment: Environment, trials: Sequence[str]) -> int:
    """Remove what trials that did not end have left; how much it was. Never raises: what is left over costs, no more.

    Our sandboxes end with their process, and the next one to start removes their files. Clouds have limits of their own.
    """
    tool = shutil.which(environment.type) if environment.type in MOUNTS else None
    if tool is None or not trials:
        return 0
    begins = tuple(_project(trial) + "__" for trial in trials)
    gone = 0
    for what, remove in ((["ps", "-a"], ["rm", "-f"]), (["network", "ls"], ["network", "rm"])):
        listed = _run([tool, *what, "--filter", f"label={LABEL}", "--format", f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}'])
        ids = [one for one, _, project in (line.partition(" ") for line in listed) if project.startswith(begins)]
        if ids:
            _run([tool, *remove, *ids])
            gone += len(ids)
    return gone


def _project(trial: str) -> str:
    """How the names of the compose projects begin that Harbor makes for a trial: `...__env`, `...__verifier__...`."""
    name = re.sub(r"[^a-z0-9_-]", "-", trial.lower())
    return name if name[:1].isalnum() else f"0{name}"


def _run(words: list[str]) -> list[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
