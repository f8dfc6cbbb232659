"""OpenCode's database and its storage folder, from rows that OpenCode 1.18.33 wrote."""

import hashlib
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from misstep.scan.units import find
from misstep.trajectory import Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, Unreadable, _opencode_store, read, reader_of, units

Rows = dict[str, list[dict[str, Any]]]
ROWS: Rows = json.loads((Path(__file__).parent / "data" / "opencode" / "1.18.33.rows.json").read_text())
ID = ROWS["session"][0]["id"]
TYPES = {"time_created": "integer", "time_updated": "integer"}


def rows() -> Rows:
    return json.loads(json.dumps(ROWS))


def write(base: sqlite3.Connection, given: Rows) -> None:
    for table, some in given.items():
        names = list(ROWS[table][0])
        columns = ", ".join(f"`{name}` {TYPES.get(name, 'text')}" for name in names)
        base.execute(f"CREATE TABLE IF NOT EXISTS `{table}` ({columns})")
        for row in some:
            values = [json.dumps(v) if isinstance(v, dict) else v for v in row.values()]
            base.execute(f"INSERT INTO `{table}` VALUES ({', '.join('?' * len(names))})", values)
    base.commit()


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Path]:
    """Makes a database that is at rest: nothing beside its file."""

    def made(given: Rows | None = None, name: str = "any") -> Path:
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as base:
            write(base, given or rows())
        return path

    return made


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A database as OpenCode leaves it while it runs: all rows are in the log beside the file."""
    (tmp_path / "live").mkdir()
    path = tmp_path / "live" / "opencode.db"
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = WAL")
    write(base, rows())
    assert b"part" not in path.read_bytes() and path.with_name("opencode.db-wal").stat().st_size > 0
    yield path
    base.close()


def storage(folder: Path, given: Rows | None = None) -> Path:
    """The same as a storage folder of JSON files."""
    given = given or rows()

    def put(place: str, value: Any) -> None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(value if isinstance(value, str) else json.dumps(value))

    (folder / "message").mkdir(parents=True)
    for row in given["session"]:
        head = {"id": row["id"], "projectID": row["project_id"], "directory": row["directory"]}
        head |= {"version": row["version"], "time": {"created": row["time_created"]}}
        if row["parent_id"]:
            head["parentID"] = row["parent_id"]
        put(f"session/{row['project_id']}/{row['id']}.json", head)
    for row in given["message"]:
        put(f"message/{row['session_id']}/{row['id']}.json", row["data"])
    for row in given["part"]:
        put(f"part/{row['message_id']}/{row['id']}.json", row["data"])
    return folder


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """What is in a folder, with a digest and the time of the last change of each file."""
    return {
        str(p): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file()
    }


def check(found: Trajectory) -> None:
    """What the run was: seven answers with eight calls, of which one was killed and one failed."""
    assert (found.id, found.agent_version, found.model, found.cwd) == (ID, "1.18.33", "fake-model", "/work")
    told = list(events(found))
    assert [e.text for e in told if isinstance(e, Prompt)] == ['"Please change the file"']
    assert [e.message for e in told if isinstance(e, Stop)] == ["All done."]
    calls = [(c, s.results[c.id]) for s in found.steps for c in s.calls]
    assert [c.command or c.paths[0] for c, _ in calls] == [
        "ls; echo hello",
        "python3 -c 'import sys; print(1); sys.exit(3)'",
        "/work/a.txt",
        "cat a.txt",
        "/work/a.txt",
        "/work/missing.txt",
        "sleep 20",
    ]
    assert [r.exit_code for _, r in calls] == [0, 3, None, 0, None, None, None]
    assert [r.failed for _, r in calls] == [False, True, False, False, False, True, True]
    assert [r.timed_out for _, r in calls] == [False] * 6 + [True]
    assert calls[0][1].output == "opencode.json\nhello\n" and calls[6][0].timeout == 1.0
    assert calls[4][0].edits == (("/work/a.txt", "one", "two"),)
    assert not found.skipped


def test_a_database(database):
    check(one(database()))


def test_a_running_agents_database(running):
    check(one(running))


def test_a_storage_folder(tmp_path):
    check(one(storage(tmp_path / "any")))


def test_all_three_give_the_same(database, running, tmp_path):
    found = [one(database()), one(running), one(storage(tmp_path / "storage"))]
    for each in found:
        each.path = ""
    assert found[0] == found[1] == found[2]


def test_nothing_of_the_users_changes(running):
    folder = running.parent
    before = contents(folder)
    one(running)
    assert contents(folder) == before


def test_no_lock_is_taken(running, monkeypatch):
    """Between two sessions that are read, the agent can write and begin its log anew."""
    given = rows()
    given["session"].append({**given["session"][0], "id": "ses_other"})
    with closing(sqlite3.connect(running)) as base:
        base.execute("DELETE FROM session")
        write(base, {"session": given["session"]})
        reading = _opencode_store.of_database(running)
        next(reading)
        base.execute("PRAGMA busy_timeout = 0")
        assert base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert len(list(reading)) == 1


def test_a_read_only_folder_at_rest(database, monkeypatch):
    path = database()
    monkeypatch.setattr(_opencode_store.tempfile, "TemporaryDirectory", None)  # no copy is needed
    check(one(path))


def test_what_was_never_finished_is_taken_back(database, tmp_path):
    """A writer that dies in the middle leaves a journal, and half of its change in the file."""
    path = database()
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA cache_size = 1")
        base.execute("UPDATE part SET data = '{}'")
        (tmp_path / "dead").mkdir()
        for end in ("", "-journal"):
            shutil.copyfile(f"{path}{end}", tmp_path / "dead" / f"any{end}")
        base.rollback()
    assert (tmp_path / "dead" / "any").read_bytes() != path.read_bytes()
    before = contents(tmp_path / "dead")
    check(one(tmp_path / "dead" / "any"))
    assert contents(tmp_path / "dead") == before


def test_a_file_that_keeps_changing(running, monkeypatch):
    states = iter(range(100))
    monkeypatch.setattr(_opencode_store, "_state", lambda path: (next(states),))
    with pytest.raises(Unreadable, match="being written to"):
        list(_opencode_store.of_database(running))


def test_no_room_for_a_copy(running, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_opencode_store.shutil, "copyfile", full)
    with pytest.raises(Unreadable, match="No space left"):
        list(_opencode_store.of_database(running))


def test_several_sessions_and_sub_agents(database, tmp_path):
    given = rows()
    given["session"].append({**given["session"][0], "id": "ses_b", "parent_id": ID})
    given["message"].append({**given["message"][0], "id": "msg_b", "session_id": "ses_b"})
    given["part"].append({**given["part"][0], "id": "prt_b", "message_id": "msg_b", "session_id": "ses_b"})
    given["session"].append({**given["session"][0], "id": "ses_unused"})
    for path in (database(given), storage(tmp_path / "storage", given)):
        assert [(t.id, t.parent, len(t.steps)) for t in read(path)] == [("ses_b", ID, 1), (ID, "", 8)]


def test_order_is_by_time_then_id(database):
    given = rows()
    given["message"].reverse()
    given["part"].reverse()
    check(one(database(given)))


def test_rows_that_are_damaged(database, tmp_path):
    given = rows()
    given["part"][3]["data"] = '{"type": "too'
    given["message"][2]["data"] = "[]"
    for path in (database(given), storage(tmp_path / "storage", given)):
        found = one(path)
        assert dict(found.skipped) == {"part: no JSON object": 1, "message: no JSON object": 1, "part of no message": 3}
        assert len(found.steps) == 7 and not found.steps[1].calls


def test_bytes_that_are_no_text(database):
    path = database()
    with closing(sqlite3.connect(path)) as base:
        base.execute(
            "UPDATE part SET data = CAST(x'7b2274797065223a2274657874222c2274657874223a22ff227d' AS TEXT) WHERE id = ?",
            (ROWS["part"][0]["id"],),
        )
        base.commit()
    assert one(path).steps[0].message == "�"


def test_lone_surrogates_can_be_written(database):
    given = rows()
    given["part"][0]["data"]["text"] = "a\ud800"
    assert one(database(given)).steps[0].message.encode() == "a�".encode()


def test_columns_that_are_not_there_yet(database):
    given = rows()
    path = database(given)
    with closing(sqlite3.connect(path)) as base:
        base.execute("ALTER TABLE session DROP COLUMN version")
        base.commit()
    assert one(path).agent_version == ""


def test_a_damaged_database_is_told_of(database):
    given = rows()
    given["part"] *= 60
    path = database(given)
    data = bytearray(path.read_bytes())
    for page in range(len(data) // 4096 // 2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=r"malformed|cannot be read"):
        list(read(path))


@pytest.mark.parametrize("tables", [[], ["session"], ["session", "message", "other"]])
def test_other_databases(tmp_path, tables):
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE t (a)")
        for table in tables:
            base.execute(f"CREATE TABLE {table} (id, session_id, data)")
        base.commit()
    before = contents(tmp_path)
    assert reader_of(Source(path)) is None
    assert contents(tmp_path) == before


def test_a_file_that_only_starts_like_a_database(tmp_path):
    path = tmp_path / "x.db"
    path.write_bytes(b"SQLite format 3\0" + bytes(2000))
    assert reader_of(Source(path)) is None


def test_a_storage_folder_is_one_unit(tmp_path):
    folder = storage(tmp_path / "storage")
    (folder / "session_diff").mkdir()
    (folder / "session_diff" / f"{ID}.json").write_text("[]")
    assert list(units([tmp_path])) == [folder]
    assert [u.path for u in find([tmp_path])] == [str(folder)]


def test_a_session_of_a_storage_folder_by_its_file(tmp_path):
    folder = storage(tmp_path / "storage")
    (path,) = (folder / "session").glob("*/*.json")
    found = one(path)
    check(found)
    assert found.path == str(path) == one(folder).path


def test_files_that_are_being_written(tmp_path):
    folder = storage(tmp_path / "storage")
    (session,) = (folder / "session").glob("*/*.json")
    (session.parent / f".oc-{session.name}.1.tmp").write_text("{")
    (folder / "message" / ID / ".msg_x.json").write_text("{")
    check(one(folder))


@pytest.mark.parametrize("names", [["session"], ["session", "part"], ["message", "part"]])
def test_other_folders(tmp_path, names):
    for name in names:
        (tmp_path / name / "p").mkdir(parents=True)
        (tmp_path / name / "p" / "a.json").write_text('{"id": "a"}')
    assert reader_of(Source(tmp_path)) is None


def test_a_folder_of_a_web_application(tmp_path):
    for name in ("session", "message"):
        (tmp_path / name / "p").mkdir(parents=True)
        (tmp_path / name / "p" / "a.json").write_text('{"id": "a", "user": 1}')
    assert reader_of(Source(tmp_path)) is None


def test_sessions_are_read_one_by_one(database, tmp_path):
    """Memory does not grow with the number of sessions: the second is not touched while the first is in use."""
    given = rows()
    given["session"].append({**given["session"][0], "id": "ses_zz"})
    folder = storage(tmp_path / "storage", given)
    reading = read(folder)
    assert next(reading).id == ID
    shutil.rmtree(folder)
    with pytest.raises(StopIteration):
        next(reading)


def test_odd_values_anywhere(tmp_path):
    chance = random.Random(1)
    odd = [None, 1, [], {}, "x", True, [None], {"a": []}]
    for number in range(60):
        given = rows()
        value = chance.choice(chance.choice([given["message"], given["part"]]))["data"]
        inner = [v for v in value.values() if isinstance(v, dict) and v]
        value = chance.choice([value, *inner])
        value[chance.choice(list(value))] = chance.choice(odd)
        found = one(storage(tmp_path / str(number), given))
        assert len(list(events(found))) > 10
        assert all(isinstance(r.output, str) for s in found.steps for r in s.results.values())
