"""Token ids in a rollout's record: what is put in comes out, whatever a chat template does with earlier turns."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from misstep.models import Answered
from misstep.profile import tokens
from misstep.trajectory import Step, Trajectory, atif_out
from misstep.trajectory.readers import read


@pytest.mark.parametrize("seed", range(20))
def test_what_is_put_in_comes_out(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    steps = [Step("system", "s"), Step("user", "u", prompt=True)]
    answers: dict[int, Answered] = {}
    prompt: list[int] = rng.choices(range(9), k=20)
    for number in range(2, 14):
        steps.append(Step("agent", f"a{number}", stop=False))
        if rng.random() < 0.2:
            continue  # a step that is not the policy's, or without ids
        ids = rng.choices(range(9), k=rng.randrange(1, 6))
        given = rng.choice([prompt, prompt, prompt, []])  # a server may leave the prompt's ids out
        answers[number] = Answered(
            f"a{number}",
            token_ids=tuple(ids),
            prompt_ids=tuple(given),
            logprobs=tuple(-0.5 for _ in ids) if rng.random() < 0.8 else (),
        )
        if rng.random() < 0.3:
            steps[-1].extra["proposed"] = {
                "message": "wrong",
                "command": "rm",
                "model": "m",
                "metrics": {},
                "reason": "",
            }
        # the next prompt repeats this one, or a template drops what the agent thought in it
        kept = prompt + ids if rng.random() < 0.7 else prompt[: rng.randrange(len(prompt))]
        prompt = [*kept, *rng.choices(range(9), k=rng.randrange(1, 8))]
    document = atif_out.write(Trajectory("t", "atif", "misstep-bash", steps))
    tokens.put(document, answers)
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    assert tokens.read(path) == {
        number: tokens.Tokens(one.prompt_ids, one.token_ids, one.logprobs) for number, one in answers.items()
    }
    (found,) = read(path)
    assert [step.message for step in found.steps] == [step.message for step in steps]


def test_a_long_rollout_is_kept_short(tmp_path: Path) -> None:
    """Every prompt repeats all before it: the ids of 64 turns take the room of the last one, not of their sum."""
    rng = random.Random(0)
    steps, answers, prompt = [Step("user", "u", prompt=True)], {}, tuple(rng.choices(range(150_000), k=500))
    for number in range(1, 65):
        steps.append(Step("agent", "a", stop=False))
        ids = tuple(rng.choices(range(150_000), k=100))
        answers[number] = Answered("a", token_ids=ids, prompt_ids=prompt)
        prompt = (*prompt, *ids, *rng.choices(range(150_000), k=200))
    document = atif_out.write(Trajectory("t", "atif", "misstep-bash", steps))
    tokens.put(document, answers)
    text = json.dumps(document)
    assert len(text) < 400_000 < 8 * sum(len(one.prompt_ids) for one in answers.values()) / 10


def test_no_record_of_a_rollout(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"steps": [1]}')
    with pytest.raises(ValueError, match="no record of a rollout"):
        tokens.read(path)
