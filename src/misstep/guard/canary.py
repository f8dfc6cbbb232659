"""The proof that a host's hooks run: the real program, for one turn, against a model on this machine that says one word.

The host's own configuration and trust are used as they are; the guard's log goes to a folder of the canary's. Nothing of the
session leaves the machine; what a host does at every start (to look for a newer version of itself), it does here too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SECONDS = 90
WORD = "Ready."
_OTHER_KEYS = (
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "GOOGLE_API_KEY",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
)
NO_LOGIN = {"gemini-cli": 41}
"""Exit status of a host that wants another login than a key."""


class Grounded(Exception):
    """A host that cannot be run here, and why."""


def flies(host: str, program: str, project: Path | None = None) -> tuple[bool, str]:
    """Run a host for one turn: (whether its hooks logged the prompt and the stop, what was seen).

    project: the folder to run it in, where the project's configuration holds the hooks; else an empty one. Raises Grounded.
    """
    with tempfile.TemporaryDirectory(prefix="misstep-canary-") as folder, _model() as port:
        work = project or Path(folder, "work")
        work.mkdir(exist_ok=True)
        words, env = _run(host, program, port, Path(folder))
        env = {k: v for k, v in os.environ.items() if k not in _OTHER_KEYS and not k.startswith("MISSTEP_")} | env
        env.update(MISSTEP_HOME=str(Path(folder, "state")), MISSTEP_GUARD="observe", PWD=str(work))
        try:
            done = subprocess.run(
                words, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return False, f"{program} does not run: {error}"
        logs = list(Path(folder, "state", "guard", "sessions", host).glob("*/log.jsonl"))
        seen = [json.loads(line).get("e") for log in logs for line in log.read_text().splitlines()]
        if "prompt" in seen and "stop" in seen:
            return True, "a real session of one turn: its prompt and its stop came through the hooks"
        if done.returncode:
            shown = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", done.stderr or done.stdout)
            said = " ".join("".join(c if c.isprintable() else " " for c in shown).split())[-200:]
            if done.returncode == NO_LOGIN.get(host):
                raise Grounded(f"{host} signs in otherwise than with a key, so it cannot be run here ({said})")
            return False, f"a real session ended with {done.returncode} before its hooks told anything: {said}"
        return (
            False,
            f"a real session of one turn ran, and its hooks did not ({', '.join(filter(None, seen)) or 'no event'})",
        )


def _run(host: str, program: str, port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment with which a host talks to a model on a port."""
    url, prompt = f"http://127.0.0.1:{port}", "Say one word."
    if host == "codex":
        provider = {"name": "canary", "base_url": f"{url}/v1", "env_key": "MISSTEP_CANARY", "wire_api": "responses"}
        settings: dict[str, Any] = {"model_provider": "canary", "approval_policy": "never", "sandbox_mode": "read-only"}
        settings |= {f"model_providers.canary.{k}": v for k, v in provider.items()}
        settings |= {"model_providers.canary.supports_websockets": False, "model": "gpt-5.5"}
        settings |= {"features.plugins": False, "features.apps": False, "analytics.enabled": False}
        flags = [w for key, value in settings.items() for w in ("-c", f"{key}={json.dumps(value)}")]
        return [program, "exec", "--skip-git-repo-check", *flags, prompt], {"MISSTEP_CANARY": "none"}
    if host == "claude-code":
        env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return [program, "-p", prompt], env
    if host == "qwen-code":
        env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "canary"}
        return [program, "-p", prompt, "--auth-type", "openai"], env
    if host == "gemini-cli":
        env = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        # where its settings name no login, it takes the first that the environment tells, and a base URL alone is none
        env |= {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": "none", "GOOGLE_VERTEX_BASE_URL": url}
        return [program, "-p", prompt, "-m", "gemini-2.5-pro"], env
    if host == "opencode":
        model = {"word": {"name": "Canary", "tool_call": True, "limit": {"context": 100_000, "output": 1000}}}
        options = {"baseURL": f"{url}/v1", "apiKey": "none"}
        served = {"npm": "@ai-sdk/openai-compatible", "name": "Canary", "models": model, "options": options}
        content = {"provider": {"canary": served}, "autoupdate": False, "share": "disabled"}
        env = {"OPENCODE_CONFIG_CONTENT": json.dumps(content), "XDG_DATA_HOME": str(folder / "data")}
        env |= {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        return [program, "run", "--model", "canary/word", prompt], env
    if host == "pi":
        extension = folder / "canary.ts"
        entry = {"id": "word", "name": "Canary", "reasoning": False, "input": ["text"], "contextWindow": 100_000}
        entry |= {"maxTokens": 1000, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
        given = {"baseUrl": f"{url}/v1", "apiKey": "none", "api": "openai-completions", "models": [entry]}
        body = f"pi.registerProvider('canary', {json.dumps(given)})"
        extension.write_text(f"export default function (pi: any) {{ {body} }}\n", encoding="utf-8")
        words = [program, "--print", "--extension", str(extension), "--model", "canary/word", "--no-session", prompt]
        return words, {"PI_OFFLINE": "1"}
    raise Grounded(
        f"{host} talks to its vendor's model service alone, so it cannot be run here: use it once, then ask again"
    )


@contextmanager
def _model() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Model(BaseHTTPRequestHandler):
    """Says one word in each of the protocols."""

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": [], "models": []}))

    def do_POST(self) -> None:
        if (self.headers.get("transfer-encoding") or "").lower() == "chunked":
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        path = self.path.split("?")[0]
        if path.endswith("/responses"):
            self._events(_responses())
        elif path.endswith("/messages"):
            self._events(_messages()) if body.get("stream") else self._send(json.dumps(_message()))
        elif path.endswith("/chat/completions"):
            self._events(_chat()) if body.get("stream") else self._send(json.dumps(_completion()))
        elif "enerateContent" in path:
            answer = {
                "candidates": [
                    {"index": 0, "content": {"role": "model", "parts": [{"text": WORD}]}, "finishReason": "STOP"}
                ]
            }
            self._events([answer]) if "stream" in path else self._send(json.dumps(answer))
        else:
            self._send(json.dumps({"input_tokens": 1, "totalTokens": 1}))

    def _send(self, text: str, kind: str = "application/json") -> None:
        data = text.encode()
        try:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _events(self, events: list[dict[str, Any]]) -> None:
        named = [(f"event: {e['type']}\n" if "type" in e else "") + f"data: {json.dumps(e)}\n\n" for e in events]
        self._send("".join(named), "text/event-stream")


def _responses() -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": WORD, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    base = {"id": "r", "object": "response", "created_at": 1, "output": []}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}
    return [
        {"type": "response.created", "response": {**base, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**base, "status": "completed", "output": [item], "usage": usage}},
    ]


def _message() -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "canary", "stop_sequence": None, "usage": usage}
    return {**head, "content": [{"type": "text", "text": WORD}], "stop_reason": "end_turn"}


def _messages() -> list[dict[str, Any]]:
    empty = {**_message(), "content": [], "stop_reason": None}
    delta = {"type": "text_delta", "text": WORD}
    return [
        {"type": "message_start", "message": empty},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def _completion() -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": WORD}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "canary",
        "choices": [choice],
        "usage": usage,
    }


def _chat() -> list[dict[str, Any]]:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "canary"}
    delta = {"role": "assistant", "content": WORD}
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
