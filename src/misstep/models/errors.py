"""Why a model gave no answer that counts. Each is a failure of the call, never of what is judged."""

from __future__ import annotations


class ModelError(Exception):
    """No answer. The text is one line."""


class Unreachable(ModelError):
    """The server was busy, broken or silent through all retries."""


class Busy(ModelError):
    """One try failed, and another may succeed."""

    def __init__(self, message: str, after: float | None = None, sent: bool = False) -> None:
        super().__init__(message)
        self.after = after
        """Seconds that the server asked us to wait."""
        self.sent = sent
        """The request reached the server, which may have charged for it."""


class Rejected(ModelError):
    """The server refuses this request, and would again: a wrong key or model, a context too long, no credit."""


class InvalidAnswer(ModelError):
    """The model answered, and not in the form asked for, repairs included."""

    def __init__(self, message: str, texts: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.texts = texts
        """What it said, the first answer and each repair."""


class NotCached(ModelError):
    """Offline, and the cache has no answer to this request."""
