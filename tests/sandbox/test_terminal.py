"""A shell at a terminal: as a Shell, and by keys for what runs in it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from misstep.sandbox import Limits, SandboxError, Terminal
from misstep.sandbox.bubblewrap import BubblewrapSandbox
from misstep.sandbox.terminal import TerminalShell


@pytest.fixture
def terminal(box: BubblewrapSandbox) -> Iterator[TerminalShell]:
    with box.terminal() as terminal:
        yield terminal


def until(terminal: TerminalShell, word: str, seconds: float = 5.0) -> str:
    """What is read until the word is there."""
    seen, end = "", time.monotonic() + seconds
    while word not in seen:
        assert time.monotonic() < end, repr(seen)
        seen += terminal.read(0.2)
    return seen


def until_screen(terminal: TerminalShell, word: str, seconds: float = 5.0) -> str:
    end = time.monotonic() + seconds
    while word not in (seen := terminal.screen()):
        assert time.monotonic() < end, seen
        time.sleep(0.01)
    return seen


class TestAsAShell:
    def test_it_is_one(self, terminal: TerminalShell) -> None:
        assert isinstance(terminal, Terminal)

    def test_programs_find_a_terminal(self, terminal: TerminalShell) -> None:
        seen = terminal.run("tty; for n in 0 1 2; do test -t $n && echo $n; done; stty size; echo $TERM; tput cols")
        assert (seen.output, seen.exit_code) == ("/dev/pts/0\n0\n1\n2\n24 80\nxterm-256color\n80\n", 0)

    def test_state_lasts_and_codes_are_theirs(self, terminal: TerminalShell) -> None:
        terminal.run('cd /tmp && export A=1; b="x  y"; f() { echo "f$1"; }')
        seen = terminal.run('pwd; echo "$A$b"; f 3; false')
        assert (seen.output, seen.exit_code) == ("/tmp\n1x  y\nf3\n", 1)

    @pytest.mark.parametrize(
        ("command", "shown", "code"),
        [
            ("echo 'one\ntwo\tthree!!'", "one\ntwo\tthree!!\n", 0),
            ("cat <<'E'\n$x '\"\\\nE", "$x '\"\\\n", 0),
            ("echo a # comment", "a\n", 0),
            ("", "", 0),
            ("true\\", "", 0),
            ("(exit 7)", "", 7),
            ("echo err >&2", "err\n", 0),
            ("echo 'é界'", "é界\n", 0),
            ("printf 'no end'", "no end", 0),
            ("history | wc -l", "0\n", 0),
            ("printf '\\033[31mred\\033[0m\\033]0;title\\007\\n'", "\x1b[31mred\x1b[0m\x1b]0;title\x07\n", 0),
            ("ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 ", 0),
        ],
    )
    def test_any_text_is_a_command(self, terminal: TerminalShell, command: str, shown: str, code: int) -> None:
        seen = terminal.run(command)
        assert (seen.output, seen.exit_code) == (shown, code)
        assert terminal.run("echo next").output == "next\n"

    @pytest.mark.parametrize("command", ["echo 'open", "if true", "echo )", "cat <<E\nno end"])
    def test_a_syntax_error_puts_nothing_out_of_step(self, terminal: TerminalShell, command: str) -> None:
        terminal.run(command)
        assert terminal.run("echo next").output == "next\n"

    def test_a_long_command_and_much_output(self, terminal: TerminalShell) -> None:
        assert terminal.run(f"echo {'x' * 100_000}").output == "x" * 100_000 + "\n"
        assert terminal.run("seq 100000").output == "".join(f"{i}\n" for i in range(1, 100_001))

    def test_a_time_limit_spares_the_shell_and_older_jobs(
        self, box: BubblewrapSandbox, terminal: TerminalShell
    ) -> None:
        terminal.run("x=1; sleep 77 &")
        seen = terminal.run("echo begun; setsid sleep 78 & sleep 79", timeout=0.3)
        assert (seen.output.splitlines()[0], seen.exit_code, seen.timed_out) == ("begun", 124, True)
        assert terminal.run("echo $x").output.endswith("1\n")
        assert [p.command for p in box.processes() if "sleep" in p.command] == ["sleep 77"]

    def test_a_shell_stuck_in_itself_is_interrupted(self, terminal: TerminalShell) -> None:
        terminal.run("x=kept")
        seen = terminal.run("while :; do :; done", timeout=0.2)
        assert seen.timed_out and not seen.shell_ended
        assert terminal.run("echo $x").output == "kept\n"
        assert terminal.run("trap '' INT; while :; do :; done", timeout=0.2).shell_ended
        assert terminal.run("echo new").output == "new\n"

    def test_exit_ends_the_shell_and_the_next_command_has_a_new_one(self, terminal: TerminalShell) -> None:
        seen = terminal.run("x=1; echo bye; exit 5")
        assert (seen.output.startswith("bye\n"), seen.exit_code, seen.shell_ended) == (True, 5, True)
        assert terminal.run('echo "[$x]"').output == "[]\n"

    def test_a_flood(self, make) -> None:  # type: ignore[no-untyped-def]
        with make(limits=Limits(output_mb=0.5)).terminal() as terminal:
            seen = terminal.run("yes", timeout=20)
            assert seen.flooded and len(seen.output) > 300_000
            assert terminal.run("echo next").output == "next\n"

    def test_plain_sh(self, box: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(box, "shell_path", lambda: "/bin/sh")
        with box.terminal() as terminal:
            terminal.run("cd /tmp; x='a b'")
            seen = terminal.run("pwd; echo \"$x\"\necho 'two\nlines'; (exit 4)")
            assert (seen.output, seen.exit_code) == ("/tmp\na b\ntwo\nlines\n", 4)
            terminal.send("cat", "Enter", "typed", "Enter")
            until(terminal, "typed\r\ntyped\r\n")
            terminal.send("C-c")
            assert terminal.run("echo back").output == "back\n"
            with pytest.raises(SandboxError, match="needs bash"):
                terminal.run("echo " + "x" * 5000)

    def test_a_prompt_of_its_users_own(self, terminal: TerminalShell) -> None:
        terminal.run("PS1='> '")
        assert terminal.run("echo 1").output == "1\n"
        assert terminal.run("echo 2; false").exit_code == 1

    def test_another_user(self, box: BubblewrapSandbox) -> None:
        if box.exec("chown 1000 /app").exit_code:
            pytest.skip("only root can run commands in a single-user namespace")
        with box.terminal(user="agent") as terminal:
            assert terminal.run("id -un; echo there > $(tty)").output == "agent\nthere\n"

    def test_a_size_that_is_none(self, box: BubblewrapSandbox) -> None:
        with pytest.raises(SandboxError, match="0 rows and 80 columns"):
            box.terminal(rows=0)


class TestKeys:
    def test_an_interpreter(self, terminal: TerminalShell) -> None:
        terminal.send("python3 -q", "Enter")
        until(terminal, ">>> ")
        terminal.send("1 + 41", "Enter")
        assert "\n42\r\n" in until(terminal, ">>> ")
        assert terminal.busy
        with pytest.raises(SandboxError, match="a program runs at the terminal"):
            terminal.run("true")
        terminal.send("C-d")
        assert terminal.run("echo back").output == "back\n"
        assert not terminal.busy

    def test_an_interrupt_reaches_the_foreground_alone(self, box: BubblewrapSandbox, terminal: TerminalShell) -> None:
        terminal.run("sleep 91 &")
        terminal.send("sleep 92 | sleep 93", "Enter")
        end = time.monotonic() + 5
        while "sleep 93" not in [p.command for p in box.processes()]:
            assert time.monotonic() < end
        terminal.read(0)
        terminal.send("C-c")
        until(terminal, "# ")
        assert terminal.run("echo $?").output == "130\n"
        assert [p.command for p in box.processes() if "sleep" in p.command] == ["sleep 91"]

    def test_a_job_is_stopped_and_goes_on(self, terminal: TerminalShell) -> None:
        terminal.send("sleep 0.3; echo woken", "Enter")
        time.sleep(0.1)
        terminal.send("C-z")
        until(terminal, "Stopped")
        assert "woken" in terminal.run("fg; echo woken").output

    def test_half_a_line_is_thrown_away(self, terminal: TerminalShell) -> None:
        terminal.send("echo 'half")
        until(terminal, "half")
        assert terminal.run("echo whole").output == "whole\n"

    def test_a_pager(self, terminal: TerminalShell) -> None:
        terminal.run("seq 500 > /tmp/numbers")
        before = terminal.screen()
        terminal.send("less /tmp/numbers", "Enter")
        until_screen(terminal, "\n23")
        assert terminal.screen().split("\n")[:3] == ["1", "2", "3"]
        terminal.send("G")
        assert until_screen(terminal, "(END)").split("\n")[-2] == "500"
        terminal.send("/^49", "Enter", "g", "Down", "Down")
        deadline = time.monotonic() + 10
        while terminal.screen().split("\n")[0] != "3" and time.monotonic() < deadline:
            time.sleep(0.02)  # it is drawn once a key
        assert terminal.screen().split("\n")[:2] == ["3", "4"]
        terminal.send("q")
        assert terminal.run("echo done").output == "done\n"
        assert terminal.screen().startswith(before.split("\n")[0])

    def test_a_name_as_text(self, terminal: TerminalShell) -> None:
        terminal.send("cat", "Enter")
        time.sleep(0.2)
        terminal.send("Enter", "C-c", literal=True)
        terminal.send("Enter")
        until(terminal, "EnterC-c\r\nEnterC-c\r\n")
        terminal.send("C-d")
        assert terminal.run("echo $?").output == "0\n"

    def test_what_is_read_is_read_once(self, terminal: TerminalShell) -> None:
        terminal.send("echo on'e'", "Enter")
        assert "one\r\n" in until(terminal, "\r\none\r\n")
        assert "one" not in terminal.read(0.1)
        began = time.monotonic()
        assert terminal.read(0.2) == ""
        assert 0.15 < time.monotonic() - began < 2

    def test_another_size(self, terminal: TerminalShell) -> None:
        terminal.run("trap 'echo changed' WINCH")
        terminal.resize(10, 40)
        assert terminal.run("stty size").output.endswith("10 40\n")

    def test_nothing_stalls_while_nobody_reads(self, box: BubblewrapSandbox, terminal: TerminalShell) -> None:
        terminal.send("seq 400000; touch /tmp/through", "Enter")
        end = time.monotonic() + 20
        while box.exec("test -e /tmp/through").exit_code:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert terminal.screen().split("\n")[-2] == "400000"
        assert os.fstat(terminal._output).st_blocks * 512 < 200_000  # what has been read takes no room

    def test_who_reads_nothing_takes_no_more(self, terminal: TerminalShell, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal.send("stty raw -echo; sleep 60", "Enter")
        time.sleep(0.2)
        monkeypatch.setattr("misstep.sandbox.terminal._PATIENCE", 0.3)
        with pytest.raises(SandboxError, match="takes no more input"):
            terminal.send("x" * 1_000_000)

    def test_a_shell_that_was_ended_by_keys(self, terminal: TerminalShell) -> None:
        terminal.send("exit", "Enter")
        until(terminal, "exit")
        assert terminal.run("echo new").output == "new\n"


class TestItsEnd:
    def test_closing_it_hangs_up(self, box: BubblewrapSandbox) -> None:
        with box.terminal() as terminal:
            terminal.run(
                "sleep 81 & nohup sleep 82 >/dev/null 2>&1 & setsid sleep 83 & disown -a; sleep 84 & sleep 0.1"
            )
            terminal.send("sleep 85", "Enter")
            end = time.monotonic() + 5
            while "sleep 85" not in [p.command for p in box.processes()]:
                assert time.monotonic() < end
        end = time.monotonic() + 5
        while (left := sorted(p.command for p in box.processes())) != ["sleep 81", "sleep 82", "sleep 83"]:
            assert time.monotonic() < end, left  # disowned: the shell does not hang them up

    def test_the_end_of_the_session_takes_it_along(self, box: BubblewrapSandbox) -> None:
        terminal = box.terminal()
        terminal.run("sleep 86 & nohup sleep 87 >/dev/null 2>&1 & setsid sleep 88 & sleep 0.1")
        terminal.send("python3 -q", "Enter")
        until(terminal, ">>> ")
        assert sorted(p.command for p in box.end_session()) == ["sleep 87", "sleep 88"]
        terminal.close()

    def test_descriptors_are_given_back(self, box: BubblewrapSandbox) -> None:
        box.exec("true")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with box.terminal() as terminal:
                terminal.run("true")
        assert len(os.listdir("/proc/self/fd")) == before

    def test_a_sandbox_that_ends_meanwhile(self, box: BubblewrapSandbox) -> None:
        terminal = box.terminal()
        terminal.run("true")
        box.stop()
        with pytest.raises(SandboxError):
            terminal.run("true")
        terminal.close()
