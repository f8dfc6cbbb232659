"""One call to an OpenAI-compatible server by its chat protocol, without an SDK: a tenth of the CPU time of one with it.

For roles with a `base_url`: servers that are fast and near enough for that to count. All else goes through `provider`.
"""

from __future__ import annotations

import json
import os
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from misstep.models.errors import Busy, Rejected
from misstep.models.request import CHARACTERS_PER_TOKEN, Answered, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from misstep.models.settings import Role

try:
    import aiohttp
except ImportError as error:  # pragma: no cover
    raise ImportError("model calls need more packages: pip install 'misstep[models]'") from error

_ANSWER = "answer"
_BUSY = frozenset({408, 409, 425, 429})
"""Refused now, perhaps not later; so is every status from 500 on."""
_FINISH = {"tool_calls": "tool_call", "function_call": "tool_call"}


class Direct:
    """One role's model, at its `base_url`."""

    def __init__(self, role: Role) -> None:
        """Raises Rejected where a key is missing."""
        self.role = role
        self._url = role.base_url.rstrip("/") + "/chat/completions"
        key = os.environ.get(role.api_key_env or "OPENAI_API_KEY", "")
        if role.api_key_env and not key:
            raise Rejected(f"the environment has no {role.api_key_env} (api_key_env of {role.model})")
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {key or 'none'}"}
        self._proxy = _proxy(self._url)
        self._forms: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def call(self, request: Request) -> Answered:
        """Asks once, without a retry. Raises Busy where another try may succeed, else Rejected."""
        body = json.dumps(self._body(request)).encode()
        began = time.monotonic()
        try:
            async with self._open().post(
                self._url, data=body, headers=self._headers, proxy=self._proxy, allow_redirects=False
            ) as response:
                status, raw, headers = response.status, await response.read(), response.headers
        except aiohttp.ConnectionTimeoutError as error:
            raise Busy(f"no connection in time: {_words(error)}") from None
        except TimeoutError:
            raise Busy(f"no answer in {self.role.timeout:g} s", None, True) from None
        except aiohttp.ClientConnectorError as error:
            raise Busy(f"no connection: {_words(error)}") from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise Rejected(f"base_url: {_words(error)}") from None
        except (aiohttp.ClientError, OSError) as error:
            # The connection ended, or what came is no HTTP. The request may have been charged for.
            raise Busy(_words(error), None, True) from None
        if status != 200:
            raise _refused(status, raw, headers)
        return self._answered(request, raw, time.monotonic() - began)

    async def close(self) -> None:
        """Ends its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            # As many connections as there are calls: the client bounds those.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            timeout = aiohttp.ClientTimeout(total=self.role.timeout)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    def _body(self, request: Request) -> dict[str, Any]:
        given = dict(request.settings)
        more = given.pop("extra_body", {})
        messages = [{"role": one.role, "content": one.text} for one in request.messages]
        return {"model": self.role.name, "messages": messages, **given, **self._form(request), **more}

    def _form(self, request: Request) -> dict[str, Any]:
        """What holds the model to the form of the answer; made once a form."""
        schema = request.schema
        if schema is None or request.structured == "text":
            return {}
        known = self._forms.get(id(schema))
        if known is None:
            known = self._forms[id(schema)] = (schema, _form(schema, request.structured))
        return known[1]

    def _answered(self, request: Request, raw: bytes, seconds: float) -> Answered:
        try:
            given = json.loads(raw)
            choice = given["choices"][0]
            text = _text(choice["message"])
            usage = given.get("usage") or {}
            asked = int(usage.get("prompt_tokens") or request.characters() / CHARACTERS_PER_TOKEN)
            answered = int(usage.get("completion_tokens") or len(text) / CHARACTERS_PER_TOKEN)
            cached = int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
            tokens = (choice.get("logprobs") or {}).get("content") or ()
            ids = choice.get("token_ids") or [one["id"] for one in tokens if "id" in one]
            found = Answered(
                text=text,
                model=str(given.get("model") or ""),
                finish=_FINISH.get(choice.get("finish_reason"), str(choice.get("finish_reason") or "")),
                input_tokens=asked,
                cached_tokens=cached,
                output_tokens=answered,
                usd=None if self.role.price is None else self.role.price.of(asked, cached, answered),
                seconds=round(seconds, 4),
                logprobs=tuple(float(one["logprob"]) for one in tokens),
                token_ids=tuple(map(int, ids)),
                prompt_ids=tuple(map(int, given.get("prompt_token_ids") or ())),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            # The body was no answer: a proxy's page, a stream cut off. It may have been charged for.
            raise Busy(f"no answer in the body: {type(error).__name__}: {_words(error)}", None, True) from None
        return found


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for the server; found once (aiohttp's `trust_env` would look at each call)."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _form(schema: Mapping[str, Any], structured: str) -> dict[str, Any]:
    closed, strict = _closed(schema)
    if structured == "tool":
        tool = {"name": _ANSWER, "description": "The answer.", "parameters": closed}
        chosen = {"type": "function", "function": {"name": _ANSWER}}
        return {"tools": [{"type": "function", "function": tool}], "tool_choice": chosen}
    form = {"name": _ANSWER, "schema": closed, "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def _closed(schema: Any) -> tuple[Any, bool]:
    """The schema with objects that allow no other properties, and whether every property is required (as strict ones must)."""
    if isinstance(schema, list):
        made = [_closed(one) for one in schema]
        return [one for one, _ in made], all(strict for _, strict in made)
    if not isinstance(schema, dict):
        return schema, True
    parts = {name: _closed(one) for name, one in schema.items()}
    whole = {name: one for name, (one, _) in parts.items()}
    strict = all(strict for _, strict in parts.values())
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, dict):
        whole.setdefault("additionalProperties", False)
        strict = strict and set(schema.get("required", ())) == set(properties)
    return whole, strict


def _text(message: dict[str, Any]) -> str:
    for call in message.get("tool_calls") or ():
        if call["function"]["name"] == _ANSWER:
            return str(call["function"]["arguments"])
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    return str(content or message.get("refusal") or "")


def _refused(status: int, raw: bytes, headers: Mapping[str, str]) -> Busy | Rejected:
    said, code = raw[:2000].decode("utf-8", "replace"), ""
    try:
        error = json.loads(raw)
        error = error.get("error", error)
        if isinstance(error, dict):
            said, code = str(error.get("message", said)), str(error.get("code") or error.get("type") or "")
        elif isinstance(error, str):
            said = error
    except (ValueError, AttributeError, RecursionError):
        pass
    text = f"status {status}: {' '.join(said.split())[:300]}"
    if (status >= 500 or status in _BUSY) and code != "insufficient_quota":
        return Busy(text, _after(headers))
    return Rejected(text)


def _after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks us to wait."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        given = headers.get(name)
        if given is None:
            continue
        try:
            return float(given) / unit
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
        except (ValueError, TypeError):
            continue
    return None


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


__all__ = ["Direct"]
