"""Sessions of known content for the tests of profiling, and the rule of an oracle that judges them.

A call is bad, by the oracle's rule, if its command holds the word BAD. Sessions are files of mini-swe-agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path


def session(folder: Path, name: str, commands: Iterable[str], task: str = "", outputs: Iterable[str] = ()) -> Path:
    """One session that ran these commands."""
    given = list(outputs)
    messages = [
        {"role": "system", "content": "You are a helpful assistant that can interact with a computer."},
        {"role": "user", "content": task or f"Do the work named {name}."},
    ]
    for n, command in enumerate(commands):
        output = given[n] if n < len(given) else f"output {n} of {name}"
        messages += [
            {"role": "assistant", "content": f"I do thing {n}.\n\n```bash\n{command}\n```"},
            {"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{output}\n</output>"},
        ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.traj.json"
    info = {"exit_status": "Submitted", "mini_version": "1.14.2", "submission": ""}
    path.write_text(json.dumps({"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1"}))
    return path


def sessions(folder: Path, count: int = 6, calls: int = 8) -> Path:
    """Some sessions, in which every fourth call is bad."""
    for n in range(count):
        commands = [f"run {n} {k} {'BAD' if (n + k) % 4 == 3 else 'fine'}" for k in range(calls)]
        session(folder, f"s{n:02}", commands)
    return folder


def proposed(prompt: str) -> str:
    """What is judged in a prompt of the localizer."""
    found = re.search(r"<proposed>\n(.*?)\n</proposed>", prompt, re.DOTALL)
    assert found is not None, prompt[-500:]
    return found[1]


def verdict(bad: bool, reason: str = "by the rule") -> str:
    """An answer of the localizer."""
    return json.dumps({"reason": reason, "verdict": "bad" if bad else "good"})


def oracle(prompt: str, number: int) -> str:
    """Right about every call."""
    told = proposed(prompt)
    if told.startswith("Call number"):
        parts = re.split(r"^Call number (\d+):$", told, flags=re.MULTILINE)[1:]
        calls = [
            {"number": int(n), **json.loads(verdict("BAD" in text))}
            for n, text in zip(parts[::2], parts[1::2], strict=True)
        ]
        return json.dumps({"calls": calls})
    return verdict("BAD" in told, f"the rule on {told[-30:]}")
