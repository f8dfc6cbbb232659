"""terminus-2 (Harbor 0.26): `class MyAgent(Guarded, Terminus2)`.

It types keystrokes into a terminal: there are no exit statuses, so the policies see calls whose outcome is unknown. Its own
question whether the task is really complete is the place where a stop is turned into another turn.
"""

from __future__ import annotations

from typing import Any

from . import Answer, Guard


class Guarded:
    """Mix this in before the agent's class."""

    guard: Guard

    def new_guard(self) -> Guard:
        """The guard of a run; override it for one with a home or an arm of its own."""
        return Guard()

    async def run(self, instruction: str, *args: Any, **kwargs: Any) -> Any:
        self.guard = self.new_guard()
        self._calls = 0
        self.guard.prompt(instruction)
        return await super().run(instruction, *args, **kwargs)  # type: ignore[misc]

    async def _execute_commands(self, commands: list[Any], session: Any) -> tuple[bool, str]:
        allowed: list[Any] = []
        asked: list[tuple[str, dict[str, Any]]] = []
        texts: list[str] = []
        for command in commands:
            self._calls += 1
            call, given = f"keys-{self._calls}", {"command": command.keystrokes}
            # keystrokes to a program (C-c, q, an answer) are no shell command
            shell = command.keystrokes.endswith(("\n", "Enter"))
            answer = self.guard.before(call, "bash", given) if shell else Answer()
            if answer.text:
                texts.append(answer.text)
            if answer.action == "deny":
                break  # what follows was meant for the state after it
            allowed.append(command)
            if shell:
                asked.append((call, given))
        timed_out, output = await super()._execute_commands(allowed, session)  # type: ignore[misc]
        for call, given in asked:
            self.guard.after(call, "bash", given, output if call == asked[-1][0] else "")
        return timed_out, "\n\n".join([output, *texts])

    def _get_completion_confirmation_message(self, terminal_output: str) -> str:
        told = self.guard.stop(terminal_output[-2000:])
        asked: str = super()._get_completion_confirmation_message(terminal_output)  # type: ignore[misc]
        return f"{asked}\n\n{told}" if told else asked
