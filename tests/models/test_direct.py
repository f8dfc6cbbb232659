"""An OpenAI-compatible server spoken to directly: what is sent, what is read, which refusals are worth another try."""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("aiohttp", reason="misstep[models] is not installed")
from pydantic import BaseModel

from misstep.models import Message, Rejected, Settings
from misstep.models.direct import Direct, _closed, _refused
from misstep.models.errors import Busy
from misstep.models.request import Answered, Request

from .server import Server


class Inner(BaseModel):
    n: int


class Form(BaseModel):
    verdict: Literal["good", "bad"]
    inner: list[Inner]


class Loose(BaseModel):
    verdict: str = "good"


def called(
    raw: dict[str, Any] | bytes, request: Request | None = None, **role: object
) -> tuple[Answered, dict[str, Any], str]:
    """The answer read from that body, what was sent, and its head."""
    body = raw if isinstance(raw, bytes) else json.dumps(raw).encode()

    class Raw(Server):
        async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(int(x.split(":")[1]) for x in head.lower().split("\r\n") if x.startswith("content-length"))
            self.bodies.append(json.loads(await reader.readexactly(length)))
            self.headers.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
            return True

    async def work() -> Answered:
        given = Settings.from_plain({"default": {"model": "openai:org/m", "base_url": server.url + "/", **role}}).role(
            "judge"
        )
        direct = Direct(given)
        try:
            asked = request or Request("openai:org/m", (Message("user", "hello"),), settings=given.sampling())
            return await direct.call(asked)
        finally:
            await direct.close()

    with Raw(lambda prompt, number: "") as server:
        answer = asyncio.run(work())
    return answer, server.bodies[0], server.headers[0]


def message(text: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "m-2026", "choices": [{"finish_reason": "stop", "message": {"content": text}, **more}]}


def test_what_is_sent() -> None:
    _, body, head = called(message(), temperature=0.5, max_tokens=7, seed=3, extra_body={"top_k": 4})
    assert body == {
        "model": "org/m", "messages": [{"role": "user", "content": "hello"}], "temperature": 0.5, "max_tokens": 7, "seed": 3, "top_k": 4,
    }  # fmt: skip
    assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")


def test_forms_are_closed_and_strict_where_all_is_required() -> None:
    def asked(form: type[BaseModel], structured: str) -> dict[str, Any]:
        request = Request("m", (Message("user", "x"),), form.model_json_schema(), structured)
        return called(message("{}"), request)[1]

    form = asked(Form, "schema")["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["additionalProperties"] is False
    assert form["schema"]["$defs"]["Inner"]["additionalProperties"] is False
    assert asked(Loose, "schema")["response_format"]["json_schema"]["strict"] is False
    tools = asked(Form, "tool")
    assert tools["tool_choice"] == {"type": "function", "function": {"name": "answer"}}
    assert tools["tools"][0]["function"]["parameters"] == form["schema"]
    assert {"tools", "response_format"} & set(asked(Form, "text")) == set()


def test_a_property_named_like_a_keyword_is_a_property() -> None:
    schema = {
        "type": "object",
        "properties": {"type": {"type": "string"}, "properties": {"type": "string"}},
        "required": ["type"],
    }
    closed, strict = _closed(schema)
    assert closed == {**schema, "additionalProperties": False}
    assert not strict


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (message("hi", finish_reason="length"), {"text": "hi", "finish": "length", "model": "m-2026"}),
        (message([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), {"text": "ab"}),
        ({"choices": [{"message": {"content": None, "refusal": "no"}}]}, {"text": "no", "finish": ""}),
        (
            {"choices": [{"finish_reason": "tool_calls", "message": {"content": "thinking", "tool_calls": [
                {"function": {"name": "answer", "arguments": '{"x": 1}'}}]}}]},
            {"text": '{"x": 1}', "finish": "tool_call"},
        ),
        (message(logprobs={"content": [{"logprob": -0.5, "id": 11}, {"logprob": -1, "id": 12}]}), {"logprobs": (-0.5, -1.0), "token_ids": (11, 12)}),
        (message(token_ids=[5, 6]), {"token_ids": (5, 6)}),
        (
            {**message(), "usage": {"prompt_tokens": 90, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 80}}},
            {"input_tokens": 90, "output_tokens": 4, "cached_tokens": 80},
        ),
        (message("x" * 300), {"input_tokens": 1, "output_tokens": 100}),  # no usage: estimated, never free
    ],
)  # fmt: skip
def test_what_is_read(raw: dict[str, Any], read: dict[str, Any]) -> None:
    answer, _, _ = called(raw)
    assert {name: getattr(answer, name) for name in read} == read


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices":[]}',
        b'{"choices":[{"message":5}]}',
        b"[" * 100_000,
        b'{"error":{"message":"x"}}',
    ],
)
def test_a_body_that_is_no_answer_may_have_been_charged(raw: bytes) -> None:
    with pytest.raises(Busy, match="no answer in the body") as caught:
        called(raw)
    assert caught.value.sent


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_worth_another_try(status: int) -> None:
    error = _refused(status, b'{"error": {"message": "slow\\ndown", "type": "busy"}}', {"retry-after": "7"})
    assert isinstance(error, Busy)
    assert (str(error), error.after, error.sent) == (f"status {status}: slow down", 7.0, False)


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (400, b"too long"),
        (401, b""),
        (302, b""),
        (404, b'{"error": "no model"}'),
        (429, b'{"error": {"code": "insufficient_quota"}}'),
    ],
)
def test_not_worth_another_try(status: int, raw: bytes) -> None:
    assert isinstance(_refused(status, raw, {}), Rejected)


def test_when_to_come_back() -> None:
    def after(**headers: str) -> float | None:
        error = _refused(429, b"", {name.replace("_", "-"): value for name, value in headers.items()})
        assert isinstance(error, Busy)
        return error.after

    assert after(retry_after_ms="250", retry_after="9") == 0.25
    assert after(retry_after=formatdate(time.time() + 30, usegmt=True)) == pytest.approx(30, abs=2)
    assert after(retry_after=formatdate(time.time() - 30, usegmt=True)) == 0.0
    assert after(retry_after="soon") is None
    assert after() is None


def test_the_key_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k1")
    _, _, head = called(message(), api_key_env="MY_KEY")
    assert "authorization: bearer k1" in head.lower()
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(Rejected, match="the environment has no MY_KEY"):
        called(message(), api_key_env="MY_KEY")


def test_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "localhost")
    role = {"model": "openai:m", "base_url": "http://models.example/v1"}
    assert Direct(Settings.from_plain({"default": role}).role("judge"))._proxy == "http://127.0.0.1:9"
    role["base_url"] = "http://localhost:8000/v1"
    assert Direct(Settings.from_plain({"default": role}).role("judge"))._proxy is None
