"""One hook process: payload in, events logged, policies asked, answer out."""

from __future__ import annotations

import os
import sys

from ._json import loads
from ._paths import faults_file, guard_home, make_folder, session_folder, settle_mode
from .hosts import host
from .session import Session, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any

    from .engine import Engine
    from .hosts import Reading
else:
    import _signal  # `signal` costs an enum

LARGEST = 64 << 20
"""Bytes of a payload; a larger one is not read."""
LAG = 1 << 16
"""Bytes of the log that results may add before they are folded in; until then they wait for the next call or stop."""
LOCK = 25.0
"""Seconds that a hook waits for the hooks before it."""


class OutOfTime(BaseException):
    """The policies had their time. Not an Exception: a policy's own handlers shall not swallow it."""


def main(host_name: str, data: bytes | None = None) -> None:
    """Read the payload, decide, print the answer. Never raises; what goes wrong is written to the log."""
    os.umask(0o077)
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        data = _input() if data is None else data
        os.dup2(null, 1)  # what a policy prints is no answer
        os.dup2(null, 0)
        rest = answer(host_name, data).encode()
        while rest:
            rest = rest[os.write(out, rest) :]
    except BaseException as error:
        _fault(host_name, error)


def answer(host_name: str, data: bytes, logged: Callable[[], None] | None = None) -> str:
    """The output for one payload, '' where there is nothing to say or something went wrong. Never raises."""
    try:
        return hook(host_name, data, logged)
    except BaseException as error:
        _fault(host_name, error)
        return ""


def _input() -> bytes:
    blocks: list[bytes] = []
    size = 0
    while True:
        block = os.read(0, 1 << 16)
        if not block:
            return b"".join(blocks)
        size += len(block)
        if size > LARGEST:
            raise ValueError(f"a payload of more than {LARGEST} bytes")
        blocks.append(block)


def hook(host_name: str, data: bytes, logged: Callable[[], None] | None = None) -> str:
    """The output for one payload, '' for nothing. Raises on what cannot be read or written.

    logged: called once when the events are in the log, or are none.
    """
    from .portfolio import mode_of, settings

    if len(data) > LARGEST:
        raise ValueError(f"a payload of more than {LARGEST} bytes")
    logged = logged or _nothing
    unknown = settle_mode()
    given = settings()
    if mode_of(given) == "off":
        logged()
        return ""
    adapter = host(host_name)
    payload = loads(data.decode("utf-8", "replace"))
    if not isinstance(payload, dict):
        raise ValueError(f"a payload that is no object but {type(payload).__name__}")
    reading = adapter.read(payload)
    if reading is None or not reading.records:
        logged()
        return ""
    kinds = [r["e"] for r in reading.records]
    quick = kinds == ["after"] and not adapter.LATE_TEXT
    engine = None if quick else _engine(given, payload)
    folder = session_folder(adapter.NAME, reading.session, reading.agent)
    with _Patience(LOCK) as clock, Session(folder) as session:
        clock.session = session
        if not session.size:
            if unknown:
                _fault(adapter.NAME, ValueError(f"$MISSTEP_GUARD says {unknown!r}, which is no mode: {mode_of(given)}"))
            session.append(*_head(adapter.NAME, reading, given))
            wrong = _unlocked(given)
            if wrong:
                session.append(_stamped({"e": "refused", "error": wrong}))
                session.save({"refused": wrong})
        state = session.load()
        if (state or {}).get("refused"):
            session.append(*(_stamped(r) for r in reading.records))
            logged()
            return ""
        if engine is None:
            session.append(*(_stamped(r) for r in reading.records))
            logged()
            if state is not None and session.size - state["offset"] < LAG:
                return ""
            engine = _catch_up(_engine(given, payload), session, state, clock)
            answer = ""
        else:
            engine = _catch_up(engine, session, state, clock)
            answer = _process(engine, session, adapter, reading, payload, clock, logged)
        session.save(engine.dump())
    return answer


def _engine(given: dict[str, Any], payload: dict[str, Any]) -> Engine:
    from . import portfolio
    from .engine import Engine

    cwd = payload.get("cwd")
    return Engine(portfolio.load(given, cwd if isinstance(cwd, str) else ""))


def _catch_up(engine: Engine, session: Session, state: dict[str, Any] | None, clock: _Patience) -> Engine:
    """The engine, or one like it, at the end of the log."""
    start = 0
    if state is not None and state.get("key") == engine.portfolio.key:
        try:
            engine.restore(state)
            start = state["offset"]
        except (KeyError, TypeError, ValueError, AttributeError):
            engine = type(engine)(engine.portfolio)
    if start < session.size:
        # A log from its beginning may be long: its time is its length's, not one event's.
        clock.start(engine, engine.portfolio.patience if start else LOCK)
        engine.replay(session.records(start))
        clock.stop()
    _log_faults(engine, session)
    return engine


def _nothing() -> None: ...


def _process(
    engine: Engine,
    session: Session,
    adapter: Any,
    reading: Reading,
    payload: dict[str, Any],
    clock: _Patience,
    logged: Callable[[], None],
) -> str:
    """Log the records of a payload, then decide and log the decision; the output."""
    answer = ""
    for number, record in enumerate(reading.records, 1):
        kind = record["e"]
        if kind == "prompt":
            _prompt(engine, record)
        if kind in ("before", "stop") and engine.open:
            _exits(engine, session, adapter, reading)
        session.append(_stamped(record))
        if number == len(reading.records):
            logged()
        clock.start(engine, engine.portfolio.patience)
        if kind not in ("before", "stop"):
            if kind == "after" and record["id"] in engine.late:
                answer = adapter.late(engine.late[record["id"]], payload)
            engine.fold(record)
            clock.stop()
            continue
        decision = engine.decide(record)
        clock.stop()
        line = decision.record()
        if kind == "before" and decision.action == "instruct" and adapter.LATE_TEXT:
            line["late"] = engine.late[record["id"]] = decision.text
            line["id"] = record["id"]
        session.append(line)
        if decision.action and not line.get("late"):
            answer = adapter.answer(decision, payload)
    _log_faults(engine, session)
    return answer


def _exits(engine: Engine, session: Session, adapter: Any, reading: Reading) -> None:
    """Log and fold in the exit statuses that the host's transcript tells by now."""
    for call, code in adapter.exits(reading, engine.open).items() if hasattr(adapter, "exits") else ():
        record = {"e": "exit", "id": call, "exit": code}
        session.append(record)
        engine.fold(record)


def _prompt(engine: Engine, record: dict[str, Any]) -> None:
    """Tell a person's prompt from our own texts, and from the harness's."""
    from misstep.trajectory.harness import said

    text = record["text"]
    words = said(text)
    if not words or engine.is_own(text) or engine.is_own(words):
        record["own"] = True
    else:
        record["text"] = words


def _head(host_name: str, reading: Reading, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The first records of a log. A sub-agent's task is what its parent was told: its own prompt comes from an agent."""
    import misstep

    from .portfolio import mode_of
    from .session import VERSION

    head: list[dict[str, Any]] = [
        {
            "v": VERSION,
            "misstep": misstep.__version__,
            "host": host_name,
            "session": reading.session,
            "agent": reading.agent,
            "transcript": reading.transcript,
            "mode": mode_of(given),
            "arm": os.environ.get("MISSTEP_ARM") or given.get("arm") or "real",
        }
    ]
    if reading.agent:
        parent = read_json(session_folder(host_name, reading.session) + "/state.json")
        task = parent.get("task") if isinstance(parent, dict) else None
        if isinstance(task, str) and task:
            head.append(_stamped({"e": "prompt", "text": task, "inherited": True}))
    return head


def _unlocked(given: dict[str, Any]) -> str:
    """In a scored run: why the portfolio is not the locked one, '' where it is."""
    if not (os.environ.get("MISSTEP_SCORED") or given.get("scored")):
        return ""
    from .portfolio import chosen

    path = chosen(given)
    locked = read_json(path) if path and not path.endswith(".toml") else None
    if not isinstance(locked, dict) or "lock" not in locked:
        return f"a scored run needs a lock, not {path or 'the catalogue as it is'}"
    from .freeze import verify

    return verify(locked)


def _stamped(record: dict[str, Any]) -> dict[str, Any]:
    import time

    return {"t": round(time.time(), 3), **record}


def _log_faults(engine: Engine, session: Session) -> None:
    if engine.faults:
        session.append(*engine.faults)
        engine.faults = []


def _fault(host_name: str, error: BaseException) -> None:
    """Write down why a hook gave no answer, in the guard's home if that can be written."""
    try:
        from ._json import dumps

        make_folder(guard_home())
        line = {**_stamped({"e": "fault"}), "host": host_name, "error": f"{type(error).__name__}: {error}"[:500]}
        fd = os.open(faults_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, (dumps(line) + "\n").encode())
        finally:
            os.close(fd)
    except BaseException:
        sys.stderr.write(f"misstep: {type(error).__name__}: {error}\n")


class _Patience:
    """A clock that breaks off policies which do not come to an end, and at last the process itself."""

    def __init__(self, seconds: float) -> None:
        self.waiting = seconds
        self.session: Session | None = None
        self.engine: Engine | None = None
        self.rings = 0
        self.former: Any = None

    def __enter__(self) -> _Patience:
        try:
            self.former = _signal.signal(_signal.SIGALRM, self._ring)
            _signal.setitimer(_signal.ITIMER_REAL, self.waiting)
        except ValueError:  # not the main thread: a program that runs us in-process has its own limits
            pass
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.former is not None:
            _signal.signal(_signal.SIGALRM, self.former)

    def start(self, engine: Engine, seconds: float) -> None:
        """The policies have this many seconds from now; each that is broken off later gets a quarter more."""
        self.engine, self.rings = engine, 0
        try:
            _signal.setitimer(_signal.ITIMER_REAL, seconds, seconds / 4)
        except ValueError:
            pass

    def stop(self) -> None:
        """No limit from here on."""
        try:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
        except ValueError:
            pass
        self.engine = None

    def _ring(self, signum: int, frame: Any) -> None:
        self.rings += 1
        engine = self.engine
        if engine is None:
            raise OutOfTime("the session's lock was not free")
        if self.rings > 8 + len(engine.runs):
            self.give_up(engine.asking)
        if engine.asking:
            raise OutOfTime("it took too long")

    def give_up(self, misstep: str) -> None:
        """A policy that swallows being broken off: the process ends here, the agent goes on, later hooks leave it alone."""
        error = OutOfTime("it could not be broken off")
        if misstep and self.session is not None:
            self.session.append({"e": "fault", "misstep": misstep, "error": f"OutOfTime: {error}"})
        else:
            _fault("", error)
        os._exit(0)
