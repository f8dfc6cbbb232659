"""What models are told: one versioned file a prompt, whose identity is part of every result.

A file `prompts/NAME.md` begins with the line `version: N`; then come sections, each begun by a line `# system`, `# user` or
`# assistant`. `{name}` in them is replaced by a value; other braces stay as they are.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from misstep.models import Message

FOLDER = Path(__file__).parent / "prompts"
_VERSION = re.compile(r"version: ([1-9][0-9]*)")
_SECTION = re.compile(r"^# (system|user|assistant)[ \t]*$", re.MULTILINE)
_PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\}")


class PromptError(ValueError):
    """A prompt file that is none, or values that do not fit it: a fault of ours."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as read from its file."""

    name: str
    version: int
    sha256: str
    """Of the file."""
    sections: tuple[tuple[str, str], ...]
    """(system | user | assistant, text with its places)."""

    @property
    def places(self) -> frozenset[str]:
        """The names in braces."""
        return frozenset(name for _, text in self.sections for name in _PLACE.findall(text))

    @property
    def identity(self) -> dict[str, Any]:
        """What tells a result made with this prompt from one made with another."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256}

    def render(self, **values: object) -> list[Message]:
        """The messages. A value is put in as it is: braces in it are not replaced again.

        Raises:
            PromptError: a value is missing, or has no place.
        """
        places = self.places
        for name in sorted(places ^ set(values)):
            raise PromptError(f"prompt {self.name}: {'no value for' if name in places else 'no place for'} {{{name}}}")
        return [Message(role, _PLACE.sub(lambda m: str(values[m[1]]), text)) for role, text in self.sections]


@cache
def load(name: str, folder: Path = FOLDER) -> Prompt:
    """The prompt of that name. Raises PromptError."""
    path = folder / f"{name}.md"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PromptError(f"{path}: {error.strerror}") from None
    first, _, rest = raw.decode("utf-8").partition("\n")
    version = _VERSION.fullmatch(first.strip())
    if version is None:
        raise PromptError(f"{path}: the first line is `version: N`, not {first!r}")
    before, *parts = _SECTION.split(rest)
    if before.strip() or not parts:
        raise PromptError(f"{path}: after the version come sections begun by `# system`, `# user` or `# assistant`")
    sections = tuple((role, text.strip()) for role, text in zip(parts[::2], parts[1::2], strict=True))
    if any(not text for _, text in sections):
        raise PromptError(f"{path}: a section is empty")
    return Prompt(name, int(version[1]), hashlib.sha256(raw).hexdigest(), sections)
