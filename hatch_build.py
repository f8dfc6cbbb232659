"""The wheel of a release brings the sandbox's init as static programs, so that nobody who installs it needs a compiler.

Only with MISSTEP_BUILD_INIT=1 and the package ziglang (its C compiler knows every target); else the wheel has the source
alone, and init is compiled once where it is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MACHINES = ("x86_64", "aarch64")


class InitHook(BuildHookInterface):
    """Compiles src/misstep/sandbox/init.c for each machine."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get("MISSTEP_BUILD_INIT") != "1" or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        source = Path(self.root, "src", "misstep", "sandbox", "init.c")
        for machine in MACHINES:
            made = Path(self._folder.name, f"misstep-init-{machine}")
            command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-static", "-s", f"--target={machine}-linux-musl"]
            subprocess.run([*command, "-o", str(made), str(source)], check=True)
            build_data["force_include"][str(made)] = f"misstep/sandbox/{made.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
