"""Writing ATIF 1.8: Harbor's models accept it, and reading it back gives the same events."""

import json
import random
from pathlib import Path

import pytest

from misstep.trajectory import Call, Outcome, Result, Step, Trajectory, atif_out, events
from misstep.trajectory.readers import Unreadable, read, units

DATA = Path(__file__).parent / "data"


def samples() -> list[tuple[str, Trajectory]]:
    """Every trajectory of the test data, whatever reader it belongs to."""
    found = []
    for path in units([DATA]):
        try:
            found += [(str(path.relative_to(DATA)), t) for t in read(path) if t.steps]
        except Unreadable:
            continue
    return found


SAMPLES = samples()


def plain(trajectory: Trajectory) -> list[tuple]:
    """The events as values."""
    found = []
    for event in events(trajectory):
        row: list = [type(event).__name__, event.step]
        row += [getattr(event, name) for name in ("text", "message") if hasattr(event, name)]
        if hasattr(event, "call"):
            call = event.call
            row += [call.id, call.tool, call.kind, call.arguments, call.command, call.paths, call.edits]
            row += [call.background, call.timeout, call.cwd]
        if hasattr(event, "result"):
            result = event.result
            row += [result.output, result.exit_code, result.failed, result.fault, result.truncated]
            row += [result.shared, result.running, result.timed_out, result.seconds]
        found.append(tuple(row))
    return found


def back(tmp_path: Path, trajectory: Trajectory) -> Trajectory:
    (found,) = read(atif_out.write_file(trajectory, tmp_path / "out.json"))
    return found


def test_there_is_a_sample_of_every_format_here():
    formats = {t.format for _, t in SAMPLES}
    assert {"atif", "mini-swe-agent", "swe-agent", "openhands", "opencode", "copilot-cli"} <= formats


@pytest.mark.parametrize(("name", "trajectory"), SAMPLES, ids=[f"{at}-{name}" for at, (name, _) in enumerate(SAMPLES)])
def test_reading_back_gives_the_same_events(tmp_path, name, trajectory):
    again = back(tmp_path, trajectory)
    assert plain(again) == plain(trajectory)
    assert (again.id, again.parent, again.agent, again.cwd) == (
        trajectory.id,
        trajectory.parent,
        trajectory.agent or "unknown",
        trajectory.cwd,
    )
    assert [s.copied for s in again.steps] == [s.copied for s in trajectory.steps]
    assert [s.extra for s in again.steps] == json.loads(json.dumps([s.extra for s in trajectory.steps]))
    assert [s.metrics for s in again.steps] == [s.metrics for s in trajectory.steps]
    assert [s.model for s in again.steps] == [s.model if s.source == "agent" else "" for s in trajectory.steps]
    for one, two in zip(again.steps, trajectory.steps, strict=True):
        assert one.time == pytest.approx(two.time, abs=1e-5) if two.time is not None else one.time is None
        assert one.reasoning == two.reasoning or two.source != "agent"


@pytest.mark.parametrize(("name", "trajectory"), SAMPLES, ids=[f"{at}-{name}" for at, (name, _) in enumerate(SAMPLES)])
def test_harbors_models_accept_it(name, trajectory):
    harbor = pytest.importorskip("harbor.models.trajectories")
    document = atif_out.write(trajectory)
    accepted = harbor.Trajectory.model_validate(document)
    assert accepted.schema_version == "ATIF-v1.8" and len(accepted.steps) == len(trajectory.steps)
    # and their own form of it is read as the same
    assert json.loads(json.dumps(accepted.to_json_dict()))["steps"][0]["step_id"] == 1


@pytest.fixture
def odd() -> Trajectory:
    """What no sample has: every fault, shared observations, repeated ids, strange text."""
    calls = [
        Call("a", "Bash", "shell", {"command": "x"}, command="x", background=True, timeout=2.5, cwd="/w"),
        Call("a", "Bash", "shell", {"command": "y"}, command="y"),
        Call("", "apply_patch", "edit", {"input": "p"}, paths=("f",), edits=(("f", "old", "new"),)),
        Call("k", "made-up", "keys", {}, command="C-c"),
    ]
    results = {
        "a": Result("\x1b[31mred\x00\ud800", 1, True, None, True, False, False, True, 0.5),
        "k": Result("screen", None, None, "interrupted", shared=True, running=True),
    }
    return Trajectory(
        "id-1",
        "codex",
        "codex",
        [
            Step("system", "s", compacted=True),
            Step("user", "<system-reminder>no prompt</system-reminder>"),
            Step("user", "A prompt", prompt=True, time=1760000000.123456),
            Step(
                "agent",
                "m",
                "thought",
                calls,
                results,
                id="u-1",
                metrics={"prompt_tokens": 7.0, "cost_usd": 0.25, "other": 1.0},
            ),
            Step("user", "", interrupted=True),
            Step("agent", "the end", stop=True, copied=False),
            Step("agent", "not the end", stop=False),
        ],
        cwd="/w",
        parent="p-0",
        outcome=Outcome(False, 0.0, "t@1", "t__1", "never-ran", "SomeError", 0.5, 60.0),
    )


def test_what_atif_has_no_field_for_is_kept(tmp_path, odd):
    odd.steps[3].calls[1].id = "b"
    odd.steps[3].results["a"].output = "\x1b[31mred\x00"
    again = back(tmp_path, odd)
    odd.steps[3].calls[2].id = "call-2"
    assert plain(again) == plain(odd)
    assert again.outcome == odd.outcome
    assert again.steps[3].id == "u-1"


def test_repeated_ids_and_lone_surrogates_can_be_written(tmp_path, odd):
    harbor = pytest.importorskip("harbor.models.trajectories")
    path = atif_out.write_file(odd, tmp_path / "out.json")
    accepted = harbor.Trajectory.model_validate_json(path.read_bytes())
    assert [c.tool_call_id for c in accepted.steps[3].tool_calls] == ["a", "a-1", "call-2", "k"]
    assert accepted.final_metrics.total_prompt_tokens == 7 and accepted.final_metrics.total_cost_usd == 0.25


def test_sub_agents_are_embedded_with_unique_ids(tmp_path, odd):
    harbor = pytest.importorskip("harbor.models.trajectories")
    children = [
        Trajectory(name, "codex", "codex", [Step("user", "x", prompt=True)], parent="id-1")
        for name in ("c", "c", "id-1")
    ]
    children.append(Trajectory("empty", "codex", "codex"))
    odd.steps[3].results = {}
    document = atif_out.write(odd, children)
    assert [d["trajectory_id"] for d in document["subagent_trajectories"]] == ["c", "c-2", "id-1-2"]
    harbor.Trajectory.model_validate(document)
    path = tmp_path / "out.json"
    path.write_text(json.dumps(document))
    assert [(t.id, t.parent) for t in read(path)] == [
        ("id-1", "p-0"),
        ("c", "id-1"),
        ("c-2", "id-1"),
        ("id-1-2", "id-1"),
    ]


def test_a_trajectory_without_steps_cannot_be_written(tmp_path):
    with pytest.raises(ValueError, match="no steps"):
        atif_out.write_file(Trajectory("x", "codex", "codex"), tmp_path / "out.json")
    assert not list(tmp_path.iterdir())


def test_a_file_is_written_whole_or_not_at_all(tmp_path, odd):
    path = tmp_path / "out.json"
    path.write_text("before")
    odd.steps[3].metrics["cost_usd"] = float("nan")
    with pytest.raises(ValueError):
        atif_out.write_file(odd, path)
    assert path.read_text() == "before" and len(list(tmp_path.iterdir())) == 1


def test_arguments_that_are_no_json_are_written_as_text():
    call = Call("a", "Bash", "shell", {"command": "x", "path": Path("/w")}, command="x")
    document = atif_out.write(Trajectory("i", "f", "a", [Step("agent", "", calls=[call])]))
    assert document["steps"][0]["tool_calls"][0]["arguments"] == {"command": "x", "path": "/w"}


def _files() -> list[Path]:
    folders = ("atif", "copilot_cli", "mini_swe_agent", "opencode", "openhands", "swe_agent")
    return [path for name in folders for path in sorted((DATA / name).rglob("*")) if path.is_file()]


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(DATA)))
def test_a_damaged_sample_is_read_or_unreadable(tmp_path, path):
    """Cut anywhere, bytes changed, values replaced: no reader raises, and what it gives can be folded and written."""
    source, data = random.Random(path.name), path.read_bytes()
    junk: list = [None, 1, -1.5, True, "x", [], {}, [None], {"a": 1}, "\x1b[2J\ud800", 10**400]

    def damaged(value: object) -> object:
        if source.random() < 0.06:
            return source.choice(junk)
        if isinstance(value, dict):
            return {k: damaged(v) for k, v in value.items() if source.random() > 0.03}
        return [damaged(v) for v in value] if isinstance(value, list) else value

    target = tmp_path / path.name
    for at in range(20):
        if at < 6:
            target.write_bytes(data[: source.randrange(len(data))])
        elif at < 10:
            changed = bytearray(data)
            for _ in range(20):
                changed[source.randrange(len(changed))] = source.randrange(256)
            target.write_bytes(bytes(changed))
        elif path.suffix == ".jsonl":
            lines = data.decode().splitlines()
            target.write_text("\n".join(json.dumps(damaged(json.loads(line))) for line in lines))
        else:
            target.write_text(json.dumps(damaged(json.loads(data))))
        try:
            for trajectory in read(target):
                list(events(trajectory))
                if trajectory.steps:
                    assert atif_out.write(trajectory)["schema_version"] == "ATIF-v1.8"
        except Unreadable:
            continue
