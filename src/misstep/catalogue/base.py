"""What a misstep is: a named fold over events that says where it happened, and policies that stop it.

One module of this package defines one misstep: a subclass of `Misstep` whose module docstring is its
documentation page, with its examples beside it in a `.yaml` of the same name. Detectors and
policies see `misstep.trajectory` events only, so they run alike over a recorded session, in a live
agent's hooks, in an experiment and as a reward.

State is a `record` whose fields hold JSON values (str, int, float, bool, None, lists, dicts with
str keys): a hook writes it out after each event and reads it back before the next, so it must stay
small however long the session is.
"""

from __future__ import annotations

from misstep._record import record
from misstep.trajectory import After, Before, Compact, Event, Interrupt, Prompt, Say, Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, ClassVar


@record(slots=True)
class Verdict:
    """A judged opportunity: at this event the misstep happened, did not happen, or cannot be told."""

    holds: bool | None
    """True: an occurrence. False: the opportunity was there and the step was right. None: unknown."""
    at: int
    """Event index of the step that is judged: the Before of a call, a Say or a Stop. A misstep judges each of them at most once."""
    why: str = ""
    """One plain line of evidence, for a person."""
    also: tuple[int, ...] = ()
    """Event indices of further evidence (the failing run, the edit, the copy)."""


@record
class NoState:
    """For missteps that need to remember nothing."""


class Misstep:
    """One recurring wrong step. Subclasses override the handlers of the events that they need.

    A handler may change its state in place and returns verdicts or None. It must be a function of the state
    and the event alone. It is called after the event happened (a denied call never reaches it).
    """

    id: ClassVar[str] = ""
    """kebab-case, for ever: a revision that changes what it means gets a new id."""
    name: ClassVar[str] = ""
    """One line that completes 'the agent ...': 'prints a binary file as text'."""
    status: ClassVar[str] = "preview"
    """preview (off by default), stable, retired."""
    since: ClassVar[str] = "0.1"
    State: ClassVar[type] = NoState
    policies: ClassVar[tuple[Policy, ...]] = ()
    scoped: ClassVar[bool] = False
    """True where `eligible` must accept the task before anything is judged."""

    def eligible(self, prompt: str) -> str | None:
        """E: the words of the first real prompt that put the task in scope, or None. '' where every task is."""
        return ""

    def on_prompt(self, state: Any, event: Prompt) -> Iterable[Verdict] | None: ...

    def on_say(self, state: Any, event: Say) -> Iterable[Verdict] | None: ...

    def on_before(self, state: Any, event: Before) -> Iterable[Verdict] | None: ...

    def on_after(self, state: Any, event: After) -> Iterable[Verdict] | None: ...

    def on_compact(self, state: Any, event: Compact) -> Iterable[Verdict] | None: ...

    def on_interrupt(self, state: Any, event: Interrupt) -> Iterable[Verdict] | None: ...

    def on_stop(self, state: Any, event: Stop) -> Iterable[Verdict] | None: ...

    def finish(self, state: Any) -> Iterable[Verdict] | None:
        """Verdicts that only the end of the record can give."""

    def behaved(self, state: Any) -> bool | None:
        """B: whether the right behaviour was shown by the end, blind to the arm. None: unknown or not defined."""
        return None

    def observe(self, state: Any, event: Event) -> tuple[Verdict, ...]:
        """One step of the fold."""
        handler = getattr(self, HANDLERS[type(event)])
        return tuple(handler(state, event) or ())


HANDLERS: dict[type[Event], str] = {
    Prompt: "on_prompt",
    Say: "on_say",
    Before: "on_before",
    After: "on_after",
    Compact: "on_compact",
    Interrupt: "on_interrupt",
    Stop: "on_stop",
}


class Policy:
    """P = (E, G, A, R, S) over the state S of its misstep (FIRE, section 3).

    `fires` is asked before the event is folded into the state; a policy that answers None (cannot tell) stays
    silent. After `limit` interventions in a session, or once released, it lets go.
    """

    id: ClassVar[str] = ""
    """'<misstep id>' or '<misstep id>/<rule>'."""
    at: ClassVar[str] = "stop"
    """before | stop: the event at which it acts."""
    action: ClassVar[str] = "instruct"
    """instruct | deny. What must precede an irreversible call can only deny: an instruction arrives after the call ran."""
    limit: ClassVar[int | None] = 1
    """None: as often as it fires, until released."""
    text: ClassVar[str] = ""
    """What the model is told. It names a procedure, never a solution."""

    def eligible(self, misstep: Misstep, prompt: str) -> str | None:
        """E: by default the misstep's own."""
        return misstep.eligible(prompt)

    def fires(self, state: Any, event: Event) -> bool | None:
        """G: whether the trajectory stands in the state that precedes the failure."""
        raise NotImplementedError

    def released(self, state: Any) -> bool:
        """R: whether the condition it waits for already holds."""
        return False
