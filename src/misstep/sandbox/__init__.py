"""Isolated roots for commands: start in milliseconds, replay exactly, branch.

`open_sandbox()` gives the embedded backend; see docs/sandbox.md.
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
    "Unavailable",
    "shorten",
]
