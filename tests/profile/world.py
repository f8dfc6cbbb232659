"""A small world for live profiling: tasks whose files are written here, and model servers with a stated rule for each role.

The task: /app/numbers.txt holds numbers; /app/sum.txt must hold their sum, and the numbers must stay.
The plan has four steps: look, sum, look at the sum, submit. One misstep: `rm numbers.txt`.

policy     proposes the next step of the plan; with probability `wrong` (by a hash of the conversation) the misstep instead
localizer  calls the misstep bad, and everything else good
teacher    proposes the next step of the plan; with probability `hopeless` the misstep in other words
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
PLAN = (
    "cd /app && cat numbers.txt",
    "awk '{ s += $1 } END { print s }' numbers.txt > sum.txt",
    "cat sum.txt; pwd",
    SUBMIT,
)
MISSTEP = "rm numbers.txt"

INSTRUCTION = (
    "Write the sum of the numbers in `/app/numbers.txt` ({n} of them) to `/app/sum.txt`. The numbers must stay."
)
CHECK = """#!/bin/bash
cd /app
[ "$(cat sum.txt 2>/dev/null)" = {total} ] && [ -s numbers.txt ] && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""


def write_task(folder: Path, n: int) -> Path:
    """A task of n numbers, in Harbor's format."""
    path = folder / f"sum-{n:02}"
    (path / "environment").mkdir(parents=True)
    (path / "tests").mkdir()
    (path / "task.toml").write_text('schema_version = "1.4"\n[metadata]\nfamily = "sums"\n')
    (path / "instruction.md").write_text(INSTRUCTION.format(n=n) + "\n")
    (path / "environment/Dockerfile").write_text(
        "FROM misstep-base:bookworm\nWORKDIR /app\nCOPY numbers.txt /app/numbers.txt\n"
    )
    numbers = range(3, 3 + n)
    (path / "environment/numbers.txt").write_text("".join(f"{one}\n" for one in numbers))
    (path / "tests/test.sh").write_text(CHECK.format(total=sum(numbers)))
    (path / "tests/test.sh").chmod(0o755)
    return path


def draw(*what: Any) -> float:
    """From 0 to 1, by what it is about."""
    return int.from_bytes(hashlib.sha256(json.dumps(what).encode()).digest()[:6], "big") / 2**48


def answer(step: int) -> str:
    """The policy's answer for a step of the plan."""
    return f"Step {step} of the plan.\n\n```bash\n{PLAN[step]}\n```"


@dataclass
class World(AbstractContextManager["World"]):
    """Use as a context manager: three servers, with the faults that `fault(role, number)` says (None: none)."""

    scripted: ModuleType
    wrong: float = 0.0
    hopeless: float = 0.0
    seed: int = 0
    delay: float = 0.0
    again: bool = True
    """The same question, asked again, is another draw."""
    fault: Callable[[str, int], Any] = lambda role, number: None
    policy_says: Callable[[int, str], str | None] = lambda step, conversation: None
    """In the place of the rule, by the step of the plan that is due."""
    localizer_says: Callable[[str], str | None] = lambda prompt: None
    servers: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> World:
        self._stack = ExitStack()
        for role in ("policy", "localizer", "teacher"):
            rule = getattr(self, f"_{role}")
            server = self.scripted.Server(self._with_faults(role, rule), delay=self.delay, whole=True)
            self.servers[role] = self._stack.enter_context(server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _with_faults(self, role: str, rule: Callable[[str, int], str]) -> Callable[[str, int], Any]:
        def ruled(conversation: str, number: int) -> Any:
            return self.fault(role, number) or rule(conversation, number if self.again else 0)

        return ruled

    def _policy(self, conversation: str, number: int) -> str:
        said = [text for role, text in json.loads(conversation) if role == "assistant"]
        due = sum("of the plan" in text for text in said)
        own = self.policy_says(due, conversation)
        if own is not None:
            return own
        if draw(self.seed, "policy", conversation, number) < self.wrong:
            return f"I tidy up.\n\n```bash\n{MISSTEP}\n```"
        return answer(due)

    def _localizer(self, conversation: str, number: int) -> str:
        prompt = json.loads(conversation)[-1][1]
        own = self.localizer_says(prompt)
        if own is not None:
            return own
        proposed = prompt.partition("<proposed>")[2].partition("</proposed>")[0]
        if "numbers.txt" in proposed and "rm " in proposed:
            return json.dumps({"reason": "It removes the numbers, which must stay.", "verdict": "bad"})
        return json.dumps({"reason": "It is a step of the plan.", "verdict": "good"})

    def _teacher(self, conversation: str, number: int) -> str:
        prompt = json.loads(conversation)[1][1]  # (repairs come after it)
        before, _, tried = prompt.partition("<corrections_that_were_refused>")
        due = before.count("of the plan.")
        if draw(self.seed, "teacher", prompt, number) < self.hopeless:
            spaces = tried.count("refused: ") + 2
            return json.dumps({"say": "I tidy up.", "command": f"rm {'-f ' * (spaces - 1)}numbers.txt"})
        return json.dumps({"say": f"Step {due} of the plan.", "command": PLAN[due]})

    @property
    def paid(self) -> int:
        """Whole answers of all servers."""
        return sum(sum(server.served.values()) for server in self.servers.values())

    @property
    def twice(self) -> int:
        """Answers to a question that had been answered before."""
        return sum(n - 1 for server in self.servers.values() for n in server.served.values())

    def toml(self, **more: Any) -> str:
        """A settings file."""
        lines = []
        for role, server in self.servers.items():
            given = {"model": f"openai:{role}", "base_url": server.url, "retries": 6, "timeout": 5.0, **more}
            lines += [f"[roles.{role}]", *(f"{name} = {json.dumps(value)}" for name, value in given.items())]
            lines.append("price = { input = 1.0, output = 2.0 }")
        return "\n".join(lines) + "\n"
