"""What is asked of a model and what it answered, free of any provider."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CHARACTERS_PER_TOKEN = 3.0
"""A careful estimate: English has four, code and JSON about three."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: str
    """system | user | assistant"""
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call: everything that decides the answer, and nothing else."""

    model: str
    """provider:name"""
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer, None for free text."""
    structured: str = "schema"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """temperature, max_tokens, ... as given for the role."""
    sample: int = 0
    """Tells independent samples of one request apart."""

    @property
    def key(self) -> str:
        """SHA-256 of the request: equal requests have equal answers. The server's address is no part of it."""
        plain = [self.model, _text(self.schema), self.structured, self.settings, self.sample]
        made = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
        for message in self.messages:  # with its length, so that no two conversations are the same bytes
            text = message.text.encode("utf-8", "surrogatepass")
            made.update(f"\n{message.role} {len(text)}\n".encode())
            made.update(text)
        return made.hexdigest()

    def characters(self) -> int:
        """Of everything that is sent."""
        return len(_text(self.schema)) + sum(len(message.text) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back from one call."""

    text: str
    model: str = ""
    """As the server names it."""
    finish: str = ""
    """stop | length | content_filter | ..."""
    input_tokens: int = 0
    """With cached ones."""
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """None where no price is known."""
    seconds: float = 0.0
    logprobs: tuple[float, ...] = ()
    token_ids: tuple[int, ...] = ()
    """Of the answer, where the server gives them."""
    prompt_ids: tuple[int, ...] = ()
    """Of what was asked, as the server's chat template made it, where the server gives them."""

    def plain(self) -> dict[str, Any]:
        """As kept in the cache."""
        made = {name: getattr(self, name) for name in self.__slots__}
        made["prompt_ids"] = _packed(self.prompt_ids)
        return {name: value for name, value in made.items() if name == "text" or value not in ("", (), None)}

    @classmethod
    def from_plain(cls, given: Mapping[str, Any]) -> Answered:
        """Back from the cache."""
        whole = dict(given)
        for name in ("logprobs", "token_ids"):
            whole[name] = tuple(whole.get(name, ()))
        whole["prompt_ids"] = _unpacked(whole.get("prompt_ids", ""))
        return cls(**whole)


def _packed(ids: Sequence[int]) -> str:
    """Token ids as a short text: every step of a long conversation has those of all steps before it."""
    return base64.b85encode(zlib.compress(array("q", ids).tobytes(), 6)).decode() if ids else ""


def _unpacked(text: str) -> tuple[int, ...]:
    if not text:
        return ()
    made = array("q")
    made.frombytes(zlib.decompress(base64.b85decode(text)))
    return tuple(made)


_texts: dict[int, tuple[Mapping[str, Any], str]] = {}


def _text(schema: Mapping[str, Any] | None) -> str:
    """The schema as JSON; kept, for the few schemas there are."""
    if schema is None:
        return ""
    known = _texts.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_texts) > 200:
            _texts.clear()
        known = _texts[id(schema)] = (schema, json.dumps(schema, sort_keys=True))
    return known[1]


def conversation(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, checked: a role that is none is a fault of ours."""
    for message in messages:
        if message.role not in ("system", "user", "assistant"):
            raise ValueError(f"a message's role is system, user or assistant, not {message.role!r}")
    return tuple(messages)
