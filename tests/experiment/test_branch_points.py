"""Decision points in records: where they are, which of them can be rebuilt as far as the record tells, and what comes before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from misstep import catalogue
from misstep.experiment.branch import cut as cuts
from misstep.experiment.branch import find, forms, points, sources
from misstep.experiment.branch.points import PointsError, task_of
from misstep.experiment.branch.treatment import PointLost, stands_for, treatment
from misstep.guard.portfolio import from_plain
from misstep.sandbox.tasks import Task
from misstep.trajectory import Before, Prompt, Stop, Trajectory, atif_out, events
from misstep.trajectory.model import Call, Outcome, Result, Step

SERVE = "python3 -m http.server 8080 &"
ASKED = "Start a web server on port 8080. It must be running when your session has been closed."


def plain(*policies: str) -> dict[str, Any]:
    found = []
    for policy in policies:
        misstep = catalogue.get(policy)
        found.append({"policy": policy, "misstep": misstep.id, "module": type(misstep).__module__})
    return {"v": 1, "rules": found}


def bash(number: int, command: str, output: str = "", code: int | None = 0) -> tuple[Call, Result]:
    call = Call(f"c{number}", "bash", "shell", {"command": command}, command)
    return call, Result(output, code, None if code is None else code != 0)


def record(*turns: Any, agent: str = forms.AGENT, prompt: str = ASKED, **given: Any) -> Trajectory:
    """A trajectory: turns are texts (a stop), or (call, result) pairs."""
    made = Trajectory("t", "atif", agent, [Step("system", forms.SYSTEM), Step("user", prompt, prompt=True)], cwd="/app")
    for turn in turns:
        if isinstance(turn, str):
            made.steps.append(Step("agent", turn, stop=True))
            continue
        pairs = [turn] if isinstance(turn, tuple) else turn
        step = Step(
            "agent", forms.proposed("Next.", pairs[0][0].command or "x"), calls=[c for c, _ in pairs], stop=False
        )
        step.results = {call.id: result for call, result in pairs if result is not None}
        made.steps.append(step)
    for name, value in given.items():
        setattr(made, name, value)
    return made


def tasks(folder: Path, **named: str) -> list[Task]:
    for name, text in named.items():
        (folder / "tasks" / name).mkdir(parents=True)
        (folder / "tasks" / name / "instruction.md").write_text(text)
        (folder / "tasks" / name / "task.toml").write_text('schema_version = "1.4"\n')
    return sources.tasks_at([folder / "tasks"])


def search(
    folder: Path, *records: Trajectory, policies: tuple[str, ...] = ("service-persistence",), **options: Any
) -> Any:
    (folder / "records").mkdir(exist_ok=True)
    for number, one in enumerate(records):
        atif_out.write_file(one, folder / "records" / f"r{number}.json")
    known = tasks(folder, serve=ASKED, other="Count the words.")
    return find([folder / "records"], from_plain(plain(*policies)), known, **options)


def test_a_point_is_the_first_firing_of_a_policy(tmp_path: Path) -> None:
    found = search(tmp_path, record(bash(1, "ls"), bash(2, SERVE), "It runs.", bash(3, "ls"), "Done."))
    (point,) = found.points
    assert (point.policy, point.event, point.step, point.at, point.task) == (
        "service-persistence",
        "stop",
        4,
        7,
        "serve",
    )
    assert (point.action, point.scoped, point.problem, point.call) == ("instruct", True, "", "")
    (attempt,) = found.attempts
    assert attempt.eligible == ("service-persistence",) and attempt.left_out == ""


def test_a_denial_is_a_point_at_its_call(tmp_path: Path) -> None:
    asked = "The SQLite database /app/a.db is corrupt. Recover the lost rows."
    (tmp_path / "records").mkdir()
    atif_out.write_file(
        record([bash(1, "ls"), bash(2, "sqlite3 /app/a.db .dump")], "Done.", prompt=asked), tmp_path / "records/a.json"
    )
    found = find([tmp_path / "records"], from_plain(plain("database-evidence")), tasks(tmp_path, rescue=asked))
    (point,) = found.points
    assert (point.event, point.action, point.call, point.step) == ("before", "deny", "c2", 2)
    trajectory = record([bash(1, "ls"), bash(2, "sqlite3 /app/a.db .dump")], "Done.", prompt=asked)
    cut = cuts.before(trajectory, 2, "c2")
    assert [call.id for step in cut.steps for call in step.calls] == ["c1"]
    assert [one.command for one in cuts.recording_of(cut).commands] == ["ls"]


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        ((bash(1, SERVE, code=0), "Done."), ""),
        (
            ((Call("c1", "keystrokes", "keys", {"keystrokes": "q"}, "q"), Result("")), bash(2, SERVE), "Done."),
            "keystrokes",
        ),
        (
            ((Call("c1", "Task", "other", {"x": 1}), Result("")), bash(2, SERVE), "Done."),
            "a tool that cannot be replayed: Task",
        ),
        (((Call("c1", "update_plan", "other", {"x": 1}), Result("")), bash(2, SERVE), "Done."), ""),
        (((bash(1, "ls")[0], Result("", fault="interrupted")), bash(2, SERVE), "Done."), "interrupted"),
        (((bash(1, "ls")[0], Result("", fault="refused")), bash(2, SERVE), "Done."), ""),
        (((bash(1, "ls")[0], None), bash(2, SERVE), "Done."), "does not tell what a command showed: ls"),
    ],
    ids=["plain", "keys", "unknown tool", "notes", "interrupted", "refused", "no result"],
)
def test_what_the_record_alone_rules_out(tmp_path: Path, turns: tuple[Any, ...], why: str) -> None:
    found = search(tmp_path, record(*turns, agent="claude-code"))
    (point,) = found.points
    assert why in point.problem if why else point.problem == ""


def test_a_conversation_that_was_summarised_cannot_be_restored(tmp_path: Path) -> None:
    trajectory = record(bash(1, SERVE), "Done.")
    trajectory.steps[2].compacted = True
    (point,) = search(tmp_path, trajectory).points
    assert point.problem == "the conversation was summarised before it"


def test_attempts_are_left_out_with_the_reason(tmp_path: Path) -> None:
    fault = record(bash(1, SERVE), "Done.", outcome=Outcome(fault="infrastructure"))
    unknown = record(bash(1, SERVE), "Done.", prompt="Bake bread.")
    found = search(tmp_path, fault, unknown, record(bash(1, SERVE), "Done."))
    assert [one.left_out for one in found.attempts] == [
        "infrastructure: no observation of the agent",
        "its task is none of the known ones",
        "",
    ]
    assert [point.attempt for point in found.points] == ["r2"]


def test_a_policy_that_intervened_leaves_an_attempt_out(tmp_path: Path) -> None:
    trial = tmp_path / "job" / "serve__1"
    (trial / "agent/misstep/guard/s").mkdir(parents=True)
    result = {"trial_name": "serve__1", "task_name": "serve", "task_checksum": "x", "agent_info": {"name": "a"}}
    (trial / "result.json").write_text(json.dumps({**result, "verifier_result": {"rewards": {"reward": 0}}}))
    atif_out.write_file(record(bash(1, SERVE), "Done."), trial / "agent/trajectory.json")
    rows = [{"policy": "service-persistence", "eligible": "server", "holds": True, "fires": True, "fired": True}]
    log = [{"v": 1, "arm": "real"}, {"e": "decision", "at": 3, "event": "stop", "rows": rows, "action": "instruct"}]
    (trial / "agent/misstep/guard/s/log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    known = tasks(tmp_path, serve=ASKED)
    (attempt,) = find([tmp_path / "job"], from_plain(plain("service-persistence")), known).attempts
    assert (attempt.id, attempt.left_out) == ("serve__1", "a policy intervened in it")


def test_out_of_scope_and_occurrences_are_asked_for(tmp_path: Path) -> None:
    trajectory = record(bash(1, SERVE), "Done.", prompt="Count the words.")
    (tmp_path / "a").mkdir()
    assert search(tmp_path / "a", trajectory).points == []
    (tmp_path / "b").mkdir()
    (point,) = search(tmp_path / "b", trajectory, unscoped=True).points
    assert (point.policy, point.scoped) == ("service-persistence", False)
    (tmp_path / "c").mkdir()
    binary = record(
        bash(1, "cat /usr/bin/ls", "\x7fELF\x02\x01\x00\x00" + "\ufffd" * 60), "Done.", prompt="Count the words."
    )
    (point,) = search(tmp_path / "c", binary, occurrences=True).points
    assert (point.policy, point.kind, point.event, point.call) == ("binary-as-text", "misstep", "before", "c1")


def test_arms_that_do_the_same_by_definition() -> None:
    made = {"id": "p", "attempt": "a", "task": "t", "policy": "x", "misstep": "x"}
    scoped, other = points.Point(**made), points.Point(**made, scoped=False)
    assert [stands_for(arm, scoped) for arm in ("real", "always-real", "sham", "nothing")] == [
        "real",
        "real",
        "sham",
        "nothing",
    ]
    assert [stands_for(arm, other) for arm in ("real", "always-real", "sham", "nothing")] == [
        "nothing",
        "always-real",
        "nothing",
        "nothing",
    ]


def test_what_the_arms_say_at_a_point(tmp_path: Path) -> None:
    trajectory = record(bash(1, SERVE), "Done.")
    (point,) = search(tmp_path, trajectory).points
    past = [event for event in events(trajectory) if event.index < point.at]
    real_text = catalogue.get("service-persistence").policies[0].text
    said = {}
    for arm in ("real", "sham", "nothing", "always-verify"):
        made = treatment(plain("service-persistence"), point, arm, past)
        assert made.index == point.at
        told = made.consider(Stop(point.at, point.step, "Done."))
        said[arm] = told.text
        again = made.consider(Stop(point.at, point.step, "Done."))
        assert not again.text  # once
    assert said["real"] == real_text and said["nothing"] == ""
    assert "setsid" not in said["sham"] and abs(len(said["sham"]) - len(real_text)) < 0.15 * len(real_text)
    assert "verify" in said["always-verify"]


def test_an_occurrence_needs_words(tmp_path: Path) -> None:
    made = points.Point(
        id="p", attempt="a", task="t", policy="m", misstep="m", kind="misstep", event="before", call="c1"
    )
    event = Before(3, 2, bash(1, "ls")[0])
    with pytest.raises(PointLost, match="no text for the misstep m"):
        treatment({}, made, "real", [])
    told = treatment({}, made, "real", [], {"m": "deny: Look at it first."}).consider(event)
    assert (told.action, told.text) == ("deny", "Look at it first.")
    assert not treatment({}, made, "nothing", [], {"m": "Look."}).consider(event).text
    sham = treatment({}, made, "sham", [], {"m": "Look at the file's kind before you print it, please."}).consider(
        event
    )
    assert sham.text and "kind" not in sham.text and sham.action == "instruct"


# -- the conversation ------------------------------------------------------------------------------------------------------


def test_our_own_conversation_comes_back_as_it_was(tmp_path: Path) -> None:
    trajectory = record(bash(1, "ls", "a\nb\n"), bash(2, "false", "no\n", 1), "Done.")
    atif_out.write_file(trajectory, tmp_path / "r.json")
    from misstep.trajectory.readers import read

    (again,) = read(tmp_path / "r.json")
    messages, verbatim = cuts.conversation(cuts.before(again, 3, "c2"), cuts.call_of(again, 3, "c2"))
    assert verbatim
    assert [(m.role, m.text) for m in messages] == [
        ("system", forms.SYSTEM),
        ("user", ASKED),
        ("assistant", "Next.\n\n```bash\nls\n```"),
        ("user", "<returncode>0</returncode>\n<output>\na\nb\n</output>"),
        ("assistant", "Next.\n\n```bash\nfalse\n```"),
    ]
    messages, _ = cuts.conversation(cuts.before(again, 4, ""), None)
    assert [m.text for m in messages[-2:]] == ["<returncode>1</returncode>\n<output>\nno\n</output>", "Done."]


def test_a_cut_output_of_our_own_can_be_compared(tmp_path: Path) -> None:
    from misstep.sandbox.base import shorten

    long = shorten("x" * 20_000)
    trajectory = record((bash(1, "x")[0], Result(long, 0, False, truncated=True)), "Done.")
    (one,) = cuts.recording_of(cuts.before(trajectory, 3, "")).commands
    assert one.output == long


def test_mini_swe_agent_goes_on_with_its_own_messages(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "You are."},
        {
            "role": "user",
            "content": f"Please solve this issue: {ASKED}\n\nYou can execute bash commands and edit files",
        },
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\na\n</output>"},
        {"role": "assistant", "content": f"THOUGHT: serve\n\n```bash\n{SERVE}\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\n</output>"},
        {"role": "assistant", "content": "THOUGHT: end\n\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"},
    ]
    info = {"mini_version": "1.17.0", "exit_status": "Submitted"}
    path = tmp_path / "records" / "a.traj.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"trajectory_format": "mini-swe-agent-1", "info": info, "messages": messages}))
    found = find([path.parent], from_plain(plain("service-persistence")), tasks(tmp_path, serve=ASKED))
    (point,) = found.points
    assert (point.event, point.problem) == ("stop", "")
    from misstep.experiment.branch.rebuild import trajectory_of

    cut = cuts.before(trajectory_of(found.attempts[0]), point.step, point.call)
    restored, verbatim = cuts.conversation(cut, None)
    assert verbatim and [m.text for m in restored] == [m["content"] for m in messages]
    recording = cuts.recording_of(cut)
    assert [one.command for one in recording.commands] == ["ls", SERVE] and not recording.lasting


def test_other_agents_conversations_are_told_in_our_form() -> None:
    edit = Call("c2", "Edit", "edit", {"file_path": "/a", "old_string": "x"}, edits=(("/a", "x", "y"),))
    trajectory = record(
        [bash(1, "ls", "a\n"), (edit, Result("ok"))], bash(3, "id", "0\n"), "Done.", agent="claude-code"
    )
    messages, verbatim = cuts.conversation(cuts.before(trajectory, 3, "c3"), cuts.call_of(trajectory, 3, "c3"))
    assert not verbatim and messages[0].text == forms.SYSTEM
    assert [m.role for m in messages] == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    assert "Edit" in messages[4].text and messages[6].text.endswith("```bash\nid\n```")


# -- files -----------------------------------------------------------------------------------------------------------------


def test_the_file_of_points(tmp_path: Path) -> None:
    found = search(tmp_path, record(bash(1, SERVE), "Done."))
    points.write(tmp_path / "points.jsonl", found)
    again = points.load(tmp_path / "points.jsonl")
    assert (again.points, again.attempts) == (found.points, found.attempts)
    (tmp_path / "points.jsonl").write_text('{"schema":"x"}\n')
    with pytest.raises(PointsError, match=r"points.jsonl:1: expected schema"):
        points.load(tmp_path / "points.jsonl")
    with pytest.raises(PointsError, match="expected a folder of branch tests"):
        points.load(tmp_path / "none.jsonl")


def test_bad_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PointsError, match="no task in it"):
        sources.tasks_at([tmp_path / "empty"])
    with pytest.raises(PointsError, match="name them with --tasks"):
        sources.tasks_at([])
    known = tasks(tmp_path, serve=ASKED)
    with pytest.raises(PointsError, match="no attempt of a known agent"):
        find([tmp_path / "empty"], from_plain(plain("service-persistence")), known)


def test_the_task_is_told_by_name_or_by_the_longest_instruction(tmp_path: Path) -> None:
    known = {one.name: one for one in tasks(tmp_path, short="Count words.", long="Count words. And lines.")}
    named = record("Done.", prompt="anything", outcome=Outcome(task="org/short@abc"))
    assert task_of(named, known) is known["short"]
    assert task_of(record("Done.", prompt="Hello. Count  words. And lines. Bye."), known) is known["long"]
    assert task_of(record("Done.", prompt="Hello."), known) is None
    assert isinstance(next(iter(events(record("Done.")))), Prompt)
