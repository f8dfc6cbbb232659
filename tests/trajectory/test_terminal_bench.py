"""Terminal-Bench v1 run folders, imitated: outcomes, steps from the recorded terminal, and agents that never ran."""

import csv
import json
from pathlib import Path

import pytest

from misstep.trajectory import Stop, Trajectory, atif_out, events
from misstep.trajectory.readers import Source, Unreadable, read, units
from misstep.trajectory.readers._tty import screen, unwrapped

START = ["asciinema rec --stdin /logs/agent.cast", "Enter"]
TESTS = ["asciinema rec --stdin /logs/tests.cast", "Enter"]
MINI = [
    START,
    ["clear", "Enter"],
    ["source /installed-agent/setup-env.sh", "Enter"],
    ["source /installed-agent/install-agent.sh && echo 'INSTALL_SUCCESS'", "Enter"],
    ["mini -m vendor/m-1 -t 'Make a greeting' -y --exit-immediately", "Enter"],
    TESTS,
    ["clear", "Enter"],
    ["bash ", "/tests/run-tests.sh", "Enter"],
]
WIDTH = 60
RULE = "\x1b[92m" + "─" * WIDTH + "\x1b[0m\r\n"
SPIN = "\x1b[?25l\x1b[32m⠋\x1b[0m Waiting for the LM to respond...\r\x1b[2K\x1b[32m⠙\x1b[0m Waiting for the LM to respond..."
USER = "\r\n\x1b[?25h\r\x1b[1A\x1b[2K\r\n\x1b[1;32mUser\x1b[0m:\r\n"
NOISE = (
    "\x1b[92m07:38:16 - LiteLLM:ERROR\x1b[0m: x.py:1 - Error\r\nTraceback (most recent call last):\r\n"
    "  File \"p.py\", line 74, in <module>\r\n    import backoff\r\nModuleNotFoundError: No module named 'backoff'\r\n"
)


def head(step: int, cost: str) -> str:
    return (
        f"\x1b[1;31mmini-swe-agent\x1b[0m\x1b[31m (step \x1b[0m\x1b[1;31m{step}\x1b[0m\x1b[31m, \x1b[0m"
        f"\x1b[1;31m${cost}\x1b[0m\x1b[31m):\x1b[0m\r\n"
    )


def said(text: str) -> str:
    return SPIN + "\r\x1b[2K" + text.replace("\n", "\r\n") + "\r\n" + SPIN


def seen(text: str) -> str:
    return USER + text.replace("\n", "\r\n") + "\r\n" + RULE


def trial(folder: Path, row: dict, log: str = "", typed: list | None = None, pane: str = "") -> Path:
    """A trial folder."""
    (folder / "sessions").mkdir(parents=True)
    (folder / "panes").mkdir()
    (folder / "results.json").write_text(json.dumps(row))
    (folder / "sessions" / "agent.log").write_text(log)
    (folder / "commands.txt").write_text("".join(f"{keys!r}\n" for keys in typed or []))
    (folder / "panes" / "post-agent.txt").write_text(pane)
    return folder


def row(name: str = "greet.1-of-1.run", **fields: object) -> dict:
    return {
        "id": "id-" + name,
        "trial_name": name,
        "task_id": "greet",
        "instruction": "Make a greeting",
        "is_resolved": True,
        "failure_mode": "unset",
        "parser_results": {"test_a": "passed"},
        "agent_started_at": "2025-08-14T05:44:35.546836+00:00",
        "agent_ended_at": "2025-08-14T05:45:35.546836+00:00",
        **fields,
    }


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


MINI_LOG = (
    "\x1b[?2004hroot@c:/app# mini -m vendor/m-1\r\nfetching 1%\rfetching 100%\r\n"
    "\r\n\x1b[1;32mSystem\x1b[0m:\r\nYou are helpful.\r\n"
    "\r\n\x1b[1;32mUser\x1b[0m:\r\nPlease solve this issue: Make a greeting\r\n\r\n```bash\r\nyour_command_here\r\n```\r\n"
    + RULE
    + SPIN
    + "\r\n"
    + head(1, "0.02")
    # 60 columns: broken before a word that did not fit, the blank kept
    + said(
        "THOUGHT: I look first.\n\n```bash\n"
        "echo one two three four five six seven eight nine ten and \neleven > greeting.txt && cat greeting.txt\n```"
    )
    + NOISE
    + seen("<returncode>0</returncode>\n<output>\none two\n</output>")
    + SPIN
    + "\r\n"
    + head(2, "0.05")
    + said("THOUGHT: Check.\n\n```bash\ngrep -c User: missing.txt\n```")
    + seen("<returncode>2</returncode>\n<output>\ngrep: missing.txt: No such file\nUser:\nmore\n</output>")
    + head(3, "0.06")
    + said("THOUGHT: A server.\n\n```bash\nsleep 99\n```")
    + seen(
        "The last command <command>sleep 99</command> timed out and has been killed.\nThe output of the command was:\n"
        " <output>\n\n</output>\nPlease try another command"
    )
    + head(4, "0.07")
    + said("THOUGHT: Two.\n\n```bash\nls\n```\n\n```bash\npwd\n```")
    + seen("Please always provide EXACTLY ONE action in triple backticks, found 2 actions.")
    + head(5, "0.08")
    + said("THOUGHT: Done.\n\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```")
    + USER
    + "\r\nSaved trajectory to '/root/last.traj.json'\r\n"
    + NOISE
    + "\x1b[?2004hroot@c:/app# \x1b[?2004l\r\r\nexit\r\n"
)


def test_mini_swe_agent_steps(tmp_path):
    found = one(trial(tmp_path / "t", row(), MINI_LOG, MINI, "root@c:/app# "))
    assert (found.id, found.agent, found.format) == ("id-greet.1-of-1.run", "mini-swe-agent", "terminal-bench")
    agent = [s for s in found.steps if s.source == "agent"]
    assert [c.command for s in agent for c in s.calls] == [
        "echo one two three four five six seven eight nine ten and eleven > greeting.txt && cat greeting.txt",
        "grep -c User: missing.txt",
        "sleep 99",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ]
    results = [s.results.get(c.id) for s in agent for c in s.calls]
    assert [(r.exit_code, r.failed) for r in results] == [(0, False), (2, True), (None, True), (None, False)]
    assert results[0].output == "one two\n"
    assert results[1].output == "grep: missing.txt: No such file\nUser:\nmore\n"
    assert agent[0].message.startswith("THOUGHT: I look first.") and "Traceback" not in agent[0].message
    assert [s.metrics["cost_usd"] for s in agent] == [0.02, 0.03, 0.01, 0.01, 0.01]
    assert [e.step for e in events(found) if isinstance(e, Stop)] == [len(found.steps) - 1]
    assert found.steps[0].prompt and found.steps[0].message == "Make a greeting"
    outcome = found.outcome
    assert (outcome.passed, outcome.reward, outcome.fault, outcome.seconds) == (True, 1.0, None, 60.0)
    assert outcome.task.startswith("greet@") and outcome.attempt == "greet.1-of-1.run" and outcome.exception == ""


def test_a_run_that_was_cut_off_has_no_stop_and_no_last_result(tmp_path):
    cut = MINI_LOG[: MINI_LOG.index("<returncode>2")]
    found = one(trial(tmp_path / "t", row(is_resolved=False, failure_mode="agent_timeout"), cut, MINI))
    agent = [s for s in found.steps if s.source == "agent"]
    assert [len(s.results) for s in agent] == [1, 0]
    assert not [e for e in events(found) if isinstance(e, Stop)]
    assert (found.outcome.passed, found.outcome.fault, found.outcome.exception) == (False, None, "agent_timeout")


def test_a_log_line_of_another_thread_inside_a_command_leaves_it_unknown(tmp_path):
    log = (
        head(1, "0.01")
        + said("```bash\nls\n" + NOISE.replace("\r\n", "\n") + "pwd\n```")
        + seen("<returncode>0</returncode>")
    )
    found = one(trial(tmp_path / "t", row(), log, MINI))
    assert [(c.kind, c.command) for s in found.steps for c in s.calls] == [("other", None)]


@pytest.mark.parametrize("begin", ["THOUGHT: I list.\n\n", ""])
def test_a_log_above_an_answer_is_no_part_of_it(tmp_path, begin):
    block = "```bash\ncat > n <<'E'\nTHOUGHT: x\nE\n```"
    log = head(1, "0.01") + said(NOISE.replace("\r\n", "\n") + begin + block) + seen("<returncode>0</returncode>")
    (step,) = [s for s in one(trial(tmp_path / "t", row(), log, MINI)).steps if s.source == "agent"]
    assert step.message == begin + block
    assert [c.command for c in step.calls] == ["cat > n <<'E'\nTHOUGHT: x\nE"]


@pytest.mark.parametrize(
    ("resolved", "mode", "passed", "fault"),
    [
        (True, "unset", True, None),
        (True, "agent_timeout", True, None),
        (False, "unset", False, None),
        (None, "test_timeout", None, "infrastructure"),
        (None, "parse_error", None, "infrastructure"),
        (None, "unknown_agent_error", None, "infrastructure"),
        (False, "unknown_agent_error", False, None),
        (False, "agent_installation_failed", False, "never-ran"),
        (None, "unset", None, None),
    ],
)
def test_outcomes(tmp_path, resolved, mode, passed, fault):
    outcome = one(trial(tmp_path / "t", row(is_resolved=resolved, failure_mode=mode), MINI_LOG, MINI)).outcome
    assert (outcome.passed, outcome.fault) == (passed, fault)
    assert outcome.reward == (None if passed is None else float(passed))
    assert outcome.extra["failure_mode"] == mode


OPENHANDS = [
    START,
    ["source /installed-agent/setup-env.sh", "Enter"],
    ["SANDBOX_VOLUMES=${PWD}:/w:rw /opt/oh/bin/python -m openhands.core.main --task 'Make a greeting'", "Enter"],
    TESTS,
]


@pytest.mark.parametrize(
    ("typed", "pane", "fault"),
    [
        (
            MINI,
            "INSTALL_SUCCESS\nroot@c:/app# mini -m vendor/m-1\nbash: mini: command not found\nroot@c:/app#\n\n",
            "never-ran",
        ),
        (
            MINI,
            "error: externally-managed-environment\nhint: See PEP 668\nINSTALL_SUCCESS\nbash: mini: command not found\n",
            "never-ran",
        ),
        (MINI, "error: externally-managed-environment\nINSTALL_SUCCESS\n", None),
        (MINI, "bash: tree: command not found\n", None),
        (OPENHANDS, "/opt/oh/bin/python: Error while finding module: No module named 'openhands'\n", "never-ran"),
        (OPENHANDS, "bash: /opt/oh/bin/python: No such file or directory\n", "never-ran"),
        (OPENHANDS, "ModuleNotFoundError: No module named 'numpy'\n", None),
        (OPENHANDS, "ModuleNotFoundError: No module named 'openhands'\n", None),
        (
            [START, ["source /installed-agent/setup-env.sh", "Enter"], ["openhands --task 'x'", "Enter"], TESTS],
            (
                "/app/bin/python3: Error while finding module specification for 'openhands.core.main' "
                "(ModuleNotFoundError: No module named 'openhands')\n"
            ),
            "never-ran",
        ),
        ([START, ["mini", "Enter"], TESTS], "bash: mini: command not found\n", None),
    ],
)
def test_agents_that_never_ran(tmp_path, typed, pane, fault):
    found = one(trial(tmp_path / "t", row(is_resolved=False), "root@c:/app# \r\n", typed, pane))
    assert found.outcome.fault == fault


def test_an_agent_with_steps_did_run(tmp_path):
    pane = "bash: mini: command not found\n"
    assert one(trial(tmp_path / "t", row(is_resolved=False), MINI_LOG, MINI, pane)).outcome.fault is None


SHELL = (
    "\x1b[?2004hroot@c:/app# asciinema rec --stdin /logs/agent.cast\r\n\x1b[?2004l\rrecording\r\n"
    "\x1b[?2004hroot@c:/app# clear\r\n\x1b[?2004l\r\x1b[H\x1b[J\x1b[3J"
    "\x1b[?2004hroot@c:/app# ls -la\r\n\x1b[?2004l\rtotal 0\r\n\x1b[32mgreen\x1b[0m.txt\r\n"
    "\x1b[?2004hroot@c:/app# python3\r\n\x1b[?2004l\r>>> print(1)\r\n1\r\n>>> \r\n"
    "\x1b[?2004hroot@c:/app# pwd\r\n\x1b[?2004l\r/app\r\n"
    "\x1b[?2004hroot@c:/app# "
)
KEYS = [
    START,
    ["clear", "Enter"],
    ["ls -la", "Enter"],
    ["python3\n"],
    ["print(1)", "Enter"],
    ["C-d"],
    ["pwd\n"],
    ["pwd\n"],
    TESTS,
    ["bash ", "/tests/run-tests.sh", "Enter"],
]


BEGUN = (
    "\x1b[?2004hroot@c:/app# openhands --task 'Make a greeting'; tmux wait -S done\r\n\x1b[?2004l\r"
    "\x1b[92m11:56:53 - openhands:INFO\x1b[0m: local_runtime.py:288 - [runtime r] Starting server with command: ['python']\r\n"
)
SERVED = (
    '\x1b[92m11:57:07 - openhands:INFO\x1b[0m: local_runtime.py:340 - [runtime r] Server: INFO:     "POST /execute_action HTTP/1.1" 200 OK\r\n'
    "\x1b[92m11:57:08 - openhands:INFO\x1b[0m: agent_controller.py:574 - [Agent Controller r] Setting agent(CodeActAgent) "
    "state from AgentState.LOADING to AgentState.RUNNING\r\n"
    "\x1b[92m11:59:13 - openhands:INFO\x1b[0m: agent_controller.py:902 - [Agent Controller r] Pending action active for 82.7s: "
    "CmdRunAction (id=45)\r\n"
)
GAVE_UP = (
    "ERROR:root:<class 'tenacity.RetryError'>: RetryError[<Future at 0x1 state=finished raised ConnectError>]\r\n"
    "\x1b[?2004hroot@c:/app# "
)
NO_PYTHON = (
    "/usr/local/bin/openhands: line 2: /app/.venv/bin/python: No such file or directory\r\n\x1b[?2004hroot@c:/app# "
)


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        (BEGUN + SERVED, None),
        (BEGUN + GAVE_UP, "never-ran"),
        (BEGUN + SERVED + GAVE_UP, None),
        (BEGUN, None),
        (BEGUN.split("\x1b[92m")[0] + NO_PYTHON, "never-ran"),
        (BEGUN + NO_PYTHON, None),
        (GAVE_UP, None),
        ("", None),
    ],
)
@pytest.mark.parametrize("launch", ["openhands --max-iterations 9 --task 'x'", OPENHANDS[2][0]])
def test_openhands_logs_no_actions_but_whether_it_came_to_act(tmp_path, log, fault, launch):
    typed = [START, ["source /installed-agent/setup-env.sh", "Enter"], [launch, "Enter"], TESTS]
    found = one(trial(tmp_path / "t", row(is_resolved=False), log, typed, "root@c:/app# "))
    assert (found.agent, found.steps, found.outcome.fault) == ("openhands", [], fault)


def test_the_log_of_another_agent_does_not_say_that_openhands_never_acted(tmp_path):
    found = one(trial(tmp_path / "t", row(is_resolved=False), BEGUN + GAVE_UP, MINI))
    assert (found.agent, found.outcome.fault) == ("mini-swe-agent", None)


def test_an_agent_that_acts_past_the_terminal_has_an_outcome_and_no_steps(tmp_path):
    typed = [START, ["clear", "Enter"], TESTS, ["clear", "Enter"], ["bash ", "/tests/run-tests.sh", "Enter"]]
    found = one(trial(tmp_path / "t", row(), "\x1b[?2004hroot@c:/app# \x1b[?2004l\r\r\nexit\r\n", typed))
    assert (found.steps, found.outcome.passed, found.outcome.fault) == ([], True, None)


def test_keystrokes_of_an_agent_in_the_terminal(tmp_path):
    found = one(trial(tmp_path / "t", row(), SHELL, KEYS))
    calls = [c for s in found.steps for c in s.calls]
    assert {c.kind for c in calls} == {"keys"}
    assert [c.command for c in calls] == ["ls -la\n", "python3\n", "print(1)\n", "\x04", "pwd\n", "pwd\n"]
    results = [s.results.get(c.id) for s in found.steps for c in s.calls]
    assert results[0].output == "total 0\ngreen.txt"
    assert results[2] is None and results[3] is None
    # typed twice, taken by the shell once: which of the two is not certain
    assert results[4] is None and results[5] is None
    assert all(r is None or (r.exit_code is None and r.failed is None) for r in results)


def test_a_cast_serves_where_there_is_no_log(tmp_path):
    folder = trial(tmp_path / "t", row(), "", KEYS)
    lines = [json.dumps({"version": 2, "width": 160, "height": 40})]
    lines += [json.dumps([0.1, "i", "ls -la\r"])]
    lines += [json.dumps([n / 10, "o", SHELL[n : n + 7]]) for n in range(0, len(SHELL), 7)]
    (folder / "sessions" / "agent.cast").write_text("\n".join(lines) + "\n[0.2, \n")
    found = one(folder)
    assert found.steps[1].results["0"].output == "total 0\ngreen.txt"


def test_terminus_episodes(tmp_path):
    folder = trial(tmp_path / "t", row(), "", KEYS)
    answers = [
        {
            "analysis": "Empty.",
            "plan": "Make it.",
            "commands": [{"keystrokes": "echo hi > g\n", "duration": 0.5}, {"keystrokes": "cat g\n", "duration": 0.1}],
            "task_complete": False,
        },
        {"analysis": "Done.", "plan": "", "commands": [], "task_complete": True},
    ]
    for number, answer in enumerate(answers):
        episode = folder / "agent-logs" / f"episode-{number}"
        episode.mkdir(parents=True)
        (episode / "prompt.txt").write_text("New Terminal Output:\nroot@c:/app# cat g\nhi\n" if number else "The task")
        (episode / "response.txt").write_text(("" if number else "Sure: ") + json.dumps(answer))
    found = one(folder)
    first, last = found.steps[1:]
    assert [(c.kind, c.command) for c in first.calls] == [("keys", "echo hi > g\n"), ("keys", "cat g\n")]
    assert list(first.results) == [first.calls[1].id]
    assert first.results[first.calls[1].id].shared and "hi" in first.results[first.calls[1].id].output
    assert [c.kind for c in last.calls] == ["finish"] and not last.results


def test_an_installed_agents_launch_is_not_its_keys(tmp_path):
    found = one(trial(tmp_path / "t", row(), "root@c:/app# ", OPENHANDS))
    assert found.agent == "openhands" and not found.steps


def run_folder(root: Path, name: str, trials: dict[str, dict], listed: list[dict]) -> Path:
    root.mkdir(parents=True)
    (root / "run_metadata.json").write_text(
        json.dumps({"run_id": name, "agent_name": "some-agent", "model_name": "m-1"})
    )
    (root / "results.json").write_text(json.dumps({"id": "run-" + name, "results": listed, "pass_at_k": {}}))
    for trial_name, fields in trials.items():
        trial(root / "greet" / trial_name, fields)
    return root


def collected(root: Path) -> list[Trajectory]:
    found = []
    for path in units([root]):
        try:
            found += list(read(path))
        except Unreadable:
            continue
    return found


def test_a_run_alone_gives_outcomes_and_with_folders_counts_once(tmp_path):
    rows = [row("a"), row("b", is_resolved=None, failure_mode="test_timeout")]
    run_folder(tmp_path / "r1", "r1", {"a": rows[0]}, rows)
    found = {t.id: t for t in collected(tmp_path)}
    assert sorted(found) == ["id-a", "id-b"]
    assert not found["id-b"].steps and found["id-b"].outcome.fault == "infrastructure"
    assert found["id-b"].agent == found["id-a"].agent == "some-agent" and found["id-a"].model == "m-1"
    assert found["id-b"].outcome.extra["run"] == "r1"
    assert len(collected(tmp_path)) == 2


def test_a_copy_of_a_run_inside_another_is_counted_once(tmp_path):
    rows = [row("a"), row("b")]
    run_folder(tmp_path / "r1", "r1", {"a": rows[0]}, rows)
    run_folder(tmp_path / "r2", "r2", {"c": row("c")}, [row("c")])
    run_folder(tmp_path / "r2" / "r1", "r1", {"a": rows[0]}, rows)
    assert sorted(t.id for t in collected(tmp_path)) == ["id-a", "id-b", "id-c"]
    source = Source(tmp_path / "r2" / "r1" / "greet" / "a")
    with pytest.raises(Unreadable, match="copy of a trial"):
        list(read(source))


def test_a_trial_in_a_nested_run_without_its_original_is_read(tmp_path):
    run_folder(tmp_path / "r2", "r2", {}, [row("c")])
    run_folder(tmp_path / "r2" / "r1", "r1", {"a": row("a")}, [row("a")])
    assert sorted(t.id for t in collected(tmp_path)) == ["id-a", "id-c"]


def test_damaged_parts_leave_the_rest(tmp_path):
    folder = trial(tmp_path / "t", row(), MINI_LOG, MINI)
    (folder / "commands.txt").write_bytes(b"['a', \n\xff\xfe\n[" + b"(" * 5000 + b"\n__import__('os')\n")
    found = one(folder)
    assert [len(s.calls) for s in found.steps if s.source == "agent"] == [1, 1, 1, 0, 1]


def test_screen_obeys_the_terminal():
    assert screen("a\r\nbc\rX\r\n\x1b[1mq\x1b[0m spin\r\x1b[2KNEW\r\ngone\r\n\x1b[1A\x1b[2Kok") == [
        "a",
        "Xc",
        "NEW",
        "ok",
        "",
    ]
    assert screen("one\x1b[H\x1b[2Jtwo") == ["two"]
    assert screen("ab\x08c") == ["ac"]


@pytest.mark.parametrize(
    ("lines", "whole", "likely"),
    [
        (["aaaa bbbb ", "cccc"], ["aaaa bbbb cccc"], 0),
        (["aaaa ", "bb"], ["aaaa ", "bb"], 0),
        (["aaaa", "bbbbbbbb"], ["aaaa", "bbbbbbbb"], 0),
        (["0123456789ab", "cdef"], ["0123456789abcdef"], 0),
        (["aaaa bbbbbbb", "cc"], ["aaaa bbbbbbb cc"], 1),
        (["============", "title"], ["============", "title"], 0),
        (["aaaa bbbbbbb", "  indented"], ["aaaa bbbbbbb", "  indented"], 0),
    ],
)
def test_wraps_are_undone_where_certain(lines, whole, likely):
    assert unwrapped(lines, 12) == (whole, likely)


@pytest.mark.corpus
def test_the_recorded_outcomes_have_nulls_and_never_ran(shared):
    """The label set that the never-ran rule was measured against still says what the rule's tests assume."""
    with (shared / "corpus/terminal-bench-v1/derived/outcomes.csv").open() as file:
        rows = list(csv.DictReader(file))
    never = [r for r in rows if r["agent_never_ran"] == "1"]
    assert len(rows) == 5200 and sum(r["is_resolved"] not in ("True", "False") for r in rows) == 418
    assert len(never) == 156 and sum("mini" in r["config"] for r in never) == 153


def test_a_trial_written_as_atif_reads_the_same(tmp_path):
    found = one(trial(tmp_path / "t", row(), MINI_LOG, MINI))
    again = one(atif_out.write_file(found, tmp_path / "out.json"))
    assert [type(e) for e in events(again)] == [type(e) for e in events(found)]
    assert [c.command for s in again.steps for c in s.calls] == [c.command for s in found.steps for c in s.calls]
    assert again.outcome.task == found.outcome.task and again.outcome.passed is True
    keys = one(trial(tmp_path / "k", row(), SHELL, KEYS))
    again = one(atif_out.write_file(keys, tmp_path / "keys.json"))
    assert [(c.kind, c.command) for s in again.steps for c in s.calls] == [
        (c.kind, c.command) for s in keys.steps for c in s.calls
    ]
