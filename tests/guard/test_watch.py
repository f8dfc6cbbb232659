"""Policies that end the process, or the guard's patience: they are put aside, and the others go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from misstep.guard import _paths, choice
from misstep.guard.adapters import Guard
from misstep.guard.engine import Engine
from misstep.guard.portfolio import Portfolio

from .conftest import HOOK, POLICIES, PYTHON, Hooks, bad_rules, plain_rules, portfolio_of
from .test_daemon import started

SWALLOW = "while True:\n    try:\n        while True: pass\n    except BaseException: pass\n"


def faults(hooks: Hooks, session: str = "s") -> list[tuple[str, str]]:
    return [(line["misstep"], line["error"]) for line in hooks.log(session) if line.get("e") == "fault"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("leaves", "Left: it ends the process (status 3)"),
        ("interrupts", "KeyboardInterrupt: "),
        ("exits", "SystemExit: 2"),
        ("recurses-twice", "RecursionError: maximum recursion depth exceeded"),
    ],
)
@pytest.mark.parametrize("how", ["hook", "daemon"])
def test_a_policy_that_would_end_the_process_is_put_aside_at_once(
    hooks: Hooks, name: str, error: str, how: str
) -> None:
    hooks.use([*bad_rules(name), *plain_rules("deny-first")])
    process = started(hooks) if how == "daemon" else None
    try:
        hooks.prompt("Go.")
        start = time.monotonic()
        for _ in range(2):
            assert hooks.call("remove")["permissionDecision"] == "deny"
        assert time.monotonic() - start < 1
        assert process is None or process.poll() is None
    finally:
        if process is not None:
            process.kill()
            process.wait()
    ((misstep, said),) = faults(hooks)
    assert (misstep, said[: len(error)]) == (name, error)
    assert not hooks.faults() and (hooks.folder() / "asking").read_bytes() == b""


@pytest.mark.parametrize("name", ["crashes", "aborts", "becomes"])
def test_a_policy_in_which_the_process_ends_twice_is_put_aside(hooks: Hooks, name: str) -> None:
    hooks.use([*bad_rules(name), *plain_rules("deny-first")])
    hooks.prompt("Go.")
    payload = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/w"}
    for number in range(2):
        process = hooks.start()
        given = {**payload, "tool_use_id": f"t{number}", "tool_input": {"command": "remove"}}
        assert process.communicate(json.dumps(given).encode(), timeout=30)[0] == b""
    for number in range(2):
        assert hooks.call("remove", f"l{number}")["permissionDecision"] == "deny"
    assert faults(hooks) == [(name, f"{name}: the process ended in its code, 2 times after one another")]
    assert [line["id"] for line in hooks.log() if line.get("e") == "before"] == ["t0", "t1", "l0", "l1"], (
        "no call is lost"
    )


def test_hooks_that_a_host_ends_put_no_policy_aside(hooks: Hooks) -> None:
    hooks.use(plain_rules("deny-first"))
    hooks.prompt("Go.")
    mark = hooks.folder() / "asking"
    for _ in range(4):
        mark.write_text("1 plain")  # one that was ended in it
        assert hooks.call("remove")["permissionDecision"] == "deny"
    assert faults(hooks) == []


def test_children_of_a_policy_are_its_own(hooks: Hooks) -> None:
    hooks.use([*bad_rules("forks", "forks-and-exits"), *plain_rules("deny-first")])
    hooks.prompt("Go.")
    for number in range(2):
        assert hooks.call("remove", f"t{number}")["permissionDecision"] == "deny"
    assert faults(hooks) == []
    assert [line.get("e") for line in hooks.log()] == [None, "prompt", "before", "decision", "before", "decision"]


IMPORTS = {
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
    "leaves": ("import os; os._exit(3)", "Left: it ends the process (status 3)"),
    "syntax": ("def", "SyntaxError: invalid syntax"),
    "loops": ("while True: pass", "OutOfTime: it took too long"),
}


@pytest.mark.parametrize("form", ["toml", "json"])
@pytest.mark.parametrize("name", IMPORTS)
def test_a_file_that_cannot_be_imported_takes_no_other_policy_with_it(
    hooks: Hooks, name: str, form: str, tmp_path: Path
) -> None:
    code, error = IMPORTS[name]
    count = tmp_path / "count"
    (tmp_path / "bad.py").write_text(f"open({str(count)!r}, 'a').write('x')\n{code}\n" if name != "syntax" else code)
    if form == "toml":
        path = tmp_path / "p.toml"
        own = f'[[policy]]\nid = "plain/deny-first"\nfile = "{POLICIES}/plain.py"\n'
        path.write_text('[[policy]]\nid = "bad"\nfile = "bad.py"\n' + own)
        hooks.env["MISSTEP_PORTFOLIO"] = str(path)
    else:
        bad = {"policy": "bad", "misstep": "bad", "module": str(tmp_path / "bad.py")}
        hooks.use([bad, *plain_rules("deny-first")], patience=0.5)
    hooks.prompt("Go.")
    for _ in range(2):
        assert hooks.call("remove")["permissionDecision"] == "deny"
    ((misstep, said),) = faults(hooks)
    assert misstep == "bad" and error in said and "bad.py" in said
    assert not hooks.faults()
    assert name == "syntax" or count.read_text() == "x", "it is tried once"


@pytest.mark.slow
def test_a_file_that_ends_the_process_when_it_is_imported(hooks: Hooks, tmp_path: Path) -> None:
    for name, code in (("crash", "import os; os.abort()"), ("swallow", SWALLOW)):
        (tmp_path / f"{name}.py").write_text(code)
        path = tmp_path / f"{name}.toml"
        own = f'[[policy]]\nid = "plain/deny-first"\nfile = "{POLICIES}/plain.py"\n'
        path.write_text(f'[[policy]]\nid = "bad"\nfile = "{name}.py"\n' + own)
        hooks.env["MISSTEP_PORTFOLIO"] = str(path)
        payload = {"session_id": name, "hook_event_name": "UserPromptSubmit", "prompt": "Go.", "cwd": "/w"}
        for _ in range(3):
            process = hooks.start()
            process.communicate(json.dumps(payload).encode(), timeout=60)
        start = time.monotonic()
        assert hooks.call("remove", session=name)["permissionDecision"] == "deny"
        assert time.monotonic() - start < 1
        assert {misstep for misstep, _ in faults(hooks, name)} >= {"bad"}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["crash", "swallow"])
@pytest.mark.parametrize("daemon", [False, True])
def test_what_ends_the_process_does_not_cost_the_task(hooks: Hooks, tmp_path: Path, how: str, daemon: bool) -> None:
    code = "import os; os.abort()" if how == "crash" else SWALLOW
    (tmp_path / "bad.py").write_text(code)
    path = tmp_path / "p.toml"
    own = f'[[policy]]\nid = "plain/at-stop"\nfile = "{POLICIES}/plain.py"\n'
    path.write_text(f'patience = 0.3\n[[policy]]\nid = "bad"\nfile = "bad.py"\n{own}')
    hooks.env["MISSTEP_PORTFOLIO"] = str(path)
    process = started(hooks) if daemon else None
    try:
        events = [
            {"hook_event_name": "UserPromptSubmit", "prompt": "Go carefully."},
            *[{"hook_event_name": "Stop"}] * 3,
        ]
        said = b""
        for event in events:
            hook = hooks.start()
            said += hook.communicate(json.dumps({"session_id": "s", "cwd": "/w", **event}).encode(), timeout=60)[0]
    finally:
        if process is not None:
            process.kill()
            process.wait()
    assert [line["text"] for line in hooks.log() if line.get("e") == "prompt"] == ["Go carefully."]
    assert json.loads(said)["decision"] == "block"


def test_a_file_that_was_mended_is_used_in_the_next_session(hooks: Hooks, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("1 / 0\n")
    (tmp_path / "p.toml").write_text('[[policy]]\nid = "plain/deny-first"\nfile = "own.py"\n')
    hooks.env["MISSTEP_PORTFOLIO"] = str(tmp_path / "p.toml")
    hooks.prompt("Go.", session="one")
    assert hooks.call("remove", session="one") == {}
    (tmp_path / "own.py").write_text((POLICIES / "plain.py").read_text())
    hooks.prompt("Go.", session="two")
    assert hooks.call("remove", session="two")["permissionDecision"] == "deny"
    assert len(faults(hooks, "one")) == 1 and not faults(hooks, "two")


# -- a person's wish to end ----------------------------------------------------------------------------------------------


def test_a_real_interrupt_ends_a_hook_and_blames_nobody(hooks: Hooks) -> None:
    hooks.use([*bad_rules("sleeps"), *plain_rules("deny-first")], patience=10)
    hooks.prompt("Go.")
    process = hooks.start()
    assert process.stdin is not None
    payload = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t", "cwd": "/w"}
    process.stdin.write(json.dumps({**payload, "tool_input": {"command": "remove"}}).encode())
    process.stdin.close()
    mark = hooks.folder() / "asking"
    for _ in range(200):
        if mark.is_file() and b"sleeps" in mark.read_bytes():
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 0
    assert process.stdout is not None and process.stdout.read() == b""
    process.stdout.close()
    assert faults(hooks) == [] and "Interrupted" in hooks.faults()[0]


def test_a_real_interrupt_comes_out_of_a_program_that_has_the_guard_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"v": 1, "rules": bad_rules("sleeps"), "patience": 10}))
    monkeypatch.setenv("MISSTEP_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("MISSTEP_PORTFOLIO", str(path))
    for name in ("MISSTEP_GUARD", "MISSTEP_ARM", "MISSTEP_SCORED"):
        monkeypatch.delenv(name, raising=False)
    guard = Guard("s")
    guard.prompt("Go.")
    before = signal.getsignal(signal.SIGINT)
    code = f"import os, signal, time; time.sleep(0.4); os.kill({__import__('os').getpid()}, signal.SIGINT)"
    killer = subprocess.Popen([sys.executable, "-c", code])
    with pytest.raises(KeyboardInterrupt):
        guard.before("t", "bash", {"command": "ls"})
    killer.wait()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_engine_alone_passes_an_interrupt_on() -> None:
    engine = Engine(portfolio_of(bad_rules("interrupts")))
    engine.fold({"e": "prompt", "text": "Go."})
    with pytest.raises(KeyboardInterrupt):
        engine.decide({"e": "before", "id": "t", "tool": "Bash", "input": {"command": "x"}})


# -- what a hook is started with ------------------------------------------------------------------------------------------


def test_standard_streams_that_are_closed(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go.")
    for closed in ("<&-", "</dev/null", "<&- >&-", "<&- >&- 2>&-"):
        line = f"exec {PYTHON} -I -S {HOOK} claude-code {closed}"
        done = subprocess.run(["/bin/sh", "-c", line], env=hooks.env, stdin=subprocess.DEVNULL, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert hooks.faults() == ["ValueError: no payload: standard input is empty or closed"] * 4
    payload = json.dumps(
        {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/w"}
    ).encode()
    line = f"exec {PYTHON} -I -S {HOOK} claude-code >&-"
    done = subprocess.run(["/bin/sh", "-c", line], env=hooks.env, input=payload, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"") and hooks.log()[-2]["e"] == "before"


@pytest.mark.parametrize("given", ["state", "./state", "~/state", "a/../state"])
def test_a_relative_home_is_one_place(
    hooks: Hooks, given: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hooks.env["MISSTEP_HOME"] = given
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a").mkdir()
    payload = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "Go.", "cwd": "/w"}
    for folder in (tmp_path, tmp_path / "elsewhere"):
        words = [PYTHON, "-I", "-S", str(HOOK), "claude-code"]
        subprocess.run(words, input=json.dumps(payload).encode(), env=hooks.env, cwd=folder, check=True)
    assert [line.get("e") for line in hooks.log()] == [None, "prompt", "prompt"]
    assert not list((tmp_path / "elsewhere").iterdir())
    # the hook's own reckoning, and that of everything else
    assert (tmp_path / "state" / "guard" / f"image-{sys.implementation.cache_tag}").is_file()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MISSTEP_HOME", given)
    assert Path(_paths.home()).resolve() == tmp_path / "state"


def test_an_image_does_not_keep_a_users_own_policies(hooks: Hooks) -> None:
    """They are compiled from their source each time: what is run is what can be read."""
    hooks.use(plain_rules())
    hooks.prompt("Go.")
    image = next((hooks.home / "state" / "guard").glob("image-*"))
    assert b"First denial." not in image.read_bytes()
    assert isinstance(choice.load({"portfolio": hooks.env["MISSTEP_PORTFOLIO"]}), Portfolio)
