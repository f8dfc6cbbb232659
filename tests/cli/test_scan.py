"""`misstep scan`, as a person or a CI job runs it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("catalogue")


@pytest.fixture
def sessions(tmp_path: Path, making) -> Path:
    root = tmp_path / "sessions"
    making.session(root / "one.jsonl", ["ls", "echo BAD", "pwd"], id="1a2b3c4d-0000-4000-8000-000000000000")
    making.session(root / "two.jsonl", ["ls"], prompt="another task", day="2026-05-01")
    return root


def test_the_summary(run, sessions: Path):
    code, out, err = run("scan", sessions)
    assert code == 0 and err == ""
    assert "2 sessions · 4 agent steps · 4 calls   2026-03-01 to 2026-05-01" in out
    assert "1 of 2 sessions (50%) hold at least one misstep" in out
    assert "uses a bad word in a command" in out and "misstep show 1a2b3c4d#" in out
    assert "Policies that would have stepped in" in out and "deny" in out
    assert "preview-word" not in out


def test_the_proposed_command_works(run, sessions: Path):
    out = run("scan", sessions)[1]
    command = next(line.split("misstep show ")[1].split()[0] for line in out.splitlines() if "misstep show " in line)
    code, shown, _ = run("show", command)
    assert code == 0 and "✗ The agent uses a bad word in a command." in shown and "$ echo BAD" in shown


@pytest.mark.parametrize("way", ["no index", "unwritable index", "merged"])
def test_the_proposed_commands_work_without_an_index(run, sessions: Path, tmp_path: Path, monkeypatch, way: str):
    args: list[object] = [sessions, "--html", tmp_path / "a.html"]
    if way == "no index":
        args.append("--no-index")
    elif way == "unwritable index":
        (tmp_path / "file").touch()
        monkeypatch.setenv("MISSTEP_CACHE_DIR", str(tmp_path / "file/below"))
    else:
        run("scan", sessions, "--no-index", "--shard", "1/1", "--json", tmp_path / "shard")
        args[:1] = ["--merge", tmp_path / "shard"]
    out = run("scan", *args)[1]
    command = next(line.split("misstep show ")[1].split()[0] for line in out.splitlines() if "misstep show " in line)
    assert command.startswith(str(sessions)) and run("show", command)[0] == 0
    assert str(sessions / "one.jsonl") + '","id"' in (tmp_path / "a.html").read_text()


def test_the_proposed_command_for_a_page_is_that_of_the_scan(run, sessions: Path, tmp_path: Path):
    out = run("scan", sessions, "--preview", "--misstep", "bad-word")[1]
    assert f"misstep scan {sessions} --preview --misstep bad-word --html report.html" in out
    shown = run("show", sessions / "one.jsonl")[1]
    assert f"misstep show {sessions / 'one.jsonl'}#2   opens the first" in shown and "1 missteps" not in shown


def test_no_path_reads_the_agents_own_places(run, making, own_home: Path):
    making.session(own_home / ".claude/projects/-work/a.jsonl", ["echo BAD"])
    code, out, err = run("scan")
    assert code == 0 and "found Claude Code: ~/.claude/projects" in err and "1 of 1 sessions (100%)" in out


def test_no_path_and_nothing_there(run):
    code, out, err = run("scan")
    assert code == 2 and err.startswith("misstep: no sessions found") and err.count("\n") == 1 and out == ""
    for place in ("~/.claude/projects", "~/.codex/sessions", "~/.gemini/tmp/*/chats", "opencode/opencode*.db"):
        assert place in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["missing"], "missing: no such file or folder"),
        (["--misstep", "nope", "."], "no misstep 'nope'"),
        (["--fail-on", "nope", "."], "no misstep 'nope'"),
        (["--fail-on", "bad-word:x", "."], "expected ID, ID:N"),
        (["--fail-on", "bad-word:0", "."], "expected ID, ID:N"),
        (["--since", "yesterday", "."], "expected a date"),
        (["--since", "2026-13-45", "."], "expected a date"),
        (["--shard", "3/2", "--json", "-", "."], "expected I/N"),
        (["--shard", "1/2", "."], "--shard needs --json"),
        (["--merge"], "--merge needs"),
        (["--merge", "--agent", "codex", "x"], "--merge takes no filters"),
        (["--html", "-", "."], "--html needs"),
        (["--json", "no/such/folder/x.json", "."], "cannot be written"),
        (["--html", "/", "."], "cannot be written"),
        (["--merge", "missing.jsonl"], "No such file"),
        (["--nonsense", "."], "No such option '--nonsense'"),
        (["--workers", "0", "."], "--workers 0: expected a number of processes, from 1"),
        (["--workers", "x", "."], "--workers x: expected a number of processes, from 1"),
        (["--merge", "--shard", "1/2", "x"], "--shard does not go with --merge"),
        ([""], "a path is empty"),
        (
            ["--agent", "nope", "."],
            "--agent nope: no such agent: known are claude-code, codex, copilot-cli, gemini-cli",
        ),
        (["--agent", "codex", "--agent", "Klaude", "."], "--agent klaude: no such agent"),
        (["--agent", "", "."], "no such agent"),
        (["--json"], "requires an argument"),
    ],
)
def test_bad_requests_are_one_line(run, sessions: Path, monkeypatch, args: list[str], message: str):
    monkeypatch.chdir(sessions)
    code, out, err = run("scan", *args)
    assert code == 2 and message in err and err.count("\n") == 1 and "Traceback" not in err and out == ""


def test_an_answer_about_nothing_is_no_clean_bill(run, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    code, _, err = run("scan", tmp_path / "empty")
    assert code == 2 and "no session to count" in err and "it is empty" in err
    (tmp_path / "notes.txt").write_text("hello")
    code, _, err = run("scan", tmp_path, "--fail-on", "any")
    assert code == 2 and "1 × no known trajectory format" in err


def test_filters_that_leave_nothing_say_so(run, sessions: Path):
    code, _, err = run("scan", sessions, "--agent", "codex")
    assert code == 2 and "2 left out by --agent" in err


def test_since_and_agent_and_misstep(run, sessions: Path):
    assert "  1 session · 1 agent step" in run("scan", sessions, "--since", "2026-04-01")[1]
    assert "1 session left out by --since" in run("scan", sessions, "--since", "2026-04-01")[1]
    for name in ("claude", "claude-code", "Claude Code"):
        assert "2 sessions" in run("scan", sessions, "--agent", name)[1]
    assert "preview-word" in run("scan", sessions, "--misstep", "preview-word")[1]
    assert "preview-word" in run("scan", sessions, "--preview")[1]


def test_nothing_that_recent_is_no_error(run, sessions: Path, tmp_path: Path):
    code, out, err = run("scan", sessions, "--since", "2027-01-01", "--fail-on", "any", "--json", tmp_path / "a")
    assert (code, err) == (0, "") and out == "no session since 2027-01-01 (2 left out: since)\n"
    assert json.loads((tmp_path / "a").read_text().splitlines()[-1])["sessions"] == 0
    assert run("scan", sessions, "--since", "2027-01-01", "-q") == (0, "", "")
    (tmp_path / "empty").mkdir()
    assert run("scan", tmp_path / "empty", "--since", "2027-01-01")[0] == 2


def test_an_agent_that_only_the_sessions_name(run, sessions: Path, making):
    folder = making.trial(sessions / "t", ["ls"], 1.0, task="t")
    path = folder / "agent/trajectory.json"
    path.write_text(path.read_text().replace('"name": "codex"', '"name": "My Agent"'))
    assert "  1 session · " in run("scan", sessions, "--agent", "my agent")[1]


def test_fail_on(run, sessions: Path):
    assert run("scan", sessions, "--fail-on", "any")[0] == 1
    code, _, err = run("scan", sessions, "-q", "--fail-on", "bad-word", "--fail-on", "any:2")
    assert code == 1 and err == "misstep: failed on bad-word: 1 occurrence (limit 1)\n"
    assert run("scan", sessions, "--fail-on", "bad-word:2")[0] == 0
    assert run("scan", sessions, "--fail-on", "preview-word")[0] == 0


def test_json(run, sessions: Path, tmp_path: Path):
    code, out, err = run("scan", sessions, "--json", "-")
    assert code == 0 and err == ""
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["kind"] for line in lines] == ["header", "trajectory", "trajectory", "summary"]
    run("scan", sessions, "--json", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == out
    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o600
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".out")]


def test_shards_and_merge(run, sessions: Path, tmp_path: Path):
    whole = run("scan", sessions, "--json", "-")[1]
    parts = []
    for i in (1, 2, 3):
        parts.append(tmp_path / f"part {i}.jsonl")
        code, out, _ = run("scan", sessions, "--shard", f"{i}/3", "--json", parts[-1], "--workers", 1)
        assert code == 0 and out.startswith(f"shard {i}/3: ")
    assert run("scan", "--merge", *parts, "--json", "-")[1] == whole
    merged = run("scan", "--merge", *parts)
    assert merged[0] == 0 and "1 of 2 sessions (50%)" in merged[1]
    assert run("scan", "--merge", *parts, "--fail-on", "any")[0] == 1
    parts[1].write_bytes(parts[1].read_bytes()[:-5])
    code, _, err = run("scan", "--merge", *parts)
    assert code == 2 and "part 2.jsonl: line" in err and err.count("\n") == 1


def test_quiet(run, sessions: Path):
    assert run("scan", sessions, "--quiet") == (0, "", "")


def test_a_failed_scan_leaves_no_file(run, sessions: Path, tmp_path: Path):
    (tmp_path / "out.json").write_text("before")
    assert run("scan", sessions / "missing", "--json", tmp_path / "out.json")[0] == 2
    assert (tmp_path / "out.json").read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "sessions"]


def test_no_index_leaves_nothing_behind(run, sessions: Path, own_home: Path):
    assert run("scan", sessions, "--no-index")[0] == 0
    assert list(own_home.iterdir()) == []
    assert run("scan", sessions)[0] == 0
    assert (own_home / "cache/scan.sqlite").exists()


def test_a_damaged_index_changes_nothing(run, sessions: Path, own_home: Path):
    first = run("scan", sessions, "--json", "-")
    (own_home / "cache/scan.sqlite").write_bytes(b"\xde\xad" * 4000)
    assert run("scan", sessions, "--json", "-") == first
    assert run("scan", sessions, "--json", "-") == first


def test_bad_sessions_are_counted_not_fatal(run, sessions: Path):
    good = (sessions / "one.jsonl").read_bytes()
    for name, data in {
        "empty.jsonl": b"",
        "nul.jsonl": b"\0" * 1000,
        "binary.jsonl": bytes(range(256)) * 50,
        "cut.jsonl": good[: len(good) // 2],
        "utf8.jsonl": good.replace(b"pwd", b"p\xffd"),
        "deep.json": b"[" * 100_000,
        "deep.jsonl": b'{"type":"user","a":' * 50_000,
        "words.jsonl": b"hello world\n" * 100,
        "nulls.jsonl": b"null\n" * 10,
        "wrong.jsonl": b'{"type":"assistant","sessionId":3,"message":{"role":"assistant","content":7}}\n' * 3,
    }.items():
        (sessions / name).write_bytes(data)
    (sessions / "loop").symlink_to(sessions)
    (sessions / "dangling.jsonl").symlink_to("nowhere")
    os.mkfifo(sessions / "pipe.jsonl")
    code, out, err = run("scan", sessions, "--workers", 1)
    assert code == 0 and err == "" and "Traceback" not in out
    assert "Not counted" in out and "uses a bad word in a command" in out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(run, sessions: Path):
    (sessions / "two.jsonl").chmod(0)
    code, out, _ = run("scan", sessions)
    assert code == 0 and "1 file: Permission denied" in out
    (sessions / "two.jsonl").chmod(0o600)
    assert "2 sessions" in run("scan", sessions)[1]


def test_a_fault_of_our_own_is_one_line_and_debug_shows_it(run, sessions: Path, monkeypatch):
    import misstep.scan.summary as summary

    def broken(*args):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(summary, "summarise", broken)
    code, _, err = run("scan", sessions)
    assert code == 3 and err.count("\n") == 1 and "ZeroDivisionError: oops (--debug shows where)" in err
    with pytest.raises(ZeroDivisionError):
        run("scan", sessions, "--debug")


def test_an_interruption(run, sessions: Path, monkeypatch):
    import misstep.cli._scanning as module

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "scan", interrupted)
    assert run("scan", sessions) == (130, "", "\nmisstep: interrupted\n")


def test_an_interruption_keeps_what_was_read(sessions: Path, making, own_home: Path, tmp_path: Path):
    """Half of the sessions are read, then Ctrl-C: the next scan goes on from there, and no worker complains."""
    for n in range(40):
        making.session(tmp_path / f"many/{n}.jsonl", ["ls"] * 3, prompt=f"task {n}")
    code = (
        "import os, signal, misstep.scan.read as r\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a parent may have it ignored
        "r.IN_LINE, r._BATCH_UNITS = 0, 1\n"
        "import misstep.scan.index as i; i._WRITTEN_AT_ONCE = 1\n"
        "real = i.Index.put\n"
        "def put(self, *args):\n"
        "    real(self, *args)\n"
        "    put.n += 1\n"
        "    if put.n == 20: os.killpg(0, signal.SIGINT)\n"
        "put.n = 0; i.Index.put = put\n"
        "from misstep.cli import main; main()"
    )
    args = [sys.executable, "-c", code, "scan", str(tmp_path / "many"), "--workers", "2"]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nmisstep: interrupted\n")
    from misstep.scan.index import Index

    with Index() as index:
        assert len(index.sessions("")) == 0 and index._db is not None
        assert index._db.execute("SELECT count(*) FROM unit").fetchone()[0] >= 20


def test_a_reader_that_goes_away(sessions: Path):
    code = "from misstep.cli import main; main()"
    args = [sys.executable, "-c", code, "scan", str(sessions), "--json", "-"]
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.stderr.read() == b"" and running.wait(30) == 141


def test_text_of_a_transcript_cannot_drive_the_terminal(run, tmp_path: Path, making):
    nasty = "echo BAD \x1b[31mred\x1b]0;title\x07 [bold]x[/bold] :smile: \u202eabc \x9b2J"
    making.session(tmp_path / "s.jsonl", [nasty], id="[bold]\x1b[2J", prompt=nasty)
    for args in (("scan", tmp_path), ("show", tmp_path / "s.jsonl#1"), ("show", tmp_path / "s.jsonl")):
        code, out, err = run(*args)
        assert code == 0, err
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out + err)
    assert "␛[31mred" in out and "[bold]x[/bold] :smile:" in out


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_it_fits_the_terminal(run, sessions: Path, making, monkeypatch, width: int):
    making.session(sessions / "long.jsonl", ["echo BAD " + "x" * 400], prompt="y" * 300)
    monkeypatch.setenv("COLUMNS", str(width))
    out = run("scan", sessions, "--preview")[1]
    longest = max((line for line in out.splitlines() if "--html" not in line), key=len)
    assert len(longest) <= width, longest


def _python(code: str, *args: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=60,
    )


def test_start_up_loads_little():
    code = (
        "import sys; from misstep.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules} & {'rich','jinja2','numpy','sqlite3','yaml','scipy','harbor'}))"
    )
    assert _python(code, "--version").stdout.splitlines() == ["misstep 0.1.0", ""]
    done = _python(code, "--help")
    assert "Commands:" in done.stdout and done.stdout.splitlines()[-1] == ""


def test_version_takes_less_than_150_ms():
    code = "import time; s = time.process_time(); from misstep.cli import group\ngroup(['--version'], standalone_mode=False)\nprint(time.process_time() - s)"
    assert min(float(_python(code).stdout.split()[-1]) for _ in range(3)) < 0.15


def test_a_second_scan_loads_next_to_nothing(sessions: Path):
    code = (
        "import sys; from misstep.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted(m for m in sys.modules if m.startswith(('misstep.trajectory', 'misstep.catalogue', 'misstep.shell'))))"
    )
    code = code.replace("'misstep.shell'", "'misstep.shell', 'click', 'typing', 'pathlib', 'dataclasses', 'rich'")
    args = ("scan", sessions, "-q", "--preview", "--workers", 1)
    assert "misstep.catalogue" in _python(code, *args).stdout
    again = _python(code, *args)
    assert again.returncode == 0 and again.stdout.strip() == ""


def test_a_terminal_that_knows_no_unicode(sessions: Path):
    done = _python(
        "from misstep.cli import main; main()", "scan", sessions, "--preview", PYTHONIOENCODING="ascii", LC_ALL="C"
    )
    assert done.returncode == 0 and "2 sessions" in done.stdout


def test_no_arguments_is_help(run):
    code, out, err = run()
    assert code == 0 and err == "" and out.startswith("Usage: misstep") and "catalogue" in out


def test_completion(run, monkeypatch):
    monkeypatch.setenv("_MISSTEP_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "misstep ca")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "catalogue" in run()[1]


@pytest.mark.corpus
@pytest.mark.slow
def test_every_file_of_the_corpus(run, shared: Path, monkeypatch):
    monkeypatch.undo()
    code, out, err = run("scan", shared / "corpus", "--no-index", "--preview", "--json", "-")
    assert code == 0 and err == ""
    lines = [json.loads(line) for line in out.splitlines()]
    assert not lines[-1]["not_counted"]["detector_errors"]
    failed = [line for line in lines if line["kind"] == "skipped" and "the reader failed" in line["reason"]]
    assert failed == []
    assert lines[-1]["sessions"] >= 80
