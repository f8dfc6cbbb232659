"""LangChain agents (1.5): `create_agent(model, tools, middleware=[GuardMiddleware()])`.

A denied call becomes an error message of its tool; a text at a call stands below the tool's message; a stop is turned
into another turn by going back to the model.
"""

from __future__ import annotations

import asyncio
from typing import Any

from . import Answer, Guard

try:
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain_core.messages import HumanMessage, ToolMessage
except ImportError as error:
    raise ImportError("the LangChain adapter needs `pip install langchain`") from error


class GuardMiddleware(AgentMiddleware):
    """One for each agent run."""

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__()
        self.guard = guard or Guard()

    def before_agent(self, state: Any, runtime: Any) -> None:
        """The last message of a person is the prompt."""
        for message in reversed(state["messages"]):
            if message.type == "human":
                self.guard.prompt(str(message.text))
                return

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Ask before the tool runs, tell what it gave."""
        answer = self._before(request.tool_call)
        if answer.action == "deny":
            return _denied(request.tool_call, answer.text)
        try:
            result = handler(request)
        except Exception as error:
            self._after(request.tool_call, str(error), True)
            raise
        return self._told(request.tool_call, result, answer.text)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same where the agent runs in an event loop."""
        call = request.tool_call
        answer = await asyncio.to_thread(self._before, call)
        if answer.action == "deny":
            return _denied(call, answer.text)
        try:
            result = await handler(request)
        except Exception as error:
            await asyncio.to_thread(self._after, call, str(error), True)
            raise
        return await asyncio.to_thread(self._told, call, result, answer.text)

    def _before(self, call: Any) -> Answer:
        return self.guard.before(call["id"], call["name"], call["args"])

    def _after(self, call: Any, output: str, failed: bool | None) -> None:
        self.guard.after(call["id"], call["name"], call["args"], output, failed=failed)

    def _told(self, call: Any, result: Any, text: str) -> Any:
        """The result, logged, with the text below it. A tool that gives a Command has its message in the update."""
        message = result if isinstance(result, ToolMessage) else _message(result, call["id"])
        if message is None:
            self._after(call, "", None)
            return result
        self._after(call, str(message.text), True if message.status == "error" else None)
        if text and isinstance(message.content, str):
            message.content = f"{message.content}\n\n{text}"
        elif text:
            message.content = [*message.content, {"type": "text", "text": text}]
        return result

    @hook_config(can_jump_to=["model"])  # type: ignore[untyped-decorator, unused-ignore]
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """A model's answer without calls is a stop."""
        last = state["messages"][-1]
        if getattr(last, "tool_calls", None):
            return None
        told = self.guard.stop(str(last.text))
        return {"messages": [HumanMessage(told)], "jump_to": "model"} if told else None


def _denied(call: Any, text: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")


def _message(command: Any, id: str) -> ToolMessage | None:
    """The message of a call in what a Command updates."""
    update = getattr(command, "update", None)
    messages = update.get("messages") if isinstance(update, dict) else None
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, ToolMessage) and message.tool_call_id == id:
            return message
    return None
