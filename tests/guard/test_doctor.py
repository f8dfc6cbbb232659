"""`misstep guard doctor`: it says what keeps the guard from working, and proves that it works with the real programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from misstep.cli.guard import command
from misstep.guard.hosts import NAMES, host
from misstep.guard.install import config_file

from .agents import Agent
from .conftest import Hooks

PROGRAMS = {"claude-code": "claude", "codex": "codex", "qwen-code": "qwen", "gemini-cli": "gemini"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "MISSTEP_GUARD", "MISSTEP_PORTFOLIO"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def guard(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def a_program(home: Path, name: str, version: str, then: str = ":") -> None:
    path = home / "bin" / name
    path.write_text(f'#!/bin/sh\ncase "$1" in --version) echo {version};; *) {then};; esac\n')
    path.chmod(0o755)


def test_nothing_installed_is_said(home: Path) -> None:
    told = guard("doctor", code=1)
    assert "BAD  in no agent (none is on the PATH): `misstep guard install HOST`" in told
    a_program(home, "gemini", "0.61.0")
    a_program(home, "claude", "2.1.332")
    told = guard("doctor", code=1)
    assert "in no agent (on the PATH: claude-code, gemini-cli): `misstep guard install claude-code`" in told
    guard("install", "claude-code")
    assert "in no agent" not in guard("doctor")


def test_the_mode_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard("install", "claude-code")
    assert "ok   12 policies of the catalogue, mode enforce" in guard("doctor")
    guard("mode", "off")
    assert "BAD  the mode is off (`misstep guard mode`): hooks log nothing and do nothing" in guard("doctor", code=1)
    guard("mode", "observe")
    assert "?    the mode is observe (`misstep guard mode`)" in guard("doctor")
    monkeypatch.setenv("MISSTEP_GUARD", "0")
    assert "BAD  the mode is off ($MISSTEP_GUARD)" in guard("doctor", "claude-code", code=1)
    monkeypatch.setenv("MISSTEP_GUARD", "perhaps")
    assert "BAD  $MISSTEP_GUARD says 'perhaps', which is no mode" in guard("doctor", code=1)


def test_a_portfolio_that_cannot_be_used_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard("install", "claude-code")
    monkeypatch.setenv("MISSTEP_PORTFOLIO", str(home / "none.toml"))
    assert f"BAD  no policy acts: {home}/none.toml: No such file" in guard("doctor", code=1)
    (home / "none.toml").write_text('[[policy]]\nid = "service-persistence"\nmode = "off"\n')
    assert f"BAD  0 policies of {home}/none.toml" in guard("doctor", code=1)


def test_a_policy_whose_file_cannot_be_used_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard("install", "claude-code")
    (home / "mine.py").write_text("1 / 0\n")
    path = home / "p.toml"
    path.write_text('[[policy]]\nid = "service-persistence"\n[[policy]]\nid = "mine"\nfile = "mine.py"\n')
    monkeypatch.setenv("MISSTEP_PORTFOLIO", str(path))
    told = guard("doctor", code=1)
    assert f"ok   1 policies of {path}, mode enforce" in told
    assert f"BAD  policy mine is put aside: policy mine: file: {home}/mine.py: ZeroDivisionError" in told


def test_a_state_that_cannot_be_written_names_what_is_in_the_way(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard("install", "claude-code")
    monkeypatch.delenv("MISSTEP_HOME")
    (home / ".local").write_text("a file")
    told = guard("doctor", code=1)
    assert f"BAD  {home}/.local is no folder: hooks can write no log in {home}/.local/state/misstep/guard" in told


def test_hook_runs_without_an_answer_are_said(home: Path, hooks: Hooks) -> None:
    guard("install", "claude-code")
    hooks.env["MISSTEP_HOME"] = str(home / "state")
    hooks.raw(b"no json")
    assert "?    1 hook runs gave no answer; the last: ValueError" in guard("doctor")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_listed_once_in_the_home(home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    guard("install", name)
    assert guard("doctor", name).count(": installed: yes") == 1
    told = [line for line in guard("status").splitlines() if line.startswith(name)]
    assert len(told) <= 2 - (name not in ("opencode", "copilot-cli", "pi")), told


@pytest.mark.parametrize("name", NAMES)
def test_both_scopes_are_said_where_events_come_twice(home: Path, name: str) -> None:
    """As the real programs do, see test_an_event_comes_as_often_as_is_said."""
    mark = {"claude-code": "", "qwen-code": "", "gemini-cli": "", "copilot-cli": "?   ", "cursor": "?   "}.get(
        name, "BAD "
    )
    assert "It is installed for" not in guard("install", name)
    told = guard("install", name, "--scope", "project")
    assert ("It is installed for the user too" in told) == bool(mark)
    told = guard("doctor", code=1 if mark == "BAD " else 0)
    assert told.count("installed: yes") == 2 and told.count("canary: the hook ran") == 1
    assert (f"{mark} installed for the user and for the project" in told) == bool(mark)
    assert ("installed for the user and" in told) == bool(mark)


@pytest.mark.parametrize(
    "place", [".claude/settings.json", "work/.claude/settings.json", ".claude/settings.local.json"]
)
def test_hooks_that_are_switched_off_in_claude_code(home: Path, place: str) -> None:
    guard("install", "claude-code")
    path = home / place
    path.parent.mkdir(exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    path.write_text("\ufeff" + json.dumps(found | {"disableAllHooks": True}))
    assert f"BAD  {path}: disableAllHooks is set" in guard("doctor", code=1)


@pytest.mark.parametrize("name", ["gemini-cli", "qwen-code"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hooksConfig": {"enabled": False}}, "hooksConfig.enabled is false"),
        ({"hooksConfig": {"disabled": ["x", "misstep-guard"]}}, "hooksConfig.disabled names misstep-guard"),
        ({"hooksConfig": {"enabled": True, "disabled": ["x"]}}, ""),
        ({"hooksConfig": []}, ""),
    ],
)
def test_hooks_that_are_switched_off_in_gemini_and_qwen(home: Path, name: str, given: object, said: str) -> None:
    guard("install", name)
    path = home / ("." + name.partition("-")[0]) / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | given))  # type: ignore[operator]
    told = guard("doctor", code=1 if said else 0)
    assert (f"BAD  {path}: {said}" in told) if said else "BAD" not in told


@pytest.mark.parametrize("place", [".codex", "work/.codex"])
@pytest.mark.parametrize("key", ["hooks", "codex_hooks"])
def test_hooks_that_are_switched_off_in_codex(home: Path, place: str, key: str) -> None:
    guard("install", "codex")
    path = home / place / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"[features]\n{key} = false\n")
    assert f"BAD  {path}: features.{key} is false" in guard("doctor", code=1)
    path.write_text(f"[features]\n{key} = true\n")
    assert "BAD" not in guard("doctor")
    path.write_text("features = 3\n")
    assert "BAD" not in guard("doctor")


@pytest.mark.parametrize("name", ["copilot-cli", "cursor"])
def test_a_host_that_cannot_be_run_here_says_why(home: Path, name: str) -> None:
    guard("install", name)
    assert "--live: " in guard("doctor", name, "--live") and "is not on the PATH, so it" in guard("doctor", "--live")
    a_program(home, {"copilot-cli": "copilot", "cursor": "cursor-agent"}[name], "9.0.0")
    assert f"?    --live: {name} talks to its vendor's model service alone" in guard("doctor", name, "--live")


def test_a_program_that_fails_live_is_bad(home: Path) -> None:
    guard("install", "claude-code")
    a_program(home, "claude", "2.1.332", "echo it is broken >&2; exit 4")
    told = guard("doctor", "--live", code=1)
    assert "BAD  a real session ended with 4 before its hooks told anything: it is broken" in told
    a_program(home, "claude", "2.1.332", "exit 0")
    assert "BAD  a real session of one turn ran, and its hooks did not (no event)" in guard("doctor", "--live", code=1)


# -- the real programs ------------------------------------------------------------------------------------------------

REAL = {
    "codex-0.146": ("codex", "codex-0.146.0"),
    "codex-newest": ("codex", "codex-newest"),
    "claude-code": ("claude-code", "claude-code-2.1.332"),
    "qwen-code": ("qwen-code", "qwen-code"),
    "gemini-cli": ("gemini-cli", "gemini-cli"),
    "opencode": ("opencode", "opencode"),
    "pi": ("pi", "pi"),
}


def real(name: str, folder: Path) -> Agent:
    agent = Agent(*REAL[name], folder)
    (folder / "bin").mkdir()
    (folder / "bin" / PROGRAMS.get(agent.host, agent.host)).symlink_to(agent.program)
    node = agent.program.parent  # a newer node than others need lies beside the program
    agent.env["PATH"] = f"{folder / 'bin'}:{node}:{os.environ['PATH']}"
    return agent


FLEW = "its prompt and its stop came through the hooks"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["opencode", "pi"])
def test_live_with_a_plugin(name: str, tmp_path: Path) -> None:
    agent = real(name, tmp_path)
    try:
        agent.install()
        told = agent.guard("doctor", agent.host, "--live", check=False)
        assert told.returncode == 0 and FLEW in told.stdout, told.stdout + told.stderr
        assert not agent.logs()
        plugin = next(agent.folder.rglob("misstep-guard.*"))
        plugin.rename(plugin.with_suffix(".off"))
        plugin.mkdir()  # what is there is no plugin
        told = agent.guard("doctor", agent.host, "--live", check=False)
        assert told.returncode == 1 and FLEW not in told.stdout
    finally:
        agent.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_live_in_a_project(name: str, tmp_path: Path) -> None:
    agent = real(name, tmp_path)
    try:
        trust = ["--trust"] if agent.host == "codex" else []
        agent.guard("install", agent.host, "--scope", "project", *trust)
        if agent.host == "codex":
            told = agent.guard("doctor", agent.host, "--live", check=False)
            assert told.returncode == 1 and "is the project trusted?" in told.stdout, told.stdout
            config = agent.folder / "config.toml"
            project = f'[projects."{os.path.realpath(agent.work)}"]\ntrust_level = "trusted"\n'
            config.write_text(config.read_text() + project)
        if agent.host == "pi":
            told = agent.guard("doctor", agent.host, "--live", check=False)
            assert told.returncode == 1 and "only where it trusts the project" in told.stdout, told.stdout
            (agent.folder / "trust.json").write_text(json.dumps({os.path.realpath(agent.work): True}))
        before = sorted(p.name for p in agent.work.iterdir())
        told = agent.guard("doctor", agent.host, "--live", check=False)
        assert told.returncode == 0 and FLEW in told.stdout, told.stdout + told.stderr
        assert sorted(p.name for p in agent.work.iterdir()) == before
        assert not agent.logs()
    finally:
        agent.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["codex-0.146", "codex-newest"])
def test_a_feature_that_is_off_in_the_real_codex(name: str, tmp_path: Path) -> None:
    agent = real(name, tmp_path)
    try:
        agent.install()
        config = agent.folder / "config.toml"
        config.write_text(config.read_text() + "\n[features]\nhooks = false\n")
        told = agent.guard("doctor", "codex", check=False)
        assert told.returncode == 1 and "features.hooks is false: no hook runs" in told.stdout, told.stdout
    finally:
        agent.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REAL if name != "codex-0.146"])
def test_an_event_comes_as_often_as_is_said(name: str, tmp_path: Path) -> None:
    agent = real(name, tmp_path)
    try:
        agent.install()
        agent.guard("install", agent.host, "--scope", "project", *(["--trust"] if agent.host == "codex" else []))
        if agent.host == "codex":
            config = agent.folder / "config.toml"
            project = f'[projects."{os.path.realpath(agent.work)}"]\ntrust_level = "trusted"\n'
            config.write_text(config.read_text() + project)
        if agent.host == "pi":
            (agent.folder / "trust.json").write_text(json.dumps({os.path.realpath(agent.work): True}))
        agent.run("List the files.", [{"run": "ls"}, {"say": "Done."}])
        prompts = sum(line.get("e") == "prompt" for line in agent.log())
        assert prompts == (1 if host(agent.host).ONCE else 2)
    finally:
        agent.close()


ODD = {
    "comment": '{\n  // mine\n  "a": 1\n}',
    "comma": '{\n  "a": 1,\n}',
    "mark": '\ufeff{"a": 1}',
}
WORDS = {
    "comment": "a comment in line 2",
    "comma": "a comma before a closing bracket in line",
    "mark": "a byte order mark in line 1",
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("opencode", "pi")])
def test_a_file_that_its_host_does_not_read_is_said(home: Path, name: str, odd: str) -> None:
    path = config_file(name, "user", Path())
    path.parent.mkdir(parents=True)
    path.write_text(ODD[odd])
    expected = odd in getattr(host(name), "UNREAD", ())
    said = f"{path}: {WORDS[odd]}"
    assert (said in guard("install", name)) == expected
    told = guard("doctor", name, code=int(expected))
    assert (f"BAD  {said}" in told) == expected
    assert told.count("reads nothing of such a file, so no hook runs") == expected
    assert (f"Warning: {said}" in guard("status")) == expected
    guard("uninstall", name)
    assert path.read_text() == ODD[odd]


def test_a_plain_file_with_odd_texts_is_read(home: Path) -> None:
    path = config_file("codex", "user", Path())
    path.parent.mkdir(parents=True)
    path.write_text('{"a": "// no comment /* */ ,} \ufeff", "hooks": {}}')
    assert "reads nothing" not in guard("install", "codex") + guard("doctor", "codex")


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["claude-code", "codex-0.146", "codex-newest", "qwen-code", "gemini-cli"])
def test_the_real_program_reads_what_is_said(name: str, odd: str, tmp_path: Path) -> None:
    agent = real(name, tmp_path)
    try:
        path = agent.folder / config_file(agent.host, "user", Path()).name
        text = ODD[odd]
        if agent.host == "gemini-cli":
            text = text.replace('"a": 1', '"a": 1, "security": {"auth": {"selectedType": "gemini-api-key"}}')
        path.write_text(text)
        agent.install()
        told = agent.guard("doctor", agent.host, "--live", check=False)
        expected = odd in host(agent.host).UNREAD
        assert (FLEW in told.stdout, "so no hook runs" in told.stdout) == (not expected, expected), told.stdout
    finally:
        agent.close()


@pytest.mark.slow
@pytest.mark.parametrize("login", ["", "gemini-api-key", "vertex-ai", "oauth-personal"])
def test_live_with_any_login_of_gemini(login: str, tmp_path: Path) -> None:
    agent = real("gemini-cli", tmp_path)
    try:
        given = {"security": {"auth": {"selectedType": login}}} if login else {}
        (agent.folder / "settings.json").write_text(json.dumps(given))
        agent.install()
        told = agent.guard("doctor", agent.host, "--live", check=False)
        assert told.returncode == 0, told.stdout
        if login == "oauth-personal":  # its own service alone gives that
            assert "?    --live: gemini-cli signs in otherwise than with a key" in told.stdout
            assert "\x1b" not in told.stdout and FLEW not in told.stdout
        else:
            assert FLEW in told.stdout
    finally:
        agent.close()
