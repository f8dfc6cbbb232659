"""A taxonomy of planted types: what is recovered by an annotator of known accuracy, in any order, after any kill."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from misstep.models import Client, Settings
from misstep.profile import coverage, labelling, stages
from misstep.profile.build import Parameters
from misstep.profile.taxonomy import Taxonomy


def _planted() -> ModuleType:
    name = "misstep_tests_profile_planted"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "planted.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


P = _planted()
NOISY: dict[str, Any] = {
    "card": 0.04, "noticed": 0.85, "member": 0.9, "wordings": 3, "spurious": 0.25, "same": 0.9, "confused": 0.05,
    "recall": 0.9, "invented": 0.03,
}  # fmt: skip


def settings(url: str, **more: Any) -> Settings:
    role = {"model": "openai:planted", "base_url": url, "price": {"input": 1.0, "output": 1.0}, **more}
    return Settings.from_plain({"roles": {"annotator": role}})


async def all_stages(folder: Path, url: str, parameters: Parameters, again: int = 0, second: str = "") -> None:
    async with Client.open(settings(url), folder) as client:
        await stages.built(folder, client, parameters)
        await stages.refined(folder, client)
        stages.frozen(folder)
        if second:
            async with Client.open(settings(second, model="openai:other"), folder) as other:
                await stages.labelled(folder, client, again=again, second=other)
        else:
            await stages.labelled(folder, client, again=again)


def run(
    scripted: ModuleType, annotator: Any, folder: Path, parameters: Parameters, again: int = 0, second: Any = None
) -> Taxonomy:
    with scripted.Server(annotator.rule) as server:
        annotator.server = server
        if second is None:
            asyncio.run(all_stages(folder, server.url, parameters, again))
        else:
            with scripted.Server(second.rule) as other:
                second.server = other
                asyncio.run(all_stages(folder, server.url, parameters, again, other.url))
    return stages.latest(folder)


def figures(folder: Path) -> dict[str, Any]:
    taxonomy = stages.latest(folder)
    steps, every = stages.steps_of(folder)
    first = labelling.load(folder, taxonomy)
    assert first is not None
    again = {name: found for name in ("draw", "second") if (found := labelling.load(folder, taxonomy, name))}
    return coverage.numbers(taxonomy, steps, every, first, again)


def labels_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "labels.jsonl").read_text().splitlines()[1:]
    return [json.loads(one) for one in lines]


def linked(folder: Path, to: Path) -> Path:
    """Another run over the same profile."""
    to.mkdir()
    (to / "profile.jsonl").write_bytes((folder / "profile.jsonl").read_bytes())
    return to


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    spec = importlib.util.spec_from_file_location(
        "making_for_taxonomy", Path(__file__).parents[1] / "scan" / "making.py"
    )
    assert spec is not None
    assert spec.loader is not None
    making = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(making)
    return P.plant(tmp_path_factory.mktemp("planted"), making, steps=240, environments=60)


@pytest.fixture(scope="module")
def perfect(small: Any, scripted: ModuleType) -> tuple[Path, dict[str, Any], Any]:
    annotator = P.Annotator()
    run(scripted, annotator, small.folder, Parameters(size=30), again=40)
    return small.folder, figures(small.folder), annotator


def test_a_perfect_annotator_gives_the_planted_types_and_shares(small: Any, perfect: Any) -> None:
    folder, found, _ = perfect
    assert {one["name"] for one in found["types"]} == {kind.name for kind in P.KINDS.values()}
    assert found["error_steps"] == found["labelled"] == len(small.truth)  # the copies are not counted again
    by_name = {one["name"]: one for one in found["types"]}
    for name, kind in P.KINDS.items():
        one = by_name[kind.name]
        assert one["steps"]["rate"] == pytest.approx(small.share(name))
        low, high = one["steps"]["interval"]
        assert low < small.share(name) < high
        assert one["definition"] == kind.wordings[0][1]
    assert found["coverage"]["steps"]["rate"] == pytest.approx(small.coverage)
    assert found["union"][-1]["steps"] == pytest.approx(small.coverage)
    rows = {(Path(one["path"]).stem, one["step"]): one["labels"] for one in labels_of(folder)}
    wrong = [
        key for key, types in small.truth.items() if not types - {"rare"} and rows[f"s{int(key[0][:8], 16):04}", key[1]]
    ]
    assert wrong == []  # good steps that were called bad, and those too rare for a type, have no label
    assert found["agreement"]["draw"]["whole"]["kappa"] == 1.0


def test_what_the_batches_did_not_show_comes_with_refinement(perfect: Any) -> None:
    _, found, _ = perfect
    late = {one["name"]: one["since"] for one in found["types"] if one["since"]}
    # No batch of the first pass has three of them; among the cards that it leaves over they meet.
    assert late == {P.KINDS["unnoticed"].name: 2}
    assert [one["gain"] for one in found["passes"]][-2:] == [0.0, 0.0]
    assert found["passes"][0]["coverage"] < found["passes"][-1]["coverage"]


def test_overlap_with_the_catalogue(small: Any, perfect: Any) -> None:
    _, found, _ = perfect
    rows = {(one["type"], one["misstep"]): one for one in found["overlap"]}
    binaries = sum("binary" in one for one in small.truth.values())
    row = rows["prints-a-binary-file-as-text", "binary-as-text"]
    assert (row["both"], row["only_type"], row["only_misstep"], row["jaccard"]) == (binaries, 0, 0, 1.0)
    assert {key[0] for key in rows} == {"prints-a-binary-file-as-text", "hides-errors"}  # of two types at once


def test_the_order_of_the_batches_changes_nothing(
    small: Any, perfect: Any, scripted: ModuleType, tmp_path: Path
) -> None:
    folder, _, _ = perfect
    first = stages.latest(folder)
    for seed in (1, 2):
        other = linked(folder, tmp_path / str(seed))
        again = run(scripted, P.Annotator(), other, Parameters(size=30, seed=seed))
        assert [(one.id, one.name, one.definition, one.cards, one.examples) for one in again.types] == [
            (one.id, one.name, one.definition, one.cards, one.examples) for one in first.types
        ]
        assert labels_of(other) == labels_of(folder)


def test_a_rerun_asks_nothing(perfect: Any, scripted: ModuleType) -> None:
    folder, _, _ = perfect
    before = {path.name: path.read_bytes() for path in folder.glob("*.json*")}

    def rule(prompt: str, number: int) -> str:
        raise AssertionError("asked")

    with scripted.Server(rule) as server:
        asyncio.run(all_stages(folder, server.url, Parameters(size=30), 40))
        assert not server.bodies
        for name in ("types.json", "refined.json", "cards.jsonl", "labels.jsonl", "labels.draw.jsonl"):
            (folder / name).unlink()
        asyncio.run(all_stages(folder, server.url, Parameters(size=30), 40))  # all of it from the cache
        assert not server.bodies
    assert {path.name: path.read_bytes() for path in folder.glob("*.json*")} == before


KILLED = "from misstep.cli import main; main()"


@pytest.mark.slow
def test_killed_at_any_moment_it_comes_to_the_same(perfect: Any, scripted: ModuleType, tmp_path: Path) -> None:
    folder, _, _ = perfect
    other = linked(folder, tmp_path / "killed")
    models = tmp_path / "models.toml"
    dice, kills = random.Random(5), 0
    annotator = P.Annotator()
    with scripted.Server(annotator.rule, delay=0.01) as server:
        models.write_text(
            f'[roles.annotator]\nmodel = "openai:planted"\nbase_url = "{server.url}"\nconcurrency = 4\n'
            "price = {input = 1.0, output = 1.0}\n"
        )
        command = [sys.executable, "-c", KILLED, "taxonomy", "build", str(other), "--models", str(models), "--size", "30",
                   "--similarity", "words", "--through", "labelled", "--again", "40"]  # fmt: skip
        while True:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            served = sum(server.served.values())
            until = time.monotonic() + 60
            goal = served + dice.randrange(1, 120)
            while process.poll() is None and sum(server.served.values()) < goal and time.monotonic() < until:
                time.sleep(0.005)
            if process.poll() is not None:
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        paid = sum(server.served.values())
    with closing(sqlite3.connect(other / "models.sqlite")) as db:
        (answers,) = db.execute("SELECT count(*) FROM answers").fetchone()
    with closing(sqlite3.connect(folder / "models.sqlite")) as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone() == (answers,)
    assert kills > 3
    # In flight when it was killed: four that were asked, and four whose answers had come and were not written yet.
    assert paid - answers <= kills * 8
    for name in ("types.json", "refined.json", "taxonomy.json", "cards.jsonl", "labels.jsonl", "labels.draw.jsonl"):
        assert (other / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_an_annotator_that_errs(scripted: ModuleType, tmp_path: Path, making: ModuleType, seed: int) -> None:
    planted = P.plant(tmp_path / "a", making, steps=500, environments=100, seed=7)
    folder = linked(planted.folder, tmp_path / "noisy")
    second = P.Annotator(**NOISY, salt="second")
    run(scripted, P.Annotator(**NOISY), folder, Parameters(seed=seed), again=150, second=second)
    found = figures(folder)
    kind_of = {wording[0]: name for name, kind in P.KINDS.items() for wording in kind.wordings}
    by_kind = {kind_of.get(one["name"], one["name"]): one for one in found["types"]}
    assert len(by_kind) == len(found["types"])  # no planted type is there twice
    large = [name for name in P.KINDS if planted.share(name) >= 0.03]
    assert set(large) <= set(by_kind)
    assert set(by_kind) <= set(P.KINDS)  # what is spurious does not recur
    for name in large:
        near = {"binary": "whole", "whole": "binary"}.get(name)
        expected = NOISY["recall"] * planted.share(name) + (NOISY["confused"] * planted.share(near) if near else 0)
        assert by_kind[name]["steps"]["rate"] == pytest.approx(expected, abs=0.03), name
    assert found["coverage"]["steps"]["rate"] == pytest.approx(NOISY["recall"] * planted.coverage, abs=0.04)
    assert 0 < found["failures"]["invalid"] < 0.03 * len(planted.truth)
    whole = found["agreement"]["second"]["whole"]
    assert 0.65 < whole["kappa"] < 0.95
    assert whole["items"] + whole["unknown"] == 150
    assert found["agreement"]["second"]["model"] == "openai:other"
