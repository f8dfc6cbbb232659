"""A scripted model on loopback that real agents talk to: OpenAI Responses, Anthropic Messages, chat completions, Gemini.

A script is a list of turns, one for each request that offers tools; past its end the model says "The end.". A turn is
`{"say": text}`, `{"run": command}`, or both, or `{"run": [several commands, as calls of one turn]}`, or
`{"call": (tool, input)}`, or, for Claude Code, `{"delegate": task, "turns": [...], "background": bool}`: a sub-agent gets the
task, and has a script of its own. What the agent sent is kept in `requests`, what its sub-agents sent in `inner`.
"""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

_IDS = count(1)
"""Of calls and messages: a resumed session may not see one twice."""


class ModelServer:
    def __init__(self, script: list[dict[str, Any]], plain: bool = False) -> None:
        """plain: also requests that offer no tools are answered from the script."""
        self.script, self.plain = script, plain
        self.turn = 0
        self.requests: list[dict[str, Any]] = []
        """Bodies of the requests that were answered from the script, in order."""
        self.inner: list[dict[str, Any]] = []
        self.scripts = {turn["delegate"]: iter(turn["turns"]) for turn in script if "delegate" in turn}
        self.ids = _IDS
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"model": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def next(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            for task, turns in self.scripts.items():
                if task in json.dumps((body.get("messages") or [""])[0], ensure_ascii=False):
                    self.inner.append(body)
                    return next(turns, {"say": "The end."})
            self.requests.append(body)
            self.turn += 1
            return self.script[self.turn - 1] if self.turn <= len(self.script) else {"say": "The end."}

    def seen(self, request: int = -1, inner: bool = False) -> str:
        """What the agent (a sub-agent) sent as its conversation in one request, as one text."""
        body = (self.inner if inner else self.requests)[request]
        for key in ("input", "messages", "contents"):
            if key in body:
                return json.dumps(body[key], ensure_ascii=False)
        return ""


def calls_of(turn: dict[str, Any]) -> list[tuple[str, Any]]:
    run = turn.get("run", [])
    calls = [("", command) for command in ([run] if isinstance(run, str) else run)]
    return calls + ([turn["call"]] if "call" in turn else [])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ModelServer

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.reply({"object": "list", "data": [], "models": [], "has_more": False})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = self.body()
        path = self.path.split("?")[0].rstrip("/")
        try:
            if path.endswith("/responses"):
                self.stream(self.as_responses(body))
            elif path.endswith("/messages"):
                self.as_messages(body)
            elif path.endswith("/chat/completions"):
                self.as_chat(body)
            elif "enerateContent" in path:
                self.as_gemini(body, "stream" in path)
            elif "ount" in path.rsplit("/", 1)[-1]:
                self.reply({"input_tokens": 9, "totalTokens": 9})
            else:
                self.reply({})
        except (BrokenPipeError, ConnectionResetError):
            pass

    def body(self) -> dict[str, Any]:
        if (self.headers.get("transfer-encoding") or "").lower() == "chunked":
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        value = json.loads(raw) if raw else {}
        return value if isinstance(value, dict) else {}

    def reply(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events: list[dict[str, Any]], named: bool = True, done: bool = False) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            head = f"event: {event['type']}\n" if named else ""
            self.wfile.write(f"{head}data: {json.dumps(event)}\n\n".encode())
        if done:
            self.wfile.write(b"data: [DONE]\n\n")

    # -- Codex -------------------------------------------------------------------------------------------------------

    def as_responses(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        names = [t.get("name") or t.get("type") for t in body.get("tools") or []]
        for item in body.get("input") or []:
            if isinstance(item, dict) and item.get("type") == "additional_tools":
                for tool in item.get("tools") or []:
                    names += [tool.get("name"), *(inner.get("name") for inner in tool.get("tools") or [])]
        turn = self.model.next(body)
        items: list[dict[str, Any]] = []
        if "say" in turn:
            content = [{"type": "output_text", "text": turn["say"], "annotations": []}]
            items.append(
                {"type": "message", "id": f"msg_{next(self.model.ids)}", "role": "assistant"}
                | {"content": content, "status": "completed"}
            )
        calls = calls_of(turn)
        code_mode = "exec" in names
        if code_mode and calls and all(not tool for tool, _ in calls):
            # one script, its commands at the same time
            asked = ", ".join(f"tools.exec_command({json.dumps({'cmd': c, 'yield_time_ms': 5000})})" for _, c in calls)
            script = f"const all = await Promise.all([{asked}]);\nfor (const r of all) text(JSON.stringify(r));\n"
            items.append(self.item("custom_tool_call", "exec", input=script))
            calls = []
        for tool, given in calls:
            if not tool:
                items.append(
                    self.item(
                        "function_call", "exec_command", arguments=json.dumps({"cmd": given, "yield_time_ms": 5000})
                    )
                )
            elif tool == "apply_patch":
                if code_mode:
                    items.append(
                        self.item(
                            "custom_tool_call", "exec", input=f"text(await tools.apply_patch({json.dumps(given)}));\n"
                        )
                    )
                else:
                    items.append(self.item("custom_tool_call", "apply_patch", input=given))
            else:
                items.append(self.item("function_call", tool, arguments=json.dumps(given)))
        base = {
            "id": f"resp_{next(self.model.ids)}",
            "object": "response",
            "created_at": 1,
            "model": body.get("model"),
            "output": [],
        }
        events: list[dict[str, Any]] = [{"type": "response.created", "response": {**base, "status": "in_progress"}}]
        for number, item in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": number, "item": item})
            events.append({"type": "response.output_item.done", "output_index": number, "item": item})
        usage = {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 18,
        }
        events.append(
            {"type": "response.completed", "response": {**base, "status": "completed", "output": items, "usage": usage}}
        )
        return events

    def item(self, kind: str, name: str, **given: Any) -> dict[str, Any]:
        number = next(self.model.ids)
        return {
            "type": kind,
            "id": f"it_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "status": "completed",
            **given,
        }

    # -- Claude Code -------------------------------------------------------------------------------------------------

    def as_messages(self, body: dict[str, Any]) -> None:
        names = [t.get("name") for t in body.get("tools") or []]
        turn = self.model.next(body) if "Bash" in names else {"say": "side"}
        blocks: list[dict[str, Any]] = [{"type": "text", "text": turn["say"]}] if "say" in turn else []
        calls = calls_of(turn)
        if "delegate" in turn:
            task = {"description": "a part", "prompt": turn["delegate"], "subagent_type": "general-purpose"}
            task["run_in_background"] = turn.get("background", False)
            calls.append(("Agent" if "Agent" in names else "Task", task))
        for tool, given in calls:
            given = given if tool else {"command": given, "description": "scripted"}
            blocks.append(
                {"type": "tool_use", "id": f"toolu_{next(self.model.ids):04d}", "name": tool or "Bash", "input": given}
            )
        message = {
            "id": f"msg_{next(self.model.ids)}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": blocks,
            "stop_reason": "tool_use" if blocks and blocks[-1]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 9,
                "output_tokens": 9,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }
        if not body.get("stream"):
            self.reply(message)
            return
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
        ]
        for number, block in enumerate(blocks):
            if block["type"] == "text":
                empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events.append({"type": "content_block_start", "index": number, "content_block": empty})
            events.append({"type": "content_block_delta", "index": number, "delta": delta})
            events.append({"type": "content_block_stop", "index": number})
        events.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
                "usage": {"output_tokens": 9},
            }
        )
        events.append({"type": "message_stop"})
        self.stream(events)

    # -- Qwen Code and others ------------------------------------------------------------------------------------------

    def as_chat(self, body: dict[str, Any]) -> None:
        names = [(t.get("function") or {}).get("name") for t in body.get("tools") or []]
        turn = self.model.next(body) if names or self.model.plain else {"say": "side"}
        message: dict[str, Any] = {"role": "assistant", "content": turn.get("say", "")}
        calls = []
        for number, (tool, given) in enumerate(calls_of(turn)):
            if not tool:
                tool = "run_shell_command" if "run_shell_command" in names else "bash"
                given = {"command": given, "description": "scripted", "is_background": False}
            function = {"name": tool, "arguments": json.dumps(given)}
            calls.append(
                {"index": number, "id": f"call_{next(self.model.ids)}", "type": "function", "function": function}
            )
        if calls:
            message["tool_calls"] = calls
        why = "tool_calls" if calls else "stop"
        base = {"id": f"chat-{next(self.model.ids)}", "created": 1, "model": body.get("model")}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        if not body.get("stream"):
            self.reply(
                {
                    **base,
                    "object": "chat.completion",
                    "choices": [{"index": 0, "message": message, "finish_reason": why}],
                    "usage": usage,
                }
            )
            return
        chunk = {**base, "object": "chat.completion.chunk"}
        first = {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": why}], "usage": usage}
        self.stream([first, last], named=False, done=True)

    # -- Gemini CLI --------------------------------------------------------------------------------------------------

    def as_gemini(self, body: dict[str, Any], stream: bool) -> None:
        names = [d.get("name") for t in body.get("tools") or [] for d in t.get("functionDeclarations", [])]
        turn = self.model.next(body) if "run_shell_command" in names else {"say": "side"}
        parts: list[dict[str, Any]] = [{"text": turn["say"]}] if "say" in turn else []
        for tool, given in calls_of(turn):
            given = given if tool else {"command": given, "description": "scripted"}
            parts.append({"functionCall": {"name": tool or "run_shell_command", "args": given}})
        value = {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18},
            "modelVersion": "scripted",
        }
        if stream:
            self.stream([value], named=False)
        else:
            self.reply(value)
