"""One hook process: payload in, events logged, policies asked, answer out."""

from __future__ import annotations

import os
import sys

from ._json import loads
from ._paths import faults_file, guard_home, make_folder, session_folder
from .hosts import host
from .session import Session, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any

    from .engine import Engine
    from .hosts import Reading
    from .portfolio import Watch
else:
    import _signal  # `signal` costs an enum

_exit = os._exit

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
        rest = answer(host_name, data, alone=True).encode()
        while rest:
            rest = rest[os.write(out, rest) :]
        tidy()
    except BaseException as error:
        _fault(host_name, error)


_begun: list[str] = []
"""Sessions that began in this process, since tidy()."""


def tidy() -> None:
    """Once a day, after the first event of a session is answered: see to old logs. For a process with one thread."""
    if _begun:
        _begun.clear()
        from .prune import in_background

        in_background()


def answer(host_name: str, data: bytes, logged: Callable[[], None] | None = None, alone: bool = False) -> str:
    """The output for one payload, '' where there is nothing to say or something went wrong.

    alone: the process is a hook or the daemon. Only in a program of somebody else's does a person's Ctrl-C come out of here.
    """
    try:
        return hook(host_name, data, logged, alone)
    except KeyboardInterrupt as error:
        if not alone:
            raise
        _fault(host_name, error)
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


def hook(host_name: str, data: bytes, logged: Callable[[], None] | None = None, alone: bool = False) -> str:
    """The output for one payload, '' for nothing. Raises on what cannot be read or written.

    logged: called once when the events are in the log, or are none. alone: see `answer`.
    """
    from .choice import mode_of, scored, settings

    if len(data) > LARGEST:
        raise ValueError(f"a payload of more than {LARGEST} bytes")
    logged = logged or _nothing
    given = settings()
    if mode_of(given) == "off":
        logged()
        return ""
    adapter = host(host_name)
    if not data.strip():
        raise ValueError("no payload: standard input is empty or closed")
    payload = loads(data.decode("utf-8", "replace"))
    if not isinstance(payload, dict):
        raise ValueError(f"a payload that is no object but {type(payload).__name__}")
    reading = adapter.read(payload)
    if reading is None or not reading.records:
        logged()
        return ""
    folder = session_folder(adapter.NAME, reading.session, reading.agent)
    with _Patience(LOCK) as clock, Session(folder) as session:
        clock.session = session
        new = not session.size
        if new:
            session.append(*_head(adapter.NAME, reading, payload, given))
            if reading.transcript and not reading.agent:
                _past(session, reading)
            if alone:
                _begun.append(reading.session)
        state = session.load()
        refused = _unlocked(given, new) if scored(given) else ""
        if refused or (state or {}).get("final"):
            _refuse(adapter.NAME, session, state, refused or str((state or {}).get("refused")), final=True)
            session.append(*(_stamped(r) for r in reading.records))
            logged()
            return ""
        quick = [r["e"] for r in reading.records] == ["after"] and not adapter.LATE_TEXT
        if quick:
            session.append(*(_stamped(r) for r in reading.records))
            logged()
            if state is not None and session.size - state["offset"] < LAG:
                return ""
        elif _early(reading, session, state, new):
            quick = True
            session.append(*(_stamped(r) for r in reading.records))
            logged()
        answer = ""
        with _Policies(given, payload, session, state, clock, alone) as policies:
            engine = policies.engine()
            if engine is None or engine.refused:
                why = engine.refused if engine else policies.error
                _refuse(adapter.NAME, session, state, why, final=scored(given) or engine is not None)
                if not quick:
                    session.append(*(_stamped(r) for r in reading.records))
                    logged()
                return ""
            if not quick:
                answer = _process(engine, session, adapter, reading, payload, clock, logged)
            session.save({**engine.dump(), **policies.told})
    return answer


class _Policies:
    """The policies of a session, while they are in use."""

    def __init__(
        self,
        given: dict[str, Any],
        payload: dict[str, Any],
        session: Session,
        state: dict[str, Any] | None,
        clock: _Patience,
        alone: bool,
    ) -> None:
        self.given, self.payload, self.session, self.state = given, payload, session, state
        self.clock, self.alone = clock, alone
        self.watch: Watch | None = None
        self.error = ""
        """Why there are none."""
        self.told: dict[str, Any] = {}
        """What the state says about where they come from."""

    def __enter__(self) -> _Policies:
        return self

    def __exit__(self, *_: object) -> None:
        if self.watch is not None:
            self.watch.close()
            self.clock.forget()

    def engine(self) -> Engine | None:
        """The engine at the end of the log, None where the portfolio cannot be used."""
        from . import choice
        from .engine import Engine
        from .portfolio import PATIENCE, PortfolioError, Watch

        state = self.state or {}
        if "cwd" not in state:  # it is new, or lost
            state = {**self._head(), **state}
        cwd = state["cwd"]
        where = choice.source(self.given, cwd)
        self.told = {"path": where.path, "left": where.left, "cwd": cwd}
        watch = Watch()
        kept = state.get("broken")
        broken: dict[str, str] = kept if isinstance(kept, dict) else {}
        if where.path:
            watch = self._marked(broken)
        try:
            self.clock.start(watch, PATIENCE)
            portfolio = choice.load_from(where, self.given, watch if where.path else None)
            self.clock.start(watch, portfolio.patience, len(portfolio.rules))
            engine = Engine(portfolio, watch, broken)
        except PortfolioError as error:
            self.error = str(error)
            return None
        finally:
            self.clock.stop()
        if (where.path, where.left) != (state.get("path"), state.get("left")):
            self.session.append({"e": "portfolio", "path": where.path, "left": where.left})
        return _catch_up(engine, self.session, self.state, self.clock)

    def _marked(self, broken: dict[str, str]) -> Watch:
        """A watch for policies that are not the catalogue's own."""
        from .watch import Marked

        self.watch = watch = Marked(self.session.folder)
        watch.aside.update(broken)
        if self.alone:
            watch.alone()
        watch.knows = self.clock.mind()
        return watch

    def _head(self) -> dict[str, Any]:
        """What the log's first record says of where the session began: its portfolio does not change with each `cd`."""
        head = next(self.session.records(0), {})
        cwd = head.get("cwd") or self.payload.get("cwd")
        found = {"path": head.get("portfolio", ""), "left": head.get("left", "")}
        return {**found, "cwd": cwd if isinstance(cwd, str) else ""}


def _refuse(host_name: str, session: Session, state: dict[str, Any] | None, error: str, final: bool) -> None:
    """Say once, in the session's log and among the faults, why no policy acts. final: for the rest of the session."""
    if (state or {}).get("refused") == error and bool((state or {}).get("final")) == final:
        return
    session.append(_stamped({"e": "refused", "error": error, **({"final": True} if final else {})}))
    session.save({"refused": error, "final": final})
    _fault(host_name, error)


def _catch_up(engine: Engine, session: Session, state: dict[str, Any] | None, clock: _Patience) -> Engine:
    """The engine, or one like it, at the end of the log."""
    start = 0
    if state is not None and state.get("key") == engine.portfolio.key:
        try:
            engine.restore(state)
            start = state["offset"]
        except (KeyError, TypeError, ValueError, AttributeError):
            faults = engine.faults
            engine = type(engine)(engine.portfolio, engine.watch, engine.broken)
            engine.faults += faults
    if start < session.size:
        # A log from its beginning may be long: its time is its length's, not one event's.
        usual = start or session.size < LAG
        clock.start(engine.watch, engine.portfolio.patience if usual else LOCK, len(engine.runs))
        engine.replay(session.records(start))
        clock.stop()
    _log_faults(engine, session)
    return engine


def _early(reading: Reading, session: Session, state: dict[str, Any] | None, new: bool) -> bool:
    """Whether a payload is a prompt that can be told from our own texts without the engine; it is marked.

    Such a one is logged before any policy's code runs: what ends the process there must not cost the session its task.
    """
    if [r["e"] for r in reading.records] != ["prompt"]:
        return False
    known: Any = [] if new else state.get("texts") if state and state["offset"] == session.size else None
    if not isinstance(known, list):
        return False
    _prompt(known, reading.records[0])
    return True


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
            _prompt(engine.texts, record)
        if kind in ("before", "stop") and engine.open:
            _exits(engine, session, adapter, reading)
        session.append(_stamped(record))
        if number == len(reading.records):
            logged()
        clock.start(engine.watch, engine.portfolio.patience, len(engine.runs))
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


def _prompt(texts: list[str], record: dict[str, Any]) -> None:
    """Tell a person's prompt from our own texts, by their digests, and from the harness's."""
    from misstep.trajectory.harness import said

    from .engine import digest_of

    text = record["text"]
    words = said(text)
    if not words or digest_of(text) in texts or digest_of(words) in texts:
        record["own"] = True
    else:
        record["text"] = words


def _head(host_name: str, reading: Reading, payload: dict[str, Any], given: dict[str, Any]) -> list[dict[str, Any]]:
    """The first records of a log. A sub-agent's task is what its parent was told: its own prompt comes from an agent."""
    import misstep

    from .choice import arm_of, mode_of, odd_mode, odd_settings, scored, source
    from .session import VERSION

    cwd = payload.get("cwd")
    cwd = cwd if isinstance(cwd, str) else ""
    where = source(given, cwd)

    for odd in (odd_settings(), odd_mode(given)):
        if odd:
            _fault(host_name, f"{odd}: the mode is {mode_of(given)}")
    head: list[dict[str, Any]] = [
        {
            "v": VERSION,
            "misstep": misstep.__version__,
            "host": host_name,
            "session": reading.session,
            "agent": reading.agent,
            "transcript": reading.transcript,
            "cwd": cwd,
            "portfolio": where.path,
            "left": where.left,
            "mode": mode_of(given),
            "arm": arm_of(given),
            "scored": scored(given),
        }
    ]
    if scored(given):
        from .scored import fingerprint

        head[0]["lock"] = fingerprint(where.path)
    if reading.agent:
        parent = read_json(session_folder(host_name, reading.session) + "/state.json")
        task = parent.get("task") if isinstance(parent, dict) else None
        if isinstance(task, str) and task:
            head.append(_stamped({"e": "prompt", "text": task, "inherited": True}))
    return head


def _past(session: Session, reading: Reading) -> None:
    """What happened in a session before the guard was there."""
    from .past import has_past, past

    if has_past(reading.records[0]):
        found = past(reading.transcript, reading.records[0])
        if found:
            session.append(*found)


def _unlocked(given: dict[str, Any], new: bool) -> str:
    """In a scored run: why the portfolio is not the locked one, '' where it is."""
    from .choice import chosen
    from .scored import unlocked

    return unlocked(chosen(given), new)


def _stamped(record: dict[str, Any]) -> dict[str, Any]:
    import time

    return {"t": round(time.time(), 3), **record}


def _log_faults(engine: Engine, session: Session) -> None:
    if engine.faults:
        session.append(*engine.faults)
        engine.faults = []


def _fault(host_name: str, error: BaseException | str) -> None:
    """Write down why a hook gave no answer, in the guard's home if that can be written."""
    said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    try:
        from ._json import dumps

        make_folder(guard_home())
        line = {**_stamped({"e": "fault"}), "host": host_name, "error": said[:500]}
        fd = os.open(faults_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, (dumps(line) + "\n").encode())
        finally:
            os.close(fd)
    except BaseException:
        sys.stderr.write(f"misstep: {said}\n")


class _Patience:
    """A clock that breaks off policies which do not come to an end, and at last the process itself."""

    def __init__(self, seconds: float) -> None:
        self.waiting = seconds
        self.session: Session | None = None
        self.watch: Watch | None = None
        self.rings = self.most = 0
        self.former: Any = None
        self.interrupt: Any = None

    def __enter__(self) -> _Patience:
        try:
            self.former = _signal.signal(_signal.SIGALRM, self._ring)
            _signal.setitimer(_signal.ITIMER_REAL, self.waiting)
        except ValueError:  # not the main thread: a program that runs us in-process has its own limits
            pass
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.forget()
        if self.former is not None:
            _signal.signal(_signal.SIGALRM, self.former)

    def mind(self) -> bool:
        """Let a person's Ctrl-C be told from a policy's own KeyboardInterrupt; whether that can be."""
        if self.former is None:
            return False
        found = _signal.getsignal(_signal.SIGINT)
        if callable(found):
            self.interrupt = found
            _signal.signal(_signal.SIGINT, _interrupted)
        return True

    def forget(self) -> None:
        """Ctrl-C is as it was."""
        if self.interrupt is not None:
            _signal.signal(_signal.SIGINT, self.interrupt)
            self.interrupt = None

    def start(self, watch: Watch, seconds: float, most: int = 8) -> None:
        """The policies have this many seconds from now; each that is broken off later gets a quarter more.

        most: how many there are.
        """
        self.watch, self.rings, self.most = watch, 0, most
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
        self.watch = None

    def _ring(self, signum: int, frame: Any) -> None:
        self.rings += 1
        watch = self.watch
        if watch is None:
            raise OutOfTime("the session's lock was not free")
        if self.rings > 8 + self.most:
            self.give_up(watch)
        if watch.asking:
            raise OutOfTime("it took too long")

    def give_up(self, watch: Watch) -> None:
        """A policy that swallows being broken off: the process ends here, the agent goes on, later hooks leave it alone."""
        error = OutOfTime("it could not be broken off")
        if watch.asking and self.session is not None:
            watch.condemn()
            self.session.append({"e": "fault", "misstep": watch.asking, "error": f"OutOfTime: {error}"})
        else:
            _fault("", error)
        _exit(0)


def _interrupted(signum: int, frame: Any) -> None:
    from .portfolio import Interrupted

    raise Interrupted
