"""The policy's token ids in a rollout's record: never rendered again, so that training sees what the policy saw.

In ATIF's own fields where the answer stands: `completion_token_ids`, `logprobs`, and `prompt_token_ids` of the first. A later
prompt repeats what came before it, so it is kept as what it shares with that (`prompt_shared`: how many ids of the last prompt
and answer) and the rest (`prompt_more`), in the metrics' `extra`. Of an answer that a correction replaced, all stands in
`extra.misstep.extra.proposed.tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misstep.models import Answered
from misstep.profile.corrected import PROPOSED
from misstep.trajectory.readers.atif import OWN


@dataclass(frozen=True, slots=True)
class Tokens:
    """Of one answer of the policy."""

    prompt: tuple[int, ...] = ()
    """Everything before it, as the server's chat template made it; () where the server does not give it."""
    answer: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Of the answer's tokens, of the distribution that they were drawn from."""


def put(document: dict[str, Any], answers: Mapping[int, Answered]) -> None:
    """Adds the tokens of each answer (by step, from 0) to an ATIF document of the rollout, where the server gave them."""
    before: Sequence[int] = ()
    for number, given in sorted(answers.items()):
        if not (given.token_ids or given.logprobs or given.prompt_ids):
            continue
        step = document["steps"][number]
        prompt: dict[str, Any] = {}
        if given.prompt_ids:
            shared = _shared(before, given.prompt_ids)
            prompt = {"prompt_shared": shared, "prompt_more": list(given.prompt_ids[shared:])}
            before = (*given.prompt_ids, *given.token_ids)
        own = step.get("extra", {}).get(OWN, {}).get("extra", {}).get(PROPOSED)
        if own is not None:
            own["tokens"] = {**prompt, "answer": list(given.token_ids), "logprobs": list(given.logprobs)}
            continue
        metrics = step.setdefault("metrics", {})
        if given.token_ids:
            metrics["completion_token_ids"] = list(given.token_ids)
        if given.logprobs:
            metrics["logprobs"] = list(given.logprobs)
        if prompt and not prompt["prompt_shared"]:
            metrics["prompt_token_ids"] = prompt["prompt_more"]
        elif prompt:
            metrics["extra"] = {**metrics.get("extra", {}), **prompt}


def read(path: Path) -> dict[int, Tokens]:
    """The tokens of each answer of the policy, by step from 0, of a rollout's record.

    Raises OSError, ValueError (no record of a rollout).
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    try:
        return _read(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no record of a rollout: {error}") from None


def _read(document: Mapping[str, Any]) -> dict[int, Tokens]:
    found: dict[int, Tokens] = {}
    before: tuple[int, ...] = ()
    for number, step in enumerate(document["steps"]):
        metrics = step.get("metrics") or {}
        own = (step.get("extra") or {}).get(OWN, {}).get("extra", {}).get(PROPOSED, {}).get("tokens")
        more = metrics.get("extra", {}) if own is None else own
        answer = metrics.get("completion_token_ids", ()) if own is None else own["answer"]
        logprobs = metrics.get("logprobs", ()) if own is None else own["logprobs"]
        prompt: tuple[int, ...] = ()
        if own is None and "prompt_token_ids" in metrics:
            prompt = tuple(metrics["prompt_token_ids"])
        elif "prompt_more" in more:
            prompt = (*before[: more["prompt_shared"]], *more["prompt_more"])
        if prompt:
            before = (*prompt, *answer)
        if prompt or answer or logprobs:
            found[number] = Tokens(prompt, tuple(answer), tuple(logprobs))
    return found


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
