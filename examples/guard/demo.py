"""The guard in a session, told as a story: a server that is lost with the session, and one that is not.

The agent here is a small one whose model is a script. All else is real: its commands are processes of their own group, which
end with the session as they do in Codex; its hooks are the guard's, run as a host runs them; the verifier is a request from
outside. Run it: `python examples/guard/demo.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from misstep.guard.install import command

DIM, BOLD, RED, GREEN, YELLOW, END = ("\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m")
if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
    DIM = BOLD = RED = GREEN = YELLOW = END = ""


class Agent:
    """Runs the calls of a script, asks its hooks, and takes its commands' processes with it when it ends."""

    def __init__(self, folder: Path, home: Path, mode: str) -> None:
        self.folder, self.session = folder, f"demo-{mode}"
        self.env = {**os.environ, "MISSTEP_HOME": str(home), "MISSTEP_GUARD": mode}
        self.groups: list[int] = []
        self.calls = 0

    def hook(self, event: str, **given: Any) -> dict[str, Any]:
        """What a hook answers: the command line that `misstep guard install` writes, the payload on its input."""
        payload = {"session_id": self.session, "hook_event_name": event, "cwd": str(self.folder), **given}
        done = subprocess.run(
            ["/bin/sh", "-c", command("claude-code")],
            input=json.dumps(payload),
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout) if done.stdout else {}

    def run(self, line: str) -> None:
        self.calls += 1
        call = {"tool_name": "Bash", "tool_input": {"command": line}, "tool_use_id": f"call-{self.calls}"}
        self.hook("PreToolUse", **call)
        process = subprocess.Popen(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self.groups.append(process.pid)
        assert process.stdout is not None
        output = process.stdout.read()
        process.wait()
        say(f"  {DIM}${END} {line}")
        for shown in output.splitlines():
            say(f"    {shown}")
        self.hook("PostToolUse", **call, tool_response={"stdout": output, "stderr": "", "interrupted": False})

    def stops(self, message: str) -> str:
        """End the turn; the text with which a hook wants another one, '' where none does."""
        say(f"  agent: {message}")
        answer = self.hook("Stop", last_assistant_message=message)
        return str(answer.get("reason", "")) if answer.get("decision") == "block" else ""

    def end(self) -> None:
        """The session is over: what belongs to its shells goes with them."""
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass


WAIT = "--retry 20 --retry-delay 1 --retry-connrefused"
"""A busy machine takes its time to start a server."""


def play(mode: str, home: Path) -> bool:
    """One session; whether the verifier finds the page afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.txt").write_text("hello\n")
        port = free_port()
        serve = f"{sys.executable} -m http.server {port}"
        probe = f"curl -s {WAIT} http://127.0.0.1:{port}/page.txt"
        if shutil.which("curl") is None:
            probe = f"{sys.executable} -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/page.txt\").read())'"
        agent = Agent(folder, home, mode)
        task = f"Start a web server on port {port} that serves this folder. It must be running and reachable at http://localhost:{port} when you are done."
        say(f"  user: {task}")
        agent.hook("UserPromptSubmit", prompt=task)
        agent.run(f"{serve} > server.log 2>&1 & echo $! > server.pid; sleep 0.7; {probe}")
        told = agent.stops("The server is running, and serves the page.")
        if told:
            say(f"  {YELLOW}guard: {told}{END}")
            agent.run(
                f"kill $(cat server.pid); setsid {serve} < /dev/null > server.log 2>&1 & echo $! > server.pid; sleep 0.7"
            )
            agent.run(probe)
            agent.stops("The server now runs in a session of its own, and answers.")
        agent.end()
        passed = verified(port)
        try:
            os.kill(int((folder / "server.pid").read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass
        say(f"  verifier: {GREEN + 'the page is served: passed' if passed else RED + 'nobody answers: failed'}{END}")
        return passed


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def verified(port: int) -> bool:
    time.sleep(0.3)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.txt", timeout=3) as answer:
            return bool(answer.read() == b"hello\n")
    except OSError:
        return False


def say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    if shutil.which("setsid") is None:
        say("This story needs setsid (util-linux), which is not here.")
        return
    with tempfile.TemporaryDirectory(prefix="misstep-demo-") as name:
        say(f"{BOLD}Without the guard{END}")
        without = play("off", Path(name))
        say(f"\n{BOLD}With the guard{END}")
        with_it = play("enforce", Path(name))
        if without or not with_it:
            raise SystemExit("The story went otherwise: see above.")


if __name__ == "__main__":
    main()
