"""Installing touches nothing that is not ours, and uninstalling gives back what was there."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
from pathlib import Path

import pytest
import tomllib

from misstep.guard import codex_trust, jsonc
from misstep.guard.hosts import NAMES, host
from misstep.guard.install import (
    InstallError,
    carry_out,
    command,
    config_file,
    group,
    installed,
    is_ours,
    plan_install,
    plan_uninstall,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "MISSTEP_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    return tmp_path


def install(name: str, **given: object) -> None:
    carry_out(plan_install(name, **given), installing=True)  # type: ignore[arg-type]


def uninstall(name: str, **given: object) -> None:
    carry_out(plan_uninstall(name, **given), installing=False)  # type: ignore[arg-type]


SETTINGS = [name for name in NAMES if not hasattr(host(name), "whole_file")]

COMMENTED = """// my settings
{
    "model": "opus", // the good one
    /* hooks of my own */
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [{"type": "command", "command": "my-check", "unknown": [1, 2]}], // keep
            },
        ],
        "Notification": [],
    },
    "z": 1, "a": {"b": null},
}
"""
FILES = {
    "none": None,
    "empty": "",
    "empty object": "{}",
    "one line": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}, "b": 1}',
    "no hooks": '{\n\t"model": "x",\n\t"list": [\n\t\t1\n\t]\n}\n',
    "empty hooks": '{\n  "hooks": {}\n}',
    "empty hooks with a comment": '{\n  "hooks": {\n    // none yet\n  }\n}\n',
    "commented": COMMENTED,
    "crlf": '{\r\n  "model": "x",\r\n  "hooks": {\r\n    "Stop": []\r\n  }\r\n}\r\n',
    "no final newline": '{\n  "a": 1\n}',
    "deep indentation": '{\n        "a": 1,\n        "hooks": {\n                "Stop": []\n        }\n}\n',
    "unicode": '{"é": "\\u00e9 ☃"}\n',
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_there_and_back(name: str, text: str | None) -> None:
    path = config_file(name, "user", Path.cwd())
    if text is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode())
        path.chmod(0o640)
    assert installed(name) == "no"
    install(name)
    assert installed(name) == "yes"
    once = path.read_bytes()
    found = jsonc.parse(once.decode()).plain()
    for event in host(name).EVENTS:
        assert found["hooks"][event][-1] == group(name)
    # everything that was there is still there, in its order
    before = jsonc.parse(text or "{}").plain()
    if name in ("copilot-cli", "cursor") and not before:
        assert found.pop("version") == 1
    assert [k for k in found if k in before] == list(before)
    assert {k: v for k, v in found.items() if k != "hooks"} == {k: v for k, v in before.items() if k != "hooks"}
    for event, groups in before.get("hooks", {}).items():
        assert found["hooks"][event][: len(groups)] == groups
    for line in (text or "").splitlines():
        if "//" in line or "/*" in line:
            assert line.strip() in once.decode()
    install(name)
    assert path.read_bytes() == once  # a second time changes nothing
    assert plan_install(name).empty
    uninstall(name)
    assert (path.read_bytes().decode() if path.exists() else None) == text
    if text is not None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert installed(name) == "no"


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_what_a_person_changed_since_stays(name: str, text: str | None) -> None:
    path = config_file(name, "user", Path.cwd())
    if text is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode())
    install(name)
    ours = path.read_bytes().decode()
    changed = jsonc.added(ours, ["mine", "list"], "new")
    changed = jsonc.added(changed, ["hooks", host(name).EVENTS[0]], {"hooks": [{"type": "command", "command": "mine"}]})
    path.write_bytes(changed.encode())
    uninstall(name)
    left = jsonc.parse(path.read_bytes().decode()).plain()
    left.pop("version", None)
    assert left.pop("mine") == {"list": ["new"]}
    hooks = left.get("hooks", {})
    assert hooks[host(name).EVENTS[0]].pop() == {"hooks": [{"type": "command", "command": "mine"}]}
    expected = jsonc.parse(text if text and text.strip() else "{}").plain()
    there = {e: g for e, g in hooks.items() if g}
    assert there == {e: g for e, g in expected.get("hooks", {}).items() if g}
    assert {k: v for k, v in left.items() if k != "hooks"} == {k: v for k, v in expected.items() if k != "hooks"}


def test_json_stays_json_without_comments() -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"permissions": {"allow": ["Bash"]}, "hooks": {"Stop": []}}, indent=4))
    install("claude-code")
    found = json.loads(path.read_text())
    assert list(found) == ["permissions", "hooks"]
    path.write_text(path.read_text() + "\n")
    uninstall("claude-code")
    assert json.loads(path.read_text())["permissions"] == {"allow": ["Bash"]}


def test_an_entry_of_another_version_is_replaced() -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    old = {
        "hooks": [
            {"type": "command", "command": "/old/python -I -S /old/misstep/guard/hook.py claude-code", "timeout": 9}
        ]
    }
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    path.write_text(json.dumps({"hooks": {"Stop": [old, mine], "PreCompact": [old]}}, indent=2))
    assert installed("claude-code") in ("partly", "other version")
    install("claude-code")
    found = json.loads(path.read_text())["hooks"]
    assert found["Stop"] == [mine, group("claude-code")] and "PreCompact" not in found
    assert installed("claude-code") == "yes"


def test_our_command_goes_from_a_group_that_a_person_added_to() -> None:
    path = config_file("claude-code", "user", Path.cwd())
    install("claude-code")
    found = json.loads(path.read_text())
    mine = {"type": "command", "command": "mine"}
    found["hooks"]["Stop"][0]["hooks"].append(mine)
    path.write_text(json.dumps(found, indent=2))
    assert installed("claude-code") == "yes" and plan_install("claude-code").empty
    uninstall("claude-code")
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [mine]}]}}
    install("claude-code")
    assert path.read_text().count("hook.py") == len(host("claude-code").EVENTS)
    assert json.loads(path.read_text())["hooks"]["Stop"] == [{"hooks": [mine]}, group("claude-code")]


@pytest.mark.parametrize(
    ("text", "path", "left"),
    [
        ("[ // one\n 1 ]", [0], "[ // one\n ]"),
        ("[1, // see [\n 2]", [1], "[1 // see [\n]"),
        ("[1, 2 // two\n , 3]", [1], "[1, // two\n  3]"),
        ("[1, 2, 3]", [1], "[1, 3]"),
        ("[\r\n 1,\r\n 2,\r\n]", [1], "[\r\n 1,\r\n]"),
        ('{"a": {"b": [/* x */ 1]}}', ["a", "b", 0], '{"a": {"b": [/* x */]}}'),
        ('{"a": 1, "b": 2}', ["b"], '{"a": 1}'),
    ],
)
def test_a_cut_keeps_comments(text: str, path: list[str | int], left: str) -> None:
    assert jsonc.parse(jsonc.cut(text, path)).plain() == jsonc.parse(left).plain()
    assert jsonc.cut(text, path) == left


NOTED = '{"hooks": {\n // put hooks here\n "Stop": [ /* mine */ ]\n },"x": 1}'


@pytest.mark.parametrize("text", [NOTED, '{"hooks":{},"x": 1}', '{"x": 1}', '{"x": 1, "hooks": {"Stop": [], "A": []}}'])
@pytest.mark.parametrize("twice", [False, True])
def test_empty_containers_and_comments_of_a_person_stay(home: Path, text: str, twice: bool) -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.write_text(text)
    install("claude-code")
    if twice:  # a part of it was taken away, and the file is no longer what the guard left
        path.write_text(jsonc.cut(path.read_text(), ["hooks", "PreToolUse"]).replace('"x": 1', '"x": 3'))
        install("claude-code")
    path.write_text(path.read_text().replace('"x": 3', '"x": 1').replace('"x": 1', '"x": 2'))
    uninstall("claude-code")
    left = path.read_text()
    assert jsonc.parse(left).plain() == {**jsonc.parse(text).plain(), "x": 2}
    assert all(comment in left for comment in ("// put hooks here", "/* mine */") if comment in text)


def test_without_state_empty_containers_stay(home: Path) -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.write_text(NOTED)
    install("claude-code")
    shutil.rmtree(home / "state")
    uninstall("claude-code")
    left = path.read_text()
    assert jsonc.parse(left).plain() == {"hooks": {e: [] for e in host("claude-code").EVENTS}, "x": 1}
    assert "// put hooks here" in left and "/* mine */" in left


@pytest.mark.parametrize("text", ["null", "[]", '"x"'])
def test_uninstalling_from_what_is_no_object_says_so(text: str) -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.write_text(text)
    for plan in (plan_install, plan_uninstall):
        with pytest.raises(InstallError, match=f"{path}: the file is no object"):
            plan("claude-code")


@pytest.mark.parametrize("text", ["[]", "{", '{"hooks": 3}', '{"hooks": {"Stop": {}}}', "nonsense", '{"a": 1} x'])
def test_what_cannot_be_edited_is_left_as_it_is(text: str) -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(InstallError, match=str(path)):
        plan_install("claude-code")
    assert path.read_text() == text


def test_a_dry_run_is_a_diff(home: Path) -> None:
    plan = plan_install("claude-code")
    assert plan.diff().startswith("--- /dev/null\n+++ ") and "hook.py" in plan.diff()
    assert not (home / ".claude").exists() and not (home / "state").exists()


@pytest.mark.parametrize(
    ("name", "place"),
    [("opencode", ".config/opencode/plugin/misstep-guard.js"), ("pi", ".pi/agent/extensions/misstep-guard.ts")],
)
def test_a_plugin_is_a_file_of_its_own(home: Path, name: str, place: str) -> None:
    path = home / place
    assert plan_uninstall(name).empty and installed(name) == "no"
    install(name)
    assert installed(name) == "yes" and json.dumps(command(name)) in path.read_text()
    path.write_text(path.read_text().replace("/misstep/guard/hook.py", "/old/misstep/guard/hook.py"))
    assert installed(name) == "other version"
    install(name)
    assert installed(name) == "yes"
    uninstall(name)
    assert not any(home.iterdir())
    path.parent.mkdir(parents=True)
    path.write_text("// a plugin of mine")
    with pytest.raises(InstallError, match="is not ours"):
        plan_install(name)
    uninstall(name)
    assert path.read_text() == "// a plugin of mine"


def test_a_file_that_changed_meanwhile_is_not_overwritten() -> None:
    plan = plan_install("claude-code")
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(InstallError, match="changed meanwhile"):
        carry_out(plan, installing=True)
    assert path.read_text() == "{}"


def test_a_link_stays_a_link(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    install("claude-code")
    assert path.is_symlink() and "hook.py" in real.read_text()
    uninstall("claude-code")
    assert path.is_symlink() and real.read_text() == "{}"


def test_a_link_to_what_is_not_there_yet(home: Path) -> None:
    path = config_file("claude-code", "user", Path.cwd())
    path.parent.mkdir(parents=True)
    path.symlink_to(home / "dotfiles" / "claude" / "settings.json")
    install("claude-code")
    assert path.is_symlink() and "hook.py" in (home / "dotfiles/claude/settings.json").read_text()
    uninstall("claude-code")
    assert path.is_symlink() and not (home / "dotfiles").exists()


def test_a_project(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    install("claude-code", scope="project", project=project)
    assert (project / ".claude" / "settings.json").is_file()
    assert installed("claude-code", "project", project) == "yes" and installed("claude-code") == "no"
    uninstall("claude-code", scope="project", project=project)
    assert not (project / ".claude" / "settings.json").exists()


def test_the_command_line_does_not_know_the_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    line = command("codex")
    for name, value in (("MISSTEP_ARM", "sham"), ("MISSTEP_GUARD", "observe")):
        monkeypatch.setenv(name, value)
        assert command("codex") == line
    assert line.endswith("/misstep/guard/hook.py codex || :")
    assert line.startswith("/") and is_ours(group("codex"))


# -- Codex's trust -------------------------------------------------------------------------------------------------------


def test_the_hash_by_which_codex_knows_a_hook() -> None:
    # {"event_name":"pre_tool_use","hooks":[{"async":false,"command":"true","timeout":600,"type":"command"}]}
    known = '{"event_name":"pre_tool_use","hooks":[{"async":false,"command":"true","timeout":600,"type":"command"}]}'
    expected = "sha256:" + hashlib.sha256(known.encode()).hexdigest()
    assert codex_trust.hook_hash("pre_tool_use", {"type": "command", "command": "true"}) == expected
    assert codex_trust.hook_hash("pre_tool_use", {"type": "command", "command": "true"}, "Bash") != expected


CONFIG = """# mine
model = "gpt-5.5" # the one

[projects."/srv/app"]
trust_level = "trusted"

[hooks.state."/elsewhere/hooks.json:stop:0:0"]
trusted_hash = "sha256:ab"

# a comment above a table
[features]
plugins = false
"""


@pytest.mark.parametrize("text", [None, "", "x = 1", CONFIG], ids=["none", "empty", "no newline", "config"])
def test_trust_is_written_only_when_asked_for(home: Path, text: str | None) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    if text is not None:
        config.write_text(text)
    plan = plan_install("codex")
    assert len(plan.changes) == 1 and "--trust" in plan.notes[0]
    install("codex")
    assert (config.read_text() if config.exists() else None) == text
    install("codex", trust=True)
    state = tomllib.loads(config.read_text())["hooks"]["state"]
    ours = {k: v for k, v in state.items() if k.startswith(str(home / ".codex" / "hooks.json"))}
    assert len(ours) == len(host("codex").EVENTS) and not plan_install("codex").notes
    assert config.read_text().startswith((text or "").rstrip("\n"))
    assert (
        tomllib.loads(text or "").items()
        <= {**tomllib.loads(config.read_text()), "hooks": tomllib.loads(text or "").get("hooks")}.items()
        or not text
    )
    once = config.read_text()
    install("codex", trust=True)
    assert config.read_text() == once
    uninstall("codex")
    assert (config.read_text() if config.exists() else None) == text


def test_trust_is_taken_out_of_a_config_that_changed_since(home: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(CONFIG)
    install("codex", trust=True)
    config.write_text(config.read_text() + "\n[mine]\na = 1\n")
    uninstall("codex")
    assert config.read_text() == CONFIG + "\n[mine]\na = 1\n"


def test_a_stale_trust_entry_is_replaced_in_its_place(home: Path) -> None:
    key = str(home / "hooks.json") + ":stop:0:0"
    text = f'[hooks.state."{key}"] # ours\nenabled = true\ntrusted_hash = "sha256:old"\n\n# next\n[x]\na = 1\n'
    changed = codex_trust.with_trust(text, {key: "sha256:new"})
    assert changed == text.replace("sha256:old", "sha256:new")
    bare = f'[hooks.state."{key}"]\nenabled = true\n'
    assert tomllib.loads(codex_trust.with_trust(bare, {key: "sha256:new"}))["hooks"]["state"][key] == {
        "enabled": True,
        "trusted_hash": "sha256:new",
    }


def test_a_config_with_no_place_for_trust_is_refused(home: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text("hooks = { state = {} }\n")
    with pytest.raises(InstallError, match=r"config\.toml"):
        plan_install("codex", trust=True)


# -- the editor of JSON with comments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": }', "line 1, column 7"),
        ('{\n  "a" 1}', "line 2, column 7"),
        ("{a: 1}", "column 2"),
        ('{"a": 1 "b": 2}', "column 9"),
        ("/* open", "comment without an end"),
        ("[" * 300, "nested too deep"),
        ("", "the text ends"),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(jsonc.JsoncError, match=message):
        jsonc.parse(text)


def test_comments_and_commas_in_strings_are_text() -> None:
    text = '{"a": "// no, /* comment */", "b": ["x,]"]}'
    assert jsonc.parse(text).plain() == {"a": "// no, /* comment */", "b": ["x,]"]}
