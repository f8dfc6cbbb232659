"""Our own agent loop, in this process: one shell tool over the client of `misstep.models`, from any point of a conversation on.

A command runs in the sandbox's shell, whose directory and variables last (or in a shell of its own, where the recorded agent
had it so). Observations are cut to their first and last 5,000 characters. The session ends with the agreed command, after
`steps` answers, or after `seconds`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from misstep.experiment.branch import forms
from misstep.models.errors import InvalidAnswer, Rejected, Unreachable
from misstep.models.request import Message
from misstep.sandbox.base import Observation, shorten
from misstep.trajectory import After, Before, Prompt, Say, Stop
from misstep.trajectory.model import Call, Result, Step

if TYPE_CHECKING:
    from misstep.experiment.branch.treatment import Said, Treatment
    from misstep.models import Client, Reply
    from misstep.sandbox.bubblewrap import BubblewrapSandbox
    from misstep.sandbox.shell import ResidentShell

COMMAND_SECONDS = 120.0
"""Of one command."""


@dataclass(slots=True)
class Situation:
    """Where a continuation begins: a conversation, the machine that belongs to it, and the arm."""

    messages: list[Message]
    box: BubblewrapSandbox
    treatment: Treatment
    shell: ResidentShell | None = None
    """None: every command gets a shell of its own."""
    workdir: str | None = None
    pending: Call | None = None
    """The call that is proposed at the point."""
    stopping: str | None = None
    """At a stop, the agent's last words."""
    sample: int = 0
    """Tells continuations of one conversation apart."""
    step: int = 0
    """Steps of the record so far: of the events that follow."""
    prompt: str = ""
    """At the start of a whole attempt, the task."""


@dataclass(slots=True)
class Ended:
    """How a continuation ended, and what it was."""

    why: str = "submitted"
    """submitted | steps | seconds | fault"""
    fault: str = ""
    """Why it is no observation of the agent."""
    steps: list[Step] = field(default_factory=list)
    """What came after the point, the interventions among it."""
    answers: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    first: Result | None = None
    """What the call at the point gave, denied or not; None at a stop."""

    @property
    def message(self) -> str:
        """The agent's last words."""
        return next((forms.spoken(step.message) for step in reversed(self.steps) if step.source == "agent"), "")


class Continuation(Protocol):
    """An agent that goes on from a situation to the end."""

    name: str

    async def go(self, at: Situation) -> Ended: ...


class Loop:
    """The loop.

    Args:
        client: whose role `policy` is the agent.
        steps: answers of the model in one continuation.
        seconds: of one continuation.
    """

    name = forms.AGENT

    def __init__(
        self,
        client: Client,
        *,
        role: str = "policy",
        steps: int = 64,
        seconds: float = 1800.0,
        command_seconds: float = COMMAND_SECONDS,
    ) -> None:
        self.client, self.role = client, role
        self.steps, self.seconds, self.command_seconds = steps, seconds, command_seconds

    async def go(self, at: Situation) -> Ended:
        """Runs to the end. What the model's server, or the budget, refuses for good is raised as it comes."""
        return await _Going(self, at).run()


class _Going:
    """One continuation under way."""

    def __init__(self, loop: Loop, at: Situation) -> None:
        self.loop, self.at = loop, at
        self.ended = Ended()
        self.messages = list(at.messages)
        self.step = at.step
        self.calls = 0

    async def run(self) -> Ended:
        began = time.monotonic()
        try:
            await self._run(began + self.loop.seconds)
        except (Unreachable, InvalidAnswer, Rejected) as error:
            self.ended.why, self.ended.fault = "fault", f"the model: {error}"
        self.ended.seconds = time.monotonic() - began
        return self.ended

    async def _run(self, deadline: float) -> None:
        at = self.at
        if at.prompt:
            at.treatment.see(Prompt(at.treatment.index, self.step - 1, at.prompt))
        goes_on = True
        if at.pending is not None:
            result = await self._call(at.pending)
            self.ended.first = result
            self.messages.append(Message("user", forms.observed(result)))
        elif at.stopping is not None:
            goes_on = self._stop(at.stopping, turn="branch")
        while goes_on:
            if self.ended.answers >= self.loop.steps:
                self.ended.why = "steps"
                return
            if time.monotonic() > deadline:
                self.ended.why = "seconds"
                return
            goes_on = await self._answer()

    async def _answer(self) -> bool:
        reply: Reply[str] = await self.loop.client.ask(self.loop.role, self.messages, sample=self.at.sample)
        self._count(reply)
        answer = reply.text
        step = Step("agent", answer, time=time.time(), stop=False, model=reply.last.model)
        step.metrics = {"prompt_tokens": reply.last.input_tokens, "completion_tokens": reply.last.output_tokens}
        self.ended.steps.append(step)
        self.messages.append(Message("assistant", answer))
        command = forms.command_of(answer)
        if command is None:
            self.step += 1
            self._tell(forms.ONE)
            return True
        if forms.submits(command):
            step.stop = True
            return self._stop(answer, turn="branch")
        self.at.treatment.see(Say(self.at.treatment.index, self.step, answer))  # as a record of it will have it
        self.calls += 1
        call = Call(f"c{self.step}.{self.calls}", "bash", "shell", {"command": command}, command)
        call.timeout = self.loop.command_seconds
        step.calls.append(call)
        result = await self._call(call)
        step.results[call.id] = result
        self.messages.append(Message("user", forms.observed(result)))
        self.step += 1
        return True

    def _stop(self, said: str, turn: str) -> bool:
        """Whether the agent has to go on."""
        event = Stop(self.at.treatment.index, self.step, said)
        told = self.at.treatment.consider(event, turn)
        self.at.treatment.see(event)
        self.step += 1
        if not told.text:
            return False
        self._tell(told.text)
        return True

    def _tell(self, text: str) -> None:
        """A text that is no person's."""
        self.messages.append(Message("user", text))
        self.ended.steps.append(Step("user", text, time=time.time()))
        self.step += 1

    async def _call(self, call: Call) -> Result:
        treatment = self.at.treatment
        event = Before(treatment.index, self.step, call)
        told: Said = treatment.consider(event)
        if told.action == "deny":
            treatment.denied()
            return Result(told.text, None, None, "refused")
        treatment.see(event)
        seen = await asyncio.to_thread(self._execute, call)
        result = Result(shorten(seen.output), seen.exit_code, None if seen.exit_code is None else seen.exit_code != 0)
        result.timed_out, result.seconds = seen.timed_out, round(seen.seconds, 4)
        treatment.see(After(treatment.index, self.step, call, result))
        if told.text:
            result.output = f"{result.output.rstrip()}\n\n{told.text}"
        return result

    def _execute(self, call: Call) -> Observation:
        command = (call.command or ":").replace("\0", "")
        timeout = call.timeout or self.loop.command_seconds
        if self.at.shell is not None:
            return self.at.shell.run(command, timeout=timeout)
        done = self.at.box.exec(command, cwd=call.cwd or self.at.workdir, timeout=timeout, merge=True)
        return Observation(done.text, done.exit_code, done.seconds, done.timed_out, done.flooded)

    def _count(self, reply: Reply[Any]) -> None:
        ended = self.ended
        ended.answers += 1
        for one in reply.answers:
            ended.input_tokens += one.input_tokens
            ended.cached_tokens += one.cached_tokens
            ended.output_tokens += one.output_tokens
        ended.usd += reply.usd


def opening(instruction: str) -> list[Message]:
    """The messages of a whole attempt before the first answer."""
    return [Message("system", forms.SYSTEM), Message("user", instruction)]


def opening_steps(instruction: str) -> list[Step]:
    """The same as steps of a record."""
    now = time.time()
    return [Step("system", forms.SYSTEM, time=now), Step("user", instruction, time=now, prompt=True)]


__all__: Sequence[str] = ("Continuation", "Ended", "Loop", "Situation", "opening", "opening_steps")
