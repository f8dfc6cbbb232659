"""A root, small tasks written here, and a policy that follows a rule over bytes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from misstep.sandbox import Root, native, roots
from misstep.train.codec import END, SHOWN, TASK, TURN, ByteCodec
from misstep.train.episode import Generated

CHECK = """\
#!/bin/bash
if [ "$(cat /app/new.conf 2>/dev/null)" = "size=2" ] && [ "$(cat /app/old.conf 2>/dev/null)" = "size=1" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""


@pytest.fixture(scope="session")
def root() -> Root:
    problem = native.problem()
    if problem:
        if os.environ.get("MISSTEP_NEED_SANDBOX"):
            pytest.fail(problem)
        pytest.skip(problem)
    return roots.host()


def write_task(
    folder: Path, name: str, check: str = CHECK, asked: str = "Write size=2 to new.conf; keep old.conf."
) -> Path:
    """A task: /app/old.conf is `size=1`, and /app/new.conf must become `size=2`."""
    made = folder / name
    for part in ("environment", "tests"):
        (made / part).mkdir(parents=True)
    (made / "task.toml").write_text("[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 20\n")
    (made / "instruction.md").write_text(f"{asked} ({name})\n")
    (made / "environment" / "Dockerfile").write_text("FROM debian:12\nWORKDIR /app\nCOPY old.conf /app/\n")
    (made / "environment" / "old.conf").write_text("size=1\n")
    (made / "tests" / "test.sh").write_text(check)
    return made


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., Path]:
    (tmp_path / "tasks").mkdir()
    return lambda name="copy-1", **more: write_task(tmp_path / "tasks", name, **more)


class Rule:
    """A policy: a function from the conversation's turns so far (what was shown after each) to the next turn's text."""

    def __init__(self, rule: Callable[[str, list[str]], str], *, logprob: float | None = -0.5) -> None:
        self.rule, self.logprob = rule, logprob
        self.asked: list[list[int]] = []

    async def generate(self, prompt_ids: Sequence[int], *, max_tokens: int, stop: Sequence[int] = ()) -> Generated:
        await asyncio.sleep(0)
        self.asked.append(list(prompt_ids))
        return self.answer(prompt_ids, max_tokens)

    def answer(self, prompt_ids: Sequence[int], max_tokens: int) -> Generated:
        task, shown = said(prompt_ids)
        ids = [*self.rule(task, shown).encode(), END]
        cut = ids[:max_tokens]
        logprobs = () if self.logprob is None else (self.logprob,) * len(cut)
        return Generated(tuple(cut), logprobs, "stop" if cut == ids else "length")


def said(ids: Sequence[int]) -> tuple[str, list[str]]:
    """The task, and what was shown after each turn."""
    codec, parts, now = ByteCodec(), list[tuple[int, list[int]]](), list[int]()
    for one in ids:
        if one in (TASK, SHOWN, TURN):
            now = []
            parts.append((one, now))
        else:
            now.append(one)
    return codec.text(parts[0][1]), [codec.text(found) for mark, found in parts if mark == SHOWN]


def script(*turns: str) -> Callable[[str, list[str]], str]:
    """A rule that says these turns in order, and then is done."""
    return lambda task, shown: turns[len(shown)] if len(shown) < len(turns) else "done"
