"""Events of OpenHands' SDK, from those that version 1.58.2 wrote."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from misstep.trajectory import Interrupt, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, read, reader_of, units

EVENTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "openhands" / "sdk_1.58.2.json").read_text()
)
STATE = {
    "id": "c1",
    "agent": {"llm": {"model": "openai/fake-model"}},
    "workspace": {"working_dir": "/work", "kind": "LocalWorkspace"},
    "leaf_event_id": EVENTS[-1]["id"],
}


def folder(path: Path, given: list[Any] = EVENTS, state: dict[str, Any] | None = STATE, name: str = "") -> Path:
    """A conversation's folder."""
    (path / "events").mkdir(parents=True)
    (path / "events" / ".eventlog.lock").touch()
    for at, event in enumerate(given):
        identity = event.get("id") if isinstance(event, dict) else None
        file = path / "events" / (name or "event-{at:05d}-{id}.json").format(at=at, id=identity or f"{at:08x}")
        file.write_text(event if isinstance(event, str) else json.dumps(event))
    if state is not None:
        (path / "base_state.json").write_text(json.dumps(state))
    return path


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def conversation(tmp_path: Path, *given: dict[str, Any]) -> Trajectory:
    """A conversation that begins with a prompt."""
    ask = {**EVENTS[1], "parent_id": None}
    own = [{"id": f"e{at}", "source": "agent", **event} for at, event in enumerate(given)]
    return one(folder(tmp_path / "c", [ask, *own], None))


def action(tool: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "kind": "ActionEvent",
        "thought": [],
        "action": {**given, "kind": "X"},
        "tool_name": tool,
        "tool_call_id": "c1",
        "tool_call": {"id": "c1", "name": tool, "arguments": json.dumps(given)},
        "llm_response_id": "r1",
        **more,
    }


def observed(**given: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": given.pop("text", "x")}]
    observation = {"content": content, "is_error": False, "kind": "X", **given}
    return {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "c1", "observation": observation}


def terminal(command: str, **more: Any) -> dict[str, Any]:
    return action("terminal", {"command": command, "is_input": False, "reset": False, **more})


def check(found: Trajectory) -> None:
    told = list(events(found))
    assert [e.text for e in told if isinstance(e, Prompt)] == ["Please change the file", "And now say something"]
    assert [e.message for e in told if isinstance(e, Stop)] == ["All done.", "Just words."]
    rows = [(c, s.results[c.id]) for s in found.steps for c in s.calls]
    assert [(c.kind, c.command or c.paths or c.tool) for c, _ in rows] == [
        ("shell", "ls; echo hi"),
        ("shell", "sh -c 'echo oops; exit 3'"),
        ("write", ("/work/a.txt",)),
        ("shell", "echo two"),
        ("edit", ("/work/a.txt",)),
        ("read", ("/work/missing.txt",)),
        ("shell", "sleep 5"),
        ("keys", "C-c"),
        ("other", "no_such_tool"),
        ("shell", "x"),
        ("finish", "finish"),
    ]
    assert [r.exit_code for _, r in rows] == [0, 3, None, 0, None, None, None, None, None, None, None]
    assert [r.failed for _, r in rows] == [False, True, False, False, False, True, None, True, None, None, False]
    assert [r.running for _, r in rows] == [False] * 6 + [True] + [False] * 4
    assert [r.fault for _, r in rows] == [None] * 8 + ["malformed", "malformed", None]
    assert (rows[0][1].output, rows[1][1].output) == ("hi", "oops")
    assert rows[4][0].edits == (("/work/a.txt", "one", "two"),) and rows[6][0].timeout == 1.0
    assert [len(s.calls) for s in found.steps if s.calls] == [1, 1, 2, 1, 1, 1, 1, 1, 1, 1]
    assert found.steps[2].message == "Looking." and not found.skipped


def test_a_conversation(tmp_path):
    found = one(folder(tmp_path / "c1"))
    check(found)
    assert (found.id, found.agent, found.model, found.cwd) == ("c1", "openhands", "openai/fake-model", "/work")
    assert found.steps[3].time is not None and found.steps[3].results["call_3"].seconds == pytest.approx(
        0.173, abs=0.01
    )


def test_the_events_folder_alone(tmp_path):
    path = folder(tmp_path / "c1", state=None) / "events"
    assert one(path).id == "c1"
    check(one(path))


def test_names_as_the_cloud_gives_them(tmp_path):
    check(one(folder(tmp_path / "c1", name="event_{at:06d}_{id}.json")))


def test_events_past_a_hundred_thousand(tmp_path):
    path = folder(tmp_path / "c1", name="event-{at}99999-{id}.json")
    check(one(path))


@pytest.mark.parametrize("value", [EVENTS, {"items": EVENTS, "next_page_id": None}])
def test_a_list(tmp_path, value):
    (tmp_path / "any").write_text(json.dumps(value))
    check(one(tmp_path / "any"))


def test_evaluation_records(tmp_path):
    record = {"instance_id": "t1", "history": EVENTS, "test_result": {"report": {"resolved": True}}}
    lines = [record, {**record, "instance_id": "t2", "test_result": {}}, {"instance_id": "t3", "history": []}]
    (tmp_path / "output.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = list(read(tmp_path / "output.jsonl"))
    assert [(t.id, t.outcome.passed, t.outcome.task) for t in found if t.outcome] == [
        ("t1", True, "t1"),
        ("t2", None, "t2"),
    ]
    for each in found:
        check(each)


def test_a_conversation_is_one_unit_with_its_sub_agents(tmp_path):
    path = folder(tmp_path / "c1")
    folder(path / "subagents" / "s1", EVENTS[:4], None)
    (path / "observations").mkdir()
    (path / "observations" / "o.json").write_text("{}")
    assert list(units([tmp_path])) == [path]
    assert [(t.id, t.parent, t.path) for t in read(path)] == [
        ("c1", "", str(path)),
        ("s1", "c1", str(path / "subagents" / "s1")),
    ]


def test_what_was_rolled_back(tmp_path):
    again = {**EVENTS[24], "id": "new", "parent_id": EVENTS[3]["id"]}
    found = one(folder(tmp_path / "c1", [*EVENTS, again], {**STATE, "leaf_event_id": "new"}))
    assert found.skipped == {"rolled back": 22}
    assert [s.source for s in found.steps] == ["system", "user", "agent", "user"]


@pytest.mark.parametrize("parent", ["missing", EVENTS[-1]["id"]])
def test_parents_that_lead_nowhere(tmp_path, parent):
    given = json.loads(json.dumps(EVENTS))
    given[5]["parent_id"] = parent
    check(one(folder(tmp_path / "c1", given)))


def test_events_without_parents(tmp_path):
    given = [{k: v for k, v in event.items() if k != "parent_id"} for event in EVENTS]
    check(one(folder(tmp_path / "c1", given)))


def test_files_that_are_no_events(tmp_path):
    found = one(folder(tmp_path / "c1", [*EVENTS[:4], '{"id": "tor', "[]", {"id": "x"}], None))
    assert found.skipped == {"not an event": 3}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (observed(exit_code=2, metadata={"exit_code": 2}), (2, True, None, False)),
        (observed(metadata={"exit_code": 0}), (0, False, None, False)),
        (observed(exit_code=-1, metadata={"exit_code": -1}), (None, None, None, True)),
        (observed(is_error=True, metadata={"exit_code": -1}), (None, True, None, False)),
        (observed(), (None, None, None, False)),
        (
            {"kind": "UserRejectObservation", "tool_call_id": "c1", "rejection_reason": "no"},
            (None, None, "refused", False),
        ),
        (
            {
                "kind": "AgentErrorEvent",
                "tool_call_id": "c1",
                "error": "Tool call interrupted before completion. The conversation was paused.",
            },
            (None, None, "interrupted", False),
        ),
        (
            {"kind": "AgentErrorEvent", "tool_call_id": "c1", "error": "Tool call cancelled by interrupt."},
            (None, None, "interrupted", False),
        ),
        (
            {"kind": "AgentErrorEvent", "tool_call_id": "c1", "error": "A restart occurred while this tool ran."},
            (None, None, "harness", False),
        ),
        (
            {"kind": "AgentErrorEvent", "tool_call_id": "c1", "error": "Error executing tool 'terminal': boom"},
            (None, True, None, False),
        ),
    ],
)
def test_results(tmp_path, event, expected):
    result = conversation(tmp_path, terminal("x"), event).steps[1].results["c1"]
    assert (result.exit_code, result.failed, result.fault, result.running) == expected


def test_the_first_result_of_a_call_counts(tmp_path):
    late = {"kind": "AgentErrorEvent", "tool_call_id": "c1", "error": "Tool call interrupted before completion."}
    found = conversation(tmp_path, terminal("x"), observed(exit_code=0, text="a"), late)
    assert found.steps[1].results["c1"].output == "a"


def test_a_result_whose_call_is_not_there(tmp_path):
    assert conversation(tmp_path, observed()).skipped == {"result without a call": 1}


@pytest.mark.parametrize(
    ("given", "kind"),
    [({"command": "y", "is_input": True}, "keys"), ({"command": ""}, "keys"), ({"command": "y"}, "shell")],
)
def test_a_terminals_calls(tmp_path, given, kind):
    call = conversation(tmp_path, terminal(**given)).steps[1].calls[0]
    assert (call.kind, call.command) == (kind, given["command"])


def test_what_a_hook_says_is_no_prompt(tmp_path):
    hook = {**EVENTS[1], "id": "h", "parent_id": None, "source": "environment"}
    found = conversation(tmp_path, action("finish", {"message": "Done"}), hook, action("finish", {"message": "Now"}))
    assert [type(e).__name__ for e in events(found) if isinstance(e, (Prompt, Stop))] == ["Prompt", "Stop", "Stop"]


@pytest.mark.parametrize("kind", ["PauseEvent", "InterruptEvent"])
def test_interruptions(tmp_path, kind):
    found = conversation(tmp_path, terminal("x"), {"kind": kind, "source": "user"})
    assert sum(isinstance(e, Interrupt) for e in events(found)) == 1


def test_an_agent_that_broke_down_did_not_stop(tmp_path):
    answer = {"kind": "MessageEvent", "llm_message": {"role": "assistant", "content": [{"type": "text", "text": "Hm"}]}}
    broken = {"kind": "ConversationErrorEvent", "source": "environment", "code": "LLMError", "detail": "x"}
    assert any(isinstance(e, Stop) for e in events(conversation(tmp_path / "a", answer)))
    assert not any(isinstance(e, Stop) for e in events(conversation(tmp_path / "b", answer, broken)))


def test_condensation(tmp_path):
    found = conversation(tmp_path, {"kind": "Condensation", "summary": "We did", "source": "environment"})
    assert (found.steps[1].compacted, found.steps[1].message) == (True, "We did")


def test_events_that_say_nothing_and_unknown_ones(tmp_path):
    found = conversation(tmp_path, {"kind": "ConversationStateUpdateEvent"}, {"kind": "NewEvent"})
    assert found.skipped == {"unknown event: NewEvent": 1}


@pytest.mark.parametrize("value", [[{"kind": "x"}], [{"id": 1, "source": "agent", "action": "run", "args": {}}], {}])
def test_what_is_not_of_the_sdk(tmp_path, value):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    module = reader_of(Source(path))
    assert module is None or module.FORMAT != "openhands-sdk"


def test_a_root_of_its_own_in_the_middle(tmp_path):
    given = json.loads(json.dumps(EVENTS))
    given[24]["parent_id"] = "__root__"
    assert one(folder(tmp_path / "c1", given)).skipped == {"rolled back": 24}


def test_odd_values_anywhere(tmp_path):
    chance = random.Random(1)
    odd = [None, 1, [], {}, "x", True, [None], {"a": []}]
    for _ in range(200):
        given = json.loads(json.dumps(EVENTS))
        value = given[chance.randrange(3, len(given))]
        inner = [v for v in value.values() if isinstance(v, dict) and v]
        value = chance.choice([value, *inner])
        value[chance.choice(list(value))] = chance.choice(odd)
        (tmp_path / "any").write_text(json.dumps(given))
        found = one(tmp_path / "any")
        assert any(isinstance(e, Prompt) for e in events(found))
        assert all(isinstance(r.output, str) for s in found.steps for r in s.results.values())
