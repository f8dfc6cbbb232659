"""Isolated roots for commands: start in milliseconds, replay exactly, branch.

`misstep.sandbox.bubblewrap` is the embedded backend, `misstep.sandbox.harbor` the other; see docs/sandbox.md.
"""

from __future__ import annotations

from misstep.sandbox.base import (
    Bind,
    Done,
    Limits,
    Observation,
    Process,
    Root,
    Sandbox,
    SandboxError,
    SandboxGone,
    Shell,
    State,
    Terminal,
    Unavailable,
    shorten,
)

__all__ = [
    "Bind",
    "Done",
    "Limits",
    "Observation",
    "Process",
    "Root",
    "Sandbox",
    "SandboxError",
    "SandboxGone",
    "Shell",
    "State",
    "Terminal",
    "Unavailable",
    "shorten",
]
