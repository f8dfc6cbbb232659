"""Trajectories: the model, the stream of events, and the readers of every agent's own format."""

from .events import After, Before, Compact, Event, Interrupt, Prompt, Say, Stop, events
from .model import FAULTS, Call, Outcome, Result, Step, Trajectory

__all__ = [
    "FAULTS",
    "After",
    "Before",
    "Call",
    "Compact",
    "Event",
    "Interrupt",
    "Outcome",
    "Prompt",
    "Result",
    "Say",
    "Step",
    "Stop",
    "Trajectory",
    "events",
]
