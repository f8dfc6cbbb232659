"""OpenCode (1.18), through a plugin that runs a hook for each event.

Plugins are JavaScript in OpenCode's own process: ours hands each event to the hook and does what it answers. A denial is an
exception before the tool; a text at a call stands below its output; after a stop the plugin prompts the session again.
"""

from __future__ import annotations

from . import Reading, call_record, clipped, text
from ._shared import opened, plugin, record_of, to_plugin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "opencode"
EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionStart")
CONFIG = ("OPENCODE_CONFIG_DIR", "~/.config/opencode", "plugin/misstep-guard.js")
PROJECT = ".opencode/plugin/misstep-guard.js"
LATE_TEXT = False
ONCE = False

PLUGIN = """export const MisstepGuard = async ({ client, directory }) => {
  const late = new Map()
  return {
    "chat.message": async (input, output) => {
      const parts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      ask("UserPromptSubmit", input.sessionID, directory, { prompt: parts.map((part) => part.text).join("\\n") })
    },
    "tool.execute.before": async (input, output) => {
      const call = { tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID }
      const answer = ask("PreToolUse", input.sessionID, directory, call)
      if (answer.deny) throw new Error(answer.deny)
      if (answer.text) late.set(input.callID, answer.text)
    },
    "tool.execute.after": async (input, output) => {
      const call = { tool_name: input.tool, tool_input: input.args, tool_use_id: input.callID }
      const response = { output: output.output, exit: output.metadata?.exit }
      ask("PostToolUse", input.sessionID, directory, { ...call, tool_response: response })
      if (late.has(input.callID)) output.output = `${output.output}\\n\\n${late.get(input.callID)}`
      late.delete(input.callID)
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const id = event.properties.sessionID
      const answer = ask("Stop", id, directory, {})
      if (answer.text) await client.session.prompt({ path: { id }, body: { parts: [{ type: "text", text: answer.text }] } })
    },
  }
}
"""


def whole_file(command: str) -> str:
    """The plugin."""
    return plugin(NAME, PLUGIN, command)


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload of the plugin tells; None for an event that is none of ours."""
    reading = opened(payload)
    if reading is None:
        return None
    # The plugin's own prompts come back as prompts, and begin no turn: the turn of a stop is the last real prompt's.
    record = record_of(payload, reading)
    if payload.get("hook_event_name") == "PostToolUse":
        record = call_record("after", payload)
        given = payload.get("tool_response")
        given = given if isinstance(given, dict) else {}
        code = given.get("exit")
        result: dict[str, Any] = {"failed": None}
        if isinstance(code, int) and not isinstance(code, bool):
            result.update(exit=code, failed=code != 0)
        record["result"] = clipped(result, text(given.get("output")))
    if record is None:
        return None
    reading.records.append(record)
    return reading


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """What the plugin is to do."""
    return to_plugin(decision)
