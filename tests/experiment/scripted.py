"""A scripted model with a stated stochastic rule, tasks for it, and the design of a panel with both: a test of the machine.

The rule. In each attempt the model delivers its work in one call, and stops. On a service task the delivery is right as
long as somebody looks; with probability `own` it is also put in a session of its own, otherwise it belongs to the session
and goes with it. At the stop the harness may tell it something. Where that names the remedy (a new session), the model
obeys with probability `obeys`: it ends its instance, starts it again in a session of its own, and probes it from a later
call. Whatever else it is told, it says that all is done. On other tasks it is right with probability `able`.

All chance is the hash of (seed, task, replicate, what): the same in every arm. So the effect of an arm that names the
remedy is known before: the share of tasks where `own` fails and `obeys` holds; and that of a generic text is nothing.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import re
import shutil
import socketserver
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar

from harbor.agents.installed.base import BaseInstalledAgent

from misstep import catalogue
from misstep.experiment.runs import runtime
from misstep.experiment.runs.agents import install_guard, set_arm
from misstep.sandbox import generators
from misstep.sandbox.harbor import BubblewrapEnvironment

CHECKOUT = Path(__file__).resolve().parents[2]
REMEDY = re.compile(r"\bnew session\b.*\bsetsid\b", re.DOTALL)
"""What a text has to say for the rule to take it as naming the remedy."""


@dataclass(frozen=True)
class Script:
    """What the model does on one task."""

    service: bool
    right: str
    wrong: str
    again: str = ""
    """The remedy, for a service."""
    probe: str = ""


@dataclass(frozen=True)
class Rule:
    seed: int = 1
    own: float = 0.25
    obeys: float = 0.85
    able: float = 0.7

    def draw(self, task: str, replicate: int, what: str) -> float:
        data = json.dumps([self.seed, task, replicate, what]).encode()
        return int.from_bytes(hashlib.sha256(data).digest()[:6], "big") / 2**48

    def right(self, task: str, replicate: int, service: bool) -> bool:
        """Whether the delivery is right without a word."""
        return self.draw(task, replicate, "delivers") < (self.own if service else self.able)

    def told(self, task: str, replicate: int) -> bool:
        """Whether a service is saved by being told the remedy, or needed none."""
        return self.right(task, replicate, True) or self.draw(task, replicate, "obeys") < self.obeys

    @property
    def effect(self) -> float:
        """Expected difference in passes between an arm that names the remedy and one that does not, on service tasks."""
        return (1 - self.own) * self.obeys


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def get_request(self) -> tuple[Any, Any]:
        return super().get_request()[0], ("unix", 0)


class ScriptedModel:
    """The model, for Codex (Responses API over SSE), on loopback or on a unix socket. The path of a request says which
    attempt asks: /TASK/REPLICATE/CANDIDATE/v1.

    broken: (task, replicate) whose first conversation is answered by status 500, always: an infrastructure fault.
    """

    def __init__(
        self,
        scripts: dict[str, Script],
        rule: Rule,
        broken: tuple[tuple[str, int], ...] = (),
        socket: Path | None = None,
    ) -> None:
        self.scripts, self.rule, self.broken = scripts, rule, broken
        self.ids = count(1)
        self.victims: dict[tuple[str, int], str] = {}
        self.conversations: Counter[str] = Counter()
        """Conversation -> requests."""
        self.first: dict[str, tuple[str, dict[str, Any]]] = {}
        """Conversation -> the task, and its first request's body."""
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"model": self})
        if socket is None:
            self.http: Any = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            self.http.daemon_threads = True
            self.port = self.http.server_address[1]
        else:
            self.http, self.port = _UnixServer(str(socket), handler), PORT
            socket.chmod(0o777)

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    def fails(self, task: str, replicate: int, candidate: int, body: dict[str, Any]) -> bool:
        """Whether this request belongs to the one conversation that was chosen to meet a fault."""
        who = str(body.get("prompt_cache_key"))
        with self.lock:
            self.conversations[who] += 1
            self.first.setdefault(who, (task, body))
            if (task, replicate) not in self.broken or candidate != 1:
                return False
            return self.victims.setdefault((task, replicate), who) == who

    def turn(self, task: str, replicate: int, body: dict[str, Any]) -> dict[str, str]:
        """What the model does next: {"run": command} or {"say": text}. A function of the conversation and the rule."""
        script, rule = self.scripts[task], self.rule
        items = body.get("input") or []
        calls = [item for item in items if item.get("type") == "function_call"]
        if not calls:
            right = rule.right(task, replicate, script.service)
            return {"run": script.right if right else script.wrong}
        last = json.loads(calls[-1]["arguments"])["cmd"]
        answered = items[-1].get("type") == "function_call_output"
        if answered and last == script.again:
            return {"run": script.probe}
        if answered:
            return {"say": "It answers from a later call, too." if last == script.probe else "It is done."}
        said = _text(items[-1])
        saved = [call for call in calls if json.loads(call["arguments"])["cmd"] == script.again]
        if script.service and REMEDY.search(said) and not saved and rule.draw(task, replicate, "obeys") < rule.obeys:
            return {"run": script.again}
        return {"say": "I have looked at it again. It is done."}


def _text(item: dict[str, Any]) -> str:
    content = item.get("content")
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content or [])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.send(200, b'{"object":"list","data":[],"models":[]}', "application/json")

    def do_POST(self) -> None:
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            _, task, replicate, candidate, *_rest = self.path.split("/")
            if not self.path.endswith("/responses"):
                return self.send(200, b"{}", "application/json")
            if self.model.fails(task, int(replicate), int(candidate), body):
                return self.send(500, b'{"error":{"message":"planted","type":"server_error"}}', "application/json")
            self.send(200, self.stream(body, self.model.turn(task, int(replicate), body)), "text/event-stream")
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, body: dict[str, Any], turn: dict[str, str]) -> bytes:
        number = next(self.model.ids)
        if "run" in turn:
            arguments = json.dumps({"cmd": turn["run"], "yield_time_ms": 10000})
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "exec_command"}
            item |= {"status": "completed", "arguments": arguments}
        else:
            content = [{"type": "output_text", "text": turn["say"], "annotations": []}]
            item = {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        base = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body.get("model"), "output": []}
        usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        done = {**base, "status": "completed", "output": [item], "usage": usage}
        events = [
            {"type": "response.created", "response": {**base, "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        ]
        return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


# -- an agent without a model -----------------------------------------------------------------------------------------------


class Hand(BaseInstalledAgent):
    """An agent that costs nothing: it runs the commands of its instruction (lines `$ ...`), asks the guard's real hooks in
    the container about each, and stops; told to go on, it runs the lines `> ...` and stops again. A line `! ...` is done
    on this side: `sleep SECONDS`, `raise`, `no hooks`, `other arm`, `exit`."""

    @staticmethod
    def name() -> str:
        return "hand"

    def __init__(self, *args: Any, misstep: dict[str, Any], **kwargs: Any) -> None:
        self._misstep = misstep
        super().__init__(*args, **kwargs)

    def get_version_command(self) -> str | None:
        return None

    async def install(self, environment: Any) -> None: ...

    async def configure(self, environment: Any) -> None:
        await install_guard(self, environment, Path(self._misstep["runtime"]))

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        await set_arm(self, environment, self._misstep["arm"])
        lines = [line.partition(" ")[::2] for line in instruction.splitlines() if line[:2] in ("$ ", "> ", "! ")]
        steps: list[dict[str, Any]] = [{"source": "user", "message": instruction}]
        hooked = ("!", "no hooks") not in lines
        if ("!", "other arm") in lines:
            settings = runtime.settings("reconsider")
            await environment.exec(f"cat > {runtime.STATE}/guard/settings.json <<'END'\n{settings}\nEND")

        async def hook(event: str, **given: Any) -> dict[str, Any]:
            if not hooked:
                return {}
            payload = json.dumps({"session_id": "hand", "hook_event_name": event, "cwd": "/app", **given})
            said = await environment.exec(f"{runtime.PLACE}/hook claude-code <<'END'\n{payload}\nEND")
            found: dict[str, Any] = json.loads(said.stdout) if said.stdout else {}
            return found

        async def work(mark: str) -> None:
            for number, (kind, line) in enumerate(lines):
                if kind == "!" and mark == "$":
                    await self._here(line, steps)
                if kind != mark:
                    continue
                call = {"tool_name": "Bash", "tool_input": {"command": line}, "tool_use_id": f"{mark}{number}"}
                await hook("PreToolUse", **call)
                done = await environment.exec(line, cwd="/app")
                shown = {"stdout": done.stdout or "", "stderr": "", "interrupted": False}
                await hook("PostToolUse", **call, tool_response=shown)
                asked = {"tool_call_id": f"{mark}{number}", "function_name": "Bash", "arguments": {"command": line}}
                seen = {"source_call_id": f"{mark}{number}", "content": done.stdout or ""}
                steps.append(
                    {"source": "agent", "message": "", "tool_calls": [asked], "observation": {"results": [seen]}}
                )
                self._save(steps)

        await hook("UserPromptSubmit", prompt=instruction)
        await work("$")
        steps.append({"source": "agent", "message": "It is done."})
        told = await hook("Stop", last_assistant_message="It is done.")
        if told.get("decision") == "block":
            steps.append({"source": "user", "message": f"<hook_prompt>{told['reason']}</hook_prompt>"})
            await work(">")
            steps.append({"source": "agent", "message": "It is done now."})
            await hook("Stop", last_assistant_message="It is done now.", stop_hook_active=True)
        self._save(steps)

    async def _here(self, line: str, steps: list[dict[str, Any]]) -> None:
        word, _, rest = line.partition(" ")
        if word == "sleep":
            await asyncio.sleep(float(rest))
        elif word == "raise":
            self._save(steps)
            raise OSError("planted")

    def _save(self, steps: list[dict[str, Any]]) -> None:
        numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
        whole = {"schema_version": "ATIF-v1.7", "session_id": "hand", "agent": {"name": "hand", "version": "1"}}
        (self.logs_dir / "trajectory.json").write_text(json.dumps({**whole, "steps": numbered}))

    def populate_context_post_run(self, context: Any) -> None: ...


def small_task(
    into: Path, name: str, instruction: str, test: str = "[ -e /app/done ]", *, reward: bool = True, user: str = ""
) -> Path:
    """A task whose verifier looks for a file. Without `reward` its verifier says nothing."""
    path = into / name
    for folder in ("environment", "tests"):
        (path / folder).mkdir(parents=True)
    (path / "instruction.md").write_text(instruction)
    (path / "task.toml").write_text(
        'schema_version = "1.4"\n[agent]\ntimeout_sec = 60\n'
        + (f"user = {user}\n" if user else "")
        + "[verifier]\ntimeout_sec = 60\n"
        '[environment]\nnetwork_mode = "no-network"\nmemory_mb = 512\n'
    )
    (path / "environment/Dockerfile").write_text("FROM misstep-base:bookworm\nWORKDIR /app\n")
    said = f"if {test}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt" if reward else ":"
    (path / "tests/test.sh").write_text(f"#!/bin/bash\n{said}\n")
    return path


HAND = """name = "hand: a test of the machine"
seed = 3
attempts = {attempts}
arms = {arms}
portfolio = "portfolio.toml"
[tasks]
path = "tasks"
[primary]
contrast = {contrast}
cohort = "silent"
[cohorts]
silent = {tasks}
[agent]
name = "scripted:Hand"
kwargs = {{misstep = {{simulated = "an agent of commands: a test of the machine"}}}}
[environment]
import_path = "misstep.sandbox.harbor:BubblewrapEnvironment"
concurrency = {concurrency}
kwargs = {{root = "host"}}
[replacement]
candidates = {candidates}
"""


def hand_design(
    folder: Path,
    *,
    arms: tuple[str, ...] = ("baseline", "real"),
    attempts: int = 1,
    concurrency: int = 2,
    candidates: int = 2,
) -> Path:
    """A design for Hand and the tasks in a folder's `tasks`, all of them silent."""
    (folder / "portfolio.toml").write_text(PORTFOLIO)
    names = sorted(path.name for path in (folder / "tasks").iterdir())
    path = folder / "panel.toml"
    path.write_text(
        HAND.format(
            attempts=attempts,
            arms=json.dumps(list(arms)),
            contrast=json.dumps(list(arms[:2])),
            tasks=json.dumps(names),
            concurrency=concurrency,
            candidates=candidates,
        )
    )
    return path


# -- a network for each sandbox -------------------------------------------------------------------------------------------

FORWARD = """
import socket, threading

def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    for one in (a, b):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

with socket.create_server(("127.0.0.1", %d), backlog=64) as server:
    while True:
        client, _ = server.accept()
        model = socket.socket(socket.AF_UNIX)
        model.connect("/opt/model/socket")
        for pair in ((client, model), (model, client)):
            threading.Thread(target=pump, args=pair, daemon=True).start()
"""
"""What stands for the network inside: a port of the sandbox's own loopback that leads to the model's socket."""
PORT = 9


class OwnNetwork(BubblewrapEnvironment):
    """Our sandboxes with a loopback of their own, on which the model answers and nothing else does."""

    own_network = True
    asked: ClassVar[dict[str, list[tuple[Any, ...]]]] = {}
    """Trial -> what its environment was asked to do, in order: commands with their variables, uploads with their places."""

    async def exec(self, command: str, *args: Any, **kwargs: Any) -> Any:
        self._note("exec", command, args, kwargs)
        return await super().exec(command, *args, **kwargs)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._note("file", target_path, Path(source_path).read_bytes())
        await super().upload_file(source_path, target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        self._note("folder", target_dir)
        await super().upload_dir(source_dir, target_dir)

    def _note(self, *what: Any) -> None:
        overlay = self._exec_env_overlays.get()
        self.asked.setdefault(self.trial_paths.trial_dir.name, []).append((*what, self.default_user, overlay))

    @property
    def _network_disabled(self) -> bool:
        return True

    async def start(self, force_build: bool) -> None:
        await super().start(force_build)
        begin = functools.partial(self.sandbox.begin, ["python3", "-c", FORWARD % PORT], user="root", agent=False)
        self._forward = await asyncio.to_thread(begin)
        await self.exec(
            f"for _ in $(seq 100); do (: < /dev/tcp/127.0.0.1/{PORT}) 2> /dev/null && break; sleep 0.02; done"
        )


# -- tasks and design ----------------------------------------------------------------------------------------------------


def make_tasks(into: Path, services: int, others: int) -> dict[str, Script]:
    """Generated tasks, which share this machine's network (the model is there), and what the model does on each.

    Service tasks are those of the generator's that the policy takes for its own by their instruction.
    """
    scripts: dict[str, Script] = {}
    takes = catalogue.get("service-persistence").eligible
    for family, number in (("outliving-service", services), ("folded-log", others)):
        made = (generators.get(family).generate(seed) for seed in count(1))
        fit = (
            one for one in made if bool(takes(one.files["instruction.md"].decode())) == (family == "outliving-service")
        )
        for one in islice(fit, number):
            path = one.write(into)
            settings = path / "task.toml"
            text = (
                settings.read_text().replace('"no-network"', '"public"').replace("memory_mb = 512", "memory_mb = 3072")
            )
            settings.write_text(text)
            scripts[path.name] = _script(path, family == "outliving-service")
    return scripts


def _script(path: Path, service: bool) -> Script:
    right = (path / "solution/solve.sh").read_text().split("\n", 1)[1]
    wrong = sorted((path / "wrong").glob("attached*" if service else "*"))[0].read_text().split("\n", 1)[1]
    right, wrong = (text.replace("exit 0", "break").split('\necho "it does not answer"')[0] for text in (right, wrong))
    if not service:
        return Script(False, right, wrong)
    launch = re.search(r"^setsid nohup python3 (\S+) > (\S+)", right, re.MULTILINE)
    port, shown = re.search(r"127\.0\.0\.1:(\d+)(/\w+)", right).groups()  # type: ignore[union-attr]
    assert launch
    program, log = launch.groups()
    wrong = wrong.replace(
        f"python3 {program} > {log} 2>&1 &", f"python3 {program} > {log} 2>&1 &\necho $! > {program}.pid"
    )
    assert ".pid" in wrong
    again = f"kill $(cat {program}.pid); sleep 0.2; setsid nohup python3 {program} > {log} 2>&1 < /dev/null & sleep 0.5"
    probe = f"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}{shown}\", timeout=5).status)'"
    return Script(True, right, wrong, again, probe)


def codex() -> Path:
    """The folder of the installed Codex 0.146. Raises LookupError."""
    found = sorted((CHECKOUT / ".clis").glob("codex-0.146*/node_modules/@openai/codex-linux-*/vendor/*/bin/codex"))
    if not found:
        raise LookupError("Codex is not installed: scripts/install-clis has not run")
    return found[-1].resolve().parent


PORTFOLIO = '[[policy]]\nid = "service-persistence"\n'


def write_design(
    folder: Path,
    port: int,
    *,
    socket: Path | None = None,
    tasks: Path,
    arms: tuple[str, ...] = ("baseline", "real", "sham", "always-verify", "reconsider"),
    attempts: int = 1,
    silent: int = 0,
    seed: int = 1,
    concurrency: int = 2,
    environment: str = "",
) -> Path:
    """A design for the scripted model and Codex in our sandboxes, written into a folder; its path."""
    (folder / "portfolio.toml").write_text(PORTFOLIO)
    cohorts = f"[cohorts]\ncount = {silent}\n" if silent else ""
    secondary = [["real", "baseline"], ["sham", "baseline"]]
    kept = [pair for pair in secondary if set(pair) <= set(arms)] if "sham" in arms else []
    mounts = [{"source": str(codex()), "target": "/opt/cli"}]
    mounts += [{"source": str(socket.parent), "target": "/opt/model"}] if socket else []
    listed = ", ".join(
        f'{{type = "bind", source = "{m["source"]}", target = "{m["target"]}", read_only = true}}' for m in mounts
    )
    environment = environment or (
        f'import_path = "{"scripted:OwnNetwork" if socket else "misstep.sandbox.harbor:BubblewrapEnvironment"}"\n'
        f"concurrency = {concurrency}\n"
        f'kwargs = {{root = "host", end_session = true, mounts = [{listed}]}}\n'
    )
    path = folder / "panel.toml"
    path.write_text(
        f"""name = "scripted model: a test of the machine"
seed = {seed}
attempts = {attempts}
portfolio = "portfolio.toml"
arms = {json.dumps(list(arms))}
secondary = {json.dumps(kept)}

[tasks]
path = "{tasks}"

[primary]
contrast = ["real", "{"sham" if "sham" in arms else "baseline"}"]

{cohorts}
[agent]
name = "codex"
model = "openai/gpt-5.5"

[agent.kwargs]
skip_install = true
misstep = {{simulated = "a scripted model: a test of the machine"}}

[agent.kwargs.config]
model_provider = "scripted"
check_for_update_on_startup = false
analytics = {{enabled = false}}
features = {{plugins = false, apps = false}}

[agent.kwargs.config.model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false

[agent.env]
OPENAI_API_KEY = "none"
OPENAI_BASE_URL = "http://127.0.0.1:{port}/{{task}}/{{replicate}}/{{candidate}}/v1"
PATH = "/opt/cli:/usr/local/bin:/usr/bin:/bin"

[environment]
{environment}
[replacement]
faults = "first-fair"
candidates = 3
"""
    )
    return path


def clear(folder: Path) -> Path:
    """An empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
