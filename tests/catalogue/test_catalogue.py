"""What holds for every misstep of the catalogue: documentation, examples, policies, state, imports."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import misstep
from misstep.catalogue import Fold, Misstep, missteps
from misstep.catalogue.examples import Example, load, parse, path_of
from misstep.trajectory import Before, Event, Prompt, Stop

SRC = Path(misstep.__file__).resolve().parents[1]
ALL = missteps()
HEADINGS = ["What it is", "Why it matters", "How it is told", "What the policy does", "Known misses"]
OPTIONAL = {"What the policy does"}
STATE_LIMIT = 16_384
"""Bytes of JSON that a state may take, however long the session."""

every = pytest.mark.parametrize("item", ALL, ids=[m.id for m in ALL])


def _examples() -> list[tuple[Misstep, Example, bool]]:
    found = []
    for item in ALL:
        if not path_of(item).exists():
            continue
        fires, silent = load(item)
        found += [(item, e, True) for e in fires] + [(item, e, False) for e in silent]
    return found


EXAMPLES = _examples()
every_example = pytest.mark.parametrize(
    ("item", "example", "fires"), EXAMPLES, ids=[f"{m.id}-{e.name}" for m, e, _ in EXAMPLES]
)


def _doc(item: Misstep) -> str:
    return sys.modules[type(item).__module__].__doc__ or ""


def _judge(item: Misstep, events: list[Event]):
    fold = Fold([item])
    for event in events:
        fold.push(event)
    return fold.finish()


# -- identity and documentation ------------------------------------------------------------------


def test_there_is_a_catalogue():
    assert ALL
    assert len({m.id for m in ALL}) == len(ALL)
    policies = [p.id for m in ALL for p in m.policies]
    assert len(set(policies)) == len(policies)


@every
def test_identity(item: Misstep):
    module = type(item).__module__.rsplit(".", 1)[-1]
    assert item.id == module.replace("_", "-")
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", item.id)
    assert item.status in {"preview", "stable", "retired"}
    assert item.name and "\n" not in item.name and not item.name.endswith(".")


@every
def test_the_docstring_is_the_documentation_page(item: Misstep):
    """First line 'The agent <name>.', then the fixed headings in their order, each with text under it."""
    doc = _doc(item)
    assert doc.splitlines()[0] == f"The agent {item.name}."
    found = re.findall(r"^## (.+)$", doc, re.M)
    assert found == [h for h in HEADINGS if h in found or h not in OPTIONAL]
    assert ("What the policy does" in found) == bool(item.policies)
    for body in re.split(r"^## .+$", doc, flags=re.M)[1:]:
        assert len(body.strip()) > 40


# -- examples ------------------------------------------------------------------------------------


@every
def test_enough_examples_and_each_silent_one_is_near_to_a_firing_one(item: Misstep):
    fires, silent = load(item)
    assert len(fires) >= 2
    assert len(silent) >= 3
    names = [e.name for e in fires + silent]
    assert len(set(names)) == len(names)
    for example in fires:
        assert example.occurrences or example.firings, example.name
    for example in silent:
        assert example.near in {e.name for e in fires}, example.name
        assert example.differs, example.name
        assert example.verdict in {"right", "unknown"}, example.name
        assert not example.occurrences, example.name


@every_example
def test_occurrences_stand_exactly_where_the_example_says(item: Misstep, example: Example, fires: bool):
    judgement = _judge(item, example.events)
    verdicts = judgement.verdicts.get(item.id, [])
    assert [v.at for v in verdicts if v.holds is True] == example.occurrences, verdicts
    indices = {e.index for e in example.events}
    assert len({v.at for v in verdicts}) == len(verdicts), "each call counts once"
    for verdict in verdicts:
        assert verdict.at in indices and set(verdict.also) <= indices
        assert verdict.why or verdict.holds is False
        assert (
            isinstance(example.events[verdict.at], Before | Stop) or type(example.events[verdict.at]).__name__ == "Say"
        )
    if not fires:
        unknown = [v for v in verdicts if v.holds is None]
        assert bool(unknown) == (example.verdict == "unknown"), verdicts


@every_example
def test_policies_fire_exactly_where_the_example_says(item: Misstep, example: Example, fires: bool):
    judgement = _judge(item, example.events)
    assert [(f.policy, f.at) for f in judgement.firings] == example.firings


@every
def test_every_policy_is_shown_firing(item: Misstep):
    fires, _ = load(item)
    shown = {policy for example in fires for policy, _ in example.firings}
    assert shown == {p.id for p in item.policies}


# -- policies ------------------------------------------------------------------------------------

POLICIES = [(m, p) for m in ALL for p in m.policies]


@pytest.mark.parametrize(("item", "policy"), POLICIES, ids=[p.id for _, p in POLICIES])
def test_policy_is_well_formed(item: Misstep, policy):
    assert policy.id == item.id or policy.id.startswith(f"{item.id}/")
    assert policy.at in {"before", "stop"}
    assert policy.action in {"instruct", "deny"}
    assert policy.action == "instruct" or policy.at == "before"
    assert policy.limit is None or policy.limit >= 1


@pytest.mark.parametrize(("item", "policy"), POLICIES, ids=[p.id for _, p in POLICIES])
def test_policy_text_is_a_short_procedure_that_names_no_task(item: Misstep, policy):
    text = policy.text
    assert 80 <= len(text) <= 900
    assert text == text.strip()
    assert not re.search(r"(^|[\s'\"(])/(app|tests|root|workspace|home|opt|srv|data)\b", text), "a task's own path"
    assert not re.search(r"terminal.?bench|benchmark|hidden test|\bscore\b", text, re.I)
    assert not re.search(r"\b[A-Z]{4,}\b(?<!HTTP)(?<!JSON)", text), "no shouting"


@every_example
def test_guards_are_pure(item: Misstep, example: Example, fires: bool):
    """Asking a policy changes neither the state nor the event."""
    state = item.State()
    for event in example.events:
        if isinstance(event, Before | Stop):
            before = copy.deepcopy(vars(state))
            for policy in item.policies:
                assert policy.fires(state, event) in {True, False, None}
                assert policy.released(state) in {True, False}
            assert vars(state) == before
        item.observe(state, event)


# -- state ---------------------------------------------------------------------------------------


@every_example
def test_state_survives_json_after_every_event(item: Misstep, example: Example, fires: bool):
    """A hook writes the state out and reads it back between any two events."""
    straight, revived = item.State(), item.State()
    for event in example.events:
        expected = item.observe(straight, event)
        assert item.observe(revived, event) == expected
        assert vars(revived) == vars(straight)
        revived = item.State(**json.loads(json.dumps(vars(revived))))
        assert vars(revived) == vars(straight), "a field is not a JSON value"
        for policy in item.policies:
            assert policy.released(revived) == policy.released(straight)
    assert item.behaved(revived) == item.behaved(straight)
    assert list(item.finish(revived) or ()) == list(item.finish(straight) or ())


def _renamed(raw: dict, number: int) -> dict:
    """The same example about other files, so that a state keyed by path cannot hide its growth."""

    def change(value):
        if isinstance(value, str):
            return re.sub(r"(\w)\.(\w)", rf"\g<1>_{number}.\g<2>", value)
        if isinstance(value, list):
            return [change(v) for v in value]
        if isinstance(value, dict):
            return {k: change(v) for k, v in value.items()}
        return value

    return {**raw, "events": [change(item) for item in raw["events"]]}


@every
def test_state_stays_small_in_a_long_session(item: Misstep):
    fires, silent = load(item)
    state, index, largest = item.State(), 0, 0
    for number in range(150):
        for example in fires + silent:
            for event in parse(_renamed({"name": example.name, "events": example.items}, number)).events:
                if isinstance(event, Prompt) and index:
                    continue
                event.index = index
                index += 1
                item.observe(state, event)
        if number % 10 == 9:
            largest = max(largest, len(json.dumps(vars(state))))
    assert largest < STATE_LIMIT


# -- imports -------------------------------------------------------------------------------------


def _python(code: str, python: str = sys.executable, text: str = "") -> str:
    done = subprocess.run(
        [python, "-c", code],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": ""},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_catalogue_needs_nothing_but_the_standard_library():
    code = (
        "import sys; before = set(sys.modules)\n"
        "from misstep.catalogue import missteps; missteps()\n"
        "print(*{m.split('.')[0] for m in set(sys.modules) - before})"
    )
    loaded = set(_python(code).split())
    assert "misstep" in loaded
    assert loaded - set(sys.stdlib_module_names) == {"misstep"}


def test_importing_all_detectors_takes_less_than_60_ms():
    """CPU time of a fresh process, its bytecode in place; the best of several, since other work slows a core down."""
    code = (
        "import time; start = time.process_time()\n"
        "from misstep.catalogue import missteps; missteps()\n"
        "print(time.process_time() - start)"
    )
    _python(code)
    best = 1.0
    for _ in range(25):
        best = min(best, float(_python(code)))
        if best < 0.060:
            break
    assert best < 0.060


def _python310() -> str | None:
    found = shutil.which("python3.10")
    if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return found
    for folder in sorted((Path.home() / ".pyenv" / "versions").glob("3.10*")):
        if (folder / "bin" / "python3").exists():
            return str(folder / "bin" / "python3")
    return None


def test_python_310_gives_the_same_verdicts():
    python = _python310()
    if python is None:
        pytest.skip("no Python 3.10 here")
    code = (
        "import json, sys\n"
        "assert sys.version_info[:2] == (3, 10)\n"
        "from misstep.catalogue import Fold, get\n"
        "from misstep.catalogue.examples import parse\n"
        "for line in sys.stdin:\n"
        "    id, raw = json.loads(line)\n"
        "    fold = Fold([get(id)])\n"
        "    for event in parse(raw).events:\n"
        "        fold.push(event)\n"
        "    found = fold.finish()\n"
        "    print(json.dumps([[[v.at, v.holds] for v in found.verdicts.get(id, [])],"
        " [[f.policy, f.at] for f in found.firings]]))\n"
    )
    lines, expected = [], []
    for item, example, _ in EXAMPLES:
        lines.append(json.dumps([item.id, {"name": example.name, "events": example.items}]))
        here = _judge(item, example.events)
        verdicts = [[v.at, v.holds] for v in here.verdicts.get(item.id, [])]
        expected.append([verdicts, [[f.policy, f.at] for f in here.firings]])
    answers = [json.loads(line) for line in _python(code, python, "\n".join(lines)).splitlines()]
    assert answers == expected
