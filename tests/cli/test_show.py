"""`misstep show`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("catalogue")
ID = "1a2b3c4d-0000-4000-8000-000000000000"


@pytest.fixture
def path(tmp_path: Path, making) -> Path:
    commands = [f"echo step{n}" for n in range(6)] + [("cat notes > out.txt && echo BAD", "no such file", True)]
    return making.session(tmp_path / "s.jsonl", [*commands, *[f"echo later{n}" for n in range(6)]], id=ID)


def test_a_step_between_its_neighbours(run, path: Path):
    code, out, _ = run("show", f"{path}#7")
    assert code == 0 and "✗ The agent uses a bad word in a command." in out
    assert [f"step {n} " in out for n in (3, 4, 7, 9, 10)] == [False, True, True, True, False]
    assert "no such file" in out and "The policy bad-word would have stepped in here (deny)." in out


def test_what_the_command_does_is_shown(run, path: Path):
    out = run("show", f"{path}#7")[1]
    assert "→ writes out.txt" in out and "→ reads notes, into a file" in out


def test_more_or_less_around_it(run, path: Path):
    out = run("show", f"{path}#7", "-B", 0, "-A", 0)[1]
    assert "step 7 " in out and "step 6 " not in out and "step 8 " not in out


def test_the_whole_session(run, path: Path):
    code, out, _ = run("show", path)
    assert code == 0 and "  ✗    7  " in out and "echo later5" in out and "1 misstep found" in out


def test_by_id_after_a_scan(run, path: Path):
    run("scan", path, "-q")
    for name in (ID, "1a2b3c4d", "1a2b"):
        assert run("show", f"{name}#7")[0] == 0
    code, _, err = run("show", "1a2b#7", "--no-index")
    assert code == 2 and "no session of this id" in err


def test_by_id_without_an_index(run, making, own_home: Path):
    making.session(own_home / f".claude/projects/-w/{ID}.jsonl", ["ls"], id=ID)
    assert run("show", "1a2b3c4d", "--no-index")[0] == 0


def test_a_moved_file_is_not_found_by_its_old_place(run, path: Path):
    run("scan", path, "-q")
    path.rename(path.parent / "moved.jsonl")
    assert run("show", "1a2b3c4d")[0] == 2


def test_the_longest_of_several_copies(run, tmp_path: Path, making):
    making.session(tmp_path / "a/1.jsonl", ["ls"], id=ID, uuids="uuids-of-one-session")
    making.session(tmp_path / "a/2.jsonl", ["ls", "pwd", "echo BAD"], id=ID, uuids="uuids-of-one-session")
    run("scan", tmp_path, "-q")
    code, out, err = run("show", "1a2b3c4d")
    assert code == 0 and "a/2.jsonl" in out
    first, second = tmp_path / "a/2.jsonl", tmp_path / "a/1.jsonl"
    assert err == f"misstep: {ID} stands in 2 places, the longest is shown: {first}, {second}\n"


def test_ids_that_start_alike(run, tmp_path: Path, making):
    for n in (1, 2):
        making.session(tmp_path / f"{n}.jsonl", ["ls"] * n, id=f"1a2b3c4d-000{n}-4000-8000-000000000000")
    run("scan", tmp_path, "-q")
    code, _, err = run("show", "1a2b")
    assert code == 2 and "several sessions start so: 1a2b3c4d-000" in err and err.count("\n") == 1
    assert run("show", "1a2b3c4d-0002")[0] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jsonl", "no such file"),
        ("{path}#99", "the session has the steps 0 to "),
        ("{path}#x", "after # stands a step's number"),
        ("{path}::3#1", "it holds 1 trajectories"),
        ("{path}::\u00b2#1", "no such file"),
        ("{folder}", "a folder of several sessions"),
        ("{notes}", "no known trajectory format"),
        ("", "name a session"),
        ("#3", "name a session"),
    ],
)
def test_bad_references(run, path: Path, making, name: str, message: str):
    making.session(path.parent / "many/1.jsonl", ["ls"])
    making.session(path.parent / "many/2.jsonl", ["ls"])
    (path.parent / "notes.txt").write_text("hello")
    name = name.format(path=path, folder=path.parent / "many", notes=path.parent / "notes.txt")
    code, out, err = run("show", name)
    assert code == 2 and message in err and err.count("\n") == 1 and out == ""


def test_a_name_with_a_number_sign(run, tmp_path: Path, making):
    made = making.session(tmp_path / "run#1.jsonl", ["ls"])
    assert run("show", made)[0] == 0 and run("show", f"{made}#1")[0] == 0


def test_a_trial_folder(run, tmp_path: Path, making):
    folder = making.trial(tmp_path / "t1", ["ls", "echo BAD"], 0.0, task="demo")
    code, out, _ = run("show", folder)
    assert code == 0 and "demo" in out and "failed" in out


def _tools(making, path: Path, calls: list[tuple[str, dict, str, bool]]) -> Path:
    """A session of these calls of an agent's own tools: (tool, input, result, failed)."""
    import json

    made = making.session(path, [("x", result, failed) for _, _, result, failed in calls])
    lines = [json.loads(line) for line in made.read_text().splitlines()]
    for line, (tool, given, _, _) in zip(lines[1::2], calls, strict=True):
        line["message"]["content"][0].update(name=tool, input=given)
    made.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made


def test_a_call_that_a_tool_refused_is_not_called_malformed(run, tmp_path: Path, making):
    edit = {"file_path": "/repo/a.py", "old_string": "x", "new_string": "y"}
    refused = "<tool_use_error>String to replace not found in file.\nString: the JSON</tool_use_error>"
    bad = "<tool_use_error>InputValidationError: Edit failed: The required parameter `old_string` is missing</tool_use_error>"
    path = _tools(making, tmp_path / "s.jsonl", [("Edit", edit, refused, True), ("Edit", {}, bad, True)])
    out = run("show", f"{path}#1", "-A", 0)[1]
    assert "refused by the tool" in out and "malformed" not in out
    out = run("show", f"{path}#2", "-B", 0)[1]
    assert "the call was malformed" in out


def test_a_search_shows_what_it_looks_for(run, tmp_path: Path, making):
    calls = [
        ("Grep", {"pattern": "def ma.n", "path": "/repo/src"}, "a.py", False),
        ("Read", {"file_path": "/w/a"}, "x", False),
    ]
    out = run("show", _tools(making, tmp_path / "s.jsonl", calls))[1]
    assert '"def ma.n" in /repo/src' in out


def test_what_a_command_does_is_in_words(run, tmp_path: Path, making):
    commands = [
        "sed -i s/a/b/ x.py",
        "cat a.txt | head -3",
        "read line",
        "python3 -m http.server 80 &",
        "pip install six",
    ]
    path = making.session(tmp_path / "s.jsonl", commands)
    out = "".join(run("show", f"{path}#{n}", "-A", 0, "-B", 0)[1] for n in range(1, 6))
    assert "writes x.py, in place" in out and "through head" in out
    does = [line for line in out.splitlines() if line.lstrip().startswith("→")]
    assert does and not [line for line in does if "=" in line or "_" in line or "(" in line], does


def test_a_mark_of_what_is_hidden_is_shorter_than_it(run, tmp_path: Path, making):
    outputs = ["\n".join(f"{n:04}" for n in range(size // 5)) for size in range(340, 520, 20)]
    path = making.session(tmp_path / "s.jsonl", [("ls", text, False) for text in outputs])
    hidden = []
    for n in range(1, len(outputs) + 1):
        lines = run("show", f"{path}#{n + 1 if n == 1 else n - 1}", "-A", 1, "-B", 1)[1].splitlines()
        hidden += [int(line.split()[2]) for line in lines if "characters …" in line]
    assert hidden and min(hidden) > 36


def test_a_command_that_stands_in_the_text_is_shown_once(run, tmp_path: Path):
    import json

    messages = [
        {"role": "system", "content": "You work in a shell."},
        {"role": "user", "content": "Sort the fruit."},
        {"role": "assistant", "content": "THOUGHT: look first\n\n```bash\nls -la fruit\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\napples\n</output>"},
    ]
    whole = {"info": {"exit_status": "Submitted"}, "messages": messages, "trajectory_format": "mini-swe-agent-1"}
    (tmp_path / "a.traj.json").write_text(json.dumps(whole))
    for name in ("#2", ""):
        out = run("show", f"{tmp_path / 'a.traj.json'}{name}")[1]
        assert out.count("ls -la fruit") == 1 and "THOUGHT: look first" in out, out
