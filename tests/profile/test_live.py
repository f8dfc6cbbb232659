"""Live profiling in real sandboxes: a policy of a stated rule, its missteps found, corrected, recorded; nothing paid twice."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="misstep[models] is not installed")

from misstep.models import Cache, Client, Settings, SettingsError
from misstep.profile import dialog, tokens
from misstep.profile.cards import cases, error_steps
from misstep.profile.corrected import as_proposed
from misstep.profile.labels import load
from misstep.profile.lines import LinesError
from misstep.profile.live import Done, Options, Rollouts, load_rollouts, profile
from misstep.profile.rollout import Rules
from misstep.profile.teacher import Corrected, problem_of
from misstep.sandbox import Root, native, replay, roots, tasks
from misstep.sandbox.record import from_trajectory
from misstep.trajectory.model import Result
from misstep.trajectory.readers import read


def _beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"misstep_tests_profile_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None and spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


world = _beside("world")


@pytest.fixture(scope="session")
def root() -> Root:
    problem = native.problem()
    if problem:
        if os.environ.get("MISSTEP_NEED_SANDBOX"):
            pytest.fail(problem)
        pytest.skip(problem)
    return roots.host()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tasks")
    for n in (2, 3, 4, 5, 6):
        world.write_task(made, n)
    return made


def live(
    here: Any, folder: Path, root: Root, out: Path, options: Options | None = None, *, most: int = 99, **more: Any
) -> Done:
    """One run in this process, with short waits between tries."""
    given = {"retries": 6, "timeout": 5.0, **more}
    budget = {name: given.pop(name) for name in ("usd", "tokens") if name in given}
    offline = bool(given.pop("offline", False))
    roles = {
        name: {
            "model": f"openai:{name}", "base_url": server.url, "price": {"input": 1.0, "output": 2.0},
            **({k: v for k, v in given.items() if k != "extra_body"} if name != "policy" else given),
        }
        for name, server in here.servers.items()
    }  # fmt: skip
    settings = Settings.from_plain({"roles": roles, "budget": budget})
    options = options or Options()

    async def work() -> Done:
        with Rollouts(out, options.header(settings, root)) as kept:
            client = Client(settings, Cache(out / "models.sqlite"), offline=offline, first_wait=0.005)
            async with client:
                return await profile(tasks.find(folder)[:most], root, options, client, kept)

    return asyncio.run(work())


def documents(out: Path) -> dict[str, Any]:
    """All that a run left, without times."""
    found: dict[str, Any] = {}
    for path in sorted(out.glob("*/*.json")):
        document = json.loads(path.read_text())
        for step in document["steps"]:
            step.pop("timestamp", None)
            for result in step.get("observation", {}).get("results", ()):
                result["extra"]["misstep"].pop("seconds", None)
        found[f"{path.parent.name}/{path.name}"] = document
    _, rollouts = load_rollouts(out)
    found["rollouts"] = [{k: v for k, v in one.items() if k != "seconds"} for one in rollouts]
    found["labels"] = [{**one.plain(), "path": Path(one.path).name} for one in load(out)[1]]
    return found


# -- one rollout after the other -------------------------------------------------------------------------------------------


def test_a_policy_without_missteps_passes(folder: Path, root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    with world.World(scripted) as here:
        done = live(here, folder, root, tmp_path)
        paid = here.paid
        again = live(here, folder, root, tmp_path)
        assert here.paid == paid
    assert (done.made, done.broken, done.stopped, again.made) == (5, {}, "", 0)
    _, rollouts = load_rollouts(tmp_path)
    assert [(one["end"], one["passed"], one["reward"], one["steps"], one["bad"]) for one in rollouts] == [
        ("submitted", True, 1.0, 4, 0)
    ] * 5
    head, labels = load(tmp_path)
    assert [one["name"] for one in head["prompts"]] == ["localize", "policy", "teacher"]
    assert head["models"] == {"localizer": "openai:localizer", "policy": "openai:policy", "teacher": "openai:teacher"}
    assert [(one.task, one.step, one.verdict) for one in labels[:4]] == [("sum-02", n, "good") for n in (2, 3, 4, 5)]
    (found,) = read(tmp_path / "trajectories/sum-02-0.json")
    assert [step.source for step in found.steps] == ["system", "user", *["agent"] * 4]
    assert found.steps[2].results["c2"].output == "3\n4\n"
    assert found.steps[4].results["c4"].output == "7\n/app\n"  # the directory lasts
    assert found.steps[5].stop and not found.steps[5].calls
    assert found.outcome is not None
    assert (found.outcome.passed, found.outcome.task) == (True, "sum-02")


def test_a_misstep_is_found_and_corrected_and_both_are_kept(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    def says(step: int, conversation: str) -> str | None:
        return f"I tidy up.\n\n```bash\n{world.MISSTEP}\n```" if step == 1 else None

    with world.World(scripted, policy_says=says) as here:
        live(here, folder, root, tmp_path, most=1, extra_body={"return_token_ids": True, "logprobs": True})
        # what the policy goes on from is the corrected step, in its own form
        last = [m["content"] for m in here.servers["policy"].bodies[-1]["messages"] if m["role"] == "assistant"]
        assert last[1] == world.answer(1)
        asked = [body["messages"][-1]["content"] for body in here.servers["localizer"].bodies]
        assert not any("I tidy up" in one.partition("<proposed>")[0] for one in asked)
    _, labels = load(tmp_path)
    wrong = labels[1]
    assert (wrong.verdict, wrong.command, wrong.step) == ("bad", world.MISSTEP, 3)
    assert wrong.reason == "It removes the numbers, which must stay."
    assert wrong.corrected is not None
    assert wrong.corrected["command"] == world.PLAN[1]
    assert [one["verdict"] for one in wrong.corrected["tries"]] == ["good"]
    path = tmp_path / "trajectories/sum-02-0.json"
    (found,) = read(path)
    assert found.outcome is not None and found.outcome.passed
    step = found.steps[3]
    assert step.calls[0].command == world.PLAN[1]
    assert step.message == world.answer(1)
    assert step.extra["proposed"]["command"] == world.MISSTEP
    assert step.extra["corrections"][0]["command"] == world.PLAN[1]
    before = as_proposed(found, 3)
    assert [one.calls[0].command for one in before.steps if one.calls] == [world.PLAN[0], world.MISSTEP]
    assert not before.steps[-1].results
    (case,) = cases(error_steps(labels))  # what the annotator sees is the wrong step
    assert world.MISSTEP in case.proposed and world.PLAN[1] not in case.proposed
    # token ids, as the server gave them (a token is a byte there), of the replaced answer as well
    kept = tokens.read(path)
    bodies = here.servers["policy"].bodies
    assert sorted(kept) == [2, 3, 4, 5]
    for one, body in zip(kept.values(), bodies, strict=True):
        told = "".join(f"<{m['role']}>{m['content']}</>" for m in body["messages"]) + "<assistant>"
        assert bytes(one.prompt).decode() == told
        assert len(one.logprobs) == len(one.answer)
    assert bytes(kept[3].answer).decode() == f"I tidy up.\n\n```bash\n{world.MISSTEP}\n```"
    assert kept[3].logprobs[0] == -ord("I") / 256


def test_harbor_reads_the_records_and_the_sandbox_repeats_them(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    harbor = pytest.importorskip("harbor.models.trajectories.trajectory", reason="misstep[harbor] is not installed")
    with world.World(scripted, wrong=0.3, seed=3) as here:
        live(here, folder, root, tmp_path, extra_body={"return_token_ids": True, "logprobs": True})
    assert sum(one["bad"] for one in load_rollouts(tmp_path)[1]) >= 2
    for task in tasks.find(folder):
        for path in tmp_path.glob(f"trajectories/{task.name}-*.json"):
            model = harbor.Trajectory.model_validate_json(path.read_text())
            assert [one.metrics.completion_token_ids[:1] for one in model.steps if one.metrics]
            (found,) = read(path)
            prefix = replay.verify(from_trajectory(found), task.start(root))
            assert prefix.trusted(), prefix.first_difference


def test_no_accepted_correction_discards_the_rollout(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    def says(step: int, conversation: str) -> str | None:
        return f"```bash\n{world.MISSTEP}\n```" if step == 2 else None

    with world.World(scripted, hopeless=1.0, policy_says=says, again=False) as here:
        done = live(here, folder, root, tmp_path, most=1)
    assert done.made == 3  # three discards, and no further rollout of that task
    _, rollouts = load_rollouts(tmp_path)
    assert [(one["end"], one["number"], one["passed"], one["trajectory"]) for one in rollouts] == [
        ("discarded", n, None, f"discarded/sum-02-{n}.json") for n in range(3)
    ]
    assert "3 corrections, none accepted" in rollouts[0]["reason"]
    assert load(tmp_path)[1] == []  # no part of the profile
    (found,) = read(tmp_path / "discarded/sum-02-0.json")
    assert [one["verdict"] for one in found.steps[-1].extra["corrections"]] == ["bad"] * 3
    commands = [one["command"] for one in found.steps[-1].extra["corrections"]]
    assert len(set(commands)) == 3
    teachers = here.servers["teacher"].bodies
    assert "(none)" in teachers[0]["messages"][-1]["content"]
    assert f"command: {commands[1]}\nrefused: It removes" in teachers[2]["messages"][-1]["content"]


def test_a_discarded_rollout_is_made_up_for(folder: Path, root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    with world.World(scripted, wrong=0.5, hopeless=0.8, seed=1) as here:
        live(here, folder, root, tmp_path, Options(rollouts=2, discards=4))
    _, rollouts = load_rollouts(tmp_path)
    ends = {name: [one["end"] for one in rollouts if one["task"] == name] for name in {one["task"] for one in rollouts}}
    assert any("discarded" in one for one in ends.values())
    for one in ends.values():
        kept, discarded = len(one) - one.count("discarded"), one.count("discarded")
        assert kept == 2 or discarded >= 4
        assert kept <= 2


def test_more_rollouts_are_added_to_a_folder(folder: Path, root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    with world.World(scripted) as here:
        live(here, folder, root, tmp_path, most=2)
        done = live(here, folder, root, tmp_path, Options(rollouts=3), most=2)
        assert done.made == 4
        with pytest.raises(LinesError, match=r"was made with rules .* name another folder"):
            live(here, folder, root, tmp_path, Options(Rules(steps=5)), most=2)


def test_a_changed_task_is_not_gone_on_with(folder: Path, root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    own = tmp_path / "tasks"
    path = world.write_task(own, 3)
    with world.World(scripted) as here:
        live(here, own, root, tmp_path / "out")
        (path / "instruction.md").write_text("Write the product.\n")
        with pytest.raises(LinesError, match="the files of task sum-03 are others"):
            live(here, own, root, tmp_path / "out")


# -- what a policy may say -------------------------------------------------------------------------------------------------


def test_the_limit_of_steps_and_answers_without_a_command(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    odd = [
        "",
        "no command here",
        "```bash\nls\n```\n```bash\npwd\n```",
        "```bash\n \n```",
        "```bash\nprintf 'a\0b'\n```",
    ]

    def says(step: int, conversation: str) -> str:
        turn = sum(role == "assistant" for role, _ in json.loads(conversation))
        return odd[turn] if turn < len(odd) else "```bash\ndate +%Y > /dev/null; exit 3\n```"

    with world.World(scripted, policy_says=says) as here:
        live(here, folder, root, tmp_path, Options(Rules(steps=7)), most=1)
    _, (one,) = load_rollouts(tmp_path)
    assert (one["end"], one["steps"], one["malformed"], one["judged"], one["passed"]) == ("steps", 7, 5, 2, False)
    (found,) = read(tmp_path / "trajectories/sum-02-0.json")
    assert [step.message for step in found.steps if step.source == "user"][1:] == [dialog.ONE] * 5
    shell = [step for step in found.steps if step.calls]
    assert [step.results[step.calls[0].id].exit_code for step in shell] == [3, 3]  # a new shell after `exit`


def test_work_and_the_agreed_word_in_one_command(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    def says(step: int, conversation: str) -> str | None:
        if step == 1 and "grep -q 999" not in conversation:
            return f"```bash\ngrep -q 999 numbers.txt && {world.SUBMIT}\n```"
        return f"Step 1 of the plan.\n\n```bash\n{world.PLAN[1]} && {world.SUBMIT}\n```" if step == 1 else None

    with world.World(scripted, policy_says=says) as here:
        live(here, folder, root, tmp_path, most=1)
    _, (one,) = load_rollouts(tmp_path)
    assert (one["end"], one["steps"], one["passed"]) == ("submitted", 3, True)  # the first one failed: it went on


def test_time_limits_and_long_outputs(folder: Path, root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    def says(step: int, conversation: str) -> str | None:
        turn = sum(role == "assistant" for role, _ in json.loads(conversation))
        first = ("```bash\nsleep 30\n```", "```bash\nseq 1 20000\n```")
        return first[turn] if turn < 2 else None

    with world.World(scripted, policy_says=says) as here:
        live(here, folder, root, tmp_path, Options(Rules(command_seconds=0.3)), most=1)
        told = [m["content"] for m in here.servers["policy"].bodies[-1]["messages"] if m["role"] == "user"][1:]
    assert told[0].startswith("The command was ended at its time limit.\n<returncode>124</returncode>")
    whole = "".join(f"{n}\n" for n in range(1, 20001))
    note = f"\n[... {len(whole) - 10_000} characters left out ...]\n"
    assert told[1] == f"<returncode>0</returncode>\n<output>\n{whole[:5000]}{note}{whole[-5000:]}</output>"
    assert load_rollouts(tmp_path)[1][0]["passed"] is True


def test_an_observation_is_cut_once() -> None:
    output = dialog.result_of(dialog.Observation("x" * 30_000, 0, 0.1))
    assert "[... 20000 characters left out ...]" in dialog.observed(output)
    assert dialog.observed(output).count("left out") == 1
    assert "[... 20000 characters left out ...]" in dialog.observed(Result("x" * 30_000, 0))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "empty"), ("  \n", "empty"), ("a\0b", "NUL"), ("x" * 8001, "8000 at most"), ("rm   numbers.txt", "refused"),
        ("ls\n```\nrm", "no block"), ("ls", None), ("cat <<'E' > f\na\nE", None),
    ],
)  # fmt: skip
def test_the_form_of_a_correction(command: str, says: str | None) -> None:
    found = problem_of(Corrected(say="I look.", command=command), {"rm numbers.txt"})
    assert (found is None) if says is None else (says in (found or ""))


# -- faults ----------------------------------------------------------------------------------------------------------------


def test_under_faults_nothing_is_lost_and_nothing_paid_twice(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    fault = scripted.Fault
    faults = [
        fault(status=429, after="0"),
        fault(status=500),
        fault("garbage"),
        fault("cut"),
        fault("page"),
        fault("silent"),
    ]

    def planted(role: str, number: int) -> Any:
        """Two of three questions fail at first, each role in its own order; the third try has an answer."""
        if number >= 2:
            return None
        counted[role] = counted.get(role, 0) + 1
        return faults[counted[role] % len(faults)] if counted[role] % 3 else None

    counted: dict[str, int] = {}
    with world.World(scripted, wrong=0.3, seed=3, again=False) as clean:
        live(clean, folder, root, tmp_path / "clean")
    with world.World(scripted, wrong=0.3, seed=3, again=False, fault=planted) as here:
        done = live(here, folder, root, tmp_path / "faulty", timeout=0.4)
        assert sum(counted.values()) > 50
        assert here.twice == 0
        # each question that a clean run asks was answered once
        assert {role: len(server.served) for role, server in here.servers.items()} == {
            role: len(server.served) for role, server in clean.servers.items()
        }
    assert (done.broken, done.stopped) == ({}, "")
    assert documents(tmp_path / "faulty") == documents(tmp_path / "clean")


def test_answers_out_of_form_are_failures_and_never_verdicts(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    def says(prompt: str) -> str | None:
        return "I cannot say." if "cannot be used" in prompt or "awk" in prompt.partition("<proposed>")[2] else None

    with world.World(scripted, localizer_says=says) as here:
        live(here, folder, root, tmp_path, most=1)
    _, labels = load(tmp_path)
    assert [one.verdict for one in labels] == ["good", None, "good", "good"]
    assert labels[1].failure.startswith("invalid: ")
    _, (one,) = load_rollouts(tmp_path)
    assert (one["unknown"], one["bad"], one["passed"]) == (1, 0, True)


def test_a_correction_without_a_verdict_is_not_accepted(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    def wrong(step: int, conversation: str) -> str | None:
        return f"```bash\n{world.MISSTEP}\n```" if step == 1 else None

    def says(prompt: str) -> str | None:
        return "I cannot say." if "cannot be used" in prompt or "awk" in prompt.partition("<proposed>")[2] else None

    with world.World(scripted, policy_says=wrong, localizer_says=says) as here:
        live(here, folder, root, tmp_path, Options(discards=1), most=1)
    _, (one,) = load_rollouts(tmp_path)
    assert one["end"] == "discarded"
    (found,) = read(tmp_path / "discarded/sum-02-0.json")
    first = found.steps[-1].extra["corrections"][0]
    assert first["verdict"] is None and first["failure"].startswith("invalid")


def test_a_server_that_is_gone_stops_the_run_and_it_goes_on(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    gone = {"teacher": False, "localizer": False}

    def planted(role: str, number: int) -> Any:
        return scripted.Fault(status=503) if gone.get(role) else None

    with world.World(scripted, wrong=0.3, seed=3, again=False, fault=planted) as here:
        gone["localizer"] = True
        done = live(here, folder, root, tmp_path / "a", retries=1)
        assert done.broken == {"localizer: unreachable": 5}
        assert done.made == 0 and "5 rollouts in a row" in done.stopped
        assert load(tmp_path / "a")[1] == []
        gone["localizer"] = False
        done = live(here, folder, root, tmp_path / "a", retries=1)
        assert (done.broken, done.made) == ({}, 5)
        assert here.twice == 0
    with world.World(scripted, wrong=0.3, seed=3, again=False) as clean:
        live(clean, folder, root, tmp_path / "b", retries=1)
    assert documents(tmp_path / "a") == documents(tmp_path / "b")


def test_a_full_context_ends_a_rollout_and_a_refusal_breaks_it(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    full = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."

    def planted(text: str, after: int) -> Any:
        def fault(role: str, number: int) -> Any:
            asked = len(here.servers["policy"].bodies[-1]["messages"]) if role == "policy" else 0
            return scripted.Fault(status=400, says=text) if asked > after else None

        return fault

    here = world.World(scripted)
    here.fault = planted(full, 5)
    with here:
        live(here, folder, root, tmp_path / "a", most=1)
    _, (one,) = load_rollouts(tmp_path / "a")
    assert (one["end"], one["steps"], one["passed"]) == (
        "context",
        2,
        True,
    )  # the sum was written by then: the tests say so
    for text, after in (
        (full, 0),
        ("Incorrect API key provided", 5),
    ):  # at the first answer the task itself is too long
        here.fault = planted(text, after)
        with here:
            done = live(here, folder, root, tmp_path / text[:4] / str(after), most=1)
        assert done.broken == {"policy: rejected": 1}


def test_the_budget_holds_and_what_was_paid_is_kept(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path
) -> None:
    with world.World(scripted, wrong=0.3, seed=3, again=False) as here:
        done = live(here, folder, root, tmp_path, tokens=20_000, max_tokens=200)
        assert "budget" in done.stopped and done.made < 5
        spent = json.loads(json.dumps(here.paid))
        done = live(here, folder, root, tmp_path, max_tokens=200)
        assert done.stopped == "" and here.twice == 0
        assert here.paid > spent
        offline = live(here, folder, root, tmp_path / "fresh", offline=True)
        assert offline.broken == {"policy: offline": 5}


def test_a_broken_environment_is_no_failure_of_the_policy(root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    own = tmp_path / "tasks"
    world.write_task(own, 2)
    broken = world.write_task(own, 3)
    (broken / "environment/Dockerfile").write_text("FROM misstep-base:bookworm\nRUN false\n")
    silent = world.write_task(own, 4)
    (silent / "tests/test.sh").write_text("#!/bin/bash\necho the checker is broken\n")
    with world.World(scripted) as here:
        done = live(here, own, root, tmp_path / "out")
    assert done.made == 2
    assert len(done.broken) == 1 and next(iter(done.broken)).startswith("sandbox: ")
    _, rollouts = load_rollouts(tmp_path / "out")
    assert [(one["task"], one["end"], one["passed"]) for one in rollouts] == [
        ("sum-02", "submitted", True), ("sum-03", "broken", None), ("sum-04", "submitted", None),
    ]  # fmt: skip
    assert "the checker is broken" in rollouts[2]["unverified"]


# -- the command -----------------------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-c", "from misstep.cli import main; main()", "profile"]


def command(here: Any, folder: Path, out: Path, *more: str) -> list[str]:
    models = out.parent / "models.toml"
    models.write_text(here.toml(concurrency=4))
    return [*COMMAND, "--tasks", str(folder), "--models", str(models), "--out", str(out), "--root", "host", *more]


def test_the_command(folder: Path, root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    with world.World(scripted, wrong=0.3, seed=3, again=False) as here:
        run = subprocess.run(command(here, folder, tmp_path / "out"), capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        assert "5 rollouts on 5 tasks: 5 submitted" in run.stdout
        assert "passed                   5 of 5" in run.stdout
        run = subprocess.run(
            command(here, folder, tmp_path / "out", "--json"), capture_output=True, text=True, timeout=60
        )
        found = json.loads(run.stdout)
        assert (found["cost"]["calls"], found["kept"], found["corrected"]) == (0, 5, found["bad"]["some"])
        other = command(here, folder, tmp_path / "out", "--policy", "openai:another")
        run = subprocess.run(other, capture_output=True, text=True, timeout=60)
        assert run.returncode == 2 and run.stderr.count("\n") == 1 and "name another folder" in run.stderr


@pytest.mark.parametrize(
    "at", [pytest.param(0.2, marks=pytest.mark.slow), 0.5, pytest.param(0.8, marks=pytest.mark.slow)]
)
def test_killed_and_run_again_it_is_as_if_never_killed(
    folder: Path, root: Root, scripted: ModuleType, tmp_path: Path, at: float
) -> None:
    options = {"wrong": 0.4, "hopeless": 0.5, "seed": 7, "again": False, "delay": 0.01}
    with world.World(scripted, **options) as clean:
        subprocess.run(command(clean, folder, tmp_path / "clean"), check=True, capture_output=True, timeout=60)
        whole = clean.paid
    with world.World(scripted, **options) as here:
        line = command(here, folder, tmp_path / "killed")
        run = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while here.paid < at * whole and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        run.send_signal(signal.SIGKILL)
        run.wait()
        subprocess.run(line, check=True, capture_output=True, timeout=60)
        assert here.twice <= 4  # those in flight
        assert here.paid <= whole + 4
    assert documents(tmp_path / "killed") == documents(tmp_path / "clean")


def test_bad_input_is_one_line(folder: Path, root: Root, scripted: ModuleType, tmp_path: Path) -> None:
    with world.World(scripted) as here:
        (tmp_path / "empty").mkdir()
        for line, says in (
            (command(here, tmp_path / "empty", tmp_path / "out"), "no task folder"),
            (command(here, folder, tmp_path / "out", "--policy", "nothing"), "--policy is provider:name"),
            (command(here, folder, tmp_path / "out", "--steps", "0"), "--steps"),
        ):
            run = subprocess.run(line, capture_output=True, text=True, timeout=60)
            assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1), run.stderr
            assert says in run.stderr
        settings = Settings.from_plain({"roles": {"policy": {"model": "openai:m"}}})
        with pytest.raises(SettingsError, match=r"add a \[roles.localizer\] table"):
            Options().header(settings, root)


# -- a real language model -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_with_a_real_model_in_every_role(folder: Path, root: Root, local_model: Any, tmp_path: Path) -> None:
    """It is small and mostly wrong: nothing of what it says is asserted, only that all of it is valid, or counted."""
    table = local_model.role(structured="schema", max_tokens=96, extra_body={"logprobs": True})
    plain = {name: value for name, value in table.items() if name != "extra_body"}
    settings = Settings.from_plain({"roles": {"policy": table, "localizer": plain, "teacher": plain}})
    options = Options(Rules(steps=3, command_seconds=10), tries=2, discards=2, at_once=2)

    async def work() -> Done:
        with Rollouts(tmp_path, options.header(settings, root)) as kept:
            async with Client.open(settings, tmp_path) as client:
                return await profile(tasks.find(folder)[:2], root, options, client, kept)

    done = asyncio.run(work())
    assert (done.broken, done.stopped) == ({}, "")
    _, rollouts = load_rollouts(tmp_path)
    _, labels = load(tmp_path)
    assert {one["task"] for one in rollouts} == {"sum-02", "sum-03"}
    for one in rollouts:
        assert one["end"] in ("submitted", "steps", "discarded")
        assert one["judged"] + one["malformed"] == one["steps"]
        path = tmp_path / one["trajectory"]
        (found,) = read(path)
        kept = tokens.read(path)
        assert len(kept) == one["steps"]
        assert all(len(ids.answer) == len(ids.logprobs) > 0 for ids in kept.values())
        if one["end"] != "discarded":
            assert one["passed"] in (True, False)
            assert sum(label.trajectory == found.id for label in labels) == one["judged"]
    for label in labels:
        assert (label.verdict in ("good", "bad")) == (not label.failure)
        if label.verdict == "bad":
            assert label.corrected is not None and label.corrected["tries"][-1]["verdict"] == "good"
    again = asyncio.run(work())
    assert again.made == 0
