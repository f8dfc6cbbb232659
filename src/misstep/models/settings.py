"""Which model does what: one TOML with a table a role.

[default]
model = "openai:gpt-5-mini"            # provider:name; openai, anthropic, google
[roles.judge]
model = "openai:my-judge"
base_url = "http://127.0.0.1:8000/v1"  # any OpenAI-compatible server
[budget]
usd = 5.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomllib

ROLES = ("policy", "localizer", "teacher", "annotator", "judge")
PROVIDERS = ("openai", "anthropic", "google")
STRUCTURED = ("schema", "tool", "text")


class SettingsError(ValueError):
    """A settings file that cannot be used: the file, the key, what was expected."""


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input tokens that the server had in its cache; None: as input."""

    def of(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        """Dollars of a call; `input_tokens` counts the cached ones too."""
        cached = self.input if self.cached is None else self.cached
        whole = (input_tokens - cached_tokens) * self.input + cached_tokens * cached + output_tokens * self.output
        return whole / 1e6


@dataclass(frozen=True)
class Role:
    """How one role's model is called."""

    model: str
    base_url: str = ""
    api_key_env: str = ""
    """Name of the environment variable with the key; '' the provider's own."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int = 2048
    seed: int | None = None
    concurrency: int = 8
    timeout: float = 120.0
    """Seconds for one try."""
    retries: int = 6
    """Further tries after a busy, broken or silent server."""
    structured: str = "schema"
    """How an answer's form is asked for: schema (the server holds the model to it), tool, text (only asked)."""
    repairs: int = 2
    """Times that a model is shown what was wrong with its answer."""
    price: Price | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Passed on to the server as it is."""
    sdk: bool = False
    """Ask through the provider's SDK where base_url is given, too; else such a server is spoken to directly, which is faster."""

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]

    @property
    def name(self) -> str:
        return self.model.partition(":")[2]

    def sampling(self) -> dict[str, Any]:
        """What of it decides the answer."""
        given = {"temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_tokens, "seed": self.seed}
        made: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.extra_body:
            made["extra_body"] = dict(self.extra_body)
        return made


@dataclass(frozen=True)
class Settings:
    """All roles, and what they may cost together."""

    roles: Mapping[str, Role]
    usd: float | None = None
    tokens: int | None = None

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Reads a settings file.

        Raises:
            SettingsError: with the file's name, the key and what was expected.
        """
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: {error}") from None
        try:
            return cls.from_plain(given)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None

    @classmethod
    def from_plain(cls, given: Mapping[str, Any]) -> Settings:
        """From the tables of a settings file. Raises SettingsError."""
        _known(given, ("default", "roles", "budget"), "")
        default = _table(given, "default")
        roles = _table(given, "roles")
        _known(roles, ROLES, "roles: ")
        made = {name: _role(f"roles.{name}", {**default, **_table(roles, name, "roles.")}) for name in roles}
        if default.get("model") is not None:
            whole = _role("default", default)
            made = {name: made.get(name, whole) for name in ROLES}
        if not made:
            raise SettingsError("no role: write a [default] or a [roles.NAME] table with a model")
        budget = _table(given, "budget")
        _known(budget, ("usd", "tokens"), "budget: ")
        usd, tokens = _number(budget, "usd", "budget: ", least=0.0), _number(budget, "tokens", "budget: ", least=0.0)
        return cls(made, usd, None if tokens is None else int(tokens))

    def role(self, name: str) -> Role:
        """The role's settings. Raises SettingsError where no model is named for it."""
        try:
            return self.roles[name]
        except KeyError:
            raise SettingsError(f"no model for the role {name}: add a [roles.{name}] table") from None

    def with_role(self, name: str, **changes: Any) -> Settings:
        """The same with one role changed."""
        return replace(self, roles={**self.roles, name: replace(self.role(name), **changes)})


_NUMBERS = {
    "temperature": 0.0, "top_p": 0.0, "max_tokens": 1, "seed": None, "concurrency": 1, "timeout": 0.001,
    "retries": 0, "repairs": 0,
}  # fmt: skip
_WHOLE = ("max_tokens", "seed", "concurrency", "retries", "repairs")


def _role(where: str, given: Mapping[str, Any]) -> Role:
    prefix = f"{where}: "
    _known(given, tuple(one.name for one in fields(Role)), prefix)
    model = given.get("model")
    if not isinstance(model, str) or model.partition(":")[0] not in PROVIDERS or not model.partition(":")[2]:
        raise SettingsError(f"{prefix}model is provider:name with one of {', '.join(PROVIDERS)}, not {model!r}")
    made: dict[str, Any] = {"model": model}
    for name in ("base_url", "api_key_env"):
        if name in given:
            if not isinstance(given[name], str):
                raise SettingsError(f"{prefix}{name} is a text, not {given[name]!r}")
            made[name] = given[name]
    if made.get("base_url") and not made["base_url"].startswith(("http://", "https://")):
        raise SettingsError(f"{prefix}base_url begins with http:// or https://, not {made['base_url']!r}")
    for name, least in _NUMBERS.items():
        value = _number(given, name, prefix, least)
        if value is not None:
            if name in _WHOLE and value != int(value):
                raise SettingsError(f"{prefix}{name} is a whole number, not {value!r}")
            made[name] = int(value) if name in _WHOLE else value
    if "structured" in given:
        if given["structured"] not in STRUCTURED:
            raise SettingsError(f"{prefix}structured is one of {', '.join(STRUCTURED)}, not {given['structured']!r}")
        made["structured"] = given["structured"]
    if "price" in given:
        price = _table(given, "price", prefix)
        _known(price, ("input", "output", "cached"), f"{prefix}price: ")
        parts = {name: _number(price, name, f"{prefix}price: ", 0.0) for name in ("input", "output", "cached")}
        if parts["input"] is None or parts["output"] is None:
            raise SettingsError(f"{prefix}price: input and output are dollars per million tokens")
        made["price"] = Price(parts["input"], parts["output"], parts["cached"])
    if "sdk" in given:
        if not isinstance(given["sdk"], bool):
            raise SettingsError(f"{prefix}sdk is true or false, not {given['sdk']!r}")
        made["sdk"] = given["sdk"]
    if "extra_body" in given:
        made["extra_body"] = dict(_table(given, "extra_body", prefix))
    return Role(**made)


def _known(given: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in given:
        if name not in names:
            raise SettingsError(f"{where}unknown key {name!r} (known: {', '.join(names)})")


def _table(given: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, Mapping):
        raise SettingsError(f"{where}{name} is a table, not {value!r}")
    return value


def _number(given: Mapping[str, Any], name: str, where: str, least: float | None = None) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value or value in (float("inf"),):
        raise SettingsError(f"{where}{name} is a number, not {value!r}")
    if least is not None and value < least:
        raise SettingsError(f"{where}{name} is at least {least:g}, not {value!r}")
    return value
