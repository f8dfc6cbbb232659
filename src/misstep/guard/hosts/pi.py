"""Pi (1.6), through an extension that runs a hook for each event.

The extension hands each event to the hook and does what it answers: it blocks a call, puts a text below a result, or asks for
one more run before the agent settles.
"""

from __future__ import annotations

from . import Reading, call_record, clipped, text
from ._shared import opened, plugin, record_of, to_plugin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "pi"
EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionStart")
CONFIG = ("PI_CODING_AGENT_DIR", "~/.pi/agent", "extensions/misstep-guard.ts")
PROJECT = ".pi/extensions/misstep-guard.ts"
LATE_TEXT = False
ONCE = False
PROJECT_NOTE = (
    "Pi loads the extensions of a project only where it trusts the project: open `pi` there once and say /trust."
)

PLUGIN = """function tell(event: string, ctx: any, given: object): any {
  try {
    return ask(event, ctx.sessionManager.getSessionId(), ctx.cwd, given)
  } catch {
    return {}
  }
}

const words = (content: any): string =>
  Array.isArray(content) ? content.filter((p) => p.type === "text").map((p) => p.text).join("\\n") : String(content ?? "")

export default function (pi: any) {
  const late = new Map<string, string>()
  let last = ""
  pi.on("input", async (event: any, ctx: any) => {
    if (event.source !== "extension") tell("UserPromptSubmit", ctx, { prompt: event.text })
  })
  pi.on("tool_call", async (event: any, ctx: any) => {
    const call = { tool_name: event.toolName, tool_input: event.input, tool_use_id: event.toolCallId }
    const answer = tell("PreToolUse", ctx, call)
    if (answer.deny) return { block: true, reason: answer.deny }
    if (answer.text) late.set(event.toolCallId, answer.text)
  })
  pi.on("tool_result", async (event: any, ctx: any) => {
    const call = { tool_name: event.toolName, tool_input: event.input, tool_use_id: event.toolCallId }
    tell("PostToolUse", ctx, { ...call, tool_response: { output: words(event.content), failed: event.isError === true } })
    const told = late.get(event.toolCallId)
    late.delete(event.toolCallId)
    if (told) return { content: [...event.content, { type: "text", text: told }] }
  })
  pi.on("agent_end", async (event: any) => {
    const said = (event.messages ?? []).filter((m: any) => m.role === "assistant").pop()
    last = words(said?.content)
  })
  pi.on("agent_before_settle", async (event: any, ctx: any) => {
    const answer = tell("Stop", ctx, { last_assistant_message: last })
    if (!answer.text) return
    const entry = { type: "custom_message", customType: "misstep-guard", content: answer.text, display: true }
    return { entries: [...event.entries, entry], continue: true }
  })
}
"""


def whole_file(command: str) -> str:
    """The extension."""
    return plugin(NAME, PLUGIN, command)


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload of the extension tells; None for an event that is none of ours."""
    reading = opened(payload)
    if reading is None:
        return None
    record = record_of(payload, reading)
    if payload.get("hook_event_name") == "PostToolUse":
        record = call_record("after", payload)
        given = payload.get("tool_response")
        record["result"] = _result(given if isinstance(given, dict) else {}, record["tool"] == "bash")
    if record is None:
        return None
    reading.records.append(record)
    return reading


def _result(given: dict[str, Any], shell: bool) -> dict[str, Any]:
    """A failed command names its exit status in the last line."""
    failed = given.get("failed") is True
    result: dict[str, Any] = {"failed": failed}
    output = text(given.get("output"))
    if shell and not failed:
        result["exit"] = 0
    elif shell:
        body, mark, code = output.rstrip().rpartition("Command exited with code ")
        if mark and code.isdigit():
            result["exit"], output = int(code), body.rstrip("\n")
        elif "Command timed out after " in output[-200:]:
            result["timed_out"] = True
    return clipped(result, output)


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """What the extension is to do."""
    return to_plugin(decision)
