"""Hook processes: what they print, what they log, and that they never break the agent."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import HOOK, PYTHON, Hooks, bad_rules, plain_rules

FAMILIES = (
    "service-persistence",
    "deployment-preservation",
    "database-evidence",
    "latex-final-log",
    "token-accounting",
    "complete-enumeration",
)


def test_a_denial_an_instruction_and_a_forced_turn(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    assert hooks.prompt("Go carefully.") == {}
    denied = hooks.call("remove", "a")
    assert denied["permissionDecision"] == "deny" and denied["permissionDecisionReason"] == "First denial."
    assert hooks.call("write", "b")["additionalContext"] == "Advice one.\n\nAdvice two."
    assert hooks.result("write", "b") == {}
    assert hooks.stop() == {"decision": "block", "reason": "Check again."}
    assert hooks.prompt("Check again.") == {}
    assert hooks.stop() == {}
    kinds = [line.get("e") for line in hooks.log()]
    assert kinds == [
        None,
        "prompt",
        "before",
        "decision",
        "before",
        "decision",
        "after",
        "stop",
        "decision",
        "prompt",
        "stop",
        "decision",
    ]
    assert hooks.log()[9]["own"] is True
    assert hooks.state()["runs"]["plain"][0] == {"calls": 1, "results": 1, "failed": 0, "prompts": 1, "checked": False}
    assert not hooks.faults()


def test_files_are_the_users_own(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go.")
    hooks.call("ls", agent_id="sub/../../x")
    root = hooks.home / "state"
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    # an id that is no plain file name stays inside its folder
    (agent,) = (hooks.folder() / "agents").iterdir()
    assert agent.name.startswith("x-")


def test_a_sub_agent_has_its_own_state_and_its_parents_task(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    hooks.call("one")
    hooks.prompt("Do a part.", agent_id="sub")
    hooks.call("two", agent_id="sub")
    assert hooks.send("SubagentStop", agent_id="sub", last_assistant_message="Part done.")["reason"] == "Check again."
    assert hooks.state()["runs"]["plain"][0]["calls"] == 1
    assert hooks.state("s/agents/sub")["runs"]["plain"][0]["calls"] == 1
    assert hooks.stop()["reason"] == "Check again."  # the parent's nudge is its own


def test_sessions_do_not_mix(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.", session="one")
    hooks.prompt("Go.", session="two")
    assert hooks.stop(session="two") == {}
    assert hooks.stop(session="one")["decision"] == "block"


def test_a_changed_portfolio_takes_the_log_from_its_beginning(hooks: Hooks) -> None:
    hooks.use(plain_rules("tell-one"))
    hooks.prompt("Go carefully.")
    hooks.call("write")
    hooks.use(plain_rules())
    assert hooks.call("write", "b")["additionalContext"] == "Advice two."  # the first was given already
    assert hooks.state()["runs"]["plain"][0]["calls"] == 2


def test_off_and_observe(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.env["MISSTEP_GUARD"] = "off"
    hooks.prompt("Go carefully.")
    assert not (hooks.home / "state").exists()
    hooks.env["MISSTEP_GUARD"] = "observe"
    hooks.prompt("Go carefully.")
    assert hooks.call("remove") == {} and hooks.stop() == {}
    assert [line["held"] for line in hooks.log() if line.get("e") == "decision"] == ["observe", "observe"]


# -- it never breaks the agent -------------------------------------------------------------------------------------------


def _malformed(number: int) -> bytes:
    """One of a thousand payloads that no host would send."""
    dice = random.Random(number)
    good: dict[str, Any] = {
        "session_id": "m",
        "hook_event_name": dice.choice(["PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "UserPromptSubmit"]),
        "prompt": "carefully",
        "tool_name": "Bash",
        "tool_input": {"command": "write"},
        "tool_use_id": "t",
        "tool_response": {"stdout": "x"},
        "error": "Exit code 1\nx",
        "cwd": "/w",
        "last_assistant_message": "Done.",
    }
    odd: list[Any] = [
        None,
        3,
        -1.5,
        True,
        [],
        {},
        "",
        "\ud800",
        "\x00",
        "x" * 3000,
        [[{}]],
        {"a": {"b": []}},
        10**400,
        "\u202e",
    ]
    way = number % 10
    if way < 5:
        for _ in range(dice.randint(1, 4)):
            good[dice.choice(list(good))] = dice.choice(odd)
        if way == 4:
            del good[dice.choice(list(good))]
        return json.dumps(good).encode("utf-8", "surrogatepass")
    data = json.dumps(good).encode()
    if way == 5:
        return data[: dice.randrange(len(data))]
    if way == 6:
        at = dice.randrange(len(data))
        return data[:at] + bytes(dice.randrange(256) for _ in range(dice.randint(1, 9))) + data[at:]
    if way == 7:
        return bytes(dice.randrange(256) for _ in range(dice.randrange(200)))
    if way == 8:
        return b"[" * dice.randrange(100_000) + data
    return data + data if dice.random() < 0.5 else json.dumps(dice.choice(odd)).encode()


def _valid(said: str) -> bool:
    return not said or isinstance(json.loads(said), dict)


@pytest.mark.parametrize("host", ["claude-code", "codex", "qwen-code", "gemini-cli"])
def test_malformed_payloads(hooks: Hooks, host: str) -> None:
    hooks.use(plain_rules())
    hooks.host = host
    for number in range(40):
        assert _valid(hooks.raw(_malformed(number)))
    assert hooks.faults()
    hooks.host = "claude-code"
    hooks.prompt("Go.")
    assert hooks.call("remove")["permissionDecision"] == "deny"


@pytest.mark.slow
def test_a_thousand_malformed_payloads(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    for number in range(1000):
        assert _valid(hooks.raw(_malformed(number)))
    for line in (hooks.folder("m") / "log.jsonl").read_bytes().splitlines():
        json.loads(line)


def test_no_payload_and_no_host(hooks: Hooks) -> None:
    assert hooks.raw(b"") == ""
    hooks.host = "other"
    assert hooks.raw(b"{}") == ""
    assert len(hooks.faults()) == 2


def test_a_policy_that_prints_adds_nothing_to_the_answer(hooks: Hooks) -> None:
    hooks.use(bad_rules("prints"))
    hooks.prompt("Go.")
    assert hooks.call("ls") == {}
    hooks.use([*bad_rules("prints"), *plain_rules("deny-first")])
    assert hooks.call("remove")["permissionDecision"] == "deny"


@pytest.mark.parametrize("name", ["raises", "exits", "recurses"])
def test_a_policy_that_fails_is_logged_and_left_alone(hooks: Hooks, name: str) -> None:
    hooks.use([*bad_rules(name), *plain_rules("deny-first")])
    hooks.prompt("Go.")
    for _ in range(2):
        assert hooks.call("remove")["permissionDecision"] == "deny"
    assert [line["misstep"] for line in hooks.log() if line.get("e") == "fault"] == [name]


@pytest.mark.parametrize("name", ["loops", "sleeps", "swallows"])
def test_a_policy_that_does_not_end_is_broken_off(hooks: Hooks, name: str) -> None:
    hooks.use([*bad_rules(name), *plain_rules("deny-first")], patience=0.2)
    hooks.prompt("Go.")
    start = time.monotonic()
    first = hooks.call("remove")
    assert time.monotonic() - start < 5
    # one that swallows even that takes the whole process with it: nothing is decided, and the agent goes on
    assert (first == {}) if name == "swallows" else (first["permissionDecision"] == "deny")
    start = time.monotonic()
    assert hooks.call("remove")["permissionDecision"] == "deny"
    assert time.monotonic() - start < 1
    assert [line["misstep"] for line in hooks.log() if line.get("e") == "fault"] == [name]


def test_a_home_that_cannot_be_written(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    (hooks.home / "state").write_text("a file, where a folder should be")
    assert hooks.prompt("Go carefully.") == {}
    assert hooks.call("remove") == {}
    assert "NotADirectoryError" in hooks.stderr or "FileExistsError" in hooks.stderr


def test_a_read_only_home() -> None:
    with tempfile.TemporaryDirectory() as home:
        _read_only(Hooks(Path(home)))


def _read_only(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # root may write everywhere: run as somebody else
        user = {"user": 65534, "group": 65534, "extra_groups": []}
        hooks.python = "/usr/bin/python3"
        hooks.home.chmod(0o755)
        reads = subprocess.run([hooks.python, "-I", "-S", "-c", f"open({str(HOOK)!r})"], capture_output=True, **user)
        if reads.returncode:
            pytest.skip("another user cannot read the sources here")
    for path in sorted([hooks.home / "state", *(hooks.home / "state").rglob("*")], reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = (hooks.folder() / "log.jsonl").read_bytes()
    payload = json.dumps({"session_id": "s", "hook_event_name": "Stop", "cwd": "/w"}).encode()
    done = subprocess.run(
        [hooks.python, "-I", "-S", str(HOOK), "claude-code"], input=payload, env=hooks.env, capture_output=True, **user
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"PermissionError" in done.stderr
    assert (hooks.folder() / "log.jsonl").read_bytes() == before
    for path in [hooks.home / "state", *(p for p in (hooks.home / "state").rglob("*") if p.is_dir())]:
        path.chmod(0o700)  # so that it can be cleared away


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    log = hooks.folder() / "log.jsonl"
    log.rename(log.with_name("kept"))
    log.symlink_to("/dev/full")
    # what cannot be logged is not done: a limit that is not counted would be none
    assert hooks.call("remove") == {} and hooks.stop() == {}
    assert any("No space left" in fault for fault in hooks.faults())


def test_a_disk_that_takes_nothing_gets_no_litter(hooks: Hooks) -> None:
    """Every write to a file fails, as on a full disk where names can still be made."""
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    home = hooks.home / "state" / "guard"
    for derived in (*home.glob("image-*"), *home.glob("portfolio*")):
        derived.unlink()

    def no_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    payload = json.dumps({"session_id": "s", "hook_event_name": "Stop", "cwd": "/w"}).encode()
    for _ in range(3):
        done = subprocess.run(
            [hooks.python, "-I", "-S", str(HOOK), "claude-code"],
            input=payload,
            env={**hooks.env, "MISSTEP_PORTFOLIO": ""},
            capture_output=True,
            preexec_fn=no_bytes,
        )
        assert (done.returncode, done.stdout) == (0, b"") and b"File too large" in done.stderr
    assert sorted(path.name for path in home.iterdir()) == ["faults.jsonl", "pruned", "sessions"]


@pytest.mark.parametrize("home", [None, "relative", "."])
def test_without_a_home_folder(hooks: Hooks, home: str | None, tmp_path: Path) -> None:
    """As in a container: a user that the system does not know, and no $HOME. Nothing is written where the agent works."""
    work = tmp_path / "work"
    work.mkdir()
    env = {} if home is None else {"HOME": home}
    code = f"""import os, sys
os.environ.clear(); os.environ.update({env!r})
sys.argv = ["hook.py", "claude-code"]
os.chdir({str(work)!r})
os.getuid = lambda: 54321
exec(compile(open(hook := {str(HOOK)!r}).read(), hook, "exec"), {{"__name__": "__main__", "__file__": hook}})
"""
    payload = json.dumps({"session_id": "s", "hook_event_name": "SessionStart", "cwd": str(work)}).encode()
    done = subprocess.run([hooks.python, "-I", "-S", "-c", code], input=payload, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")
    assert list(work.iterdir()) == []
    assert b"no home folder is known: set $HOME or $MISSTEP_HOME" in done.stderr


def test_the_home_of_the_user_is_taken_where_the_environment_has_none(hooks: Hooks) -> None:
    code = "import os; os.environ.pop('HOME'); from misstep.guard import _paths; print(_paths.home())"
    import pwd

    env = {"PATH": "/usr/bin", "PYTHONPATH": str(HOOK.parents[2]), "HOME": "/x"}
    done = subprocess.run([hooks.python, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == pwd.getpwuid(os.getuid()).pw_dir + "/.local/state/misstep"


def test_a_folder_that_is_deleted_under_it(hooks: Hooks) -> None:
    import shutil

    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    shutil.rmtree(hooks.home / "state")
    assert hooks.call("remove") == {}  # the task is gone with it: silent
    hooks.prompt("Go carefully.")
    (hooks.folder() / "state.json").unlink()
    assert hooks.call("remove")["permissionDecision"] == "deny"
    (hooks.folder() / "log.jsonl").unlink()
    assert hooks.call("ls") == {}
    assert len(hooks.log()) == 3


@pytest.mark.parametrize(
    "state", [b"", b"{", b"null", b'{"v":1}', b'{"v":1,"offset":10,"key":"x"}', b"\xff\xfe", b'{"v":9}']
)
def test_a_state_that_is_damaged_is_had_again_from_the_log(hooks: Hooks, state: bytes) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    hooks.call("write", "a")
    (hooks.folder() / "state.json").write_bytes(state)
    assert hooks.call("write", "b")["additionalContext"] == "Advice two."
    assert hooks.state()["runs"]["plain"][0]["calls"] == 2
    assert hooks.stop()["decision"] == "block"


def test_a_log_cut_off_at_any_byte(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    hooks.call("write", "a")
    hooks.result("write", "a")
    log, state = hooks.folder() / "log.jsonl", hooks.folder() / "state.json"
    whole, old = log.read_bytes(), state.read_bytes()
    start = json.loads(old)["offset"]
    assert start < len(whole)  # the result waits to be folded in
    for cut in range(start, len(whole), 7):
        log.write_bytes(whole[:cut])
        state.write_bytes(old)
        assert hooks.stop()["decision"] == "block"
        lines = log.read_bytes().splitlines()
        assert sum(_parses(line) for line in lines) >= len(lines) - 1
        kept = hooks.state()["runs"]["plain"][0]
        assert kept["calls"] == 1 and kept["results"] == (1 if cut >= len(whole) - 1 else 0)


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


# -- many at once --------------------------------------------------------------------------------------------------------


def _payload(number: int, event: str = "PreToolUse") -> bytes:
    return json.dumps(
        {
            "session_id": "s",
            "hook_event_name": event,
            "cwd": "/w",
            "tool_name": "Bash",
            "tool_input": {"command": f"number {number}"},
            "tool_use_id": f"t{number}",
            "tool_response": {"stdout": ""},
        }
    ).encode()


@pytest.mark.slow
def test_300_hooks_at_once_lose_no_event(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    running = [hooks.start() for _ in range(300)]
    for number, process in enumerate(running):
        assert process.stdin is not None
        process.stdin.write(_payload(number, "PreToolUse" if number % 2 else "PostToolUse"))
        process.stdin.close()
    for process in running:
        assert process.wait(120) == 0
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stderr.close()
    log = hooks.log()
    seen = sorted(line["id"] for line in log if line.get("e") in ("before", "after"))
    assert seen == sorted(f"t{n}" for n in range(300))
    at = [line["at"] for line in log if line.get("e") == "decision"]
    assert len(at) == 150 and at == sorted(set(at))
    hooks.stop()
    kept = hooks.state()["runs"]["plain"][0]
    assert (kept["calls"], kept["results"]) == (150, 150)
    assert not hooks.faults()


@pytest.mark.slow
def test_hooks_that_are_killed_at_any_moment(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go carefully.")
    dice = random.Random(7)
    answered = 0
    for number in range(120):
        process = hooks.start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(_payload(number))
        process.stdin.close()
        time.sleep(dice.random() * 0.08)
        process.send_signal(signal.SIGKILL)
        answered += process.wait() == 0
        process.stdout.close()
        (hooks.folder() / "asking").unlink(missing_ok=True)  # two of us in a policy's code would be held against it
    calls = 0
    for line in (hooks.folder() / "log.jsonl").read_bytes().splitlines():
        if _parses(line):
            calls += json.loads(line).get("e") == "before"
    assert 0 < calls < 120
    assert hooks.call("last", "last") == {}
    # every call that was logged is in the state, however its hook ended
    assert hooks.state()["runs"]["plain"][0]["calls"] == calls + 1


# -- the command line ------------------------------------------------------------------------------------------------------


def test_it_runs_from_anywhere_and_imports_little(hooks: Hooks) -> None:
    hooks.use([{"policy": p, "misstep": p, "module": f"misstep.catalogue.{p.replace('-', '_')}"} for p in FAMILIES])
    for warm in range(3):
        done = subprocess.run(
            [PYTHON, "-I", "-S", "-X", "importtime", str(HOOK), "claude-code"],
            input=_payload(1),
            env=hooks.env,
            capture_output=True,
            cwd="/",
            check=True,
        )
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
        assert {"misstep.guard.engine", "misstep.shell.scanner", "misstep.catalogue.service_persistence"} <= loaded
        heavy = {"json", "dataclasses", "typing", "pathlib", "inspect", "subprocess", "datetime", "ast", "importlib"}
        assert not loaded & (heavy | {"misstep.trajectory.readers", "misstep.catalogue.blind_edit"})
        assert warm == 0 or not loaded & {"re", "re._compiler", "sre_compile"}, "the image knows all expressions"


@pytest.mark.parametrize(
    "python", sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[0-9]*/bin/python3")), ids=lambda p: p.parts[-3]
)
def test_on_every_python_of_task_containers(hooks: Hooks, python: Path) -> None:
    hooks.use(plain_rules())
    hooks.python = str(python)
    hooks.prompt("Go carefully.")
    assert hooks.call("remove", "a")["permissionDecision"] == "deny"
    assert hooks.stop()["decision"] == "block"
    assert not hooks.faults()
