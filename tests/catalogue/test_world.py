"""What the missteps about commands and their surroundings share, and what their examples do not show."""

from __future__ import annotations

import itertools

import pytest

from misstep.catalogue import Verdict, get
from misstep.catalogue._world import bound, changes, core, digest, heart, program, same_path, short, timed_out
from misstep.shell import scan
from misstep.trajectory import FAULTS, After, Before, Call, Event, Prompt, Result, Stop

MINE = [
    "blocking-foreground",
    "broad-kill",
    "destroyed-what-to-keep",
    "discards-unseen-work",
    "edits-text-not-there",
    "install-over-failure",
    "invents-an-option",
    "leaves-scratch-files",
    "overwrite-before-copy",
    "reads-missing-path",
    "rereads-unchanged-file",
    "reruns-to-see-more",
    "runs-into-limit-again",
    "sleep-polling",
]


def shell(command: str, id: str = "c", **more) -> Call:
    return Call(id, "Bash", "shell", {"command": command}, command=command, **more)


def stream(*items: tuple[Call, Result | None] | str) -> list[Event]:
    """Events of calls with their results; a text is a prompt where it stands first, else the last message."""
    found: list[Event] = []
    for number, item in enumerate(items):
        if isinstance(item, str):
            found.append(Prompt(len(found), number, item) if number == 0 else Stop(len(found), number, item))
            continue
        call, result = item
        call.id = f"c{number}"
        found.append(Before(len(found), number, call))
        if result is not None:
            found.append(After(len(found), number, call, result))
    return found


def verdicts(id: str, events: list[Event]) -> list[Verdict]:
    misstep = get(id)
    state = misstep.State()
    found = list(itertools.chain.from_iterable(misstep.observe(state, e) for e in events))
    return sorted([*found, *(misstep.finish(state) or ())], key=lambda v: v.at)


def holds(id: str, *items) -> list[bool | None]:
    return [v.holds for v in verdicts(id, stream(*items))]


# -- the shared parts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Result("", None, True, timed_out=True), True),
        (Result("Command timed out after 2m 0.0s\npartial", 143, True), True),
        (Result("The last command timed out and has been killed.", None, True), True),
        (Result("command timed out after 10000 milliseconds", 124, True), True),
        (Result("requests.exceptions: the request timed out after 5 s", 1, True), False),
        (Result("Command timed out after 2m", 0, False), False),
        (Result("Command timed out", None, True, fault="interrupted"), False),
        (Result("", 124, True), False),
    ],
)
def test_a_time_limit_is_the_harness_s_own(result: Result, expected: bool):
    assert timed_out(shell("sleep 900"), result) is expected


def test_what_runs_in_the_background_is_not_ended_by_the_limit():
    assert not timed_out(shell("sleep 900", background=True), Result("", None, True, timed_out=True))


def test_the_core_of_a_script_leaves_out_filters_echoes_and_folders():
    assert core(scan("cd /srv && make -j4 2>&1 | tail -5; echo done")) == core(scan("make -j4 2>&1 | grep error"))
    assert core(scan("make -j4")) != core(scan("make -j8"))
    assert core(scan("grep x a.txt | head")) == "grep x a.txt", "a filter at the head of a pipe is the work itself"
    assert core(scan("python3 - <<'E'\nprint(1)\nE")) != core(scan("python3 - <<'E'\nprint(2)\nE"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python3 ./train.py --epochs 3", "python3 train.py"),
        ("pip install torch", "pip install"),
        ("/opt/env/bin/pip -q install torch", "pip install"),
        ("python3 -c 'print(1)'", "python3 -c"),
        ("python3 -m http.server", "python3 http.server"),
        ("ls", "ls"),
    ],
)
def test_the_program_with_its_script_or_subcommand(command: str, expected: str):
    assert program(heart(scan(command))[0]) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/srv/app/a.txt", "a.txt", True),
        ("./a.txt", "a.txt", True),
        ("/srv/app/a.txt", "app/a.txt", True),
        ("/srv/data.txt", "a.txt", False),
        ("/srv/a.txt", "/opt/a.txt", False),
        ("x/a.txt", "y/a.txt", False),
        ("data/", "data", True),
    ],
)
def test_same_path(one: str, other: str, expected: bool):
    assert same_path(one, other) is expected
    assert same_path(other, one) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (Call("c", "Read", "read", paths=("a",)), False),
        (Call("c", "Edit", "edit", paths=("a",)), True),
        (Call("c", "TodoWrite", "other"), False),
        (Call("c", "mcp__db__migrate", "other"), None),
        (shell("git status && ls -la | head"), False),
        (shell("rm -r build"), True),
        (shell("echo x > a.txt"), True),
        (shell("./deploy"), None),
        (shell("frobnicate --all"), None),
        (shell("echo 'unclosed"), None),
    ],
)
def test_what_a_call_changes(call: Call, expected: bool | None):
    assert changes(call) is expected


def test_evidence_is_one_short_line():
    assert short("a\n  b\tc", 80) == "a b c"
    assert len(short("x" * 500, 60)) == 60


def test_a_digest_tells_texts_apart_and_is_the_same_in_every_process():
    assert digest("a") == "1-e8b7be4300620062"
    assert len({digest(t) for t in ("", "a", "b", "ab", "ba", "\ud800")}) == 6


def test_bound_drops_the_oldest():
    kept = {"a": 1, "b": 2, "c": 3}
    bound(kept, 2)
    assert kept == {"b": 2, "c": 3}


# -- all of these missteps -----------------------------------------------------------------------

SOILED = [
    (shell("vim a.py"), "Vim: Warning: Output is not to a terminal"),
    (shell("pkill -f python"), ""),
    (shell("git show --no-stat"), "fatal: unrecognized argument: --no-stat"),
    (shell("echo 'x"), "bash: -c: line 1: unexpected EOF while looking for matching `''"),
    (shell("pytest -k nothing"), "collected 0 items"),
    (shell("sleep 9; tail log"), "Command timed out after 2m"),
    (shell("sleep 9; tail log"), "Command timed out after 2m"),
    (shell("sleep 9; tail log"), "Command timed out after 2m"),
    (shell("rm -rf /srv/keep"), ""),
    (shell("sed -i s/a/b/ data.csv"), ""),
    (Call("c", "Edit", "edit", paths=("a.py",), edits=(("a.py", "x", "y"),)), "String to replace not found in file."),
    (Call("c", "Write", "write", paths=("debug_a.py",), edits=(("debug_a.py", "", "y"),)), ""),
    (Call("c", "Read", "read", {"file_path": "b.py"}, paths=("b.py",)), "File does not exist."),
]


@pytest.mark.parametrize("id", MINE)
@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "malformed"])
def test_a_fault_is_never_the_agent_s_misstep(id: str, fault: str):
    """A call that a person refused or broke off, that the harness lost or that never ran."""
    events = stream(
        "Do not delete /srv/keep. Look at data.csv.",
        *((call, Result(text, None, True, fault=fault, timed_out=True)) for call, text in SOILED),
        "Done.",
    )
    assert [v for v in verdicts(id, events) if v.holds] == []


@pytest.mark.parametrize("id", MINE)
def test_a_call_without_a_result_is_no_occurrence(id: str):
    events = stream("Do not delete /srv/keep.", *((call, None) for call, _ in SOILED), "Done.")
    assert [v for v in verdicts(id, events) if v.holds] == []


@pytest.mark.parametrize("id", MINE)
def test_damaged_shell_text_is_no_evidence(id: str):
    """Where the scanner cannot read a command, only the shell's own complaint may be told."""
    text = "pkill -f python; rm -rf /srv/keep; sed -i s/a/b/ data.csv; pip install --force x; vim 'a"
    events = stream("Do not delete /srv/keep. Look at data.csv.", (shell(text), Result("", 0, False)), "Done.")
    assert [v for v in verdicts(id, events) if v.holds] == []


@pytest.mark.parametrize("id", MINE)
def test_results_that_arrive_after_other_calls_are_told_at_their_own_call(id: str):
    """Parallel calls: two Before, then two After."""
    one, two = shell("ls"), shell("git show --no-stat")
    one.id, two.id = "one", "two"
    events: list[Event] = [
        Before(0, 0, one),
        Before(1, 0, two),
        After(2, 0, one, Result("a.py", 0, False)),
        After(3, 0, two, Result("fatal: unrecognized argument: --no-stat", 128, True)),
    ]
    found = [v for v in verdicts(id, events) if v.holds]
    assert [v.at for v in found] == ([1] if id == "invents-an-option" else [])


# -- what single missteps must tell apart --------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("tool --nope", "error: unexpected argument '--nope' found", True),
        ("tool -Z x", "unknown shorthand flag: 'Z' in -Z", True),
        ("tool --fast=9", "tool: unrecognized option '--fast=9'", True),
        ("tool --nope", "Error: No such option: --nope", True),
        ("tool build", "error: unknown command 'build'", False),
        ("tool --size 9", "error: invalid value '9' for '--size'", False),
        ("tool --size 9", "invalid option: --sizes", False),
    ],
)
def test_the_refused_option_stands_in_the_command(command: str, output: str, expected: bool):
    assert holds("invents-an-option", (shell(command), Result(output, 2, True))) == [expected]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("pkill -f python3", True),
        ("pkill -f apt", True),
        ("killall node", True),
        ("pkill nginx", False),
        ("pkill -f 'python3 server.py'", False),
        ("pkill -f server.py", False),
        ("kill %1", False),
        ("ps aux | grep 'report.py' | grep -v grep | awk '{print $2}' | head -1 | xargs kill", False),
        ("ps aux | grep 'python -m notebook' | grep -v grep | awk '{print $2}' | xargs kill", False),
        ("ps aux | grep python | awk '{print $2}' | xargs kill -9", True),
        ("kill 4211", False),
    ],
)
def test_which_patterns_are_broad(pattern: str, expected: bool):
    assert holds("broad-kill", (shell(pattern), Result("", 0, False))) == [expected]


@pytest.mark.parametrize(
    ("prompt", "command", "expected"),
    [
        ("Never delete `data/raw.csv`.", "rm data/raw.csv", [True]),
        ("Never delete `data/raw.csv`.", "echo x >> data/raw.csv", []),
        ("Do not modify data/raw.csv.", "echo x >> data/raw.csv", [True]),
        ("Do not modify data/raw.csv.", "cp data/raw.csv /tmp/raw.csv && rm /tmp/raw.csv", [False]),
        ("The file data/raw.csv must remain unchanged.", "mv data/raw.csv data/old.csv", [True]),
        ("Leave config.ini untouched.", "sed -i s/a/b/ ./config.ini", [True]),
        ("Do not delete anything except tmp.log.", "rm tmp.log", []),
        ("Delete old.csv when you are done.", "rm old.csv", []),
    ],
)
def test_what_a_prompt_protects(prompt: str, command: str, expected: list[bool]):
    assert holds("destroyed-what-to-keep", prompt, (shell(command), Result("", 0, False))) == expected


def test_uncommitted_work_counts_only_where_it_was_there_before_the_agent():
    status = (shell("git status --short"), Result(" M notes.md\n?? todo.txt\n", 0, False))
    reset = (shell("git checkout -- ."), Result("", 0, False))
    edit = (Call("c", "Edit", "edit", paths=("a.py",), edits=(("a.py", "x", "y"),)), Result("updated", None, False))
    assert holds("destroyed-what-to-keep", "Fix it.", status, edit, reset) == [True]
    assert holds("destroyed-what-to-keep", "Fix it.", edit, status, reset) == [None]
    one = (shell("git checkout -- a.py"), Result("", 0, False))
    assert holds("destroyed-what-to-keep", "Fix it.", status, edit, one) == [False]


def test_a_restart_with_a_larger_limit_is_right_and_the_next_kill_is_measured_against_it():
    killed = Result("", None, True, timed_out=True)
    run = [(shell("make all", timeout=t), killed) for t in (60.0, 600.0, 600.0)]
    assert holds("runs-into-limit-again", *run) == [False, True]


def test_a_new_prompt_forgets_what_was_killed_and_read():
    killed = Result("", None, True, timed_out=True)
    read = (Call("c", "Read", "read", {"file_path": "a.py"}, paths=("a.py",)), Result("x = 1\n" * 200, None, False))
    events = stream((shell("make all"), killed), read)
    events.append(Prompt(len(events), 9, "Try again, I changed something."))
    for event in stream((shell("make all"), killed), read):
        event.index += 5
        events.append(event)
    assert [v for v in verdicts("runs-into-limit-again", events) if v.holds] == []
    assert [v for v in verdicts("rereads-unchanged-file", events) if v.holds] == []


def test_a_series_of_polls_is_told_once():
    polls = [(shell(f"sleep {n}; tail -3 train.log"), Result(f"epoch {n}", 0, False)) for n in range(5, 15)]
    assert [h for h in holds("sleep-polling", *polls) if h] == [True]


# -- policies ------------------------------------------------------------------------------------


def fires(id: str, events: list[Event], command: str, **more) -> bool | None:
    """Whether the policy would refuse this command after these events."""
    misstep = get(id)
    state = misstep.State()
    for event in events:
        misstep.observe(state, event)
    call = shell(command, id="next", **more)
    return misstep.policies[0].fires(state, Before(len(events), len(events), call))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("uvicorn app:app --port 8000", True),
        ("tail -f server.log", True),
        ("vim notes.txt", True),
        ("timeout 5 tail -f server.log", False),
        ("uvicorn app:app > u.log 2>&1 &", False),
        ("man tar", False),
        ("git rebase -i HEAD~2", False),
        ("apt-get install simh", False),
        ("jupyter notebook --generate-config", False),
        ("cat > start.sh <<'E'\nuvicorn app:app\nE", False),
        ("uvicorn 'app:app", False),
    ],
)
def test_what_may_be_refused_before_it_blocks(command: str, expected: bool):
    assert fires("blocking-foreground", [], command) is expected


def test_a_killed_command_is_refused_only_as_it_was():
    events = stream("Build it.", (shell("make all", timeout=60.0), Result("", None, True, timed_out=True)))
    assert fires("runs-into-limit-again", events, "make all") is True
    assert fires("runs-into-limit-again", events, "make all", timeout=600.0) is False
    assert fires("runs-into-limit-again", events, "make all", background=True) is False
    assert fires("runs-into-limit-again", events, "make all > make.log 2>&1 &") is False
    assert fires("runs-into-limit-again", events, "timeout 20 make all") is False
    assert fires("runs-into-limit-again", events, "make one") is False


def test_what_is_kept_is_guarded_and_what_cannot_be_told_is_let_pass():
    events = stream("Never delete data/raw.csv.")
    assert fires("destroyed-what-to-keep", events, "rm -rf data") is True
    assert fires("destroyed-what-to-keep", events, 'rm -rf "$DIR"') is None
    assert fires("destroyed-what-to-keep", events, "rm -rf build") is False
    assert fires("destroyed-what-to-keep", events, "echo 'rm -rf data'") is False
