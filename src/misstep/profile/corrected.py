"""Steps that a teacher's correction took the place of: how a record keeps both."""

from __future__ import annotations

from misstep.profile.dialog import TOOL
from misstep.trajectory.model import Call, Step, Trajectory

PROPOSED, CORRECTIONS = "proposed", "corrections"
"""In a corrected step's `extra`: the policy's own step {message, command, model, metrics, reason}, and the teacher's tries."""


def as_proposed(trajectory: Trajectory, number: int) -> Trajectory:
    """The trajectory up to a step, with the policy's own proposal there where a correction took its place."""
    steps = list(trajectory.steps[: number + 1])
    if number < len(trajectory.steps):
        own = steps[number].extra.get(PROPOSED)
        if isinstance(own, dict) and isinstance(own.get("command"), str):
            step = Step("agent", str(own.get("message", "")), time=steps[number].time, model=str(own.get("model", "")))
            step.calls.append(Call(f"c{number}", TOOL, "shell", {"command": own["command"]}, own["command"]))
            step.stop = False
            steps[number] = step
    made = Trajectory(trajectory.id, trajectory.format, trajectory.agent, steps, trajectory.path)
    made.agent_version, made.model, made.cwd = trajectory.agent_version, trajectory.model, trajectory.cwd
    made.outcome, made.late = trajectory.outcome, trajectory.late
    return made
