"""OpenCode (1.18), through a plugin that runs a hook for each event.

Plugins are JavaScript in OpenCode's own process: ours hands each event to the hook and does what it answers. A denial is an
exception before the tool; a text at a call stands below its output; after a stop the plugin prompts the session again.
"""

from __future__ import annotations

from .._json import dumps
from . import Reading, call_record, clipped, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Decision

NAME = "opencode"
EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionStart")
CONFIG = ("OPENCODE_CONFIG_DIR", "~/.config/opencode", "plugin/misstep-guard.js")
PROJECT = ".opencode/plugin/misstep-guard.js"
LATE_TEXT = False

PLUGIN = """// Written by `misstep guard install opencode`; `misstep guard uninstall opencode` removes it.
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

export const MisstepGuard = async ({ client, directory }) => {
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
    return PLUGIN.replace("@COMMAND@", dumps(command))


def read(payload: dict[str, Any]) -> Reading | None:
    """What a payload of the plugin tells; None for an event that is none of ours."""
    event, session = payload.get("hook_event_name"), text(payload.get("session_id"))
    if not session:
        return None
    reading = Reading(session)
    records = reading.records
    if event == "UserPromptSubmit":
        records.append({"e": "prompt", "text": text(payload.get("prompt"))})
    elif event == "PreToolUse":
        records.append(call_record("before", payload))
    elif event == "PostToolUse":
        record = call_record("after", payload)
        given = payload.get("tool_response")
        given = given if isinstance(given, dict) else {}
        code = given.get("exit")
        result: dict[str, Any] = {"failed": None}
        if isinstance(code, int) and not isinstance(code, bool):
            result.update(exit=code, failed=code != 0)
        record["result"] = clipped(result, text(given.get("output")))
        records.append(record)
    elif event == "Stop":
        # The plugin's own prompts come back as prompts: the turn is the last real one's.
        records.append({"e": "stop", "message": text(payload.get("last_assistant_message")), "turn": ""})
    elif event == "SessionStart":
        records.append({"e": "start", "source": text(payload.get("source"))})
    else:
        return None
    return reading


def answer(decision: Decision, payload: dict[str, Any]) -> str:
    """What the plugin is to do."""
    return dumps({"deny" if decision.action == "deny" else "text": decision.text})
