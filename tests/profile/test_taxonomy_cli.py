"""`misstep taxonomy` and `misstep policies propose --taxonomy`, as commands."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from misstep.cli import group
from misstep.profile import stages
from misstep.profile.taxonomy import load


def _beside(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


P = _beside("misstep_tests_profile_planted", Path(__file__).parent / "planted.py")
MAKING = _beside("misstep_tests_making", Path(__file__).parents[1] / "scan" / "making.py")


def models(folder: Path, url: str, **more: Any) -> str:
    lines = [f"{name} = {json.dumps(value)}" for name, value in more.items()]
    path = folder / "models.toml"
    path.write_text(
        "\n".join(['[roles.annotator]', 'model = "openai:planted"', f'base_url = "{url}"', "price = {input = 1, output = 1}", *lines])
    )  # fmt: skip
    return str(path)


def said(*arguments: str, code: int = 0) -> str:
    done: Result = CliRunner(env={"COLUMNS": "140"}).invoke(group, list(arguments))
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return P.plant(tmp_path_factory.mktemp("cli"), MAKING, steps=120, environments=40, seed=3)


@pytest.fixture(scope="module")
def done(planted: Any, scripted: ModuleType) -> Any:
    """Stage after stage, as a person types them."""
    folder = str(planted.folder)
    annotator = P.Annotator(invented=0.06)
    with scripted.Server(annotator.rule) as server:
        annotator.server = server
        file = models(planted.folder.parent, server.url)
        words = ["--similarity", "words"]
        out = {"build": said("taxonomy", "build", folder, "--models", file, *words)}
        out["draft"] = said("taxonomy", "show", folder)
        out["refine"] = said("taxonomy", "refine", folder, "--models", file)
        out["freeze"] = said("taxonomy", "freeze", folder)
        out["label"] = said("taxonomy", "label", folder, "--models", file, "--again", "30", "--second", file)
        out["show"] = said("taxonomy", "show", folder, "--html", str(planted.folder.parent / "page.html"))
    return planted, out, file


def test_stage_after_stage(done: Any) -> None:
    planted, out, _ = done
    assert "7 types of 134 error cards in 6 batches recur" in out["build"]
    assert "Next: misstep taxonomy refine" in out["draft"]
    assert "The agent" not in out["draft"]
    assert "passes over 134 error cards" in out["refine"]
    assert "types are fixed, SHA-256" in out["freeze"]
    assert "134 error steps labelled" in out["label"]
    assert "without an answer (invalid)" in out["label"]  # the labels that were never one of the list
    assert "prints a binary file as text" in out["show"]
    assert "much the same" in out["show"]
    assert "another draw of the same model" in out["show"]
    found = json.loads(said("taxonomy", "show", str(planted.folder), "--json"))
    largest = next(
        one["id"] for one in found["types"] if one["id"] != "prints-a-binary-file-as-text"
    )  # that is in the catalogue
    assert f"policies propose {largest} PATHS --taxonomy {planted.folder}" in out["show"]


def test_all_figures_as_json(done: Any) -> None:
    planted, _, _ = done
    found = json.loads(said("taxonomy", "show", str(planted.folder), "--json"))
    assert found["error_steps"] == len(planted.truth)
    assert found["labelled"] + found["failures"]["invalid"] == found["error_steps"]
    assert set(found["agreement"]) == {"draw", "second"}
    assert found["taxonomy"]["sha256"] == load(planted.folder).sha256


def test_the_page_shows_the_steps_in_their_context(done: Any) -> None:
    planted, _, _ = done
    page = (planted.folder.parent / "page.html").read_text()
    assert "<script" not in page
    assert "The agent prints a binary file as text" in page
    assert "cat build/app-" in page
    assert "its record cannot be read any more" not in page


def test_a_draft_of_a_policy_from_a_type(done: Any, tmp_path: Path) -> None:
    planted, _, _ = done
    sessions = planted.folder.parent / "sessions"
    moved = tmp_path / "elsewhere"
    sessions.rename(moved)
    try:
        out = said("policies", "propose", "ends-processes-by-a-broad-pattern", str(moved), "--taxonomy", str(planted.folder),
                   "--folder", str(tmp_path))  # fmt: skip
    finally:
        moved.rename(sessions)
    assert "a draft, no policy yet" in out
    source = (tmp_path / "ends_processes_by_a_broad_pattern_reminder.py").read_text()
    assert 'name = "ends processes by a broad pattern"' in source
    assert "pkill" in source
    assert "# seen: It is wrong." in source
    examples = (tmp_path / "ends_processes_by_a_broad_pattern_reminder.yaml").read_text()
    assert "pkill -f worker" in examples
    compile(source, "made", "exec")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["policies", "propose", "no-such-type", "{sessions}", "--taxonomy", "{run}"], "no type 'no-such-type' in its taxonomy"),
        (["policies", "propose", "no-such-type", "{sessions}"], "--taxonomy DIR takes a type of a taxonomy"),
        (["policies", "propose", "hides-errors", "{sessions}", "--taxonomy", "{sessions}"], "taxonomy.json: No such file"),
        (["taxonomy", "show", "{sessions}"], "types.json is not there yet: misstep taxonomy build"),
        (["taxonomy", "freeze", "{sessions}"], "refined.json is not there yet: misstep taxonomy refine"),
        (["taxonomy", "build", "{sessions}", "--models", "{models}"], "profile.jsonl: No such file"),
        (["taxonomy", "build", "{run}", "--models", "{models}", "--size", "30"], "types.json: was made with other parameters: remove it"),
        (["taxonomy", "build", "{run}", "--models", "{run}/none.toml"], "none.toml: No such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(done: Any, arguments: list[str], problem: str) -> None:
    planted, _, file = done
    places = {"sessions": planted.folder.parent / "sessions", "run": planted.folder, "models": file}
    out = said(*(one.format(**places) for one in arguments), code=2)
    assert problem in out
    assert "Traceback" not in out


def test_a_step_that_was_judged_later_is_no_part_of_a_finished_draft(done: Any, tmp_path: Path) -> None:
    planted, _, file = done
    for name in ("profile.jsonl", "types.json"):
        text = (planted.folder / name).read_text()
        (tmp_path / name).write_text(
            text.replace("It is wrong.", "It is very wrong.") if name == "profile.jsonl" else text
        )
    out = said("taxonomy", "build", str(tmp_path), "--models", file, "--similarity", "words", code=2)
    assert "types.json: was made with other error steps: remove it to have it made anew" in out


def test_a_budget_that_is_used_up_ends_it_and_more_goes_on(planted: Any, scripted: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "profile.jsonl").write_bytes((planted.folder / "profile.jsonl").read_bytes())
    annotator = P.Annotator()
    with scripted.Server(annotator.rule) as server:
        file = models(tmp_path, server.url, max_tokens=100)
        Path(file).write_text(Path(file).read_text() + "\n[budget]\ntokens = 20000\n")
        given = ("--models", file, "--similarity", "words", "--draws", "1")
        out = said("taxonomy", "build", str(tmp_path), *given, code=2)
        assert "not all was answered: card: budget: the budget is used up" in out
        assert not (tmp_path / "types.json").exists()
        before = sum(server.served.values())
        Path(file).write_text(Path(file).read_text().replace("20000", "2000000"))
        said("taxonomy", "build", str(tmp_path), *given, "--through", "labelled", "--again", "0")
        assert before > 10
        assert sum(server.served.values()) == len(server.served)  # nothing twice
    assert len(stages.latest(tmp_path).types) == 8


@pytest.mark.slow
def test_a_real_model_as_annotator(planted: Any, local_model: Any, tmp_path: Path) -> None:
    """Small, and often wrong: its answers are valid, repaired, or counted as failures. Nothing is said of what they say."""
    lines = (planted.folder / "profile.jsonl").read_text().splitlines()
    bad = [line for line in lines[1:] if '"verdict":"bad"' in line and "copies" not in line][:8]
    (tmp_path / "profile.jsonl").write_text("\n".join([lines[0], *bad]) + "\n")
    role = local_model.role(max_tokens=120)
    url = role.pop("base_url")
    file = tmp_path / "models.toml"
    table = [f"{name} = {json.dumps(value)}" for name, value in role.items() if name != "price"]
    file.write_text("\n".join(["[roles.annotator]", *table, f'base_url = "{url}"', "repairs = 1"]))
    command = ("taxonomy", "build", str(tmp_path), "--models", str(file), "--size", "4", "--draws", "1", "--recur", "1",
               "--similarity", "words")  # fmt: skip
    done = CliRunner().invoke(group, command)
    cards = [json.loads(line) for line in (tmp_path / "cards.jsonl").read_text().splitlines()[1:]]
    assert len(cards) == 8
    assert all(bool(one["card"]) != bool(one["failure"]) for one in cards)
    if done.exit_code:  # too few of its cards were valid for a taxonomy
        assert "error cards of" in done.output
        written = 0
    else:
        built = stages.latest(tmp_path)
        written = built.cards
        assert built.asked["propose"]["asked"] >= 1
    assert written == sum(bool(one["card"]) for one in cards) or done.exit_code == 2
    # Labels from a list of a person's: whatever it says, none of them is invented.
    from misstep.profile.taxonomy import ErrorType, Taxonomy, save

    kinds = tuple(ErrorType(one.name.replace(" ", "-"), *one.wordings[0]) for one in list(P.KINDS.values())[:3])
    save(tmp_path, Taxonomy("refined", {}, kinds).frozen())
    said("taxonomy", "label", str(tmp_path), "--models", str(file), "--again", "2")
    labels = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()[1:]]
    assert len(labels) == 8
    known = {one.id for one in kinds}
    for one in labels:
        assert (one["labels"] is None) == bool(one["failure"])
        assert set(one["labels"] or ()) <= known
    said("taxonomy", "show", str(tmp_path))
