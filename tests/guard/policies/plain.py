"""Policies for tests: a call is denied or commented by a word in it, a stop by a word in the task."""

from __future__ import annotations

from misstep._record import record
from misstep.catalogue.base import Misstep, Policy


@record
class State:
    calls: int = 0
    results: int = 0
    failed: int = 0
    prompts: int = 0
    checked: bool = False


class DenyFirst(Policy):
    id = "plain/deny-first"
    at = "before"
    action = "deny"
    limit = None
    text = "First denial."

    def fires(self, state, event):
        return "remove" in (event.call.command or "")

    def released(self, state):
        return state.checked


class DenySecond(DenyFirst):
    id = "plain/deny-second"
    text = "Second denial."


class TellOne(Policy):
    id = "plain/tell-one"
    at = "before"
    text = "Advice one."

    def fires(self, state, event):
        return "write" in (event.call.command or "")


class TellTwo(TellOne):
    id = "plain/tell-two"
    limit = 2
    text = "Advice two."


class AtStop(Policy):
    id = "plain/at-stop"
    at = "stop"
    text = "Check again."

    def eligible(self, misstep, prompt):
        return "carefully" if "carefully" in prompt else None

    def fires(self, state, event):
        return None if "unsure" in event.message else not state.checked


class Plain(Misstep):
    id = "plain"
    name = "does plain things"
    State = State
    policies = (DenyFirst(), DenySecond(), TellOne(), TellTwo(), AtStop())

    def on_prompt(self, state, event):
        state.prompts += 1

    def on_before(self, state, event):
        state.calls += 1
        state.checked = state.checked or "check" in (event.call.command or "")

    def on_after(self, state, event):
        state.results += 1
        state.failed += bool(event.result.failed)
