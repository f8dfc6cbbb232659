"""Recording, replaying, grades, and branching from a verified prefix."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from misstep.sandbox import Limits, Root, SandboxError, record, replay
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.record import Recorded, Recorder, Recording
from misstep.trajectory.model import Call, Result, Step, Trajectory


@pytest.fixture
def start(root: Root) -> replay.Start:
    return lambda: BubblewrapSandbox(root, limits=Limits(memory_mb=256, processes=64, seconds=20), workdir="/app")


def recorded(start: replay.Start, path: Path, commands: list[str]) -> Recording:
    with start() as box, box.shell() as shell:
        recorder = Recorder(shell, path)
        for command in commands:
            recorder.run(command)
        recorder.close()
    return record.read(path)


class TestGrades:
    def test_what_is_deterministic_is_exact(self, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        commands = [
            "echo one > f; ls", "cat f g", "cd /tmp; A=1", "pwd; echo $A $$", "sleep 0.01 & echo $!; wait",
            "/usr/bin/python3 -c 'print(object(), hash(\"x\"), set(\"abc\"))'", "mkdir -p a/b/c; find . | sort",
            "(exit 9)", "printf '\\xff\\x00\\n'", "seq 20000", "env | sort", "ps -eo pid,ppid,args", "hostname; id; ulimit -a",
            "curl -s http://192.0.2.1 || echo none", "getent hosts example.org || echo unknown",
        ]  # fmt: skip
        prefix = replay.verify(recorded(start, tmp_path / "r", commands), start)
        assert [(one.grade, one.recorded.command) for one in prefix.compared if one.grade != "exact"] == []
        assert prefix.trusted() and prefix.first_difference is None and prefix.live == []

    def test_what_is_not_is_noise(self, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        commands = [
            "date", "date +%s%N", "date -Iseconds", "echo $RANDOM", "mktemp", "mktemp -d /app/XXXXXX", "head -c 8 /dev/urandom | od -An -tx8",
            "touch t; ls -l --time-style=full-iso t", "stat -c '%i %Y' t", "cat /proc/sys/kernel/random/uuid",
        ]  # fmt: skip
        prefix = replay.verify(recorded(start, tmp_path / "r", commands), start)
        assert [(one.grade, one.recorded.command) for one in prefix.compared if one.grade != "masked"] == []
        assert not prefix.trusted()
        assert prefix.trusted("masked")

    def test_what_differs_is_different(self, root: Root, tmp_path: Path) -> None:
        def before() -> BubblewrapSandbox:
            box = BubblewrapSandbox(root, workdir="/app")
            box.start()
            box.exec("echo 1 > version; echo 'total: 3 files'  > text")
            return box

        def after() -> BubblewrapSandbox:
            box = BubblewrapSandbox(root, workdir="/app")
            box.start()
            box.exec("echo 2 > version; echo 'total: 4 files' > text")
            return box

        recording = recorded(before, tmp_path / "r", ["echo same", "cat version", "cat text; date", "grep 1 version"])
        prefix = replay.verify(recording, after)
        assert [one.grade for one in prefix.compared] == ["exact", "different", "different", "different"]
        assert prefix.first_difference is prefix.compared[1]
        assert prefix.compared[1].reason == "the output differs"
        assert prefix.compared[3].reason == "exit code 0 became 1"
        assert not prefix.trusted("masked")

    def test_the_unknown_is_not_exact(self, start) -> None:  # type: ignore[no-untyped-def]
        recording = Recording(
            (Recorded("echo a", None, None), Recorded("echo b", "b\n", None), Recorded("false", None, 0))
        )
        prefix = replay.verify(recording, start)
        assert [one.grade for one in prefix.compared] == ["unknown", "exact", "different"]

    def test_long_outputs_are_compared_as_they_were_shown(self, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        recording = recorded(start, tmp_path / "r", ["seq 100000"])
        assert recording.commands[0].output is not None
        assert len(recording.commands[0].output) < 10_100
        assert "left out" in recording.commands[0].output
        assert replay.verify(recording, start).grade == "exact"

    def test_time_limits_replay(self, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        path = tmp_path / "r"
        with start() as box, box.shell() as shell:
            recorder = Recorder(shell, path)
            recorder.run("echo begun; sleep 20", timeout=0.3)
            recorder.run("echo next")
            recorder.close()
        recording = record.read(path)
        assert recording.commands[0].timed_out and recording.commands[0].exit_code == 124
        assert replay.verify(recording, start).grade == "exact"


class TestBranches:
    def test_a_prefix_of_files_is_branched_by_layers(self, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        commands = [
            "cd /tmp && mkdir work && cd work",
            "X='a b'; export Y=2; f() { echo \"f $1\"; }; alias ll='ls -l'",
            "set -o pipefail; echo data > file; umask 077",
        ]
        prefix = replay.verify(recorded(start, tmp_path / "r", commands), start, keep=True)
        assert prefix.trusted() and prefix.live == [] and prefix.state is not None
        branches = prefix.branch(3)
        try:
            for number, (box, shell) in enumerate(branches):
                seen = shell.run('pwd; echo "$X|$Y"; f 1; cat file; umask; false | true')
                assert (seen.output, seen.exit_code) == ("/tmp/work\na b|2\nf 1\ndata\n0077\n", 1)
                shell.run(f"echo {number} >> file")
                assert box.exec("wc -l < /tmp/work/file").text.strip() == "2"
        finally:
            for box, _ in branches:
                box.stop()
            prefix.discard()

    def test_a_prefix_with_live_processes_is_branched_by_replay(self, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        commands = ["echo x > f", "setsid sleep 555 > /dev/null 2>&1 & sleep 0.1", "V=7"]
        prefix = replay.verify(recorded(start, tmp_path / "r", commands), start, keep=True)
        assert [process.command for process in prefix.live] == ["sleep 555"]
        assert prefix.state is None
        branches = prefix.branch(2)
        try:
            for box, shell in branches:
                assert shell.run("cat f; echo $V").output == "x\n7\n"
                assert "sleep 555" in [process.command for process in box.processes()]
        finally:
            for box, _ in branches:
                box.stop()

    def test_a_branch_that_goes_another_way_is_an_error(self, start) -> None:  # type: ignore[no-untyped-def]
        recording = Recording((Recorded("setsid sleep 556 > /dev/null 2>&1 & sleep 0.1", "", 0),))
        prefix = replay.verify(recording, start, keep=True)
        assert prefix.live
        first = prefix.compared[0]
        prefix.compared[0] = replay.Compared(
            Recorded("echo other", "same\n", 0), (replay.Replayed("same\n", 0, first.replays[0].moment),), "exact"
        )
        with pytest.raises(SandboxError, match="went another way at: echo other"):
            prefix.branch(1)


class TestRecordings:
    def test_a_broken_off_line_is_dropped(self, start, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        path = tmp_path / "r"
        recorded(start, path, ["echo 1", "echo 2"])
        with path.open("a") as file:
            file.write('{"command": "echo 3", "outp')
        assert [one.command for one in record.read(path).commands] == ["echo 1", "echo 2"]

    def test_a_bad_line_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "r"
        path.write_text(json.dumps({"schema": record.SCHEMA}) + '\n{"command": 3}\n')
        with pytest.raises(SandboxError, match=":2: expected the texts"):
            record.read(path)
        path.write_text("[]\n")
        with pytest.raises(SandboxError, match=":1: expected a JSON object"):
            record.read(path)
        path.write_text("{}\n")
        with pytest.raises(SandboxError, match=":1: expected a recording"):
            record.read(path)

    def test_from_a_trajectory(self, start) -> None:  # type: ignore[no-untyped-def]
        """Commands and edits of another harness; what it refused or never ran is not replayed."""
        steps = [
            Step("agent", calls=[Call("1", "Bash", "shell", command="mkdir d && cd d && pwd")], results={"1": Result("/app/d\n", 0)}, time=time.time()),
            Step("agent", calls=[Call("2", "Write", "write", paths=("n.txt",), edits=(("/app/d/n.txt", "", "old text\n"),))], results={"2": Result("ok")}),
            Step("agent", calls=[Call("3", "Edit", "edit", edits=(("/app/d/n.txt", "old", "new"),))], results={"3": Result("ok")}),
            Step("agent", calls=[Call("4", "Bash", "shell", command="cat n.txt"), Call("5", "Bash", "shell", command="rm -rf /app")],
                 results={"4": Result("new text\n", 0), "5": Result("", None, fault="refused")}),
            Step("agent", calls=[Call("6", "Bash", "shell", command="cat d/n.txt")], results={"6": Result("new te...", 0, truncated=True)}),
            Step("agent", calls=[Call("7", "Edit", "edit", edits=(("/app/d/n.txt", "absent", "x"),))], results={"7": Result("ok")}),
        ]  # fmt: skip
        recording = record.from_trajectory(Trajectory("t", "test", "claude-code", steps, cwd="/app"))
        assert [one.step for one in recording.commands] == [0, 1, 2, 3, 4, 5]
        assert recording.skipped == {"refused: it had no effect": 1}
        prefix = replay.verify(recording, start)
        assert [one.grade for one in prefix.compared] == ["exact", "exact", "exact", "exact", "different", "different"]
        assert prefix.compared[4].reason == "exit code 0 became 1"  # the shell lasts: it is in d
        assert "not in /app/d/n.txt" in prefix.compared[5].reason

    def test_agents_with_a_shell_for_each_command(self, start) -> None:  # type: ignore[no-untyped-def]
        steps = [
            Step("agent", calls=[Call("1", "exec_command", "shell", command="cd /tmp; A=1; pwd")], results={"1": Result("/tmp\n", 0)}),
            Step("agent", calls=[Call("2", "exec_command", "shell", command="pwd; echo [$A]", cwd="/usr")], results={"2": Result("/usr\n[]\n", 0)}),
            Step("agent", calls=[Call("3", "exec_command", "shell", command="pwd")], results={"3": Result("/app\n", 0)}),
        ]  # fmt: skip
        recording = record.from_trajectory(Trajectory("t", "test", "codex", steps, cwd="/app"))
        assert not recording.lasting
        assert replay.verify(recording, start).grade == "exact"
