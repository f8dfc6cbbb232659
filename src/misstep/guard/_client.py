"""A hook's side of the resident daemon: the payload there, the answer back.

The daemon says 'L' as soon as the event is in the log. If it dies before that, the hook does its work itself; after that the
event must not be logged twice, and the hook says nothing.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECONDS = 25.0
"""That an answer may take."""


def read_input() -> bytes:
    """All of standard input."""
    blocks: list[bytes] = []
    while True:
        block = posix.read(0, 1 << 16)
        if not block:
            return b"".join(blocks)
        blocks.append(block)


def ask(path: bytes, host: str, data: bytes) -> bytes | None:
    """The answer of the daemon behind a socket, None where it gave none and the event is not logged."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    logged = False
    answer: list[bytes] = []
    try:
        connection.settimeout(SECONDS)
        connection.connect(path)
        environ: Any = posix.environ
        words = [host.encode()]
        words += [k + b"=" + v for k, v in environ.items() if k.startswith((b"MISSTEP_", b"XDG_STATE_HOME", b"HOME"))]
        head = b"\0".join(words)
        connection.sendall(b"%d %d\n" % (len(head), len(data)) + head + data)
        while True:
            block = connection.recv(1 << 16)
            if not block:
                break
            if not logged:
                logged, block = block[:1] == b"L", block[1:]
            answer.append(block)
    except OSError as error:
        # Out of time: the daemon may still come to the event. Anything else: it is gone.
        logged = logged or isinstance(error, TimeoutError)
        answer = []
    finally:
        connection.close()
    whole = b"".join(answer)
    if not logged:
        return None
    return whole[:-1] if whole[-1:] == b"E" else b""
