"""Claude Agent SDK (0.2): `ClaudeAgentOptions(hooks=hooks())`.

The SDK runs Claude Code and hands its hooks' payloads to Python functions: the same as in a hook process. Do not also
install the guard into the settings that it reads, or each event comes twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

from .. import run
from .._json import dumps, loads
from ..hosts.claude_code import EVENTS

try:
    from claude_agent_sdk import HookMatcher
except ImportError as error:
    raise ImportError("the Claude Agent SDK adapter needs `pip install claude-agent-sdk`") from error

OFFERED = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStop")
"""The events that the SDK offers of those that the guard wants."""


def hooks() -> dict[str, list[Any]]:
    """The guard's hooks in the form that ClaudeAgentOptions takes."""
    return {event: [HookMatcher(hooks=[answer])] for event in EVENTS if event in OFFERED}


async def answer(payload: Any, tool_use_id: str | None, context: Any) -> Any:
    """What a hook says to one event. Never raises."""
    try:
        data = dumps(dict(payload)).encode()
        said = await asyncio.to_thread(run.answer, "claude-code", data)
        return loads(said) if said else {}
    except Exception:
        return {}
