"""Rollouts for any engine: many at once, one bash tool in a sandbox each, from a prefix's state or a task's beginning.

The policy gives token ids, the codec says what they mean; the command runs in the sandbox's shell, whose directory and variables
last; what it showed, cut, is put into ids and appended. Nothing is rendered again. What is no doing of the agent (a sandbox,
replay, judge, verifier or policy that failed) gives an episode without a reward, counted by kind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from misstep.sandbox.base import HEAD, TAIL, Observation, SandboxError, shorten
from misstep.train.advantages import Group
from misstep.train.batching import Gathering
from misstep.train.episode import Action, Attempt, Codec, Ended, Episode, Policy, PolicyError, Shown
from misstep.train.prefixes import step_of, trajectory_of
from misstep.train.rewards import Counts, Reward, Score
from misstep.train.starts import Start
from misstep.train.states import Place, ReplayLost, States
from misstep.trajectory.model import Step

T = TypeVar("T")
NO_COMMAND = "Give exactly one command. Nothing was run."


@dataclass(frozen=True, slots=True)
class Settings:
    """The bounds of a rollout (TMax, the harness; MiRL keeps them)."""

    turns: int = 64
    """Tool calls of a whole attempt; from a prefix those that it leaves."""
    floor: int = 16
    """Turns that a rollout from a prefix has at least (the source is silent)."""
    command_seconds: float = 120.0
    response_tokens: int = 65_536
    """Ids after the prompt, those of outputs included."""
    turn_tokens: int = 16_384
    context: int = 131_072
    """Ids of prompt and response together. Prompts of prefixes are long: TMax's 2,048 would not hold them."""
    head: int = HEAD
    tail: int = TAIL
    """Characters of an output's start and end that are shown."""
    seconds: float = 3_600.0
    """Of one rollout, its reward not included; then it is a fault (a straggler), not the agent's failure."""
    at_once: int = 64

    def left(self, start: Start) -> int:
        """Turns from a start."""
        return self.turns if start.prefix is None else max(self.floor, self.turns - len(start.prefix))

    def plain(self) -> dict[str, Any]:
        """For config.json."""
        return asdict(self)


class Fault(Exception):
    """What happened says nothing about the agent; `kind: message`."""


@dataclass(slots=True)
class _Clock:
    """Seconds that a rollout spent, by what on."""

    start: float = 0.0
    policy: float = 0.0
    command: float = 0.0
    end: float = 0.0
    """Of ending the agent's session, and the sandbox."""
    reward: float = 0.0
    total: float = 0.0


@dataclass(slots=True)
class _Going:
    """A rollout under way: the ids only grow."""

    start: Start
    attempt: Attempt
    prompt: list[int]
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    known: bool = True
    """Every turn came with its log probabilities."""
    truncated: bool = False
    commands: list[tuple[str, int | None]] = field(default_factory=list)
    place: Place | None = None
    entered: bool = False
    """The policy counts on it to ask."""
    clock: _Clock = field(default_factory=_Clock)

    def own(self, ids: Sequence[int], logprobs: Sequence[float]) -> None:
        self.ids += ids
        self.mask += [1] * len(ids)
        self.known = self.known and bool(logprobs or not ids)
        self.logprobs += logprobs or [0.0] * len(ids)

    def shown(self, ids: Sequence[int]) -> None:
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)


class Rollouts:
    """Makes episodes. Close it, or use it as a context manager.

    Args:
        states: where sandboxes come from; stays open.
        reward: asked once an attempt is over, its sandbox still there.
        ended: told of every episode, its attempt among it, as it ends: for records.
    """

    def __init__(
        self,
        policy: Policy,
        codec: Codec,
        states: States,
        reward: Reward,
        settings: Settings | None = None,
        *,
        counts: Counts | None = None,
        ended: Callable[[Episode], None] | None = None,
    ) -> None:
        self.policy, self.codec, self.states, self.reward = policy, codec, states, reward
        self.settings = settings or Settings()
        self.counts = counts or Counts()
        self.ended = ended
        # Twice as many as rollouts: one whose time is up is closed while its command still holds a thread.
        self._threads = ThreadPoolExecutor(2 * self.settings.at_once, "rollout")
        self._limit: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def groups(self, starts: Sequence[Start], size: int, *, first: int = 0) -> list[Group]:
        """`size` episodes of each start, all of them at once as far as `at_once` allows, in the order of the starts.

        Args:
            first: the number of the first group, for records.
        """
        work = [self.run(start, sample=n, group=first + g) for g, start in enumerate(starts) for n in range(size)]
        made = await _all(work)
        return [made[n : n + size] for n in range(0, len(made), size)]

    async def run(self, start: Start, *, sample: int = 0, group: int = 0) -> Episode:
        """One episode. Never raises for a fault of sandbox, replay, policy, verifier or judge."""
        async with self._room():
            began = time.perf_counter()
            going = self._begin(start, sample, group)
            score = Score(None)
            self._enter(going)
            try:
                try:
                    await asyncio.wait_for(self._go(going), self.settings.seconds)
                except (Fault, SandboxError, PolicyError, TimeoutError) as error:
                    going.attempt.ended, going.attempt.fault = "fault", self._fault(error)
                self._leave(going)
                score = await self._score(going)
            finally:
                self._leave(going)
                going.attempt.box = None
                ending = time.perf_counter()
                if going.place is not None:
                    await asyncio.shield(self._thread(going.place.close))
            going.clock.end += time.perf_counter() - ending
            going.clock.total = time.perf_counter() - began
            episode = self._episode(going, score, group)
        if self.ended is not None:
            self.ended(episode)
        return episode

    def _begin(self, start: Start, sample: int, group: int) -> _Going:
        prefix = start.prefix
        if prefix is not None:
            prompt, trajectory = prefix.prompt_ids(self.codec), prefix.trajectory()
        else:
            asked = self.states.task(start.folder).instruction
            prompt, trajectory = list(self.codec.opening(asked)), trajectory_of(asked, task=start.task)
        trajectory.id = f"{start.id}.{group}.{sample}"
        return _Going(start, Attempt(start, trajectory, len(trajectory.steps), sample=sample), prompt)

    def _enter(self, going: _Going) -> None:
        """From before its sandbox starts: batches of a policy that waits for all are then the same in every run."""
        if isinstance(self.policy, Gathering):
            self.policy.enter()
            going.entered = True

    def _leave(self, going: _Going) -> None:
        if going.entered and isinstance(self.policy, Gathering):
            going.entered = False
            self.policy.leave()

    async def _go(self, going: _Going) -> None:
        settings, attempt = self.settings, going.attempt
        if len(going.prompt) >= settings.context:
            raise Fault(f"context: the prompt has {len(going.prompt)} ids, and there is room for {settings.context}")
        began = time.perf_counter()
        opening = asyncio.ensure_future(self._thread(self.states.open, going.start))
        try:
            going.place = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise
        going.clock.start = time.perf_counter() - began
        attempt.trajectory.cwd = going.place.workdir
        attempt.ended = "steps"
        for _ in range(settings.left(going.start)):
            ended = await self._turn(going)
            if ended is not None:
                attempt.ended = ended
                break
        self._leave(going)
        attempt.box = going.place.box
        began = time.perf_counter()
        await self._thread(going.place.box.end_session)
        going.clock.end = time.perf_counter() - began

    async def _turn(self, going: _Going) -> Ended | None:
        """One turn of the policy and what it is shown; why the rollout is over, or None."""
        settings, codec = self.settings, self.codec
        room = min(settings.response_tokens - len(going.ids), settings.context - len(going.prompt) - len(going.ids))
        if room <= 0:
            return "tokens"
        began = time.perf_counter()
        made = await self.policy.generate(
            going.prompt + going.ids, max_tokens=min(room, settings.turn_tokens), stop=codec.stop
        )
        going.clock.policy += time.perf_counter() - began
        if not made.ids:
            raise PolicyError("the policy gave no token")
        going.own(made.ids, made.logprobs)
        if made.finish == "length":
            going.truncated = True
            cut = codec.action(made.ids)  # a command that is cut never runs
            going.attempt.trajectory.steps.append(step_of(Action(None, cut.said or cut.command or ""), None, ""))
            return "tokens"
        action = codec.action(made.ids)
        if action.submits:
            going.attempt.trajectory.steps.append(step_of(action, None, ""))
            return "submitted"
        shown = codec.observation(await self._act(going, action))
        if len(shown) >= room - len(
            made.ids
        ):  # there is no room for another turn: nothing follows that it would be shown to
            return "tokens"
        going.shown(shown)
        return None

    async def _act(self, going: _Going, action: Action) -> Shown:
        """Runs the command, if there is one, and writes the step down."""
        steps, number = going.attempt.trajectory.steps, len(going.commands)
        if action.command is None:
            shown = Shown(note=NO_COMMAND)
            steps += [step_of(action, shown, ""), Step("user", NO_COMMAND)]
            return shown
        started = time.time()
        seen = await self._thread(self._execute, going.place, action.command)
        going.clock.command += seen.seconds
        shown = Shown(shorten(seen.output, self.settings.head, self.settings.tail), seen.exit_code, seen.timed_out)
        going.commands.append((action.command[:500], seen.exit_code))
        step = step_of(action, shown, f"r{number}", self.settings.command_seconds)
        step.time, step.results[f"r{number}"].seconds = round(started, 3), round(seen.seconds, 4)
        steps.append(step)
        return shown

    def _execute(self, place: Place, command: str) -> Observation:
        seconds = self.settings.command_seconds
        if place.shell is not None:
            return place.shell.run(command, timeout=seconds)
        done = place.box.exec(command, cwd=place.workdir, timeout=seconds, merge=True)
        return Observation(done.text, done.exit_code, done.seconds, done.timed_out, done.flooded)

    async def _score(self, going: _Going) -> Score:
        attempt = going.attempt
        if attempt.ended == "fault":
            self.counts.kinds["rollout", attempt.fault.partition(":")[0]] += 1
            return Score(None, attempt.fault)
        self.counts.kinds["rollout", attempt.ended] += 1
        began = time.perf_counter()
        try:
            return await self.reward(attempt)
        finally:
            going.clock.reward = time.perf_counter() - began

    @staticmethod
    def _fault(error: Exception) -> str:
        if isinstance(error, Fault):
            return str(error)
        if isinstance(error, TimeoutError):
            return "timeout: the rollout took too long"
        kind = "replay" if isinstance(error, ReplayLost) else "policy" if isinstance(error, PolicyError) else "sandbox"
        return f"{kind}: {error}"

    def _episode(self, going: _Going, score: Score, group: int) -> Episode:
        attempt, start = going.attempt, going.start
        if not going.ids:  # engines need one; nothing is trained on it
            going.shown([self.codec.stop[0] if self.codec.stop else going.prompt[-1]])
        extras: dict[str, Any] = {
            "start": start.id, "kind": start.kind, "task": start.task, "group": group, "sample": attempt.sample,
            "targets": [one.id for one in start.targets], "prefix_steps": len(start.prefix) if start.prefix else 0,
            "ended": attempt.ended, "fault": attempt.fault, "truncated": going.truncated, "steps": attempt.own_steps,
            "tokens": sum(going.mask), "parts": {self.reward.name: score.value, **score.parts}, "why": score.why,
            "commands": [list(one) for one in going.commands],
            "seconds": {name: round(value, 5) for name, value in asdict(going.clock).items()},
        }  # fmt: skip
        logprobs = tuple(going.logprobs) if going.known and any(going.mask) else ()
        return Episode(tuple(going.prompt), tuple(going.ids), tuple(going.mask), logprobs, score.value, extras, attempt)

    def _room(self) -> asyncio.Semaphore:
        """Of the running loop: an engine may run each of its steps in a loop of its own."""
        loop = asyncio.get_running_loop()
        if self._limit is None or self._limit[0] is not loop:
            self._limit = (loop, asyncio.Semaphore(self.settings.at_once))
        return self._limit[1]

    async def _thread(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    def close(self) -> None:
        """Ends its threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _all(work: Sequence[Any]) -> list[Any]:
    """All results in order; at the first error the others are called off, and over when it is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _close_unused(opened: asyncio.Future[Place]) -> None:
    """A sandbox that came up after its rollout was called off."""
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
