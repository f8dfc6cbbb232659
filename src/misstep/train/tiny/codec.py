"""Words and ids of the small policy: <task> instruction <turn> command <end> <shown> output <turn> ...

As `train.codec.ByteCodec`, with pieces for bytes. A turn is a command, or `done` and the last words. What is shown is kept short:
its first 40 characters, what is no printable ASCII as one `?` a run, and the exit code where it is not 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from misstep.train.episode import Action, Shown, submits
from misstep.train.tiny.bpe import Bpe

MARKS = 4
"""end, task, turn, shown: the ids after the tokenizer's."""
_MOST = 40
_STRANGE = re.compile(r"[^\x20-\x7e\n]+")


class TinyCodec:
    """The codec over a tokenizer."""

    def __init__(self, pieces: Bpe) -> None:
        self.pieces = pieces
        self.end, self.task, self.begin, self.shown = (len(pieces) + n for n in range(MARKS))
        self.stop: Sequence[int] = (self.end,)

    def __len__(self) -> int:
        return len(self.pieces) + MARKS

    def opening(self, instruction: str) -> list[int]:
        return [self.task, *self.pieces.encode(instruction), self.begin]

    def turn(self, action: Action) -> list[int]:
        return [*self.pieces.encode(turn_text(action)), self.end]

    def observation(self, shown: Shown) -> list[int]:
        return [self.shown, *self.pieces.encode(shown_text(shown)), self.begin]

    def action(self, ids: Sequence[int]) -> Action:
        text = self.pieces.decode(one for one in ids if one < len(self.pieces)).strip()
        if text == "done" or text.startswith("done "):
            return Action(None, text[5:].strip(), True)
        if not text or "\0" in text:
            return Action(None, text)
        if submits(text):
            return Action(None, text, True)
        return Action(text)


def turn_text(action: Action) -> str:
    """A turn as the policy writes it."""
    return f"done {action.said}".strip() if action.submits else action.command or action.said


def shown_text(shown: Shown) -> str:
    """What the policy reads of an output."""
    text = _STRANGE.sub("?", shown.note or shown.output).strip()[:_MOST]
    return text if shown.exit_code in (0, None) else f"[{shown.exit_code}] {text}"
