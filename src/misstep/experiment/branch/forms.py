"""How our own loop talks with a model: the convention of `misstep.profile.dialog`, which profiling's rollouts keep as well."""

from __future__ import annotations

from misstep.profile.dialog import (
    AGENT,
    NOT_RUN,
    ONE,
    SUBMIT,
    SYSTEM,
    command_of,
    observed,
    proposed,
    spoken,
    submits,
)

__all__ = ["AGENT", "NOT_RUN", "ONE", "SUBMIT", "SYSTEM", "command_of", "observed", "proposed", "spoken", "submits"]
