"""How our own loop talks with a model: one fenced command a turn, observations with the exit code, an agreed last command."""

from __future__ import annotations

import re

from misstep.sandbox.base import shorten
from misstep.trajectory.model import Result

AGENT = "misstep-bash"
"""Our own loop, as records name it."""
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SYSTEM = f"""You solve a task in a terminal. In every answer say briefly what you are about to do, and then give exactly one command
in a block of its own:

```bash
the command
```

It runs in a shell whose directory and variables last from one command to the next, and you are shown its exit code and its
output. No input can be typed. When the task is done, give the command `echo {SUBMIT}` alone, and your session ends."""
ONE = """Give exactly one command, in one block that begins with ```bash and ends with ```. Nothing was run."""
NOT_RUN = "<returncode></returncode>\n<output>\nnot run\n</output>"
_FENCE = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)
_SUBMITS = re.compile(rf"""\b(?:echo|printf)\s+['"]?{SUBMIT}\b""")


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


def observed(result: Result) -> str:
    """What the model is shown of a command: its exit code, and the output's first and last 5,000 characters."""
    code = "" if result.exit_code is None else str(result.exit_code)
    if result.fault == "refused":
        code = "1"
    late = "The command was ended at its time limit.\n" if result.timed_out else ""
    text = shorten(result.output)
    return f"{late}<returncode>{code}</returncode>\n<output>\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}</output>"
