"""Whatever stands in a portfolio file: it is used, or one line names the file, the key and what was expected."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from misstep.cli import guard, policies
from misstep.guard import freeze
from misstep.guard.choice import load
from misstep.guard.portfolio import PortfolioError, from_plain

from .conftest import plain_rules

POLICY = '\n[[policy]]\nid = "service-persistence"\n'
VALUES = ['"x"', '""', "-1", "0", "1.5", "true", "nan", "inf", "[]", "[1]", "{}", "{a = 1}", "1979-05-27", "9" * 40]
TOP = {
    "version": ("1 is expected", {"1"}),
    "stop_cap": ("a whole number from 0 is expected", {"0", "9" * 40}),
    "patience": ("a number of seconds over 0 and up to 20 is expected", {"1.5"}),
    "wrapper": ("a text with {text} in it is expected", set()),
    "policy": ("is expected", set()),
}
INNER = {
    "id": ("is expected", set()),
    "mode": ("one of enforce, observe, off is expected", set()),
    "limit": ('a whole number from 1, or "none", is expected', {"9" * 40}),
    "text": ("a text is expected", {'"x"'}),
    "file": ("", set()),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MISSTEP_PORTFOLIO", "MISSTEP_GUARD", "MISSTEP_ARM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    return tmp_path


def use(path: Path) -> tuple[int, str]:
    done = CliRunner().invoke(guard.command, ["use", str(path)])
    return done.exit_code, done.output


def refused(path: Path, *words: str) -> None:
    code, told = use(path)
    assert code == 2 and told.count("\n") == 1 and "\t" not in told, told
    assert told.startswith(f"Error: {path}: "), told
    assert all(word in told for word in words), told
    assert not any(word in told for word in ("Traceback", "KeyError", "TypeError", "ValueError")), told
    assert not (path.parent / "state" / "guard" / "settings.json").exists()


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", TOP)
def test_keys_of_a_portfolio(home: Path, key: str, value: str) -> None:
    path = home / "p.toml"
    expected, fine = TOP[key]
    path.write_text(f"{key} = {value}\n" + (POLICY if key != "policy" else ""))
    if value in fine:
        assert use(path)[0] == 0
    elif (key, value) == ("policy", "[]"):
        refused(path, "no policies: a [[policy]] table")
    else:
        refused(path, key, expected)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", INNER)
def test_keys_of_a_policy(home: Path, key: str, value: str) -> None:
    path = home / "p.toml"
    expected, fine = INNER[key]
    head = "[[policy]]\n" if key == "id" else POLICY
    path.write_text(f"{head}{key} = {value}\n")
    if value in fine:
        assert use(path)[0] == 0
    elif (key, value) == ("id", '"x"'):
        refused(path, "policy x: the catalogue has no policy 'x'")
    elif (key, value) == ("file", '"x"'):
        refused(path, f"policy service-persistence: file: {home}/x is no Python file")
    else:
        refused(path, "policy 1: id:" if key == "id" else f"policy service-persistence: {key}:", expected)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no policies"),
        (b"# nothing\n", "no policies"),
        (b"stop_cap = 1\n", "no policies"),
        (b"\xff\xfe[\x00", "UTF-8 is expected"),
        (b"[[policy]\n", "no TOML"),
        (b"a = " + b"[" * 5000, "no TOML"),
        (b"stop_cap = 1\nstop_cap = 2\n", "no TOML"),
        (b"[policy]\nid = 'service-persistence'\n", "policy: [[policy]] tables is expected"),
        (b"[[policy]]\n", "policy 1: id: a text is expected, not nothing"),
        (POLICY.encode() * 2, "policy service-persistence: stands twice"),
        (b"[[policy]]\nid = 'service-persistance'\n", "no policy 'service-persistance': service-persistence?"),
        (b"[[policies]]\nid = 'service-persistence'\n", "unknown key 'policies' (known: patience, policy"),
    ],
)
def test_files(home: Path, data: bytes, words: str) -> None:
    path = home / "p.toml"
    path.write_bytes(data)
    refused(path, words)


def test_a_byte_order_mark_and_crlf_do_no_harm(home: Path) -> None:
    path = home / "p.toml"
    path.write_bytes(b"\xef\xbb\xbf" + POLICY.replace("\n", "\r\n").encode())
    assert use(path) == (0, f"1 policies from {path}\n")


# -- the form that hooks read, and locks ------------------------------------------------------------------------------

RULE = plain_rules("deny-first")[0]


@pytest.mark.parametrize("value", ["", "null", "[]", "3", "{}", '{"a": 1}', '{"rules": {}}', "{broken", "[[policy]]"])
@pytest.mark.parametrize("name", ["x.json", "x.lock", "x"])
def test_a_file_of_another_kind(home: Path, name: str, value: str) -> None:
    path = home / name
    path.write_text(value)
    refused(path, "neither a portfolio file (.toml) nor a lock of one")


def given(**changed: Any) -> dict[str, Any]:
    rule = {k: v for k, v in (RULE | changed).items() if v != "gone" and k not in ("stop_cap", "patience", "wrapper")}
    return {"v": 1, "rules": [rule]} | {k: v for k, v in changed.items() if k in ("stop_cap", "patience", "wrapper")}


ODD: list[Any] = [None, True, -1, 1.5, "", "x", [], {}, float("nan")]
FINE = {"limit": [None], "text": ["", "x"], "patience": [1.5], "wrapper": ["", "x"]}


@pytest.mark.parametrize(
    "key", ["policy", "misstep", "module", "mode", "limit", "text", "stop_cap", "patience", "wrapper"]
)
def test_the_plain_form(home: Path, key: str) -> None:
    for value in ODD:
        path = home / "x.json"
        path.write_text(json.dumps(given(**{key: value})))
        if value in FINE.get(key, ()):
            from_plain(json.loads(path.read_text()))
        elif value == "x" and key in ("policy", "misstep", "module"):  # a text, but none that names anything
            refused(path, "policy " + ("x" if key == "policy" else RULE["policy"]))
        else:
            with pytest.raises(PortfolioError, match=f"{key}: .* is expected, not "):
                from_plain(json.loads(path.read_text()))
            refused(path, key)


def test_a_lock_is_used_and_one_of_a_missing_file_is_not(home: Path) -> None:
    source = home / "mine.py"
    source.write_text(Path(RULE["module"]).read_text())
    portfolio = home / "p.toml"
    portfolio.write_text('[[policy]]\nid = "plain/deny-first"\nfile = "mine.py"\n')
    lock = home / "p.lock"
    freeze.write_lock(lock, freeze.lock(freeze.read(portfolio)))
    assert use(lock) == (0, f"1 policies from {lock}\n")
    assert CliRunner().invoke(guard.command, ["use"]).exit_code == 0
    (home / "state" / "guard" / "settings.json").unlink()
    source.unlink()
    for name in [n for n, m in sys.modules.items() if getattr(m, "__file__", "") == str(source)]:
        del sys.modules[name]
    refused(lock, "plain/deny-first", "mine.py")


def test_settings_that_are_no_settings(home: Path) -> None:
    with pytest.raises(PortfolioError, match=r"^/not/there\.json cannot be read$"):
        load({"portfolio": "/not/there.json"})
    assert len(load({}).rules) > 5


@pytest.mark.parametrize("words", [["freeze"], ["audit", ".", "--portfolio"], ["replay", ".", "--portfolio"]])
def test_the_other_commands_say_the_same(home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(home)
    path = home / "p.toml"
    path.write_text('stop_cap = "x"\n')
    (home / "task.md").write_text("Go.")
    done = CliRunner().invoke(policies.command, [*words, str(path)])
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        f"Error: {path}: stop_cap: a whole number from 0 is expected, not 'x'",
    )
