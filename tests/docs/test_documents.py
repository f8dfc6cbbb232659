"""Every documented command is executed, and what the page says it prints is what it prints.

A fence marked `console` holds commands (`$ command`) each with its output, a part of it, or none. `…` on a
line of its own stands for any lines. `<!-- not run: reason -->` above a fence leaves it out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"(?P<before>[^\n]*\n)?^```console\n(?P<body>.*?)^```$", re.M | re.S)


@dataclass
class Block:
    """One fence: its commands with the lines that they print."""

    page: Path
    line: int
    commands: list[tuple[str, list[str]]] = field(default_factory=list)
    skipped: str = ""


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            block = Block(page, text[: match.start("body")].count("\n"))
            reason = re.search(r"<!-- not run: (.+?) -->", match["before"] or "")
            block.skipped = reason[1] if reason else ""
            for line in match["body"].splitlines():
                if line.startswith("$ "):
                    block.commands.append((line[2:], []))
                elif block.commands:
                    block.commands[-1][1].append(line.rstrip())
            found.append(block)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a checkout, with a home of its own."""
    place = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "examples", place / "examples")
    (place / "home").mkdir()
    return place


def same(printed: list[str], documented: list[str]) -> bool:
    """Whether documented lines match, `…` standing for any lines."""
    pattern = "\n".join("(?:.*\n)*?.*" if line.strip() == "…" else re.escape(line) for line in documented)
    return re.fullmatch(pattern, "\n".join(printed)) is not None


@pytest.mark.parametrize("block", blocks(), ids=lambda b: f"{b.page.name}:{b.line}")
def test_documented_commands(block: Block, place: Path) -> None:
    if block.skipped:
        pytest.skip(block.skipped)
    assert block.commands, f"{block.page.name}:{block.line}: a console fence without a command"
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(place / "home"),
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }
    for command, documented in block.commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=place, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        if any(line.strip() for line in documented):
            printed = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
            expected = [line.rstrip() for line in "\n".join(documented).strip("\n").splitlines()]
            assert same(printed, expected), f"$ {command}\n" + "\n".join(printed)


def test_pages_link_to_what_exists() -> None:
    missing = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
        missing += [f"{page.name}: {target}" for target in targets if not (page.parent / target).exists()]
    assert not missing
