"""Hosts: the agent programs whose hooks we answer, one module each.

A host module has, for the hook process,

* `NAME`, and `read(payload) -> Reading | None`: what a hook's payload tells, as records of the engine;
* `answer(decision, payload) -> str`: what the hook prints for a decision ('' for nothing);
* `LATE_TEXT: bool`: a text at a call can only be given with the call's result: `late(text, payload) -> str`;
* `EVENTS`, `CONFIG`, `TIMEOUT_UNIT` (of a second), `NAMED` (a handler has a name): what an installation writes, and where;
* `whole_file(command)`, optional: the installation is a file of its own;
* `ONCE`, as tried: whether an event comes once where the guard is in the user's and in the project's settings;
* `UNREAD`, as tried: what a person may have in that file (of `jsonc.ODD`) with which the host reads nothing of it;
* `PROJECT_NOTE`, optional: what a person has to do before the host runs the hooks of a project;
* `entry(command, seconds)`, optional: an entry of its settings where it has not Claude's form; `PROJECT`, `TRIED`;
* `exits(reading, results) -> dict[str, int | None]`, optional: exit statuses of earlier results, from the host's transcript.
"""

from __future__ import annotations

from misstep._record import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMES = ("claude-code", "codex", "qwen-code", "gemini-cli", "copilot-cli", "cursor", "opencode", "pi")


@record(slots=True)
class Reading:
    """What one hook payload tells."""

    session: str
    agent: str = ""
    """A sub-agent's id, '' for the main agent."""
    turn: str = ""
    transcript: str = ""
    records: list[dict[str, Any]] = field(default_factory=list)
    """Records for the engine; at most one of them is a `before` or a `stop`, and it is the last."""


def host(name: str) -> Any:
    """The module of a host. Raises ValueError for an unknown name."""
    if name not in NAMES and name != "in-process":
        raise ValueError(f"unknown host {name!r}")
    import sys

    module = f"{__name__}.{name.replace('-', '_')}"
    __import__(module)
    return sys.modules[module]


CUT = 200_000
"""Characters of an output that are looked at; the middle of a longer one is left out."""


def text(value: Any) -> str:
    """The value where it is a text, '' otherwise."""
    return value if isinstance(value, str) else ""


def clipped(result: dict[str, Any], output: str) -> dict[str, Any]:
    """Put an output into a result record, the middle of a very long one left out."""
    if len(output) > CUT:
        output = output[: CUT // 2] + "\n[... omitted ...]\n" + output[-CUT // 2 :]
        result["truncated"] = True
    result["output"] = output
    return result


def call_record(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The `before` or `after` record of a payload with tool_name, tool_input and perhaps tool_use_id."""
    given = payload.get("tool_input")
    record = {"e": kind, "id": text(payload.get("tool_use_id")), "tool": text(payload.get("tool_name")), "input": given}
    cwd = text(payload.get("cwd"))
    if cwd:
        record["cwd"] = cwd
    return record
