"""The resident daemon: the same answers, and nothing lost when it dies."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from misstep.guard import daemon

from .conftest import PYTHON, Hooks, bad_rules, plain_rules

SRC = Path(daemon.__file__).resolve().parents[2]


@pytest.fixture
def served(hooks: Hooks) -> Iterator[subprocess.Popen[bytes]]:
    hooks.use(plain_rules())
    process = started(hooks)
    yield process
    process.kill()
    process.wait()


def started(hooks: Hooks, source: Path = SRC) -> subprocess.Popen[bytes]:
    code = f"import sys; sys.path.append({str(source)!r}); from misstep.guard.daemon import serve; serve()"
    process = subprocess.Popen([PYTHON, "-I", "-S", "-c", code], env=hooks.env, stdin=subprocess.DEVNULL)
    path = hooks.home / "state" / "guard" / "daemon"
    for _ in range(200):
        if path.exists():
            return process
        time.sleep(0.02)
    raise AssertionError("it does not start")


def story(hooks: Hooks, session: str) -> list[dict]:
    return [
        hooks.prompt("Go carefully.", session=session),
        hooks.call("remove", "a", session=session),
        hooks.call("write", "b", session=session),
        hooks.result("write", "b", session=session),
        hooks.stop(session=session),
        hooks.stop(session=session),
    ]


def plain(log: list[dict]) -> list[dict]:
    return [{k: v for k, v in line.items() if k not in ("t", "session")} for line in log]


def test_it_answers_and_logs_as_hooks_do(hooks: Hooks, served: subprocess.Popen[bytes]) -> None:
    with_it = story(hooks, "one")
    assert not (hooks.home / "state" / "guard" / f"image-{sys.implementation.cache_tag}").exists(), "hooks did nothing"
    served.kill()
    served.wait()
    without = story(hooks, "two")
    assert with_it == without and with_it[1]["permissionDecision"] == "deny"
    assert plain(hooks.log("one")) == plain(hooks.log("two"))
    assert hooks.raw(b"no json") == "" and len(hooks.faults()) == 1


def test_settings_are_each_hooks_own(hooks: Hooks, served: subprocess.Popen[bytes], tmp_path: Path) -> None:
    hooks.prompt("Go.")
    hooks.env["MISSTEP_GUARD"] = "observe"
    assert hooks.call("remove") == {}
    del hooks.env["MISSTEP_GUARD"]
    assert hooks.call("remove")["permissionDecision"] == "deny"
    hooks.use(bad_rules("prints"))
    assert hooks.call("ls") == {}


def test_a_daemon_that_was_killed_is_not_missed(hooks: Hooks, served: subprocess.Popen[bytes]) -> None:
    hooks.prompt("Go.")
    served.kill()
    served.wait()
    assert (hooks.home / "state" / "guard" / "daemon").exists()
    assert hooks.call("remove")["permissionDecision"] == "deny"
    assert [line.get("e") for line in hooks.log()] == [None, "prompt", "before", "decision"]


def test_killed_again_and_again_no_event_is_lost_or_twice_there(hooks: Hooks) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go.")
    stop = threading.Event()

    def murder() -> None:
        while not stop.is_set():
            process = started(hooks)
            time.sleep(0.15)
            process.send_signal(signal.SIGKILL)
            process.wait()

    killer = threading.Thread(target=murder)
    killer.start()
    for number in range(40):
        hooks.call(f"call {number}", f"t{number}")
    stop.set()
    killer.join()
    seen = [line["id"] for line in hooks.log() if line.get("e") == "before"]
    assert seen == [f"t{n}" for n in range(40)]


@pytest.mark.parametrize("reply", [b"", b"L", b"L{}", b"X", None])
def test_a_daemon_that_breaks_off(hooks: Hooks, reply: bytes | None) -> None:
    hooks.use(plain_rules())
    hooks.prompt("Go.")
    path = hooks.home / "state" / "guard" / "daemon"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 20)
                if reply:
                    connection.sendall(reply)

        if reply is not None:
            threading.Thread(target=answer, daemon=True).start()
        else:
            listener.close()  # nobody listens
        said = hooks.call("remove")
    # before the event is logged the hook does it itself; after that it may not be logged twice
    assert bool(said) == (not (reply or b"").startswith(b"L"))
    assert not hooks.stderr


def test_it_ends_when_a_source_changes(hooks: Hooks, tmp_path: Path) -> None:
    hooks.use(plain_rules())
    source = tmp_path / "src"
    shutil.copytree(
        SRC / "misstep", source / "misstep", ignore=shutil.ignore_patterns("__pycache__", "data", "*.json*")
    )
    process = started(hooks, source)
    try:
        hooks.prompt("Go.")
        assert hooks.call("remove")["permissionDecisionReason"] == "First denial."
        with (source / "misstep" / "guard" / "engine.py").open("a") as file:
            file.write("\n")
        assert hooks.call("remove")["permissionDecisionReason"] == "First denial."
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
    assert not (hooks.home / "state" / "guard" / "daemon").exists()


def test_a_users_own_policy_is_run_as_it_is_now(hooks: Hooks, tmp_path: Path) -> None:
    """Itself, and what it imports."""
    source, near = tmp_path / "mine.py", tmp_path / "near.py"
    future = "from __future__ import annotations\n"
    head = f"{future}import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport near\n"
    text = (Path(__file__).parent / "policies" / "plain.py").read_text().replace(future, head)
    text = text.replace('"First denial."', "near.WORDS")
    source.write_text(text)
    near.write_text('WORDS = "Near."\n')
    hooks.use([{**rule, "module": str(source)} for rule in plain_rules("deny-first", "deny-second")])
    process = started(hooks)
    try:
        hooks.prompt("Go.")
        assert hooks.call("remove")["permissionDecisionReason"] == "Near."
        near.write_text('WORDS = "Nearer."\n')
        assert hooks.call("remove")["permissionDecisionReason"] == "Nearer."
        source.write_text(text.replace("near.WORDS", '"Other words."'))
        assert hooks.call("remove")["permissionDecisionReason"] == "Other words."
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_policy_that_does_not_end_does_not_hold_the_others_up(hooks: Hooks) -> None:
    hooks.use([*bad_rules("loops"), *plain_rules("deny-first")], patience=0.2)
    process = started(hooks)
    try:
        hooks.prompt("Go.")
        start = time.monotonic()
        assert hooks.call("remove")["permissionDecision"] == "deny"
        assert time.monotonic() - start < 3
        assert [line["misstep"] for line in hooks.log() if line.get("e") == "fault"] == ["loops"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_many_at_once_through_it(hooks: Hooks, served: subprocess.Popen[bytes]) -> None:
    hooks.prompt("Go.")
    running = [hooks.start() for _ in range(100)]
    for number, process in enumerate(running):
        assert process.stdin is not None
        payload = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": f"t{number}"}
        process.stdin.write(json.dumps({**payload, "tool_input": {"command": "x"}, "cwd": "/w"}).encode())
        process.stdin.close()
    for process in running:
        assert process.wait(60) == 0
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stderr.close()
    seen = sorted(line["id"] for line in hooks.log() if line.get("e") == "before")
    assert seen == sorted(f"t{n}" for n in range(100))
    assert served.poll() is None
