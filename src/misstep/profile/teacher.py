"""The teacher: a corrected step for one that the localizer calls bad (MiRL, profiling), so that the trajectory can go on.

What it proposes is checked for its form, then by the localizer, before it runs. Needs the extra `models`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from misstep.models import InvalidAnswer
from misstep.profile import dialog
from misstep.profile.prompts import Prompt, load

if TYPE_CHECKING:
    from misstep.models import Client
    from misstep.profile.localizer import Opinion
    from misstep.profile.view import View

try:
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as error:  # pragma: no cover
    raise ImportError("profiling with models needs more packages: pip install 'misstep[models]'") from error

TRIES = 3
"""Corrections that are asked for before a rollout is discarded."""
LONGEST = 8_000
"""Characters of a command."""


class Corrected(BaseModel):
    """What the model writes."""

    model_config = ConfigDict(extra="forbid")
    say: str = Field(description="What the agent says with the command: one or two sentences.")
    command: str = Field(description="One shell command.")


@dataclass(frozen=True, slots=True)
class Try:
    """One proposal of the teacher, and what became of it."""

    say: str = ""
    command: str = ""
    verdict: str | None = None
    """The localizer's: good | bad; None: it had none, or was not asked."""
    reason: str = ""
    failure: str = ""
    """Why there is no proposal, or no verdict on it: `kind: message`."""
    model: str = ""

    @property
    def answer(self) -> str:
        """As the policy would have written it."""
        return dialog.proposed(self.say, self.command)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Teacher:
    """The model of a role, asked for corrected steps."""

    def __init__(self, client: Client, role: str = "teacher", tries: int = TRIES) -> None:
        self.client, self.role, self.tries = client, role, tries
        self._prompt = load("teacher")

    @staticmethod
    def prompts() -> tuple[Prompt, ...]:
        """What decides its answers, for a result's header."""
        return (load("teacher"),)

    async def correct(
        self, view: View, command: str, reason: str, judge: Callable[[Try], Awaitable[Opinion]]
    ) -> list[Try]:
        """The tries in order; the last of them is the accepted correction, if its verdict is good.

        A correction on which the localizer has no verdict is not accepted.

        Args:
            view: the proposed step, as the localizer saw it.
            command: its command.
            reason: the localizer's.
            judge: asks the localizer about a proposal.

        Raises:
            ModelError: what another run may not meet (no server, no money).
        """
        tried: list[Try] = []
        while len(tried) < self.tries and not (tried and tried[-1].verdict == "good"):
            proposal = await self._proposal(view, command, reason, tried)
            if proposal.command:
                opinion = await judge(proposal)
                proposal = Try(
                    proposal.say, proposal.command, opinion.verdict, opinion.reason, opinion.failure, proposal.model
                )
            tried.append(proposal)
        return tried

    async def _proposal(self, view: View, command: str, reason: str, tried: Sequence[Try]) -> Try:
        messages = self._prompt.render(
            **view.values(), reason=reason or "(no reason given)", tried="\n\n".join(map(_told, tried)) or "(none)"
        )
        refused = {_same(command), *(_same(one.command) for one in tried)}
        try:
            reply = await self.client.ask(
                self.role, messages, Corrected, check=lambda made: problem_of(made, refused), sample=len(tried)
            )
        except InvalidAnswer as error:
            return Try(failure=f"invalid: {' '.join(str(error).split())[:300]}")
        given: Corrected = reply.value
        return Try(given.say.strip(), given.command.strip(), model=reply.last.model)


def problem_of(made: Corrected, refused: set[str]) -> str | None:
    """What is wrong with the form of a correction, None where nothing is."""
    command = made.command.strip()
    if not command:
        return "command is empty"
    if "\0" in command:
        return "command has a NUL character"
    if len(command) > LONGEST:
        return f"command has {len(command)} characters; {LONGEST} at most"
    if dialog.command_of(dialog.proposed(made.say.strip(), command)) != command:
        return "say and command are plain text: no block fenced by ``` in them"
    if _same(command) in refused:
        return "command is one that was refused; give another one"
    return None


def _same(command: str) -> str:
    return " ".join(command.split())


def _told(one: Try) -> str:
    if not one.command:
        return "(an answer that could not be used)"
    return f"command: {one.command}\nrefused: {one.reason or 'the reviewer could not tell that it is good'}"
