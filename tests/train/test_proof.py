"""The proof: its table by hand, its stand-ins, its cells; the short form whole, as a slow test."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from misstep.train.episode import Action, Attempt, Shown  # noqa: E402
from misstep.train.prefixes import load, step_of, trajectory_of  # noqa: E402
from misstep.train.starts import Start  # noqa: E402
from misstep.train.states import States  # noqa: E402
from misstep.train.tiny import fit, proof, standins, table, tasks, world  # noqa: E402
from misstep.train.tiny.dialogs import Dialog  # noqa: E402
from misstep.train.tiny.model import Shape, TinyModel  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "proof-train"


def _lines(*values: tuple[str, int | None, int]) -> list[list[object]]:
    return [[name, misstep, success, 3, 20, 0, "submitted"] for name, misstep, success in values]


def test_rates_are_over_environments_and_leave_the_unknown_out():
    made = table.rate(_lines(("a", 1, 1), ("a", 1, 1), ("b", 0, 0), ("b", None, 1)), table.MISSTEP)
    assert (made["rate"], made["n"], made["environments"], made["unknown"]) == (pytest.approx(2 / 3), 3, 2, 1)
    assert 0 < made["low"] < 2 / 3 < made["high"] < 1
    assert table.rate([], table.MISSTEP)["rate"] is None


def _cell(row: str, seed: int, missteps: tuple[int, ...], successes: tuple[int, ...], **more) -> dict:
    lines = _lines(*((f"e{n}", m, s) for n, (m, s) in enumerate(zip(missteps, successes, strict=True))))
    return {
        "regime": "rare", "row": row, "seed": seed, "curve": [], "tokens": 100, "steps": 2, "drawn": 8, "zero_signal": 2,
        "evaluation": {"prefixes": lines, "tasks": lines}, **more,
    }  # fmt: skip


def test_a_row_and_the_expectations_by_hand():
    good, bad = (0,) * 10, (1,) * 8 + (0,) * 2
    cells = [
        _cell("before", 0, bad, (1,) * 10), _cell("behaviour-reward", 0, (1,) * 5 + (0,) * 5, (1,) * 9 + (0,)),
        _cell("mirl", 0, good, (1,) * 10), _cell("mirl", 1, (1,) + (0,) * 9, (1,) * 9 + (0,)),
        _cell("mirl-prefixes", 0, good, (0,) * 6 + (1,) * 4),
    ]  # fmt: skip
    rows = table.table(cells)["rare"]
    assert [(one["row"], one["seeds"]) for one in rows] == [
        ("before", 1), ("behaviour-reward", 1), ("mirl", 2), ("mirl-prefixes", 1)
    ]  # fmt: skip
    mirl = rows[2]
    assert (
        mirl["misstep_tasks"]["rate"] == 0.05 and mirl["success_tasks"]["rate"] == 0.95 and mirl["zero_signal"] == 0.25
    )
    assert [one["held"] for one in table.expectations(rows, "rare")] == [
        True,
        True,
        True,
        False,
        True,
    ]  # no curve: not reached
    shown = table.markdown({"rare": rows})
    assert "| mirl | 2 | .050" in shown and shown.count("**held**") == 4
    cells[1]["curve"], cells[2]["curve"], cells[3]["curve"] = (
        [[0, 8, 9], [90, 7, 9]],
        [[0, 8, 9], [40, 0, 9]],
        [[0, 8, 9], [60, 2, 9]],
    )
    sooner = table.expectations(table.table(cells)["rare"], "rare")[3]
    assert sooner["held"] is True and sooner["figures"] == (50, 100)


def test_what_is_missing_is_not_told():
    rows = table.table([_cell("before", 0, (1,), (1,))])["rare"]
    assert {one["held"] for one in table.expectations(rows, "rare")} == {None}


def test_tokens_until_the_rate_has_fallen():
    at_the_end = {"prefixes": _lines(("a", 1, 1), ("b", 0, 1), ("c", None, 1))}
    seen = {"tokens": 400, "evaluation": at_the_end}
    assert table.half({"curve": [[0, 20, 25], [100, 15, 25], [200, 11, 25], [300, 0, 25]], **seen}) == 200
    assert table.half({"curve": [[0, 20, 20], [100, 15, 20]], **seen}) == 400
    assert table.half({"curve": [[0, 16, 20], [100, 15, 20]], **seen}) is None
    assert table.half({"curve": [], **seen}) is None


def _attempt(task: tasks.TinyTask, actions: tuple[Action, ...]) -> Attempt:
    made = trajectory_of(task.instruction)
    for n, action in enumerate(actions):
        made.steps.append(step_of(action, Shown("", 0) if action.command else None, f"c{n}"))
    return Attempt(Start(f"task:{task.folder.name}", task.folder.name, "/x"), made, 1)


@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_the_rubric_stand_in_prefers_the_right_script(family: str):
    task = tasks.generate(3, family)
    judge = standins.ByRules()
    right, wrong = _attempt(task, task.right), _attempt(task, task.wrong)
    items = standins.rubric(right)
    assert len(items) == 7
    assert all(asyncio.run(judge.met(right, items)))
    failed = [item for item, met in zip(items, asyncio.run(judge.met(wrong, items)), strict=True) if not met]
    assert any(item.importance == "pitfall" for item in failed) or family == "change"
    assert failed


def test_the_equivalence_stand_in_is_what_it_says():
    same = lambda a, b: asyncio.run(standins.SameStep().equivalent("", "", a, b))  # noqa: E731
    assert same("ls -l river", "ls river") and same("done Done.", "done done")
    assert not same("rm river/a.old", "rm -r river") and not same("cat a.dat", "grep -cI . a.dat")
    assert same("cat 'a", "cat 'a") and not same("cat 'a", "cat a")


def test_the_policy_is_given_other_sizes_and_nothing_else():
    for name, made in proof.ROWS.items():
        before, after = made().plain(), proof.fitted(made(), proof.FULL).plain()
        differ = {one for one in before if before[one] != after[one]}
        assert differ == {"groups", "size", "draws", "rate", "minibatches", "rollout"}, name


def _scripted(regime: world.Regime) -> list[Dialog]:
    return [
        Dialog(task, tuple((one, Shown("", 0) if one.command else None) for one in task.wrong), True)
        for task in map(tasks.generate, range(20))
    ]


@pytest.mark.slow
def test_a_world_and_a_cell_are_made_once(root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a policy that knows next to nothing: everything runs, held-out environments are in no training data, files are kept."""
    shape = lambda codec: Shape(len(codec), width=32, layers=2, heads=2, hidden=64, context=512)  # noqa: E731
    real = fit.fit
    monkeypatch.setattr(
        fit, "fit", lambda spoken, codec, **more: real(spoken, codec, shape=shape(codec), rate=5e-3, **more)
    )
    made = world.build(tmp_path / "w", "common", root, world.Size(24, 60, 10, 5, 5, 6))
    again = world.build(tmp_path / "w", "common", root)
    assert made == again
    trained = {one.environment for one in made.train}
    assert trained and not trained & {one.environment for one in [*made.held, *made.eligible]}
    assert {one.environment for one in made.prefixes} <= trained
    assert not {one.environment for one in made.held_prefixes} & trained
    plan = replace(proof.SHORT, tokens=300, probes=1)
    result = proof.cell(made, "tmax", 0, plan, root, tmp_path / "out")
    assert result["tokens"] >= 300 and len(result["evaluation"]["tasks"]) == len(made.held)
    assert proof.cell(made, "tmax", 0, plan, root, tmp_path / "out") == json.loads(json.dumps(result))


def test_a_prefix_of_the_profile_is_rebuilt_with_its_ids(root, tmp_path: Path):
    """Ids before the wrong turn are the policy's own; the state is what the commands made, by one replay."""
    from misstep.train.episode import Generated
    from misstep.train.rollout import Rollouts

    task = tasks.generate(5, "repair")
    start = world._starts([task], tmp_path)[0]
    codec = fit.tokenizer(_scripted("common"))

    class Scripted:
        def __init__(self) -> None:
            self.turn = 0

        async def generate(self, prompt_ids, *, max_tokens, stop=()):
            ids = tuple(codec.turn(task.wrong[self.turn]))
            self.turn += 1
            return Generated(ids, (0.0,) * len(ids))

    with States(root) as states:
        with Rollouts(Scripted(), codec, states, world.measured(), world.ROLLOUT) as rollouts:
            episode = asyncio.run(rollouts.run(start))
        assert (
            episode.extras["parts"] == {"outcome": 1.0, "behaviour": 0.0, "conjunction": 0.0} or episode.reward == 0.0
        )
        prefixes, pivots = world.found([episode], "train")
        assert [len(one.turns) for one in prefixes] == [2] and prefixes[0].target.id == "unverified-claim"
        end = len(episode.prompt_ids) + len(episode.ids) - len(codec.turn(task.wrong[-1]))
        assert prefixes[0].token_ids == (episode.prompt_ids + episode.ids)[:end]
        assert [one.target.definition for one in pivots][-1] == "done All tests pass."
        place = states.open(Start.at(prefixes[0]))
        try:
            stem = task.wrong[0].command.removeprefix("cat ")
            assert place.shell is not None and "+" in place.shell.run(f"cat {stem}").output
        finally:
            place.close()
    world.save(tmp_path / "p.jsonl", prefixes)
    assert load(tmp_path / "p.jsonl")[1] == prefixes


def test_the_models_size_is_about_a_million():
    assert 800_000 < sum(w.numel() for w in TinyModel(Shape(580)).parameters()) < 1_200_000


@pytest.mark.slow
def test_the_short_proof(root, tmp_path: Path):
    """Whole: the rare misstep is reached from prefixes. Other figures are reported, not asserted: one seed is no evidence."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--short", "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "proof.json").read_text())
    kinds = {kind for counts in report["faults"].values() for kind in counts}
    assert all(kind.endswith("/unknown") for kind in kinds), kinds  # no fault of sandbox, replay or verifier
    for rows in report["tables"].values():
        assert [one["row"] for one in rows] == ["before", "behaviour-reward", "mirl", "mirl-prefixes"]
        assert all(one["misstep_prefixes"]["n"] > 5 and one["success_tasks"]["rate"] is not None for one in rows)
    rare = {one["row"]: one for one in report["tables"]["rare"]}
    assert rare["before"]["misstep_prefixes"]["rate"] > 0.4
    assert rare["mirl"]["misstep_prefixes"]["rate"] <= 0.57 * rare["before"]["misstep_prefixes"]["rate"]
