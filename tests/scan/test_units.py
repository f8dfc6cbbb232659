"""What a scan walks over, and how it is cut into shards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from misstep.scan.units import find, shard_of, state_of
from misstep.trajectory.readers import units


def paths(*roots: Path, **more) -> list[str]:
    return [unit.path for unit in find(roots, **more)]


@pytest.fixture
def tree(tmp_path: Path, making) -> Path:
    root = tmp_path / "tree"
    for name in ("b/two.jsonl", "a/one.jsonl", "a/deep/er/three.jsonl", ".git/x.jsonl", "node_modules/y.jsonl"):
        making.session(root / name, ["ls"])
    making.trial(root / "jobs/trial-1", ["ls"], 1.0, task="t")
    (root / "notes.txt").write_text("no session")
    return root


def test_files_and_folder_units_in_order(tree: Path):
    found = [str(Path(p).relative_to(tree)) for p in paths(tree)]
    assert found == ["a/deep/er/three.jsonl", "a/one.jsonl", "b/two.jsonl", "jobs/trial-1", "notes.txt"]


def test_the_walk_is_that_of_the_readers(tree: Path):
    assert paths(tree) == [str(p) for p in units([tree])]


@pytest.mark.corpus
def test_the_walk_is_that_of_the_readers_over_the_corpus(shared: Path):
    for folder in ("claude-code", "openhands-events", "terminal-bench-v1", "atif"):
        root = shared / "corpus" / folder
        assert sorted(paths(root)) == sorted(str(p) for p in units([root]))


def test_a_folder_that_was_told_is_not_told_again(tree: Path, monkeypatch: pytest.MonkeyPatch):
    class Memory(dict):
        def folder(self, path, sign):
            return self.get((path, sign))

        def keep_folder(self, path, sign, whole):
            self[path, sign] = whole

    memory = Memory()
    first = paths(tree, memory=memory)
    assert any(memory.values()) and not all(memory.values())
    import misstep.trajectory.readers as readers

    monkeypatch.setattr(readers, "reader_of", lambda source: pytest.fail("told again"))
    assert paths(tree, memory=memory) == first
    (tree / "jobs/trial-1/result.json").write_text("{}")  # no trial any more: to be told again
    monkeypatch.undo()
    assert str(tree / "jobs/trial-1") not in paths(tree, memory=memory)


def test_overlapping_paths_give_a_unit_once(tree: Path):
    assert paths(tree / "a", tree, tree) == paths(tree / "a") + [p for p in paths(tree) if "/a/" not in p]


def test_links_to_folders_are_not_followed_and_loops_end(tree: Path):
    before = paths(tree)
    (tree / "a/loop").symlink_to(tree)
    (tree / "self").symlink_to("self")
    assert [p for p in paths(tree) if not p.endswith("/self")] == before
    assert paths(tree / "a/loop/b") == [str(tree / "a/loop/b/two.jsonl")]


def test_a_linked_file_is_read(tree: Path, tmp_path: Path, making):
    target = making.session(tmp_path / "elsewhere.jsonl", ["ls"])
    (tree / "z.jsonl").symlink_to(target)
    assert str(tree / "z.jsonl") in paths(tree)


def test_very_deep_folders(tmp_path: Path):
    here = tmp_path / "deep"
    here.mkdir()
    base = os.open(here, os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("d", dir_fd=base)
            inner = os.open("d", os.O_RDONLY, dir_fd=base)
            os.close(base)
            base = inner
    finally:
        os.close(base)
    assert len(paths(here)) <= 1  # the system's own limit on a path's length ends the walk, nothing else
    os.system(f"rm -rf '{here}'")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_listed_is_a_unit_that_fails(tree: Path):
    (tree / "b").chmod(0)
    try:
        assert str(tree / "b") in paths(tree)
    finally:
        (tree / "b").chmod(0o700)


def test_shards_part_the_units(tree: Path):
    whole = paths(tree)
    for count in (1, 2, 3, 7):
        parts = [paths(tree, shard=(i, count)) for i in range(1, count + 1)]
        assert sorted(p for part in parts for p in part) == sorted(whole)


def test_shards_do_not_depend_on_where_the_folder_is_mounted(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here = [os.path.relpath(p, tree) for p in paths(tree, shard=(1, 2))]
    moved = tmp_path / "mounted elsewhere"
    tree.rename(moved)
    assert [os.path.relpath(p, moved) for p in paths(moved, shard=(1, 2))] == here
    monkeypatch.chdir(moved)
    assert paths(Path(), shard=(1, 2)) == here
    assert shard_of("a/b.jsonl", 5) == shard_of("a/b.jsonl", 5)


def test_the_state_of_a_folder_changes_with_what_is_in_it(tree: Path):
    folder = tree / "jobs/trial-1"
    before = state_of(str(folder))
    assert before == state_of(str(folder))
    inner = folder / "agent/trajectory.json"
    inner.write_text(inner.read_text() + " ")
    assert state_of(str(folder)) != before
    assert state_of(str(tree / "missing")) is None


def test_the_state_of_a_database_changes_with_the_log_beside_it(tmp_path: Path):
    path = tmp_path / "opencode.db"
    path.write_bytes(b"SQLite format 3\0")
    (unit,) = find([path])
    assert unit.state == state_of(str(path))
    (tmp_path / "opencode.db-wal").write_bytes(b"new")
    after = next(u.state for u in find([tmp_path]) if u.path == str(path))
    assert after == state_of(str(path)) != unit.state
