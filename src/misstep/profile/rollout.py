"""One rollout of a policy on one task, in a sandbox, judged and corrected step by step (MiRL, profiling).

    policy answers -> localizer judges -> (bad: teacher corrects, localizer judges that) -> the command runs -> ... -> verifier

The localizer sees the steps that stand, with what they gave; the policy goes on from the corrected step as if it were its own.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from misstep.models import Answered, Message, ModelError, Rejected
from misstep.profile import dialog
from misstep.profile.asking import KINDS
from misstep.profile.corrected import CORRECTIONS, PROPOSED
from misstep.profile.labels import PASSING
from misstep.profile.view import Room, Views
from misstep.sandbox.base import Observation, SandboxError
from misstep.sandbox.tasks import NoReward
from misstep.trajectory.model import Call, Outcome, Step, Trajectory

if TYPE_CHECKING:
    from misstep.models import Client, Reply
    from misstep.profile.localizer import Localizer, Opinion
    from misstep.profile.teacher import Teacher, Try
    from misstep.sandbox.base import Root
    from misstep.sandbox.bubblewrap import BubblewrapSandbox
    from misstep.sandbox.shell import ResidentShell
    from misstep.sandbox.tasks import Task

T = TypeVar("T")
STEPS = 64
"""Answers of the policy in one rollout."""
_TOO_LONG = re.compile(
    r"context|too long|too large|maximum.{0,20}(?:length|tokens)|(?:length|tokens).{0,20}maximum", re.I
)


class Broken(Exception):
    """The rollout could not be finished, for a fault that another run may not meet. The text is `who: kind: message`."""


@dataclass(frozen=True)
class Rules:
    """How a rollout goes."""

    steps: int = STEPS
    votes: int = 1
    """Of the localizer, on each step."""
    command_seconds: float = dialog.COMMAND_SECONDS
    role: str = "policy"
    room: Room = field(default_factory=Room)


@dataclass(frozen=True, slots=True)
class Judged:
    """A step of the policy, as the localizer saw it."""

    step: int
    """Position in the trajectory's steps."""
    command: str
    opinion: Opinion
    tries: tuple[Try, ...] = ()
    """The teacher's; the last one stands in the trajectory, if its verdict is good."""


@dataclass(slots=True)
class Rolled:
    """A rollout that ended."""

    trajectory: Trajectory
    number: int
    end: str = "submitted"
    """submitted | steps (the limit) | context (the policy's is full) | discarded | broken"""
    reason: str = ""
    """Why it was discarded, or is broken."""
    judged: list[Judged] = field(default_factory=list)
    answers: dict[int, Answered] = field(default_factory=dict)
    """Of the policy, by step, those replaced by a correction among them."""
    malformed: int = 0
    """Answers without one command."""
    cut: int = 0
    """Answers cut off at the limit of tokens."""
    unverified: str = ""
    """Why the verifier has no verdict."""
    seconds: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether it is part of the profile."""
        return self.end not in ("discarded", "broken")


class Rollout:
    """One rollout. `run` it once."""

    def __init__(
        self,
        task: Task,
        number: int,
        root: Root,
        client: Client,
        localizer: Localizer,
        teacher: Teacher,
        rules: Rules,
        threads: Executor | None = None,
    ) -> None:
        """number: tells rollouts of one task apart, and draws the policy's answers. threads: for what waits on the sandbox."""
        self.task, self.root, self.client, self.rules = task, root, client, rules
        self.localizer, self.teacher, self._threads = localizer, teacher, threads
        instruction = task.instruction
        self.messages = dialog.opening(instruction)
        now = time.time()
        steps = [
            Step("system", self.messages[0].text, time=now),
            Step("user", instruction, time=now, prompt=True),
        ]
        self.trajectory = Trajectory(f"{task.name}-{number}", "atif", dialog.AGENT, steps)
        self.trajectory.model = client.settings.role(rules.role).model
        self.trajectory.agent_version = "1"
        self.rolled = Rolled(self.trajectory, number)
        self._views = Views(
            self.trajectory, rules.room
        )  # it puts a step into words once the next one is judged: then it stands
        self._box: BubblewrapSandbox | None = None
        self._shell: ResidentShell | None = None

    async def run(self) -> Rolled:
        """Runs to the end; what is at fault in it is told in `end` and `reason`. Raises what no rollout can go on from."""
        began, rolled = time.monotonic(), self.rolled
        try:
            self._box = await self._wait(lambda: self.task.sandbox(self.root))
            await self._wait(self._box.start)
            self.trajectory.cwd = self._box.workdir
            self._shell = self._box.shell()
            rolled.end = await self._run()
            if rolled.kept:
                await self._verify(self._box)
        except Broken as error:
            rolled.end, rolled.reason = "broken", str(error)
        except SandboxError as error:
            rolled.end, rolled.reason = "broken", f"sandbox: {_line(error)}"
        finally:
            if self._box is not None:
                # Also what unblocks a thread that waits for a command, where this rollout was called off.
                await asyncio.to_thread(self._box.stop)
        rolled.seconds = round(time.monotonic() - began, 3)
        return rolled

    async def _wait(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _run(self) -> str:
        for _ in range(self.rules.steps):
            try:
                reply: Reply[str] = await self.client.ask(self.rules.role, self.messages, sample=self.rolled.number)
            except Rejected as error:
                if self.rolled.answers and _TOO_LONG.search(str(error)):
                    return "context"
                raise _broken(self.rules.role, error) from None
            except ModelError as error:
                raise _broken(self.rules.role, error) from None
            end = await self._turn(reply.last)
            if end:
                return end
        return "steps"

    async def _turn(self, given: Answered) -> str:
        """One answer of the policy, to what came of it: how the rollout ends with it, '' where it goes on."""
        steps, rolled = self.trajectory.steps, self.rolled
        number = len(steps)
        rolled.answers[number] = given
        rolled.cut += given.finish == "length"
        answer = given.text if given.text.strip() else "(empty)"
        command = dialog.command_of(answer)
        step = self._step(number, answer, command, given)
        steps.append(step)
        if command is None or "\0" in command:
            step.calls.clear()
            rolled.malformed += 1
            self.messages += [Message("assistant", answer), Message("user", dialog.ONE)]
            steps.append(Step("user", dialog.ONE, time=time.time()))
            return ""
        opinion = await self._opinion()
        tries: list[Try] = []
        if opinion.verdict == "bad":
            tries = await self._correct(command, opinion)
        rolled.judged.append(Judged(number, command, opinion, tuple(tries)))
        if opinion.verdict == "bad":
            last = tries[-1]
            if last.verdict != "good":
                step.extra[CORRECTIONS] = [one.plain() for one in tries]
                said = last.failure or last.reason
                rolled.reason = f"step {number}: {len(tries)} corrections, none accepted; of the last: {said}"
                return "discarded"
            answer, command = last.answer, last.command
            step = self._corrected(number, step, opinion, tries)
            steps[number] = step
        self.messages.append(Message("assistant", answer))
        return await self._act(step, command)

    async def _act(self, step: Step, command: str) -> str:
        """Runs the command of a step that stands."""
        if dialog.submits_alone(command):
            step.calls.clear()
            step.stop = True
            return "submitted"
        result = dialog.result_of(await self._execute(command))
        step.results[step.calls[0].id] = result
        if dialog.submits(command) and result.exit_code == 0:  # work and the agreed word in one command
            step.stop = True
            return "submitted"
        self.messages.append(Message("user", dialog.observed(result)))
        return ""

    async def _execute(self, command: str) -> Observation:
        shell = self._shell
        assert shell is not None
        return await self._wait(lambda: shell.run(command, timeout=self.rules.command_seconds))

    def _step(self, number: int, answer: str, command: str | None, given: Answered | None, model: str = "") -> Step:
        step = Step("agent", answer, time=time.time(), stop=False, model=given.model if given else model)
        if command is not None:
            call = Call(f"c{number}", dialog.TOOL, "shell", {"command": command}, command)
            call.timeout = self.rules.command_seconds
            step.calls.append(call)
        if given is not None:
            step.metrics = {"prompt_tokens": given.input_tokens, "completion_tokens": given.output_tokens}
            if given.cached_tokens:
                step.metrics["cached_tokens"] = given.cached_tokens
            if given.usd is not None:
                step.metrics["cost_usd"] = given.usd
        return step

    async def _opinion(self) -> Opinion:
        """The localizer's, on the last step. Raises Broken where another run may get one."""
        view = self._views.at(len(self.trajectory.steps) - 1)
        opinion = await self.localizer.judge(view, self.rules.votes)
        if opinion.failure.partition(":")[0] in PASSING:
            raise Broken(f"{self.localizer.role}: {opinion.failure}")
        return opinion

    async def _correct(self, command: str, opinion: Opinion) -> list[Try]:
        steps = self.trajectory.steps
        wrong, number = steps[-1], len(steps) - 1
        view = self._views.at(number)

        async def judge(proposal: Try) -> Opinion:
            steps[number] = self._step(number, proposal.answer, proposal.command, None)
            try:
                return await self._opinion()
            finally:
                steps[number] = wrong

        try:
            return await self.teacher.correct(view, command, opinion.reason, judge)
        except ModelError as error:
            raise _broken(self.teacher.role, error) from None

    def _corrected(self, number: int, wrong: Step, opinion: Opinion, tries: list[Try]) -> Step:
        """The step that takes the place of a wrong one, which it keeps."""
        last = tries[-1]
        made = self._step(number, last.answer, last.command, None, last.model)
        made.extra[PROPOSED] = {
            "message": wrong.message,
            "command": wrong.calls[0].command,
            "model": wrong.model,
            "metrics": dict(wrong.metrics),
            "reason": opinion.reason,
        }
        made.extra[CORRECTIONS] = [one.plain() for one in tries]
        return made

    async def _verify(self, box: BubblewrapSandbox) -> None:
        outcome = self.trajectory.outcome = Outcome(task=self.task.name, attempt=self.trajectory.id)
        try:
            await self._wait(box.end_session)
            verdict = await self._wait(lambda: self.task.verify(box))
        except NoReward as error:
            self.rolled.unverified = _line(error)
            return
        reward = verdict.rewards.get("reward")
        outcome.passed = verdict.passed
        outcome.reward = min(verdict.rewards.values()) if reward is None else reward


def _broken(role: str, error: ModelError) -> Exception:
    """A failure of the rollout's own; any other ends the run."""
    return Broken(f"{role}: {KINDS[type(error)]}: {_line(error)}") if type(error) in KINDS else error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
