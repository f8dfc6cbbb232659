"""The agent stops with a service that it never detached, or never reached again from a later call.

## What it is
The task wants a server, daemon, listener or virtual machine to be running when the work is judged. The agent
launched one, and ends its turn although no launch was put in a session of its own with its streams
redirected, or although no later, separate call has talked to it.

## Why it matters
What a shell started with a plain `&`, and what a harness runs as a background task, belongs to that shell's
process group. When the harness closes the shell, the service goes with it: a working solution is lost
after the work was done. A probe in the launching call proves nothing about the time after it.

## How it is told
Only for tasks that ask for something to be running, listening or reachable (by ssh, curl, telnet ...).
A launch counts by a recognised launcher or explicit listen flags, or by a script of the agent whose text
starts a server. Detached is `setsid`, a detached tmux or screen, systemd or an init system, a
program's own daemon option: in a new session, with output redirected (a background job of a script has no
terminal on its input). A plain `&`, `nohup` and `disown` with redirected outputs survive the shell of their call, as a
later probe from another call shows, but not the end of their
process group: whether that comes is not in the record, so with a later probe the verdict is unknown. So it is
for a launch in a terminal that stays open, and for a launch on another machine. A probe is a later call that
talks to the service and does not fail. A launch that its own call ends again (`kill $!`, a script that terminates what it
started) is a trial and no launch; where there were only trials, nothing is left running.

## What the policy does
At the stop, once: asks to relaunch the service in a new session with all three streams redirected and to
probe it from a separate call; if that already holds, to change nothing. It also asks where the verdict is unknown because no
launch was in a session of its own, though a later call reached one (a plain `&` or `nohup` with its outputs in a file, a terminal):
some harnesses end such jobs when they exit, and the question costs a turn at most. It is silent where a launch was on another
machine or a later command could not be read.

## Known misses
A service that was launched detached, probed, and killed by a later call is not noticed. Which of several
services a probe has reached is not told apart.
"""

from __future__ import annotations

import re

from misstep._record import record
from misstep.shell import Command, Effect
from misstep.trajectory import After, Before, Call, Event, Stop

from ._fire import Memory, Procedure, base, effects_of_text, program_of, remember, written
from ._tasks import code_work, said, sentences
from ._world import outputs_redirected
from .base import Policy, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_ADDRESS = r"(?:\bport\b|localhost|127\.0\.0\.1|0\.0\.0\.0|https?://|\b\w+@\w|:\d{2,5}\b|\bunix socket\b)"
_NOUN = (
    r"(?:(?:web|http|https|ssh|file|grpc|mail|mock|proxy|notebook|database|git|dns|ftp|tcp|udp)[ -]?)?"
    r"(?:servers?|webserver|service|daemon|listener|endpoints?|api|socket|vm|virtual machine|notebook|broker|proxy|"
    r"web ?app|web ?site|site|application|app|database|guest|emulator|nginx|apache|redis|postgres|postgresql|mysql)"
    r"(?![\w-]|\s+(?:client|logs?|config\w*|key|docs?|code|tests?|spec|script|certificate|error))"
)
_STATE = (
    r"(?:running|reachable|listening|accessible|online|up and running|serving|left running|kept running"
    rf"|(?:available|up|run|runs|listen|listens|serve|respond|answer|served|exposed)\b(?=.{{0,60}}(?:{_ADDRESS}|in the background)))"
)
_MODAL = r"(?:must|should|needs? to|has to|have to|shall|ought to|is to|are to)"
_WHO = (
    r"(?:i|we|users?|anyone|someone|they|clients?|people|everyone|(?:the |my |our )?"
    r"(?:grader|checker|reviewers?|tests?|team|colleagues?|monitor|browser))"
)
_MAY = r"(?:can(?! ?not|['’]t)|could|should be able to|must be able to|will be able to|am able to|are able to|want to be able to)"
_REACH = (
    rf"(?:ssh|curl|telnet|wget|netcat|grpcurl)\b|connect\b.{{0,30}}(?:\bto it|\bto the {_NOUN}|{_ADDRESS}|\b(?:via|over|with|using) (?:ssh|telnet|vnc|tcp))"
    rf"|(?:reach|access|visit|open|browse|query|fetch|ping|log ?in|load|send)\b.{{0,60}}(?:{_ADDRESS}|(?:over|via) ssh)"
)
_RUN_REACH = (
    r"(?:run|use|execute|do|type|issue|call)\b.{0,40}?(?:\bssh\b|\bcurl\b|\btelnet\b|\bnc\b|\bgit (?:clone|push) \S*@)"
)
_START = (
    r"(?:start|launch|boot|bring up|spin up|stand up|host|serve|expose|set ?up|setup|configure|deploy|run|"
    r"(?:create|write|build|make|implement|install)(?: [^.,]{0,40})? and (?:run|start|launch|host|serve)|return|provide)"
)
_OTHER_USE = r"\b(?:client|scripts?|tests?|scraper|crawler|connects? to|against|benchmark|unit file|dockerfile|flag|option|function|class|method)\b"
_SERVES = (
    r"\.serve_forever\(|\bapp\.run\(|uvicorn\.run\(|\bweb\.run_app\(|\.run_forever\(|\.listen\((?:\d|PORT|port|process)|http\.createServer\(|"
    r"\bserve\(app|\bgrpc\.server\(|\.wait_for_termination\(|start_server\("
)
_ENDS = r"\.(?:terminate|kill|send_signal)\(|\bos\.killpg?\(|\bprocess\.kill\("
"""How a program text ends what it has started."""
_IN_A_TEXT = frozenset(["python", "node"])
_TALKS = r"\brequests\.(?:get|post|put|delete|head)\(|urlopen\(|http\.client|aiohttp\.ClientSession|httpx\.|create_connection\(|\bfetch\(|\bcurl\b|_channel\("
_PUBLIC = r"\b(?!localhost)[\w-]+\.(?:com|org|net|io|dev|gov|edu)\b"


def _task(prompt: str) -> str | None:
    everything = sentences(prompt)
    has_noun = any(re.search(rf"\b{_NOUN}", s, re.I) for s in everything)
    for sentence in everything:
        outside = re.search(_PUBLIC, sentence, re.I) and not re.search(_ADDRESS, sentence, re.I)
        if not outside:
            found = said(sentence, rf"\b{_WHO} {_MAY}\b.{{0,40}}?\b(?:{_REACH})") or said(
                sentence, rf"\b(?:{_WHO} )?{_MAY}\b (?:then )?{_RUN_REACH}"
            )
            if found and (not code_work(sentence) or re.search(_ADDRESS, sentence, re.I)):
                return found
        if code_work(sentence):
            found = said(
                sentence,
                rf"\bso that (?:the |my |our )?{_NOUN}.{{0,30}} (?:is|are|stays?|becomes?) (?:\w+ )?{_STATE}",
            )
            if found and re.search(_ADDRESS, sentence, re.I):
                return found
            continue
        found = said(sentence, rf"\b{_NOUN}.{{0,60}}?\b{_MODAL} (?!not\b).{{0,40}}?\b{_STATE}")
        if found:
            return found
        match = re.search(
            rf"(?:^|[,:] |\bthen |\band |\bplease |\bto |\byou |\d[.)] |[-*•] ){_START}\b(?P<what>[^.:]{{0,60}}?\b{_NOUN}.{{0,80}}?)"
            rf"(?:{_ADDRESS}|in the background|\b(?:up and )?running\b|\blistening\b|\blistens\b)",
            sentence,
            re.I,
        )
        if match and not re.search(_OTHER_USE, match.group("what"), re.I):
            found = said(sentence, re.escape(match.group().strip(" ,:-*•")))
            if found:
                return found
        found = said(
            sentence,
            rf"\b(?:the|your|this|its?|both) (?:[\w-]+ ){{0,4}}?{_MODAL} (?!not\b)(?:still )?be (?:up and |left )?"
            rf"(?:running|listening|reachable|accessible)\b.{{0,60}}?{_ADDRESS}",
        )
        if found and not re.search(_OTHER_USE, found, re.I):
            return found
        found = said(
            sentence,
            rf"\bserv(?:e|ing) (?:it|them|this|these|the [\w-]+)(?: \w+)? (?:on|at|from|under|over) .{{0,30}}?{_ADDRESS}",
        )
        if found:
            return found
        if has_noun:
            found = said(
                sentence,
                rf"\b(?:it|this|they|both) {_MODAL} (?!not\b).{{0,40}}?\b{_STATE}"
                rf"|\bhave (?:it|them|both|(?:the |your |a )?{_NOUN}) (?:up and )?(?:running|listening)\b"
                rf"|\b(?:leave|keep)s? (?:it|them|both|everything|(?:the |your |a )?{_NOUN})(?: \w+)? (?:running|up|listening|online|in the background)\b"
                r"|\b(?:leave|leaving|left|keep|stay|stays|stay up and) running (?:after|when|until|once|so)\b",
            )
            if found:
                return found
    return None


@record
class Services(Memory):
    """Event indices, -1 where there is none."""

    detached: int = -1
    """The last launch in a session of its own with its output redirected."""
    attached: int = -1
    """The last launch that stays with its shell."""
    unsure: int = -1
    """The last launch of which the record cannot tell whether it survives, with the reason."""
    reason: str = ""
    probe: int = -1
    """The last probe that came in a later call than every launch so far."""
    maybe: int = -1
    """The last run of a program whose text is not in the record: it may have probed."""
    trial: int = -1
    """The last launch that its own call ended again."""

    @property
    def launched(self) -> int:
        return max(self.detached, self.attached, self.unsure)

    @property
    def done(self) -> bool:
        """A detached launch, then a separate probe, and nothing launched since."""
        return self.detached >= 0 and self.detached == self.launched and self.probe > self.detached


class ServicePolicy(Policy):
    id = "service-persistence"
    at = "stop"
    text = (
        "Before you stop: the task needs the service to outlive this session. A process that belongs to this shell "
        "(a plain `&`, nohup, a background task of the tool) can end together with it. If the service already runs in "
        "a session of its own with standard input, output and error redirected, and a later, separate call has "
        "reached it, change nothing and stop. Otherwise: end the instance that you started, by its process id; start "
        "it again in a new session (setsid, the init system, a detached tmux, or the program's own daemon option) with "
        "input from /dev/null and both outputs into a log file; let that call return; then, in a separate call, check "
        "that it answers at the address the task names."
    )

    def fires(self, state: Any, event: Event) -> bool | None:
        holds = _holds(state)[0]
        return True if holds is None and _only_attached(state) else holds

    def released(self, state: Any) -> bool:
        return state.done


class ServicePersistence(Procedure):
    id = "service-persistence"
    name = "stops with a service that it never detached, or never reached again from a later call"
    status = "stable"
    State = Services
    policies: ClassVar[tuple[Policy, ...]] = (ServicePolicy(),)

    def eligible(self, prompt: str) -> str | None:
        return _task(prompt)

    def walk(self, state: Services, event: Before) -> Verdict | None:
        call = event.call
        for path, text in written(call):
            what = _script(path, text)
            if what is not None:
                remember(state.scripts, base(path), what)
        launches: list[str] = []
        probes = False
        tried = _trials(call)
        for effect in call.effects:
            if effect.kind == "serve":
                launches.append("trial" if id(effect) in tried else _session(call, effect.command, effect.info))
            elif effect.kind == "probe":
                probes = probes or not _elsewhere(effect)
            elif effect.kind in {"run", "test"} and effect.command is not None and not effect.info.get("inline"):
                does = state.scripts.get(program_of(effect.command), "?")
                if does == "serves":
                    launches.append(_session(call, effect.command, {}))
                elif does == "probes":
                    probes = True
                elif does == "?":
                    state.maybe = event.index
                elif does:
                    launches.append(does)
        for how in launches:
            if how == "detached":
                state.detached = event.index
            elif how == "attached":
                state.attached = event.index
            elif how == "trial":
                state.trial = event.index
            else:
                state.unsure, state.reason = event.index, how
        if probes and not launches:
            state.probe = event.index
        return None

    def saw(self, state: Services, event: After) -> None:
        kinds = {e.kind for e in event.call.effects}
        if event.result.failed and "probe" in kinds and not kinds & {"serve", "run", "test"} and state.probe >= 0:
            state.probe = -1

    def at_stop(self, state: Services, event: Stop) -> Verdict | None:
        if state.launched < 0 and state.trial < 0:
            return (
                None
                if state.unread < 0
                else Verdict(None, event.index, "a command could not be read; it may have launched the service")
            )
        holds, why = _holds(state)
        return Verdict(holds, event.index, why, (max(state.launched, state.trial),))

    def behaved(self, state: Services) -> bool | None:
        if state.done:
            return True
        return None if state.unread > state.launched else False


def _holds(state: Services) -> tuple[bool | None, str]:
    """Whether stopping now loses the service, or leaves it unproved; and why."""
    if state.done:
        return False, ""
    launched = state.launched
    if launched < 0 and (state.trial < 0 or state.unread >= 0):
        return None, "no launch seen"
    if launched < 0:
        return True, "every launch was ended by the call that made it"
    if state.unread > launched:
        return None, "a later command could not be read"
    if state.attached == launched and state.detached < 0:
        return True, "the last launch belongs to the shell that started it"
    if state.probe > launched:
        return None, f"whether the launch survives is not in the record ({state.reason or 'launches of several kinds'})"
    if state.maybe > launched or state.reason == "remote":
        return None, "a later call may have reached the service"
    return True, "no call after the launch has reached the service"


def _only_attached(state: Services) -> bool:
    """Whether the service runs and no launch was in a session of its own, as far as every command could be read."""
    return state.detached < 0 <= state.launched and state.unread < state.launched and state.reason != "remote"


def _elsewhere(probe: Effect) -> bool:
    """Whether a probe talks to a public host, not to a service on this machine."""
    return probe.info.get("local") is False and re.search(_PUBLIC, str(probe.info.get("target", ""))) is not None


def _session(call: Call, command: Command | None, info: dict[str, Any]) -> str:
    """'detached', 'attached', or why it cannot be told: 'terminal', 'hangup-proof only', 'remote'."""
    own = info.get("own_session")
    wrappers = set(command.wrappers) if command is not None else set()
    if own is None:
        if wrappers & {"setsid", "tmux", "screen", "systemd-run", "daemonize", "start-stop-daemon"}:
            own = "yes"
        elif "nohup" in wrappers:
            own = "hangup-proof only"
        else:
            own = "no"
    if own == "unknown" or (command is not None and command.remote and own != "yes"):
        return "remote"
    redirected = info.get("redirected") or (command is not None and outputs_redirected(command))
    if own == "yes" and (redirected or not wrappers & {"setsid"}):
        return "detached"
    if own == "hangup-proof only" and redirected:
        return "hangup-proof only"
    if own == "no" and redirected and call.kind == "shell" and not call.background and _in_background(command, info):
        return "a job of its own call's shell"
    return "terminal" if call.kind == "keys" else "attached"


def _in_background(command: Command | None, info: dict[str, Any]) -> bool:
    return bool(info.get("background")) or (command is not None and command.background)


def _trials(call: Call) -> set[int]:
    """Ids of the launching effects that the same call ends again."""
    launches: list[Effect] = []
    found: set[int] = set()
    for effect in call.effects:
        if effect.kind == "serve":
            launches.append(effect)
            text = call.command or ""
            if effect.command is not None and _IN_A_TEXT & set(effect.command.wrappers) and re.search(_ENDS, text):
                found.add(id(effect))
        elif effect.kind == "kill" and launches:
            pattern, how = str(effect.info.get("pattern") or ""), effect.info.get("how")
            variable = re.fullmatch(r"\$\{?(\w+)\}?", pattern)
            noted = variable is not None and re.search(rf"\b{variable[1]}=\"?\$!", call.command or "") is not None
            if how == "job" or pattern == "$!" or noted:
                found.add(id(launches[-1]))
            elif how in ("name", "pattern") and pattern:
                found |= {id(e) for e in launches if e.command is not None and pattern in " ".join(e.command.argv)}
    return found


def _script(path: str, text: str) -> str | None:
    """What running a script does: 'serves' (it is the service), how the launch in it is attached ('trial' where it ends
    that itself), 'probes', '' or None (no script)."""
    if not re.search(r"\.(?:py|sh|bash|js|mjs|ts|rb|pl|php)$", path) and not text.startswith("#!"):
        return None
    found = effects_of_text(path, text)
    launches = [e for e in found if e.kind == "serve"]
    shell = re.search(r"\.(?:sh|bash)$", path) is not None or re.match(r"#!.*\b(?:ba|da|z)?sh\b", text) is not None
    if shell and launches:
        hows = {_session(Call("", "", "shell"), e.command, e.info) for e in launches}
        return next((how for how in ("attached", "remote", "hangup-proof only") if how in hows), "detached")
    serves = re.search(_SERVES, text)
    if launches and not serves and re.search(_ENDS, text):
        return "trial"
    if launches or serves:
        return "serves"
    return "probes" if any(e.kind == "probe" for e in found) or re.search(_TALKS, text) else ""
