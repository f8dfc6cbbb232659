"""Beginnings of a policy: a module and its examples, from nothing or from what recorded sessions show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MODULE = '''"""The agent {name}.

## What it is
Say in two sentences what happens, so that a reader can tell it from an example.

## Why it matters
Say what is lost by it.

## How it is told
Say from which calls, results and words it is told, and what is left unknown.

## What the policy does
Say when it acts, and what it asks for.

## Known misses
Say what it does not see.
"""

from __future__ import annotations

from misstep._record import record
from misstep.catalogue.base import Misstep, Policy, Verdict


@record
class State:
    """What has to be remembered between events: JSON values only."""

    last: int = -1
    """Event index of the last call that matters, -1 before it."""


class Reminder(Policy):
    id = "{id}"
    at = "{at}"  # before | stop
    action = "{action}"  # instruct | deny
    limit = 1
{seen}    text = (
{text}    )

    def fires(self, state, event):
{guard}
    def released(self, state):
        return False


class {cls}(Misstep):
    id = "{id}"
    name = "{name}"
    status = "preview"
    since = "0.1"
    State = State
    policies = (Reminder(),)

    def on_before(self, state, event):
        """Fold a call in; a verdict where the call itself is the occurrence."""
{before}
    def on_stop(self, state, event):
        """Judge the end of a turn."""
{stop}'''

STOP_GUARD = """        return state.last >= 0
"""
BEFORE_GUARD = """        return matters(event.call)
"""
STOP_BEFORE = """        if matters(event.call):
            state.last = event.index
"""
BEFORE_BEFORE = """        if matters(event.call):
            state.last = event.index
            return [Verdict(True, event.index, "why, in one line")]
        return None
"""
STOP_STOP = """        return [Verdict(state.last >= 0, event.index, "why, in one line", (state.last,) if state.last >= 0 else ())]
"""
BEFORE_STOP = """        return None
"""
MATTERS = '''

def matters(call):
    """Whether a call is one that this is about. Call.kind, Call.script and Call.effects say what it does."""
{body}'''

BY_WORDS = '''    words = {words!r}
    return any(command.argv[: len(words)] == words for command in commands(call))


def commands(call):
    """The simple commands of a call; none where its text cannot be read."""
    return [] if call.script is None or call.script.damage else call.script.commands
'''
BY_KIND = """    return call.kind == {kind!r}
"""
BY_NOTHING = """    return False  # say here which
"""


@dataclass
class Draft:
    """What a skeleton is made from."""

    id: str
    name: str = "does what it should not"
    at: str = "stop"
    action: str = "instruct"
    text: str = "Before you stop: say here what to do, as a procedure. Never name a solution."
    words: list[str] = field(default_factory=lambda: ["the-program", "its-first-word"])
    """The first words of the command that it is about; none where it is not about a command."""
    kind: str = ""
    """The kind of call that it is about where it is no command: read, write, edit ..."""
    seen: list[str] = field(default_factory=list)
    """What was seen where it happened: for the author, never for a model."""
    fires: list[dict[str, Any]] = field(default_factory=list)
    silent: list[dict[str, Any]] = field(default_factory=list)


def module(draft: Draft) -> str:
    """The Python text."""
    stop = draft.at == "stop"
    text = "".join(f"        {line!r}\n" for line in _wrapped(draft.text))
    made = MODULE.format(
        id=draft.id,
        name=draft.name.replace('"', "'"),
        at=draft.at,
        action=draft.action,
        cls="".join(part.title() for part in draft.id.split("-")),
        text=text,
        seen="".join(f"    # seen: {_harmless(line)}\n" for line in draft.seen),
        guard=STOP_GUARD if stop else BEFORE_GUARD,
        before=STOP_BEFORE if stop else BEFORE_BEFORE,
        stop=STOP_STOP if stop else BEFORE_STOP,
    )
    if draft.words:
        body = BY_WORDS.format(words=draft.words)
    else:
        body = BY_KIND.format(kind=draft.kind) if draft.kind else BY_NOTHING
    return made + MATTERS.format(body=body)


def open_points(draft: Draft) -> list[str]:
    """What is left to the author of a draft, place by place."""
    if draft.words:
        about = f"which calls it is about: now every command that begins with `{' '.join(draft.words)}`"
    else:
        about = f"which calls it is about: now {f'every {draft.kind}' if draft.kind else 'none'}"
    return [
        "the docstring: what it is, why it matters, how it is told, what it misses",
        "text: what the agent is told, as a procedure",
        f"matters(): {about}",
        f"{'on_stop' if draft.at == 'stop' else 'on_before'}(): what tells an occurrence from a right step",
        "differs, in each silent example: the one fact by which it is right",
    ]


def _harmless(text: str) -> str:
    """One line that can stand in a comment."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= 100 else line[:97] + "..."


def examples(draft: Draft) -> str:
    """The YAML text beside it."""
    import yaml

    command = " ".join(draft.words)
    stop = draft.at == "stop"
    marks = {"misstep": True, "policy": draft.id}
    call: dict[str, Any] = {"run": command, "exit": 0}
    end: dict[str, Any] = {"stop": "Done."}
    prompt = {"prompt": "Write here what a person asks for."}
    fires = draft.fires or [
        {"name": "the plain case", "events": [prompt, call | ({} if stop else marks), end | (marks if stop else {})]}
    ]
    silent = draft.silent or [
        {
            "name": "nothing of the kind",
            "near": fires[0]["name"],
            "differs": "another command is run",
            "events": [prompt, {"run": "ls", "exit": 0}, end],
        }
    ]
    return yaml.safe_dump({"fires": fires, "silent": silent}, sort_keys=False, allow_unicode=True, width=110)


def _wrapped(text: str) -> list[str]:
    import textwrap

    lines = textwrap.wrap(text, 100)
    return [line + " " for line in lines[:-1]] + lines[-1:]
