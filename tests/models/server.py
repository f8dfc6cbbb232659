"""A scripted model server on loopback: it speaks the protocols of OpenAI (chat), Anthropic and Gemini, and can misbehave.

`rule(prompt, number)` says what comes back: a text, or a `Fault`. `number` counts the requests with that very body, from 0.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """status: an HTTP error; or kind: silent (never answers), cut (half a body), garbage (no JSON), page (a proxy's HTML)."""

    kind: str = ""
    status: int = 0
    after: str = ""
    says: str = "planted"
    """The error's message."""


@dataclass
class Server:
    """Use as a context manager; `port` is there inside."""

    rule: Callable[[str, int], str | Fault]
    delay: float = 0.0
    port: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    """Whole answers by body: what a provider would charge for."""
    headers: list[str] = field(default_factory=list)
    busiest: int = 0
    """Requests at once."""
    keep_bodies: bool = True
    whole: bool = False
    """The rule is given the whole conversation, as JSON [[role, text], ...], in the place of the last message."""

    def __enter__(self) -> Server:
        self._seen: Counter[str] = Counter()
        self._now = 0
        ready = threading.Event()

        def work() -> None:
            self._loop = asyncio.new_event_loop()
            server = self._loop.run_until_complete(asyncio.start_server(self._connection, "127.0.0.1", 0))
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            self._loop.run_forever()
            server.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next(int(x.split(":")[1]) for x in head.lower().split("\r\n") if x.startswith("content-length"))
        raw = (await reader.readexactly(length)).decode()
        body = json.loads(raw)
        if self.keep_bodies:
            self.bodies.append(body)
            self.headers.append(head)
        number = self._seen[raw]
        self._seen[raw] += 1
        self._now += 1
        self.busiest = max(self.busiest, self._now)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            said = self.rule(_conversation(body) if self.whole else _prompt(body), number)
            if isinstance(said, str):
                payload, status, more = _answer(head, body, said), "200 OK", ""
            elif said.kind == "silent":
                await asyncio.sleep(3600)
                return False
            elif said.kind in ("garbage", "page"):
                payload, status, more = ("{not json" if said.kind == "garbage" else "<html>busy</html>"), "200 OK", ""
            elif said.kind == "cut":
                payload, status, more = _answer(head, body, "x" * 400), "200 OK", ""
            else:
                payload, status = (
                    json.dumps({"error": {"message": said.says, "type": "planted"}}),
                    f"{said.status} Planted",
                )
                more = f"retry-after: {said.after}\r\n" if said.after else ""
        finally:
            self._now -= 1
        data = payload.encode()
        kind = "text/html" if isinstance(said, Fault) and said.kind == "page" else "application/json"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {len(data)}\r\n\r\n".encode())
        if isinstance(said, Fault) and said.kind == "cut":
            writer.write(data[: len(data) // 2])
            await writer.drain()
            return False
        writer.write(data)
        await writer.drain()
        if isinstance(said, str):
            self.served[raw] += 1
        return True


def _prompt(body: dict[str, Any]) -> str:
    """The last thing that was said to the model."""
    if "contents" in body:
        return str(body["contents"][-1]["parts"][-1].get("text", ""))
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[-1].get("text", ""))


def _conversation(body: dict[str, Any]) -> str:
    return json.dumps([[one["role"], one["content"]] for one in body["messages"]])


def _answer(head: str, body: dict[str, Any], text: str) -> str:
    asked = sum(len(json.dumps(m)) for m in body.get("messages", body.get("contents", []))) // 4
    given = max(1, len(text) // 4)
    if "contents" in body:
        return json.dumps({
            "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": asked, "candidatesTokenCount": given, "totalTokenCount": asked + given},
            "modelVersion": "scripted",
        })  # fmt: skip
    if "/messages" in head.split("\r\n")[0]:
        content = [{"type": "text", "text": text}]
        if body.get("tools"):
            content = [{"type": "tool_use", "id": "t1", "name": body["tools"][0]["name"], "input": json.loads(text)}]
        return json.dumps({
            "id": "m1", "type": "message", "role": "assistant", "model": "scripted", "content": content,
            "stop_reason": "tool_use" if body.get("tools") else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": asked, "output_tokens": given},
        })  # fmt: skip
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if body.get("tools"):
        call = {
            "id": "c1",
            "type": "function",
            "function": {"name": body["tools"][0]["function"]["name"], "arguments": text},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": message}
    more = {}
    if body.get("return_token_ids"):  # as vLLM does; a token is a byte here
        told = "".join(f"<{one['role']}>{one['content']}</>" for one in body["messages"]) + "<assistant>"
        choice["token_ids"], more["prompt_token_ids"] = list(text.encode()), list(told.encode())
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": chr(one), "logprob": -one / 256} for one in text.encode()]}
    return json.dumps({
        "id": "1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice], **more,
        "usage": {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given},
    })  # fmt: skip
