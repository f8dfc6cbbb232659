"""docs/guard.md: its commands exist with those options, its portfolio is one, its arms are all of them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import tomllib

from misstep.cli.guard import _ALIASES
from misstep.cli.guard import command as guard
from misstep.cli.policies import command as policies
from misstep.guard.arms import ARMS
from misstep.guard.freeze import read
from misstep.guard.hosts import NAMES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guard.md").read_text()
COMMANDS = re.findall(r"^    misstep (guard|policies) (.+?)(?:\s+#.*)?$", PAGE, re.M)


@pytest.mark.parametrize(("group", "words"), COMMANDS)
def test_its_commands(group: str, words: str) -> None:
    parts = words.split()
    found = {"guard": guard, "policies": policies}[group].commands[parts[0]]  # type: ignore[attr-defined]
    options = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in parts[1:] if word.startswith("--")} <= options
    given = [word for word in parts[1:] if not word.startswith("--") and not word.endswith(".html")]
    arguments = [p for p in found.params if isinstance(p, click.Argument)]
    needed = sum(1 for p in arguments if p.required)
    most = sum(99 if p.nargs == -1 else 1 for p in arguments)
    assert needed <= len(given) <= most


def test_every_command_is_told_of() -> None:
    told = {(group, words.split()[0]) for group, words in COMMANDS}
    told |= {("policies", "trust"), ("guard", "uninstall"), ("guard", "daemon")}
    assert told == {("guard", n) for n in guard.commands} | {("policies", n) for n in policies.commands}  # type: ignore[attr-defined]
    for name in ("policies trust --revoke", "uninstall", "guard daemon --stop"):
        assert name in PAGE
    for alias in _ALIASES:
        assert f"`{alias}`" in PAGE


def test_its_portfolio(tmp_path: Path) -> None:
    block = re.search(r"(    # portfolio\.toml\n(?:    .*\n|\n)+?)    misstep guard use", PAGE)
    assert block is not None
    text = re.sub(r"^    ", "", block[1], flags=re.M)
    assert len(tomllib.loads(text)["policy"]) == 3
    path = tmp_path / "portfolio.toml"
    path.write_text(text)
    from misstep.guard.skeleton import Draft, module

    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "ignored_warning.py").write_text(module(Draft("ignored-warning")))
    assert [rule["policy"] for rule in read(path)["rules"]] == [
        "service-persistence",
        "database-evidence",
        "ignored-warning",
    ]


def test_its_arms_and_hosts() -> None:
    for arm in ARMS:
        assert f"`{arm}`" in PAGE
    for name in NAMES:
        assert name in PAGE


def test_the_agents_of_the_tests_have_exact_versions() -> None:
    script = (Path(__file__).resolve().parents[2] / "scripts" / "install-clis").read_text()
    packages = [word for line in re.findall(r"^install (.+)$", script, re.M) for word in line.split()[1:]]
    assert len(packages) >= 9
    for package in packages:
        assert re.fullmatch(r"(@[\w-]+/)?[\w-]+@\d+\.\d+\.\d+", package), package


def test_its_versions_are_those_of_the_tests() -> None:
    pins = (Path(__file__).resolve().parents[2] / "constraints.txt").read_text()
    words = " ".join(PAGE.split())
    for package, name in (
        ("mini-swe-agent", "mini-swe-agent"),
        ("langchain", "LangChain"),
        ("claude-agent-sdk", "Claude Agent SDK"),
    ):
        version = re.search(rf"^{package}==(.+)$", pins, re.M)
        assert version is not None and f"{name} {version[1]}" in words
