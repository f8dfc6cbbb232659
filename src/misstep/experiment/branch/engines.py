"""What continues a branch: our own loop in this process, or one of Harbor's agents in a trial of its own (`trials`)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from misstep.experiment.branch import forms
from misstep.experiment.branch.loop import Continuation, Ended, Situation, opening, opening_steps
from misstep.experiment.branch.records import Branched
from misstep.experiment.branch.treatment import PointLost, Treatment, treatment
from misstep.experiment.outcomes import funnel
from misstep.experiment.outcomes.words import said_so
from misstep.experiment.runs.archive import now
from misstep.sandbox import roots
from misstep.sandbox.base import SandboxError
from misstep.trajectory import Trajectory, atif_out
from misstep.trajectory.model import Outcome, Step

if TYPE_CHECKING:
    from misstep.experiment.branch.design import BranchDesign
    from misstep.experiment.branch.rebuild import Rebuilt
    from misstep.sandbox.base import Root
    from misstep.sandbox.bubblewrap import BubblewrapSandbox
    from misstep.sandbox.replay import Start
    from misstep.sandbox.tasks import Task

CONTINUED = "continued"
"""The folder of the continuations' records."""


@dataclass(frozen=True, slots=True)
class Work:
    """One continuation to make."""

    rebuilt: Rebuilt
    task: Task
    arm: str
    number: int
    candidate: int
    seed: int

    @property
    def sample(self) -> int:
        """Tells this continuation apart from all others to the model's cache."""
        return _hash(self.seed, self.rebuilt.point.id, self.arm, self.number, self.candidate)

    @property
    def name(self) -> str:
        """Of its record: it says nothing of the arm."""
        return f"{self.rebuilt.point.id}-{self.sample:08x}"

    def record(self, **given: Any) -> Branched:
        """Its record."""
        point = self.rebuilt.point
        return Branched(
            point=point.id,
            task=point.task,
            policy=point.policy,
            arm=self.arm,
            number=self.number,
            candidate=self.candidate,
            replayed=bool(self.rebuilt.verified.live),
            **given,
        )


def _hash(*what: Any) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps(what).encode()).digest()[:4], "big")


class Engine(Protocol):
    """Makes one continuation from a rebuilt point to the verifier's verdict. Never raises for a fault of one continuation."""

    async def run(self, work: Work) -> Branched: ...


def root_of(design: BranchDesign) -> Root:
    """The root that stands for the tasks' images. Raises SandboxError."""
    named = design.environment.kwargs.get("root") or ("base" if roots.base_tar().exists() else "host")
    return roots.find(str(named))


def start_of(task: Task, root: Root, network: bool) -> Start:
    """What makes fresh sandboxes of a task, with this machine's network or with none, as the recorded attempt had it."""
    if not network:
        return task.start(root)
    from misstep.sandbox.bubblewrap import BubblewrapSandbox

    return lambda: BubblewrapSandbox(task.environment(root), limits=task.limits, env=task.env, network="host")


class InProcess:
    """Our own loop, or any `Continuation`, in a branch of the point's sandbox."""

    def __init__(self, agent: Continuation, plain: Mapping[str, Any], design: BranchDesign, folder: Path) -> None:
        self.agent, self.plain, self.design, self.folder = agent, plain, design, folder
        self.ends_session = bool(design.environment.kwargs.get("end_session", False))
        (folder / CONTINUED).mkdir(exist_ok=True)

    async def run(self, work: Work) -> Branched:
        """See `Engine.run`."""
        began, started = time.monotonic(), now()
        common: dict[str, Any] = {"started": started, "agent": self.agent.name, "simulated": self.design.simulated}
        point = work.rebuilt.point
        box: BubblewrapSandbox | None = None
        try:
            if work.rebuilt.pending is not None and work.rebuilt.pending.command is None:
                raise PointLost("the call at the point is none of a shell: our own loop cannot make it")
            arm = treatment(self.plain, point, work.arm, work.rebuilt.past, self.design.texts)
            box, shell = (await asyncio.to_thread(work.rebuilt.prefix.branch, 1))[0]
            recording = work.rebuilt.prefix.recording
            at = Situation(
                messages=work.rebuilt.messages,
                box=box,
                treatment=arm,
                shell=shell if recording.lasting else None,
                workdir=recording.workdir,
                pending=work.rebuilt.pending,
                stopping=work.rebuilt.stopping,
                sample=work.sample,
                step=len(work.rebuilt.cut.steps),
            )
            ended = await self.agent.go(at)
            verdict = None if ended.fault else await judged(work.task, box, self.ends_session)
        except SandboxError as error:
            fault = " ".join(str(error).split())[:300]
            return work.record(termination="invalid", fault=fault, total_seconds=_since(began), **common)
        finally:
            if box is not None:
                await asyncio.to_thread(box.stop)
        whole = _whole(work, ended)
        passed, reward = verdict if verdict else (None, None)
        whole.outcome = Outcome(passed, reward, point.task, work.name)
        path = self.folder / CONTINUED / f"{work.name}.json"
        atif_out.write_file(whole, path)
        return work.record(
            termination=termination(ended, passed),
            passed=passed,
            reward=reward,
            fault=ended.fault,
            model=next((step.model for step in ended.steps if step.model), ""),
            answers=ended.answers,
            input_tokens=ended.input_tokens,
            cached_tokens=ended.cached_tokens,
            output_tokens=ended.output_tokens,
            cost_usd=ended.usd or None,
            seconds=round(ended.seconds, 3),
            total_seconds=_since(began),
            fired=dict(arm.fired),
            behaviour=funnel.behaviour([whole]).get(point.misstep),
            trajectory=f"{CONTINUED}/{path.name}",
            **common,
        )


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


async def judged(task: Task, box: BubblewrapSandbox, ends_session: bool) -> tuple[bool, float]:
    """(passed, reward) by the task's verifier. Raises NoReward, SandboxError."""
    if ends_session:
        await asyncio.to_thread(box.end_session)
    verdict = await asyncio.to_thread(task.verify, box)
    reward = verdict.rewards.get("reward")
    return verdict.passed, min(verdict.rewards.values()) if reward is None else reward


def termination(ended: Ended, passed: bool | None) -> str:
    """How a continuation ended, in the words of an attempt."""
    if ended.fault or passed is None:
        return "invalid"
    if passed:
        return "pass"
    if ended.why in ("steps", "seconds"):
        return "timeout"
    return "gave-up" if said_so(ended.message) else "fail"


def _whole(work: Work, ended: Ended) -> Trajectory:
    """The record of a continuation: the steps before the point, the call at it, and what followed."""
    cut, pending = work.rebuilt.cut, work.rebuilt.pending
    made = Trajectory(work.name, "atif", cut.agent, list(cut.steps[:-1]), "", cut.agent_version, cut.model, cut.cwd)
    old = cut.steps[-1]
    last = Step(old.source, old.message, old.reasoning, list(old.calls), dict(old.results))
    last.time, last.id, last.model, last.metrics, last.extra = old.time, old.id, old.model, old.metrics, old.extra
    last.stop = pending is None
    if pending is not None:
        last.calls.append(pending)
        if ended.first is not None:
            last.results[pending.id] = ended.first
    made.steps += [last, *ended.steps]
    return made


# -- whole attempts --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Attempted:
    """A whole attempt of our own loop."""

    trajectory: Trajectory
    ended: Ended
    passed: bool | None
    fired: dict[str, int]
    fault: str = ""


async def attempt(
    task: Task,
    root: Root,
    agent: Continuation,
    arm: Treatment,
    *,
    sample: int = 0,
    ends_session: bool = False,
    name: str = "",
) -> Attempted:
    """One attempt from the start on, in a fresh sandbox, under an arm: what a panel of whole runs makes."""
    instruction = task.instruction
    made = Trajectory(name or task.name, "atif", forms.AGENT, opening_steps(instruction))
    box: BubblewrapSandbox | None = None
    try:
        box = await asyncio.to_thread(task.sandbox, root)
        await asyncio.to_thread(box.start)
        made.cwd = box.workdir
        at = Situation(
            opening(instruction), box, arm, box.shell(), prompt=instruction, sample=sample, step=len(made.steps)
        )
        ended = await agent.go(at)
        made.steps += ended.steps
        verdict = None if ended.fault else await judged(task, box, ends_session)
    except SandboxError as error:
        return Attempted(made, Ended(why="fault"), None, dict(arm.fired), str(error))
    finally:
        if box is not None:
            await asyncio.to_thread(box.stop)
    passed, reward = verdict if verdict else (None, None)
    made.outcome = Outcome(passed, reward, task.name, made.id)
    return Attempted(made, ended, passed, dict(arm.fired), ended.fault)
