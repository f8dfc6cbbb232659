"""The short way through the arguments of a scan leads where click leads."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from misstep.cli import _quick
from misstep.cli.scan import command


def by_click(words: list[str]) -> dict:
    params = command.make_context("scan", list(words)).params
    return {name: tuple(value) if isinstance(value, list) else value for name, value in params.items()}


PLAIN = [
    [],
    ["a", "b c", "../d"],
    ["-q", "a", "--preview", "--no-index", "--merge", "--quiet"],
    ["--json", "-", "--html", "x.html", "a"],
    ["--json=out", "--html=", "--since=7d", "--shard", "1/3"],
    ["--agent", "codex", "a", "--agent=claude", "--misstep", "x", "--fail-on", "any:3", "--fail-on", "y"],
    ["--workers", "4", "--workers=2", "--since", "2026-01-01"],
    ["a=b", "--json=a=b"],
    ["--workers", "x"],
    ["--workers", "0"],
]
LEFT = [
    ["--help"],
    ["-h"],
    ["--debug", "a"],
    ["--jso", "x"],
    ["--workers", "-1"],
    ["--since"],
    ["--json"],
    ["--json", ""],
    ["--since", "-q"],
    ["--agent", "--preview"],
    ["--", "-x"],
    ["-", "a"],
    ["-qv"],
    ["--preview=1"],
    ["--nonsense"],
]


@pytest.mark.parametrize("words", PLAIN)
def test_what_is_plain_means_the_same(words: list[str]):
    assert _quick.parse(words) == by_click(words)


@pytest.mark.parametrize("words", LEFT)
def test_all_else_is_left_to_click(words: list[str]):
    assert _quick.parse(words) is None


def test_it_knows_every_option():
    shown = {word: p for p in command.params if isinstance(p, click.Option) for word in p.opts}
    for table, is_flag, multiple in (
        (_quick.FLAGS, True, False),
        (_quick.VALUES, False, False),
        (_quick.LISTS, False, True),
    ):
        for word, name in table.items():
            option = shown.pop(word)
            assert (option.name, option.is_flag, option.multiple) == (name, is_flag, multiple)
    assert set(shown) == {"--debug"}


def test_the_module_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "misstep", "--version"], capture_output=True, text=True)
    assert run.returncode == 0
    assert run.stdout.startswith("misstep ")
