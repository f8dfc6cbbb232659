"""A codec that needs no tokenizer: one id a byte, and marks beside them. For small models made from nothing, and for tests."""

from __future__ import annotations

from collections.abc import Sequence

from misstep.train.episode import Action, Shown, submits

END, TASK, TURN, SHOWN = 256, 257, 258, 259
VOCABULARY = 260


class ByteCodec:
    """<task> instruction <turn> command <end> <shown> output <turn> ...

    A turn is `said<newline>$ command`, or the command alone; one that begins with `done` submits, its rest being the last words.
    """

    stop: Sequence[int] = (END,)

    def opening(self, instruction: str) -> list[int]:
        return [TASK, *instruction.encode("utf-8", "surrogateescape"), TURN]

    def turn(self, action: Action) -> list[int]:
        if action.submits:
            text = f"done {action.said}".strip()
        elif action.command is None:
            text = action.said
        else:
            text = f"{action.said}\n$ {action.command}" if action.said else f"$ {action.command}"
        return [*text.encode("utf-8", "surrogateescape"), END]

    def observation(self, shown: Shown) -> list[int]:
        text = shown.note or shown.output
        head = "" if shown.exit_code in (0, None) else f"[{shown.exit_code}] "
        return [SHOWN, *(head + text).encode("utf-8", "surrogateescape"), TURN]

    def action(self, ids: Sequence[int]) -> Action:
        text = self.text(ids).strip()
        if text == "done" or text.startswith("done "):
            return Action(None, text[4:].strip(), True)
        said, mark, command = f"\n{text}".partition("\n$ ")
        command, said = command.strip(), said.strip()
        if not mark or not command or "\0" in command:
            return Action(None, text)
        if submits(command):
            return Action(None, said or command, True)
        return Action(command, said)

    def text(self, ids: Sequence[int]) -> str:
        """The bytes among the ids, as text."""
        return bytes(one for one in ids if one < 256).decode("utf-8", "surrogateescape")
