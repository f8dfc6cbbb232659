"""The engine: tensors, unknown rewards, runs that go on after a kill with the same starts and the same weights."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from misstep.train.advantages import Filled  # noqa: E402
from misstep.train.engines import Budget, EngineError, Job, RunError  # noqa: E402
from misstep.train.engines import get as engine  # noqa: E402
from misstep.train.engines.cpu import CpuRun, batch  # noqa: E402
from misstep.train.episode import Episode  # noqa: E402
from misstep.train.recipes import Data, get  # noqa: E402
from misstep.train.starts import Start  # noqa: E402
from misstep.train.states import States  # noqa: E402
from misstep.train.tiny import fit, tasks, world  # noqa: E402
from misstep.train.tiny.bpe import Bpe  # noqa: E402
from misstep.train.tiny.codec import TinyCodec  # noqa: E402
from misstep.train.tiny.model import Shape, TinyModel  # noqa: E402
from misstep.train.tiny.policy import TinyPolicy  # noqa: E402

CODEC = TinyCodec(Bpe.train(["cat river.csv ls done Done. echo"] * 2, 280))
SMALL = Shape(len(CODEC), width=32, layers=2, heads=2, hidden=64, context=480)
ROLLOUT = replace(world.ROLLOUT, turns=3, turn_tokens=12)


def _recipe(name: str = "tmax", **more):
    small = {"groups": 2, "size": 4, "draws": 4, "rate": 1e-3, "minibatches": 2, "rollout": ROLLOUT}
    return replace(get(name), **{**small, **more})


def _starts(folder: Path, count: int = 4) -> list[Start]:
    folder.mkdir(exist_ok=True)
    return [Start.of_task(tasks.generate(n, "tidy").folder.write(folder), (), str(n)) for n in range(count)]


class Alternate:
    """A reward of the ids alone: their parity, unknown for one in three."""

    name = "parity"

    async def __call__(self, attempt):
        from misstep.train.rewards import Score

        text = "".join(call.command or "" for step in attempt.trajectory.steps for call in step.calls)
        weight = len(text) + sum(map(len, (step.message for step in attempt.trajectory.steps)))
        return Score(None, "judge: silent") if weight % 5 == 0 else Score(float(weight % 2))


@pytest.fixture
def run(root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes runs whose reward varies though the model was never fitted."""
    from misstep.train.recipes.tmax import Tmax

    monkeypatch.setattr(Tmax, "reward", lambda self, parts: Alternate())
    states = States(root)
    made: list[CpuRun] = []

    def make(out: str = "run", model: TinyModel | None = None, **more) -> CpuRun:
        recipe = more.pop("recipe", _recipe())
        model = model or TinyModel(SMALL, 1).eval()
        data = Data(tasks=_starts(tmp_path / "tasks"))
        made.append(CpuRun(recipe, model, CODEC, data, states, tmp_path / out, **{"budget": Budget(steps=3), **more}))
        return made[-1]

    yield make
    for one in made:
        one.close()
    states.close()


def _episode(prompt: list[int], ids: list[int], mask: list[int], reward: float | None) -> Episode:
    return Episode(tuple(prompt), tuple(ids), tuple(mask), tuple(-0.5 * on for on in mask), reward)


def test_a_batch_has_each_id_where_it_was():
    ids, mask, old = batch([_episode([5, 6], [7, 8, 9], [1, 0, 1], 1.0), _episode([5], [4], [1], 0.0)])
    assert ids.tolist() == [[5, 6, 7, 8, 9], [5, 4, -1, -1, -1]]
    assert mask.tolist() == [[0, 1, 0, 1], [1, 0, 0, 0]]  # at the place that predicts it
    assert old.tolist() == [[0, -0.5, 0, -0.5], [-0.5, 0, 0, 0]]


def _gradient(run: CpuRun, group: list[Episode]) -> list[torch.Tensor]:
    seen = []
    run.optimizer.step = lambda: seen.append([w.grad.clone() for w in run.model.parameters()])
    run._update(Filled([group]))
    return seen[-1]


def test_masked_tokens_and_unknown_rewards_leave_the_gradient(run):
    """The gradient of the weights is that of the own tokens of known episodes alone, whatever the others hold."""
    made = run(recipe=_recipe(minibatches=1, grad_norm=1e9))
    plain = [
        _episode([1, 2, 3], [4, 5, 6], [1, 0, 1], 1.0), _episode([1, 2, 3], [4, 5, 9], [1, 0, 1], 0.0),
        _episode([1, 2, 3], [11, 5, 9], [1, 0, 1], None),
    ]  # fmt: skip
    ids, mask, _ = batch(plain)
    new = made.model.logprobs(ids)
    group = [
        replace(one, logprobs=(new[n, 2].item(), -99.0, new[n, 4].item())) for n, one in enumerate(plain)
    ]  # as sampled: the ratio is 1, and at the tool's token anything
    whole = _gradient(made, group)
    made.optimizer.zero_grad()
    known = torch.tensor([0.5, -0.5, 0.0])  # the unknown one is in no mean
    (-(known[:, None] * new * mask).sum() / mask.sum()).backward()
    for a, w in zip(whole, made.model.parameters(), strict=True):
        assert torch.allclose(a, w.grad, atol=1e-7)


def test_a_step_is_written_down_and_files_agree(run, tmp_path: Path):
    rows = list(run().steps())
    lines = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    assert lines == json.loads(json.dumps(rows)) and [one["step"] for one in lines] == [0, 1, 2]
    episodes = [json.loads(line) for line in (tmp_path / "run" / "rollouts.jsonl").read_text().splitlines()]
    assert len(episodes) == sum(one["episodes"] for one in rows)
    assert rows[-1]["tokens_all"] == sum(sum(one["mask"]) for one in episodes)
    assert sum(one["unknown"] for one in rows) == sum(one["reward"] is None for one in episodes) > 0
    assert all(one["drawn"] == one["groups"] + one["zero_signal"] + one["surplus"] for one in rows)
    made = json.loads((tmp_path / "run" / "config.json").read_text())
    assert made["recipe"]["delta"] == 0.1 and made["starts"]["fingerprint"]


def test_a_run_that_stopped_goes_on_as_if_it_had_not(run, tmp_path: Path):
    whole = TinyModel(SMALL, 1).eval()
    expected = list(run("whole", whole).steps())
    cut = run("cut")
    for _ in zip(range(2), cut.steps(), strict=False):
        pass
    steps = tmp_path / "cut" / "steps.jsonl"
    steps.write_bytes(steps.read_bytes() + b'{"step": 2, "rew')  # a line in flight
    again = TinyModel(SMALL, 7).eval()  # other weights: the checkpoint's count
    rest = list(run("cut", again).steps())
    assert [one["order"] for one in rest] == [expected[2]["order"]]
    assert [one["position"] for one in rest] == [expected[2]["position"]]
    lines = [json.loads(line) for line in steps.read_text().splitlines()]
    plain = lambda rows: [{k: v for k, v in one.items() if k != "seconds"} for one in rows]  # noqa: E731
    assert plain(lines) == plain(expected)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))


def test_another_recipe_or_seed_in_the_folder_is_refused(run):
    list(run(budget=Budget(steps=1)).steps())
    with pytest.raises(RunError, match=r"config\.json: is of another run \(starts, seed differ\)"):
        run(seed=3)
    with pytest.raises(RunError, match="recipe"):
        run(recipe=_recipe(delta=0.2))


def test_groups_without_signal_are_refilled_up_to_the_bound(run, monkeypatch: pytest.MonkeyPatch):
    class Same(Alternate):
        async def __call__(self, attempt):
            from misstep.train.rewards import Score

            return Score(1.0)

    made = run(budget=Budget(steps=1))
    made.rollouts.reward = Same()
    before = [w.clone() for w in made.model.parameters()]
    row = next(iter(made.steps()))
    assert (row["groups"], row["drawn"], row["zero_signal"], row["loss"]) == (0, 4, 4, None)
    assert all(torch.equal(a, b) for a, b in zip(before, made.model.parameters(), strict=True))


def test_a_budget_of_tokens_ends_a_run(run):
    rows = list(run(budget=Budget(tokens=100)).steps())
    assert rows[-1]["tokens_all"] >= 100 > (rows[-2]["tokens_all"] if len(rows) > 1 else 0)
    assert Budget().spent(10**9, 10**9) is False


def test_engines_are_found_by_name():
    with pytest.raises(EngineError, match=r"there are .*cpu"):
        engine("abacus")
    assert callable(engine("cpu"))


def test_a_policy_that_is_none_is_one_line(root, tmp_path: Path):
    job = Job(_recipe(), tmp_path, Data(), root, tmp_path / "out")
    with pytest.raises(EngineError, match=r"expected a policy \(config.json"):
        next(engine("cpu")(job))


_CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
import test_cpu_child as t
t.child(Path(sys.argv[2]))
"""


def child(folder: Path) -> None:
    """A run of six steps, for a process that is killed."""
    from misstep.sandbox import roots
    from misstep.train.recipes.tmax import Tmax

    Tmax.reward = lambda self, parts: Alternate()
    with States(roots.host()) as states:
        data = Data(tasks=_starts(folder / "tasks"))
        model = TinyModel(SMALL, 1).eval()
        with CpuRun(_recipe(), model, CODEC, data, states, folder / "run", budget=Budget(steps=6)) as made:
            for row in made.steps():
                print(row["step"], row["order"], flush=True)
        fit.save(folder / "policy", model, CODEC)


@pytest.mark.slow
def test_kill_dash_nine_at_any_moment_changes_nothing(root, tmp_path: Path):
    """The order of the data, every step's figures and the weights are bit for bit those of a run that was not killed."""
    (tmp_path / "test_cpu_child.py").write_text(Path(__file__).read_text())
    words = [sys.executable, "-c", _CHILD, str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    calm, harsh = tmp_path / "calm", tmp_path / "harsh"
    calm.mkdir()
    harsh.mkdir()
    subprocess.run([*words, str(calm)], check=True, env=environment, capture_output=True)
    for seconds in (0.3, 0.8):
        process = subprocess.Popen([*words, str(harsh)], env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()  # a step is done
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([*words, str(harsh)], check=True, env=environment, capture_output=True)

    def told(folder: Path) -> list[dict]:
        lines = (folder / "run" / "steps.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]

    assert [one["order"] for one in told(calm)] == [one["order"] for one in told(harsh)]
    assert told(calm) == told(harsh)
    one, _ = fit.load(calm / "policy")
    other, _ = fit.load(harsh / "policy")
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_unknown_rewards_do_not_move_the_policy_towards_anything():
    made = Filled([[_episode([1], [2], [1], None), _episode([1], [3], [1], 1.0), _episode([1], [4], [1], 0.0)]])
    assert np.allclose(made.advantages, [0.0, 0.5, -0.5])


def test_samples_of_a_start_differ():
    policy = TinyPolicy(TinyModel(SMALL, 1).eval(), seed=0)
    made = policy.generate_batch([[1, 2, 3]] * 6, max_tokens=[8] * 6)
    assert len({one.ids for one in made}) > 3
    assert asyncio.iscoroutinefunction(Alternate.__call__)


def test_the_command_trains_shows_and_refuses(root, tmp_path: Path):
    from click.testing import CliRunner

    from misstep.cli.train import command

    policy = fit.save(tmp_path / "policy", TinyModel(SMALL, 1), CODEC)
    _starts(tmp_path / "tasks", 2)
    small = ["groups=1", "size=3", "draws=2", "rollout.turns=2", "rollout.turn_tokens=12", "rollout.context=480"]
    words = ["tmax", "--policy", str(policy), "--tasks", str(tmp_path / "tasks"), "--out", str(tmp_path / "run")]
    words += ["--root", "host", "--steps", "2", "--json", *(w for one in small for w in ("--set", one))]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["step"] for line in done.output.splitlines()] == [0, 1]
    fit.load(tmp_path / "run" / "policy")
    again = CliRunner().invoke(command, words)  # it is done: nothing is done again
    assert (again.exit_code, again.output) == (0, "")

    def refused(*more: str) -> str:
        got = CliRunner().invoke(command, list(more))
        assert got.exit_code == 2, got.output
        return got.output

    assert "is of another run (recipe differ)" in refused(*words, "--set", "delta=0.2")
    assert "no recipe is named 'x'" in refused("x", "--show")
    assert "no engine is named 'y'" in refused(*words, "--engine", "y")
    assert "a setting of tmax: share, groups" in refused("tmax", "--set", "size")
    assert "expected a value like 0.1" in refused("tmax", "--set", "delta=much")
    assert "a share of 0.5 prefixes, and there is no prefix" in refused(
        *words[:-12], "--share", "0.5", "--out", str(tmp_path / "o")
    )
    assert "rubrics of the tasks" in refused("rar", *words[1:7])
    shown = CliRunner().invoke(command, ["mirl", "--show"]).output
    assert "delta = 0.1\n    TMax, the loss" in shown
