"""Rollouts as records of trajectories (ATIF), with their token ids: what the next profile, and its prefixes, are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from misstep.models import Answered
from misstep.profile import tokens
from misstep.train.episode import Episode
from misstep.trajectory import Outcome
from misstep.trajectory.atif_out import write


def turns_of(episode: Episode) -> Iterator[tuple[int, int]]:
    """(start, end) in `episode.ids` of each turn of the policy: the runs of ones in its mask."""
    start = None
    for place, one in enumerate((*episode.mask, 0)):
        if one and start is None:
            start = place
        elif not one and start is not None:
            yield start, place
            start = None


def document_of(episode: Episode, model: str = "") -> dict[str, object]:
    """The episode's attempt as an ATIF document, its outcome and its own turns' token ids in it.

    Raises ValueError where the episode has no attempt (it came from a file).
    """
    attempt = episode.attempt
    if attempt is None:
        raise ValueError("an episode that was read from a file has no attempt to record")
    trajectory = attempt.trajectory
    trajectory.model = model or trajectory.model
    fault = "infrastructure" if attempt.ended == "fault" else None
    passed = episode.extras.get("parts", {}).get("outcome")
    trajectory.outcome = Outcome(
        None if passed is None else passed >= 1, episode.reward, attempt.start.task, fault=fault,
        exception=attempt.fault, extra={"ended": attempt.ended},
    )  # fmt: skip
    steps = [n for n in range(attempt.first, len(trajectory.steps)) if trajectory.steps[n].source == "agent"]
    given = {}
    for number, (start, end) in zip(steps, turns_of(episode), strict=False):
        given[number] = Answered(
            trajectory.steps[number].message,
            prompt_ids=(*episode.prompt_ids, *episode.ids[:start]),
            token_ids=episode.ids[start:end],
            logprobs=episode.logprobs[start:end],
        )
    document = write(trajectory)
    tokens.put(document, given)
    return document


def write_record(episode: Episode, path: Path, model: str = "") -> Path:
    """Writes the record, whole or not at all."""
    fresh = path.with_name(f"{path.name}.new")
    text = json.dumps(document_of(episode, model), ensure_ascii=False)
    fresh.write_text(text, encoding="utf-8", errors="surrogatepass")
    return fresh.replace(path)
