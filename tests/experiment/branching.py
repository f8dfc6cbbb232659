"""A scripted model with a stated stochastic rule for our own loop, and tasks for it: a test of the machine, of no model.

The rule for a service task, one answer at a time; what is said with a probability is drawn anew at each answer:

1. It looks: `cat /app/SPEC.md`. Then, again and again, with probability `looks` it looks once more at one thing or another.
2. It writes the program: right with probability `able`, else one that has the status codes by habit, which the verifier rejects.
3. It starts the program: with probability `own` in a session of its own (and then probes it from another call), else
   attached to its shell, with which it goes.
4. It submits. Where it is told something and goes on: if the words name the remedy (a new session), it obeys with
   probability `obeys`: restarts it in a session of its own, probes it from a later call, and submits. Whatever else it is
   told, and else, it submits again.

So at a stop where the policy fires, on a branch whose program is right, an arm that names the remedy passes with
probability `obeys`, and every other arm never; where the program is wrong no arm passes.

The rule for a rescue task (a damaged SQLite write-ahead log): it looks once and opens the database with sqlite3, at once.
Where that call is refused with words that name a copy it obeys with probability `obeys`: copies all files and runs the
right rescue, and submits; else it submits at once. Where nothing is refused it tries the rescue on what sqlite3 has left.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

from misstep import catalogue
from misstep.experiment.branch.engines import Attempted, attempt
from misstep.experiment.branch.forms import SUBMIT
from misstep.experiment.branch.loop import Loop
from misstep.experiment.branch.treatment import Treatment
from misstep.guard import arms
from misstep.guard.portfolio import from_plain
from misstep.models import Client, Settings
from misstep.sandbox import Root, generators
from misstep.sandbox.tasks import Task
from misstep.trajectory import atif_out

CHECKOUT = Path(__file__).resolve().parents[2]
REMEDY = re.compile(r"\bnew session\b.*\bsetsid\b", re.DOTALL)
COPY = re.compile(r"\bcopy\b", re.IGNORECASE)
LOOKS = ("ls /app", "python3 -V", "cat /app/SPEC.md | wc -l", "uname -s", "id -u")
SIMULATED = "a scripted model: a test of the machine"


@dataclass(frozen=True)
class Script:
    """What the model does on one task."""

    write: str = ""
    write_wrong: str = ""
    attached: str = ""
    detached: str = ""
    again: str = ""
    probe: str = ""
    rescue: str = ""
    """Of a rescue task: everything, from the copy to the result."""
    opens: str = ""


@dataclass(frozen=True)
class Rule:
    able: float = 0.7
    own: float = 0.2
    obeys: float = 0.8
    looks: float = 0.75
    most_looks: int = 8

    @property
    def at_point(self) -> float:
        """The effect of naming the remedy where the policy fires."""
        return self.able * self.obeys

    @property
    def per_attempt(self) -> float:
        """The effect on a whole attempt."""
        return (1 - self.own) * self.at_point


def service_tasks(into: Path, number: int) -> dict[str, Script]:
    """Generated service tasks that the policy takes for its own, and what the model does on each."""
    takes = catalogue.get("service-persistence").eligible
    made = (generators.get("outliving-service").generate(seed) for seed in count(1))
    seen: set[str] = set()
    found: dict[str, Script] = {}
    for one in made:
        text = one.files["instruction.md"].decode()
        if takes(text) and text not in seen:  # the model knows a task by its text
            seen.add(text)
            path = one.write(into)
            found[path.name] = _service(path)
            if len(found) == number:
                break
    return found


def _service(path: Path) -> Script:
    whole = (path / "solution/solve.sh").read_text()
    habit = (path / "wrong/by-habit.sh").read_text()
    launch = re.search(r"^setsid nohup python3 (\S+) > (\S+)", whole, re.MULTILINE)
    port, shown = re.search(r"127\.0\.0\.1:(\d+)(/\w+)", whole).groups()  # type: ignore[union-attr]
    assert launch
    program, log = launch.groups()
    text, wrong = (re.search(r"^cat > .*?^PY$", one, re.MULTILINE | re.DOTALL) for one in (whole, habit))
    assert text and wrong and text.group() != wrong.group()
    ask = f"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}{shown}\", timeout=1).status)'"
    wait = f"for _ in $(seq 200); do {ask} 2>/dev/null && break; sleep 0.02; done"
    detached = f"setsid nohup python3 {program} > {log} 2>&1 < /dev/null &"
    return Script(
        write=text.group(),
        write_wrong=wrong.group(),
        attached=f"python3 {program} > {log} 2>&1 &\necho $! > /tmp/pid; {wait}",
        detached=f"{detached}\n{wait}",
        again=f"kill $(cat /tmp/pid); sleep 0.1; {detached}\n{wait}",
        probe=ask,
    )


def rescue_task(into: Path, seed: int = 1) -> dict[str, Script]:
    """One generated task with a damaged database, and what the model does on it."""
    takes = catalogue.get("database-evidence").eligible
    made = (generators.get("damaged-wal").generate(one) for one in count(seed))
    folder = next(one for one in made if takes(one.files["instruction.md"].decode()))
    path = folder.write(into)
    solution = (path / "solution/solve.sh").read_text().split("\n", 1)[1]
    database = re.search(r"/app/[\w/]+\.(?:db|sqlite3?)\b", folder.files["instruction.md"].decode())
    assert database, folder.files["instruction.md"].decode()
    name = database.group()
    return {
        path.name: Script(
            rescue=f"mkdir -p /tmp/kept && cp -a {name}* /tmp/kept/ && ls /tmp/kept && (\n{solution}\n)",
            opens=f"python3 -c \"import sqlite3; print(sqlite3.connect('{name}').execute('select count(*) from sqlite_master').fetchall())\"",
        )
    }


class ScriptedModel:
    """The model, as chat completions on loopback."""

    def __init__(self, scripts: dict[str, Script], rule: Rule, seed: int = 1) -> None:
        self.scripts, self.rule = scripts, rule
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.asked: Counter[str] = Counter()
        """Task -> answers given."""
        self.instructions: dict[str, str] = {}
        self.texts: list[str] = []
        """Last messages that were no observations and not the task."""
        self.broken = 0
        """Requests to come that get status 500."""
        handler = type("Handler", (_Handler,), {"model": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    def knows(self, tasks: list[Task]) -> ScriptedModel:
        """Tell which instruction is whose."""
        self.instructions = {task.instruction: task.name for task in tasks}
        assert len(self.instructions) == len(tasks)
        return self

    def settings(self, folder: Path) -> Path:
        """A settings file of models that leads here."""
        path = folder / "models.toml"
        path.write_text(
            f'[roles.policy]\nmodel = "openai:scripted"\nbase_url = "http://127.0.0.1:{self.port}/v1"\n'
            'api_key_env = "BRANCH_TEST_KEY"\nretries = 1\n'
        )
        return path

    def answer(self, messages: list[dict[str, str]]) -> str:
        prompt = messages[1]["content"]
        task = self.instructions[prompt]
        script = self.scripts[task]
        with self.lock:
            self.asked[task] += 1
            turn = self._rescue if script.rescue else self._service
            command = turn(script, [m["content"] for m in messages[2:]])
        return f"Next.\n\n```bash\n{command}\n```"

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _service(self, script: Script, told: list[str]) -> str:
        done = "\n".join(told[0::2])
        last = told[-1] if told else ""
        if last and not last.startswith("<returncode>"):
            self.texts.append(last)
            named = REMEDY.search(last) and script.again not in done
            return script.again if named and self._chance(self.rule.obeys) else f"echo {SUBMIT}"
        if script.again in done:
            return f"echo {SUBMIT}" if script.probe + "\n```" in told[-2] else script.probe
        if not told:
            return "cat /app/SPEC.md"
        if script.attached in done:
            return f"echo {SUBMIT}"
        if script.detached in done:
            return f"echo {SUBMIT}" if script.probe + "\n```" in told[-2] else script.probe
        if "cat > /app/" not in done:
            if len(told) // 2 < self.rule.most_looks and self._chance(self.rule.looks):
                return LOOKS[len(told) // 2 % len(LOOKS)]
            return script.write if self._chance(self.rule.able) else script.write_wrong
        return script.detached if self._chance(self.rule.own) else script.attached

    def _rescue(self, script: Script, told: list[str]) -> str:
        if not told:
            return "ls /app"
        if "cp -a" in told[-2]:
            return f"echo {SUBMIT}"
        if len(told) == 2:
            return script.opens
        refused = told[-1].startswith("<returncode>1<") and COPY.search(told[-1])
        if refused and self._chance(self.rule.obeys):
            return script.rescue
        if "cp -a" in "\n".join(told[0::2]) or len(told) > 6:
            return f"echo {SUBMIT}"
        return f"echo {SUBMIT}" if refused else script.rescue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.model.broken > 0:
            self.model.broken -= 1
            self._send(500, {"error": {"message": "planted", "type": "server_error"}})
            return
        message = {"role": "assistant", "content": self.model.answer(body["messages"])}
        size = sum(len(m["content"]) for m in body["messages"]) // 4
        self._send(
            200,
            {
                "id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": size, "completion_tokens": len(message["content"]) // 4, "total_tokens": size},
            },
        )  # fmt: skip

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            pass


@contextmanager
def model_for(folder: Path, scripts: dict[str, Script], rule: Rule, seed: int = 1) -> Iterator[ScriptedModel]:
    """The model for the tasks of a folder."""
    with ScriptedModel(scripts, rule, seed) as model:
        yield model.knows([Task.load(folder / name) for name in scripts])


def plain_of(policy: str) -> dict[str, Any]:
    """A portfolio of one policy of the catalogue, in the plain form."""
    misstep = catalogue.get(policy)
    return {"v": 1, "rules": [{"policy": policy, "misstep": misstep.id, "module": type(misstep).__module__}]}


def under(policy: str, arm: str) -> Treatment:
    """A whole attempt's treatment: the policy alone, in an arm."""
    return Treatment(arms.apply(from_plain(plain_of(policy)), arm))


async def attempts(
    settings: Path,
    cache: Path,
    root: Root,
    work: list[tuple[Task, str, int]],
    policy: str,
    into: Path | None = None,
    width: int = 1,
) -> list[Attempted]:
    """Whole attempts: (task, arm, sample) each; with `into` their records are written there."""
    made: list[Attempted | None] = [None] * len(work)
    cache.mkdir(exist_ok=True)
    async with Client.open(Settings.load(settings), cache) as client:
        gate = asyncio.Semaphore(width)

        async def one(number: int) -> None:
            task, arm, sample = work[number]
            async with gate:
                loop = Loop(client, steps=40, command_seconds=30)
                done = await attempt(
                    task, root, loop, under(policy, arm), sample=sample, ends_session=True, name=f"{task.name}-{sample}"
                )
            if into is not None:
                atif_out.write_file(done.trajectory, into / f"{task.name}-{sample}.json")
            made[number] = done

        await asyncio.gather(*map(one, range(len(work))))
    return [one for one in made if one is not None]
