"""A whole scan: the same result however it is cut up, and bad input counted."""

from __future__ import annotations

import io
import json
import os
import random
from pathlib import Path

import pytest

from misstep.scan import read as read_module
from misstep.scan import result as result_module
from misstep.scan.result import BadInput, Result, merge
from misstep.scan.run import Options, scan
from misstep.scan.summary import summarise


@pytest.fixture
def sessions(tmp_path: Path, making) -> Path:
    root = tmp_path / "sessions"
    for n in range(12):
        commands = ["ls"] * n + ["echo BAD"] * (n % 3) + ["echo PRE"] * (n % 2)
        making.session(root / f"p{n % 3}/{n:02}.jsonl", commands, prompt=f"task {n}", day=f"2026-03-{n + 1:02}")
    making.session(root / "resumed/1.jsonl", ["ls", "echo BAD"], uuids="same-session-of-two-files")
    making.session(root / "resumed/2.jsonl", ["ls", "echo BAD", "ls", "pwd"], uuids="same-session-of-two-files")
    for n, reward in enumerate([1.0, 0.0, None]):
        making.trial(root / f"job/t{n}", ["ls"] + ["echo BAD"] * n, reward, task="demo")
    (root / "notes.txt").write_text("no session")
    (root / "broken.jsonl").write_bytes(b"\xff\xfe{{{")
    (root / "empty.jsonl").write_bytes(b"")
    return root


def written(result: Result) -> bytes:
    out = io.BytesIO()
    summary = summarise(result, result.header["missteps"])
    result.write(out, None if result.header["shard"] else summary.to_json())
    return out.getvalue()


def lines(data: bytes) -> list[dict]:
    return [json.loads(line) for line in data.splitlines()]


def test_one_run(sessions: Path, catalogue):
    found = lines(written(scan(Options([str(sessions)], workers=1))))
    header, *records, summary = found
    assert header["kind"] == "header" and header["schema"] == "misstep-scan/1"
    assert sorted(header["missteps"]) == ["bad-word", "scoped-word"]
    assert [r["path"] for r in records] == sorted(r["path"] for r in records)
    assert [r["kind"] for r in records].count("trajectory") == 17
    skipped = {Path(r["path"]).name: r["reason"] for r in records if r["kind"] == "skipped"}
    assert sorted(skipped) == ["broken.jsonl", "empty.jsonl", "notes.txt"] and all(skipped.values())
    copy = next(r for r in records if r["path"].endswith("resumed/1.jsonl"))
    assert copy["copy_of"][0].endswith("resumed/2.jsonl")
    assert summary["kind"] == "summary" and summary["sessions"] == 15
    assert (summary["not_counted"]["copies"], summary["not_counted"]["without_steps"]) == (1, 1)
    bad = summary["missteps"][0]
    # 4 sessions with one, 4 with two, the resumed one, two trials with one and two.
    assert (bad["id"], bad["sessions"], bad["occurrences"]) == ("bad-word", 11, 16)


def test_shards_merged_are_one_run_to_the_byte(sessions: Path, tmp_path: Path, catalogue):
    whole = written(scan(Options([str(sessions)], workers=1, preview=True)))
    for count in (1, 2, 5):
        files = []
        for i in range(1, count + 1):
            files.append(tmp_path / f"{i}.jsonl")
            files[-1].write_bytes(written(scan(Options([str(sessions)], workers=1, preview=True, shard=(i, count)))))
        random.Random(count).shuffle(files)
        merged = merge(files)

        assert written(merged) == whole


def test_filters_and_shards(sessions: Path, tmp_path: Path, catalogue):
    def options(**more):
        return Options([str(sessions)], workers=1, since=1772928000.0, agents=["claude"], missteps=["bad-word"], **more)

    whole = written(scan(options()))
    files = []
    for i in (1, 2, 3):
        files.append(tmp_path / f"{i}.jsonl")
        files[-1].write_bytes(written(scan(options(shard=(i, 3)))))
    merged = merge(files)

    assert written(merged) == whole
    summary = lines(whole)[-1]
    assert summary["agents"] == {"claude-code": 5} and summary["filtered"] == {"agent": 3, "since": 9}


def test_workers_change_nothing(sessions: Path, catalogue, monkeypatch: pytest.MonkeyPatch):
    one = written(scan(Options([str(sessions)], workers=1)))
    monkeypatch.setattr(read_module, "IN_LINE", 0)
    monkeypatch.setattr(read_module, "_BATCH_UNITS", 2)
    assert written(scan(Options([str(sessions)], workers=2))) == one


def test_a_worker_that_dies_costs_one_unit(sessions: Path, catalogue, monkeypatch: pytest.MonkeyPatch):
    real = read_module.read_unit

    def dying(path: str, strict: bool = False):
        if path.endswith("p0/00.jsonl"):
            os._exit(9)
        return real(path, strict)

    monkeypatch.setattr(read_module, "IN_LINE", 0)
    monkeypatch.setattr(read_module, "_BATCH_UNITS", 3)
    monkeypatch.setattr(read_module, "read_unit", dying)
    records = list(scan(Options([str(sessions)], workers=2)))
    lost = [r for r in records if r["kind"] == "skipped" and "ended" in r["reason"]]
    assert [r["path"][-11:] for r in lost] == ["p0/00.jsonl"]
    assert len(records) == 20


def test_records_beyond_what_memory_holds_wait_on_disk(sessions: Path, catalogue, monkeypatch: pytest.MonkeyPatch):
    held = written(scan(Options([str(sessions)], workers=1)))
    monkeypatch.setattr(result_module, "HELD", 3000)
    result = scan(Options([str(sessions)], workers=1))
    assert sum(isinstance(e.at, dict) for e in result._entries) < 4
    assert written(result) == held


def test_a_reader_that_fails_is_counted(sessions: Path, catalogue, monkeypatch: pytest.MonkeyPatch):
    import misstep.trajectory.readers as readers

    def fail(path):
        raise TypeError("a fault of the reader")

    monkeypatch.setattr(readers, "read", fail)
    records = list(scan(Options([str(sessions / "p1")], workers=1)))
    assert {r["reason"] for r in records} == {"the reader failed: TypeError: a fault of the reader"}
    with pytest.raises(TypeError):
        scan(Options([str(sessions / "p1")], workers=1, strict=True))


def test_unknown_ids_and_paths(sessions: Path, catalogue):
    with pytest.raises(BadInput, match="no misstep 'bad-wort': did you mean 'bad-word'"):
        scan(Options([str(sessions)], missteps=["bad-wort"]))
    with pytest.raises(BadInput, match="no such file"):
        scan(Options([str(sessions / "missing")]))


def test_one_misstep_by_name_brings_its_preview(sessions: Path, catalogue):
    result = scan(Options([str(sessions)], workers=1, missteps=["preview-word"]))
    summary = summarise(result, result.header["missteps"])
    assert list(summary.tallies) == ["preview-word"] and summary.tallies["preview-word"].sessions == 6


def test_references_name_one_session(sessions: Path, making, catalogue):
    same = "0f8fad5b-d9cb-469f-a165-70867728950e"
    making.session(sessions / "x/1.jsonl", ["ls"], id=same, uuids="one-uuid-of-its-own")
    making.session(sessions / "x/2.jsonl", ["pwd"], id=same, uuids="two-uuid-of-its-own")
    making.session(sessions / "x/3.jsonl", ["pwd"], id="9bd5d2f6-aaaa-4000-8000-000000000000")
    refs = {r["path"]: r["ref"] for r in scan(Options([str(sessions)], workers=1)) if "ref" in r}
    assert refs[str(sessions / "x/1.jsonl")] == str(sessions / "x/1.jsonl")
    assert refs[str(sessions / "x/3.jsonl")] == "9bd5d2f6"
    counted = [r["ref"] for r in scan(Options([str(sessions)], workers=1)) if "ref" in r and "copy_of" not in r]
    assert len(set(counted)) == len(counted)


@pytest.mark.corpus
@pytest.mark.slow
def test_shards_of_real_sessions_with_the_real_catalogue(shared: Path, tmp_path: Path, own_home: Path):
    from misstep.scan.index import Index

    roots = [str(shared / "corpus" / name) for name in ("terminal-bench-v1", "claude-code", "harbor-traces", "atif")]
    options = {"preview": True, "workers": 2}
    whole = written(scan(Options(roots, **options)))
    files = []
    for i in (3, 1, 2):
        files.append(tmp_path / f"{i}.jsonl")
        with Index() as index:
            files[-1].write_bytes(written(scan(Options(roots, shard=(i, 3), **options), index)))
    assert written(merge(files)) == whole
    assert lines(whole)[-1]["sessions"] > 40


class TestMerge:
    @pytest.fixture
    def shards(self, sessions: Path, tmp_path: Path, catalogue) -> list[Path]:
        files = [tmp_path / f"{i}.jsonl" for i in (1, 2)]
        for i, file in enumerate(files, 1):
            file.write_bytes(written(scan(Options([str(sessions)], workers=1, shard=(i, 2)))))
        return files

    def check(self, files: list[Path], message: str):
        with pytest.raises(BadInput) as caught:
            merge(files)
        assert message in str(caught.value) and "\n" not in str(caught.value)

    def test_missing(self, shards: list[Path]):
        self.check(shards[:1], "shards are missing: 2/2")

    def test_twice(self, shards: list[Path]):
        self.check([shards[0], shards[0], shards[1]], "was given before")

    def test_cut_off(self, shards: list[Path]):
        data = shards[1].read_bytes()
        shards[1].write_bytes(data[: data[:-1].rindex(b"\n") + 1])
        self.check(shards, "2.jsonl: incomplete")
        shards[1].write_bytes(data[:-10])
        self.check(shards, "not JSON")

    def test_a_record_is_lost(self, shards: list[Path]):
        rows = shards[1].read_bytes().splitlines(keepends=True)
        shards[1].write_bytes(b"".join(rows[:1] + rows[2:]))
        self.check(shards, "records expected")

    def test_of_another_scan(self, shards: list[Path], sessions: Path):
        shards[1].write_bytes(written(scan(Options([str(sessions)], workers=1, preview=True, shard=(2, 2)))))
        self.check(shards, "other missteps than the files before it")

    def test_of_another_count(self, shards: list[Path], sessions: Path):
        shards[1].write_bytes(written(scan(Options([str(sessions)], workers=1, shard=(2, 3)))))
        self.check(shards, "not a shard of the same scan")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "empty"),
            (b"hello\n", "line 1: not JSON"),
            (b"[1]\n", "line 1: not an object"),
            (b'{"kind":"trajectory"}\n', "line 1: no header"),
            (b'{"kind":"header","schema":"misstep-scan/99"}\n', "schema 'misstep-scan/99'"),
        ],
    )
    def test_not_a_shard(self, shards: list[Path], content: bytes, message: str):
        shards[0].write_bytes(content)
        self.check(shards, message)

    def test_a_record_that_is_none(self, shards: list[Path]):
        rows = shards[1].read_bytes().splitlines(keepends=True)
        rows[1] = b'{"kind":"trajectory","path":3}\n'
        shards[1].write_bytes(b"".join(rows))
        self.check(shards, "line 2: not a record")

    def test_no_such_file(self, tmp_path: Path):
        self.check([tmp_path / "no"], "No such file")

    def test_the_same_units_in_two_files(self, sessions: Path, tmp_path: Path, catalogue):
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(written(scan(Options([str(sessions)], workers=1))))
        self.check([tmp_path / "a", tmp_path / "b"], "stands in two of the files")

    def test_whole_runs_of_different_folders_add_up(self, sessions: Path, tmp_path: Path, catalogue):
        (tmp_path / "a").write_bytes(written(scan(Options([str(sessions / "p0")], workers=1))))
        (tmp_path / "b").write_bytes(
            written(scan(Options([str(sessions / "p1"), str(sessions / "resumed")], workers=1)))
        )
        both = written(scan(Options([str(sessions / name) for name in ("p0", "p1", "resumed")], workers=1)))
        merged = merge([tmp_path / "a", tmp_path / "b"])

        assert lines(written(merged))[1:] == lines(both)[1:]


def test_threads_and_forks_do_not_meet(monkeypatch: pytest.MonkeyPatch):
    """Where another thread runs, workers are not forked; the progress bar is none."""
    import threading

    from misstep.cli import _scanning
    from misstep.report.console import progress

    monkeypatch.setattr(read_module, "METHOD", "")
    started = threading.active_count()
    clock = iter(range(100))
    monkeypatch.setattr(_scanning.time, "monotonic", lambda: next(clock))
    with _scanning._progress(True) as watch:
        assert watch is not None
        for done in range(5):
            watch(done, 9)
        assert threading.active_count() == started
    bar = progress()
    assert not bar.live.auto_refresh
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        with read_module._pool(1) as pool:
            assert pool._mp_context.get_start_method() == "spawn"
            assert pool.submit(len, "abc").result() == 3
    finally:
        release.set()
        thread.join()
