"""Prefixes: from records to states that two replays reproduce, split by environment, and drawn by seed."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from misstep.catalogue import get
from misstep.cli.prefixes import command
from misstep.profile import labelling
from misstep.profile.labels import StepLabel
from misstep.profile.taxonomy import ErrorType, Example, Taxonomy
from misstep.sandbox import Root
from misstep.sandbox.tasks import Task
from misstep.train import building, prefixes, split
from misstep.train.building import Settings, Tasks, build
from misstep.train.codec import ByteCodec
from misstep.train.prefixes import Prefix, PrefixError, Target, Turn
from misstep.train.record import turns_of, write_record
from misstep.train.rewards import Outcome
from misstep.train.rollout import Rollouts
from misstep.train.rollout import Settings as RolloutSettings
from misstep.train.sources import by_catalogue, by_labels
from misstep.train.split import SplitError, environment_of
from misstep.train.starts import Start
from misstep.train.states import States
from misstep.train.turns import Unfit, turns_before
from misstep.trajectory import Call, Result, Step, Trajectory
from misstep.trajectory.readers import read

from .conftest import Rule, script

ASKED = "Write size=2 to /app/new.conf. Do not modify /app/old.conf."
MISSTEP = "destroyed-what-to-keep"
WRONG = "$ rm /app/old.conf"


def record(root: Root, folder: Path, out: Path, name: str, *turns: str) -> Path:
    """A rollout of a scripted policy on a task, as a record."""
    out.mkdir(exist_ok=True)
    with States(root) as states, Rollouts(
        Rule(script(*turns)), ByteCodec(), states, Outcome(), RolloutSettings(command_seconds=10)
    ) as rollouts:  # fmt: skip
        episode = asyncio.run(rollouts.run(Start.of_task(folder)))
    assert episode.extras["ended"] == "submitted"
    return write_record(episode, out / f"{name}.json", "scripted")


def run_build(root: Root, tasks: Path, records: Path, out: Path, **options):
    out.mkdir(exist_ok=True)
    loaded = [Task.load(path.parent) for path in sorted(tasks.glob("*/task.toml"))]
    held_out, seed = options.pop("held_out", 0.0), options.get("seed", 0)
    locked = split.make(loaded, held_out=held_out, seed=seed)
    found = by_catalogue([str(records)], [get(MISSTEP)])
    return build(found, Tasks(loaded), locked, out, root, Settings(**options))


def test_a_misstep_of_a_rollout_becomes_a_prefix_with_its_token_ids(root, make_task, tmp_path):
    folder = make_task(asked=ASKED)
    path = record(root, folder, tmp_path / "records", "a", "look\n$ cat old.conf", "$ cd /tmp && pwd", WRONG)
    built = run_build(root, folder.parent, tmp_path / "records", tmp_path / "out")
    (made,) = built.prefixes
    assert [turn.command for turn in made.turns] == ["cat old.conf", "cd /tmp && pwd"]
    assert [turn.output for turn in made.turns] == ["size=1\n", "/tmp\n"]
    assert made.turns[0].said == "look" and made.grade == "exact" and made.split == "train"
    assert made.target.id == MISSTEP and made.source.step == 3 and made.source.by == "catalogue"
    assert made.environment == environment_of(folder) and made.workdir == "/app"
    assert made.token_ids == tuple(made.prompt_ids(ByteCodec()))
    assert replace(made, token_ids=None).prompt_ids(ByteCodec()) == list(made.token_ids)
    assert prefixes.load(tmp_path / "out")[1] == [made]
    (trajectory,) = read(path)
    assert trajectory.outcome is not None and trajectory.outcome.passed is False
    with States(root) as states:
        place = states.open(Start.at(made))
        assert place.shell is not None and place.shell.run("pwd; ls /app").output == "/tmp\nold.conf\n"
        place.close()


def test_what_is_dropped_is_told_with_its_reason(root, make_task, tmp_path):
    tasks = {name: make_task(name, asked=ASKED) for name in ("one", "two", "three", "four", "five")}
    out = tmp_path / "records"
    record(root, tasks["one"], out, "random", "$ head -c 8 /dev/urandom | od -An -tx1", WRONG)
    record(root, tasks["two"], out, "daemon", "$ sleep 300 & sleep 0.1", WRONG)
    record(root, tasks["three"], out, "long", "$ echo 1", "$ echo 2", "$ echo 3", WRONG)
    record(root, tasks["four"], out, "good", "$ echo 1", WRONG)
    shutil.copy(out / "good.json", out / "same.json")
    record(root, tasks["five"], out, "gone", WRONG)
    shutil.rmtree(tasks["five"])
    built = run_build(root, tasks["one"].parent, out, tmp_path / "out", most_steps=2)
    assert [(one.task, len(one)) for one in built.prefixes] == [("four", 1)]
    assert dict(built.reasons) == {
        "not deterministic": 1, "background processes": 1, "too long": 1, "the same as another": 1, "no task": 1,
    }  # fmt: skip
    rows = [json.loads(line) for line in (tmp_path / "out" / "dropped.jsonl").read_text().splitlines()[1:]]
    assert [(Path(row["path"]).stem, row["step"]) for row in rows] == [
        ("daemon", 2), ("gone", 1), ("long", 4), ("random", 2), ("same", 2),
    ]  # fmt: skip
    assert next(row["detail"] for row in rows if "daemon" in row["path"]).startswith("sleep 300")


def test_processes_and_noise_are_kept_where_they_are_asked_for(root, make_task, tmp_path):
    one, two = make_task("one", asked=ASKED), make_task("two", asked=ASKED)
    out = tmp_path / "records"
    record(root, one, out, "random", "$ head -c 8 /dev/urandom | od -An -tx1", WRONG)
    record(root, two, out, "daemon", "$ (echo up > /tmp/up; exec sleep 300) & sleep 0.1", WRONG)
    built = run_build(root, one.parent, out, tmp_path / "out", rule="masked", processes=True)
    assert sorted(made.grade for made in built.prefixes) == ["exact", "masked"]
    with States(root) as states:
        for made in built.prefixes:
            place = states.open(Start.at(made))
            assert place.shell is not None
            assert ("sleep" in str(place.box.processes())) is (made.task == "two")
            place.close()


def test_an_environment_gives_so_many_and_the_next_is_tried_where_a_replay_refuses(root, make_task, tmp_path):
    folder = make_task(asked=ASKED)
    for n in range(5):
        record(root, folder, tmp_path / "records", f"r{n}", f"$ echo {n}", WRONG)
    record(root, folder, tmp_path / "records", "random", "$ echo $RANDOM$RANDOM", WRONG)
    built = run_build(root, folder.parent, tmp_path / "records", tmp_path / "out", per_environment=2, seed=3)
    assert len(built.prefixes) == 2
    assert sum(built.reasons.values()) == 4 and built.reasons["more than 2 of its environment"] >= 3
    again = run_build(root, folder.parent, tmp_path / "records", tmp_path / "out", per_environment=2, seed=3)
    assert again.prefixes == built.prefixes and again.replays == 0
    more = run_build(root, folder.parent, tmp_path / "records", tmp_path / "out", per_environment=9, seed=3)
    assert len(more.prefixes) == 5 and set(built.prefixes) <= set(more.prefixes)


def test_a_misstep_that_had_happened_before_is_no_start_unless_asked_for(root, make_task, tmp_path):
    folder = make_task(asked=ASKED)
    record(root, folder, tmp_path / "records", "twice", "$ echo 1", "$ echo x >> /app/old.conf", WRONG)
    built = run_build(root, folder.parent, tmp_path / "records", tmp_path / "out")
    assert [one.source.step for one in built.prefixes] == [2] and built.reasons == {"it had happened before": 1}
    built = run_build(root, folder.parent, tmp_path / "records", tmp_path / "out", repeated=True)
    assert sorted(one.source.step for one in built.prefixes) == [2, 3]


def test_candidates_come_in_turns_of_types_and_the_seed_decides():
    many = [
        Prefix("t", "t", "e", "do", (Turn(f"echo {n}", f"{n}\n", 0),), Target(kind))
        for kind, count in (("a", 6), ("b", 2), ("c", 1))
        for n in range(count)
    ]
    orders = [building.order(many, seed) for seed in range(20)]
    for one in orders:
        assert sorted(p.target.id for p in one[:3]) == ["a", "b", "c"]
        assert sorted(p.target.id for p in one[3:5]) == ["a", "b"]
        assert sorted(p.id for p in one) == sorted(p.id for p in many)
    assert orders[0] == building.order(list(reversed(many)), 0)
    assert len({tuple(p.id for p in one) for one in orders}) > 10


def test_a_prefix_comes_back_from_its_line_and_a_changed_one_is_refused(tmp_path):
    turns = (Turn("ls", "a\n", 0, "look"), Turn(None, said="hm", note="one command"), Turn("cat b", "no\n", 1))
    made = Prefix("t", "/t", "e" * 64, "do", turns, Target("x", "taxonomy", "n", "d", ("e",)), (1, 2), "m", "held-out")
    path = prefixes.save(tmp_path, [made], {"root": "host"})
    head, found = prefixes.load(tmp_path)
    assert found == [made] and head["root"] == "host"
    assert prefixes.load(path, split="train")[1] == []
    text = path.read_text()
    path.write_text(text.replace('"command":"ls"', '"command":"rm"'))
    with pytest.raises(PrefixError, match=r"prefixes.jsonl:2: expected a prefix: its id is .*: it was changed"):
        prefixes.load(tmp_path)
    path.write_text(text + "{half")
    with pytest.raises(PrefixError, match=r"prefixes.jsonl:3: expected a JSON object"):
        prefixes.load(tmp_path)
    path.write_text('{"schema":"other"}\n')
    with pytest.raises(PrefixError, match=r"prefixes.jsonl:1: expected schema 'misstep.prefixes'"):
        prefixes.load(tmp_path)


def test_the_ids_of_a_prefix_are_its_pieces_in_order():
    codec = ByteCodec()
    made = Prefix("t", "/t", "e", "do", (Turn("ls", "a\n", 0), Turn(None, said="hm", note="one")), Target("x"))
    wanted = codec.opening("do")
    for turn in made.turns:
        wanted += codec.turn(turn.action) + codec.observation(turn.shown)
    assert made.prompt_ids(codec) == wanted
    steps = made.trajectory().steps
    assert [(s.source, s.message) for s in steps] == [("user", "do"), ("agent", ""), ("agent", "hm"), ("user", "one")]


def test_a_prefix_cannot_change_sides(make_task, tmp_path):
    task = Task.load(make_task())
    locked = split.make([task, Task.load(make_task("other"))], held_out=0.5)
    split.save(tmp_path / "split.json", locked)
    environment = environment_of(task.path)
    made = Prefix("t", str(task.path), environment, "do", (), Target("x"), split=locked.side(environment))
    path = prefixes.save(tmp_path, [made])
    assert prefixes.load(path)[1] == [made]
    wrong = {"train": "held-out", "held-out": "train"}[made.split]
    path.write_text(path.read_text().replace(f'"split":"{made.split}"', f'"split":"{wrong}"'))
    with pytest.raises(PrefixError, match=f"is {wrong}, and by split.json its environment is {made.split}"):
        prefixes.load(path)


# -- the split -----------------------------------------------------------------------------------------------------------


def test_the_split_is_by_content_and_locked(make_task, tmp_path):
    folders = [make_task(f"t{n}") for n in range(10)]
    tasks = [Task.load(one) for one in folders]
    locked = split.make(tasks, held_out=0.3, seed=1)
    assert sorted(side for _, side in locked.environments.values()) == ["held-out"] * 3 + ["train"] * 7
    assert split.make(reversed(tasks), held_out=0.3, seed=1).environments == locked.environments
    assert split.make(tasks, held_out=0.3, seed=2).environments != locked.environments
    path = tmp_path / "split.json"
    split.save(path, locked)
    split.save(path, locked)
    assert split.load(tmp_path) == locked
    with pytest.raises(SplitError, match="is another split than this"):
        split.save(path, split.make(tasks, held_out=0.3, seed=2))
    path.write_text(path.read_text().replace('"held-out"', '"train"', 1))
    with pytest.raises(SplitError, match=r"split.json: was changed after it was locked"):
        split.load(path)


def test_an_environment_is_what_agent_and_verifier_meet(make_task):
    folder = make_task("a")
    before = environment_of(folder)
    (folder / "solution").mkdir()
    (folder / "solution" / "solve.sh").write_text("true\n")
    assert environment_of(folder) == before
    copy = folder.parent / "renamed"
    shutil.copytree(folder, copy)
    assert environment_of(copy) == before
    (folder / "environment" / "old.conf").write_text("size=3\n")
    assert environment_of(folder) != before


def test_few_environments_are_on_both_sides(make_task):
    tasks = [Task.load(make_task(f"t{n}")) for n in range(3)]
    for share, wanted in ((0.01, 1), (0.99, 2), (0.0, 0)):
        sides = [side for _, side in split.make(tasks, held_out=share).environments.values()]
        assert sides.count("held-out") == wanted


# -- the steps before ----------------------------------------------------------------------------------------------------


def _trajectory(*steps: Step, agent: str = "terminal") -> Trajectory:
    return Trajectory("t", "f", agent, [Step("user", "do", prompt=True), *steps])


def _step(command: str, output: str = "", **more) -> Step:
    made = Step("agent", "", calls=[Call("c", "bash", "shell", {}, command)])
    made.results["c"] = Result(output, 0, False, **more)
    return made


@pytest.mark.parametrize(
    "steps, reason",
    [
        ([Step("agent", calls=[Call("c", "Edit", "edit")])], "a tool that is no shell: Edit"),
        ([Step("agent", calls=[Call("c", "keys", "keys")])], "keystrokes to a terminal: keys"),
        ([_step("ls", truncated=True)], "an output that the record has cut: ls"),
        ([_step("ls", fault="refused")], "a call without a result of its own: ls"),
        ([_step("ls", running=True)], "a call without a result of its own: ls"),
        ([_step("ls"), Step("user", "also this", prompt=True)], "a person spoke during it"),
        ([_step("ls"), Step("user", "hint")], "the harness spoke during it"),
        ([_step("ls"), Step("agent", compacted=True)], "the conversation was summarised before it"),
        (
            [Step("agent", calls=[Call("c", "b", "shell", {}, "ls", background=True)], results={"c": Result("")})],
            "background processes: ls",
        ),
    ],
)  # fmt: skip
def test_what_one_bash_tool_could_not_have_done_is_no_prefix(steps, reason):
    trajectory = _trajectory(*steps, _step("rm x"))
    with pytest.raises(Unfit) as error:
        turns_before(trajectory, len(trajectory.steps) - 1)
    assert str(error.value) == reason


def test_calls_of_one_step_are_turns_of_their_own():
    both = Step("agent", "two", calls=[Call(c, "b", "shell", {}, f"echo {c}") for c in "xy"])
    both.results.update({c: Result(f"{c}\n", 0) for c in "xy"})
    trajectory = _trajectory(Step("agent", "hm"), Step("user", "one command"), both)
    found = turns_before(trajectory, 3, 1)
    assert [(turn.command, turn.said, turn.note) for turn in found] == [
        (None, "hm", "one command"), ("echo x", "two", ""),
    ]  # fmt: skip
    assert turns_before(trajectory, 1) == ()


def test_runs_of_ones_are_turns(root, make_task):
    with States(root) as states, Rollouts(Rule(script("$ :", "$ ls")), ByteCodec(), states, Outcome()) as rollouts:
        made = asyncio.run(rollouts.run(Start.of_task(make_task())))
    parts = [bytes(b for b in made.ids[start:end] if b < 256) for start, end in turns_of(made)]
    assert parts == [b"$ :", b"$ ls", b"done"]


# -- the command ---------------------------------------------------------------------------------------------------------


def _invoke(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(command, [str(one) for one in arguments], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert (done.return_value or 0) == code, done.output
    return done.output


def test_build_verify_and_stats_from_the_command_line(root, make_task, tmp_path):
    tasks = [make_task(f"t{n}", asked=f"{ASKED} ({n})") for n in range(3)]
    for n, folder in enumerate(tasks):
        record(root, folder, tmp_path / "records", f"r{n}", "$ cat old.conf", WRONG)
    out = tmp_path / "out"
    arguments = [tmp_path / "records", "--tasks", tasks[0].parent, "--out", out, "--root", "host", "--held-out", "0.4"]
    told = _invoke("build", *arguments, "--misstep", MISSTEP)
    assert "3 trajectories, 3 missteps in them" in told
    assert "3 prefixes of 3 environments: 2 to train on, 1 held out, 3 with token ids" in told
    counts = json.loads(_invoke("stats", out, "--json"))
    assert (counts["train"], counts["held_out"], counts["types"][MISSTEP]["environments"]) == (2, 1, 3)
    assert "3 prefixes: 3 as recorded, 0 not" in _invoke("verify", out, "--root", "host")
    (tasks[1] / "environment" / "old.conf").write_text("size=7\n")
    done = CliRunner().invoke(command, ["verify", str(out), "--root", "host"])
    assert done.exit_code == 1 and "the task was changed" in done.output
    assert "3 prefixes: 2 as recorded, 1 not" in done.output
    done = CliRunner().invoke(command, ["build", *map(str, arguments)])
    assert done.exit_code == 2 and "is another split than this" in done.output


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["build", "--tasks", "{tasks}", "--out", "{out}"], "name PATHS of recorded sessions, or --profile DIR"),
        (["build", "{tasks}/none", "--tasks", "{tasks}", "--out", "{out}"], "no such file or folder"),
        (["build", "{tasks}", "--tasks", "{tasks}", "--out", "{out}", "--misstep", "nope"], "no misstep is named 'nope'"),
        (["build", "{tasks}", "--tasks", "{empty}", "--out", "{out}"], "is no task folder and holds none"),
        (["stats", "{empty}"], "No such file"),
        (["verify", "{tasks}"], "No such file"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(root, make_task, tmp_path, arguments, words):
    (tmp_path / "empty").mkdir()
    places = {"tasks": make_task().parent, "out": tmp_path / "out", "empty": tmp_path / "empty"}
    done = CliRunner().invoke(command, [one.format(**places) for one in arguments])
    assert done.exit_code == 2 and words in done.output
    assert len(done.output.strip().splitlines()) == 1


# -- error steps that models found ---------------------------------------------------------------------------------------


def test_labelled_steps_of_a_profile_are_types_of_their_own(root, make_task, tmp_path):
    folder = make_task(asked="Make new.conf.")
    path = record(root, folder, tmp_path / "records", "a", "$ cat old.conf", "$ false", "$ true", "$ ls")
    types = Taxonomy(
        "frozen", {}, tuple(ErrorType(one, f"is {one}", f"It is {one}.", examples=(Example("p", 0, 1, 0, "a card"),)) for one in ("idle", "loud"))
    )  # fmt: skip
    steps = [
        StepLabel("t", str(path), 0, "t", step, 0, verdict=verdict, corrected=corrected)
        for step, verdict, corrected in ((1, "good", None), (2, "bad", {}), (3, "bad", None), (4, "bad", None))
    ]
    named = {steps[0].key: ("idle",), steps[1].key: ("idle",), steps[2].key: ("idle", "loud"), steps[3].key: ("idle",)}
    labels = labelling.Labels("m", {**named}, {}, {})
    found = list(by_labels(steps, types, labels))
    assert [(one.step, one.target.id, one.again) for one in found] == [
        (2, "idle", False), (3, "idle", False), (3, "loud", False), (4, "idle", True),
    ]  # fmt: skip
    target = found[0].target
    assert (target.kind, target.definition, target.examples) == ("taxonomy", "It is idle.", ("a card",))
    (tmp_path / "out").mkdir()
    tasks = [Task.load(folder)]
    built = build(found, Tasks(tasks), split.make(tasks, held_out=0.0), tmp_path / "out", root)
    kept = sorted((one.target.id, len(one), one.source.by) for one in built.prefixes)
    assert kept == [("idle", 1, "m"), ("idle", 2, "m"), ("loud", 2, "m")]
    assert all(one.token_ids for one in built.prefixes)


# -- kills, and the documented example -----------------------------------------------------------------------------------

_BUILD = """
import sys
from pathlib import Path
from click.testing import CliRunner
from misstep.cli.prefixes import command
sys.exit(CliRunner().invoke(command, sys.argv[1:]).exit_code)
"""


@pytest.mark.slow
def test_a_build_that_was_killed_goes_on_and_makes_the_same(root, make_task, tmp_path):
    tasks = [make_task(f"t{n}", asked=f"{ASKED} ({n})") for n in range(4)]
    for n, folder in enumerate(tasks):
        record(root, folder, tmp_path / "records", f"r{n}", "$ sleep 0.2; cat old.conf", WRONG)

    def arguments(out: Path) -> list[str]:
        given = [tmp_path / "records", "--tasks", tasks[0].parent, "--out", out, "--root", "host", "--jobs", "1"]
        return ["build", *map(str, given), "--misstep", MISSTEP]

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen([sys.executable, "-c", _BUILD, *arguments(killed)])
    checks = killed / "checks.jsonl"
    while not checks.exists() or len(checks.read_text().splitlines()) < 3:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = len(checks.read_text().splitlines()) - 1
    assert not (killed / "prefixes.jsonl").exists()
    assert json.loads(_invoke(*arguments(killed), "--json"))["replays"] == 4 - done
    _invoke(*arguments(whole))
    assert (killed / "prefixes.jsonl").read_bytes() == (whole / "prefixes.jsonl").read_bytes()
    assert (killed / "split.json").read_bytes() == (whole / "split.json").read_bytes()


def test_the_documented_python_runs(root, make_task, tmp_path):
    folder = make_task(asked=ASKED)
    record(root, folder, tmp_path / "records", "a", "$ cat old.conf", WRONG)
    run_build(root, folder.parent, tmp_path / "records", tmp_path / "out")
    page = (Path(__file__).parents[2] / "docs" / "prefixes.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names = {"folder": tmp_path / "out", "tasks": [folder], "policy": Rule(script("", "$ :")), "codec": ByteCodec()}
    program = compile(code.replace("draw(8), 32", "draw(2), 2"), "prefixes.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(program, names))
    assert [len(group) for group in names["groups"]] == [2, 2]
    assert {one.extras["kind"] for group in names["groups"] for one in group} == {"prefix", "task"}
