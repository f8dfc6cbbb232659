"""A panel as an artifact: whole, and with every file and every kind of record tampered with in turn.

The panel is locked for real over tasks of its own; its attempts are drawn, not run, and say so.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from misstep.cli.panel import command
from misstep.experiment import Attempt, AttemptsError, records
from misstep.experiment.artifact.export import ArtifactError, Exported, export
from misstep.experiment.artifact.schemas import schemas
from misstep.experiment.artifact.verify import Verified, verify
from misstep.experiment.plan import lock
from misstep.experiment.plan.design import Design
from misstep.experiment.runs.archive import Archive
from misstep.experiment.runs.replacement import decided
from misstep.report.panel import page

SERVICE = "Start an HTTP server on port 8080. It must still be running when the work is judged.\n"
PLAIN = "Count the words of /app/text and write the number to /app/count.\n"
SECRET = "sk-proj-abcdefghijklmnop1234567890"
DESIGN = """
name = "drawn"
seed = 5
attempts = 2
arms = ["baseline", "real", "sham"]
portfolio = "portfolio.toml"
secondary = [["real", "baseline"]]
[tasks]
path = "tasks"
[agent]
name = "codex"
model = "some/model"
[agent.env]
OPENAI_API_KEY = "${OPENAI_API_KEY}"
[primary]
contrast = ["real", "sham"]
cohort = "eligible"
[cohorts]
count = 3
[replacement]
candidates = 2
"""


def drawn(slot: Any, candidate: int, rng: random.Random, broken: bool) -> Attempt:
    task, arm, replicate = slot
    own = {
        "task": task,
        "arm": arm,
        "replicate": replicate,
        "candidate": candidate,
        "agent": "codex",
        "model": "some/model",
    }
    own |= {"id": f"{task}-{arm}-{replicate}-{candidate}", "trial": f"trials/{task}-{arm}-{replicate}-{candidate}"}
    own |= {"extra": {"simulated": "drawn by a test"}, "started": f"2026-05-0{candidate}T10:00:00Z"}
    if broken:
        return Attempt(**own, termination="invalid", fault="the image could not be pulled")
    ok = rng.random() < (0.8 if arm == "real" else 0.4)
    scope = ("service-persistence",) if arm != "baseline" else ()
    return Attempt(
        **own, termination="pass" if ok else "gave-up", passed=ok, seconds=rng.lognormvariate(4, 1), cost_usd=rng.random(),
        input_tokens=rng.randrange(10**6), output_tokens=rng.randrange(10**4), steps=rng.randrange(5, 50),
        eligible=("service-persistence",), state=scope, fired=dict.fromkeys(scope, 1) if arm != "baseline" else {},
        behaviour={"service-persistence": ok},
    )  # fmt: skip


def make_panel(place: Path, design: str = DESIGN) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for at in range(10):
        task = place / "tasks" / (f"serve-{at}" if at < 6 else f"count-{at}")
        (task / "tests").mkdir(parents=True)
        (task / "task.toml").write_text('schema_version = "1.4"\n')
        (task / "instruction.md").write_text(SERVICE if at < 6 else PLAIN)
        (task / "tests" / "test.sh").write_text("exit 0\n")
    (place / "panel.toml").write_text(design)
    (place / "portfolio.toml").write_text('[[policy]]\nid = "service-persistence"\n')
    folder = place / "panel"
    made = lock.plan(Design.load(place / "panel.toml"))
    lock.write(folder, place / "panel.toml", made)
    rng = random.Random(11)
    with Archive(folder) as archive:
        due = [(slot.key, 1) for slot in made.slots]
        lost = made.slots[4].key
        while due:
            slot, candidate = due.pop(0)
            attempt = drawn(slot, candidate, rng, slot == lost or (candidate == 1 and rng.random() < 0.15))
            archive.record(attempt)
            decision = decided(attempt, made.design.replacement, attempt.started)
            archive.decide(decision)
            if decision.decision == "replaced":
                due.append((slot, candidate + 1))
    return folder


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_panel(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def whole(panel: Path) -> tuple[Path, Exported]:
    out = panel.parent / "artifact"
    return out, export(panel, out, render=page.text)


@pytest.fixture
def artifact(whole: tuple[Path, Exported], tmp_path: Path) -> Path:
    """A copy to spoil."""
    shutil.copytree(whole[0], tmp_path / "artifact")
    return tmp_path / "artifact"


def check(folder: Path) -> Verified:
    return verify(folder, page.text)


def sign(folder: Path) -> None:
    """Make the manifest agree with what is there: as one who tampers would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["files"]:
        data = (folder / name).read_bytes()
        manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    path.write_text(json.dumps(manifest))


def edit(folder: Path, name: str, change: Any) -> None:
    """Change a JSON document, or the list of a JSONL file's objects, and sign."""
    path = folder / name
    if name.endswith(".jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        change(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document, indent=1) + "\n")
    sign(folder)


def test_a_whole_artifact_is_verified(whole: tuple[Path, Exported]) -> None:
    folder, made = whole
    found = check(folder)
    assert found.problem == ""
    assert found.files == made.files == sum(path.is_file() for path in folder.rglob("*"))
    assert found.sha256 == made.sha256 and found.numbers > 900 and found.notes == []
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {
        "README.md", "design.toml", "lock.json", "schedule.jsonl", "portfolio.lock", "attempts.jsonl", "lineage.jsonl",
        "markers.json", "analysis/analysis.json", "analysis/report.html", "analysis/attempts.csv", "analysis/contrasts.csv",
        "schemas/attempts.schema.json", "sources/misstep/guard/arms.py", "sources/misstep/stats/exact.py",
        "sources/misstep/catalogue/service_persistence.py",
    } <= names  # fmt: skip
    assert not any(name.startswith("trials/") for name in names)
    readme = (folder / "README.md").read_text()
    assert "Simulated: drawn by a test" in readme and "misstep panel verify" in readme


def test_it_is_the_same_wherever_it_lies(whole: tuple[Path, Exported], artifact: Path) -> None:
    moved = artifact.rename(artifact.parent / "elsewhere")
    assert check(moved).sha256 == whole[1].sha256 and check(moved).problem == ""


def test_every_file_is_held_against_its_hash(whole: tuple[Path, Exported], artifact: Path) -> None:
    for name in json.loads((artifact / "manifest.json").read_text())["files"]:
        path = artifact / name
        data = path.read_bytes()
        path.write_bytes(data.replace(data[-3:], b"#" + data[-2:]) if len(data) > 3 else data + b" ")
        assert check(artifact).problem.startswith(f"{name}: SHA-256 reported"), name
        path.write_bytes(data)
    assert check(artifact).problem == ""


def test_a_file_too_many_or_too_few(artifact: Path) -> None:
    (artifact / "extra.txt").write_text("x")
    assert check(artifact).problem == "extra.txt: not in the manifest"
    (artifact / "extra.txt").unlink()
    (artifact / "lineage.jsonl").unlink()
    assert check(artifact).problem == "lineage.jsonl: in the manifest, and not in the artifact"
    manifest = json.loads((artifact / "manifest.json").read_text())
    manifest["files"]["../outside"] = {"sha256": "0" * 64, "bytes": 1}
    del manifest["files"]["lineage.jsonl"]
    (artifact / "manifest.json").write_text(json.dumps(manifest))
    assert check(artifact).problem == "manifest.json: '../outside': no path of an artifact"


def test_a_link_is_no_file(artifact: Path) -> None:
    target = artifact.parent / "design.toml"
    (artifact / "design.toml").rename(target)
    (artifact / "design.toml").symlink_to(target)
    assert check(artifact).problem.startswith("design.toml: in the manifest")


# -- tampering that agrees with the manifest -----------------------------------------------------------------------------


def test_a_changed_number_is_named_with_both_values(artifact: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["contrasts"][0]["effect"]["p"] = 0.01

    recomputed = json.loads((artifact / "analysis/analysis.json").read_text())["contrasts"][0]["effect"]["p"]
    edit(artifact, "analysis/analysis.json", change)
    assert (
        check(artifact).problem
        == f"analysis/analysis.json: contrasts[0].effect.p: reported 0.01, recomputed {recomputed}"
    )


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in leaves(one, (*path, key))]
    if isinstance(value, list):
        return [leaf for at, one in enumerate(value) for leaf in leaves(one, (*path, at))]
    return [path]


def test_any_changed_value_of_the_analysis_is_found(artifact: Path) -> None:
    path = artifact / "analysis" / "analysis.json"
    text = path.read_text()
    rng = random.Random(1)
    for leaf in rng.sample(leaves(json.loads(text)), 12):
        document = json.loads(text)
        at = document
        for key in leaf[:-1]:
            at = at[key]
        value = at[leaf[-1]]
        at[leaf[-1]] = (
            (not value) if isinstance(value, bool) else value + 0.001 if isinstance(value, int | float) else f"{value}x"
        )
        path.write_text(json.dumps(document))
        sign(artifact)
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in leaf)[1:]
        assert check(artifact).problem.startswith(f"analysis/analysis.json: {dotted}: reported "), leaf


def test_a_number_too_many_or_too_few(artifact: Path) -> None:
    edit(artifact, "analysis/analysis.json", lambda d: d["cells"][0].pop("passed"))
    assert "cells[0].passed: reported nothing, recomputed" in check(artifact).problem
    edit(artifact, "analysis/analysis.json", lambda d: d["cells"][0].update(passed=0, luck=1))
    assert "cells[0]" in check(artifact).problem


def test_a_changed_outcome_changes_the_numbers(artifact: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        row = next(row for row in rows[1:] if row["arm"] == "sham" and row["termination"] == "pass")
        row.update(passed=False, termination="gave-up")

    edit(artifact, "attempts.jsonl", change)
    assert check(artifact).problem.startswith("analysis/analysis.json: ")


@pytest.mark.parametrize(
    ("name", "column"), [("contrasts.csv", "effect.p"), ("attempts.csv", "passed"), ("tasks.csv", "cohort")]
)
def test_a_changed_cell_of_a_table_is_named(artifact: Path, name: str, column: str) -> None:
    path = artifact / "analysis" / name
    rows = list(csv.reader(io.StringIO(path.read_text())))
    rows[1][rows[0].index(column)] = "0.04"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    path.write_text(out.getvalue())
    sign(artifact)
    assert check(artifact).problem.startswith(f'analysis/{name}: line 2, {column}: reported "0.04", recomputed ')


@pytest.mark.parametrize("name", ["analysis/report.html", "README.md"])
def test_a_changed_page_is_named(artifact: Path, name: str) -> None:
    path = artifact / name
    text = path.read_text()
    figure = json.loads((artifact / "analysis/analysis.json").read_text())["sentence"].split(" points")[0].split()[-1]
    assert figure in text
    path.write_text(text.replace(figure, "99.9"))
    sign(artifact)
    assert check(artifact).problem.startswith(f"{name}: line ") and "99.9" in check(artifact).problem


def drop_line(rows: list[Any]) -> None:
    del rows[3]


def an_unplanned(rows: list[Any]) -> None:
    rows.append({**rows[1], "task": "none-such"})


def twice(rows: list[Any]) -> None:
    rows.append(rows[2])


def a_late_candidate(rows: list[Any]) -> None:
    fair = next(row for row in rows[1:] if row["termination"] == "pass" and row.get("candidate", 1) == 1)
    rows.append({**fair, "candidate": 2, "passed": False, "termination": "fail"})


def a_gap(rows: list[Any]) -> None:
    next(row for row in rows[1:] if row.get("candidate", 1) == 1).update(candidate=2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (drop_line, "lineage.jsonl: "),
        (an_unplanned, "attempts.jsonl: none-such"),
        (twice, "is there twice"),
        (a_late_candidate, "there is a fair candidate before it (1)"),
        (a_gap, "stands where candidate 1 is expected"),
    ],
)
def test_attempts_are_held_against_schedule_and_lineage(artifact: Path, change: Any, says: str) -> None:
    edit(artifact, "attempts.jsonl", change)
    assert says in check(artifact).problem


def test_the_lineage_is_held_against_the_rule(artifact: Path) -> None:
    text = (artifact / "lineage.jsonl").read_text()

    def kept(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows[1:] if row["decision"] == "replaced").update(decision="kept")

    edit(artifact, "lineage.jsonl", kept)
    assert "reported kept, the rule gives replaced" in check(artifact).problem
    (artifact / "lineage.jsonl").write_text(text)
    edit(artifact, "lineage.jsonl", lambda rows: rows.pop(2))
    assert check(artifact).problem.endswith("nothing is decided")
    (artifact / "lineage.jsonl").write_text(text)
    edit(artifact, "lineage.jsonl", lambda rows: rows[2].update(trial="trials/another"))
    assert "trial reported 'trials/another'" in check(artifact).problem


def drop(folder: Path, name: str) -> None:
    """Take a file out, and out of the manifest."""
    (folder / name).unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"][name]
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lineage.jsonl", "lineage.jsonl: missing beside a lock"),
        ("portfolio.lock", "portfolio.lock: No such file or directory"),
        ("schedule.jsonl", "schedule.jsonl: No such file or directory"),
        ("design.toml", "design.toml: No such file or directory"),
        ("sources/misstep/guard/arms.py", "sources/misstep/guard/arms.py: in the lock"),
        ("analysis/spend.csv", "analysis/spend.csv: missing"),
        ("markers.json", "markers.json: not in the manifest, and every artifact has it"),
    ],
)
def test_nothing_can_be_taken_out_unseen(artifact: Path, name: str, says: str) -> None:
    drop(artifact, name)
    assert check(artifact).problem.startswith(says)


def test_without_its_lock_it_says_so(artifact: Path) -> None:
    assert check(artifact).locked
    for name in ("lock.json", "schedule.jsonl", "lineage.jsonl", "portfolio.lock", "design.toml"):
        drop(artifact, name)
    found = check(artifact)
    assert found.problem and not found.locked  # the numbers are those of a design


def test_the_schedule_follows_from_the_seed(artifact: Path) -> None:
    def swap(rows: list[dict[str, Any]]) -> None:
        rows[1]["arm"], rows[2]["arm"] = rows[2]["arm"], rows[1]["arm"]

    edit(artifact, "schedule.jsonl", swap)
    assert check(artifact).problem.startswith("schedule.jsonl: the lock has SHA-256")
    found = hashlib.sha256((artifact / "schedule.jsonl").read_bytes()).hexdigest()
    edit(artifact, "lock.json", lambda d: d.update(schedule=found))
    assert check(artifact).problem.startswith("schedule.jsonl: slot 0: reported ")


def test_the_design_is_the_one_that_was_locked(artifact: Path) -> None:
    path = artifact / "design.toml"
    path.write_text(path.read_text().replace('cohort = "eligible"', 'cohort = "silent"'))
    sign(artifact)
    assert check(artifact).problem.startswith("design.toml: the lock has SHA-256")


@pytest.mark.parametrize(
    "name",
    [
        "sources/misstep/guard/arms.py",
        "sources/misstep/stats/paired.py",
        "sources/misstep/catalogue/service_persistence.py",
    ],
)
def test_sources_are_the_locked_ones(artifact: Path, name: str) -> None:
    (artifact / name).write_text("# another\n")
    sign(artifact)
    assert check(artifact).problem.startswith(f"{name}: the lock has SHA-256")


def test_a_portfolio_and_markers_are_held_against_their_hashes(artifact: Path) -> None:
    text = (artifact / "portfolio.lock").read_text()
    (artifact / "portfolio.lock").write_text(text.replace('"v": 1', '"v": 2').replace('"v":1', '"v":2'))
    sign(artifact)
    assert check(artifact).problem.startswith("portfolio.lock: the lock has SHA-256")
    (artifact / "portfolio.lock").write_text(text)
    edit(artifact, "markers.json", lambda d: d["service-persistence"].update(sha256="0" * 64))
    assert check(artifact).problem.startswith("markers.json: service-persistence: SHA-256")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema":"misstep.panel.artifact","version":9}',
        '{"schema":"misstep.panel.artifact","version":1}',
    ],
)
def test_no_artifact(tmp_path: Path, text: str) -> None:
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        check(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        check(tmp_path)


@pytest.mark.parametrize("name", ["lock.json", "markers.json", "analysis/analysis.json"])
@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"a":1}'])
def test_a_document_of_another_shape_differs_and_does_not_crash(artifact: Path, name: str, text: str) -> None:
    (artifact / name).write_text(text)
    sign(artifact)
    if (name, text) != ("markers.json", "{}"):
        assert check(artifact).problem


# -- credentials and trajectories ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    design = DESIGN.replace('"${OPENAI_API_KEY}"', f'"{SECRET}"')
    folder = make_panel(tmp_path_factory.mktemp("leaky"), design)
    rows = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
    rows[3]["exception"] = f"request failed: Authorization: Bearer {SECRET}"
    rows[4]["extra"] = {"simulated": "drawn by a test", "env": {"SERVICE_TOKEN": "plainwordsecret"}}
    (folder / "attempts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trial = folder / rows[1]["trial"] / "agent"
    trial.mkdir(parents=True)
    (trial / "trajectory.json").write_text(json.dumps({"steps": [{"message": f"export OPENAI_API_KEY={SECRET}"}]}))
    (trial / "notes.txt").write_text(f"token {SECRET}\n")
    (trial / "core").write_bytes(b"\xff\xfe\x00" + SECRET.encode())
    (trial / "link").symlink_to("/etc/passwd")
    return folder


@pytest.mark.parametrize("trajectories", [False, True])
def test_no_credential_leaves(leaky: Path, tmp_path: Path, trajectories: bool) -> None:
    made = export(leaky, tmp_path / "out", render=page.text, trajectories=trajectories)
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert SECRET.encode() not in data and b"plainwordsecret" not in data, path
    assert {"design.toml", "lock.json", "attempts.jsonl"} <= set(made.redacted)
    found = check(tmp_path / "out")
    assert found.problem == "" and any(note.startswith("design.toml: redacted") for note in found.notes)
    trials = list((tmp_path / "out").glob("trials/*/agent/*"))
    assert sorted(path.name for path in trials) == (["notes.txt", "trajectory.json"] if trajectories else [])
    if trajectories:
        assert json.loads(trials[0].parent.joinpath("trajectory.json").read_text())["steps"]
        assert set(made.left_out.values()) == {"a link", "no text that can be read"}


# -- without a lock, and the command line --------------------------------------------------------------------------------


def test_attempts_alone_make_an_artifact(panel: Path, tmp_path: Path) -> None:
    export(panel / "attempts.jsonl", tmp_path / "out", primary=("real", "baseline"), cohort="all", render=page.text)
    found = check(tmp_path / "out")
    assert found.problem == "" and found.notes == ["there is no lock: nothing says what was planned"]
    document = json.loads((tmp_path / "out" / "analysis" / "analysis.json").read_text())
    assert (document["contrasts"][0]["against"], document["contrasts"][0]["cohort"]) == ("baseline", "all")


def test_nothing_is_written_over(whole: tuple[Path, Exported], panel: Path) -> None:
    with pytest.raises(ArtifactError, match="is there already"):
        export(panel, whole[0])


def test_a_disk_that_fills_up_leaves_nothing_behind(
    panel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "attempts.jsonl":
            raise OSError(28, "No space left on device")  # as write(2) says it: without a file
        return whole(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    done = CliRunner().invoke(command, ["export", str(panel), "--out", str(tmp_path / "artifact")])
    assert (done.exit_code, done.output) == (2, f"Error: {tmp_path}/artifact: No space left on device\n")
    assert not [path.name for path in tmp_path.iterdir() if "artifact" in path.name]


def test_a_panel_that_changed_since_its_lock_is_refused(panel: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(panel, tmp_path / "panel"))
    (copy / "design.toml").write_text((copy / "design.toml").read_text().replace("seed = 5", "seed = 6"))
    with pytest.raises(lock.LockError, match=r"design\.toml changed since the lock was made: seed"):
        export(copy, tmp_path / "out")


def test_another_code_of_the_analysis_is_told(panel: Path, tmp_path: Path) -> None:
    assert records.read(panel).notes == ()
    copy = Path(shutil.copytree(panel, tmp_path / "panel"))
    document = json.loads((copy / "lock.json").read_text())
    document["analysis"]["sources"]["misstep/stats/exact.py"] = "0" * 64
    (copy / "lock.json").write_text(json.dumps(document))
    (note,) = records.read(copy).notes
    assert note == "The code of the analysis changed since the panel was locked: misstep/stats/exact.py."
    (other,) = records.read(copy, panel.parent / "panel.toml").notes
    assert other.startswith("The design is not the one that was locked")
    done = CliRunner().invoke(command, ["report", str(copy), "--html", str(tmp_path / "r.html")])
    assert done.exit_code == 0 and "code of the analysis changed" in done.output
    assert note in (tmp_path / "r.html").read_text()


def test_commands(panel: Path, tmp_path: Path) -> None:
    run = CliRunner()
    done = run.invoke(command, ["export", str(panel), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0 and "manifest sha256" in done.output, done.output
    done = run.invoke(command, ["verify", str(tmp_path / "out")], standalone_mode=False)
    assert (
        done.return_value == 0
        and done.output.startswith("verified: ")
        and "as locked" in done.output
        and done.output.count("\n") == 1
    )
    edit(tmp_path / "out", "analysis/analysis.json", lambda d: d["cells"][0].update(passed=99))
    done = run.invoke(command, ["verify", str(tmp_path / "out")], standalone_mode=False)
    assert done.return_value == 1 and done.output.count("\n") == 1
    assert done.output.startswith("differs: analysis/analysis.json: cells[0].passed: reported 99, recomputed ")
    assert run.invoke(command, ["verify", str(tmp_path)]).exit_code == 2
    again = run.invoke(command, ["export", str(panel), "--out", str(tmp_path / "out")])
    assert again.exit_code == 2 and "is there already" in again.output


def test_a_panel_that_has_not_run(tmp_path: Path) -> None:
    place = tmp_path / "p"
    folder = make_panel(place)
    (folder / "attempts.jsonl").unlink()
    found = records.read(folder)
    assert found.attempts == () and not found.analyse().finished
    with pytest.raises(AttemptsError, match="no such file; expected a panel's folder or a file of attempts"):
        records.read(tmp_path)


# -- schemas -------------------------------------------------------------------------------------------------------------


def test_files_are_as_their_schemas_say(whole: tuple[Path, Exported]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    folder, _ = whole
    assert {path.name for path in (folder / "schemas").iterdir()} == set(schemas())
    for name, schema in schemas().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        stem = name.removesuffix(".schema.json")
        path = next(p for p in folder.rglob(f"{stem}.json*") if "schemas" not in p.parts)
        text = path.read_text()
        documents = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
        validator = jsonschema.Draft202012Validator(schema)
        for document in documents[:40]:
            problem = next(validator.iter_errors(document), None)
            assert problem is None, f"{name}: {problem and problem.message}"
    wrong = {"task": "t", "arm": "a", "termination": "won"}
    assert not jsonschema.Draft202012Validator(schemas()["attempts.schema.json"]).is_valid(wrong)
