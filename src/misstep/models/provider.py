"""One call to one server, through pydantic-ai: the only place that knows it. Loaded where a call is really made."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from misstep.models.errors import Busy, Rejected
from misstep.models.request import Answered, Request

if TYPE_CHECKING:
    from misstep.models.settings import Role

try:
    from pydantic_ai import exceptions
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        UserPromptPart,
    )
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition
except ImportError as error:  # pragma: no cover
    raise ImportError("model calls need more packages: pip install 'misstep[models]'") from error

_BUSY = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
    exceptions.ModelRequestTimeout,
)
_ANSWER = "answer"


class Provider:
    """One role's model."""

    def __init__(self, role: Role) -> None:
        """Raises Rejected where a key is missing."""
        self.role = role
        try:
            self._model = _model(role)
        except exceptions.UserError as error:
            raise Rejected(_one_line(str(error))) from None

    async def call(self, request: Request) -> Answered:
        """Asks once, without a retry.

        Raises:
            Busy: another try may succeed.
            Rejected: it will not.
        """
        began = time.monotonic()
        try:
            response = await model_request(
                self._model,
                _messages(request),
                model_settings=self._settings(request),
                model_request_parameters=_form(request),
            )
        except _BUSY as error:
            phase = getattr(error, "phase", None)
            sent = isinstance(error, exceptions.ModelRequestTimeout) or phase in ("read", "write")
            raise Busy(_one_line(str(error)), error.retry_after, sent) from None
        except (
            exceptions.ModelRequestRejectedError,
            exceptions.ModelQuotaExceededError,
            exceptions.ModelHTTPError,
        ) as error:
            raise Rejected(_one_line(str(error))) from None
        except (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior) as error:
            # The body was no answer: a proxy's page, a stream cut off. It may have been charged for.
            raise Busy(_one_line(str(error)), None, True) from None
        return self._answered(response, time.monotonic() - began)

    async def close(self) -> None:
        """Its connections are shared, and end with the process."""

    def _settings(self, request: Request) -> Any:
        given = {name: value for name, value in request.settings.items() if value is not None}
        return {**given, "timeout": self.role.timeout, "request_timeout": self.role.timeout, "max_retries": 0}

    def _answered(self, response: ModelResponse, seconds: float) -> Answered:
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        for part in response.parts:
            if isinstance(part, ToolCallPart) and part.tool_name == _ANSWER:
                text = part.args_as_json_str()
        usage, details = response.usage, response.provider_details or {}
        found = Answered(
            text=text,
            model=response.model_name or "",
            finish=str(response.finish_reason or ""),
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cache_read_tokens,
            output_tokens=usage.output_tokens,
            seconds=round(seconds, 4),
            logprobs=tuple(float(one["logprob"]) for one in details.get("logprobs") or ()),
        )
        return _priced(found, self.role, response)


def _priced(answer: Answered, role: Role, response: ModelResponse) -> Answered:
    from dataclasses import replace

    if role.price is not None:
        usd = role.price.of(answer.input_tokens, answer.cached_tokens, answer.output_tokens)
        return replace(answer, usd=usd)
    if role.base_url:
        return answer  # a server of one's own has no list price
    try:
        return replace(answer, usd=float(response.cost().total_price))
    except (LookupError, AssertionError, ValueError):
        return answer


def _model(role: Role) -> Model:
    key = os.environ.get(role.api_key_env) if role.api_key_env else None
    if role.api_key_env and not key:
        raise Rejected(f"the environment has no {role.api_key_env} (api_key_env of {role.model})")
    url = role.base_url or None
    if role.provider == "openai":
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel(role.name, provider=OpenAIProvider(base_url=url, api_key=key))
    if role.provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(
            role.name, provider=AnthropicProvider(api_key=key or "none" if url else key, base_url=url)
        )
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(role.name, provider=GoogleProvider(api_key=key or "none" if url else key, base_url=url))


def _messages(request: Request) -> list[ModelMessage]:
    made: list[ModelMessage] = []
    parts: list[Any] = []
    for message in request.messages:
        if message.role == "assistant":
            made += [ModelRequest(parts=parts), ModelResponse(parts=[TextPart(message.text)])]
            parts = []
        else:
            kind = SystemPromptPart if message.role == "system" else UserPromptPart
            parts.append(kind(message.text))
    made.append(ModelRequest(parts=parts))
    return made


def _form(request: Request) -> ModelRequestParameters:
    if request.schema is None or request.structured == "text":
        return ModelRequestParameters()
    schema = dict(request.schema)
    if request.structured == "tool":
        tool = ToolDefinition(name=_ANSWER, description="The answer.", parameters_json_schema=schema, kind="output")
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
    form = OutputObjectDefinition(json_schema=schema, name=_ANSWER, strict=True)
    return ModelRequestParameters(output_mode="native", output_object=form)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]
