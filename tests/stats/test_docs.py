"""docs/statistics.md and the docstrings are true, and importing the package is cheap."""

import doctest
import importlib
import subprocess
import sys
import timeit
from pathlib import Path

import pytest

from misstep.stats import interaction, mean_interval, paired_effect, sign_flip_p

PAGE = Path(__file__).resolve().parents[2] / "docs" / "statistics.md"


def test_the_page_is_true():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 20
    assert result.failed == 0


def test_the_docstrings_are_true():
    result = doctest.testmod(importlib.import_module("misstep.stats.monitor"))
    assert result.attempted
    assert result.failed == 0


def test_import_and_the_usual_sizes_need_no_numpy():
    code = """
import sys, misstep.stats as s
heavy = ["numpy", "fractions", "statistics", "dataclasses", "decimal"]
print([m for m in heavy if m in sys.modules])
values = [1, 0, -1, 2, 0, 1] * 15
s.paired_effect(values, over=2), s.interaction(values[:40], values[40:], over=2), s.mean_interval([v / 2 for v in values])
s.association([([True], [False, True])] * 30), s.clopper_pearson(3, 30)
print("numpy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "False"]


VALUES = [(-2, 0, 0, 0, 0, 0, 1, 1, -1, 2)[(7 * i) % 10] for i in range(87)]


@pytest.mark.parametrize(
    ("call", "milliseconds"),
    [
        (lambda: sign_flip_p(VALUES, 2), 1),
        (lambda: mean_interval(VALUES, 2), 3),
        (lambda: paired_effect(VALUES, 2), 4),
        (lambda: interaction(VALUES[:30], VALUES[30:], 2), 40),
    ],
)
def test_87_tasks_take_milliseconds(call, milliseconds):
    # The best of several runs, with a margin of five for a busy machine.
    assert min(timeit.repeat(call, number=1, repeat=7)) < 5 * milliseconds / 1000
