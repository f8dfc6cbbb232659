"""Writes the attempts of examples/panel: drawn by the rule below from a seed. No agent ran; every record says so.

Each task has a level, the chance that an attempt passes without the right last step. On an eligible task the state is met in
nine of ten attempts; then the right step is taken in 85 % of the attempts that are told to by name (the real arm) and in 40 % of
all others, and it adds 45 points. One attempt in forty breaks, and is made again.
"""

import random
import sys
from pathlib import Path

from misstep.experiment import Attempt, write_attempts

RULE = "attempts drawn from a stated rule, no agent ran"
ARMS = ("baseline", "real", "sham", "always-verify")
FAMILIES = ("service-persistence", "database-evidence", "latex-final-log")


def attempt(
    rng: random.Random, task: str, arm: str, replicate: int, candidate: int, level: float, family: str
) -> Attempt:
    eligible = (family,) if family else ()
    common = {
        "task": task, "arm": arm, "replicate": replicate, "candidate": candidate, "eligible": eligible,
        "id": f"{task}.{arm}.{replicate}.{candidate}", "agent": "none", "extra": {"simulated": RULE},
    }  # fmt: skip
    if candidate == 1 and rng.random() < 1 / 40:
        return Attempt(**common, termination="invalid", fault="the image could not be pulled")
    met = bool(family) and rng.random() < 0.9
    shown = met and rng.random() < (0.85 if arm == "real" else 0.4)
    passed = rng.random() < level + 0.45 * shown
    nudge = {family: 1} if met and arm in ("real", "sham") else {arm: 1} if arm == "always-verify" else {}
    seconds = rng.lognormvariate(5, 0.5) * (1 + 0.15 * len(nudge))
    return Attempt(
        **common,
        termination="pass" if passed else rng.choices(("gave-up", "fail", "timeout"), (6, 3, 1))[0],
        passed=passed,
        state=eligible if met else (),
        fired=nudge,
        behaviour={family: shown if met else None} if family else {},
        seconds=round(seconds, 1),
        cost_usd=round(seconds / 900, 4),
        output_tokens=round(seconds * 40),
        steps=round(seconds / 9),
    )


def attempts(seed: int = 20) -> list[Attempt]:
    rng = random.Random(seed)
    made = []
    for number in range(32):
        family = FAMILIES[number % 3] if number < 18 else ""
        level = rng.choice((0.05, 0.2, 0.5, 0.55))
        for arm in ARMS:
            for replicate in (1, 2):
                for candidate in (1, 2):
                    one = attempt(rng, f"task-{number + 1:02}", arm, replicate, candidate, level, family)
                    made.append(one)
                    if one.termination != "invalid":
                        break
    return made


if __name__ == "__main__":
    write_attempts(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "attempts.jsonl"), attempts())
