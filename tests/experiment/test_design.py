"""A design is read whole, or one line says which key is wrong and what was expected."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from misstep.experiment.plan.design import Contrast, Design, DesignError, Primary

WHOLE: dict[str, Any] = {
    "name": "whole",
    "seed": 3,
    "attempts": 4,
    "arms": ["baseline", "real", "sham", "without:service-persistence"],
    "portfolio": "p.toml",
    "secondary": [["real", "baseline"]],
    "tasks": {"path": "tasks", "include": ["*"], "exclude": ["slow-*"]},
    "agent": {
        "name": "codex",
        "model": "openai/m",
        "version": "1.2.3",
        "kwargs": {"depth": 2, "more": {"flags": [True, 1.5]}},
        "env": {"OPENAI_API_KEY": "${OPENAI_API_KEY}"},
    },
    "environment": {
        "import_path": "misstep.sandbox.harbor:BubblewrapEnvironment",
        "kwargs": {"x": 1},
        "concurrency": 2,
    },
    "cohorts": {"eligible": "portfolio", "silent": ["a", "b"]},
    "primary": {"contrast": ["real", "sham"], "cohort": "eligible"},
    "replacement": {"faults": "first-fair", "candidates": 2},
    "termination": {"gave_up": ["(?i)cannot"]},
    "behaviour": {"markers": "catalogue"},
    "rates": {"usd_per_attempt": 0.5, "seconds_per_attempt": 60, "pass_rates": "past.jsonl", "effect": 0.2},
}
MINIMAL: dict[str, Any] = {
    "name": "least",
    "arms": ["real", "sham"],
    "tasks": {"path": "tasks"},
    "agent": {"name": "codex"},
    "primary": {"contrast": ["real", "sham"]},
}


def toml(value: Any) -> str:
    """A value inline: enough of TOML for these tests."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return value.text if isinstance(value, Raw) else json.dumps(value)


class Raw:
    def __init__(self, text: str) -> None:
        self.text = text


def load(folder: Path, given: dict[str, Any]) -> Design:
    path = folder / "panel.toml"
    path.write_text("".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in given.items()))
    return Design.load(path)


def refused(folder: Path, given: dict[str, Any]) -> str:
    with pytest.raises(DesignError) as caught:
        load(folder, given)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{folder / 'panel.toml'}: ")
    return text.removeprefix(f"{folder / 'panel.toml'}: ")


def paths(given: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of the design that has a meaning of its own: not those inside free tables."""
    for key, value in given.items():
        yield (*at, key)
        if isinstance(value, dict) and key not in ("kwargs", "env"):
            yield from paths(value, (*at, key))


def with_(at: tuple[str, ...], value: Any, given: dict[str, Any] = WHOLE) -> dict[str, Any]:
    made = copy.deepcopy(given)
    held = made
    for key in at[:-1]:
        held = held.setdefault(key, {})
    held[at[-1]] = value
    return made


def test_everything_is_read(tmp_path: Path) -> None:
    design = load(tmp_path, WHOLE)
    assert (design.name, design.seed, design.attempts) == ("whole", 3, 4)
    assert design.arms == ("baseline", "real", "sham", "without:service-persistence")
    assert design.primary == Primary(Contrast("real", "sham"), "eligible")
    assert design.contrasts == (Contrast("real", "sham"), Contrast("real", "baseline"))
    assert (design.cohorts.eligible, design.cohorts.silent, design.cohorts.count) == (None, ("a", "b"), 0)
    assert design.agent.kwargs == {"depth": 2, "more": {"flags": [True, 1.5]}}
    assert (design.agent.import_path, design.environment.type) == ("", "")
    assert design.environment.import_path == "misstep.sandbox.harbor:BubblewrapEnvironment"
    assert (design.replacement.candidates, design.termination.gave_up) == (2, ("(?i)cannot",))
    assert (design.rates.usd_per_attempt, design.rates.seconds_per_attempt, design.rates.effect) == (0.5, 60.0, 0.2)
    assert design.where("tasks") == tmp_path / "tasks"


def test_defaults(tmp_path: Path) -> None:
    design = load(tmp_path, MINIMAL)
    assert (design.seed, design.attempts, design.portfolio, design.secondary) == (1, 2, "", ())
    assert (design.environment.type, design.environment.concurrency) == ("docker", 1)
    assert (design.replacement.faults, design.replacement.candidates) == ("first-fair", 3)
    assert design.rates.usd_per_attempt is None


def test_the_plain_form_is_json_and_names_no_folder(tmp_path: Path) -> None:
    plain = load(tmp_path, WHOLE).plain()
    assert json.loads(json.dumps(plain)) == plain
    assert str(tmp_path) not in json.dumps(plain)
    (tmp_path / "other").mkdir()
    assert load(tmp_path / "other", WHOLE).plain() == plain
    moved = Design.load(tmp_path / "other" / "panel.toml", tmp_path)
    assert (moved.where("tasks"), moved.plain()) == (tmp_path / "tasks", plain)


WRONG: dict[str, tuple[Any, ...]] = {"text": (1, True, [], {}, "", "two\nlines"), "table": (1, "x", [1])}
KINDS = {
    **dict.fromkeys(("name", "portfolio", "tasks.path", "agent.name", "agent.model", "agent.version", "rates.pass_rates"), "text"),
    "environment.import_path": "text",
    **dict.fromkeys(("tasks", "agent", "environment", "cohorts", "primary", "replacement", "termination", "behaviour", "rates"), "table"),
    **dict.fromkeys(("agent.kwargs", "agent.env", "environment.kwargs"), "table"),
}  # fmt: skip
WRONG_BY_KEY: dict[str, tuple[Any, ...]] = {
    "seed": (-1, 1.5, "1", True, [], 2**53),
    "attempts": (0, -1, 2.0, "2", True, 1001, 10**8),
    "environment.concurrency": (0, "2", False),
    "replacement.candidates": (0, 1.5, "3"),
    "arms": (
        [],
        "real",
        [1],
        ["real", "real"],
        ["rael"],
        ["without:<misstep>"],
        ["without:"],
        ["without:A B"],
        [""],
        {},
    ),
    "secondary": (
        "real",
        [["real"]],
        [["real", "real"]],
        [["real", "reconsider"]],
        [["sham", "real"]],
        ["real"],
        [[1, 2]],
        {},
    ),
    "tasks.include": ([], "x", [1], ["a", "a"]),
    "tasks.exclude": ("x", [1], [""]),
    "cohorts.eligible": ("all", 1, [], [1]),
    "cohorts.silent": ("x", [1], ["a", "a"]),
    "primary.contrast": ("real", ["real"], ["real", "real"], ["real", "nobody"], [1, 2], ["real", "sham", "baseline"]),
    "primary.cohort": ("all", 1, []),
    "replacement.faults": ("last", 1, True),
    "termination.gave_up": ("x", [1], ["("], ["*"]),
    "behaviour.markers": ("others", 1),
    "rates.usd_per_attempt": (0, -1, "1", True, Raw("inf"), Raw("nan")),
    "rates.seconds_per_attempt": (0, -1, "1", Raw("nan")),
    "rates.effect": (0, 1.5, -0.1, "x", Raw("nan")),
}
ALL = [".".join(at) for at in paths(WHOLE)]


def test_every_key_has_its_wrong_values() -> None:
    assert set(ALL) == set(KINDS) | set(WRONG_BY_KEY)


@pytest.mark.parametrize("key", ALL)
def test_a_wrong_value_is_one_line_with_the_key(key: str, tmp_path: Path) -> None:
    for value in WRONG_BY_KEY.get(key) or WRONG[KINDS[key]]:
        said = refused(tmp_path, with_(tuple(key.split(".")), value))
        assert said.startswith(key), (value, said)
        assert "expected" in said or "is none of" in said, (value, said)
    dated = refused(tmp_path, with_(tuple(key.split(".")), Raw("2020-01-01")))
    assert dated.startswith(key)


@pytest.mark.parametrize(
    "at", [(), *[at for at in paths(WHOLE) if KINDS.get(".".join(at)) == "table" and len(at) == 1]]
)
def test_an_unknown_key_is_named_with_those_that_are_known(at: tuple[str, ...], tmp_path: Path) -> None:
    said = refused(tmp_path, with_((*at, "speling"), 1))
    assert said.startswith(".".join((*at, "speling")) + ": unknown key (known: ")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (with_(("agent", "env", "N"), 1), "agent.env.N: expected a text, not 1"),
        (with_(("agent", "kwargs", "when"), Raw("2020-01-01")), "agent.kwargs.when: expected texts, finite numbers"),
        (with_(("environment", "kwargs", "deep"), {"a": [Raw("nan")]}), "environment.kwargs.deep.a: expected texts"),
        (with_(("agent", "name"), "module:"), "agent.name: expected an import path"),
        (with_(("environment", "import_path"), "module.Class"), "environment.import_path: expected an import path"),
        (with_(("environment", "type"), "docker"), "environment.type: expected either type or import_path"),
        (with_(("tasks", "dataset"), "a/b"), "tasks.path: expected either path"),
        (with_(("tasks", "ref"), "sha256:0"), "tasks.ref: expected only beside dataset"),
        (with_(("tasks",), {}), "tasks.path: expected either path"),
        (with_(("tasks",), {"dataset": "a/b"}), "tasks.ref: expected the dataset's digest"),
        (with_(("tasks",), {"dataset": "a/b", "ref": "latest"}), "tasks.ref: expected the dataset's digest"),
        (with_(("cohorts", "count"), 3), "cohorts.count: expected either silent (names) or count"),
        (with_(("cohorts", "count"), -1), "cohorts.count: expected a whole number from 0"),
        (with_(("cohorts", "eligible"), ["a"]), "cohorts.silent: expected other tasks than the eligible ones"),
        (with_(("primary",), {"cohort": "silent"}), "primary.contrast: missing; expected two of the arms"),
        ({k: v for k, v in WHOLE.items() if k != "primary"}, "primary.contrast: missing; expected two of the arms"),
        (with_(("primary", "cohort"), "silent", MINIMAL), "primary.cohort: expected 'eligible'"),
        ({k: v for k, v in MINIMAL.items() if k != "arms"}, "arms: missing; expected a list of arms"),
        ({k: v for k, v in MINIMAL.items() if k != "name"}, "name: missing; expected a text"),
        ({k: v for k, v in MINIMAL.items() if k != "agent"}, "agent.name: missing; expected a text"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(given: dict[str, Any], says: str, tmp_path: Path) -> None:
    assert refused(tmp_path, given).startswith(says)


def test_one_arm_needs_no_contrast(tmp_path: Path) -> None:
    alone = {k: v for k, v in MINIMAL.items() if k != "primary"} | {"arms": ["baseline"]}
    assert load(tmp_path, alone).contrasts == ()


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "panel.toml"
    for text, says in ((b"name = ", "not TOML"), (b"\xff", "not TOML"), (b"a = " + 3000 * b"[", "not TOML")):
        path.write_bytes(text)
        with pytest.raises(DesignError, match=says):
            Design.load(path)
    with pytest.raises(DesignError, match="No such file"):
        Design.load(tmp_path / "absent.toml")


def test_the_documented_design_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "panel.md").read_text(encoding="utf-8")
    text = page.split("```toml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "panel.toml").write_text(text, encoding="utf-8")
    design = Design.load(tmp_path / "panel.toml")
    assert len(design.arms) == 5
    assert len(design.contrasts) == 4
    # it shows every key there is, but those that another one excludes
    for at in paths(WHOLE):
        assert at[-1] in text, at
