"""Sources: bytes of any kind are told apart, and bad ones are said to be bad in one line."""

import json
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from misstep.trajectory.readers import Source, Unreadable, read, reader_of, units
from misstep.trajectory.readers import source as module

LINE = {
    "type": "user",
    "sessionId": "s",
    "uuid": "u1",
    "isSidechain": False,
    "message": {"role": "user", "content": "Fix the parser"},
}
ANSWER = {
    "type": "assistant",
    "sessionId": "s",
    "uuid": "u2",
    "isSidechain": False,
    "message": {"role": "assistant", "id": "m1", "model": "x", "content": [{"type": "text", "text": "Fixed."}]},
}


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(r).encode() + b"\n" for r in records)


def put(folder: Path, data: bytes, name: str = "any.log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def why(path: Path) -> str:
    with pytest.raises(Unreadable) as caught:
        list(read(path))
    text = str(caught.value)
    assert "\n" not in text and text.startswith(f"{path}: ")
    return text[len(str(path)) + 2 :]


def test_a_good_file_whatever_its_name(tmp_path):
    (found,) = read(put(tmp_path, lines(LINE, ANSWER), "image.png"))
    assert [s.message for s in found.steps] == ["Fix the parser", "Fixed."]
    assert found.path == str(tmp_path / "image.png")


@pytest.mark.parametrize("data", [b"", b"\n\n\n", b"\0" * 4096, b"\xef\xbb\xbf"])
def test_empty(tmp_path, data):
    assert why(put(tmp_path, data)) == "empty"


def test_binary(tmp_path):
    assert why(put(tmp_path, bytes(range(256)) * 64)) == "no known trajectory format"
    assert why(put(tmp_path, b"\x89PNG\r\n\x1a\n" + b'\n{"' + b"\0" * 100)) == "no known trajectory format"


def test_text_and_json_of_another_kind(tmp_path):
    assert why(put(tmp_path, b"# Notes\n\nnothing here\n")) == "no known trajectory format"
    assert why(put(tmp_path, b'{"checkpoint_id": 1, "agent": "Claude Code"}')) == "JSON, but no known trajectory format"
    assert why(put(tmp_path, b'{"a": 1}\n{"a": 2}\n')) == "JSON, but no known trajectory format"
    assert why(put(tmp_path, b"[1, 2, 3]")) == "JSON, but no known trajectory format"
    assert why(put(tmp_path, b'{"a": 1,\n')) == "no known trajectory format (no JSON object in its first lines)"


def test_truncated_anywhere(tmp_path):
    """However much of the file is left, what is whole in it is read, and nothing breaks."""
    whole = lines(LINE, ANSWER)
    for size in range(len(whole)):
        path = put(tmp_path, whole[:size])
        try:
            (found,) = read(path)
        except Unreadable:
            assert size < len(lines(LINE)) - 1
            continue
        complete = size >= len(whole) - 1
        assert [s.source for s in found.steps] == ["user", "agent"][: 1 + complete]
        assert found.skipped["not JSON"] == (len(lines(LINE)) < size < len(whole) - 1)


def test_no_final_newline(tmp_path):
    (found,) = read(put(tmp_path, lines(LINE, ANSWER).rstrip()))
    assert len(found.steps) == 2 and not found.skipped


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    (found,) = read(put(tmp_path, b"\xef\xbb\xbf" + lines(LINE, ANSWER).replace(b"\n", b"\r\n")))
    assert len(found.steps) == 2 and not found.skipped


def test_two_objects_on_one_line(tmp_path):
    joined = lines(LINE).rstrip() + lines({"type": "summary", "summary": "x", "leafUuid": "u"}) + lines(ANSWER)
    (found,) = read(put(tmp_path, joined))
    assert [s.message for s in found.steps] == ["Fix the parser", "Fixed."] and not found.skipped
    three = lines(LINE).rstrip() + b" " + lines(ANSWER).rstrip() + b"\0\n"
    (found,) = read(put(tmp_path, three))
    assert len(found.steps) == 2 and [line for line, _ in Source(tmp_path / "any.log").numbered] == [1, 1]


def test_second_object_of_a_line_is_read_where_the_first_is_noise(tmp_path):
    noise = {"type": "progress", "sessionId": "s", "data": {"type": "bash_progress", "output": "x"}}
    joined = lines(LINE) + json.dumps(noise, separators=(",", ":")).encode() + lines(ANSWER)
    (found,) = read(put(tmp_path, joined))
    assert [s.message for s in found.steps] == ["Fix the parser", "Fixed."]


def test_damaged_lines_are_counted(tmp_path):
    bad = b'{"type": "user", "x": \n[1]\n"text"\n{"a": 1} rest\n'
    (found,) = read(put(tmp_path, lines(LINE) + bad + lines(ANSWER)))
    assert len(found.steps) == 2
    assert found.skipped["not JSON"] == 2 and found.skipped["not an object"] == 2


def test_damaged_first_line(tmp_path):
    (found,) = read(put(tmp_path, lines(LINE)[20:] + lines(LINE, ANSWER)))
    assert len(found.steps) == 2 and found.skipped["not JSON"] == 1
    (found,) = read(put(tmp_path, b'{"type": "us\n' + lines(LINE, ANSWER)))
    assert len(found.steps) == 2 and found.skipped["not JSON"] == 1


def test_words_of_a_program_before_the_json(tmp_path):
    (found,) = read(put(tmp_path, b"npm warn deprecated\nstarting\n" + lines(LINE, ANSWER)))
    assert len(found.steps) == 2 and found.skipped["not JSON"] == 2


def test_nul_bytes(tmp_path):
    data = lines(LINE) + b"\0" * 1000 + b"\n" + lines(ANSWER)
    (found,) = read(put(tmp_path, data))
    assert len(found.steps) == 2 and not found.skipped


def test_invalid_utf8_is_replaced_and_counted(tmp_path):
    data = lines(LINE, ANSWER).replace(b"parser", b"p\xff\xfer\xc3")
    (found,) = read(put(tmp_path, data))
    assert found.steps[0].message == "Fix the p\ufffd\ufffdr\ufffd"
    assert found.skipped == {"invalid UTF-8 replaced": 1}


def test_lone_surrogates_can_be_written_out(tmp_path):
    data = lines(LINE, ANSWER).replace(b"parser", rb"p\ud800r \ud83d\ude00")
    (found,) = read(put(tmp_path, data))
    assert found.steps[0].message == "Fix the p\ufffdr \U0001f600"
    found.steps[0].message.encode()


def test_deep_json(tmp_path):
    deep = b'{"type": "user", "sessionId": "s", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    (found,) = read(put(tmp_path, lines(LINE) + deep + lines(ANSWER)))
    assert len(found.steps) == 2 and found.skipped["nested too deep"] == 1
    assert "no known trajectory format" in why(put(tmp_path, b"[" * 300_000))
    assert "no known trajectory format" in why(put(tmp_path, b'{"a":\n' * 100_000))


def test_long_line_is_skipped_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINE", 10_000)
    long = json.dumps({**LINE, "pad": "x" * 20_000}).encode() + b"\n"
    (found,) = read(put(tmp_path, lines(LINE) + long + lines(ANSWER)))
    assert len(found.steps) == 2 and found.skipped == {"line too long": 1}


@pytest.mark.slow
def test_single_line_of_200_megabytes(tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"type": "user", "message": "')
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b'"}')
    before = time.process_time()
    assert why(path) == "no known trajectory format (no JSON object in its first lines)"
    with path.open("ab") as file:
        file.write(b"\n" + lines(LINE, ANSWER))
    (found,) = read(path)
    assert len(found.steps) == 2 and found.skipped == {"line too long": 1}
    assert time.process_time() - before < 5


def test_document_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_DOCUMENT", 1000)
    assert why(put(tmp_path, b"[" + b"1," * 1000 + b"1]")) == "document too large"


def test_missing(tmp_path):
    assert why(tmp_path / "nothing") == "No such file or directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    path = put(tmp_path, lines(LINE))
    path.chmod(0)
    assert why(path) == "Permission denied"
    path.chmod(stat.S_IRUSR)


def test_errors_of_the_system_are_one_line(tmp_path, monkeypatch):
    path = put(tmp_path, lines(LINE, ANSWER))

    def denied(self: Path, mode: str = "r") -> object:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    assert why(path) == "Permission denied"


def test_pipes_sockets_and_devices_are_never_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert why(tmp_path / "pipe") == "a named pipe, not a file"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(tmp_path / "socket"))
        assert why(tmp_path / "socket") == "a socket, not a file"
    assert why(Path("/dev/zero")) == "a device, not a file"


def test_units_in_order_and_once(tmp_path):
    for name in ("b/2.jsonl", "b/1.jsonl", "a.jsonl", ".git/x.jsonl", "node_modules/y.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        put(tmp_path, b"x", name)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "c").symlink_to(tmp_path / "b", target_is_directory=True)
    found = [str(p.relative_to(tmp_path)) for p in units([tmp_path, tmp_path / "b"])]
    assert found == ["a.jsonl", "b/1.jsonl", "b/2.jsonl"]


def test_directory_loop(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "again").symlink_to(tmp_path, target_is_directory=True)
    put(tmp_path / "in", b"x", "a.jsonl")
    assert [p.name for p in units([tmp_path])] == ["a.jsonl"]
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert "a.jsonl" in [p.name for p in units([tmp_path])]


def test_units_names_what_is_missing(tmp_path):
    assert list(units([tmp_path / "gone"])) == [tmp_path / "gone"]


def test_units_opens_nothing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert [p.name for p in units([tmp_path])] == ["pipe"]


def test_folder_that_is_no_unit(tmp_path):
    assert why(tmp_path) == "no known trajectory folder"


def test_recognised_but_nothing_to_tell(tmp_path):
    path = put(tmp_path, lines({"type": "summary", "summary": "Old", "leafUuid": "x"}))
    assert reader_of(Source(path)).FORMAT == "claude-code"
    assert why(path) == "claude-code: no conversation in it"


def test_reading_streams(tmp_path):
    """A session's records are not all held at once: only what is kept of them."""
    import tracemalloc

    pad = {"type": "user", "sessionId": "s", "isSidechain": False, "message": {"role": "user", "content": "hi"}}
    with (tmp_path / "big.jsonl").open("wb") as file:
        for number in range(2000):
            file.write(lines({**pad, "uuid": f"u{number}", "toolUseResult": {"originalFile": "x" * 10_000}}))
    tracemalloc.start()
    (found,) = read(tmp_path / "big.jsonl")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.steps) == 2000 and peak < 8 << 20


@pytest.mark.corpus
def test_every_file_of_the_corpus(shared):
    """Nothing breaks; whatever is no transcript is said to be none."""
    reasons = {}
    for path in units([shared / "corpus", shared / "fixtures"]):
        try:
            for found in read(path):
                assert found.steps and found.format and found.agent
        except Unreadable as error:
            reasons[path] = str(error)
    assert all("\n" not in r for r in reasons.values())
    metadata = [r for p, r in reasons.items() if p.name in ("metadata.json", "manifest.json")]
    assert len(metadata) > 30
    assert all(r.endswith(": JSON, but no known trajectory format") for r in metadata)
