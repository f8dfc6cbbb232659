"""Tasks by seed: the same bytes everywhere, other answers for other seeds, and verifiers that can be trusted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from misstep import catalogue
from misstep.sandbox import Root, SandboxError, checking, tasks
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.generators import Family, families, get
from misstep.sandbox.generators._dice import Dice
from misstep.sandbox.generators._folder import Folder, fill

ALL = families()
PINNED = {
    "all-routes": [
        "abd46e69e0399408f049e7a672b3871db8297197e6eac60c6f0fd33064067fd9",
        "f44379127c9b183a25c5044a3fa0a5e1e6c359a80856a56fb65b6d2fcaf1247f",
    ],
    "binary-report": [
        "4f1d43a2cbd48dfefebad04afa93ed2dee16bcf0bd4589ac88eb310740c3c84d",
        "8cf1f3b593882c82c61c9c29387b6ed6aedd88e30352431d3e054935e52d809d",
    ],
    "damaged-wal": [
        "f6e34b582bbae28bc00a37232088dda15ac7ed53fdf8efe38d21c07c46e8036f",
        "b45efaa08790993dc9fd8be21ee63c1691579e080c45d8c8d343c0894fba4707",
    ],
    "exact-replacement": [
        "d5782371e32fb2090140891ebdb0112aa38c4260abdc1c5993c54fd8f0bb3a89",
        "4341b609337c0e3ec1b41251aa7fdc57272a1327c71ba04ccc38e28fecc229d8",
    ],
    "failing-tests": [
        "d9f3fe22a92d4fa3dc4a2f1fa4a3e136493190665520f189ef4bf3ba340af144",
        "d1cae9bc4b051d54544e5b97db04e8e0f9ee7c265976f02f2dbe25354468cbe3",
    ],
    "folded-log": [
        "ff2c99e9a07cb72aff49613ede82b7d345821f1c335ece67887c3c35d1da9078",
        "a0960c1e84f60f4310d5d3e46f8811269187e8ffaeaaa97dc1d300c1b51cadf4",
    ],
    "git-deploy": [
        "56682b4232f16b927cc7a7a7758df1b9754c2837e42ce016fde010b5c0c35446",
        "9b76e4ddc1e78052a33e553ae72547731197e6cf8424b01d08b0dbef5e20be8f",
    ],
    "kept-settings": [
        "f1afd352e7ec360c8bce7aa2358af2739c672a79c94af8c22d91ab18aa1bc3e5",
        "0f158a957026bf530cdb3897db2bad851315f1614d8387601465a50c49e112dd",
    ],
    "lock-codes": [
        "522d0c2546be7979cc2a41f6b7bcbd6d84469d1f8ed3959a4d82eb8e171e4305",
        "7fff1e7576b5805387a13be0ef31ec51b7e62710462396d7b05b877cc88ded17",
    ],
    "outliving-service": [
        "06c342dd3f58961e4ab971ae62c0ecb80fa02493bc7cc776549072f539d29ecb",
        "c4105e856757d5a13bf2a792641e41c66d9576c3ec611a1b7da2c373968b0e3b",
    ],
    "record-count": [
        "ceeb5a11bcadd2481c4f7c225faa677f9ec517b8d9ce2034ebd1e2387ead51e4",
        "41830e873abfaf12e098f08cc87a5dad1d3fede4dfd9fe6a28dbb421120e582c",
    ],
    "tidy-folder": [
        "75c542057f04ab1648d2169302b7b4a66293d968e58b51552d5660d5f68e1f63",
        "c32af949f6ebe119ed8298e6702f3370986fecd28e03ab3fa6729371950a0524",
    ],
}  # fmt: skip
"""SHA-256 of the tasks of the seeds 0 and 41. A change of a family changes its tasks: then pin them anew."""


def ids(value: object) -> str:
    return value.name if isinstance(value, Family) else str(value)


def test_there_are_families() -> None:
    assert len(ALL) >= 12
    assert {one.kind for one in ALL} >= {
        "service", "database", "replacement", "tests", "enumeration", "binary", "typesetting", "counting", "deployment", "cleaning",
    }  # fmt: skip
    assert get("damaged-wal").kind == "database"
    with pytest.raises(SandboxError, match=r"no family is named 'x'; there are all-routes, binary-report"):
        get("x")


@pytest.mark.parametrize("family", ALL, ids=ids)
def test_a_family_says_what_it_is(family: Family) -> None:
    assert len(family.about) > 30
    known = {one.id for one in catalogue.missteps()}
    assert family.missteps and set(family.missteps) <= known
    made = family.generate(3)
    assert made.name == f"{family.name}-3"
    assert {Path(name).stem for name in made.files if name.startswith("wrong/")} == set(family.says)
    settings = made.files["task.toml"].decode()
    assert f'generator = "{family.name}"' in settings and "seed = 3\n" in settings
    for name, content in made.files.items():  # nothing of ours that was to be filled in is left
        assert not re.search(rb"@[a-z_0-9]+@", content), name


@pytest.mark.parametrize("family", ALL, ids=ids)
def test_the_instruction_names_what_is_read(family: Family) -> None:
    """Nobody has to guess a path that the verifier reads."""
    made = family.generate(5)
    said = made.files["instruction.md"].decode()
    assert len(said) > 200
    for name, value in json.loads(made.files["tests/expected.json"]).items():
        if name == "target":  # of a link, where everybody can see it
            continue
        if isinstance(value, str) and re.fullmatch(r"/(app|srv)/\S+", value):
            assert value in said


@pytest.mark.parametrize("family", ALL, ids=ids)
def test_the_same_seed_gives_the_same_bytes(family: Family) -> None:
    assert [family.generate(seed).digest for seed in (0, 41)] == PINNED.get(family.name)


def test_the_same_bytes_in_another_process() -> None:
    """Whatever hashes, locale, time zone and directory it runs with."""
    program = (
        "from misstep.sandbox.generators import families\n"
        "for one in families(): print(one.name, *(one.generate(seed).digest for seed in (0, 41)))"
    )
    for env in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONUTF8": "0"}):
        run = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **env},
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        assert {line.split()[0]: line.split()[1:] for line in run.stdout.splitlines()} == PINNED


@pytest.mark.parametrize("family", ALL, ids=ids)
def test_other_seeds_ask_for_something_else(family: Family) -> None:
    made = [family.generate(seed) for seed in range(12)]
    given = {
        tuple((name, text) for name, text in one.files.items() if name.startswith(("environment/", "instruction")))
        for one in made
    }
    assert len(given) == len(made)
    # A number can be the same by chance; what is asked for is another all the same.
    assert len({one.files["tests/expected.json"] for one in made}) >= len(made) - 2


@pytest.mark.parametrize("family", ALL, ids=ids)
def test_harbor_reads_it(family: Family, tmp_path: Path) -> None:
    task = pytest.importorskip("harbor.models.task.task", reason="needs the extra harbor")
    read = task.Task(family.generate(1).write(tmp_path))
    assert read.config.metadata["generator"] == family.name
    assert read.instruction.strip() == tasks.Task.load(tmp_path / f"{family.name}-1").instruction


def trusted(family: Family, seed: int, root: Root, into: Path) -> None:
    """The oracle passes, twice; nothing done fails; each wrong delivery looks right and fails for its own fault."""
    task = tasks.Task.load(family.generate(seed).write(into))
    report = checking.check(task, root)
    assert report.verdict == "ok", report.why
    assert [one.shown for one in report.deliveries if one.name == checking.ORACLE] == ["1", "1"]
    for one in report.deliveries:
        if one.name != checking.NOTHING:
            assert one.exit_code == 0, one.name
        if one.name in family.says:
            assert family.says[one.name] in one.output, one.output
    known = {checking.ORACLE, checking.NOTHING, checking.EMPTY}
    assert {one.name for one in report.deliveries} - known == set(family.says)


@pytest.fixture(scope="session")
def tools(root: Root) -> Root:
    with BubblewrapSandbox(root) as box:
        missing = box.exec(
            "for p in bash python3 od tr sed git; do command -v $p >/dev/null || echo $p; done"
        ).text.split()
    if missing:
        pytest.skip(f"this machine's /usr has no {', '.join(missing)}")
    return root


@pytest.mark.parametrize(
    "family", [pytest.param(one, marks=[pytest.mark.slow] * (one.name == "git-deploy")) for one in ALL], ids=ids
)  # git is slow, and the verifier waits for what is not published
def test_the_verifier_can_be_trusted(family: Family, tools: Root, tmp_path: Path) -> None:
    trusted(family, 7, tools, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize("family", ALL, ids=ids)
def test_the_verifiers_of_many_seeds_can_be_trusted(family: Family, seed: int, tools: Root, tmp_path: Path) -> None:
    trusted(family, seed, tools, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("family", ALL, ids=ids)
def test_the_answer_to_one_seed_is_none_to_another(family: Family, tools: Root, tmp_path: Path) -> None:
    first, other = (tasks.Task.load(family.generate(seed).write(tmp_path)) for seed in (20, 21))
    assert not other.attempt(tools, first.path / "solution" / "solve.sh").verdict.passed


def test_dice() -> None:
    """Known throws: these depend on SHA-256 and on nothing of Python's."""
    dice = Dice("a", 1)
    assert [dice.below(1000) for _ in range(5)] == [605, 696, 792, 700, 999]
    assert sorted(Dice("b").shuffled(range(9))) == list(range(9))
    assert len(set(Dice("c").sample(range(30), 12))) == 12
    assert Dice("d", 1).bytes(8) != Dice("d", 2).bytes(8)
    assert {Dice("e", n).between(3, 5) for n in range(60)} == {3, 4, 5}
    with pytest.raises(ValueError, match="3 of 2 items"):
        Dice("f").sample([1, 2], 3)
    thrown = [0] * 6
    for _ in range(6000):
        thrown[dice.below(6)] += 1
    assert all(900 < count < 1100 for count in thrown), thrown


def test_writing(tmp_path: Path) -> None:
    made = Folder("x-1", {"task.toml": b"", "solution/solve.sh": b"#!/bin/bash\n"})
    path = made.write(tmp_path / "new")
    assert path == tmp_path / "new" / "x-1"
    assert os.access(path / "solution/solve.sh", os.X_OK) and not os.access(path / "task.toml", os.X_OK)
    assert made.write(tmp_path / "new") == path, "the same again is no error"
    (path / "task.toml").write_text("changed")
    with pytest.raises(SandboxError, match="is there and is another one"):
        made.write(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match=r"Not a directory|File exists"):
        made.write(tmp_path / "file")


def test_fill_wants_every_value() -> None:
    assert fill("@a@ @b@ x@c y", a="1", b=[2]) == "1 [2] x@c y"
    with pytest.raises(KeyError, match="b"):
        fill("@b@", a=1)
