"""The one convention by which our own loops talk with a policy: one tool, a shell (TMax, the agent's harness).

One fenced command a turn, in a shell whose directory and variables last; observations with the exit code, cut to their first and
last 5,000 characters; an agreed last command. What the policy is told stands in the versioned prompt `policy`.
"""

from __future__ import annotations

import re

from misstep.models import Message
from misstep.profile.prompts import load
from misstep.sandbox.base import HEAD, TAIL, Observation, shorten
from misstep.trajectory.model import Result

AGENT = "misstep-bash"
"""Who acts by this convention, as records name it."""
TOOL = "bash"
COMMAND_SECONDS = 120.0
"""Of one command."""
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SYSTEM = dict(load("policy").sections)["system"]
ONE = """Give exactly one command, in one block that begins with ```bash and ends with ```. Nothing was run."""
"""What is answered to a turn without, or with several."""
NOT_RUN = "<returncode></returncode>\n<output>\nnot run\n</output>"
_NOTE = 60
"""Characters at most of the note of what was left out."""
_FENCE = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)
_SUBMITS = re.compile(rf"""\b(?:echo|printf)\s+['"]?{SUBMIT}\b""")
_ALONE = re.compile(rf"""echo\s+(['"]?){SUBMIT}\1\s*;?""")


def opening(instruction: str) -> list[Message]:
    """The conversation before the first answer."""
    return load("policy").render(task=instruction)


def command_of(answer: str) -> str | None:
    """The one command of an answer; None where there is none, or more than one."""
    blocks = _FENCE.findall(answer)
    return blocks[0].strip() if len(blocks) == 1 and blocks[0].strip() else None


def submits(command: str) -> bool:
    """Whether a command ends the session."""
    return bool(_SUBMITS.search(command))


def spoken(answer: str) -> str:
    """An answer without its block: what the agent says."""
    return _FENCE.sub("", answer).strip()


def proposed(said: str, command: str) -> str:
    """An answer that proposes a command."""
    return f"{said}\n\n```bash\n{command}\n```".lstrip("\n")


def result_of(seen: Observation) -> Result:
    """What a command showed, as a record keeps it and the policy is shown it."""
    code = seen.exit_code
    result = Result(shorten(seen.output), code, None if code is None else code != 0)
    result.timed_out, result.seconds = seen.timed_out, round(seen.seconds, 4)
    return result


def observed(result: Result) -> str:
    """What the policy is shown of a command: its exit code, and the output's first and last 5,000 characters."""
    code = "" if result.exit_code is None else str(result.exit_code)
    if result.fault == "refused":
        code = "1"
    late = "The command was ended at its time limit.\n" if result.timed_out else ""
    # What was shortened once says how much was left out: it is not shortened again, to say that of its own note.
    text = result.output if len(result.output) <= HEAD + TAIL + _NOTE else shorten(result.output)
    return f"{late}<returncode>{code}</returncode>\n<output>\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}</output>"


def submits_alone(command: str) -> bool:
    """Whether a command does nothing but end the session."""
    return bool(_ALONE.fullmatch(command.strip()))
