"""What several hosts have in common: hooks of Claude's form, and plugins that run a hook.

A host's module takes from here what is the same, and does by itself what differs: how a result is told, what is a prompt,
where a text at a call goes.
"""

from __future__ import annotations

from .._json import dumps
from . import Reading, call_record, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision


def opened(payload: dict[str, Any], turn: str = "") -> Reading | None:
    """The reading of a payload, without records yet; None where it names no session. turn: the field that names the turn."""
    session = text(payload.get("session_id"))
    if not session:
        return None
    return Reading(session, text(payload.get("agent_id")), text(payload.get(turn)) if turn else "")


def record_of(payload: dict[str, Any], reading: Reading) -> dict[str, Any] | None:
    """The record of an event that means the same in each of these hosts: a prompt, a call, a stop, a start. None for others."""
    event = payload.get("hook_event_name")
    if event == "UserPromptSubmit":
        return {"e": "prompt", "text": text(payload.get("prompt"))}
    if event == "PreToolUse":
        return call_record("before", payload)
    if event in ("Stop", "SubagentStop"):
        return {"e": "stop", "message": text(payload.get("last_assistant_message")), "turn": reading.turn}
    if event == "SessionStart":
        source = text(payload.get("source"))
        return {"e": "compact"} if source == "compact" else {"e": "start", "source": source}
    return None


def blocked(decision: Decision) -> str:
    """The output that forces another turn at a stop, or denies a call. Exit status 2 would show the model our command line."""
    if decision.event == "stop":
        return dumps({"decision": "block", "reason": decision.text})
    return specific("PreToolUse", permissionDecision="deny", permissionDecisionReason=decision.text)


def blocked_or_told(decision: Decision) -> str:
    """`blocked`, where a text at a call can be given with the call. No permission stands beside it: Codex would drop both."""
    if decision.event == "stop" or decision.action == "deny":
        return blocked(decision)
    return specific("PreToolUse", additionalContext=decision.text)


def specific(event: str, **said: str) -> str:
    """A hook's output for one event."""
    return dumps({"hookSpecificOutput": {"hookEventName": event, **said}})


# -- plugins -------------------------------------------------------------------------------------------------------------

ASK = """// Written by `misstep guard install @HOST@`; `misstep guard uninstall @HOST@` removes it.
import { spawnSync } from "node:child_process"

const COMMAND = @COMMAND@

function ask(event, session_id, cwd, given) {
  try {
    const input = JSON.stringify({ hook_event_name: event, session_id, cwd, ...given })
    const done = spawnSync("/bin/sh", ["-c", COMMAND], { input, encoding: "utf8", timeout: 30000 })
    return done.stdout ? JSON.parse(done.stdout) : {}
  } catch {
    return {}
  }
}

"""
"""The beginning of a plugin: a function that hands an event to the hook and gives back what it answers, {} for nothing."""


def plugin(host: str, body: str, command: str) -> str:
    """The text of a plugin. body: what follows ASK."""
    return ASK.replace("@HOST@", host).replace("@COMMAND@", dumps(command)) + body


def to_plugin(decision: Decision) -> str:
    """What a plugin is to do."""
    return dumps({"deny" if decision.action == "deny" else "text": decision.text})
