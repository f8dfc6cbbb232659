"""What a scan writes over, and how it ends: nothing of the user's is lost, and no environment is called our fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("catalogue")
MAIN = "from misstep.cli import main; main()"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples/sessions"
"""Sessions in which the real catalogue, which a process of its own has, finds something."""


@pytest.fixture
def sessions(tmp_path: Path, making) -> Path:
    root = tmp_path / "sessions"
    making.session(root / "one.jsonl", ["ls", "echo BAD", "pwd"], id="1a2b3c4d-0000-4000-8000-000000000000")
    making.session(root / "two.jsonl", ["ls"], prompt="another task")
    return root


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize(
    "how", ["input", "in a folder of inputs", "link to an input", "hard link", "other", "read-only"]
)
def test_nothing_is_written_over(run, sessions: Path, tmp_path: Path, option: str, how: str):
    inputs, one = [sessions], sessions / "one.jsonl"
    target = tmp_path / "report"
    if how == "input":
        inputs, target = [one, sessions / "two.jsonl"], one
    elif how == "in a folder of inputs":
        target = one
    elif how == "link to an input":
        target.symlink_to(one)
    elif how == "hard link":
        target.hardlink_to(one)
    elif how == "other":
        target.write_text("<!doctype html>\n<html>my own page, about the misstep scan</html>")
    else:
        assert run("scan", sessions, option, target)[0] == 0
        target.chmod(0o444)
    before = target.read_bytes(), one.read_bytes()
    code, out, err = run("scan", *inputs, option, target)
    assert code == 2 and out == "" and err.count("\n") == 1 and str(target) in err
    assert (target.read_bytes(), one.read_bytes()) == before
    assert not list(tmp_path.rglob("*.part"))


def test_a_session_in_the_agents_own_place_is_not_written_over(run, making, own_home: Path):
    kept = making.session(own_home / ".claude/projects/-w/a.jsonl", ["ls"])
    before = kept.read_bytes()
    assert run("scan", "--html", kept)[0] == 2 and kept.read_bytes() == before


def test_a_shard_that_is_merged_is_not_written_over(run, sessions: Path, tmp_path: Path):
    run("scan", sessions, "--shard", "1/1", "--json", tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    code, _, err = run("scan", "--merge", tmp_path / "a", "--json", tmp_path / "a")
    assert code == 2 and "one of the inputs" in err and (tmp_path / "a").read_bytes() == before


def test_two_outputs_are_two_files(run, sessions: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to("new")
    for one, other in (("new", "new"), ("new", "./new"), ("link", "new"), ("/dev/stdout", "/dev/fd/1")):
        code, _, err = run("scan", sessions, "--html", f"{tmp_path / one}", "--json", f"{tmp_path / other}")
        assert code == 2 and "given for both --html and --json" in err
    assert not (tmp_path / "new").exists()


def test_its_own_files_are_written_anew_and_links_are_followed(run, sessions: Path, tmp_path: Path):
    (tmp_path / "kept").mkdir()
    for option in ("--json", "--html"):
        link, real = tmp_path / f"link{option}", tmp_path / f"kept/real{option}"
        link.symlink_to(real)
        for paths in ((sessions,), (sessions / "two.jsonl",)):
            assert run("scan", *paths, option, link)[0] == 0
            assert link.is_symlink() and real.is_file()
            first = real.read_bytes()
        other = "--html" if option == "--json" else "--json"
        assert run("scan", sessions, other, real)[0] == 2 and real.read_bytes() == first
    (tmp_path / "empty").touch()
    assert run("scan", sessions, "--json", tmp_path / "empty")[0] == 0


def test_devices(run, sessions: Path, tmp_path: Path):
    assert run("scan", sessions, "--json", "/dev/null", "--html", "/dev/null")[0] == 0
    plain = _python("scan", sessions, "--json", "-")
    for name in ("/dev/stdout", "/dev/fd/1"):
        assert _python("scan", sessions, "--json", name) == plain
        with (tmp_path / "out").open("wb") as out:
            subprocess.run([sys.executable, "-c", MAIN, "scan", sessions, "--json", name], stdout=out, check=True)
        assert (tmp_path / "out").read_text() == plain[1]
    code, out, err = _python("scan", sessions, "--html", "/dev/stdout")
    assert code == 0 and out.startswith("<!doctype html>") and out.endswith("</html>") and err == ""


def test_a_file_that_standard_output_goes_to(sessions: Path, tmp_path: Path):
    with (tmp_path / "out").open("wb") as out:
        args = [sys.executable, "-c", MAIN, "scan", sessions, "--json", tmp_path / "out"]
        done = subprocess.run(args, stdout=out, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1


def _python(*args: object, redirect: str = "") -> tuple[int, str, str]:
    command = ["sh", "-c", f'exec "$0" "$@" {redirect}', sys.executable, "-c", MAIN, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


@pytest.mark.parametrize(
    ("args", "redirect", "said"),
    [
        pytest.param(["scan"], ">/dev/full", "output: No space left on device", marks=FULL),
        pytest.param(["scan", "--json", "-"], ">/dev/full", "-: cannot be written: No space left", marks=FULL),
        pytest.param(["scan", "--json", "/dev/full"], "", "/dev/full: cannot be written: No space left", marks=FULL),
        pytest.param(["scan", "--html", "/dev/full"], "", "/dev/full: cannot be written: No space left", marks=FULL),
        pytest.param(["show"], ">/dev/full", "output: No space left on device", marks=FULL),
        (["scan"], ">&-", "output: Bad file descriptor"),
        (["scan", "--json", "-"], ">&-", "-: cannot be written: Bad file descriptor"),
        (["scan", "--json", "/dev/stdout"], ">&-", "cannot be written: Bad file descriptor"),
        (["show"], ">&-", "output: Bad file descriptor"),
        (["scan", "--json", "no/x"], "", "no/x: cannot be written: No such file"),
        (["scan", "--json", ""], "", "--json needs a file's name"),
    ],
)
def test_what_cannot_be_written_is_one_line(sessions: Path, args: list[str], redirect: str, said: str):
    code, out, err = _python(*args, sessions / "one.jsonl", redirect=redirect)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1, err


def test_closed_streams_that_are_not_needed_do_no_harm(sessions: Path, tmp_path: Path):
    assert _python("scan", sessions, "-q", "--json", tmp_path / "a", redirect=">&- 2>&- <&-") == (0, "", "")
    assert len((tmp_path / "a").read_text().splitlines()) == 4
    assert _python("scan", EXAMPLES, "-q", "--fail-on", "any", redirect="2>&-") == (1, "", "")


def test_a_reader_that_goes_away_changes_no_verdict():
    for args, expected in ((["--fail-on", "any"], 1), ([], 141), (["--json", "-", "--fail-on", "any"], 141)):
        command = [sys.executable, "-c", MAIN, "scan", str(EXAMPLES), *args]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            running.stdout.close()
            said = running.stderr.read()
            assert running.wait(30) == expected and b"fault" not in said and b"Error" not in said


def test_a_detector_that_crashed_is_no_pass(run, sessions: Path, making):
    making.session(sessions / "three.jsonl", ["echo BOOM"], prompt="a third")
    for args in (["--fail-on", "bad-word:2"], ["--fail-on", "any:5"], ["-q", "--fail-on", "bad-word:2"]):
        code, _, err = run("scan", sessions, *args)
        assert code == 3 and err.count("\n") == 1
        assert "the detector of bad-word failed on 1 session (--debug --no-index shows where)" in err
    code, _, err = run("scan", sessions, "--fail-on", "bad-word")
    assert code == 1 and err == "misstep: failed on bad-word: 1 occurrence (limit 1)\n"
    assert run("scan", sessions, "--fail-on", "scoped-word")[0] == 0
    assert run("scan", sessions)[0] == 0
    with pytest.raises(RuntimeError):
        run("scan", sessions, "--debug", "--no-index")


def test_a_reader_that_crashed_is_no_pass(run, sessions: Path, monkeypatch: pytest.MonkeyPatch):
    import misstep.trajectory.readers as readers

    real = readers.read

    def read(path):
        if str(path).endswith("two.jsonl"):
            raise ZeroDivisionError("oops")
        return real(path)

    monkeypatch.setattr(readers, "read", read)
    code, _, err = run("scan", sessions, "-q", "--no-index", "--fail-on", "any:9")
    assert code == 3 and "1 file not read: the reader failed: ZeroDivisionError: oops" in err and err.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, making, number: int, code: int):
    for n in range(8):
        making.session(tmp_path / f"s/{n}.jsonl", ["ls"] * 3, prompt=f"task {n}")
    slow = (
        "import os, signal, time, misstep.scan.read as r\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # a parent may have it ignored
        "r.IN_LINE, r._BATCH_UNITS = 0, 1\n"
        "def read_unit(path, strict):\n"
        "    open(os.environ['PIDS'] + f'/{os.getpid()}', 'w').close()\n"
        "    time.sleep(60)\n"
        "r.read_unit = read_unit\n"
    )
    pids = tmp_path / "pids"
    pids.mkdir()
    args = [
        sys.executable,
        "-c",
        slow + MAIN,
        "scan",
        tmp_path / "s",
        "--workers",
        "2",
        "--json",
        tmp_path / "out.json",
    ]
    with subprocess.Popen(args, stderr=subprocess.PIPE, env={**os.environ, "PIDS": str(pids)}) as running:
        _wait(lambda: len(list(pids.iterdir())) == 2)
        assert [p for p in tmp_path.iterdir() if p.name.endswith(".part")]
        running.send_signal(number)
        said = running.stderr.read()
        assert running.wait(20) == code and said == b""
    _wait(lambda: not any(Path(f"/proc/{p.name}").exists() for p in pids.iterdir()))
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == []


def _wait(until) -> None:
    end = time.monotonic() + 20
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_page_names_what_made_it(run, sessions: Path, tmp_path: Path):
    run("scan", sessions, "--html", tmp_path / "a.html", "--json", tmp_path / "a.jsonl")
    assert (tmp_path / "a.html").read_text().splitlines()[3].startswith('<meta name="generator" content="misstep scan ')
    assert json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["schema"] == "misstep-scan/1"
