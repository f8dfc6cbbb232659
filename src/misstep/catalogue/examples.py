"""The examples beside a misstep: short event streams in YAML, and what must be found in them.

    fires:
      - name: server left in the shell's background
        events:
          - prompt: Start the API so that it is listening on port 8000.
          - run: python3 -m http.server 8000 &
            exit: 0
          - stop: The server is up.
            misstep: true          # an occurrence is expected at this event
            policy: service-persistence   # and this policy would fire here
    silent:
      - name: server in a session of its own
        near: server left in the shell's background
        differs: the launch is in a new session with its streams redirected
        verdict: right             # right (default: no occurrence) | unknown
        events: [...]

An item is one of `prompt`, `say`, `stop` (text), `compact: true`, `interrupt: true`, or a call:
`run: <command>` (with `background`, `timeout` in seconds, `cwd`, and `tool` and `arguments` where it is not `Bash`), `keys: <keystrokes>`, `read: <path>`, `write: <path>` with
`text`, `edit: <path>` with `old` and `new`, `search: <words>`, `tool: <name>` with `arguments`. A call takes
`output`, `exit`, `failed`, `fault`, `truncated`, `running`, `shared`, `timed_out`; `result: false` means that none
was recorded.
"""

from __future__ import annotations

from pathlib import Path

from misstep._record import field, record
from misstep.trajectory import After, Before, Call, Compact, Event, Interrupt, Prompt, Result, Say, Stop

from .base import Misstep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@record
class Example:
    """One example stream."""

    name: str
    events: list[Event]
    occurrences: list[int] = field(default_factory=list)
    """Event indices at which the misstep must be found, and nowhere else."""
    firings: list[tuple[str, int]] = field(default_factory=list)
    """(policy id, event index) at which policies must fire, and nowhere else."""
    near: str = ""
    differs: str = ""
    verdict: str = "right"
    items: list[dict[str, Any]] = field(default_factory=list)
    """The events as written, for showing."""


def path_of(misstep: Misstep) -> Path:
    """The YAML file beside the misstep's module."""
    import sys

    return Path(str(sys.modules[type(misstep).__module__].__file__)).with_suffix(".yaml")


def load(misstep: Misstep) -> tuple[list[Example], list[Example]]:
    """The (firing, silent) examples of a misstep. Raises ValueError naming the file and the example."""
    import yaml

    path = path_of(misstep)
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        return [parse(e) for e in data["fires"]], [parse(e) for e in data["silent"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def parse(raw: dict[str, Any]) -> Example:
    """One example from its YAML mapping."""
    example = Example(
        raw["name"], [], near=raw.get("near", ""), differs=raw.get("differs", ""), verdict=raw.get("verdict", "right")
    )
    example.items = raw["events"]
    for number, item in enumerate(raw["events"]):
        at = len(example.events)
        example.events += _events(item, at, number, raw["name"])
        if item.get("misstep"):
            example.occurrences.append(at)
        policies = item.get("policy", [])
        for policy in [policies] if isinstance(policies, str) else policies:
            example.firings.append((policy, at))
    return example


def _events(item: dict[str, Any], at: int, number: int, name: str) -> list[Event]:
    for key, kind in (("prompt", Prompt), ("say", Say), ("stop", Stop)):
        if key in item:
            return [kind(at, number, str(item[key]))]
    if "compact" in item:
        return [Compact(at, number)]
    if "interrupt" in item:
        return [Interrupt(at, number)]
    call = _call(item, number, name)
    made: list[Event] = [Before(at, number, call)]
    if item.get("result", True):
        code = item.get("exit")
        failed = item.get("failed", None if code is None else code != 0)
        result = Result(str(item.get("output", "")), code, failed, item.get("fault"))
        for key in ("truncated", "running", "shared", "timed_out"):
            setattr(result, key, bool(item.get(key, False)))
        made.append(After(at + 1, number, call, result))
    return made


def _call(item: dict[str, Any], number: int, name: str) -> Call:
    made = f"c{number}"
    if "run" in item:
        return Call(
            made,
            item.get("tool", "Bash"),
            "shell",
            item.get("arguments", {}),
            command=item["run"],
            background=item.get("background", False),
            timeout=item.get("timeout"),
            cwd=item.get("cwd"),
        )
    if "keys" in item:
        return Call(made, "bash_command", "keys", command=item["keys"])
    if "read" in item:
        return Call(made, "Read", "read", {"file_path": item["read"]}, paths=(item["read"],))
    if "write" in item:
        edit = (item["write"], "", str(item.get("text", "")))
        return Call(made, "Write", "write", {"file_path": item["write"]}, paths=(item["write"],), edits=(edit,))
    if "edit" in item:
        edit = (item["edit"], str(item.get("old", "")), str(item.get("new", "")))
        return Call(made, "Edit", "edit", {"file_path": item["edit"]}, paths=(item["edit"],), edits=(edit,))
    if "search" in item:
        return Call(made, "Grep", "search", {"pattern": item["search"]})
    if "tool" in item:
        return Call(made, item["tool"], item.get("kind", "other"), item.get("arguments", {}))
    raise ValueError(f"example {name!r}: event {number} is none of the known kinds: {sorted(item)}")
