"""P = (E, G, A, R, S) over a live stream: what the policies of a portfolio say at each event, and what is done about it.

The engine works on records, the plain form in which hosts describe events and in which the log keeps them:

========= ===========================================================================================
prompt    text; own: true where it is no person's prompt (our own text coming back, a reminder)
before    id, tool, input, cwd: a call is proposed
after     id, tool, input, cwd, result: {output, exit, failed, fault, running, timed_out, truncated, seconds};
          open: true where the host tells the exit status later
exit      id, exit: the exit status of an open after
stop      message, turn
compact, interrupt, start
          Any of these with past: true happened before the guard was there, and is taken from the host's transcript.
unseen    error: why what happened before is not known
decision  at: index of the event that it is about; what was done (see `Decision`)
fault     misstep, error: a misstep that is not asked again in this session
refused   error: why no policy acts; final: true where that holds for the session (a scored run without its lock)
portfolio path, left: the policies that are asked from here on are those of that file, '' for the catalogue's own
========= ===========================================================================================

A call is folded into the states when it is proposed, unless it was denied. So a state can be had again from the log alone.
"""

from __future__ import annotations

from misstep._record import field, record
from misstep.catalogue.fold import Run
from misstep.trajectory import After, Before, Compact, Interrupt, Prompt, Result, Stop

from ._json import dumps
from ._paths import digest
from .calls import call_of
from .portfolio import PortfolioError, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from misstep.catalogue.base import Policy
    from misstep.trajectory import Call, Event

    from .portfolio import Portfolio, Rule

TASK = 20_000
"""Characters of the task that are kept for sub-agents."""
KEPT = 16
"""Denied calls, open results and own texts that are remembered."""


@record(slots=True)
class Decision:
    """What was decided at an event, and how it came about."""

    at: int
    """Index of the event in this agent's stream."""
    event: str
    """before | stop"""
    turn: str = ""
    """The turn that a stop ends."""
    action: str = ""
    """'' (nothing), 'deny' or 'instruct': what the host was asked to do."""
    text: str = ""
    """What the model is told, the wrapper around it included."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One row for every policy that acts at this kind of event: policy, mode, eligible (the words, or None), state (a
    digest), holds (G: true, false, null), released, used, fires (would intervene), fired (did)."""
    held: str = ""
    """Why nothing was done although a policy fires: 'observe', 'stop cap', or the policy whose denial came first."""

    def record(self) -> dict[str, Any]:
        """The line of the log."""
        line: dict[str, Any] = {"e": "decision", "at": self.at, "event": self.event, "rows": self.rows}
        if self.event == "stop":
            line["turn"] = self.turn
        if self.action:
            line["action"], line["text"] = self.action, self.text
        if self.held:
            line["held"] = self.held
        return line


class Engine:
    """The policies of a portfolio over one agent's stream."""

    def __init__(self, portfolio: Portfolio, watch: Watch | None = None, broken: dict[str, str] | None = None) -> None:
        self.portfolio = portfolio
        self.watch = watch or Watch()
        self.runs: dict[str, Run] = {}
        self.slots: list[tuple[Rule, Run, Policy]] = []
        self.broken: dict[str, str] = dict(broken or {})
        """Misstep id -> the error after which it is left alone."""
        self.faults: list[dict[str, Any]] = []
        """Faults since the last look, as records."""
        self.refused = ""
        """Why no policy acts in this session."""
        self._files = {r.misstep: r.module for r in portfolio.rules if r.module.endswith(".py")}
        self.index = 0
        self.step = 0
        self.prompted = False
        self.stops: dict[str, int] = {}
        """Turn -> stops that were turned into another turn."""
        self.texts: list[str] = []
        """Digests of texts that a host may give back as a prompt."""
        self.denied: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []
        self.late: dict[str, str] = {}
        """Call id -> a text that goes out with the call's result."""
        self.task = ""
        """The first real prompt, as far as eligibility reads it."""
        self._last: Before | None = None
        for rule in portfolio.rules:
            if rule.misstep in self.watch.aside:
                self._break(rule.misstep, self.watch.aside[rule.misstep])
            if rule.misstep in self.broken:
                continue
            run = self.runs.get(rule.misstep)
            if run is None:
                run = self._guarded(rule.misstep, lambda rule=rule: Run(portfolio.misstep(rule, self.watch)))  # type: ignore[misc]
                if run is None:
                    continue
                self.runs[rule.misstep] = run
            policy = next((p for p in run.misstep.policies if p.id == rule.policy), None)
            if policy is None:
                self._break(rule.misstep, f"no policy {rule.policy}")
                continue
            self.slots.append((rule, run, policy))

    # -- state -------------------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Everything to go on with, as JSON values."""
        return {
            "key": self.portfolio.key,
            "index": self.index,
            "step": self.step,
            "prompted": self.prompted,
            "stops": self.stops,
            "texts": self.texts,
            "denied": self.denied,
            "open": self.open,
            "late": self.late,
            "task": self.task,
            "broken": self.broken,
            "refused": self.refused,
            "runs": {
                name: [_plain(r.state), r.eligible, r.eligible_policies, r.nudges]
                for name, r in self.runs.items()
                if name not in self.broken
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what dump() gave under the same portfolio. Raises KeyError, TypeError or ValueError where it is not that."""
        for name, kept in state["runs"].items():
            if name in self.broken:
                continue
            run = self.runs[name]
            fields, run.eligible, run.eligible_policies, run.nudges = kept
            run.state = type(run.state)(**fields)
        self.index, self.step, self.prompted = state["index"], state["step"], state["prompted"]
        self.stops, self.texts = state["stops"], state["texts"]
        self.broken = {**self.broken, **state["broken"]}
        self.denied, self.open, self.late, self.task = state["denied"], state["open"], state["late"], state["task"]

    def replay(self, records: Iterable[dict[str, Any]]) -> None:
        """Fold records of the log in, doing again what was decided then and deciding nothing."""
        waiting: dict[str, Any] | None = None
        for line in records:
            kind = line.get("e")
            if kind == "decision":
                if line.get("action") == "deny":
                    if waiting is not None:
                        self._deny(waiting)
                    waiting = None
                elif waiting is not None:
                    self.fold(waiting)
                    waiting = None
                self._account(line)
                continue
            if waiting is not None:
                self.fold(waiting)
                waiting = None
            if kind in ("before", "stop"):
                waiting = line
            else:
                self.fold(line)
        if waiting is not None:
            self.fold(waiting)

    def _account(self, line: dict[str, Any]) -> None:
        """Count what a decision did."""
        for row in line.get("rows", ()):
            if row.get("fires") and (row.get("fired") or row.get("mode") == "observe"):
                for _, run, policy in self.slots:
                    if policy.id == row.get("policy"):
                        run.nudged(policy)
        text = line.get("text")
        if line.get("late"):
            self.late[str(line.get("id"))] = line["late"]
            while len(self.late) > KEPT:
                del self.late[next(iter(self.late))]
        if text:
            self._own(text)
            if line.get("event") == "stop":
                turn = line.get("turn", "")
                self.stops[turn] = self.stops.pop(turn, 0) + 1
                while len(self.stops) > KEPT:
                    del self.stops[next(iter(self.stops))]

    # -- events ------------------------------------------------------------------------------------------------------

    def fold(self, line: dict[str, Any]) -> None:
        """Fold one record into the states."""
        kind = line.get("e")
        if kind == "fault":
            self.broken.setdefault(str(line.get("misstep")), str(line.get("error")))
            self.faults = [f for f in self.faults if f["misstep"] != line.get("misstep")]  # it is told
            return
        if kind == "refused":
            self.refused = str(line.get("error")) if line.get("final") else ""
            return
        if kind == "unseen":
            self.prompted = True  # the task is not known, nor what was done for it: no policy is sure of anything
            return
        if kind == "exit":
            for number, kept in enumerate(self.open):
                if kept.get("id") == line.get("id"):
                    self._result(self.open.pop(number), line.get("exit"))
                    return
            return
        if kind == "after":
            self.late.pop(str(line.get("id")), None)
            if line.get("open"):
                self.open.append(line)
                if len(self.open) > KEPT:
                    self._result(self.open.pop(0), None)
                return
            self._result(line, None)
            return
        if kind == "stop":
            self._settle()
        event = self._event(line)
        if event is not None:
            self.see(event)

    def decide(self, line: dict[str, Any]) -> Decision:
        """Ask the policies about a `before` or `stop` record, account for the answer and fold the event in unless denied."""
        if line["e"] == "stop":
            self._settle()
        event = self._event(line)
        if event is None:
            raise ValueError(f"nothing is decided at {line['e']!r}")
        decision = self.consider(event, str(line.get("turn") or ""))
        if decision.action == "deny":
            self._deny(line)
        else:
            self.see(event)
        return decision

    def consider(self, event: Event, turn: str = "") -> Decision:
        """Ask the policies about a call or a stop and account for the answer. The event is not folded in: see()."""
        kind = "stop" if isinstance(event, Stop) else "before"
        # a host that does not name its turns: they are told by the prompts
        decision = Decision(self.index, kind, turn or str(self.step))
        digests: dict[str, str] = {}
        firing: list[tuple[Rule, Policy, dict[str, Any]]] = []
        for rule, run, policy in self.slots:
            if policy.at != kind or rule.misstep in self.broken:
                continue
            asked = self._guarded(rule.misstep, lambda run=run, policy=policy: run.ask(policy, event))  # type: ignore[misc]
            if asked is None:
                continue
            if rule.misstep not in digests:
                digests[rule.misstep] = digest(dumps(_plain(run.state)).encode())
            words = run.eligible_policies.get(policy.id)
            limit = rule.limit if rule.limit != 0 else policy.limit
            fires = bool(asked.holds) and not asked.released and (limit is None or asked.used < limit)
            row = {
                "policy": policy.id,
                "mode": rule.mode,
                "eligible": words,
                "state": digests[rule.misstep],
                "holds": asked.holds,
                "released": asked.released,
                "used": asked.used,
                "fires": fires and (words is not None or self.portfolio.unscoped),
                "fired": False,
            }
            decision.rows.append(row)
            if row["fires"]:
                firing.append((rule, policy, row))
        self._act(decision, firing)
        self._account(decision.record())
        return decision

    def _act(self, decision: Decision, firing: list[tuple[Rule, Policy, dict[str, Any]]]) -> None:
        enforced = [f for f in firing if f[0].mode == "enforce"]
        if not enforced:
            decision.held = "observe" if firing else ""
            return
        if decision.event == "stop" and self.stops.get(decision.turn, 0) >= self.portfolio.stop_cap:
            decision.held = "stop cap"
            return
        denial = next(
            (f for f in enforced if (f[0].action or f[1].action) == "deny" and decision.event == "before"), None
        )
        if denial is not None:
            decision.action = "deny"
            decision.held = denial[1].id if len(enforced) > 1 else ""
            enforced = [denial]
        else:
            decision.action = "instruct"
        for _, _, row in enforced:
            row["fired"] = True
        texts = [self.portfolio.text(rule, policy) for rule, policy, _ in enforced]
        decision.text = self.portfolio.wrapped("\n\n".join(texts))

    def _deny(self, line: dict[str, Any]) -> None:
        """A denied call has its index and is not folded in; should its result come, it ran after all."""
        self.index += 1
        self.denied.append(line)
        del self.denied[:-KEPT]

    def _settle(self) -> None:
        """Results whose exit status never came are folded in without it."""
        while self.open:
            self._result(self.open.pop(0), None)

    def _result(self, line: dict[str, Any], exit_code: Any) -> None:
        for number, denied in enumerate(self.denied):
            if denied.get("id") == line.get("id"):
                del self.denied[number]
                before = self._event(denied)
                if before is not None:
                    self.see(before)
                break
        given = line.get("result") or {}
        code = given.get("exit", exit_code) if given.get("exit") is not None else exit_code
        code = code if isinstance(code, int) and not isinstance(code, bool) else None
        fault = given.get("fault")
        failed = given.get("failed")
        if failed is None and code is not None and not fault:
            failed = code != 0
        result = Result(str(given.get("output") or ""), code, failed, fault)
        result.running, result.timed_out = bool(given.get("running")), bool(given.get("timed_out"))
        result.truncated, result.seconds = bool(given.get("truncated")), given.get("seconds")
        self.see(After(self.index, self.step, self._call(line), result))

    def _call(self, line: dict[str, Any]) -> Call:
        """The call of a result: that of the last proposal where it is its, already parsed then."""
        last = self._last
        if last is not None and last.call.id == line.get("id") and last.call.arguments == line.get("input"):
            return last.call
        return _call_of(line)

    def _event(self, line: dict[str, Any]) -> Event | None:
        kind = line.get("e")
        if kind == "before":
            self._last = Before(self.index, self.step, _call_of(line))
            return self._last
        if kind == "stop":
            return Stop(self.index, self.step, str(line.get("message") or ""))
        if kind == "prompt" and not line.get("own"):
            self.step += 1
            return Prompt(self.index, self.step, str(line.get("text") or ""))
        if kind == "compact":
            return Compact(self.index, self.step)
        if kind == "interrupt":
            return Interrupt(self.index, self.step)
        return None

    def see(self, event: Event) -> None:
        """Fold an event into the states; the first prompt decides eligibility."""
        if isinstance(event, Prompt) and not self.prompted:
            self.prompted = True
            self.task = event.text[:TASK]
            self._latch(event.text)
        self.index += 1
        for name, run in self.runs.items():
            if name not in self.broken:
                self._guarded(name, lambda run=run: run.misstep.observe(run.state, event))  # type: ignore[misc]

    def _latch(self, text: str) -> None:
        """E of every policy, once."""
        for name, run in self.runs.items():
            if name not in self.broken:
                self._guarded(name, lambda run=run: run.latch(text))  # type: ignore[misc]

    # -- our own texts -----------------------------------------------------------------------------------------------

    def _own(self, text: str) -> None:
        self.texts.append(digest_of(text))
        del self.texts[:-KEPT]

    # -- policies that misbehave -------------------------------------------------------------------------------------

    def _guarded(self, misstep: str, work: Callable[[], Any]) -> Any:
        """Run a misstep's code; what it raises puts the misstep aside for this session."""
        watch = self.watch
        watch.begin(misstep, self._files.get(misstep, ""))
        try:
            return work()
        except PortfolioError as error:
            self._break(misstep, str(error))
            return None
        except BaseException as error:
            if watch.passes(error):
                raise
            self._break(misstep, f"{type(error).__name__}: {error}")
            return None
        finally:
            watch.end()

    def _break(self, misstep: str, error: str) -> None:
        if misstep not in self.broken:
            self.broken[misstep] = error[:300]
            self.faults.append({"e": "fault", "misstep": misstep, "error": error[:300]})


def digest_of(text: str) -> str:
    """By which a text of ours is known again, whatever its blanks."""
    return digest(" ".join(text.split()).encode("utf-8", "replace"))


def _call_of(line: dict[str, Any]) -> Call:
    cwd = line.get("cwd")
    return call_of(str(line.get("id") or ""), str(line.get("tool") or ""), line.get("input"), cwd or None)


def _plain(state: Any) -> dict[str, Any]:
    """The fields of a state record."""
    return {name: getattr(state, name) for name in type(state).__match_args__}
