"""LangChain agents (1.5): `create_agent(model, tools, middleware=[GuardMiddleware()])`.

A denied call becomes an error message of its tool; a text at a call stands below the tool's message; a stop is turned
into another turn by going back to the model.
"""

from __future__ import annotations

from typing import Any

from . import Guard

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
        call = request.tool_call
        answer = self.guard.before(call["id"], call["name"], call["args"])
        if answer.action == "deny":
            return ToolMessage(answer.text, tool_call_id=call["id"], name=call["name"], status="error")
        result = handler(request)
        if isinstance(result, ToolMessage):
            self.guard.after(
                call["id"],
                call["name"],
                call["args"],
                str(result.text),
                failed=True if result.status == "error" else None,
            )
            if answer.text:
                result.content = f"{result.text}\n\n{answer.text}"
        return result

    @hook_config(can_jump_to=["model"])  # type: ignore[untyped-decorator, unused-ignore]
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """A model's answer without calls is a stop."""
        last = state["messages"][-1]
        if getattr(last, "tool_calls", None):
            return None
        told = self.guard.stop(str(last.text))
        return {"messages": [HumanMessage(told)], "jump_to": "model"} if told else None
