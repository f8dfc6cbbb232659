"""The generic nudges that experiments compare with: at the first stop of every task, whatever it is."""

from __future__ import annotations

from misstep.catalogue.base import Misstep, Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from misstep.trajectory import Event


class _Always(Policy):
    at = "stop"

    def fires(self, state: Any, event: Event) -> bool | None:
        return True


class AlwaysVerify(_Always):
    id = "always-verify"
    text = (
        "Before you stop: verify the result that will be judged. Determine which files, services or outputs the task asks "
        "for, inspect each of them as they are now with a command, compare what you see with every requirement of the task, "
        "and correct what differs. If all of it holds already, change nothing and stop."
    )


class Reconsider(_Always):
    id = "reconsider"
    text = (
        "Before you stop: reconsider your work. Read the task again, think about whether your approach was right and whether "
        "anything was overlooked, and go on working if you find that something should be done differently. Otherwise stop."
    )


class Always(Misstep):
    id = "always"
    name = "stops"
    policies: ClassVar[tuple[Policy, ...]] = (AlwaysVerify(), Reconsider())
