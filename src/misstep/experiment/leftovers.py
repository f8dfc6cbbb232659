"""What killed runs leave running: containers of Harbor's Docker trials, and sandboxes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from misstep.experiment.trials import MOUNTS

if TYPE_CHECKING:
    from misstep.experiment.design import Environment


def collect(environment: Environment, trials: Sequence[str]) -> int:
    """Remove what trials that did not end have left; how much it was. Never raises: what is left over costs, no more."""
    if environment.type not in MOUNTS:
        return (
            0  # our sandboxes end with their process, and the next removes their files; clouds have limits of their own
        )
    return sum(_containers(environment.type, _project(trial)) for trial in trials)


def _project(trial: str) -> str:
    """The compose project that Harbor makes of a trial's name."""
    name = re.sub(r"[^a-z0-9_-]", "-", trial.lower())
    return name if name[:1].isalnum() else f"0{name}"


def _containers(program: str, project: str) -> int:
    tool = shutil.which(program)
    if tool is None:
        return 0
    try:
        label = f"label=com.docker.compose.project={project}"
        found = subprocess.run(
            [tool, "ps", "-aq", "--filter", label], capture_output=True, text=True, timeout=60, check=False
        )
        ids = found.stdout.split()
        if ids:
            subprocess.run([tool, "rm", "-f", *ids], capture_output=True, timeout=120, check=False)
        networks = subprocess.run(
            [tool, "network", "ls", "-q", "--filter", label], capture_output=True, text=True, timeout=60, check=False
        )
        if networks.stdout.split():
            subprocess.run(
                [tool, "network", "rm", *networks.stdout.split()], capture_output=True, timeout=60, check=False
            )
        return len(ids)
    except (OSError, subprocess.SubprocessError):
        return 0
