"""A task's folder in memory, in Harbor's format, and what all families write alike."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misstep.sandbox.base import SandboxError

BASE = "misstep-base:bookworm"

_SETTINGS = """\
schema_version = "1.4"

[metadata]
family = "@kind@"
generator = "@generator@"
seed = @seed@
missteps = @missteps@
needs = @needs@

[agent]
timeout_sec = 60

[verifier]
timeout_sec = 60

[environment]
network_mode = "no-network"
cpus = 1
memory_mb = 512
"""
_TEST = """\
#!/bin/bash
# The reward is 1 if every check of check.py holds.
python3 -B /tests/check.py && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""
_HEAD = """\
import json
import sys
from pathlib import Path

expected = json.loads(Path("/tests/expected.json").read_text())
"""


@dataclass(frozen=True)
class Folder:
    """A task's files by their path in its folder."""

    name: str
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """SHA-256 over names and contents, in hexadecimal."""
        made = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            made.update(f"{name}\0{len(content)}\0".encode() + content)
        return made.hexdigest()

    def write(self, into: Path) -> Path:
        """Writes the folder into a directory; returns its path. What is there with the same bytes is left as it is.

        Raises:
            SandboxError: another folder of that name is there, or it cannot be written.
        """
        path = into / self.name
        try:
            if path.exists():
                if self._is(path):
                    return path
                raise SandboxError(f"{path} is there and is another one: give another directory, or remove it")
            for name, content in self.files.items():
                file = path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                file.chmod(0o755 if name.endswith(".sh") else 0o644)
        except OSError as error:
            raise SandboxError(f"{error.filename or path}: {error.strerror}") from error
        return path

    def _is(self, path: Path) -> bool:
        there = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
        return there == set(self.files) and all((path / name).read_bytes() == self.files[name] for name in there)


def fill(text: str, **values: object) -> str:
    """The text with each `@name@` replaced by its value; strings and numbers stand as they are, all else as JSON.

    Raises:
        KeyError: a mark has no value.
    """

    def put(match: re.Match[str]) -> str:
        value = values[match.group(1)]
        return value if isinstance(value, str) else json.dumps(value)

    return re.sub(r"@([a-z_0-9]+)@", put, text)


def folder(
    module: str,
    seed: int,
    *,
    kind: str,
    missteps: Sequence[str],
    instruction: str,
    environment: Mapping[str, str | bytes],
    expected: Any,
    check: str,
    solve: str,
    wrong: Mapping[str, str],
    build: Sequence[str] = (),
    needs: Sequence[str] = (),
    more: Mapping[str, str | bytes] | None = None,
) -> Folder:
    """The folder of a task whose files are in /app and whose verifier is a Python program.

    Args:
        module: the family's `__name__`.
        environment: what /app holds; names in `.build/` are there for `build` only.
        expected: what the verifier compares with: tests/expected.json.
        check: the verifier; `expected` is read, and json, sys and Path are imported. It ends with `sys.exit(why)` to reject.
        solve: the oracle's script, without its first line; a mark `@...@` is not replaced.
        wrong: scripts of wrong deliveries; the first line says what is wrong.
        build: shell commands that make the rest of the environment.
        more: further files, by their path in the folder.
    """
    name = module.rpartition(".")[2].replace("_", "-")
    steps = [f"FROM {BASE}", "WORKDIR /app"]
    files: dict[str, str | bytes] = {}
    if environment:
        steps.append("COPY app/ /app/")
        files |= {f"environment/app/{path}": content for path, content in environment.items()}
    done = [*build, "rm -rf /app/.build"] if any(path.startswith(".build/") for path in environment) else list(build)
    if done:
        steps.append("RUN " + " && ".join(done))
    settings = fill(_SETTINGS, kind=kind, generator=name, seed=seed, missteps=list(missteps), needs=["python3", *needs])
    files |= {
        "task.toml": settings,
        "instruction.md": instruction.strip() + "\n",
        "environment/Dockerfile": "\n".join(steps) + "\n",
        "tests/test.sh": _TEST,
        "tests/check.py": _HEAD + check.lstrip("\n"),
        "tests/expected.json": json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=True) + "\n",
        "solution/solve.sh": "#!/bin/bash\n" + solve.lstrip("\n"),
        **{f"wrong/{one}.sh": "#!/bin/bash\n" + script.lstrip("\n") for one, script in wrong.items()},
        **(more or {}),
    }
    made = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    return Folder(f"{name}-{seed}", dict(sorted(made.items())))
