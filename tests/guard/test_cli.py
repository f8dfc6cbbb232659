"""`misstep guard` as a person uses it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from misstep.cli.guard import command
from misstep.cli.policies import command as policies

from .conftest import Hooks, plain_rules


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "CODEX_HOME",
        "CLAUDE_CONFIG_DIR",
        "XDG_STATE_HOME",
        "MISSTEP_GUARD",
        "MISSTEP_PORTFOLIO",
        "MISSTEP_ARM",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def guard(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_install_and_uninstall(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  "model": "opus" // mine\n}\n')
    dry = guard("install", "claude-code", "--dry-run").output
    assert '+    "PreToolUse": [' in dry and "hook.py" not in settings.read_text()
    assert "is installed for claude-code" in guard("install", "claude-code").output
    assert "hook.py" in settings.read_text() and "// mine" in settings.read_text()
    assert "was installed already" in guard("install", "claude-code").output
    assert "Nothing to change." in guard("install", "claude-code", "--dry-run").output
    assert '-    "PreToolUse": [' in guard("uninstall", "claude-code", "--dry-run").output
    assert "is gone" in guard("uninstall", "claude-code").output
    assert settings.read_text() == '{\n  "model": "opus" // mine\n}\n'
    assert "was not installed" in guard("uninstall", "claude-code").output


def test_errors_are_one_line(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{broken")
    assert f"{settings}: line 1, column 2: a key" in guard("install", "claude-code", code=2).output
    assert "--trust is Codex's" in guard("install", "gemini-cli", "--trust", code=2).output
    guard("install", "no-such-host", code=2)
    (home / "p.toml").write_text('[[policy]]\nid = "none"')
    assert "p.toml: policy none: the catalogue has no policy 'none'" in guard("use", "p.toml", code=2).output


def test_a_read_only_file_is_refused(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{}")
    settings.chmod(0o444)
    told = guard("install", "claude-code", code=2).output
    assert told.count("\n") == 1 and f"{settings} is read-only" in told
    assert settings.read_text() == "{}" and settings.stat().st_mode & 0o777 == 0o444
    assert not (home / "state").exists()
    settings.chmod(0o644)
    guard("install", "claude-code")
    settings.chmod(0o444)
    once = settings.read_text()
    assert "was installed already" in guard("install", "claude-code").output
    assert "is read-only" in guard("uninstall", "claude-code", code=2).output
    assert settings.read_text() == once


@pytest.mark.parametrize("text", ["null", "[]", '"x"'])
def test_a_file_that_is_no_object_is_refused_in_one_line(home: Path, text: str) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(text)
    told = {guard(word, "claude-code", code=2).output for word in ("install", "uninstall")}
    assert len(told) == 1 and told.pop().endswith(f"{settings}: the file is no object\n")


def test_codex_says_how_to_trust() -> None:
    assert "skips hooks silently" in guard("install", "codex").output
    assert "skips hooks silently" not in guard("install", "codex", "--trust").output


def test_status_and_modes(home: Path) -> None:
    guard("install", "claude-code")
    told = guard("status").output
    assert "Mode: enforce" in told and "claude-code  user     yes" in told and "gemini-cli   user     no" in told
    assert "service-persistence" in told
    guard("mode", "observe")
    assert "Mode: observe" in guard("status").output
    path = home / "state" / "guard" / "settings.json"
    assert json.loads(path.read_text()) == {"mode": "observe"} and path.stat().st_mode & 0o777 == 0o600
    (home / "p.toml").write_text('[[policy]]\nid = "latex-final-log"\nmode = "observe"')
    assert "1 policies from" in guard("use", "p.toml").output
    told = guard("status").output
    assert "latex-final-log" in told and "service-persistence" not in told
    guard("use")
    assert "service-persistence" in guard("status").output
    assert json.loads(path.read_text()) == {"mode": "observe"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"mode": "off",\n}',
            ":2: not JSON: Illegal trailing comma" if sys.version_info >= (3, 13) else ":2: not JSON: ",
        ),
        ("[]", ": not a JSON object"),
        ("", None),
        (b'{"mode": "\xff"}', ": not UTF-8"),
    ],
)
def test_damaged_settings_are_said_and_kept(home: Path, hooks: Hooks, text: str | bytes, said: str | None) -> None:
    path = home / "state" / "guard" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(data := text.encode() if isinstance(text, str) else text)
    warned = f"Warning: {path} is no JSON object that can be read: nothing in it counts"
    assert warned in guard("status").output
    hooks.prompt("p")
    assert hooks.log()[0]["mode"] == "enforce"
    assert hooks.faults() == [f"{warned.removeprefix('Warning: ')}: the mode is enforce"]
    if said is None:  # an empty file holds nothing to lose
        guard("mode", "observe")
        assert json.loads(path.read_text()) == {"mode": "observe"}
        return
    told = guard("mode", "observe", code=2).output
    assert f"{path}{said}" in told and "mend it, or delete it" in told and told.count("\n") == 1
    assert path.read_bytes() == data and [p.name for p in path.parent.glob("settings*")] == ["settings.json"]


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("OFF", "off"),
        ("0", "off"),
        ("false", "off"),
        ("No", "off"),
        ("Observe", "observe"),
        ("on", "enforce"),
        ("1", "enforce"),
        ("", "observe"),
        ("bogus", "observe"),
    ],
)
def test_the_mode_in_the_environment(
    home: Path, hooks: Hooks, monkeypatch: pytest.MonkeyPatch, value: str, mode: str
) -> None:
    guard("mode", "enforce" if mode == "off" else "observe")
    monkeypatch.setenv("MISSTEP_GUARD", value)
    told = guard("status").output
    assert f"Mode: {mode} " in told
    assert ("Warning: $MISSTEP_GUARD says 'bogus'" in told) == (value == "bogus")
    hooks.env["MISSTEP_GUARD"] = value
    hooks.prompt("p")
    hooks.call("ls")
    assert (hooks.folder() / "log.jsonl").exists() == (mode != "off")
    if mode != "off":
        assert hooks.log()[0]["mode"] == mode
    assert len(hooks.faults()) == (value == "bogus")


@pytest.mark.parametrize("words", [("install", "claude-code"), ("mode", "observe")])
def test_the_state_is_the_users_alone(home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.delenv("MISSTEP_HOME")
    former = os.umask(0o022)
    try:
        guard(*words)
    finally:
        os.umask(former)
    state = home / ".local" / "state" / "misstep"
    assert state.is_dir()
    for path in (state, *state.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_doctor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = home / "bin"
    programs.mkdir()
    claude = programs / "claude"
    claude.write_text("#!/bin/sh\necho '2.1.332 (Claude Code)'\n")
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert "not installed (`misstep guard install claude-code`)" in guard("doctor", "claude-code", code=1).output
    guard("install", "claude-code")
    told = guard("doctor", "claude-code").output
    assert "is version 2.1.332" in told and "installed: yes" in told and "canary: the hook ran" in told
    assert "no session of this host was guarded yet" in told
    claude.write_text("#!/bin/sh\necho '2.0.1 (Claude Code)'\n")
    settings = home / ".claude" / "settings.json"
    found = json.loads(settings.read_text())
    del found["hooks"]["Stop"]
    settings.write_text(json.dumps(found | {"disableAllHooks": True}))
    told = guard("doctor", "claude-code", code=1).output
    assert (
        "hooks were tried from 2.1.197 on" in told and "installed: partly" in told and "disableAllHooks is set" in told
    )


def test_log(home: Path, hooks: Hooks) -> None:
    assert "No session was guarded yet." in guard("log").output
    hooks.use(plain_rules(), wrapper="{text} token=ghp_0123456789abcdefghijABCDEFGHIJ012345")
    hooks.prompt("Go carefully.\x1b[31m", session="abc-1")
    hooks.call("remove \x1b]0;title\x07 it", "a", session="abc-1")
    hooks.call("ls", "b", session="abc-1")
    hooks.result("ls", "b", session="abc-1")
    hooks.stop("Done <b>now</b>.", session="abc-1")
    hooks.raw(b"no json")
    told = guard("log").output
    assert "abc-1  2 calls, 1 stops, 2 fired, 2 intervened" in told
    assert "1 hook runs gave no answer; the last: ValueError" in told
    told = guard("log", "abc").output
    assert "eligible for plain/at-stop: carefully" in told
    assert "#1 plain/deny-first, plain/deny-second (held back): denied" in told
    assert "at    Bash: remove" in told and "told  First denial." in told and "then  Bash: ls" in told
    assert "plain/at-stop: instructed" in told
    assert "\x1b" not in told and "\x07" not in told and "ghp_0123" not in told
    assert "result of Bash: ls -> exit 0" in guard("log", "abc", "--all").output
    assert "no guarded session 'zzz'" in guard("log", "zzz", code=2).output
    page = home / "log.html"
    assert "1 sessions are written to" in guard("log", "abc", "--html", str(page)).output
    text = page.read_text()
    assert "plain/deny-first" in text and "First denial." in text and "Done &lt;b&gt;now&lt;/b&gt;." in text
    assert (
        "\x1b" not in text
        and "ghp_0123" not in text
        and "<script" not in text
        and "http" not in text.split("<body>")[1]
    )
    guard("log", "--html", str(page))
    assert "no guarded session" in guard("log", "zzz", "--html", str(page), code=2).output


@pytest.mark.parametrize(
    ("alias", "host"),
    [("claude", "claude-code"), ("qwen", "qwen-code"), ("gemini", "gemini-cli"), ("copilot", "copilot-cli")],
)
def test_a_host_by_the_name_of_its_program(home: Path, alias: str, host: str) -> None:
    assert f"is installed for {host}" in guard("install", alias).output
    assert "was installed already" in guard("install", host).output
    assert f"{host}" in guard("doctor", alias).output
    assert f"is gone for {host}" in guard("uninstall", alias).output
    assert "'clawd' is not one of 'claude-code'" in guard("install", "clawd", code=2).output


def test_a_beginning_of_several_sessions_names_them(home: Path, hooks: Hooks) -> None:
    for session in ("abc-1", "abc-2", "abc"):
        hooks.prompt("Go.", session=session)
        hooks.call("ls", session=session)
    told = guard("log", "ab", code=2).output
    assert told.count("\n") == 1 and told.startswith("Error: 'ab' begins 3 sessions: ")
    assert all(f"{name} (claude-code)" in told for name in ("abc-1", "abc-2", "abc"))
    assert guard("log", "ab", "--html", str(home / "x.html"), code=2).output == told
    assert not (home / "x.html").exists()
    assert "abc  1 calls" in guard("log", "abc").output and "abc-1" not in guard("log", "abc").output  # the whole id
    hooks.host = "codex"
    hooks.prompt("Go.", session="abc-1")
    told = guard("log", "abc-1", code=2).output
    assert "abc-1 (codex)" in told and "abc-1 (claude-code)" in told


@pytest.mark.parametrize("words", [("replay",), ("propose", "service-persistence")])
def test_paths_without_sessions_are_an_error(home: Path, words: tuple[str, ...]) -> None:
    def said(path: str) -> str:
        done = CliRunner().invoke(policies, [*words, path])
        assert done.exit_code == 2 and done.output.count("\n") == 1, done.output
        return done.output

    assert said("nosuch") == "Error: nosuch: no such file or folder\n"
    (home / "empty").mkdir()
    assert said("empty") == "Error: empty: no session of an agent in it\n"
    (home / "empty" / "notes.jsonl").write_text("hello\n")
    assert said("empty").startswith("Error: empty: no session of an agent in it; 1 files are none, the last: ")


@pytest.mark.parametrize("text", ["policy = 3", 'policy = ["x"]', "[policy]\nfile = 1", "[[policy]]\nfile = 3", "["])
def test_trusting_what_is_no_portfolio(home: Path, text: str) -> None:
    (home / ".misstep").mkdir()
    (home / ".misstep" / "portfolio.toml").write_text(text)
    done = CliRunner().invoke(policies, ["trust"])
    assert done.exit_code == 2 and done.output.startswith(f"Error: {home}/.misstep/portfolio.toml: "), done.output
    assert done.output.count("\n") == 1 and not (home / "state").exists()


@pytest.mark.parametrize("words", [("install", "claude-code"), ("mode", "observe"), ("use",), ("use", "p.toml")])
def test_a_file_in_the_place_of_the_state_is_what_is_blamed(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.delenv("MISSTEP_HOME")
    (home / ".local").write_text("a file")
    (home / "p.toml").write_text('[[policy]]\nid = "service-persistence"\n')
    assert guard(*words, code=2).output == f"Error: {home}/.local is no folder\n"
    assert not (home / ".claude").exists() and (home / ".local").read_text() == "a file"


@pytest.mark.parametrize("text", ["", "{}", '{"mode": 3}'])
def test_settings_of_ours_that_say_nothing_are_written_anew(home: Path, text: str) -> None:
    path = home / "state" / "guard" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    guard("mode", "observe")
    assert json.loads(path.read_text()) == {"mode": "observe"}


def test_the_daemon_is_started_and_stopped(home: Path) -> None:
    assert guard("daemon", "--stop").output == "No daemon runs.\n"
    told = guard("daemon").output
    process = int(told.split("process ")[1].split(".")[0])
    assert "`misstep guard daemon --stop` ends it" in told
    try:
        assert (home / "state" / "guard" / "daemon").exists()
        assert guard("daemon", "--stop").output == "The daemon ends within ten seconds.\n"
        assert not (home / "state" / "guard" / "daemon").exists()
        assert guard("daemon", "--stop").output == "No daemon runs.\n"
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
