"""Odd but possible settings files: what is installed goes again byte for byte, or one line says why nothing was done."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from misstep.guard import codex_trust, jsonc
from misstep.guard.hosts import NAMES, host
from misstep.guard.install import (
    InstallError,
    carry_out,
    config_file,
    group,
    installed,
    plan_install,
    plan_uninstall,
)

SETTINGS = [name for name in NAMES if not hasattr(host(name), "whole_file")]
VARIABLES = (*(host(name).CONFIG[0] for name in NAMES if host(name).CONFIG[0]), "MISSTEP_HOME", "XDG_STATE_HOME")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def install(name: str, **given: Any) -> None:
    carry_out(plan_install(name, **given), installing=True)


def uninstall(name: str, **given: Any) -> None:
    carry_out(plan_uninstall(name, **given), installing=False)


def there(root: Path) -> dict[str, bytes | None]:
    """Every file and folder below a folder."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))
    }


def write(name: str, data: bytes) -> Path:
    path = config_file(name, "user", Path.cwd())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# -- folders -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("name", NAMES)
def test_what_an_installation_made_goes_with_it(home: Path, name: str, scope: str) -> None:
    project = home / "project"
    project.mkdir()
    before = there(home)
    for _ in range(2):
        install(name, scope=scope, project=project)
        install(name, scope=scope, project=project)
        assert there(home) != before
        uninstall(name, scope=scope, project=project)
        assert there(home) == before
        uninstall(name, scope=scope, project=project)
        assert there(home) == before


def test_folders_that_were_there_or_are_used_by_now_stay(home: Path) -> None:
    for folder in (".claude", ".local/state", ".config"):
        (home / folder).mkdir(parents=True)
    install("claude-code")
    install("pi")
    install("opencode")
    (home / ".pi" / "mine").write_text("x")
    (home / ".local/state/misstep/guard/sessions").mkdir()
    for name in ("claude-code", "pi", "opencode"):
        uninstall(name)
    assert set(there(home)) == {
        ".claude",
        ".config",
        ".local",
        ".local/state",
        ".local/state/misstep",
        ".local/state/misstep/guard",
        ".local/state/misstep/guard/sessions",
        ".pi",
        ".pi/mine",
    }


@pytest.mark.parametrize("order", [("codex", "claude-code"), ("claude-code", "codex")])
def test_the_last_to_go_takes_what_the_first_made(home: Path, order: tuple[str, str]) -> None:
    install("codex", trust=True)
    install("claude-code")
    for name in order:
        assert (home / ".local").is_dir()
        uninstall(name)
    assert there(home) == {}


def test_a_file_that_a_person_removed_leaves_nothing_behind(home: Path) -> None:
    install("claude-code")
    (home / ".claude" / "settings.json").unlink()
    uninstall("claude-code")
    assert there(home) == {}


# -- failures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_file_in_the_place_of_a_folder_is_what_is_blamed(home: Path, name: str) -> None:
    path = config_file(name, "user", Path.cwd())
    (home / path.relative_to(home).parts[0]).write_text("a file")
    before = there(home)
    with pytest.raises(InstallError) as caught:
        install(name)
    assert str(caught.value) == f"{home / path.relative_to(home).parts[0]} is no folder"
    assert there(home) == before


@pytest.mark.parametrize("name", ["claude-code", "codex", "pi"])
def test_a_file_in_the_place_of_the_state_is_what_is_blamed(home: Path, name: str) -> None:
    (home / ".local").write_text("a file")
    with pytest.raises(InstallError) as caught:
        install(name)
    assert str(caught.value) == f"{home}/.local is no folder"
    assert there(home) == {".local": b"a file"}


def test_what_is_no_file_is_refused(home: Path) -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.mkdir(parents=True)
    for plan in (plan_install, plan_uninstall):
        with pytest.raises(InstallError, match=f"^{path} is no file$"):
            plan("claude-code")
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(InstallError, match=f"^{path} is no file$"):
        installed("claude-code")
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(InstallError, match=str(path)):
        plan_install("claude-code")


def test_the_first_change_is_taken_back_where_the_second_fails(home: Path) -> None:
    hooks, config = home / ".codex" / "hooks.json", home / ".codex" / "config.toml"
    hooks.parent.mkdir()
    hooks.write_text('{"hooks": {}}')
    plan = plan_install("codex", trust=True)
    assert [change.path for change in plan.changes] == [hooks, config]
    config.write_text("# mine\n")  # meanwhile
    before = there(home)
    with pytest.raises(InstallError, match=r"config\.toml changed meanwhile"):
        carry_out(plan, installing=True)
    assert there(home) == before
    install("codex", trust=True)
    after = there(home)
    plan = plan_uninstall("codex")
    config.write_text(config.read_text() + "# more\n")
    with pytest.raises(InstallError, match=r"config\.toml changed meanwhile"):
        carry_out(plan, installing=False)
    assert there(home) == after | {".codex/config.toml": after[".codex/config.toml"] + b"# more\n"}  # type: ignore[operator]


INSTALL = "from misstep.cli import main; main()"


def test_a_folder_that_may_not_be_written(home: Path) -> None:
    path = write("claude-code", b"{}")
    path.parent.chmod(0o555)
    (home / ".local").mkdir()
    words = [sys.executable, "-c", INSTALL, "guard", "install", "claude-code"]
    if os.geteuid() == 0:  # root may write anywhere, unless it gives that up
        if shutil.which("setpriv") is None:
            pytest.skip("no setpriv")
        words = ["setpriv", "--bounding-set=-dac_override", *words]
    before = there(home)
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"misstep: {path.parent}: Permission denied\n"
    path.parent.chmod(0o755)
    assert there(home) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_of_a_file_stays(home: Path) -> None:
    path = write("claude-code", b"{}")
    owner = pwd.getpwnam("nobody")
    os.chown(path, owner.pw_uid, owner.pw_gid)
    install("claude-code")
    assert (path.stat().st_uid, path.stat().st_gid) == (owner.pw_uid, owner.pw_gid)
    uninstall("claude-code")
    assert (path.stat().st_uid, path.stat().st_gid) == (owner.pw_uid, owner.pw_gid)


# -- contents ------------------------------------------------------------------------------------------------------------

BOM = "\ufeff"
ODD = {
    "a byte order mark": BOM + '{"a": 1}',
    "a byte order mark alone": BOM,
    "blanks": " \r\n\t\n",
    "trailing commas": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x",},],},],}, "a": 1,}',
    "crlf": '{\r\n\t// one\r\n\t"a": 1, /* two */\r\n\t"hooks": {\r\n\t},\r\n}\r\n',
    "carriage returns": '{\r  "a": 1\r}\r',
    "hooks twice": '{"hooks": {"Stop": []}, "a": 1, "hooks": {"Stop": [], "Other": [1]}}',
    "an event twice": '{"hooks": {"Stop": [], "Stop": [{"hooks": []}]}}',
    "a key twice": '{"a": 1, "a": {"b": []}}',
    "odd groups": '{"hooks": {"Stop": [null, 3, "x", [], {}, {"hooks": null}, {"hooks": [null, 1, {}]}]}}',
    "odd handlers": '{"hooks": {"Stop": [{"hooks": [{"command": null}, {"command": ["misstep"]}]}]}}',
    "an event that is null": '{"hooks": {"Other": null, "Else": 3}}',
    "a key that is empty": '{"": {"hooks": 1}, "hooks": {"": []}}',
    "escapes": '{"a\\u0062\\n": "\\ud83d\\ude00", "hooks": {"St\\u006fp": []}}',
    "a lone surrogate": '{"a": "\\ud800"}',
    "large numbers": '{"a": 1e999, "b": ' + "9" * 400 + "}",
    "a comment at the end": '{"a": 1} // the end',
    "comments alone inside": "{ /* nothing yet */ }",
    "slashes in texts": '{"a": "http://x/*y*/", "b": "// no"}',
    "deep": '{"a": ' + "[" * 150 + "]" * 150 + "}",
}


def with_hooks(name: str, text: str) -> str:
    """The text, its Claude event under the host's name for it."""
    stop = {"gemini-cli": "AfterAgent", "copilot-cli": "agentStop", "cursor": "stop"}.get(name, "Stop")
    return text.replace('"Stop"', f'"{stop}"').replace('"St\\u006fp"', f'"{stop}"')


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_odd_files_there_and_back(home: Path, name: str, text: str) -> None:
    text = with_hooks(name, text)
    path = write(name, text.encode())
    before = there(home)
    assert installed(name) == "no" and plan_uninstall(name).empty
    install(name)
    assert installed(name) == "yes" and plan_install(name).empty
    once = path.read_bytes()
    install(name)
    assert path.read_bytes() == once
    if "\r\n" in text.strip():
        assert once.count(b"\n") == once.count(b"\r\n")
    uninstall(name)
    assert there(home) == before
    # and where something else has changed meanwhile: ours goes, all else stays
    install(name)
    path.write_bytes(path.read_bytes() + b"\n// mine\n")
    uninstall(name)
    left = path.read_text(encoding="utf-8", errors="surrogatepass")
    expected = jsonc.parse(text).plain() if text.strip(BOM + " \r\n\t") else {}
    found = jsonc.parse(left).plain()
    if "version" not in expected:
        found.pop("version", None)
    assert repr(found) == repr(expected) and "misstep" not in left.replace('["misstep"]', "")


REFUSED = {
    "null": ("null", "the file is no object"),
    "hooks null": ('{"hooks": null}', "hooks is null, where an object is expected"),
    "hooks a list": ('{"hooks": []}', "hooks is no object, where an object is expected"),
    "hooks a text": ('{"hooks": "x"}', "hooks is no object, where an object is expected"),
    "an event null": ('{"hooks": {"Stop": null}}', "hooks.Stop is no list"),
    "an event an object": ('{"hooks": {"Stop": {"hooks": []}}}', "hooks.Stop is no list"),
    "two values": ("{} {}", "line 1, column 3: more text after the value"),
    "single quotes": ("{'a': 1}", "line 1, column 2: a key in quotes"),
    "cut off": ('{"a": [1,', "line 1, column 10"),
    "a bare word": ('{"a": yes}', "line 1, column 7: no value"),
    "comments alone": ("// nothing\n", "the text ends where a value should be"),
    "bytes": (b'{"a": "\xff"}', "not UTF-8"),
    "utf-16": ("{}".encode("utf-16"), "not UTF-8"),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_edited_is_refused_in_one_line(home: Path, name: str, text: str | bytes, said: str) -> None:
    path = write(name, text if isinstance(text, bytes) else with_hooks(name, text).encode())
    before = there(home)
    with pytest.raises(InstallError) as caught:
        install(name)
    assert str(caught.value).startswith(f"{path}: ") and with_hooks(name, f'"{said}"').strip('"').replace(
        "hooks.Stop", "hooks." + with_hooks(name, '"Stop"').strip('"')
    ) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert there(home) == before
    try:
        assert plan_uninstall(name).empty and installed(name) == "no"
    except InstallError as error:  # a file that cannot be read at all
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    assert there(home) == before


# -- any file at all -----------------------------------------------------------------------------------------------------

_blank = st.sampled_from(["", " ", "\n", "\r\n", "\n  ", "\t", " /* c */ ", "// line\n", "\n\n    "])
_key = st.sampled_from(["hooks", "Stop", "PreToolUse", "a", "", "matcher", "command", "type", "h\\u006foks"])
_scalar = st.sampled_from(["null", "true", "-1.5e3", '"x"', '"// no"', '"misstep/guard"', '"]}"', "[]", "{}"])


def _object(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.builds(lambda b, k, c, d, v, e: f'{b}"{k}"{c}:{d}{v}{e}', _blank, _key, _blank, _blank, inner, _blank)
    return st.builds(
        lambda items, comma, b: "{" + ",".join(items) + (comma if items else "") + b + "}",
        st.lists(member, max_size=4),
        st.sampled_from(["", ","]),
        _blank,
    )


def _list(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    item = st.builds(lambda b, v, c: f"{b}{v}{c}", _blank, inner, _blank)
    return st.builds(
        lambda items, comma, b: "[" + ",".join(items) + (comma if items else "") + b + "]",
        st.lists(item, max_size=3),
        st.sampled_from(["", ","]),
        _blank,
    )


_value = st.recursive(_scalar, lambda inner: _object(inner) | _list(inner), max_leaves=12)
_file = st.builds(
    lambda mark, a, body, b: f"{mark}{a}{body}{b}",
    st.sampled_from(["", BOM]),
    _blank,
    _object(_value) | st.builds(lambda h: f'{{"hooks": {h}}}', _object(_list(_object(_value)))),
    _blank,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_file, name=st.sampled_from(["claude-code", "codex", "gemini-cli", "cursor"]))
def test_any_file(home: Path, text: str, name: str) -> None:
    shutil.rmtree(home)
    path = write(name, text.encode())
    before = there(home)
    try:
        install(name)
    except InstallError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
        assert there(home) == before
        return
    once = path.read_bytes()
    assert installed(name) == "yes" and plan_install(name).empty
    uninstall(name)
    assert there(home) == before
    # without the record of the file, as after a change: what was there is there, in its order
    install(name)
    for record in (home / ".local").rglob("installs/*.json"):
        record.unlink()
    assert path.read_bytes() == once
    try:
        uninstall(name)
    except InstallError as error:
        assert "cannot be taken out alone" in str(error)  # a key that stands twice
    else:
        left = jsonc.parse(path.read_text()).plain()
        expected = jsonc.parse(text).plain() if text.strip(BOM + " \r\n\t") else {}
        if "version" not in expected:
            left.pop("version", None)
        hooks = left.get("hooks", {})
        for event in host(name).EVENTS:
            if hooks.get(event) == [] and event not in expected.get("hooks", {}):
                del hooks[event]
        if hooks == {} and "hooks" not in expected:
            left.pop("hooks", None)
        assert repr(left) == repr(expected)


# -- Codex's trust -------------------------------------------------------------------------------------------------------


def test_our_hook_in_a_group_with_a_persons_own_is_trusted_too(home: Path) -> None:
    install("codex")
    path = home / ".codex" / "hooks.json"
    found = json.loads(path.read_text())
    mine = {"type": "command", "command": "mine"}
    found["hooks"]["Stop"][0]["hooks"].insert(0, mine)
    found["hooks"]["PreToolUse"].insert(0, {"matcher": "Bash", "hooks": [mine]})
    path.write_text(json.dumps(found))
    keys = codex_trust.entries(path, path.read_text())
    assert f"{path}:stop:0:1" in keys and f"{path}:stop:0:0" not in keys
    assert f"{path}:pre_tool_use:1:0" in keys and len(keys) == len(host("codex").EVENTS)
    (ours,) = group("codex")["hooks"]
    assert keys[f"{path}:stop:0:1"] == codex_trust.hook_hash("stop", ours)
    install("codex", trust=True)
    state = tomllib.loads((home / ".codex" / "config.toml").read_text())["hooks"]["state"]
    assert {k: v["trusted_hash"] for k, v in state.items()} == keys
    uninstall("codex")
    assert not (home / ".codex" / "config.toml").exists()
    assert json.loads(path.read_text())["hooks"] == {
        "Stop": [{"hooks": [mine]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [mine]}],
    }


TOML = {
    "crlf": '# mine\r\nmodel = "x"\r\n\r\n[features]\r\nplugins = false\r\n',
    "a byte order mark": BOM + 'model = "x"\n',
    "a text over lines": 'a = """\n[hooks.state."x"]\ntrusted_hash = "no"\n"""\n',
    "hooks of its own": '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "mine"\n',
    "a state of other hooks": '[hooks.state."/x:stop:0:0"]\ntrusted_hash = "sha256:1" # seen\n',
    "no line break": "a = 1",
    "dotted": "hooks.enabled = true\n",
}


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_odd_configs_there_and_back(home: Path, text: str) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_bytes(text.encode())
    before = there(home)
    install("codex")
    assert config.read_bytes() == text.encode()
    try:
        install("codex", trust=True)
    except InstallError as error:
        assert "dotted" in repr(text) or "hooks.enabled" in text, error
        assert str(error) == f"{config}: its trust entries cannot be edited: use /hooks in Codex"
        uninstall("codex")
        assert there(home) == before
        return
    once = config.read_bytes()
    assert not plan_install("codex").notes
    if "\r\n" in text:
        assert once.count(b"\n") == once.count(b"\r\n")
    install("codex", trust=True)
    assert config.read_bytes() == once
    uninstall("codex")
    assert there(home) == before
    install("codex", trust=True)
    config.write_bytes(config.read_bytes() + b"\n[mine]\nb = 2\n")
    uninstall("codex")
    assert config.read_bytes().rstrip() == (text.encode().rstrip() + b"\n\n[mine]\nb = 2").replace(
        b"\n\n", b"\r\n\n" if "\r\n" in text else b"\n\n"
    )


WRONG = [b'hooks = "x"\n', b"hooks = 3\n", b"hooks = []\n", b"[hooks]\nstate = 3\n", b"[hooks]\nstate = []\n"]


@pytest.mark.parametrize("data", [*WRONG, b"broken", b"\x00", b"a = '\xff'\n", b"[[hooks.state]]\n", b"a = 1\na = 2\n"])
def test_wrong_configs_are_left_alone(home: Path, data: bytes) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_bytes(data)
    before = there(home)
    with pytest.raises(InstallError) as caught:
        install("codex", trust=True)
    assert str(caught.value).startswith(f"{config}: ") and "\n" not in str(caught.value)
    assert there(home) == before
    install("codex")  # the hooks alone
    assert "--trust" in plan_install("codex").notes[0]
    uninstall("codex")
    assert there(home) == before


@pytest.mark.parametrize(
    "text", ['{"hooks": null}', "null", "[]", '{"hooks": {"Stop": null}}', '{"hooks": {"Stop": [null]}}']
)
def test_trust_of_odd_hooks(home: Path, text: str) -> None:
    write("codex", text.encode())
    before = there(home)
    try:
        assert plan_uninstall("codex").empty
    except InstallError as error:
        assert "the file is no object" in str(error)
    assert there(home) == before


def test_trust_in_another_form_is_not_written_twice(home: Path) -> None:
    install("codex", trust=True)
    config = home / ".codex" / "config.toml"
    text = config.read_text().replace('state."', "state.'").replace('"]', "']").replace("sha256:", "sha256:0")
    assert tomllib.loads(text)
    config.write_text(text)
    with pytest.raises(InstallError, match="its trust entries cannot be edited: use /hooks in Codex"):
        plan_install("codex", trust=True)
    assert config.read_text() == text
