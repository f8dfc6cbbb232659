"""Never raises, never hangs, linear time."""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from misstep.shell import effects_of, parse, scan

DATA = Path(__file__).parent / "data"
SEEDS = [c["cmd"] for c in json.loads((DATA / "shell-parse-cases.json").read_text()) if len(c["cmd"]) < 2000]
SEEDS += [c["command"] for c in json.loads((DATA / "shell-effect-cases.json").read_text())]
BITS = [
    "'", '"', "`", "$(", ")", "((", "))", "{", "}", "<<EOF\n", "\nEOF\n", "<<-", "${", "$", "\\", "|", "||", "&", "&&", ";", ";;", "\n",
    "case x in ", "esac", "if ", "fi", "do", "done", "[[", "]]", "<(", ">", "2>&1", "\0", "\r", "\ud800", "for ", "function ", "f()", "#",
    "time ", "!", "*", "?", "[", " ", "\t", "$'", "eval ", "bash -c ", "ssh h ", "python -c ", "xargs ", "sudo ", "-", "$((", "tmux new -d ",
    "docker exec x ", "find . -exec ", "cat <<E | bash\n", "git ", "sqlite3 ", "kill ", "=", "A=", "\u2028", "\U0001f600",
]  # fmt: skip


def test_mutations_of_real_commands():
    r = random.Random(20)
    ends = time.perf_counter() + 20
    for _ in range(6000):
        text = r.choice(SEEDS)
        for _ in range(r.randint(1, 6)):
            i = r.randint(0, len(text))
            kind = r.random()
            if kind < 0.6:
                text = text[:i] + r.choice(BITS) + text[i:]
            elif kind < 0.8:
                text = text[:i] + text[i + r.randint(1, 20) :]
            else:
                text = text[:i] + r.choice(SEEDS)[:200] + text[i:]
        effects_of(scan(text))
        assert time.perf_counter() < ends, "far too slow"


@settings(max_examples=300, deadline=1000)
@given(st.text(alphabet=st.characters(), max_size=200) | st.lists(st.sampled_from(BITS), max_size=60).map("".join))
def test_any_text(text):
    effects_of(scan(text))


@pytest.mark.parametrize("bit", [*BITS, "$(a ", "`a \\`", "{ ", "( ", "((", "if a; then ", "$((", "${a", '"$(', "<(", "case a in b) ", "a | ", "a() { ",
                                 "bash -c '", "sudo ", "cat <<E\n", "cat <<-a\n\t", "a[", "$[", "x=(", "@(", "echo `", "\\`", "while a; do "])  # fmt: skip
def test_repeated(bit):
    started = time.perf_counter()
    effects_of(scan(bit * 20_000))
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("bit", ["(", "$(", "{ ", '"$(', "${x:-", "if a; then ", "<("])
def test_nesting_has_a_limit(bit):
    assert parse(bit * 5000).damage


def test_reasonable_nesting_is_read():
    text = "echo " + "$(echo " * 30 + "x" + ")" * 30
    script = parse(text)
    assert script.damage is None
    assert len(script.commands) == 31


UNITS = {
    "words": "echo one 'two three' \"four $x\" >> out.txt && ",
    "lines": 'for f in *.c; do gcc -c "$f" -o "${f%.c}.o" 2>/dev/null || exit 1; done\n',
    "heredocs": "cat > a.sh <<'EOF'\necho \"x\" && rm -rf $X &\nEOF\n",
    "substitutions": 'x="$(cat "$(ls | head -1)" | wc -l)"; echo `date`\n',
    "wrappers": "sudo timeout 5 bash -c 'make && echo \"done\"' &\n",
    "python": "python3 - <<'EOF'\nimport os\nos.remove('x')\nEOF\n",
}


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_time_is_linear(unit):
    def seconds(size: int) -> float:
        text = unit * (size // len(unit)) + "true"
        gc.collect()
        gc.disable()  # its passes over all that the tests before have left are no time of the scanner's
        try:
            started = time.process_time()
            effects_of(scan(text))
            return time.process_time() - started
        finally:
            gc.enable()

    # A machine that is busy with something else makes single runs slow: only one that stays slow is at fault.
    assert any(seconds(600_000) < 4 * seconds(150_000) * 1.6 + 0.05 for _ in range(6))


def test_a_megabyte():
    started = time.process_time()
    script = scan("echo 'x' | grep y && z\n" * 45_000)
    assert len(script.commands) == 135_000
    assert time.process_time() - started < 15


def test_speed():
    """The floor is a fifth of what a slow machine reaches: it catches a lost fast path, not a busy machine."""
    started = time.process_time()
    count = 0
    while time.process_time() - started < 0.4:
        for text in SEEDS:
            scan(text)
        count += len(SEEDS)
    assert count / (time.process_time() - started) > 4_000


def test_import_is_light():
    code = "import sys, misstep.shell; print(sorted(m for m in sys.modules if m.split('.')[0] in ('click', 'numpy', 'rich', 'yaml', 'json', 'asyncio')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
