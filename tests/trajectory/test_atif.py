"""ATIF documents: versions, continuations, sub-agents, terminus in both modes, and what other converters leave out."""

import json
import shutil
from pathlib import Path

import pytest

from misstep.trajectory import Compact, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, Unreadable, read, reader_of, units

DATA = Path(__file__).parent / "data" / "atif"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def calls(found: Trajectory) -> list:
    return [call for step in found.steps if not step.copied for call in step.calls]


def document(*steps: dict, version: str = "1.7", agent: str = "some-agent", **more: object) -> dict:
    numbered = [{"step_id": at, **step} for at, step in enumerate(steps, 1)]
    return {
        "schema_version": f"ATIF-v{version}",
        "session_id": "s",
        "agent": {"name": agent, "version": "1"},
        "steps": numbered,
        **more,
    }


def user(message: object, **more: object) -> dict:
    return {"source": "user", "message": message, **more}


def agent(message: object = "", *tools: tuple, results: list | None = None, **more: object) -> dict:
    step = {"source": "agent", "message": message, **more}
    if tools:
        step["tool_calls"] = [
            {"tool_call_id": f"c{at}", "function_name": name, "arguments": given}
            for at, (name, given) in enumerate(tools)
        ]
    if results is not None:
        step["observation"] = {"results": results}
    return step


def saved(tmp_path: Path, value: object, name: str = "any.dat") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8"])
def test_every_version(tmp_path, version):
    found = one(saved(tmp_path, document(user("Go"), agent("Done"), version=version)))
    assert (found.format, found.agent, found.extra["schema_version"]) == ("atif", "some-agent", f"ATIF-v{version}")
    assert [type(e) for e in events(found)] == [Prompt, Stop]


def test_terminus_sends_keys_and_ends_with_a_confirmed_completion():
    found = one(DATA / "summarized" / "trajectory.json")
    assert [(c.kind, c.command) for c in calls(found)] == [
        ("keys", "mkdir test_dir\n"),
        ("keys", "echo 'test1' > test_dir/file1.txt\n"),
        ("keys", "echo 'test2' > test_dir/file2.txt\n"),
        ("keys", "printf 'Hello, world!\\n' > hello.txt\n"),
        ("keys", "cat hello.txt\n"),
        ("finish", None),
        ("finish", None),
    ]
    stream = list(events(found))
    assert [e.text for e in stream if isinstance(e, Prompt)] == [
        'Create a file called hello.txt with "Hello, world!" as the content.'
    ]
    assert [e.step for e in stream if isinstance(e, Compact)] == [4]
    # the first completion is only asked back
    assert [e.step for e in stream if isinstance(e, Stop)] == [9]
    result = found.steps[1].results["call_0_1"]
    assert (result.exit_code, result.failed, result.shared) == (None, None, False)
    assert found.steps[1].metrics == {"prompt_tokens": 682, "completion_tokens": 60, "cost_usd": 0.002305}


def test_raw_mode_and_continuations_are_one_trajectory():
    found = one(DATA / "linear" / "trajectory.json")
    assert [c.command for c in calls(found)] == [
        "mkdir test_dir\n",
        "echo 'test1' > test_dir/file1.txt\n",
        "echo 'test2' > test_dir/file2.txt\n",
        "printf 'Hello, world!\\n' > hello.txt\n",
        "cat hello.txt\n",
        None,
        None,
    ]
    assert sum(step.copied for step in found.steps) == 4
    stream = list(events(found))
    assert sum(isinstance(e, Prompt) for e in stream) == 1 and sum(isinstance(e, Compact) for e in stream) == 2
    assert [e.step for e in stream if isinstance(e, Stop)] == [len(found.steps) - 1]
    batch = next(step for step in found.steps if len(step.calls) == 2)
    assert list(batch.results) == [batch.calls[1].id] and batch.results[batch.calls[1].id].shared


@pytest.mark.parametrize("name", ["trajectory.cont-1.json", "trajectory.cont-2.json"])
def test_a_continuation_belongs_to_its_first_file(name):
    source = Source(DATA / "linear" / name)
    assert list(reader_of(source).read(source)) == []
    assert "continuation" in next(iter(source.skipped))
    with pytest.raises(Unreadable, match="continuation"):
        list(read(DATA / "linear" / name))


def test_a_continuation_without_its_first_file_is_read(tmp_path):
    shutil.copy(DATA / "linear" / "trajectory.cont-2.json", tmp_path)
    found = one(tmp_path / "trajectory.cont-2.json")
    assert [s.copied for s in found.steps] == [True, False, False, False]


def test_a_folder_counts_each_step_once():
    found = [t for path in units([DATA / "linear"]) for t in _readable(path)]
    assert len(found) == 1


def _readable(path: Path) -> list[Trajectory]:
    try:
        return list(read(path))
    except Unreadable:
        return []


@pytest.mark.parametrize("reference", ["gone.json", "../outside.json", "/etc/hostname", "any.dat", 7])
def test_a_continuation_that_cannot_be_followed(tmp_path, reference):
    source = Source(saved(tmp_path, document(user("Go"), agent("Done"), continued_trajectory_ref=reference)))
    (found,) = read(source)
    assert len(found.steps) == 2 and sum(source.skipped.values()) == 1


def test_summarisers_are_sub_agents_in_files_of_their_own():
    answers = one(DATA / "summarized" / "trajectory.summarization-1-answers.json")
    assert answers.parent == "NORMALIZED_SESSION_ID" and answers.agent == "terminus-2-summarization-answers"
    assert calls(answers) == [] and sum(s.copied for s in answers.steps) == 5
    assert [type(e) for e in events(answers)] == [Prompt, Stop]
    questions = one(DATA / "summarized" / "trajectory.summarization-1-questions.json")
    assert questions.parent == "NORMALIZED_SESSION_ID" and not any(s.copied for s in questions.steps)


def test_embedded_sub_agents(tmp_path):
    inner = document(user("Part"), agent("", ("bash", {"command": "ls"})), trajectory_id="t-sub")
    deeper = document(user("Deep"), agent("x"), trajectory_id="t-deep")
    inner["subagent_trajectories"] = [deeper]
    outer = document(user("All"), agent("y"), trajectory_id="t-root", subagent_trajectories=[inner, "junk"])
    source = Source(saved(tmp_path, outer))
    assert [(t.id, t.parent) for t in read(source)] == [("t-root", ""), ("t-sub", "t-root"), ("t-deep", "t-sub")]
    assert source.skipped["sub-agent that is no ATIF document"] == 1


def test_an_answer_that_could_not_be_parsed_ran_nothing():
    found = one(DATA / "invalid_json.json")
    assert [len(s.calls) for s in found.steps] == [0, 0, 1, 1, 1]
    assert [e.step for e in events(found) if isinstance(e, Stop)] == [4]
    assert found.steps[1].reasoning.startswith("The task is straightforward")


def test_a_run_out_of_time_has_no_stop():
    found = one(DATA / "timeout.json")
    assert [c.command for c in calls(found)] == ["echo 'Hello, world!'\n", "sleep 50\n", "sleep 50\n"]
    assert not [e for e in events(found) if isinstance(e, Stop)]


def test_terminus_xml_answers(tmp_path):
    message = (
        "<response>\n<analysis>a</analysis>\n<plan>p</plan>\n<commands>\n"
        '<keystrokes duration="0.5">ls > x && cat x\n</keystrokes>\n</commands>\n<task_complete>true</task_complete>\n</response>'
    )
    steps = (user("Go"), agent(message, results=[{"content": "Are you sure you want to mark the task as complete?"}]))
    found = one(saved(tmp_path, document(*steps, agent="terminus-2")))
    assert [(c.kind, c.command, c.arguments) for c in calls(found)] == [
        ("keys", "ls > x && cat x\n", {"keystrokes": "ls > x && cat x\n", "duration": 0.5}),
        ("finish", None, {}),
    ]
    # the screen is that after the keys
    assert [c.kind for c in found.steps[1].calls if c.id in found.steps[1].results] == ["keys"]
    assert found.steps[1].stop is False


def test_openhands_with_and_without_function_calling():
    found = one(DATA / "openhands.json")
    assert [(c.kind, c.paths) for c in calls(found)] == [("write", ("/app/hello.txt",)), ("finish", ())]
    assert calls(found)[0].edits == (("/app/hello.txt", "", "Hello, world!"),)
    assert [e.step for e in events(found) if isinstance(e, Stop)] == [5]
    found = one(DATA / "openhands_text.json")
    assert [(c.kind, c.command) for c in calls(found)] == [
        ("shell", "cat > /app/hello.txt << 'EOF'\nHello, world!\nEOF"),
        ("finish", None),
    ]
    (result,) = found.steps[2].results.values()
    assert (result.exit_code, result.failed) == (0, False)
    assert found.steps[1].message == 'Create a file called hello.txt with "Hello, world!" as the content.'


def test_messages_and_contents_in_parts(tmp_path):
    parts = [
        {"type": "text", "text": "Look at"},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
    ]
    step = agent(
        [{"type": "text", "text": "ok"}],
        ("bash", {"command": "ls"}),
        results=[{"source_call_id": "c0", "content": parts}],
    )
    found = one(saved(tmp_path, document(user(parts), step, version="1.6")))
    assert found.steps[0].message == "Look at\n[image]" and found.steps[1].message == "ok"
    assert found.steps[1].results["c0"].output == "Look at\n[image]"


def test_results_without_a_call_id(tmp_path):
    two = [("bash", {"command": "a"}), ("bash", {"command": "b"})]
    steps = [
        user("Go"),
        agent("", two[0], results=[{"content": "one"}]),
        agent("", *two, results=[{"content": "1"}, {"content": "2"}]),
        agent("", *two, results=[{"content": "both"}]),
        agent("", *two, results=[{"source_call_id": "c0", "content": "1"}, {"content": "2"}]),
        agent("", *two, results=[{"content": "1"}, {"content": "2"}, {"content": "3"}]),
        agent("", *two),
    ]
    found = one(saved(tmp_path, document(*steps)))
    got = [{k: (r.output, r.shared) for k, r in s.results.items()} for s in found.steps[1:]]
    assert got == [
        {"c0": ("one", False)},
        {"c0": ("1", False), "c1": ("2", False)},
        {"c1": ("both", True)},
        {"c0": ("1", False), "c1": ("2", False)},
        {},
        {},
    ]
    assert found.skipped["results that belong to no call"] == 3


@pytest.mark.parametrize(
    ("name", "result", "expected"),
    [
        ("any", {"content": "x", "extra": {"exit_code": 3}}, (3, True)),
        ("codex", {"content": "x", "extra": {"tool_metadata": {"exit_code": 0}}}, (0, False)),
        ("codex", {"content": "Wall time: 1\nProcess exited with code 2\nOutput:\nx"}, (2, True)),
        ("claude-code", {"content": "Exit code 127\nx", "extra": {"tool_result_is_error": True}}, (127, True)),
        ("claude-code", {"content": "fine", "extra": {"tool_result_is_error": False}}, (0, False)),
        ("claude-code", {"content": "Exit code 1 is printed", "extra": {"tool_result_is_error": False}}, (0, False)),
        ("claude-code", {"content": "fine"}, (None, None)),
        ("gemini-cli", {"content": "Output: x\nExit Code: 5"}, (5, True)),
        ("openhands", {"content": "x\n[Command finished with exit code 1]"}, (1, True)),
        ("mini-swe-agent", {"content": "<returncode>4</returncode>\n<output>\nx\n</output>"}, (4, True)),
        ("any", {"content": "Exit code 1"}, (None, None)),
        ("any", {"content": "x", "extra": {"exit_code": True}}, (None, None)),
    ],
)
def test_exit_codes_where_the_record_or_the_agent_says_so(tmp_path, name, result, expected):
    step = agent("", ("bash", {"command": "x"}), results=[{"source_call_id": "c0", **result}])
    found = one(saved(tmp_path, document(user("Go"), step, agent=name)))
    got = found.steps[1].results["c0"]
    assert (got.exit_code, got.failed) == expected
    if expected[0] is not None and "Exit code 1 is" not in result["content"] and result["content"] != "fine":
        # the harness's words about the exit are no output
        assert got.output.strip() == "x"


def test_several_documents_in_one_file(tmp_path):
    path = tmp_path / "many.jsonl"
    lines = [
        document(user("A"), agent("a"), trajectory_id="t1"),
        {"other": 1},
        document(user("B"), agent("b"), trajectory_id="t2"),
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\nnot json\n")
    source = Source(path)
    assert [t.id for t in read(source)] == ["t1", "t2"]
    assert dict(source.skipped) == {"not an ATIF record": 1, "not JSON": 1}
    one_line = saved(tmp_path, document(user("A"), agent("a")), "one.jsonl")
    assert len(one(one_line).steps) == 2


def test_a_document_with_an_invalid_escape_is_mended(tmp_path):
    text = json.dumps(document(user("mail\nAT"), agent("Done")), indent=2).replace("\\nAT", "\\***@***")
    path = tmp_path / "scrubbed.json"
    path.write_text(text)
    source = Source(path)
    (found,) = read(source)
    assert found.steps[0].message == "mail\\***@***" and source.skipped["invalid escape in JSON mended"] == 1


def test_later_user_messages(tmp_path):
    steps = (
        user("Go"),
        agent("a"),
        user("<system-reminder>x</system-reminder>"),
        agent("b"),
        user("And this"),
        agent("c"),
    )
    found = one(saved(tmp_path, document(*steps)))
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["Go", "And this"]


def test_a_context_before_the_prompt_is_no_prompt(tmp_path):
    context = user("<environment_context>\n  <cwd>/app</cwd>\n</environment_context>")
    found = one(saved(tmp_path, document(context, user("Start the server."), agent("a"))))
    assert [e.text for e in events(found) if isinstance(e, Prompt)] == ["Start the server."]
    alone = one(saved(tmp_path, document(context, agent("a"), user("Go on"), agent("b")), "alone.dat"))
    assert [e.text[:9] for e in events(alone) if isinstance(e, Prompt)] == ["<environm", "Go on"]


@pytest.mark.parametrize(
    "value",
    [
        {"schema_version": "ATIF-v1.7", "agent": 1, "steps": [1, None, {"source": 5}]},
        {
            "schema_version": "ATIF-v1.7",
            "steps": [{"source": "agent", "message": 3, "tool_calls": "x", "observation": [], "metrics": 1}],
        },
        {
            "schema_version": "ATIF-v1.7",
            "steps": [{"source": "agent", "message": "m", "tool_calls": [1, {"arguments": "{]"}]}],
        },
        {"schema_version": "ATIF-v1.7", "steps": []},
    ],
)
def test_damaged_documents_do_not_raise(tmp_path, value):
    found = one(saved(tmp_path, value))
    list(events(found))


@pytest.mark.parametrize(
    "value", [{"schema_version": "ATIF-v2.0", "steps": []}, {"note": "ATIF-v1.7"}, [{"note": "ATIF-v1.7"}]]
)
def test_what_is_not_atif(tmp_path, value):
    module = reader_of(Source(saved(tmp_path, value)))
    assert module is None or module.FORMAT != "atif"


@pytest.mark.corpus
def test_the_goldens_of_the_corpus(shared):
    folder = shared / "corpus/atif/harbor-golden/tests/golden"
    found = [t for path in units([folder]) for t in read(path)]
    # 8 files; the linear one names a continuation that is not there
    assert len(found) == 8 and all(t.format == "atif" and t.steps for t in found)


@pytest.mark.corpus
def test_recordings_of_other_kinds_belong_to_no_reader(shared):
    names = ("who-and-when", "agentrx-magentic", "agentrx-tau", "harbor-traces", "terminal-bench-v1")
    files = [path for name in names for path in units([shared / "corpus" / name])]
    assert len(files) > 100 and {reader_of(Source(path)) for path in files} == {None}


def test_results_of_claude_code_are_the_programs_own_where_harbor_keeps_them(tmp_path):
    """Harbor puts a content together of several parts (`[stdout]`, `[metadata]`), and keeps the record beside it."""

    def kept(text: str, shown: str, failed: bool = False) -> dict:
        raw = {"type": "tool_result", "tool_use_id": "c1", "content": text, "is_error": failed}
        more = {"tool_use_result": {"stdout": text, "stderr": "", "interrupted": False}, "raw_tool_result": raw}
        extra = {"tool_result_metadata": more, "tool_result_is_error": failed}
        return {"source_call_id": "c1", "content": shown, "extra": extra}

    for text, shown, failed, output, code in (
        ("200", '200\n\n[stdout]\n200\n[metadata] {"noOutputExpected": false}', False, "200", 0),
        ("(Bash completed with no output)", '(Bash completed with no output)\n\n[metadata] {"x": 1}', False, "", 0),
        ("Exit code 3\nno", "Exit code 3\nno\n\n[stdout]\nno", True, "no", 3),
    ):
        step = agent("")
        step["observation"] = {"results": [kept(text, shown, failed)]}
        step["tool_calls"] = [{"tool_call_id": "c1", "function_name": "Bash", "arguments": {"command": "run"}}]
        found = one(saved(tmp_path, document(user("do"), step, agent="claude-code")))
        (result,) = found.steps[-1].results.values()
        assert (result.output, result.exit_code) == (output, code)
