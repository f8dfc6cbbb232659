"""A repository's policies: they run as a person has seen them, or not at all; and which it is, is said."""

from __future__ import annotations

import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from misstep.cli import guard, policies
from misstep.guard import trust

from .conftest import POLICIES, Hooks
from .test_daemon import started

PORTFOLIO = '[[policy]]\nid = "plain/tell-one"\nfile = "mine.py"\n'
HEAD = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "MISSTEP_GUARD", "MISSTEP_PORTFOLIO", "MISSTEP_ARM", "MISSTEP_SCORED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return tmp_path


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose policy takes its words from a module beside it, imported when it is asked."""
    folder = home / "project" / ".misstep"
    (folder / "data").mkdir(parents=True)
    future = "from __future__ import annotations\n"
    text = (POLICIES / "plain.py").read_text().replace(future, future + HEAD)
    text = text.replace(
        '        return "write" in',
        '        import helper\n\n        self.text = helper.WORDS\n        return "write" in',
    )
    (folder / "mine.py").write_text(text)
    (folder / "helper.py").write_text('WORDS = "Helping."\n')
    (folder / "data" / "words.txt").write_text("some\n")
    (folder / "portfolio.toml").write_text(PORTFOLIO)
    monkeypatch.chdir(home / "project")
    return home / "project"


def run(command: object, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, list(words))  # type: ignore[arg-type]
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def said(hooks: Hooks, project: Path, session: str) -> str:
    """The policy's words at a call, '' where it is not run."""
    hooks.prompt("Go.", session=session, cwd=str(project))
    answer = hooks.call("write", session=session, cwd=str(project))
    assert hooks.faults() == []
    return str(answer.get("additionalContext", ""))


@pytest.mark.parametrize(
    ("file", "how"),
    [
        ("helper.py", "changed"),
        ("mine.py", "changed"),
        ("portfolio.toml", "changed"),
        ("data/words.txt", "changed"),
        ("helper.py", "is gone"),
        ("data/new.txt", "is new"),
        ("other.py", "is new"),
        ("helper.so", "is new"),
        ("data/__pycache__/x.py", "is new"),
        ("helper.pyc", "is new"),
    ],
)
def test_any_change_in_the_folder_ends_the_trust(hooks: Hooks, project: Path, file: str, how: str) -> None:
    told = run(policies.command, "trust")
    assert told.splitlines() == [
        f"trusted as it is: {project}/.misstep/{name}"
        for name in ("helper.py", "mine.py", "portfolio.toml", "data/words.txt")
    ]
    assert said(hooks, project, "one") == "Helping."
    path = project / ".misstep" / file
    path.parent.mkdir(exist_ok=True)
    if how == "is gone":
        path.unlink()
    else:
        path.write_text((path.read_text() if path.exists() else "") + "\n")
    assert said(hooks, project, "two") == ""
    portfolio = project / ".misstep" / "portfolio.toml"
    assert trust.state_of(str(portfolio)) == ("changed", f"{project}/.misstep/{file} {how} since it was trusted")
    status = run(guard.command, "status")
    why = f"{project}/.misstep/{file} {how} since it was trusted"
    assert f"Warning: Repository's policies: {portfolio}: not run: {why}" in status
    assert f"`misstep policies trust {project}`" in status
    if how != "is gone" and file != "helper.so":
        run(policies.command, "trust")
        assert said(hooks, project, "three") == "Helping."


def test_a_module_beside_it_is_read_from_its_source(hooks: Hooks, project: Path) -> None:
    """What Python has compiled before is not what a person has read."""
    folder = project / ".misstep"
    for name, text in (("helper", 'WORDS = "Compiled."\n'), ("mine", "raise SystemExit\n")):
        source = folder / "other.py"
        source.write_text(text)
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        cache = folder / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(str(source), str(cache), invalidation_mode=unchecked)
        source.unlink()
    run(policies.command, "trust")
    before = sorted(os.listdir(folder / "__pycache__"))
    assert said(hooks, project, "one") == "Helping."
    assert said(hooks, project, "two") == "Helping.", "its own compiled code is no change"
    assert sorted(os.listdir(folder / "__pycache__")) == before


def test_what_lies_elsewhere_is_not_trusted(project: Path) -> None:
    folder = project / ".misstep"
    (project / "other.py").write_text("")
    (folder / "portfolio.toml").write_text('[[policy]]\nid = "x"\nfile = "../other.py"\n')
    told = run(policies.command, "trust", code=2)
    assert (
        told
        == f"Error: {folder}/portfolio.toml: {project}/other.py is outside {folder}: what is trusted is that folder, with all in it\n"
    )
    (folder / "portfolio.toml").write_text(PORTFOLIO)
    (folder / "link.py").symlink_to(project / "other.py")
    assert run(policies.command, "trust", code=2) == f"Error: {folder}/link.py is a link that leads out of the folder\n"
    (folder / "link.py").unlink()
    (folder / "link.py").symlink_to("helper.py")
    run(policies.command, "trust")
    (folder / "link.py").unlink()
    (folder / "link.py").symlink_to("mine.py")
    assert trust.state_of(f"{folder}/portfolio.toml")[1] == f"{folder}/link.py changed since it was trusted"


def test_a_folder_without_end_is_not_hashed_at_each_call(project: Path) -> None:
    run(policies.command, "trust")
    for number in range(trust.MOST_FILES):
        (project / ".misstep" / f"{number}.txt").touch()
    told = run(policies.command, "trust", code=2)
    assert told == f"Error: {project}/.misstep holds more than 1000 files or 16 MB\n"
    assert trust.state_of(f"{project}/.misstep/portfolio.toml") == ("changed", told[7:-1])


def test_the_state_and_what_changes_it_are_said(hooks: Hooks, project: Path) -> None:
    portfolio = project / ".misstep" / "portfolio.toml"
    trusting = f"`misstep policies trust {project}`"
    assert f"Repository's policies: {portfolio}: not trusted, not run (read it, then {trusting})" in run(
        guard.command, "status"
    )
    assert said(hooks, project, "one") == ""
    told = run(guard.command, "log", "one")
    assert f"left alone: {portfolio} is not trusted ({trusting})" in told
    assert "not trusted, not run" in run(guard.command, "doctor", code=1)  # installed nowhere
    run(policies.command, "trust", str(project))
    status = run(guard.command, "status")
    assert f"Repository's policies: {portfolio}: trusted, and run here" in status
    assert f"Policies (1) of {portfolio}:" in status
    # a session sees it when the state changes
    assert said(hooks, project, "one") == "Helping."
    assert [line for line in hooks.log("one") if line.get("e") == "portfolio"] == [
        {"e": "portfolio", "path": str(portfolio), "left": ""}
    ]
    assert f"policies of {portfolio}" in run(guard.command, "log", "one")
    assert run(policies.command, "trust", "--revoke") == f"{portfolio} is trusted no more\n"
    assert run(policies.command, "trust", "--revoke") == f"{portfolio} was not trusted\n"
    assert said(hooks, project, "two") == ""


def test_a_choice_of_the_users_own_comes_first(hooks: Hooks, project: Path, home: Path) -> None:
    run(policies.command, "trust")
    (home / "own.toml").write_text('[[policy]]\nid = "service-persistence"\n')
    run(guard.command, "use", str(home / "own.toml"))
    status = run(guard.command, "status")
    assert f"portfolio.toml: not run: your own choice comes first, {home}/own.toml" in status
    assert said(hooks, project, "one") == ""


def test_a_session_keeps_the_policies_of_the_folder_that_it_began_in(hooks: Hooks, project: Path) -> None:
    run(policies.command, "trust")
    assert said(hooks, project, "one") == "Helping."
    hooks.call("ls", "b", session="one", cwd="/")
    assert hooks.log("one")[-1]["rows"][0]["policy"] == "plain/tell-one"
    (hooks.folder("one") / "state.json").unlink()
    hooks.call("ls", "c", session="one", cwd="/")
    assert hooks.log("one")[-1]["rows"][0]["used"] == 1
    assert not [line for line in hooks.log("one") if line.get("e") == "portfolio"]


@pytest.mark.parametrize("how", ["hook", "daemon"])
def test_modules_of_the_same_name_in_two_repositories(hooks: Hooks, project: Path, home: Path, how: str) -> None:
    other = home / "other"
    shutil.copytree(project, other)
    (other / ".misstep" / "helper.py").write_text('WORDS = "Others."\n')
    for folder in (project, other):
        run(policies.command, "trust", str(folder))
    process = started(hooks) if how == "daemon" else None
    try:
        for turn in range(2):
            assert said(hooks, project, f"one{turn}") == "Helping."
            assert said(hooks, other, f"two{turn}") == "Others."
    finally:
        if process is not None:
            process.kill()
            process.wait()
    for image in (home / "state" / "guard").glob("image-*"):
        assert b"helper.py" not in image.read_bytes()
