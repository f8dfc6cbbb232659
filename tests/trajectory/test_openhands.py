"""OpenHands events in all their containers."""

import json
from pathlib import Path

import pytest

from misstep.trajectory import Compact, Prompt, Stop, Trajectory, events
from misstep.trajectory.readers import Source, read, reader_of, units

DATA = Path(__file__).parent / "data" / "openhands"


def one(path: Path) -> Trajectory:
    (found,) = read(path)
    return found


def tool(name: str, call: str, answer: str) -> dict:
    return {
        "tool_call_metadata": {
            "function_name": name,
            "tool_call_id": call,
            "model_response": {"id": answer, "model": "m"},
        }
    }


def action(id: int, kind: str, source: str = "agent", **more: object) -> dict:
    arguments = more.pop("args", {})
    return {
        "id": id,
        "timestamp": "2025-10-10T06:10:15",
        "source": source,
        "action": kind,
        "args": arguments,
        "message": "",
        **more,
    }


def seen(id: int, kind: str, content: str = "", cause: int | None = None, **more: object) -> dict:
    extras = more.pop("extras", {})
    found = {
        "id": id,
        "timestamp": "2025-10-10T06:10:17",
        "source": "agent",
        "observation": kind,
        "content": content,
        "extras": extras,
    }
    return {**found, **({} if cause is None else {"cause": cause}), **more}


ASK = action(1, "message", "user", args={"content": "Do it"})


def listed(tmp_path: Path, *given: dict) -> Trajectory:
    path = tmp_path / "list.json"
    path.write_text(json.dumps(list(given)))
    return one(path)


def test_a_recorded_list():
    found = one(DATA / "list.json")
    assert (found.agent, found.model) == ("openhands", "gpt-5-2025-08-07")
    call = found.steps[2].calls[0]
    assert (call.id, call.tool, call.kind, call.timeout) == (
        "call_ruehvjC2P8Qd6aIW5wqdqL7J",
        "execute_bash",
        "shell",
        120.0,
    )
    assert call.command.startswith("printf 'Hello, world!\\n' > hello.txt && echo")
    result = found.steps[2].results[call.id]
    assert (result.exit_code, result.failed, round(result.seconds, 1)) == (0, False, 0.7)
    assert result.output == "Created /app/hello.txt\nSize: 14 bytes\nContent: Hello, world!"
    assert found.steps[2].metrics["completion_tokens"] == 1042
    assert [type(e).__name__ for e in events(found) if isinstance(e, (Prompt, Stop))] == ["Prompt", "Stop"]
    assert found.steps[1].message == 'Create a file called hello.txt with "Hello, world!" as the content.'


def folder(place: Path, *given: object) -> Path:
    place.mkdir(parents=True)
    for event in given:
        (place / f"{event['id']}.json").write_text(json.dumps(event))
    return place


EVENTS = (
    ASK,
    action(3, "run", args={"command": "ls"}),
    seen(10, "run", "a", cause=3, extras={"metadata": {"exit_code": 1}}),
    action(12, "finish", args={"final_thought": "Done"}),
)


def test_a_folder_of_numbered_events(tmp_path):
    place = folder(tmp_path / "sessions" / "s-1" / "events", *EVENTS)
    (place / "11.json").write_text("{damaged")
    (tmp_path / "sessions" / "s-1" / "metadata.json").write_text("{}")
    cache = tmp_path / "sessions" / "s-1" / "event_cache"
    cache.mkdir()
    (cache / "0-25.json").write_text(json.dumps(list(EVENTS)))
    # the session is one unit: its cached pages are copies of the events
    assert list(units([tmp_path])) == [tmp_path / "sessions" / "s-1"]
    found = one(tmp_path / "sessions" / "s-1")
    assert found.id == "s-1" and found.skipped["not an event"] == 1
    # 10 comes after 3, not before it
    assert [r.exit_code for s in found.steps for r in s.results.values()] == [1]
    assert one(place).id == "s-1"


def test_observations_are_found_by_cause(tmp_path):
    found = listed(
        tmp_path,
        ASK,
        action(5, "run", args={"command": "a"}, **tool("execute_bash", "c1", "r1")),
        action(6, "run", args={"command": "b"}, **tool("execute_bash", "c2", "r1")),
        seen(8, "run", "B", cause=6, extras={"metadata": {"exit_code": 0}}),
        seen(9, "run", "A", cause=5, extras={"exit_code": 4}),
        seen(11, "run", "?", cause=99),
    )
    assert len(found.steps) == 2
    step = found.steps[1]
    assert {k: (r.output, r.exit_code) for k, r in step.results.items()} == {"c1": ("A", 4), "c2": ("B", 0)}


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        (seen(3, "run", "x", 2, extras={"metadata": {"exit_code": 2}}), (2, True, None, False)),
        (
            seen(
                3, "run", "[The command has no new output after 30 seconds.]", 2, extras={"metadata": {"exit_code": -1}}
            ),
            (None, None, None, True),
        ),
        (seen(3, "run", "x", 2), (None, None, None, False)),
        (seen(3, "error", "bad arguments", 2), (None, True, None, False)),
        (seen(3, "user_rejected", "no", 2), (None, None, "refused", False)),
    ],
)
def test_results(tmp_path, observation, expected):
    found = listed(tmp_path, ASK, action(2, "run", args={"command": "x"}), observation)
    (result,) = found.steps[1].results.values()
    assert (result.exit_code, result.failed, result.fault, result.running) == expected


def test_input_to_a_running_command_is_keys(tmp_path):
    found = listed(
        tmp_path,
        ASK,
        action(2, "run", args={"command": "C-c", "is_input": True}),
        seen(3, "run", "", 2, extras={"metadata": {"exit_code": 130}}),
    )
    call = found.steps[1].calls[0]
    assert (call.kind, call.command) == ("keys", "C-c") and found.steps[1].results[call.id].exit_code is None


def test_editor_actions(tmp_path):
    found = listed(
        tmp_path,
        ASK,
        action(2, "read", args={"path": "/r", "thought": "look"}, **tool("str_replace_editor", "c1", "a")),
        action(
            3,
            "edit",
            args={"path": "/e", "command": "str_replace", "old_str": "a", "new_str": "b"},
            **tool("str_replace_editor", "c2", "b"),
        ),
        seen(4, "edit", "ERROR:\nNo replacement was performed", 3),
        action(
            5,
            "edit",
            args={"path": "/n", "command": "create", "file_text": "t"},
            **tool("str_replace_editor", "c3", "c"),
        ),
        seen(6, "edit", "File created successfully", 5),
        action(7, "think", args={"thought": "hm"}, **tool("think", "c4", "d")),
    )
    calls = [c for s in found.steps for c in s.calls]
    assert [(c.kind, c.paths) for c in calls] == [
        ("read", ("/r",)),
        ("edit", ("/e",)),
        ("write", ("/n",)),
        ("other", ()),
    ]
    assert (calls[1].edits, calls[2].edits) == ((("/e", "a", "b"),), (("/n", "", "t"),))
    assert found.steps[2].results["c2"].failed is True and found.steps[3].results["c3"].failed is False
    assert found.steps[1].message == "look"


def test_a_stuck_loop_is_an_error_observation(tmp_path):
    stuck = seen(3, "error", "AgentStuckInLoopError: Agent got stuck in a loop")
    found = listed(
        tmp_path,
        ASK,
        action(2, "run", args={"command": "x"}),
        stuck,
        seen(4, "agent_state_changed", "", extras={"agent_state": "error"}),
    )
    assert found.extra["errors"] == ["AgentStuckInLoopError: Agent got stuck in a loop"]
    assert not found.steps[1].results


def test_messages(tmp_path):
    waits = action(3, "message", args={"content": "Which one?", "wait_for_response": True})
    found = listed(
        tmp_path,
        ASK,
        action(2, "recall", "user", args={"query": "q"}),
        waits,
        action(4, "message", "user", args={"content": "That"}),
    )
    assert [type(e).__name__ for e in events(found)] == ["Prompt", "Stop", "Prompt"]


def test_condensation_is_a_compaction(tmp_path):
    found = listed(tmp_path, ASK, action(2, "condensation", args={"summary": "s"}), action(3, "finish", args={}))
    assert sum(isinstance(e, Compact) for e in events(found)) == 1


def test_costs_are_differences(tmp_path):
    def spent(id: int, total: float) -> dict:
        return action(id, "run", args={"command": "x"}, llm_metrics={"accumulated_cost": total})

    found = listed(tmp_path, ASK, spent(2, 0.25), spent(3, 0.75), spent(4, 0.75))
    assert [s.metrics["cost_usd"] for s in found.steps[1:]] == [0.25, 0.5, 0.0]


def test_evaluation_records(tmp_path):
    path = tmp_path / "output.jsonl"
    rows = [
        {
            "instance_id": "i-1",
            "history": list(EVENTS),
            "metrics": {"accumulated_cost": 0.5},
            "report": {"resolved": True},
        },
        {"instance_id": "i-2", "history": list(EVENTS), "error": "RuntimeError: gone"},
        {"instance_id": "i-3"},
    ]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = list(read(path))
    assert [(t.id, t.outcome.passed, t.outcome.exception, t.outcome.cost_usd) for t in found] == [
        ("i-1", True, "", 0.5),
        ("i-2", None, "RuntimeError", None),
    ]


@pytest.mark.parametrize(
    "value",
    [[], [{"source": "agent"}], [{"role": "user", "content": "x"}], [{"source": "web", "action": "x", "args": {}}]],
)
def test_what_is_not_openhands(tmp_path, value):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    module = reader_of(Source(path))
    assert module is None or module.FORMAT != "openhands"


def test_a_folder_of_other_numbered_files_is_walked(tmp_path):
    (tmp_path / "1.json").write_text("{}")
    assert list(units([tmp_path])) == [tmp_path / "1.json"]
