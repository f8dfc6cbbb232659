"""What a rollout is made of: token ids that only grow, the policy that gives them, the codec between ids and words.

A turn is the ids that the policy gave, up to its stop token, followed by the ids of what it was shown. Nothing is ever rendered
again: the ids of a later turn begin with those of every earlier one, so that what is trained on is what was sampled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from misstep.trajectory.readers.mini_swe_agent import SUBMIT

if TYPE_CHECKING:
    from misstep.sandbox.bubblewrap import BubblewrapSandbox
    from misstep.train.starts import Start
    from misstep.trajectory import Trajectory

Finish = Literal["stop", "length"]
Ended = Literal["submitted", "steps", "tokens", "fault"]
"""Why a rollout is over: the agent said so; its steps, or its tokens, were used up; or it says nothing about the agent."""

_SUBMITS = re.compile(rf"""\b(?:echo|printf)\s+['"]?(?:{"|".join(SUBMIT)})\b""")


class PolicyError(RuntimeError):
    """The policy (its server, its engine) failed to answer: a fault, never the agent's doing. One line."""


@dataclass(frozen=True, slots=True)
class Generated:
    """One turn of a policy."""

    ids: tuple[int, ...]
    """Sampled ids, the stop token among them where it was sampled."""
    logprobs: tuple[float, ...] = ()
    """Of each id under the policy that sampled it, in nats; () where they are not known."""
    finish: Finish = "stop"
    """stop: a stop token is the last id. length: cut at `max_tokens`."""

    def __post_init__(self) -> None:
        if self.logprobs and len(self.logprobs) != len(self.ids):
            raise ValueError(f"{len(self.logprobs)} log probabilities for {len(self.ids)} ids")


@runtime_checkable
class Policy(Protocol):
    """What is trained: it continues token ids. Asked by many rollouts at once."""

    async def generate(self, prompt_ids: Sequence[int], *, max_tokens: int, stop: Sequence[int] = ()) -> Generated:
        """Samples until one of the ids `stop` (kept, as the last) or `max_tokens`.

        Raises:
            PolicyError: it could not answer; the rollout gets no reward.
        """
        ...


@runtime_checkable
class BatchPolicy(Protocol):
    """A policy that answers several at once; `batching.Batched` makes a `Policy` of it."""

    def generate_batch(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: Sequence[int], stop: Sequence[int] = ()
    ) -> Sequence[Generated]:
        """One answer a prompt, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Action:
    """What a turn of the policy means."""

    command: str | None = None
    """The one command; None where the turn has none that can be run."""
    said: str = ""
    """The words beside it; with `submits`, the agent's last ones."""
    submits: bool = False
    """The agent ends its work with this turn; `command` is not run."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the policy is shown after its turn."""

    output: str = ""
    """Already cut."""
    exit_code: int | None = None
    """None where nothing ran, or the shell itself ended."""
    timed_out: bool = False
    note: str = ""
    """What the harness says instead of an output: the turn had no command."""


@runtime_checkable
class Codec(Protocol):
    """How words become token ids, piece by piece, never the whole again.

    A conversation is `opening` + (a turn + `observation`)*; after the opening and after each observation it is the policy's turn.
    """

    stop: Sequence[int]
    """Ids that end a turn of the policy."""

    def opening(self, instruction: str) -> list[int]:
        """The ids before the first turn: of whatever stands around it, and the task."""
        ...

    def turn(self, action: Action) -> list[int]:
        """The ids of a recorded turn, its stop token included: for prefixes whose record has no ids."""
        ...

    def observation(self, shown: Shown) -> list[int]:
        """The ids that follow a turn; after them it is the policy's turn again."""
        ...

    def action(self, ids: Sequence[int]) -> Action:
        """What the ids of a turn mean; never raises."""
        ...


def submits(command: str) -> bool:
    """Whether a command is the agreed way to stop: an `echo` of a marker that mini-swe-agent and our own loop know."""
    return bool(_SUBMITS.search(command))


@dataclass(slots=True)
class Attempt:
    """What happened in a rollout: what rewards look at. `trajectory` holds the prefix and what followed."""

    start: Start
    trajectory: Trajectory
    first: int
    """Position in `trajectory.steps` of the first step that is the rollout's own."""
    box: BubblewrapSandbox | None = None
    """The sandbox at its end, the agent's session over; None once it is gone."""
    ended: Ended = "submitted"
    fault: str = ""
    """`kind: message` where `ended` is fault."""
    sample: int = 0
    """Tells the rollouts of one start apart."""

    @property
    def own_steps(self) -> int:
        """Turns of the agent in the rollout."""
        return sum(step.source == "agent" for step in self.trajectory.steps[self.first :])


@dataclass(frozen=True, slots=True)
class Episode:
    """A rollout as an engine trains on it (MiRL's and TMax's unit)."""

    prompt_ids: tuple[int, ...]
    """All that precedes the rollout: the task, and the recorded prefix's turns and outputs. Never trained on."""
    ids: tuple[int, ...]
    """All that follows; at least one."""
    mask: tuple[int, ...]
    """Of each of `ids`: 1 the policy's own, 0 shown by the tool. The loss is over the ones."""
    logprobs: tuple[float, ...]
    """Of each of `ids` under the policy that sampled it, in nats; 0.0 where the mask is 0; () where not known."""
    reward: float | None
    """None: unknown. It leaves the group's baseline and its advantage is 0."""
    extras: dict[str, Any] = field(default_factory=dict)
    """JSON values: start, group, ended, fault, steps, parts of the reward, seconds, truncated."""
    attempt: Attempt | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.mask) != len(self.ids) or (self.logprobs and len(self.logprobs) != len(self.ids)):
            raise ValueError(
                f"an episode of {len(self.ids)} ids with {len(self.mask)} mask entries and {len(self.logprobs)} log probabilities"
            )

    @property
    def trained(self) -> int:
        """Tokens that the policy gave."""
        return sum(self.mask)

    def rewarded(self, reward: float | None) -> Episode:
        """The same with another reward."""
        return replace(self, reward=reward)

    def plain(self) -> dict[str, Any]:
        """As a line of rollouts.jsonl."""
        names = ("prompt_ids", "ids", "mask", "logprobs")
        return {**{name: list(getattr(self, name)) for name in names}, "reward": self.reward, "extras": self.extras}

    @classmethod
    def from_plain(cls, given: Mapping[str, Any]) -> Episode:
        """Back from such a line. Raises KeyError, TypeError, ValueError."""
        ids, mask, prompt = (tuple(map(int, given[name])) for name in ("ids", "mask", "prompt_ids"))
        return cls(
            prompt, ids, mask, tuple(map(float, given["logprobs"])), given["reward"], dict(given.get("extras", {}))
        )
