"""`misstep show`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("catalogue")
ID = "1a2b3c4d-0000-4000-8000-000000000000"


@pytest.fixture
def path(tmp_path: Path, making) -> Path:
    commands = [f"echo step{n}" for n in range(6)] + [("cat notes > out.txt && echo BAD", "no such file", True)]
    return making.session(tmp_path / "s.jsonl", [*commands, *[f"echo later{n}" for n in range(6)]], id=ID)


def test_a_step_between_its_neighbours(run, path: Path):
    code, out, _ = run("show", f"{path}#7")
    assert code == 0 and "✗ The agent uses a bad word in a command." in out
    assert [f"step {n} " in out for n in (3, 4, 7, 9, 10)] == [False, True, True, True, False]
    assert "no such file" in out and "The policy bad-word would have stepped in here (deny)." in out


def test_what_the_command_does_is_shown(run, path: Path):
    out = run("show", f"{path}#7")[1]
    assert "does write out.txt" in out and "does read notes" in out


def test_more_or_less_around_it(run, path: Path):
    out = run("show", f"{path}#7", "-B", 0, "-A", 0)[1]
    assert "step 7 " in out and "step 6 " not in out and "step 8 " not in out


def test_the_whole_session(run, path: Path):
    code, out, _ = run("show", path)
    assert code == 0 and "  ✗    7  " in out and "echo later5" in out and "1 misstep found" in out


def test_by_id_after_a_scan(run, path: Path):
    run("scan", path, "-q")
    for name in (ID, "1a2b3c4d", "1a2b"):
        assert run("show", f"{name}#7")[0] == 0
    code, _, err = run("show", "1a2b#7", "--no-index")
    assert code == 2 and "no session of this id" in err


def test_by_id_without_an_index(run, making, own_home: Path):
    making.session(own_home / f".claude/projects/-w/{ID}.jsonl", ["ls"], id=ID)
    assert run("show", "1a2b3c4d", "--no-index")[0] == 0


def test_a_moved_file_is_not_found_by_its_old_place(run, path: Path):
    run("scan", path, "-q")
    path.rename(path.parent / "moved.jsonl")
    assert run("show", "1a2b3c4d")[0] == 2


def test_the_longest_of_several_copies(run, tmp_path: Path, making):
    making.session(tmp_path / "a/1.jsonl", ["ls"], id=ID, uuids="uuids-of-one-session")
    making.session(tmp_path / "a/2.jsonl", ["ls", "pwd", "echo BAD"], id=ID, uuids="uuids-of-one-session")
    run("scan", tmp_path, "-q")
    assert "2.jsonl" in run("show", "1a2b3c4d")[1]


def test_ids_that_start_alike(run, tmp_path: Path, making):
    for n in (1, 2):
        making.session(tmp_path / f"{n}.jsonl", ["ls"] * n, id=f"1a2b3c4d-000{n}-4000-8000-000000000000")
    run("scan", tmp_path, "-q")
    code, _, err = run("show", "1a2b")
    assert code == 2 and "several sessions start so: 1a2b3c4d-000" in err and err.count("\n") == 1
    assert run("show", "1a2b3c4d-0002")[0] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jsonl", "no such file"),
        ("{path}#99", "the session has the steps 0 to "),
        ("{path}#x", "after # stands a step's number"),
        ("{path}::3#1", "it holds 1 trajectories"),
        ("{folder}", "a folder of several sessions"),
        ("{notes}", "no known trajectory format"),
        ("", "name a session"),
        ("#3", "name a session"),
    ],
)
def test_bad_references(run, path: Path, making, name: str, message: str):
    making.session(path.parent / "many/1.jsonl", ["ls"])
    making.session(path.parent / "many/2.jsonl", ["ls"])
    (path.parent / "notes.txt").write_text("hello")
    name = name.format(path=path, folder=path.parent / "many", notes=path.parent / "notes.txt")
    code, out, err = run("show", name)
    assert code == 2 and message in err and err.count("\n") == 1 and out == ""


def test_a_name_with_a_number_sign(run, tmp_path: Path, making):
    made = making.session(tmp_path / "run#1.jsonl", ["ls"])
    assert run("show", made)[0] == 0 and run("show", f"{made}#1")[0] == 0


def test_a_trial_folder(run, tmp_path: Path, making):
    folder = making.trial(tmp_path / "t1", ["ls", "echo BAD"], 0.0, task="demo")
    code, out, _ = run("show", folder)
    assert code == 0 and "demo" in out and "failed" in out
