"""The derived index: fast, private, and never needed."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from misstep.scan import index as module
from misstep.scan.index import Index
from misstep.scan.run import Options, scan

STATE = (10, 20, 30)


def test_keeps_and_forgets(tmp_path: Path):
    path = tmp_path / "c" / "scan.sqlite"
    with Index(path) as one:
        assert one.get("/x", STATE) is None
        one.put("/x", STATE, b'{"records":[]}', [("abc", 0, 7)])
    with Index(path) as two:
        assert two.get("/x", STATE) == b'{"records":[]}'
        assert two.get("/x", (11, 20, 30)) is None and two.get("/x", (10, 21, 30)) is None
        assert two.get("/x", (10, 20, 31)) is None and two.get("/x", None) is None
        assert two.sessions("ab") == [("abc", "/x", 0, 7)]
        assert two.sessions("b") == [] and two.sessions("") == []
        two.put("/x", STATE, b"{}", [])
    with Index(path) as three:
        assert three.get("/x", STATE) == b"{}" and three.sessions("abc") == []


def test_it_is_the_users_own(tmp_path: Path):
    path = tmp_path / "cache" / "scan.sqlite"
    with Index(path) as index:
        index.put("/x", STATE, b"{}", [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_other_code_makes_every_entry_stale(tmp_path: Path):
    path = tmp_path / "scan.sqlite"
    with Index(path, "code one") as index:
        index.put("/x", STATE, b"{}", [("a", 0, 1)])
        index.keep_folder("/f", "s", True)
        index.keep_info({"a": 1})
    with Index(path, "code two") as index:
        assert index.get("/x", STATE) is None
        assert index.sessions("a") == [("a", "/x", 0, 1)], "where a session is does not depend on the code"
        assert index.folder("/f", "s") is None and index.info() is None
    with Index(path, "code three") as index:
        assert index.sessions("a") == [], "what no scan has seen since the last change of the code is forgotten"


def test_code_state_changes_with_a_detector():
    assert module.code_state() == module.code_state()
    assert "catalogue/base.py" in module.code_state() and "trajectory/readers/source.py" in module.code_state()


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_made_anew(tmp_path: Path, content: bytes):
    path = tmp_path / "scan.sqlite"
    path.write_bytes(content)
    with Index(path) as index:
        index.put("/x", STATE, b"{}", [])
        index.flush()
        assert index.get("/x", STATE) == b"{}" and not index.problem


def test_damage_in_the_middle_is_survived(tmp_path: Path):
    path = tmp_path / "scan.sqlite"
    with Index(path) as index:
        for n in range(400):
            index.put(f"/x{n}", STATE, os.urandom(2000), [(f"id{n}", 0, 1)])
    data = bytearray(path.read_bytes())
    data[8192:-4096] = b"\xa5" * (len(data) - 8192 - 4096)
    path.write_bytes(data)
    with Index(path) as index:
        for n in range(400):
            index.get(f"/x{n}", STATE)
            index.sessions(f"id{n}")
        index.put("/y", STATE, b"{}", [])
    with Index(path) as again:
        again.put("/z", STATE, b"{}", [])
        again.flush()
        assert again.get("/z", STATE) == b"{}"


def test_a_place_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with Index(tmp_path / "file" / "scan.sqlite") as index:
        assert index.problem
        index.put("/x", STATE, b"{}", [])
        index.keep_info({})
        index.keep_folder("/f", "s", True)
        assert index.get("/x", STATE) is None and index.sessions("a") == [] and index.info() is None
        assert index.folder("/f", "s") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path):
    folder = tmp_path / "ro"
    folder.mkdir(mode=0o500)
    with Index(folder / "scan.sqlite") as index:
        assert index.problem


def test_a_lock_that_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "scan.sqlite"
    Index(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    with Index(path) as index:
        index.put("/x", STATE, b"{}", [])
        assert index.get("/x", STATE) is None and index.problem
    holder.execute("ROLLBACK")
    with Index(path) as index:
        assert not index.problem


def test_a_second_scan_gives_the_same_and_reads_nothing(tmp_path: Path, making, catalogue, monkeypatch):
    for n in range(5):
        making.session(tmp_path / f"s/{n}.jsonl", ["ls", "echo BAD"], prompt=f"task {n}")
    (tmp_path / "s/no.txt").write_text("no session")
    making.trial(tmp_path / "s/job/t1", ["echo BAD"], 1.0, task="t")
    options = Options([str(tmp_path / "s")], workers=1)
    with Index(tmp_path / "i.sqlite") as index:
        first = list(scan(options, index))
    bare = list(scan(options, None))
    import misstep.scan.read as read

    monkeypatch.setattr(read, "read_unit", lambda *a: pytest.fail("read again"))
    with Index(tmp_path / "i.sqlite") as index:
        second = list(scan(options, index))
    assert first == second == bare and len(first) == 7


def test_a_changed_file_is_read_again(tmp_path: Path, making, catalogue):
    path = making.session(tmp_path / "s.jsonl", ["ls"])
    options = Options([str(path)], workers=1)
    with Index(tmp_path / "i.sqlite") as index:
        assert [r["missteps"]["bad-word"] for r in scan(options, index)] == [[1, 0, 0]]
    making.session(path, ["ls", "echo BAD"])
    with Index(tmp_path / "i.sqlite") as index:
        assert [r["missteps"]["bad-word"] for r in scan(options, index)] == [[1, 1, 0]]


def test_a_file_that_grows_while_it_is_read_is_not_kept(tmp_path: Path, making, catalogue, monkeypatch):
    path = making.session(tmp_path / "s.jsonl", ["ls"])
    import misstep.scan.read as read

    real = read.read_unit

    def slow(unit: str, strict: bool = False):
        found = real(unit, strict)
        making.session(path, ["ls", "echo BAD"])
        return found

    monkeypatch.setattr(read, "read_unit", slow)
    with Index(tmp_path / "i.sqlite") as index:
        list(scan(Options([str(path)], workers=1), index))
    monkeypatch.undo()
    with Index(tmp_path / "i.sqlite") as index:
        assert index.sessions("") == []
        assert [r["calls"] for r in scan(Options([str(path)], workers=1), index)] == [2]


def test_filters_do_not_reach_the_index(tmp_path: Path, making, catalogue):
    path = making.session(tmp_path / "s.jsonl", ["echo BAD", "echo PRE"])
    with Index(tmp_path / "i.sqlite") as index:
        narrow = list(scan(Options([str(path)], workers=1, missteps=["preview-word"]), index))
        wide = list(scan(Options([str(path)], workers=1, preview=True), index))
        none = list(scan(Options([str(path)], workers=1, agents=["codex"]), index))
    assert list(narrow[0]["missteps"]) == ["preview-word"] and not narrow[0]["firings"]
    assert sorted(wide[0]["missteps"]) == ["bad-word", "preview-word"] and none == []


def test_two_scans_at_once(tmp_path: Path, making):
    for n in range(40):
        making.session(tmp_path / f"s/{n:02}.jsonl", ["ls"] * 5, prompt=f"task {n}")
    command = [
        sys.executable,
        "-c",
        "from misstep.cli import main; main()",
        "scan",
        str(tmp_path / "s"),
        "-q",
        "--json",
    ]
    running = [
        subprocess.Popen(
            [*command, str(tmp_path / f"{n}.json")], env={**os.environ, "MISSTEP_CACHE_DIR": str(tmp_path / "c")}
        )
        for n in range(3)
    ]
    assert [p.wait(60) for p in running] == [0, 0, 0]
    texts = {(tmp_path / f"{n}.json").read_text() for n in range(3)}
    assert len(texts) == 1
    assert json.loads(texts.pop().splitlines()[-1])["sessions"] == 40
